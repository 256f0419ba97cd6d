package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-iwarp/iwarp/tools/internal/claims"
	"github.com/go-iwarp/iwarp/tools/internal/fill"
)

// A rule is a line of the catalogue, and where it is made true and shown.
type rule struct {
	claims.Rule
	tests   []string
	code    []place
	mutants []string
}

func (r *rule) state() string {
	switch {
	case len(r.tests) > 0:
		return "shown"
	case r.Reason != "":
		return "not applicable"
	}
	return "open"
}

// catalogue keeps the order of the file.
type catalogue []*rule

// withoutCode lists the rules that are shown and that no code says it makes true.
func (rules catalogue) withoutCode() (complaints []string) {
	for _, r := range rules {
		if len(r.tests) > 0 && len(r.code) == 0 {
			complaints = append(complaints,
				fmt.Sprintf("docs/requirements.tsv: %s is shown by %s, and no code has // Rule: %s", r.ID, r.tests[0],
					r.ID))
		}
	}
	return complaints
}

// assign gives each rule its tests, its code and its mutants.
func assign(rules catalogue, found []claims.Claim, places []place, mutants map[string][]string) (complaints []string) {
	byID := make(map[string]*rule, len(rules))
	for _, r := range rules {
		if byID[r.ID] != nil {
			complaints = append(complaints, "docs/requirements.tsv: two lines for "+r.ID)
		}
		byID[r.ID] = r
		r.mutants = mutants[r.ID]
	}
	for _, p := range places {
		r := byID[p.id]
		switch {
		case r == nil:
			complaints = append(complaints, fmt.Sprintf("%s:%d: no requirement %s", p.file, p.line, p.id))
		case r.Reason != "":
			complaints = append(complaints,
				fmt.Sprintf("%s:%d: %s has code for %s, which does not apply (%s)", p.file, p.line, p.name, p.id,
					r.Reason))
		case !slices.ContainsFunc(r.code, func(q place) bool { return q.name == p.name }):
			r.code = append(r.code, p)
		}
	}
	for _, c := range found {
		r := byID[c.ID]
		if r == nil {
			complaints = append(complaints, fmt.Sprintf("%s:%d: no requirement %s", c.File, c.Line, c.ID))
			continue
		}
		if r.Reason != "" {
			complaints = append(complaints,
				fmt.Sprintf("%s:%d: %s shows %s, which does not apply (%s)", c.File, c.Line, c.Test, c.ID, r.Reason))
		}
		if !slices.Contains(r.tests, c.Name()) {
			r.tests = append(r.tests, c.Name())
		}
	}
	return complaints
}

// render makes the document: by RFC and section, in the order of the catalogue.
func render(rules catalogue) []byte {
	var b bytes.Buffer
	b.WriteString("# Conformance\n\n" + fill.Text("", "", "Made by `go run ./tools/conformance` from "+
		"[requirements.tsv](requirements.tsv), the code and the tests; do not edit.") + "\n")
	b.WriteString("| layer | shown | of these with code | not applicable | open |\n| --- | --- | --- | --- | --- |\n")
	counts := make(map[string]map[string]int)
	for _, r := range rules {
		if counts[r.Layer] == nil {
			counts[r.Layer] = make(map[string]int)
		}
		counts[r.Layer][r.state()]++
		if r.state() == "shown" && len(r.code) > 0 {
			counts[r.Layer]["code"]++
		}
	}
	for _, layer := range slices.Sorted(maps.Keys(counts)) {
		c := counts[layer]
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", layer, c["shown"], c["code"], c["not applicable"], c["open"])
	}
	rfc, section := "", ""
	for _, r := range rules {
		if r.RFC != rfc {
			rfc, section = r.RFC, ""
			fmt.Fprintf(&b, "\n## RFC %s\n", rfc)
		}
		if r.Section != section {
			section = r.Section
			fmt.Fprintf(&b, "\n### [RFC %s, %s](https://www.rfc-editor.org/rfc/rfc%s#%s)\n\n", rfc, title(section), rfc,
				anchor(section))
		}
		r.render(&b)
	}
	return b.Bytes()
}

// render makes the rule's item: its text, and what stands behind it.
func (r *rule) render(b *bytes.Buffer) {
	b.WriteString(fill.Text("- ", "  ", fmt.Sprintf("**%s** (%s, %s): %s", r.ID, r.Level, r.Layer, r.Text)))
	for _, line := range []struct{ what, list string }{
		{what: "code", list: r.makers()},
		{what: "tests", list: few(slices.Sorted(slices.Values(r.tests)))},
		{what: "mutants", list: few(r.mutants)},
		{what: "not applicable", list: r.Reason},
	} {
		if line.list != "" {
			b.WriteString(fill.Text("  - ", "    ", line.what+": "+line.list))
		}
	}
	if r.state() == "open" {
		b.WriteString("  - open\n")
	}
}

// title is how a heading names a section.
func title(section string) string {
	if section != "" && section[0] >= 'A' && section[0] <= 'Z' {
		return "appendix " + section
	}
	return "section " + section
}

// anchor is the fragment that the RFC editor's pages have for a section.
func anchor(section string) string {
	if section != "" && section[0] >= 'A' && section[0] <= 'Z' {
		return "appendix-" + section
	}
	return "section-" + section
}

// makers links the code to its file. A line number would change with every other
// change of the file: the tag is found by its id.
func (r *rule) makers() string {
	var links []string
	for _, p := range r.code {
		links = append(links, fmt.Sprintf("[`%s`](../%s)", p.name, p.file))
	}
	return strings.Join(links, ", ")
}

// few names some of many.
func few(names []string) string {
	const most = 4
	if len(names) == 0 {
		return ""
	}
	more := ""
	if n := len(names) - most; n > 0 {
		names, more = names[:most], fmt.Sprintf(" and %d more", n)
	}
	return "`" + strings.Join(names, "`, `") + "`" + more
}
