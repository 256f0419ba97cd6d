// Projectcheck looks at what no linter knows: that documents and tests of the
// project keep its own conventions.
//
//   - Every exported name of a library package has a doc comment, methods such as
//     String and Write included.
//   - A "Shows" line of a test names requirements in the form that tools read:
//     "// Shows: MPA-4.1-01, MPA-4.1-02". Where the project has a list of
//     requirements (a file requirements.tsv), it has each of them.
//   - A relative link of a Markdown file leads to a file, and to a heading of it.
//   - A rule of depguard in .golangci.yml, about which package may import which,
//     matches a file.
//   - No line of Go or of a Markdown document is longer than 120 columns, a tab being
//     four. What cannot be broken may be: rows of a Markdown table, what a program
//     prints or reads (code blocks of a document), struct tags, and words without a
//     blank that are long themselves, such as octets in hexadecimal.
//   - No file names a path of somebody's machine, and a URL points at one of the
//     hosts that the project is known to cite.
//
// Usage: projectcheck [folder]. It prints one line per finding and exits 1 when
// there is one.
package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	flag.Usage = func() { fmt.Fprintln(flag.CommandLine.Output(), "usage: projectcheck [folder]") }
	flag.Parse()
	findings, n, err := check(cmp.Or(flag.Arg(0), "."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "projectcheck:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	fmt.Printf("%d files, %d findings\n", n, len(findings))
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// A file is one file of the project: its path from the root, with slashes, and its text.
type file struct {
	name string
	text []byte
}

// A finding is one broken convention.
type finding struct {
	file string
	line int // from 1
	what string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.what) }

// check runs all checks on the project in a folder. n is the number of files.
func check(dir string) (findings []finding, n int, err error) {
	files, err := readFiles(dir)
	if err != nil {
		return nil, 0, err
	}
	findings = slices.Concat(checkText(files), checkShows(files), checkLinks(files), checkDocs(files), checkLint(files),
		checkWidth(files))
	slices.SortStableFunc(findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	return findings, len(files), nil
}

// readFiles reads every text file that is, or could be, committed.
func readFiles(dir string) ([]file, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	cmd.Dir = dir
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var files []file
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if os.IsNotExist(err) { // deleted, and not yet committed so
			continue
		}
		if err != nil {
			return nil, err
		}
		if !bytes.ContainsRune(text, 0) {
			files = append(files, file{path.Clean(name), text})
		}
	}
	return files, nil
}

// eachLine calls fn for each line of a file, counted from 1.
func eachLine(f file, fn func(n int, line string)) {
	n := 0
	for line := range strings.Lines(string(f.text)) {
		n++
		fn(n, strings.TrimRight(line, "\r\n"))
	}
}
