package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
)

// checkDocs finds exported names without a doc comment, in every package that
// can be imported. A group of constants or variables may share one.
func checkDocs(files []file) (findings []finding) {
	packageDoc := map[string]bool{} // by folder
	firstFile := map[string]string{}
	for _, f := range files {
		if !strings.HasSuffix(f.name, ".go") || strings.HasSuffix(f.name, "_test.go") ||
			strings.Contains(f.name, "testdata/") {
			continue
		}
		fset := token.NewFileSet()
		tree, err := parser.ParseFile(fset, f.name, f.text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			continue // the compiler says it better
		}
		dir := path.Dir(f.name)
		packageDoc[dir] = packageDoc[dir] || tree.Doc != nil
		if firstFile[dir] == "" {
			firstFile[dir] = f.name
		}
		if tree.Name.Name == "main" {
			continue
		}
		for _, name := range undocumented(tree) {
			findings = append(findings, finding{f.name, fset.Position(name.Pos()).Line, "no doc comment: " + name.Name})
		}
	}
	for dir, ok := range packageDoc {
		if !ok {
			findings = append(findings, finding{file: firstFile[dir], line: 1, what: "no package comment in " + dir})
		}
	}
	return findings
}

// undocumented lists the exported names of a file that have no comment.
func undocumented(tree *ast.File) (names []*ast.Ident) {
	add := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		for _, doc := range docs {
			if doc.Text() != "" {
				return
			}
		}
		if name.IsExported() {
			names = append(names, name)
		}
	}
	for _, decl := range tree.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) {
				add(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add(s.Name, s.Doc, d.Doc)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						add(name, s.Doc, s.Comment, d.Doc)
					}
				}
			}
		}
	}
	return names
}

// receiver is the name of a receiver's type: T of T, *T, T[P] and *T[P].
func receiver(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
