package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/tools/internal/claims"
)

// A mutant that does not apply, or that no test is for, is named with the reason.
func TestPrepareComplains(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("package a // twice twice\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rules := map[string]string{"X-1": "a rule"}
	found := []claims.Claim{{ID: "X-1", Pkg: "ddp", Test: "TestX"}}
	for _, c := range []struct {
		m    mutant
		want string
	}{
		{mutant{name: "good", ids: "X-1", file: "a.go", old: "package", new: "pack"}, ""},
		{mutant{name: "stale", ids: "X-1", file: "a.go", old: "gone"}, "stale: a.go has its text 0 times"},
		{mutant{name: "unclear", ids: "X-1", file: "a.go", old: "twice"}, "unclear: a.go has its text 2 times"},
		{mutant{name: "lost", ids: "X-1", file: "b.go", old: "x"}, "lost: "},
		{mutant{name: "ruleless", ids: "X-1, X-2", file: "a.go", old: "package"}, `ruleless: no requirement "X-2"`},
		{mutant{name: "unclaimed", ids: "X-2", file: "a.go", old: "package"}, "unclaimed: no test claims any of X-2"},
	} {
		err := prepare(root, []*mutant{&c.m}, rules, found)
		if c.want == "" {
			if err != nil || string(c.m.mutated) != "pack a // twice twice\n" || c.m.rule != "a rule" || len(c.m.byPkg["ddp"]) != 1 {
				t.Errorf("%s: %v, %+v", c.m.name, err, c.m)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.m.name, err, c.want)
		}
	}
}

// The tests of the mutant's own package come first, those of the root last.
func TestOrderOfPackages(t *testing.T) {
	m := mutant{file: "mpa/framer.go", byPkg: map[string][]string{".": nil, "ddp": nil, "mpa": nil}}
	if got := strings.Join(m.packages(), " "); got != "mpa ddp ." {
		t.Error(got)
	}
}
