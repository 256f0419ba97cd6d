package conform

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/kit"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/target"
)

// conformListening tells where the kit or its target is.
type conformListening struct {
	Address string `json:"address"`
	what    string
}

// conformAligned is the target's last line.
type conformAligned struct {
	Align   string `json:"align"`
	FPDUs   uint64 `json:"fpdus_sent"`
	Aligned uint64 `json:"fpdus_aligned"`
}

func newConformAligned(a ui.Align, t *target.Target) conformAligned {
	sent, aligned := t.FPDUs()
	return conformAligned{a.String(), sent, aligned}
}

func (e conformAligned) EventKind() string { return "alignment" }
func (e conformAligned) Text() string {
	return fmt.Sprintf("alignment %s: %s", e.Align, ui.AlignedShare(e.Aligned, e.FPDUs))
}

func (e conformListening) EventKind() string { return "listening" }
func (e conformListening) Text() string      { return e.Address + ": " + e.what }

// conformCase is a line of --list.
type conformCase struct {
	ID    string   `json:"id"`
	Role  string   `json:"role"`
	ULP   string   `json:"ulp"`
	Level string   `json:"level"`
	Rules []string `json:"rules"`
	Rule  string   `json:"rule"`
	Sends string   `json:"sends"`
	Legal []string `json:"legal"`
	line  string
}

func newConformCase(c *kit.Case) conformCase {
	e := conformCase{
		c.ID, c.Roles.String(), c.Needs.String(), c.Level.String(), c.Rules, c.Rule, c.Sends, []string{}, c.String(),
	}
	for _, a := range c.Legal {
		e.Legal = append(e.Legal, a.String())
	}
	return e
}

func (e conformCase) EventKind() string { return "case" }
func (e conformCase) Text() string      { return e.line }

func (c *Command) list(out *ui.Output) error {
	cases, err := kit.Select(c.options())
	if err != nil {
		return err
	}
	if len(cases) == 0 {
		return c.noCase()
	}
	for _, x := range cases {
		out.Emit(newConformCase(x))
	}
	return nil
}

// conformResult is one result.
type conformResult struct {
	conformCase
	Status string        `json:"status"`
	Reason string        `json:"reason,omitempty"`
	Log    []string      `json:"log,omitempty"`
	Time   time.Duration `json:"time_ns"`
	Known  string        `json:"known,omitempty"`
}

func newConformResult(r *kit.Result) conformResult {
	e := conformResult{newConformCase(r.Case), r.Status.String(), r.Reason, nil, r.Time, r.Known}
	if r.Status == kit.Fail || r.Status == kit.KnownFailure || r.Status == kit.Inconclusive {
		e.Log = r.Log
	}
	return e
}

func (e conformResult) EventKind() string { return "result" }

// conformSummary is the last line.
type conformSummary struct {
	kit.Summary
	Time     time.Duration `json:"time_ns"`
	Gone     string        `json:"gone,omitempty"`
	InFlight []string      `json:"in_flight,omitempty"`
	Version  string        `json:"version"`
	Commit   string        `json:"commit,omitempty"`
}

func (e conformSummary) EventKind() string { return "summary" }
func (e conformSummary) Text() string      { return e.Summary.String() }

// report shows a report, in all forms that are asked for.
func (c *Command) report(out *ui.Output, r *kit.Report) error {
	if c.JSON {
		b := ui.Build()
		out.Emit(conformSummary{r.Summary(), r.Time, r.Gone, r.InFlight, b.Version, b.Commit})
	} else {
		var b strings.Builder
		_ = r.WriteText(&b) // to memory
		out.Printf("%s", ui.PrintableLines(b.String()))
	}
	peer := "a client"
	if c.Peer != nil {
		peer = string(*c.Peer)
	}
	err := errors.Join(
		writeReport("--junit", c.JUnit, r.WriteJUnit),
		writeReport("--html", c.HTML, func(w io.Writer) error { return r.WriteHTML(w, peer) }),
	)
	switch {
	case err != nil:
		return err
	case r.Gone != "":
		return &ui.ExitError{Code: ui.ExitEndpointGone, Err: fmt.Errorf("the endpoint has gone: %s", r.Gone)}
	case r.Count(kit.Fail) > 0:
		return ui.ErrReported
	case r.Count(kit.Pass)+r.Count(kit.KnownFailure) == 0:
		return errors.New("no case could be judged: see the reasons of those that are not applicable or inconclusive")
	}
	return nil
}

func writeReport(flag, name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	var b bytes.Buffer
	err := write(&b)
	if err == nil {
		err = os.WriteFile(name, b.Bytes(), 0o666)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// recordCase records each case in memory, and keeps what has failed.
func (c *Command) recordCase(out *ui.Output) func(*kit.Case) (func(net.Conn) net.Conn, func(*kit.Result)) {
	return func(x *kit.Case) (func(net.Conn) net.Conn, func(*kit.Result)) {
		var b bytes.Buffer
		rec, err := capture.NewRecorder(&b, &capture.Options{Lossless: true})
		if err != nil {
			out.Note(fmt.Sprintf("--record: %s: %v", x.ID, err))
			return nil, nil
		}
		return rec.Conn, func(r *kit.Result) {
			err := rec.Close()
			if r.Status == kit.Fail && err == nil {
				name := filepath.Join(c.Record, strings.ReplaceAll(x.ID, "/", "_")+".pcapng")
				err = os.WriteFile(name, b.Bytes(), 0o666)
			}
			if err != nil {
				out.Note(fmt.Sprintf("--record: %s: %v", x.ID, err))
			}
		}
	}
}
