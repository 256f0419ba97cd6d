package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-iwarp/iwarp/tools/internal/decls"
)

// A place is a declaration that says that it makes a requirement true.
type place struct {
	id   string
	name string // with the package, if that is not the root
	file string // from the root, with slashes
	line int    // of the tag
}

// skipped are the folders without code of the library.
var skipped = []string{"tools", "cmd", "testdata", "capture", "iwarptest"}

// findCode reads the tags of all library code below root. A tag that names nothing,
// or stands at no declaration, is a complaint.
func findCode(root string) (places []place, complaints []string, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || slices.Contains(skipped, d.Name())) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		p, c := tagsOf(fset, f, filepath.ToSlash(rel))
		places, complaints = append(places, p...), append(complaints, c...)
		return nil
	})
	return places, complaints, err
}

const tagWord = "// Rule:"

var tagLine = regexp.MustCompile(`^// Rule: ([A-Z0-9]+-[A-Z0-9.-]+(?:, [A-Z0-9]+-[A-Z0-9.-]+)*)$`)

// tagsOf finds the tags of a file, each with the declaration that it stands above or
// in.
func tagsOf(fset *token.FileSet, f *ast.File, rel string) (places []place, complaints []string) {
	for _, group := range f.Comments {
		for _, comment := range group.List {
			if !strings.HasPrefix(comment.Text, tagWord) {
				continue
			}
			line := fset.Position(comment.Pos()).Line
			m := tagLine.FindStringSubmatch(comment.Text)
			name := declaration(f, comment.Pos())
			switch {
			case m == nil:
				complaints = append(complaints, fmt.Sprintf("%s:%d: want // Rule: ID, ID", rel, line))
				continue
			case name == "":
				complaints = append(complaints, fmt.Sprintf("%s:%d: a Rule line above or in no declaration", rel, line))
				continue
			}
			if dir := path.Dir(rel); dir != "." {
				name = path.Base(dir) + "." + name
			}
			for id := range strings.SplitSeq(m[1], ", ") {
				places = append(places, place{id, name, rel, line})
			}
		}
	}
	return places, complaints
}

// declaration names what a comment at pos stands above, as its documentation, or in.
func declaration(f *ast.File, pos token.Pos) string {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if within(pos, d.Doc, d) {
				return decls.Receiver(d) + d.Name.Name
			}
		case *ast.GenDecl:
			if within(pos, d.Doc, d) {
				return specAt(d, pos)
			}
		}
	}
	return ""
}

// within reports whether pos is in a node or in its documentation.
func within(pos token.Pos, doc *ast.CommentGroup, n ast.Node) bool {
	start := n.Pos()
	if doc != nil {
		start = doc.Pos()
	}
	return start <= pos && pos <= n.End()
}

// specAt names the constant, variable or type of a declaration that pos is at: the
// first that does not end before it.
func specAt(d *ast.GenDecl, pos token.Pos) string {
	for _, s := range d.Specs {
		if pos > s.End() {
			continue
		}
		switch s := s.(type) {
		case *ast.TypeSpec:
			return s.Name.Name
		case *ast.ValueSpec:
			return s.Names[0].Name
		}
	}
	return ""
}

// findMutants reads which mutant of tools/mutants is about which requirement.
func findMutants(root string) (byID map[string][]string, err error) {
	byID = make(map[string][]string)
	files, err := filepath.Glob(filepath.Join(root, "tools", "mutants", "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return nil, err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			mutant, ids := textField(lit, "name"), textField(lit, "ids")
			if mutant == "" || ids == "" {
				return true
			}
			for id := range strings.SplitSeq(ids, ", ") {
				byID[id] = append(byID[id], mutant)
			}
			return true
		})
	}
	return byID, nil
}

// textField is a string in a composite literal, empty if the field is not there.
func textField(lit *ast.CompositeLit, field string) string {
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, ok := kv.Key.(*ast.Ident)
		value, isText := kv.Value.(*ast.BasicLit)
		if !ok || key.Name != field || !isText || value.Kind != token.STRING {
			continue
		}
		if s, err := strconv.Unquote(value.Value); err == nil {
			return s
		}
	}
	return ""
}
