// Package inspect is "iwarp inspect": what package analysis finds in a capture, as a
// listing, JSON, a page of HTML, or files.
package inspect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
)

// Command is "iwarp inspect".
type Command struct {
	File        string        `arg:"" name:"file" help:"The capture, or - for standard input."`
	Verdict     bool          `help:"Check both ends against the RFCs and list only the broken rules. Exit code 3 if there is one."`
	Filter      inspectFilter `placeholder:"EXPR" help:"Show only what matches, e.g. 'conn=1,op=write,read' or 'stag=0x1234abcd and error'. The language is above."`
	Hex         bool          `help:"Show the octets too, with each field named."`
	Follow      bool          `help:"Go on as the file grows, until SIGINT or SIGTERM."`
	JSON        bool          `name:"json" help:"Print JSON, an object a line, errors too. docs/inspect.md lists the keys."`
	HTML        string        `name:"html" placeholder:"OUT" help:"Write a page that stands alone, with diagrams, to the file OUT instead of the listing."`
	Extract     string        `placeholder:"DIR" help:"Write what each end sent into files below DIR instead of the listing. DIR is new or empty."`
	ExtractKind *extractKind  `placeholder:"KIND" help:"What to extract: payload, a file a message (the default), or ulpdu, a file a frame."`
}

// Help is the long help.
func (c *Command) Help() string {
	return `Reads pcap and pcapng, as of tcpdump, Wireshark or --record, also compressed with gzip or zstd, finds iWARP
on any port, and tells what happened: startup, messages, Terminates, totals of each connection.

A filter is a list of terms with commas, blanks or "and" between; all of them must hold. A term is

  conn=N,N-N      connections by number

  frame=N,N-N     frames

  from=END        initiator, responder, a or b (where it is not known who is which)

  op=NAME,NAME    operations: send, write, read, atomic, immediate, terminate, startup for the group, or send-plain,
                  send-inv, send-se, send-se-inv, read-request, read-response, atomic-request, atomic-response

  stag=0xHEX      messages with that STag anywhere in their headers

  error           what went wrong: refused startup, Terminates, bad CRCs, broken rules, lost octets

With != in place of =, or !error, a term is reversed.

Exit codes: 0 if all was decoded, whatever the peers did; 1 if the input is unreadable, cut or corrupt, after what
could be read was shown, or if --verdict had nothing to check since nothing matches the filter; 2 if the command line
is wrong; 3 with --verdict if a rule was broken. Rules are MUST,
MUST NOT and the formats; a SHOULD is listed and does not count.`
}

// Validate refuses flags that do not go together.
func (c *Command) Validate() error {
	switch {
	case c.Follow && c.File == stdinName:
		return errors.New("--follow: not with -: standard input is read until it ends anyway")
	case c.ExtractKind != nil && c.Extract == "":
		return fmt.Errorf("--extract-kind %s: needs --extract DIR", *c.ExtractKind)
	case c.Verdict && c.Filter.ofMessages():
		return errors.New("--filter: op, stag and error do not go with --verdict: a rule is broken by an octet, not " +
			"by an operation; conn, frame and from do")
	case c.File == "":
		return errors.New("expected the name of a capture, or - for standard input")
	}
	return nil
}

// sink takes the events that the filter lets through, and the end.
type sink interface {
	event(e analysis.Event) error
	// end is called once, also if the capture could not be read to its end; err
	// then says why.
	end(rd *analysis.Reader, err error) error
}

// inspection is a run of the command.
type inspection struct {
	cmd    *Command
	w      *bufio.Writer
	gate   gate
	sinks  []sink
	broken int // rules, those of SHOULD not counted
	passed int // events that the filter let through
}

// Run shows the capture.
func (c *Command) Run(ctx context.Context, out *ui.Output) (err error) {
	out.JSON = c.JSON
	defer func() {
		if err != nil && !c.JSON && !errors.Is(err, ui.ErrReported) && !errors.Is(err, ui.ErrRuleBroken) {
			err = printableError{err}
		}
	}()
	i := &inspection{cmd: c, w: bufio.NewWriterSize(out.Stdout, 64<<10), gate: gate{filter: c.Filter}}
	in, closeIn, err := c.open(ctx, func() { _ = i.w.Flush() })
	if err != nil {
		return err
	}
	defer closeIn()
	rd, err := analysis.Open(in, &analysis.ReaderOptions{
		Decompress: unzstd, FPDUs: c.Hex || c.Extract != "" || c.HTML != "",
		NoAnomalies: c.Verdict && !c.JSON && c.HTML == "",
	})
	if err != nil {
		return c.unreadable(out, err)
	}
	if i.sinks, err = c.makeSinks(out, i.w); err != nil {
		return err
	}
	readErr := i.read(rd)
	var sinkErr *sinkError
	if errors.As(readErr, &sinkErr) {
		return sinkErr.err
	}
	if c.Follow && ctx.Err() != nil && errors.Is(readErr, io.ErrUnexpectedEOF) {
		readErr = nil // stopped while the writer was within a frame
	}
	for _, s := range i.sinks {
		if err := s.end(rd, readErr); err != nil {
			return err
		}
	}
	if err := i.w.Flush(); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	switch {
	case readErr != nil:
		return c.unreadable(out, readErr)
	case i.passed == 0 && len(c.Filter.terms) > 0 && c.Verdict:
		return errors.New("nothing in the capture matches --filter, so that nothing was checked")
	case i.passed == 0 && len(c.Filter.terms) > 0:
		out.Note("nothing in the capture matches --filter")
	case c.Verdict && i.broken > 0:
		return ui.ErrRuleBroken
	}
	return nil
}

// makeSinks returns who takes the events.
func (c *Command) makeSinks(out *ui.Output, w *bufio.Writer) (sinks []sink, err error) {
	switch {
	case c.JSON:
		sinks = append(sinks, &jsonSink{w: w, file: c.File, hex: c.Hex, verdict: c.Verdict})
	case c.Verdict || c.Hex || c.HTML == "" && c.Extract == "":
		sinks = append(sinks, &textSink{w: w, out: out, hex: c.Hex, verdict: c.Verdict})
	}
	if c.Extract != "" {
		x, err := newExtractor(c.Extract, ui.Or(c.ExtractKind, extractPayload), out)
		if err != nil {
			return nil, err
		}
		sinks = append(sinks, x)
	}
	if c.HTML != "" {
		if err := checkPage(c.File, c.HTML); err != nil {
			return nil, err
		}
		sinks = append(sinks, newReport(c.File, c.HTML, out))
	}
	return sinks, nil
}

// sinkError is an error of our output, not of the capture.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }

// read hands all events on. The error is why the capture could not be read to its
// end, or a *sinkError.
func (i *inspection) read(rd *analysis.Reader) error {
	for {
		e, err := rd.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range i.gate.pass(e) {
			i.passed++
			if v, ok := e.(*analysis.Verdict); ok && mandatory(v) {
				i.broken++
			}
			for _, s := range i.sinks {
				if err := s.event(e); err != nil {
					return &sinkError{err}
				}
			}
		}
	}
}

// printableError is an error whose text may have names of files in it, which may be
// made to control the terminal.
type printableError struct{ error }

func (e printableError) Error() string { return ui.Printable(e.error.Error()) }

func (e printableError) Unwrap() error { return e.error }

// mandatory reports whether the rule is more than a recommendation.
func mandatory(v *analysis.Verdict) bool {
	return !strings.HasPrefix(v.Level, "SHOULD") && v.Level != "MAY"
}

// unreadable reports a capture that is none or not whole.
func (c *Command) unreadable(out *ui.Output, err error) error {
	e := fileEvent{
		ErrorEvent: ui.ErrorEvent{
			Error: c.File + ": " + strings.TrimPrefix(err.Error(), "capture: "), ExitCode: ui.ExitFailed,
		},
	}
	if c.File == stdinName {
		e.Error = "standard input" + strings.TrimPrefix(e.Error, c.File)
	}
	var ferr *capture.FileError
	if errors.As(err, &ferr) {
		e.Offset = &ferr.Offset
	}
	out.Emit(e)
	return ui.ErrReported
}

func (e fileEvent) Text() string { return ui.Printable(e.ErrorEvent.Text()) }

// fileEvent is the error of a capture.
type fileEvent struct {
	ui.ErrorEvent
	// Offset is where in the file, or in what it expands to.
	Offset *int64 `json:"offset,omitempty"`
}

// sameFile reports whether both names are of one existing file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
