// Conformance makes docs/conformance.md: which code makes which requirement of the
// RFCs true, and which test shows it.
//
// The catalogue docs/requirements.tsv has a line for each requirement. A test
// names those that it shows in a line of its comment or body:
//
//	// Shows: MPA-4.1-01, MPA-4.1-02
//
// A requirement is shown if a test names it, not applicable if the catalogue says
// why, and open otherwise. What makes it true, a function, a constant or a type, has
// a line in its comment, or at the very place:
//
//	// Rule: MPA-4.1-01
//
// Usage:
//
//	conformance [-check] [-ran FILE] [folder]
//
// It writes the table, or with -check complains if it is not up to date. A requirement
// that is both shown, or has code, and not applicable is a complaint, and so are one
// that is shown and has no code, and a line with an id that the catalogue does not
// have. -ran takes the output of `go test -json ./...`: a test that claims a
// requirement and did not run and pass is a complaint then. Exit code 1 for complaints.
package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-iwarp/iwarp/tools/internal/claims"
)

func main() {
	checkOnly := flag.Bool("check", false, "complain if the table is not up to date, and do not write it")
	ran := flag.String("ran", "",
		"`file` with the output of go test -json: tests that claim a requirement must have passed")
	flag.Parse()
	complaints, err := run(cmp.Or(flag.Arg(0), "."), *checkOnly, *ran)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	}
	for _, c := range complaints {
		fmt.Println(c)
	}
	if len(complaints) > 0 {
		os.Exit(1)
	}
}

func run(root string, checkOnly bool, ran string) (complaints []string, err error) {
	known, err := claims.Rules(root)
	if err != nil {
		return nil, err
	}
	var rules catalogue
	for _, r := range known {
		rules = append(rules, &rule{Rule: r})
	}
	found, err := claims.Find(root)
	if err != nil {
		return nil, err
	}
	places, complaints, err := findCode(root)
	if err != nil {
		return nil, err
	}
	mutants, err := findMutants(root)
	if err != nil {
		return nil, err
	}
	complaints = append(complaints, assign(rules, found, places, mutants)...)
	complaints = append(complaints, rules.withoutCode()...)
	if ran != "" {
		results, err := readResults(ran)
		if err != nil {
			return nil, err
		}
		complaints = append(complaints, unproved(found, results)...)
	}
	table := render(rules)
	name := filepath.Join(root, "docs", "conformance.md")
	if !checkOnly {
		return complaints, os.WriteFile(name, table, 0o644)
	}
	if old, err := os.ReadFile(name); err != nil || !bytes.Equal(old, table) {
		complaints = append(complaints, "docs/conformance.md is not up to date: run go run ./tools/conformance")
	}
	return complaints, nil
}
