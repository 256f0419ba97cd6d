package proxy

import (
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// The command lines of docs/proxy.md and of the help are right.
func TestExamples(t *testing.T) {
	doc, err := os.ReadFile("../../../../docs/proxy.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(doc) + new(Command).Help()) {
		line, _, _ = strings.Cut(line, "#")
		if !strings.HasPrefix(strings.TrimSpace(line), "iwarp proxy --listen") {
			continue
		}
		if i := strings.Index(line, "     where the"); i >= 0 { // a remark of the help
			line = line[:i]
		}
		n++
		parser, err := kong.New(new(Command))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(strings.Fields(line)[2:]); err != nil {
			t.Errorf("%s: %v", strings.TrimSpace(line), err)
		}
	}
	if n < 10 {
		t.Errorf("%d examples: are they looked for in the right way?", n)
	}
}
