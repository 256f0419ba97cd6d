package cli

import (
	"errors"
	"testing"
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
