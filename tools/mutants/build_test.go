package main

import (
	"errors"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// A mutant that no longer builds breaks nothing. Those for the kit are run by hand, so
// that nobody would see it for long: here each is checked as the compiler does, but for
// the functions of other files.
func TestMutantsBuild(t *testing.T) {
	var all []*mutant
	for _, kit := range []bool{true, false} {
		some, err := load(&options{root: "../..", kit: kit, pattern: regexp.MustCompile("")})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range some {
			if kit || m.ids == "" { // the others are the same
				all = append(all, m)
			}
		}
	}
	c := newChecker(t)
	for _, m := range all {
		if err := c.check(m); err != nil {
			t.Errorf("%s: %s: %v", m.name, m.in, err)
		}
	}
	bad := *all[0]
	bad.mutated = append(bad.mutated[:len(bad.mutated):len(bad.mutated)], "\nfunc extra() { unknown() }\n"...)
	if c.check(&bad) == nil {
		t.Error("a file with an unknown name is found good")
	}
}

// checker checks the types of packages of which one file is another.
type checker struct {
	fset     *token.FileSet
	conf     types.Config
	packages map[string]map[string]*ast.File // by folder and name: declarations without bodies
}

func newChecker(t *testing.T) *checker {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}",
		"./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[name] = file
	}
	c := &checker{fset: token.NewFileSet(), packages: make(map[string]map[string]*ast.File)}
	c.conf.Sizes = types.SizesFor("gc", runtime.GOARCH)
	c.conf.Importer = importer.ForCompiler(c.fset, "gc",
		func(name string) (io.ReadCloser, error) { return os.Open(exports[name]) })
	return c
}

func (c *checker) check(m *mutant) error {
	dir := path.Dir(m.file)
	if c.packages[dir] == nil {
		if err := c.parse(dir); err != nil {
			return err
		}
	}
	own, err := parser.ParseFile(c.fset, m.name, m.mutated, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	files := []*ast.File{own}
	for name, f := range c.packages[dir] {
		if name != path.Base(m.file) {
			files = append(files, f)
		}
	}
	conf := c.conf
	var found []error
	conf.Error = func(err error) {
		var terr types.Error
		// the others have imports for bodies that are not there
		if errors.As(err, &terr) && c.fset.Position(terr.Pos).Filename == m.name {
			found = append(found, err)
		}
	}
	_, _ = conf.Check(dir, c.fset, files, nil) // Error has been told
	return errors.Join(found...)
}

func (c *checker) parse(dir string) error {
	c.packages[dir] = make(map[string]*ast.File)
	folder := filepath.Join("../..", filepath.FromSlash(dir))
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return err
	}
	for _, full := range names {
		name := filepath.Base(full)
		if ok, err := build.Default.MatchFile(folder, name); err != nil || !ok || strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(c.fset, full, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				fn.Body = nil
			}
		}
		c.packages[dir][name] = f
	}
	return nil
}
