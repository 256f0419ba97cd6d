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
		{in: "iwarp.B", old: "B = 1", new: "B = 2", want: "\tB = 2 // one\n"},
		{in: "iwarp.F", old: "A }", new: "B }", want: "return B }"},
		{in: "low.T.Do", old: "if x { return }", new: "", want: "\t// Rule: A-1-01\n\n\tf(1,"},
		{in: "low.T.Do", old: "f(1, 2)", new: "f(2, 1)", want: "\tf(2, 1)\n}"},
		{
			in: "low.T.Do", old: "if x { return }; f(1, 2)", new: "f(1, 2); if x { return }",
			want: "// Rule: A-1-01\n\tf(1, 2)\n\tif x {\n\t\treturn\n\t}\n}",
		},
		{in: "low.Do", old: "if x", new: "if !x", want: "\nfunc Do(x bool) {\n\tif !x {"},
		{in: "low.T", old: "uint8", new: "uint16", want: "n uint16 }"},
		{in: "low.T.Do, low.Do", old: "if x", new: "if !x", want: "\tif !x { // why"},
		{in: "low.T.Do, low.Do", old: "if x", new: "if !x", want: "\nfunc Do(x bool) {\n\tif !x {"},
		{in: "low.f", old: "a, b int", new: "b, a int", want: "func f(b, a int)"},
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
