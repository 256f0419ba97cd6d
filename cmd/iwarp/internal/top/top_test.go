package top

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ping"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/live"
)

type commands struct {
	Top  Command      `cmd:""`
	Ping ping.Command `cmd:""`
}

var mainOf = cmdtest.Main(func() any { return &commands{} })

// run runs a command line to its end.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	o, e := cmdtest.NewLines(), cmdtest.NewLines()
	code = mainOf(cmdtest.Context(t), args, o, e)
	return code, o.String(), e.String()
}

// A server with --live is seen by its process's number, and without it is not.
func TestProcess(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	pid := fmt.Sprint(os.Getpid())
	code, _, errs := run(t, "top", pid)
	if code != ui.ExitFailed {
		t.Errorf("exit code %d", code)
	}
	cmdtest.MustContain(t, "nothing offered", errs, "does not offer", "live.Offer", "--live", live.Path(os.Getpid()))

	s := cmdtest.Serve(t, mainOf, "--live")
	cmdtest.MustContain(t, "note", s.Err.String(), "iwarp top "+pid)
	if code, _, errs := run(t, "ping", s.Addr, "--count", "3", "--size", "1000"); code != 0 {
		t.Fatal(errs)
	}
	s.Out.Await(t, "ended after 3 iterations")
	code, out, errs := run(t, "top", pid, "--once")
	if code != ui.ExitOK || errs != "" {
		t.Errorf("exit code %d, %s", code, errs)
	}
	cmdtest.MustContain(t, "--once", out, "PID "+pid, "since its start: 1 connection, ", "CONN", "3.1kB")

	ctx, cancel := context.WithCancel(cmdtest.Context(t))
	o, e, done := cmdtest.NewLines(), cmdtest.NewLines(), make(chan int)
	go func() {
		done <- mainOf(ctx, []string{"top", live.Path(os.Getpid()), "--interval", "1ms", "--json"}, o, e)
	}()
	o.Await(t, `(?s)"event":"snapshot".*"event":"snapshot"`)
	cancel()
	if code := <-done; code != ui.ExitOK || e.String() != "" {
		t.Errorf("interrupted: exit code %d, %s", code, e)
	}
	go func() { done <- mainOf(cmdtest.Context(t), []string{"top", pid, "--interval", "1ms"}, o, e) }()
	o.Await(t, `OUT/s`)
	s.Stop()
	if code := <-done; code != ui.ExitOK {
		t.Errorf("the program has ended: exit code %d, %s", code, e)
	}
	cmdtest.MustContain(t, "the program has ended", e.String(), "the program has ended")
}

// What is no process, no address and no answer is told apart.
func TestErrors(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, tt := range []struct {
		target, want string
		code         int
	}{
		{"0", "1 or more", ui.ExitUsage},
		{"-5", "unknown flag", ui.ExitUsage},
		{"host", "the number of a process, HOST:PORT", ui.ExitUsage},
		{"host:x", "the port is a number", ui.ExitUsage},
		{"http://", "no URL", ui.ExitUsage},
		{"99999999999", "the number of a process", ui.ExitUsage},
		{fmt.Sprint(math.MaxInt32), "there is no process 2147483647", ui.ExitFailed},
		{"/no/such.sock", "/no/such.sock: ", ui.ExitFailed},
		{"127.0.0.1:1", "http://127.0.0.1:1/debug/iwarp: ", ui.ExitFailed},
	} {
		code, _, errs := run(t, "top", tt.target)
		if code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("%s: exit code %d, %s", tt.target, code, errs)
		}
	}
}

// An answer that means no good neither takes memory nor reaches the terminal.
func TestHostileAnswers(t *testing.T) {
	const head = `{"format":"` + live.Format + `",`
	for _, tt := range []struct {
		name, body, want string
		status, code     int
	}{
		{name: "not found", status: 404, want: "live.Handler", code: 1},
		{name: "redirect", status: 302, want: "302", code: 1},
		{name: "empty", want: "none of live.Handler", code: 1},
		{name: "no JSON", body: "<html>", want: "none of live.Handler", code: 1},
		{name: "another format", body: `{"format":"` + strings.Repeat("y", 1000) + `"}`, want: "its format", code: 1},
		{name: "null", body: head + `"conns":null}`, want: "null", code: 1},
		{name: "huge", body: strings.Repeat(" ", maxAnswer+1), want: "longer than", code: 1},
		{name: "deep", body: head + `"conns":` + strings.Repeat("[", 100000), want: "none of live.Handler", code: 1},
		{name: "many", body: head + `"conns":[` + strings.Repeat("{},", 40_000) + `{}]}`, want: "more than", code: 1},
		{name: "negative", body: head + `"conns":[{"payload_sent":-1}]}`, want: "none of live.Handler", code: 1},
		{name: "nothing", body: head + `"conns":[{}],"errors":[{}],"totals":{"live":-4},"left_out":-7}`, want: "0s"},
		{
			name: "control characters", want: `\x1b`,
			body: head + `"program":"` + strings.Repeat(`\u001b[2J`, 50) + `",` +
				`"conns":[{"remote":"\u001b]0;x\u0007\n\n"}],"errors":[{"code":"\u202e\n","by":"\u009b"}]}`,
		},
		{name: "largest", want: "18E", body: head + `"conns":[{"id":18446744073709551615,` +
			`"payload_sent":18446744073709551615,"began":"9999-12-31T00:00:00Z"}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(max(tt.status, 200))
				_, _ = w.Write([]byte(tt.body))
			}))
			defer srv.Close()
			code, out, errs := run(t, "top", srv.URL, "--once")
			if code != tt.code || !strings.Contains(out+errs, tt.want) {
				t.Errorf("exit code %d: %.300s%.300s", code, out, errs)
			}
			for _, r := range out + errs {
				if ui.Controls(r) && r != '\n' {
					t.Fatalf("%q in %q", r, out+errs)
				}
			}
			if len(out)+len(errs) > 2000 {
				t.Errorf("%d octets of output", len(out)+len(errs))
			}
		})
	}
}

// snapshot is one with connections that have sent so many octets, from ID 1 on.
func snapshot(pid int, octets ...uint64) *live.Snapshot {
	s := &live.Snapshot{Format: live.Format, PID: pid, Program: "p"}
	for i, n := range octets {
		s.Conns = append(s.Conns, live.Conn{ID: uint64(i + 1), Traffic: live.Traffic{PayloadSent: n}})
		s.Totals.PayloadSent += n
	}
	s.Totals.Live = len(octets)
	return s
}

// Rates are differences, by the time that has passed here; the busiest row is the first.
func TestRates(t *testing.T) {
	var v view
	at := time.Unix(1000, 0)
	v.take(snapshot(1, 5000, 900), at)
	if r := v.rows(); r[0].ID != 1 || r[0].traffic[0] != 5000 {
		t.Errorf("at first: %+v", r)
	}
	v.take(snapshot(1, 5000, 2900, 600, 0), at.Add(2*time.Second))
	r := v.rows()
	if r[0].ID != 2 || r[0].traffic[0] != 1000 || r[1].ID != 3 || r[1].traffic[0] != 300 || r[2].traffic[0] != 0 {
		t.Errorf("then: %+v", r)
	}
	v.take(snapshot(1, 10), at.Add(3*time.Second)) // counters that fall
	if r := v.rows(); r[0].traffic[0] != 0 {
		t.Errorf("fallen: %+v", r)
	}
	v.take(snapshot(2, 10), at.Add(4*time.Second)) // another process
	if r := v.rows(); r[0].traffic[0] != 10 || v.passed != 0 {
		t.Errorf("anew: %+v", r)
	}
	v.take(snapshot(2, 10), at) // the clock went back
	if v.passed != 0 {
		t.Error(v.passed)
	}
}

// The table fits the terminal, whatever that is.
func TestTableFits(t *testing.T) {
	var v view
	v.take(snapshot(1, make([]uint64, 100)...), time.Unix(1, 0))
	v.now.Errors = make([]live.Errors, 9)
	for _, height := range []int{0, 1, 10, 24, 200} {
		for _, width := range []int{0, 1, 40, 300} {
			lines := v.lines(width, height)
			if height >= 10 && len(lines) > height-1 {
				t.Errorf("%d lines for a terminal of %d", len(lines), height)
			}
			for _, l := range lines {
				if n := len([]rune(l)); width > 0 && n > width {
					t.Errorf("%d columns for a terminal of %d", n, width)
				}
			}
		}
	}
	if got := strings.Join(v.lines(0, 24), "\n"); !strings.Contains(got, "more") {
		t.Error(got)
	}
}

func TestAmount(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 0.25: "0.2", 7: "7", 9.96: "10", 999: "999", 999.6: "1.0k", 1234: "1.2k", 25e3: "25k", 1e18: "1.0E",
		1.8e19: "18E",
	} {
		if got := amount(f); got != want {
			t.Errorf("%v: %q, want %q", f, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m1s", 25 * time.Hour: "25h0m",
		math.MaxInt64: "106751d23h",
	} {
		if got := age(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// What package live writes is what is read here.
func TestParse(t *testing.T) {
	want := snapshot(3, 1, 2)
	want.Errors = []live.Errors{{Code: "1/1/00", By: "peer", Count: 4}}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse(b)
	if again, _ := json.Marshal(got); err != nil || string(again) != string(b) {
		t.Errorf("%s, %v, want %s", again, err, b)
	}
}

func FuzzParse(f *testing.F) {
	b, _ := json.Marshal(snapshot(3, 1, 2))
	f.Add(b)
	f.Add([]byte(`{"format":"` + live.Format + `","conns":[{"remote":"\u001b"}],"left_out":-1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parse(b)
		if err != nil {
			return
		}
		var v view
		v.take(s, time.Unix(1, 0))
		v.take(s, time.Unix(2, 0))
		for _, l := range v.lines(80, 24) {
			if strings.ContainsFunc(l, ui.Controls) || len([]rune(l)) > 80 {
				t.Errorf("%q", l)
			}
		}
	})
}
