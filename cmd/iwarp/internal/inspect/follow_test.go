package inspect

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// TestFollow lets a capture grow, in the middle of blocks too, while it is
// inspected, and stops the inspection.
func TestFollow(t *testing.T) {
	var b bytes.Buffer
	rec, err := capture.NewRecorder(&b, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, c := iwarptest.Pipe(nil)
	w := rec.Conn(a)
	pass := func(octets []byte) {
		t.Helper()
		if _, err := w.Write(octets); err != nil {
			t.Fatal(err)
		}
	}
	pass(iwarptest.Request(iwarptest.FlagC, 1, []byte("first")))
	if _, err := c.Write(iwarptest.Reply(iwarptest.FlagC, 1, nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	pass(iwarptest.FPDU(iwarptest.Send(1, []byte("second"))))
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()

	name := filepath.Join(t.TempDir(), "growing.pcapng")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	put := func(b []byte) {
		t.Helper()
		if _, err := f.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, stderr := cmdtest.NewLines(), cmdtest.NewLines()
	code := make(chan int, 1)
	go func() { code <- Main(ctx, []string{"inspect", "--follow", name}, out, stderr) }()

	cut := bytes.Index(whole, []byte("second")) // the last packet
	put(whole[:10])
	put(whole[10:cut])
	out.Await(t, `Private Data: "first"`)
	put(whole[cut : len(whole)-30]) // the block with the statistics is cut
	out.Await(t, "Send: 6 octets")
	stop()
	if got := <-code; got != ui.ExitOK || stderr.String() != "" {
		t.Errorf("exit code %d, stderr %q", got, stderr)
	}
	if s := out.String(); !strings.Contains(s, "Connection 1 is still open at the end of the capture") {
		t.Errorf("no totals in:\n%s", s)
	}
}

// TestFollowShrunk replaces a file that is followed.
func TestFollowShrunk(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	var b bytes.Buffer
	if _, err := capture.NewWriter(&b, capture.LinkRaw); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	reads := make(chan struct{}, 1000)
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := &fileReader{ctx: t.Context(), before: func() { reads <- struct{}{} }, f: f, follow: true}
	if _, err := r.Read(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 3); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(make([]byte, 1000)); err == nil || !strings.Contains(err.Error(), "has shrunk") {
		t.Errorf("%d, %v", n, err)
	}
}
