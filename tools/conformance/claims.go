package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-iwarp/iwarp/tools/internal/claims"
)

// readResults reads the output of go test -json: which tests passed, by package
// path's end and name.
func readResults(name string) (map[string]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	results := make(map[string]string)
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadBytes('\n')
		var event struct{ Action, Package, Test string }
		if json.Unmarshal(line, &event) == nil && event.Test != "" && !strings.Contains(event.Test, "/") {
			switch event.Action {
			case "pass", "fail", "skip":
				results[folder(event.Package)+"."+event.Test] = event.Action
			}
		}
		if errors.Is(err, io.EOF) {
			return results, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

const module = "github.com/go-iwarp/iwarp"

func folder(pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}

// unproved complains of claims whose test did not run and pass. A test that only
// some machines can run may be skipped: it says why itself.
func unproved(found []claims.Claim, results map[string]string) (complaints []string) {
	seen := make(map[string]bool)
	for _, c := range found {
		key := c.Pkg + "." + c.Test
		if seen[key] {
			continue
		}
		seen[key] = true
		switch results[key] {
		case "pass", "skip":
		case "fail":
			complaints = append(complaints, fmt.Sprintf("%s:%d: %s claims %s and failed", c.File, c.Line, c.Test, c.ID))
		default:
			complaints = append(complaints,
				fmt.Sprintf("%s:%d: %s claims %s and did not run", c.File, c.Line, c.Test, c.ID))
		}
	}
	return complaints
}
