package claims

import (
	"encoding/csv"
	"os"
	"path/filepath"
)

// Rule is a line of the catalogue, docs/requirements.tsv.
type Rule struct {
	ID, RFC, Section, Level, Layer, Text string
	Reason                               string // why it does not apply; empty if it does
}

// Rules reads the catalogue below root, in its order.
func Rules(root string) ([]Rule, error) {
	f, err := os.Open(filepath.Join(root, "docs", "requirements.tsv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.LazyQuotes = '\t', true
	lines, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	var rules []Rule
	for _, l := range lines[1:] {
		rules = append(rules,
			Rule{ID: l[0], RFC: l[1], Section: l[2], Level: l[3], Layer: l[4], Text: l[5], Reason: l[6]})
	}
	return rules, nil
}
