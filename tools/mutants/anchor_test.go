package main

import (
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a mutant is anchored to may be formatted anew, commented and moved: only the
// tokens of its own declaration count.
func TestAnchor(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		full := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("root.go", "package iwarp\n\n// Bits.\nconst (\n\tA = 1\n\tB   = 1 // one\n)\n\nfunc F() int { return A }\n")
	write("low/one.go", `package low

// Do says if x { return } in its comment.
func (t *T[X]) Do(x bool) {
	// Rule: A-1-01
	if x { // why
		return
	}
	f(1,
		2,
	)
}

func Do(x bool) {
	if x {
		return
	}
}

type T[X any] struct{ n uint8 }
`)
	write("low/one_test.go", "package low\n\nfunc (t *T[X]) Do() {}\n")
	write("low/other.go", "//go:build !go1.1\n\npackage low\n\nfunc Do() {}\n")
	write("low/two.go", "package low\n\nfunc f(a, b int) {}\n")
	for _, c := range []struct{ in, old, new, want string }{
		{"iwarp.B", "B = 1", "B = 2", "\tB = 2 // one\n"},
		{"iwarp.F", "A }", "B }", "return B }"},
		{"low.T.Do", "if x { return }", "", "\t// Rule: A-1-01\n\n\tf(1,"},
		{"low.T.Do", "f(1, 2)", "f(2, 1)", "\tf(2, 1)\n}"},
		{"low.T.Do", "if x { return }; f(1, 2)", "f(1, 2); if x { return }", "// Rule: A-1-01\n\tf(1, 2)\n\tif x {\n\t\treturn\n\t}\n}"},
		{"low.Do", "if x", "if !x", "\nfunc Do(x bool) {\n\tif !x {"},
		{"low.T", "uint8", "uint16", "n uint16 }"},
		{"low.T.Do, low.Do", "if x", "if !x", "\tif !x { // why"},
		{"low.T.Do, low.Do", "if x", "if !x", "\nfunc Do(x bool) {\n\tif !x {"},
		{"low.f", "a, b int", "b, a int", "func f(b, a int)"},
	} {
		_, got, err := newSources(root).replace(c.in, c.old, c.new)
		if err == nil {
			got, err = format.Source(got)
		}
		if err != nil || !strings.Contains(string(got), c.want) {
			t.Errorf("%s: %q for %q: %v\n%s\nwant %q", c.in, c.new, c.old, err, got, c.want)
		}
	}
}
