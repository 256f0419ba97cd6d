package iwarp_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/protocol"
)

// goBlock returns the first program in a document.
func goBlock(t *testing.T, name string) string {
	t.Helper()
	doc, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		t.Skip("the module without its documents")
	}
	check(t, name, err)
	_, rest, _ := strings.Cut(string(doc), "```go\n")
	program, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatalf("%s has no program", name)
	}
	return program
}

// README's program runs as it stands there, in a checkout.
func TestReadmeProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "main.go")
	check(t, file, os.WriteFile(file, []byte(goBlock(t, "README.md")), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "run", file).CombinedOutput()
	if err != nil || string(out) != "hello\n" {
		t.Errorf("go run: %v\n%s", err, out)
	}
}

// The program of docs/getting-started.md does what is said there, as it stands: what one process sends, another
// has, and the server ends when it is interrupted.
func TestGettingStartedProgram(t *testing.T) {
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "blocks.exe")
	check(t, source, os.WriteFile(source, []byte(goBlock(t, "docs/getting-started.md")), 0o600))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	server := exec.CommandContext(t.Context(), program, "-listen", "127.0.0.1:0")
	stdout, err := server.StdoutPipe()
	check(t, "pipe", err)
	check(t, "server", server.Start())
	defer func() { _ = server.Process.Kill() }() // no effect after Wait
	lines := bufio.NewScanner(stdout)
	address := ""
	if lines.Scan() {
		address = strings.TrimPrefix(lines.Text(), "listening on ")
	}
	// More blocks than there are credits, the last one shorter; and a file without an octet.
	for _, size := range []int{20<<16 + 1, 0} {
		data := bytes.Repeat([]byte("octets "), size/7+1)[:size]
		file := filepath.Join(dir, "data")
		check(t, file, os.WriteFile(file, data, 0o600))
		sum := fmt.Sprintf("%x", sha256.Sum256(data))
		out, err := exec.CommandContext(t.Context(), program, "-to", address, file).CombinedOutput()
		if want := "sent, SHA-256 " + sum + "\n"; err != nil || string(out) != want {
			t.Fatalf("client: %v\n%swant %s", err, out, want)
		}
		want := fmt.Sprintf("%d octets, SHA-256 %s, error <nil>", size, sum)
		if !lines.Scan() || !strings.HasSuffix(lines.Text(), want) {
			t.Fatalf("server: %q, want ... %s", lines.Text(), want)
		}
	}
	if runtime.GOOS == "windows" { // a process cannot be interrupted there
		return
	}
	check(t, "interrupt", server.Process.Signal(os.Interrupt))
	if err := server.Wait(); err != nil {
		t.Error("the server, interrupted: ", err)
	}
}

// docs/troubleshooting.md explains every error number, and every error that has a name.
func TestTroubleshootingIsComplete(t *testing.T) {
	doc, err := os.ReadFile("docs/troubleshooting.md")
	if os.IsNotExist(err) {
		t.Skip("the module without its documents")
	}
	check(t, "docs/troubleshooting.md", err)
	for i := range 1 << 16 {
		c := protocol.Code(i)
		triple := fmt.Sprintf("%d/%d/%02x", uint8(c.Layer()), c.Type(), c.Number())
		if c.Layer() == protocol.LayerRDMAP && c.Type() == 0 {
			triple = "0/0/xx"
		}
		first, second := []byte("\n| "+triple), []byte(", "+triple+" | ")
		if c.Defined() && !bytes.Contains(doc, first) && !bytes.Contains(doc, second) {
			t.Errorf("no line for %v", c)
		}
	}
	sources, err := filepath.Glob("*.go")
	check(t, "sources", err)
	named := regexp.MustCompile(`(?m)^(?:var|\t)\s*(Err[A-Z]\w*)\s+=`)
	names := 0
	for _, file := range sources {
		src, err := os.ReadFile(file)
		check(t, file, err)
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range named.FindAllSubmatch(src, -1) {
			names++
			if !bytes.Contains(doc, append(append([]byte("`"), m[1]...), '`')) {
				t.Errorf("no line for %s (%s)", m[1], file)
			}
		}
	}
	if names < 15 {
		t.Errorf("%d named errors found, want 15 or more", names)
	}
}
