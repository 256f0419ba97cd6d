package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A case is proved best by a mutant of its own rule, and then by the one that the
// fewest cases notice.
func TestBestMutant(t *testing.T) {
	c := &kitCase{rules: []string{"X-1", "R07"}}
	foreign := &mutant{ids: "X-2", cases: 1}
	wide := &mutant{ids: "X-3, X-1", cases: 50}
	narrow := &mutant{ids: "X-1", cases: 5}
	for _, x := range []struct {
		caught []*mutant
		want   *mutant
	}{
		{caught: nil, want: nil},
		{caught: []*mutant{foreign}, want: foreign},
		{caught: []*mutant{foreign, wide}, want: wide},
		{caught: []*mutant{wide, foreign, narrow}, want: narrow},
		{caught: []*mutant{narrow, wide}, want: narrow},
	} {
		c.caught = x.caught
		if got := c.best(); got != x.want {
			t.Errorf("%v: %+v", x.caught, got)
		}
	}
}

// The mutants for the kit are run by hand. That they still apply is looked at here.
func TestKitMutantsApply(t *testing.T) {
	all, err := load(&options{root: "../..", kit: true, pattern: regexp.MustCompile("")})
	if err != nil {
		t.Fatal(err)
	}
	rules := len(table(false)) - len(libraryMutants)
	if n := len(all) - rules; n != len(kitMutants) {
		t.Errorf("%d mutants for the kit alone, want %d", n, len(kitMutants))
	}
}

// What the kit has printed before it was killed counts.
func TestReadKit(t *testing.T) {
	r := readKit(strings.NewReader(`{"event":"result","id":"a/b","status":"fail","reason":"why","rules":["X-1"],"rule":"words"}
{"event":"summary","cases":1}
{"event":"result","id":"a/c","sta`))
	if x := r["a/b"]; len(r) != 1 || x.Status != "fail" || x.Reason != "why" || x.Rule != "words" || len(x.Rules) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestKitReport(t *testing.T) {
	m := &mutant{name: "broken", ids: "X-1", cases: 3}
	cases := []*kitCase{
		{id: "a/own", role: "initiator", rules: []string{"X-1"}, caught: []*mutant{m}},
		{id: "a/own", role: "responder", rules: []string{"X-1"}, caught: []*mutant{m}},
		{id: "a/other", role: "responder", rules: []string{"X-2"}, caught: []*mutant{m}},
		{id: "a/open", role: "initiator", rule: "this | that"},
	}
	name := filepath.Join(t.TempDir(), "report.md")
	run := origin{commit: "abc", day: time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC), took: time.Minute}
	if err := writeKitReport(name, []*mutant{m}, cases, run); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{
		"Of 4 cases, counted once for each role of the kit, 2 fail",
		"1 against one of another rule only, and 1 against none",
		"It ran on 2000-01-02, on commit abc, and took 1m0s.",
		"- `a/open` (initiator): this | that\n",
		"- **broken**: 3 cases fail\n  - listed here, as initiator: a/own\n  - listed here, as responder: a/own " +
			"a/other*\n",
	} {
		if !strings.Contains(text, want) && !strings.Contains(strings.ReplaceAll(text, "\n", " "), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}
