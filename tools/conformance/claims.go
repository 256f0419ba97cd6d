package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// A claim is a test that says it shows a requirement.
type claim struct {
	id   string
	pkg  string // folder from the root, "." for the root
	test string
	file string
	line int
}

func (c claim) name() string {
	if c.pkg == "." {
		return c.test
	}
	return c.pkg + "." + c.test
}

var showsLine = regexp.MustCompile(`^// Shows: (\S+(?:, \S+)*)$`)

// findClaims reads every test file below root.
func findClaims(root string) (claims []claim, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "tools") {
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
func claimsOf(name, rel string) (claims []claim, err error) {
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
				claims = append(claims, claim{id: id, pkg: path.Dir(rel), test: test, file: rel, line: pos.Line})
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

// readResults reads the output of go test -json: which tests passed, by package
// path's end and name.
func readResults(name string) (map[string]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	results := make(map[string]string)
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadBytes('\n')
		var event struct{ Action, Package, Test string }
		if json.Unmarshal(line, &event) == nil && event.Test != "" && !strings.Contains(event.Test, "/") {
			switch event.Action {
			case "pass", "fail", "skip":
				results[folder(event.Package)+"."+event.Test] = event.Action
			}
		}
		if errors.Is(err, io.EOF) {
			return results, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

const module = "github.com/go-iwarp/iwarp"

func folder(pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}

// unproved complains of claims whose test did not run and pass. A test that only
// some machines can run may be skipped: it says why itself.
func unproved(claims []claim, results map[string]string) (complaints []string) {
	seen := make(map[string]bool)
	for _, c := range claims {
		key := c.pkg + "." + c.test
		if seen[key] {
			continue
		}
		seen[key] = true
		switch results[key] {
		case "pass", "skip":
		case "fail":
			complaints = append(complaints, fmt.Sprintf("%s:%d: %s claims %s and failed", c.file, c.line, c.test, c.id))
		default:
			complaints = append(complaints, fmt.Sprintf("%s:%d: %s claims %s and did not run", c.file, c.line, c.test, c.id))
		}
	}
	return complaints
}
