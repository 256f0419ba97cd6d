package main

import (
	"path"
	"regexp"
	"strings"
)

var (
	lintFiles   = regexp.MustCompile(`^ {10}files: \[(.*)\]`)
	lintPattern = regexp.MustCompile(`"!?\$\{base-path\}/([^"]+)"`)
)

// checkLint finds patterns in the depguard rules of .golangci.yml that match no file:
// such a rule guards nothing, as after a folder was moved.
func checkLint(files []file) (findings []finding) {
	for _, f := range files {
		if path.Base(f.name) != ".golangci.yml" {
			continue
		}
		eachLine(f, func(n int, line string) {
			list := lintFiles.FindStringSubmatch(line)
			if list == nil {
				return
			}
			for _, m := range lintPattern.FindAllStringSubmatch(list[1], -1) {
				if !matchesAny(m[1], strings.Contains(list[1], `"!$test"`), files) {
					findings = append(findings,
						finding{f.name, n, "the pattern of a lint rule matches no file: " + m[1]})
				}
			}
		})
	}
	return findings
}

// matchesAny reports whether a file's name fits the pattern, in which * stands for
// anything within a folder's name and ** for anything. noTests leaves tests out.
func matchesAny(pattern string, noTests bool, files []file) bool {
	text := regexp.QuoteMeta(pattern)
	text = strings.ReplaceAll(text, `\*\*`, `.*`)
	text = strings.ReplaceAll(text, `\*`, `[^/]*`)
	re := regexp.MustCompile(`^` + text + `$`)
	for _, f := range files {
		if re.MatchString(f.name) && !(noTests && strings.HasSuffix(f.name, "_test.go")) {
			return true
		}
	}
	return false
}
