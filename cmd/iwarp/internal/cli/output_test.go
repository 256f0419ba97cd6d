package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// full is a writer on a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// Output that got lost is no success, whatever the form.
func TestLostOutput(t *testing.T) {
	s := serve(t)
	for _, args := range [][]string{
		{"version"}, {"version", "--json"}, {"ping", s.addr, "--count", "1"}, {"ping", s.addr, "--count", "1", "--json"}, {"demo", "--bytes", "1"},
	} {
		errs := newLines()
		if code := Main(testContext(t), args, full{}, errs); code != ExitFailed {
			t.Errorf("%q: exit code %d", args, code)
		}
		mustContain(t, args[0], errs.String(), "iwarp: standard output: no space left")
	}
}

// An error of the command line has the form that was asked for.
func TestUsageForm(t *testing.T) {
	for _, json := range []string{"--json", "--json=true"} {
		out, errs := newLines(), newLines()
		if code := Main(t.Context(), []string{"ping", "h", json, "--nosuch"}, out, errs); code != ExitUsage {
			t.Errorf("exit code %d", code)
		}
		mustContain(t, json, out.String(), `{"event":"error","error":"unknown flag --nosuch","exit_code":2}`)
		if errs.String() != "" {
			t.Errorf("%s: on stderr: %s", json, errs)
		}
	}
}

// What a peer has chosen reaches neither terminal nor log as it is, and JSON has the
// same value still.
func TestOutputOfForeignText(t *testing.T) {
	const evil = "\x1b[2J\x07\x9b\u009b\u202e\u2066\U000e0041\tx\x7f\u2028"
	for _, asJSON := range []bool{false, true} {
		out, errs := newLines(), newLines()
		o := newOutput(out, errs)
		o.json = asJSON
		o.emit(errorEvent{Error: "first\nsecond " + evil, Peer: evil})
		o.note(evil)
		text := out.String() + errs.String()
		for _, r := range strings.Trim(text, "\n") {
			if controls(r) && r != '\n' && r != '\t' || r == utf8.RuneError && !asJSON {
				t.Errorf("JSON %t: %q in %q", asJSON, r, text)
			}
		}
		if !asJSON {
			mustContain(t, "stderr", errs.String(), "first\nsecond ", `\x1b[2J\a\x9b\u009b\u202e\u2066\U000e0041`)
			continue
		}
		var e struct{ Error, Peer string }
		if err := json.Unmarshal([]byte(out.String()), &e); err != nil || e.Peer != strings.ToValidUTF8(evil, "\ufffd") {
			t.Errorf("%q, %v", e.Peer, err)
		}
	}
}
