package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp/tools/internal/fill"
)

// An origin is the run that a report is of.
type origin struct {
	commit string // that was tested, with "+" if the tree was not clean
	day    time.Time
	took   time.Duration
}

func (r origin) String() string {
	return fmt.Sprintf("It ran on %s, on commit %s, and took %v.", r.day.Format(time.DateOnly), r.commit, r.took)
}

// writeReport makes the Markdown list of a run.
func writeReport(name string, mutants []*mutant, run origin) error {
	var b bytes.Buffer
	killed := 0
	for _, m := range mutants {
		if m.killed() {
			killed++
		}
	}
	b.WriteString("# Mutants\n\n")
	b.WriteString(fill.Text("", "",
		fmt.Sprintf("Made by `go run ./tools/mutants -report docs/mutants.md`; do not edit. "+
			"A mutant breaks one rule, and the tests that claim the rule must notice: see "+
			"[tools/mutants](../tools/mutants). "+
			"%d mutants, %d noticed. %v", len(mutants), killed, run)))
	b.WriteString("\n")
	for _, m := range mutants {
		by := "Noticed by **nobody**."
		if m.killed() {
			by = "Noticed by `" + m.killers[0] + "`"
			if n := len(m.killers) - 1; n > 0 {
				by += fmt.Sprintf(" and %d more", n)
			}
			by += "."
		}
		rule := m.rule
		if m.ids != "" {
			rule += " (" + m.ids + ")"
		}
		b.WriteString(fill.Text("- ", "  ", fmt.Sprintf("**%s** in `%s`. %s. %s", m.name, m.in, rule, by)))
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// writeKitReport makes the report of -conform.
func writeKitReport(name string, mutants []*mutant, cases []*kitCase, run origin) error {
	proved := make(map[*mutant][]*kitCase)
	var open []*kitCase
	own := 0
	for _, c := range cases {
		m := c.best()
		if m == nil {
			open = append(open, c)
			continue
		}
		if c.own(m) {
			own++
		}
		proved[m] = append(proved[m], c)
	}
	var b bytes.Buffer
	b.WriteString("# Cases of the kit that can fail\n\n")
	b.WriteString(fill.Text("", "",
		fmt.Sprintf("Made by `go run ./tools/mutants -conform -report docs/conform-mutants.md`; do not edit. "+
			"Each of %d mutants breaks one rule of our own endpoint, which is then tested by `iwarp conform`: those "+
			"of "+
			"[mutants.md](mutants.md), and those for the kit alone, named kit-, of "+
			"[mutants_kit.go](../tools/mutants/mutants_kit.go). "+
			"A case that fails against a mutant, twice, while a good connection with it works, has shown that it can "+
			"fail. "+
			"Of %d cases, counted once for each role of the kit, %d fail against a mutant of a rule that they name, "+
			"%d against one of another rule only, and %d against none. %v",
			len(mutants), len(cases), own, len(cases)-own-len(open), len(open), run)))
	b.WriteString("\n" + fill.Text("", "",
		"A case is listed with the mutant that shows most: one of a rule that the case names, "+
			"and of these the one against which the fewest cases fail. * marks the cases that name another rule."))
	if len(open) > 0 {
		b.WriteString("\n## Not shown to fail\n\n")
		for _, c := range open {
			b.WriteString(fill.Text("- ", "  ", fmt.Sprintf("`%s` (%s): %s", c.id, c.role, c.rule)))
		}
	}
	b.WriteString("\n## Shown to fail\n\n")
	for _, m := range mutants {
		if len(proved[m]) == 0 {
			continue
		}
		roles := map[string][]string{}
		for _, c := range proved[m] {
			mark := ""
			if !c.own(m) {
				mark = "*"
			}
			roles[c.role] = append(roles[c.role], c.id+mark)
		}
		fmt.Fprintf(&b, "- **%s**: %s\n", m.name, count(m.cases, "case fails", "cases fail"))
		for _, role := range []string{"initiator", "responder"} {
			if len(roles[role]) > 0 {
				b.WriteString(fill.Text("  - ", "    ", "listed here, as "+role+": "+strings.Join(roles[role], " ")))
			}
		}
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// originOf describes a run that began at start and ends now.
func originOf(root string, start time.Time) origin {
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		out, _ := cmd.Output() // a copy without its history has none
		return strings.TrimSpace(string(out))
	}
	commit := cmp.Or(git("rev-parse", "--short", "HEAD"), "unknown")
	if git("status", "--porcelain", "--untracked-files=no") != "" {
		commit += "+"
	}
	return origin{commit: commit, day: start.UTC(), took: time.Since(start).Round(time.Second)}
}

// best returns the mutant that shows most of the case.
func (c *kitCase) best() *mutant {
	var best *mutant
	for _, m := range c.caught {
		if best == nil || c.own(m) && !c.own(best) || c.own(m) == c.own(best) && m.cases < best.cases {
			best = m
		}
	}
	return best
}
