package inspect

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/ddp"
)

// TestPrintable shows that names of files cannot control the terminal.
func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{
		"plain é \"quoted\".pcap": "plain é \"quoted\".pcap",
		"a\x1b[31mb\x07":          `a\x1b[31mb\a`,
		"line\nline":              `line\nline`,
		"\u009b31m":               `\u009b31m`,
		"\x9b31m":                 `\x9b31m`,
		"\u202egnp.exe":           `\u202egnp.exe`,
	} {
		if got := ui.Printable(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "\x1b]0;title\x07.pcap")
	if err := os.WriteFile(name, []byte("no capture"), 0o600); err != nil {
		t.Skip(err)
	}
	for _, args := range [][]string{
		{"inspect", name},
		{"inspect", name + "x"},
		{"inspect", "--html", dir, name},
		{"inspect", "--extract", name, name},
	} {
		var stdout, stderr bytes.Buffer
		if code := Main(context.Background(), args, &stdout, &stderr); code != ui.ExitFailed {
			t.Errorf("%q: exit code %d", args, code)
		}
		if s := stdout.String() + stderr.String(); strings.ContainsAny(s, "\x1b\x07") || s == "" {
			t.Errorf("%q: %q", args, s)
		}
	}
}

// TestCheckPage shows that a page that cannot be written is known before the capture
// is read.
func TestCheckPage(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "capture")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		dir:                              "a folder",
		file:                             "the capture itself",
		filepath.Join(dir, "no", "page"): "--html: ",
		filepath.Join(dir, "page"):       "",
	} {
		if err := checkPage(file, name); want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// TestExtractManyAtOnce shows that messages of more connections than files may be
// open are each put together.
func TestExtractManyAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	x, err := newExtractor(dir, extractPayload, ui.NewOutput(&bytes.Buffer{}, &bytes.Buffer{}))
	if err != nil {
		t.Fatal(err)
	}
	const conns = 3 * maxOpen
	for part := range 3 {
		for n := range conns {
			h := ddp.Header{Last: part == 2, Version: 1, Control: 0x43, MSN: 1, MO: uint32(part)}
			e := &analysis.FPDU{ULPDU: append(h.AppendTo(nil), byte('a'+part))}
			e.Conn, e.From, e.Frame = n+1, analysis.Initiator, uint64(part*conns+n+1)
			if err := x.event(e); err != nil {
				t.Fatal(err)
			}
			if len(x.open) > maxOpen {
				t.Fatalf("%d files are open", len(x.open))
			}
		}
	}
	if err := x.end(nil, nil); err != nil {
		t.Fatal(err)
	}
	for n := range conns {
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("conn-%d-initiator", n+1),
			fmt.Sprintf("000001-frame-%d-send", n+1)))
		if err != nil || string(b) != "abc" {
			t.Fatalf("connection %d: %q, %v", n+1, b, err)
		}
	}
}
