// Package claims finds which test says that it shows which requirement.
//
// A test names them in a line of its comment or body:
//
//	// Shows: MPA-4.1-01, MPA-4.1-02
package claims

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Claim is a test that says it shows a requirement.
type Claim struct {
	ID   string
	Pkg  string // folder from the root, "." for the root
	Test string
	File string
	Line int
}

// Name is the test with its folder, if that is not the root.
func (c Claim) Name() string {
	if c.Pkg == "." {
		return c.Test
	}
	return c.Pkg + "." + c.Test
}

var showsLine = regexp.MustCompile(`^// Shows: (\S+(?:, \S+)*)$`)

// Find reads every test file below root.
func Find(root string) (claims []Claim, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" ||
			d.Name() == "tools") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		found, err := claimsOf(name, filepath.ToSlash(rel))
		claims = append(claims, found...)
		return err
	})
	return claims, err
}

// claimsOf finds the Shows lines of a file and the function that each belongs to:
// the one it stands in, or the next.
func claimsOf(name, rel string) (claims []Claim, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, group := range f.Comments {
		for _, comment := range group.List {
			m := showsLine.FindStringSubmatch(comment.Text)
			if m == nil {
				continue
			}
			pos := fset.Position(comment.Pos())
			test := owner(f, comment.Pos())
			if test == "" {
				return nil, fmt.Errorf("%s:%d: Shows line of no test", rel, pos.Line)
			}
			for id := range strings.SplitSeq(m[1], ", ") {
				claims = append(claims, Claim{ID: id, Pkg: path.Dir(rel), Test: test, File: rel, Line: pos.Line})
			}
		}
	}
	return claims, nil
}

// owner names the test, fuzz target or example that a comment at pos is about.
func owner(f *ast.File, pos token.Pos) string {
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || pos > fn.End() || !isTest(fn.Name.Name) {
			continue
		}
		return fn.Name.Name
	}
	return ""
}

func isTest(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example")
}
