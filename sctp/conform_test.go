package sctp

import (
	"bytes"
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
)

// families are the cases that are about more than MPA's own octets.
const families = `^(depth|private|rtr|length|version|opcode|queue|access|read|response|terminate|teardown)/`

// iwarp conform, which plays peers that break the rules of DDP and RDMAP, finds over SCTP what it finds
// over MPA: nothing.
// Shows: SCTP-11.3-03
func TestConform(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	bin := filepath.Join(t.TempDir(), "iwarp")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/iwarp")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	l, err := Listen("udp", "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go respond(ctx, l)
	nl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer nl.Close()
	g := &Gateway{Network: "udp", Address: l.Addr().String()}
	go func() { _ = g.Serve(ctx, nl) }()
	var out bytes.Buffer
	run := exec.CommandContext(ctx, bin, "conform", "--run", families, nl.Addr().String())
	run.Stdout, run.Stderr = &out, &out
	err = run.Run()
	t.Logf("%s", tail(out.String(), 60))
	if !strings.Contains(out.String(), " 0 failed") || strings.Contains(out.String(), " 0 passed") {
		t.Error("no verdict")
	}
	if err != nil {
		t.Errorf("iwarp conform over SCTP: %v", err)
	}
}

// respond is a responder of which nothing is known: it accepts, receives, and closes when the peer does.
func respond(ctx context.Context, l *iwarp.Listener) {
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			return
		}
		go func() {
			for err == nil {
				_, err = c.Recv(ctx, make([]byte, 1<<16))
			}
			_ = c.Close()
		}()
	}
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
