package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	maxColumns = 120
	tabColumns = 4
	// longWord is the length of a word that makes its line too long by itself.
	longWord = 80
)

var (
	structTag = regexp.MustCompile("`\\w+:\"")
	aLongWord = regexp.MustCompile(fmt.Sprintf(`\S{%d}`, longWord))
)

// checkWidth finds lines that are longer than they may be.
func checkWidth(files []file) (findings []finding) {
	for _, f := range files {
		look := func(n int, line string) {
			if c := columns(line); c > maxColumns && !aLongWord.MatchString(line) {
				findings = append(findings,
					finding{f.name, n, fmt.Sprintf("a line of %d columns: at most %d", c, maxColumns)})
			}
		}
		switch {
		case strings.HasSuffix(f.name, ".go"):
			eachLine(f, func(n int, line string) {
				if !structTag.MatchString(line) {
					look(n, line)
				}
			})
		case strings.HasSuffix(f.name, ".md"):
			eachProse(f, func(n int, line string) {
				if !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "    ") {
					look(n, line)
				}
			})
		}
	}
	return findings
}

// columns is the width of a line on a screen.
func columns(line string) int {
	tabs := strings.Count(line, "\t")
	return utf8.RuneCountInString(line) + tabs*(tabColumns-1)
}
