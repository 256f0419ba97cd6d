package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// machinePath matches a path that exists on somebody's machine only.
var machinePath = regexp.MustCompile(`(?:^|[^\w.~/-])(/(?:work|home|Users)/[\w.-]+|[A-Z]:\\Users\\)`)

// citedURL matches the scheme and host of a URL.
var citedURL = regexp.MustCompile(`\bhttps?://([\w.-]+)`)

// hosts are those that a URL in the project may name: where standards and open
// source live, and the names that are reserved for examples. A mirror or a
// proxy of somebody's network is not among them.
var hosts = []string{
	"www.rfc-editor.org", "datatracker.ietf.org", "www.ietf.org", "www.iana.org", "www.tcpdump.org", "www.w3.org",
	"github.com", "go.dev", "pkg.go.dev", "golang.org", "www.kernel.org", "git.kernel.org", "man7.org",
	"keepachangelog.com", "semver.org", "no-color.org", "golangci-lint.run", "www.wireshark.org", "www.debian.org",
	"example.com", "localhost", "127.0.0.1",
}

// checkText finds paths of a machine, and URLs with a host that is not in hosts.
// This program's own folder is left out, since it has to name them.
func checkText(files []file) (findings []finding) {
	for _, f := range files {
		if strings.HasPrefix(f.name, "tools/projectcheck/") {
			continue
		}
		eachLine(f, func(n int, line string) {
			if m := machinePath.FindStringSubmatch(line); m != nil {
				findings = append(findings, finding{f.name, n, "path of a machine: " + m[1]})
			}
			for _, m := range citedURL.FindAllStringSubmatch(line, -1) {
				if !slices.Contains(hosts, strings.TrimRight(m[1], ".")) {
					findings = append(findings,
						finding{f.name, n, "URL of a host that is not in the list of tools/projectcheck: " + m[1]})
				}
			}
		})
	}
	return findings
}

var (
	showsLike = regexp.MustCompile(`(?i)^\s*//\s*shows?\s*:`)
	showsLine = regexp.MustCompile(`^\s*// Shows: (\S+(?:, \S+)*)$`)
	// requirementID is e.g. MPA-4.1-01, MPA9-8-03 or MPA-C.1-02: document, section, number.
	requirementID = regexp.MustCompile(`^[A-Z]+\d*-[A-Z0-9]+(?:\.\d+)*-\d{2}$`)
)

// checkShows finds Shows lines that a program could not read, or that name a
// requirement that does not exist.
func checkShows(files []file) (findings []finding) {
	known := requirements(files)
	for _, f := range files {
		if !strings.HasSuffix(f.name, ".go") || strings.HasPrefix(f.name, "tools/projectcheck/") {
			continue
		}
		eachLine(f, func(n int, line string) {
			if !showsLike.MatchString(line) {
				return
			}
			m := showsLine.FindStringSubmatch(line)
			if m == nil {
				findings = append(findings, finding{file: f.name, line: n, what: `write "// Shows: ID, ID"`})
				return
			}
			for id := range strings.SplitSeq(m[1], ", ") {
				switch {
				case !requirementID.MatchString(id):
					findings = append(findings,
						finding{f.name, n, fmt.Sprintf("%q does not look like a requirement", id)})
				case len(known) > 0 && !known[id]:
					findings = append(findings, finding{f.name, n, "no such requirement: " + id})
				}
			}
		})
	}
	return findings
}

// requirements are the ids in the first column of every requirements.tsv.
func requirements(files []file) map[string]bool {
	known := map[string]bool{}
	for _, f := range files {
		if path.Base(f.name) != "requirements.tsv" {
			continue
		}
		eachLine(f, func(_ int, line string) {
			id, _, _ := strings.Cut(line, "\t")
			known[id] = true
		})
	}
	return known
}

var (
	mdLink    = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)`)
	mdScheme  = regexp.MustCompile(`^[a-z]+:`)
	mdCode    = regexp.MustCompile("`[^`]*`")
	mdHeading = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	notSlug   = regexp.MustCompile(`[^\p{L}\p{N}\-_ ]`)
)

// checkLinks finds relative links in Markdown files that lead nowhere.
func checkLinks(files []file) (findings []finding) {
	exists := map[string]bool{".": true}
	anchors := map[string]map[string]bool{}
	for _, f := range files {
		for p := f.name; p != "."; p = path.Dir(p) {
			exists[p] = true
		}
		if strings.HasSuffix(f.name, ".md") {
			anchors[f.name] = headings(f)
		}
	}
	for _, f := range files {
		if !strings.HasSuffix(f.name, ".md") {
			continue
		}
		eachProse(f, func(n int, line string) {
			for _, m := range mdLink.FindAllStringSubmatch(mdCode.ReplaceAllString(line, ""), -1) {
				if mdScheme.MatchString(m[1]) {
					continue
				}
				name, anchor, _ := strings.Cut(m[1], "#")
				target := f.name
				if name != "" {
					target = path.Join(path.Dir(f.name), name)
				}
				known, isMarkdown := anchors[target]
				switch {
				case !exists[target]:
					findings = append(findings, finding{f.name, n, "link to a file that is not there: " + m[1]})
				case anchor != "" && isMarkdown && !known[anchor]:
					findings = append(findings, finding{f.name, n, "link to a heading that is not there: " + m[1]})
				}
			}
		})
	}
	return findings
}

// headings are the anchors that GitHub makes of a file's headings.
func headings(f file) map[string]bool {
	slugs := map[string]bool{}
	eachProse(f, func(_ int, line string) {
		if m := mdHeading.FindStringSubmatch(line); m != nil {
			slug := notSlug.ReplaceAllString(strings.ToLower(m[1]), "")
			slug = strings.ReplaceAll(slug, " ", "-")
			for i, s := 1, slug; slugs[slug]; i++ {
				slug = fmt.Sprintf("%s-%d", s, i)
			}
			slugs[slug] = true
		}
	})
	return slugs
}

// eachProse is eachLine without the fenced code blocks of a Markdown file.
func eachProse(f file, fn func(n int, line string)) {
	fenced := false
	eachLine(f, func(n int, line string) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced {
			fn(n, line)
		}
	})
}
