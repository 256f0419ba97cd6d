package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
)

// full is a writer on a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// Output that got lost is no success, whatever the form.
func TestLostOutput(t *testing.T) {
	s := cmdtest.Serve(t, Main)
	for _, args := range [][]string{
		{"version"},
		{"version", "--json"},
		{"ping", s.Addr, "--count", "1"},
		{"ping", s.Addr, "--count", "1", "--json"},
		{"demo", "--bytes", "1"},
	} {
		errs := cmdtest.NewLines()
		if code := Main(cmdtest.Context(t), args, full{}, errs); code != ui.ExitFailed {
			t.Errorf("%q: exit code %d", args, code)
		}
		cmdtest.MustContain(t, args[0], errs.String(), "iwarp: standard output: no space left")
	}
}

// An error of the command line has the form that was asked for.
func TestUsageForm(t *testing.T) {
	for _, json := range []string{"--json", "--json=true"} {
		out, errs := cmdtest.NewLines(), cmdtest.NewLines()
		if code := Main(t.Context(), []string{"ping", "h", json, "--nosuch"}, out, errs); code != ui.ExitUsage {
			t.Errorf("exit code %d", code)
		}
		cmdtest.MustContain(t, json, out.String(), `{"event":"error","error":"unknown flag --nosuch","exit_code":2}`)
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
		out, errs := cmdtest.NewLines(), cmdtest.NewLines()
		o := ui.NewOutput(out, errs)
		o.JSON = asJSON
		o.Emit(ui.ErrorEvent{Error: "first\nsecond " + evil, Peer: evil})
		o.Note(evil)
		text := out.String() + errs.String()
		for _, r := range strings.Trim(text, "\n") {
			if ui.Controls(r) && r != '\n' && r != '\t' || r == utf8.RuneError && !asJSON {
				t.Errorf("JSON %t: %q in %q", asJSON, r, text)
			}
		}
		if !asJSON {
			cmdtest.MustContain(t, "stderr", errs.String(), "first\nsecond ",
				`\x1b[2J\a\x9b\u009b\u202e\u2066\U000e0041`)
			continue
		}
		var e struct{ Error, Peer string }
		if err := json.Unmarshal([]byte(out.String()), &e); err != nil ||
			e.Peer != strings.ToValidUTF8(evil, "\ufffd") {
			t.Errorf("%q, %v", e.Peer, err)
		}
	}
}
