package conform

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
)

// mortalProxy hands n connections on to addr, and is gone then.
func mortalProxy(t *testing.T, addr string, n int) string {
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
		defer ln.Close()
		for range n {
			a, err := ln.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", addr)
			if err != nil {
				_ = a.Close()
				return
			}
			for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
				wg.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					_ = way[0].(*net.TCPConn).CloseWrite()
				})
			}
		}
	})
	return ln.Addr().String()
}

// An endpoint that goes is told as that, with the case under way, and the rest is not run.
func TestConformGone(t *testing.T) {
	dir := t.TempDir()
	junit, page := filepath.Join(dir, "junit.xml"), filepath.Join(dir, "report.html")
	target := conformTarget(t, "--target", "127.0.0.1:0")
	args := []string{
		"conform", mortalProxy(t, target, 2), "--ulp", "target", "--run", "^send/", "--parallel", "1",
		"--timeout", "300ms",
	}
	out := cmdtest.NewLines()
	code := Main(cmdtest.Context(t), append(args, "--junit", junit, "--html", page), out, out)
	if code != ui.ExitEndpointGone {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	cmdtest.MustContain(t, "report", out.String(), "THE ENDPOINT HAS GONE: no good connection within 300ms any more: ",
		"under way: send/", "not run: the endpoint had gone", " 0 failed,", " not run, in ",
		"iwarp: the endpoint has gone: ")
	for _, name := range []string{junit, page} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		cmdtest.MustContain(t, name, string(b), "no good connection within", "not run", "iwarp ")
	}

	args[1] = mortalProxy(t, target, 2)
	out = cmdtest.NewLines()
	if code := Main(cmdtest.Context(t), append(args, "--json"), out, out); code != ui.ExitEndpointGone {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var sum struct {
		Event, Gone, Version string
		Cases, Pass          int
		NotRun               int      `json:"not_run"`
		InFlight             []string `json:"in_flight"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-2]), &sum); err != nil {
		t.Fatal(err)
	}
	if sum.Event != "summary" || sum.Gone == "" || sum.Version == "" || sum.Pass != 1 || sum.NotRun != sum.Cases-1 ||
		len(sum.InFlight) != 1 {
		t.Errorf("%+v", sum)
	}
}

// A client that no longer comes has gone too.
func TestConformClientGone(t *testing.T) {
	out := cmdtest.NewLines()
	code := make(chan int, 1)
	ctx := cmdtest.Context(t)
	go func() {
		code <- Main(ctx, []string{
			"conform", "--serve", "127.0.0.1:0", "--ulp", "target", "--run", "^order/", "--parallel", "1",
			"--wait", "500ms",
		}, out, out)
	}()
	conformTarget(t, "--target-dial", mortalProxy(t, out.Await(t, `(\S+:\d+): for a client`), 2), "--parallel", "1")
	if c := <-code; c != ui.ExitEndpointGone {
		t.Errorf("exit code %d:\n%s", c, out)
	}
	cmdtest.MustContain(t, "report", out.String(), "THE ENDPOINT HAS GONE: no good connection within 500ms any more: ",
		"not run: the endpoint had gone")
}

// One defect is told once, first; --fail-fast ends the run with it, and one that is known does not count.
func TestConformFailures(t *testing.T) {
	target := conformTarget(t, "--target", "127.0.0.1:0")
	const one, two = "options/rev-1-M0-C1", "options/rev-1-M0-C0"
	conform := func(want int, flags ...string) string {
		t.Helper()
		out := cmdtest.NewLines()
		args := append([]string{"conform", reservedFlagProxy(t, target), "--parallel", "1"}, flags...)
		if code := Main(cmdtest.Context(t), args, out, out); code != want {
			t.Errorf("%v: exit code %d, want %d:\n%s", flags, code, want, out)
		}
		return out.String()
	}
	run := []string{"--run", "^(" + one + "|" + two + ")$"}
	text := conform(ui.ExitFailed, run...)
	cmdtest.MustContain(t, "report", text, "the Reply has reserved flags", "    the same cause in 1 more: options/",
		" 2 failed,", "kit: iwarp ")
	if fail, table := strings.Index(text, "FAIL options/"), strings.Index(text, "FAMILY"); fail < 0 || fail > table {
		t.Errorf("failures do not come first:\n%s", text)
	}
	cmdtest.MustContain(t, "report", conform(ui.ExitFailed, slices.Concat(run, []string{"--fail-fast"})...),
		" 1 failed,", ", 1 not run,", "not run: a case had failed: options/rev-1-M0-C")

	known := filepath.Join(t.TempDir(), "known")
	write := func(text string) {
		if err := os.WriteFile(known, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := slices.Concat(run, []string{"--fail-fast", "--known", known})
	write("# what we know\n\n" + one + "  reserved flags, ours\n" + two + "\tthe same\n")
	cmdtest.MustContain(t, "report", conform(ui.ExitOK, flags...),
		"known failure "+one+" (reserved flags, ours): the Reply has reserved flags", " 0 failed,",
		", 2 failed as known")
	for file, want := range map[string]string{
		"no/case why\n":                    known + `:1: "no/case" is no case of the kit`,
		"\n" + one + "\n":                  known + ":2: " + one + ": the reason is missing: ID REASON",
		one + " a\n" + one + " b\n":        known + ":2: " + one + " is there twice",
		"# nothing\n" + one + " a\n\n# \n": " 1 failed,",
	} {
		write(file)
		cmdtest.MustContain(t, file, conform(ui.ExitFailed, slices.Concat(run, []string{"--known", known})...), want)
	}
	cmdtest.MustContain(t, "report", conform(ui.ExitFailed, "--known", known+"x"), "--known: open ")
}
