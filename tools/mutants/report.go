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

| mutant | file | rule | ids | noticed by |
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
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", m.name, m.file, strings.ReplaceAll(m.rule, "|", `\|`), m.ids, by)
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}
