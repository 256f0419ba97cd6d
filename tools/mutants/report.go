package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"
)

// writeReport makes the Markdown table of a run.
func writeReport(name string, mutants []*mutant, took time.Duration) error {
	var b bytes.Buffer
	killed := 0
	for _, m := range mutants {
		if m.killed() {
			killed++
		}
	}
	fmt.Fprintf(&b, `# Mutants

Made by `+"`go run ./tools/mutants -report docs/mutants.md`"+`; do not edit. A mutant breaks one rule of the engines, and the tests
that claim the rule must notice: see [tools/mutants](../tools/mutants). %d mutants, %d noticed, in %v.

| mutant | in | rule | ids | noticed by |
| --- | --- | --- | --- | --- |
`, len(mutants), killed, took)
	for _, m := range mutants {
		by := "**nobody**"
		if m.killed() {
			by = "`" + m.killers[0] + "`"
			if n := len(m.killers) - 1; n > 0 {
				by += fmt.Sprintf(" and %d more", n)
			}
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", m.name, m.in, cell(m.rule), m.ids, by)
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// writeKitReport makes the report of -conform.
func writeKitReport(name string, mutants []*mutant, cases []*kitCase, took time.Duration) error {
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
	fmt.Fprintf(&b, `# Cases of the kit that can fail

Made by `+"`go run ./tools/mutants -conform -report docs/conform-mutants.md`"+`; do not edit. Each of %d mutants breaks one rule of our own
endpoint, which is then tested by `+"`iwarp conform`"+`: those of [mutants.md](mutants.md), and those for the kit alone, named kit-, of [mutants_kit.go](../tools/mutants/mutants_kit.go). A case that fails against a mutant,
twice, while a good connection with it works, has shown that it can fail. Of %d cases, counted once for each role of the kit, %d fail against a mutant of a rule that they name,
%d against one of another rule only, and %d against none. It took %v.

A case stands with the mutant that shows most: of a rule that the case names, then the one against which the fewest cases fail. * marks the cases
whose own rule it is not.

`, len(mutants), len(cases), own, len(cases)-own-len(open), len(open), took)
	if len(open) > 0 {
		b.WriteString("## Not shown to fail\n\n| case | role | rule |\n| --- | --- | --- |\n")
		for _, c := range open {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.id, c.role, cell(c.rule))
		}
		b.WriteString("\n")
	}
	b.WriteString("## Shown to fail\n\n| mutant | cases that fail | of which stand here: as initiator | as responder |\n| --- | --- | --- | --- |\n")
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
		fmt.Fprintf(&b, "| %s | %d | %s | %s |\n", m.name, m.cases, strings.Join(roles["initiator"], " "), strings.Join(roles["responder"], " "))
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
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

// cell is text for a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
