package iwarp_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/reports.md has a line for each entry, and names tests that exist.
func TestReportsNameTests(t *testing.T) {
	doc, err := os.ReadFile("docs/reports.md")
	if os.IsNotExist(err) {
		t.Skip("the module without its documents")
	}
	check(t, "docs/reports.md", err)
	known := map[string]bool{}
	decl := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	for _, dir := range []string{
		".", "mpa", "ddp", "rdmap", "iwarptest", "protocol", "internal/vectors", "cmd/iwarp/internal/demo",
		"cmd/iwarp/internal/inspect/analysis",
	} {
		files, err := os.ReadDir(dir)
		check(t, dir, err)
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), "_test.go") {
				continue
			}
			src, err := os.ReadFile(dir + "/" + f.Name())
			check(t, f.Name(), err)
			for _, m := range decl.FindAllSubmatch(src, -1) {
				name := string(m[1])
				if dir != "." {
					name = filepath.Base(dir) + "." + name
				}
				known[name] = true
			}
		}
	}
	entries := 0
	for line := range strings.Lines(string(doc)) {
		if !strings.HasPrefix(line, "| R") {
			continue
		}
		entries++
		names := regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(line[strings.LastIndex(strings.TrimRight(line,
			" |\n"),
			"|"):],
			-1)
		for _, n := range names {
			if strings.Contains(n[1], "Test") && !known[n[1]] || strings.Contains(n[1], "Fuzz") && !known[n[1]] {
				t.Errorf("no test %s: %s", n[1], line)
			}
		}
	}
	if entries != 65 {
		t.Errorf("%d entries, want 65", entries)
	}
}
