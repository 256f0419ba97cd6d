package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/tools/internal/claims"
)

// tree makes a folder with these files.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		full := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// A tag belongs to the declaration that it stands above or in.
func TestFindCode(t *testing.T) {
	root := tree(t, map[string]string{
		"root.go": "package r\n\n// F does it.\n//\n// Rule: A-1-01\nfunc F() {}\n",
		"low/low.go": `package low

// T is a type.
// Rule: A-1-02
type T[X any] struct{}

func (t *T[X]) Method() {
	if true {
		// Rule: A-1-01, A-1-03
		_ = t
	}
}

const (
	First = 1
	// Rule: A-1-04
	Second = 2
)
`,
		"low/low_test.go":   "package low\n\n// Rule: A-1-09\nfunc g() {}\n",
		"tools/x/x.go":      "package x\n\n// Rule: A-1-09\nfunc g() {}\n",
		"low/testdata/x.go": "not Go\n",
	})
	places, complaints, err := findCode(root)
	if err != nil || len(complaints) > 0 {
		t.Fatal(err, complaints)
	}
	var got []string
	for _, p := range places {
		got = append(got, p.id+" "+p.name+" "+p.file)
	}
	slices.Sort(got)
	want := []string{
		"A-1-01 F root.go", "A-1-01 low.T.Method low/low.go", "A-1-02 low.T low/low.go",
		"A-1-03 low.T.Method low/low.go", "A-1-04 low.Second low/low.go",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// A tag that nobody could find by its id, or that is about nothing, is a complaint.
func TestFindCodeComplains(t *testing.T) {
	for text, want := range map[string]string{
		"// Rule: A-1-01 and more\nfunc f() {}\n": "want // Rule: ID",
		"// Rule: A-1-01,A-1-02\nfunc f() {}\n":   "want // Rule: ID",
		"// Rule:A-1-01\nfunc f() {}\n":           "want // Rule: ID",
		"// Rule: A-1-01\n\nfunc f() {}\n":        "in no declaration",
		"func f() {}\n\n// Rule: A-1-01\n":        "in no declaration",
	} {
		root := tree(t, map[string]string{"x.go": "package x\n\n" + text})
		places, complaints, err := findCode(root)
		if err != nil || len(places) > 0 || len(complaints) != 1 || !strings.Contains(complaints[0], want) {
			t.Errorf("%q: %v, %q, %v, want %q", text, places, complaints, err, want)
		}
	}
}

// What is checked: every id of a tag is in the catalogue and applies, and every rule
// that is shown has code.
func TestAssignCode(t *testing.T) {
	rules := catalogue{
		{Rule: claims.Rule{ID: "A-1-01"}},
		{Rule: claims.Rule{ID: "A-1-02"}},
		{Rule: claims.Rule{ID: "A-1-03", Reason: "another layer's"}},
		{Rule: claims.Rule{ID: "A-1-04"}},
	}
	found := []claims.Claim{{ID: "A-1-01", Pkg: ".", Test: "TestA"}, {ID: "A-1-02", Pkg: ".", Test: "TestB"}}
	places := []place{
		{id: "A-1-01", name: "F", file: "f.go"},
		{id: "A-1-01", name: "F", file: "f.go"},
		{id: "A-1-01", name: "low.G", file: "low/g.go"},
		{id: "A-1-03", name: "F", file: "f.go"},
		{id: "A-1-05", name: "F", file: "f.go"},
	}
	complaints := assign(rules, found, places, map[string][]string{"A-1-01": {"broken"}})
	if len(complaints) != 2 || !strings.Contains(complaints[0], "A-1-03, which does not apply") ||
		!strings.Contains(complaints[1], "no requirement A-1-05") {
		t.Errorf("complaints %q", complaints)
	}
	if missing := rules.withoutCode(); len(missing) != 1 || !strings.Contains(missing[0], "A-1-02 is shown by TestB") {
		t.Errorf("without code: %q", missing)
	}
	if got, want := rules[0].makers(), "[`F`](../f.go), [`low.G`](../low/g.go)"; got != want {
		t.Errorf("code is %q, want %q", got, want)
	}
	if text := string(render(rules)); !strings.Contains(text, "  - tests: `TestA`\n  - mutants: `broken`\n") {
		t.Errorf("the document:\n%s", text)
	}
}

// The mutants of this module are found by their ids.
func TestFindMutants(t *testing.T) {
	byID, err := findMutants("../..")
	if err != nil || len(byID) < 100 || !slices.Contains(byID["DDP-4.1-01"], "flag-l") {
		t.Errorf("%d ids, %q, %v", len(byID), byID["DDP-4.1-01"], err)
	}
}
