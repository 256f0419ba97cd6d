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
	if err := os.Mkdir(filepath.Join(root, "low"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a.go": "func F() { g(); h(); h() }", "b.go": "func K() { g() }"} {
		if err := os.WriteFile(filepath.Join(root, "low", name), []byte("package low\n\n"+text+"\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	rules := map[string]string{"X-1": "a rule"}
	found := []claims.Claim{{ID: "X-1", Pkg: "ddp", Test: "TestX"}}
	for _, c := range []struct {
		m    mutant
		want string
	}{
		{m: mutant{name: "good", ids: "X-1", in: "low.F", old: "g()", new: "k()"}, want: ""},
		{
			m:    mutant{name: "stale", ids: "X-1", in: "low.F", old: "gone()"},
			want: "stale: low.F: its text is there 0 times",
		},
		{
			m:    mutant{name: "unclear", ids: "X-1", in: "low.F", old: "h()"},
			want: "unclear: low.F: its text is there 2 times",
		},
		{m: mutant{name: "empty", ids: "X-1", in: "low.F"}, want: "empty: low.F: it has no text"},
		{m: mutant{name: "broken", ids: "X-1", in: "low.F", old: "g()", new: "g("}, want: "broken: low.F: low/a.go:3"},
		{m: mutant{name: "lost", ids: "X-1", in: "low.G", old: "x"}, want: "lost: low.G: package low has no G"},
		{
			m:    mutant{name: "spread", ids: "X-1", in: "low.F, low.K", old: "g()"},
			want: "spread: low.F, low.K: low.K is in low/b.go, the one before in low/a.go",
		},
		{m: mutant{name: "nowhere", ids: "X-1", in: "high.F", old: "x"}, want: "nowhere: high.F: "},
		{
			m:    mutant{name: "nameless", ids: "X-1", in: "low", old: "x"},
			want: `nameless: low: "low" is not package.Name`,
		},
		{m: mutant{name: "ruleless", ids: "X-1, X-2", in: "low.F", old: "g()"}, want: `ruleless: no requirement "X-2"`},
		{m: mutant{name: "idle", in: "low.F", old: "g()"}, want: "idle: want ids, or what it breaks"},
		{
			m:    mutant{name: "unclaimed", ids: "X-2", in: "low.F", old: "g()"},
			want: "unclaimed: no test claims any of X-2",
		},
	} {
		err := prepare(root, []*mutant{&c.m}, rules, found)
		if c.want == "" {
			if err != nil || !strings.Contains(string(c.m.mutated), "{ k(); h(); h() }") || c.m.file != "low/a.go" ||
				c.m.rule != "a rule" || len(c.m.byPkg["ddp"]) != 1 {
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

// Code that a mutant breaks makes the mutant's rule true, and says so: in or right above
// the declaration is a Rule line with one of the ids.
func TestBrokenCodeIsTagged(t *testing.T) {
	code := newSources("../..")
	for _, m := range table(false) {
		tagged := m.ids == ""
		for in := range strings.SplitSeq(m.in, ", ") {
			d, err := code.find(in)
			if err != nil {
				t.Fatal(err)
			}
			above := strings.LastIndex(string(d.src[:d.from]), "\n\n") + 1
			for line := range strings.Lines(string(d.src[above:d.to])) {
				_, ids, ok := strings.Cut(line, "// Rule: ")
				for id := range splitIDs(m.ids) {
					tagged = tagged || ok && strings.Contains(ids, id)
				}
			}
		}
		if !tagged {
			t.Errorf("%s: %s has no Rule line with any of %s", m.name, m.in, m.ids)
		}
	}
}
