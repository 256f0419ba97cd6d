package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// one makes a file from lines.
func one(name string, lines ...string) file {
	return file{name, []byte(strings.Join(lines, "\n") + "\n")}
}

// brief is "file:line what" of each finding, what cut at its first colon.
func brief(findings []finding) []string {
	var out []string
	for _, f := range findings {
		what, _, _ := strings.Cut(f.what, ":")
		out = append(out, fmt.Sprintf("%s:%d %s", f.file, f.line, what))
	}
	return out
}

func TestChecks(t *testing.T) {
	const (
		badPath   = "path of a machine"
		badHost   = "URL of a host that is not in the list of tools/projectcheck"
		badFile   = "link to a file that is not there"
		badAnchor = "link to a heading that is not there"
	)
	tests := []struct {
		name  string
		check func([]file) []finding
		files []file
		want  []string
	}{
		{
			name: "paths and hosts", check: checkText,
			files: []file{one(
				"a.sh",
				"cd /work/x", `"/home/me"`, "x=/Users/me", `C:\Users\me`,
				"~/work/x https://github.com/work/x /workers src/home/x ./work/x /home",
				"https://www.rfc-editor.org/rfc/rfc5044#section-4, http://localhost:80.", "https://mirror.corp/x",
			)},
			want: []string{
				"a.sh:1 " + badPath, "a.sh:2 " + badPath, "a.sh:3 " + badPath, "a.sh:4 " + badPath, "a.sh:7 " + badHost,
			},
		},
		{
			name: "widths", check: checkWidth,
			files: []file{
				one("a.go", strings.Repeat("x ", 60), strings.Repeat("x ", 60)+"x", "\t"+strings.Repeat("ü ", 58),
					"\t"+strings.Repeat("ü ", 58)+"ü", strings.Repeat("x ", 60)+strings.Repeat("ff", longWord),
					"A int `help:\""+strings.Repeat("x ", 60)+"\"`"),
				one("a.md", "| "+strings.Repeat("x ", 60), "    "+strings.Repeat("x ", 60), strings.Repeat("x ", 61),
					"```", strings.Repeat("x ", 61), "```"),
				one("a.txt", strings.Repeat("x ", 61)),
			},
			want: []string{
				"a.go:2 a line of 121 columns", "a.go:4 a line of 121 columns", "a.md:3 a line of 122 columns",
			},
		},
		{
			name: "lint rules", check: checkLint,
			files: []file{
				one(
					".golangci.yml",
					`          files: ["${base-path}/a/*.go", "!${base-path}/a/b/*.go", "!$test"]`,
					`          files: ["${base-path}/c/*.go", "!$test"]`, `          files: ["${base-path}/c/*.go"]`,
					`          files: ["${base-path}/a/**/*.go", "${base-path}/*.go"]`, `          files: [$all]`,
				),
				one("a/a.go"), one("a/b/b.go"), one("c/c_test.go"),
			},
			want: []string{
				".golangci.yml:2 the pattern of a lint rule matches no file",
				".golangci.yml:4 the pattern of a lint rule matches no file",
			},
		},
		{
			name: "shows, no list of requirements", check: checkShows,
			files: []file{one(
				"a_test.go",
				"// Shows: MPA-4.1-01, MPA9-8-03, MPA-C.1-02", "	// Shows: RDMAP-3-01",
				"// Shows MPA", "// shows: MPA-3-01", "// Shows: MPA-3-01,MPA-3-02", "// Shows: MPA-3.01", "// Shows:",
			)},
			want: []string{
				`a_test.go:4 write "// Shows`,
				`a_test.go:5 "MPA-3-01,MPA-3-02" does not look like a requirement`,
				`a_test.go:6 "MPA-3.01" does not look like a requirement`,
				`a_test.go:7 write "// Shows`,
			},
		},
		{
			name: "shows, with a list", check: checkShows,
			files: []file{
				one("docs/requirements.tsv", "id\tx", "MPA-3-01\tx"), one("a_test.go", "// Shows: MPA-3-01, MPA-3-02"),
			},
			want: []string{"a_test.go:1 no such requirement"},
		},
		{
			name: "links", check: checkLinks,
			files: []file{
				one(
					"docs/a.md",
					"# One `two` - three", "[x](b.md#b) [x](../c.go) [x](..) [x](https://example.com/x) `[x](no)`",
					"[x](#one-two---three) [x](#two)", "```", "# Two", "[x](no)", "```", "[x](no.md \"title\") "+
						"[x](b.md#a)",
				),
				one("docs/b.md", "# B", "# B", "[x](#b-1)"), one("c.go"),
			},
			want: []string{"docs/a.md:3 " + badAnchor, "docs/a.md:8 " + badFile, "docs/a.md:8 " + badAnchor},
		},
		{
			name: "doc comments", check: checkDocs,
			files: []file{
				one(
					"p/a.go",
					"package p", "// T is", "type T[P any] struct{}", "func (t *T[P]) Write() {}", "func (t t) X() {}",
					"// These are", "const (", "A = 1", ")", "var (", "B = 1", "c = 2", "D = 3 // of D", ")",
					"//go:noinline", "func F() {}",
				),
				one("p/a_test.go", "package p", "func TestX() {}"),
				one("cmd/m/main.go", "// M is.", "package main", "func F() {}"),
			},
			want: []string{
				"p/a.go:4 no doc comment", "p/a.go:11 no doc comment", "p/a.go:16 no doc comment",
				"p/a.go:1 no package comment in p",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := brief(tt.check(tt.files)); !slices.Equal(got, tt.want) {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func TestReadFiles(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git: ", err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.txt": "a", "sub/b.txt": "b", "c.bin": "\x00", "d.out": "ignored", ".gitignore": "*.out\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("git", "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	files, err := readFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.name)
	}
	if want := []string{".gitignore", "a.txt", "sub/b.txt"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}
