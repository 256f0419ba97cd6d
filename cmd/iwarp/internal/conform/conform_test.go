package conform

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// conformTarget runs "iwarp conform" with the flags until the test ends, and gives
// the address that it tells.
func conformTarget(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out := cmdtest.NewLines()
	code := make(chan int, 1)
	go func() { code <- Main(ctx, append([]string{"conform"}, args...), out, out) }()
	t.Cleanup(func() {
		cancel()
		if c := <-code; c != ui.ExitOK {
			t.Errorf("%v: exit code %d:\n%s", args, c, out)
		}
	})
	return out.Await(t, `(\S+:\d+): `)
}

// The kit against its target, as responder: the table, JSON, JUnit XML and HTML.
func TestConform(t *testing.T) {
	addr := conformTarget(t, "--target", "127.0.0.1:0")
	dir := t.TempDir()
	junit, page := filepath.Join(dir, "junit.xml"), filepath.Join(dir, "report.html")
	args := []string{
		"conform", addr, "--ulp", "target", "--run", "^(send|crc)/", "--timeout", "20s", "--junit", junit, "--html",
		page, "--record", filepath.Join(dir, "rec"),
	}
	out := cmdtest.NewLines()
	if code := Main(cmdtest.Context(t), args, out, out); code != ui.ExitOK {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	cmdtest.MustContain(t, "table", out.String(), "FAMILY", "crc ", "send ", "not applicable: the peer wants the CRC",
		" 0 failed")
	for _, name := range []string{junit, page} {
		b, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(b), "send/solicited") {
			t.Errorf("%s: %v, %d octets", name, err, len(b))
		}
	}
	out = cmdtest.NewLines()
	if code := Main(cmdtest.Context(t), []string{"conform", addr, "--ulp", "target", "--run", "^send/", "--json"}, out,
		out); code != ui.ExitOK {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	results := 0
	for line := range strings.Lines(out.String()) {
		var e struct {
			Event, ID, Status string
			Legal             []string
			Pass, Cases       int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch e.Event {
		case "result":
			results++
			if e.Status != "pass" || len(e.Legal) == 0 {
				t.Errorf("%s", line)
			}
		case "summary":
			if e.Pass != results || e.Cases != results {
				t.Errorf("%d results and %s", results, line)
			}
		}
	}
	if results == 0 {
		t.Errorf("no results:\n%s", out)
	}
}

// The server of "iwarp ping" is an endpoint with rping's program, and no target.
func TestConformPing(t *testing.T) {
	s := cmdtest.Serve(t, Main)
	out := cmdtest.NewLines()
	code := Main(cmdtest.Context(t),
		[]string{"conform", s.Addr, "--ulp", "rping", "--run", "^(response|rtr|queue)/", "--timeout", "10s"}, out, out)
	if code != ui.ExitOK {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	cmdtest.MustContain(t, "table", out.String(), "needs the program target above the endpoint, there is rping",
		" 0 failed")
	code = Main(cmdtest.Context(t),
		[]string{"conform", s.Addr, "--run", "^read/empty$", "--ulp", "target", "--timeout", "500ms"}, out, out)
	if code != ui.ExitFailed {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	cmdtest.MustContain(t, "output", out.String(), "no good connection to the endpoint under test")
	s.Stop()
}

// reservedFlagProxy hands connections on to addr, and sets a reserved flag in the
// Reply of all but the first.
func reservedFlagProxy(t *testing.T, addr string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = ln.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for flag := byte(0); ; flag = 1 {
			a, err := ln.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", addr)
			if err != nil {
				_ = a.Close()
				return
			}
			wg.Go(func() { _, _ = io.Copy(b, a); _ = b.Close() })
			wg.Go(func() {
				var head [20]byte
				_, _ = io.ReadFull(b, head[:])
				head[16] |= flag
				_, _ = a.Write(head[:])
				_, _ = io.Copy(a, b)
				_ = a.Close()
			})
		}
	})
	return ln.Addr().String()
}

// What went over the wire in a failed case is kept, and can be read.
func TestConformRecord(t *testing.T) {
	addr := reservedFlagProxy(t, conformTarget(t, "--target", "127.0.0.1:0"))
	dir := filepath.Join(t.TempDir(), "rec")
	out := cmdtest.NewLines()
	code := Main(cmdtest.Context(t), []string{"conform", addr, "--run", "^options/rev-1-M0-C1$", "--record", dir}, out,
		out)
	if code != ui.ExitFailed {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	cmdtest.MustContain(t, "table", out.String(), "FAIL options/rev-1-M0-C1: the Reply has reserved flags 41", "rule: ",
		"legal: ", "<- startup frame")
	seen := cmdtest.NewLines()
	if code := Main(cmdtest.Context(t), []string{"inspect", filepath.Join(dir, "options_rev-1-M0-C1.pcapng")}, seen,
		seen); code != ui.ExitOK {
		t.Errorf("inspect: exit code %d", code)
	}
	cmdtest.MustContain(t, "inspect", seen.String(), "Reply")
}

// The kit as responder, for a target that connects again and again.
func TestConformServe(t *testing.T) {
	ctx := cmdtest.Context(t)
	out := cmdtest.NewLines()
	code := make(chan int, 1)
	go func() {
		code <- Main(ctx,
			[]string{
				"conform", "--serve", "127.0.0.1:0", "--ulp", "target", "--run", "^(order|reply)/", "--skip", "silence",
				"--timeout", "20s",
			},
			out, out)
	}()
	conformTarget(t, "--target-dial", out.Await(t, `(\S+:\d+): for a client`), "--parallel", "8")
	if c := <-code; c != ui.ExitOK {
		t.Errorf("exit code %d:\n%s", c, out)
	}
	cmdtest.MustContain(t, "table", out.String(), "reply ", " 0 failed")
}

func TestConformList(t *testing.T) {
	out := cmdtest.NewLines()
	if code := Main(t.Context(), []string{"conform", "--list"}, out, out); code != ui.ExitOK {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	if n := strings.Count(out.String(), "\n"); n < 300 {
		t.Errorf("%d lines", n)
	}
	out = cmdtest.NewLines()
	if code := Main(t.Context(), []string{"conform", "--list", "--gentle", "--run", "^R21$", "--json"}, out,
		out); code != ui.ExitFailed || strings.Contains(out.String(), "R21\"]") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func TestConformUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                            "expected HOST:PORT",
		"127.0.0.1:1 --serve :0":      "one of them",
		"--initiator":                 "expected HOST:PORT",
		"--serve :0 --initiator":      "--initiator: needs HOST:PORT",
		"127.0.0.1:1 --run (":         "--run \"(\": no regular expression: error parsing regexp: missing closing",
		"127.0.0.1:1 --ulp smb":       "raw, rping or target",
		"127.0.0.1:1 --parallel 0":    "--parallel 0",
		"127.0.0.1:1 --rtr none":      "--rtr, --ird, --ord: they are the target's",
		"--serve :0 --ord 0":          "--rtr, --ird, --ord: they are the target's",
		"127.0.0.1:1 --timeout never": "a duration above 0",
	} {
		out := cmdtest.NewLines()
		if code := Main(t.Context(), append([]string{"conform"}, strings.Fields(args)...), out,
			out); code != ui.ExitUsage {
			t.Errorf("%s: exit code %d:\n%s", args, code, out)
		}
		cmdtest.MustContain(t, args, out.String(), want)
	}
}

// A run of no case, or in which none can be judged, is no success.
func TestConformOfNothing(t *testing.T) {
	addr := conformTarget(t, "--target", "127.0.0.1:0")
	for _, args := range [][]string{
		{addr, "--run", "^zzz"},
		{addr, "--run", "^zzz", "--json"},
		{addr, "--run", "^send/", "--skip", "."},
		{addr, "--run", "^length/ulpdu-00000$", "--gentle", "--skip", "^length"},
		{"--serve", "127.0.0.1:0", "--run", "^request/"},
		{"--list", "--run", "^zzz"},
		{addr, "--run", "^send/solicited$"}, // needs the target, and that is not told
	} {
		out := cmdtest.NewLines()
		if code := Main(cmdtest.Context(t), append([]string{"conform"}, args...), out, out); code != ui.ExitFailed {
			t.Errorf("%v: exit code %d:\n%s", args, code, out)
		}
		cmdtest.MustContain(t, strings.Join(args, " "), out.String(), "no case")
	}
}

// A run ends when it is told to, also while it waits for a peer that is silent, at any
// stage of startup: for the first good connection, and in a case.
func TestConformInterrupted(t *testing.T) {
	request := iwarptest.Request(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(8, 8, nil))
	for name, octets := range map[string][]byte{"silent": nil, "half a Request": request[:10], "no FPDU": request} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(cmdtest.Context(t))
			defer cancel()
			out := cmdtest.NewLines()
			code := make(chan int, 1)
			args := []string{
				"conform", "--serve", "127.0.0.1:0", "--run", "^crc/", "--timeout", "10m", "--patience", "10m",
				"--wait", "10m",
			}
			go func() { code <- Main(ctx, args, out, out) }()
			nc, err := net.Dial("tcp", out.Await(t, `(\S+:\d+): for a client`))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if _, err := nc.Write(octets); err != nil {
				t.Fatal(err)
			}
			if name == "no FPDU" { // the kit has the connection when its Reply is there
				if _, err := io.ReadFull(nc, make([]byte, 20)); err != nil {
					t.Fatal(err)
				}
			}
			cancel()
			if c := <-code; c != ui.ExitFailed {
				t.Errorf("exit code %d", c)
			}
			cmdtest.MustContain(t, "output", out.String(), "the run was ended")
		})
	}
}
