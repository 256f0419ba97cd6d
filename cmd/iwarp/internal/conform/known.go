package conform

import (
	"fmt"
	"os"
	"strings"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/kit"
)

// readKnown reads the file of --known: the id of a case and a reason in each line, but for empty ones and those that
// begin with #.
func readKnown(name string) (map[string]string, error) {
	if name == "" {
		return nil, nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--known: %w", err)
	}
	ids := map[string]bool{}
	for _, c := range kit.Cases() {
		ids[c.ID] = true
	}
	known := map[string]string{}
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, reason := line, ""
		if i := strings.IndexAny(line, " \t"); i >= 0 {
			id, reason = line[:i], strings.TrimSpace(line[i:])
		}
		switch {
		case !ids[id]:
			return nil, fmt.Errorf("--known %s:%d: %q is no case of the kit (--list shows them all)", name, n, id)
		case reason == "":
			return nil, fmt.Errorf("--known %s:%d: %s: the reason is missing: ID REASON", name, n, id)
		case known[id] != "":
			return nil, fmt.Errorf("--known %s:%d: %s is there twice", name, n, id)
		}
		known[id] = reason
	}
	return known, nil
}
