// Package conform is "iwarp conform": the cases of package kit against an endpoint, and
// what they found as a table, JSON, JUnit XML or HTML.
package conform

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/kit"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/target"
	"github.com/go-iwarp/iwarp/mpa"
)

// Command is "iwarp conform".
type Command struct {
	Peer       *ui.Address `arg:"" optional:"" name:"host:port" help:"The responder to test: the kit is the initiator. Default port 7174."`
	Initiator  bool        `help:"Say that the kit is the initiator, as it is with HOST:PORT anyway."`
	Serve      *ui.Address `placeholder:"ADDR" help:"Test an initiator: be the responder at this address, for a client that connects again and again."`
	Target     *ui.Address `placeholder:"ADDR" help:"Be an endpoint to test, with the program that shows most of it, at this address, until SIGINT or SIGTERM."`
	TargetDial *ui.Address `name:"target-dial" placeholder:"HOST:PORT" help:"Be such an endpoint as a client of \"iwarp conform --serve\", until SIGINT or SIGTERM."`

	ULP      ulp     `name:"ulp" default:"raw" placeholder:"raw|rping|target" help:"The program above the endpoint: raw, nothing is known of it (the default); rping, Linux's rping or iwarp ping; target, iwarp conform --target."`
	List     bool    `help:"List the cases that the other flags choose, one a line, and end."`
	Only     string  `name:"run" placeholder:"PATTERN" help:"Run the cases whose id, or the id of a rule of theirs, matches this regular expression."`
	Skip     string  `placeholder:"PATTERN" help:"Leave out those that match this one."`
	Gentle   bool    `help:"Leave out what is known to have crashed endpoints, kernels among them, and give the endpoint time at startup: Linux siw needs it."`
	Timeout  ui.Wait `default:"5s" placeholder:"D" help:"How long to wait for an answer that is due at once (default 5s)."`
	Patience ui.Wait `default:"15s" placeholder:"D" help:"How long to wait where the peer may take its time: for the end of a startup that is not finished (default 15s)."`
	Wait     ui.Wait `default:"60s" placeholder:"D" help:"How long a case waits for a connection (default 60s)."`
	Parallel int     `default:"8" placeholder:"N" help:"Cases at once (default 8)."`

	FailFast bool   `help:"Begin no more cases once one has failed."`
	Known    string `placeholder:"FILE" help:"Failures that are expected: in each line the id of a case and the reason. They do not count as failed."`

	JSON   bool   `name:"json" help:"Print JSON, an object a line, errors too. docs/conform.md lists the keys."`
	JUnit  string `name:"junit" placeholder:"FILE" help:"Write JUnit XML too."`
	HTML   string `name:"html" placeholder:"FILE" help:"Write a report as one HTML page too."`
	Record string `placeholder:"DIR" help:"Write the traffic of each failed case into a pcapng file below DIR."`

	Rev     ui.Revision `default:"2" placeholder:"1|2" help:"Revision of MPA to ask for, where a case does not care (default 2)."`
	CRC     ui.OnOff    `name:"crc" default:"on" placeholder:"on|off" help:"Ask for CRC32c, where a case does not care (default on)."`
	Markers bool        `help:"Ask the peer for Markers, in every case."`

	RTR *ui.RTRSet `name:"rtr" placeholder:"write,read,send|none" help:"With --target and --target-dial: kinds of Ready To Receive message that it supports (default all three); none for client-server connections."`
	IRD ui.Depth   `name:"ird" placeholder:"N" help:"With --target and --target-dial: RDMA Reads that it serves at once (default 128; 16383 is left out of the negotiation)."`
	ORD ui.Depth   `name:"ord" placeholder:"N" help:"With --target and --target-dial: RDMA Reads that it has under way at once (default 128)."`

	Align ui.Align `default:"auto" placeholder:"auto|off|segments|strict" help:"With --target and --target-dial: how hard it works for frames that start where TCP segments do (default auto)."`
}

// ulp is the flag --ulp.
type ulp kit.ULP

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *ulp) UnmarshalText(b []byte) error {
	v, err := kit.ParseULP(string(b))
	if err != nil {
		return fmt.Errorf("%q: raw, rping or target", b)
	}
	*u = ulp(v)
	return nil
}

// Help is the long help.
func (c *Command) Help() string {
	return `Tests an iWARP endpoint, a NIC or a kernel or a program, against the RFCs: it plays the other end, well and
badly, and judges what the endpoint does. After each case that breaks a rule a fresh good connection must work.

    iwarp conform 192.0.2.1:7174                           a responder of which nothing is known
    iwarp conform --ulp rping 192.0.2.1:7174               an rping -s -P, or iwarp ping --serve
    iwarp conform --serve :7174                            a client that connects again and again
    iwarp conform --target :7174                           an endpoint of this program, to be tested elsewhere
    iwarp conform --ulp target 192.0.2.1:7174              with --ulp target

Test only what is yours: the kit does what hostile peers do. --gentle leaves out what is known to crash endpoints.

Exit codes: 0 if no case failed, 1 if one did, if no case was chosen or none could be judged, 2 if the command line is
wrong, 4 if the endpoint has gone during the run: the cases that were under way are named, and the rest is not run.
Cases that are not applicable or inconclusive do not count as failed; they are counted, with their reasons.`
}

// Validate refuses flags that do not go together.
func (c *Command) Validate() error {
	n := 0
	for _, a := range []*ui.Address{c.Peer, c.Serve, c.Target, c.TargetDial} {
		if a != nil {
			n++
		}
	}
	switch {
	case n > 1:
		return errors.New("HOST:PORT, --serve, --target and --target-dial: one of them")
	case n == 0 && !c.List:
		return errors.New("expected HOST:PORT of a responder, or --serve, --target, --target-dial or --list")
	case c.Initiator && c.Peer == nil && !c.List:
		return errors.New("--initiator: needs HOST:PORT")
	case c.Target == nil && c.TargetDial == nil && (c.RTR != nil || c.IRD != 0 || c.ORD != 0):
		return errors.New("--rtr, --ird, --ord: they are the target's, and need --target or --target-dial")
	case c.Target == nil && c.TargetDial == nil && c.Align != 0:
		return fmt.Errorf("--align %v: it is the target's, and needs --target or --target-dial", c.Align)
	case c.Parallel < 1:
		return fmt.Errorf("--parallel %d: 1 or more", c.Parallel)
	}
	_, err := kit.Select(c.options())
	return err
}

func (c *Command) options() *kit.Options {
	o := &kit.Options{
		Role: kit.Initiator, ULP: kit.ULP(c.ULP), Revision: int(c.Rev), Markers: c.Markers, NoCRC: c.CRC == ui.Off,
		Run: c.Only, Skip: c.Skip, Gentle: c.Gentle, Parallel: c.Parallel, FailFast: c.FailFast,
		Timeout: time.Duration(c.Timeout), Patience: time.Duration(c.Patience), Wait: time.Duration(c.Wait),
	}
	switch {
	case c.Serve != nil:
		o.Role = kit.Responder
	case c.List && c.Peer == nil && !c.Initiator:
		o.Role = kit.Either
	}
	return o
}

// Run runs the cases, or is the target.
func (c *Command) Run(ctx context.Context, out *ui.Output) (err error) {
	out.JSON = c.JSON
	switch {
	case c.List:
		return c.list(out)
	case c.Target != nil || c.TargetDial != nil:
		return c.target(ctx, out)
	}
	o := c.options()
	if o.Known, err = readKnown(c.Known); err != nil {
		return err
	}
	if cases, err := kit.Select(o); err != nil || len(cases) == 0 {
		return errors.Join(err, c.noCase())
	}
	connect := kit.Dial("tcp", string(ui.Or(c.Peer, "")))
	if c.Serve != nil {
		ln, err := listen(ctx, *c.Serve)
		if err != nil {
			return fmt.Errorf("--serve %s: %w", *c.Serve, err)
		}
		defer ln.Close()
		out.Emit(conformListening{ln.Addr().String(), "for a client that connects again and again"})
		connect = kit.Accept(ln)
	}
	if c.Record != "" {
		if err := os.MkdirAll(c.Record, 0o777); err != nil {
			return fmt.Errorf("--record: %w", err)
		}
		o.Record = c.recordCase(out)
	}
	if c.JSON {
		o.Progress = func(r *kit.Result) { out.Emit(newConformResult(r)) }
	}
	report, err := kit.Run(ctx, connect, o)
	if report == nil {
		return err
	}
	report.Kit = ui.Build().String()
	return errors.Join(c.report(out, report), err)
}

// noCase says why there is nothing to do.
func (c *Command) noCase() error {
	var flags []string
	if c.Only != "" {
		flags = append(flags, fmt.Sprintf("--run %q", c.Only))
	}
	if c.Skip != "" {
		flags = append(flags, fmt.Sprintf("--skip %q", c.Skip))
	}
	if c.Gentle {
		flags = append(flags, "--gentle")
	}
	return fmt.Errorf("%s: no case of the kit as %v is chosen (--list shows them all)", strings.Join(flags, " "),
		c.options().Role)
}

func listen(ctx context.Context, addr ui.Address) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", string(addr))
}

// target is --target and --target-dial.
func (c *Command) target(ctx context.Context, out *ui.Output) error {
	dev, err := ui.NewDevice(c.CRC, c.IRD, c.ORD)
	if err != nil {
		return err
	}
	t, err := target.New(&iwarp.Config{
		Device: dev, IRD: int(c.IRD), ORD: int(c.ORD),
		MPA: iwarp.MPAConfig{
			Revision: int(c.Rev), Markers: c.Markers, Align: mpa.Align(c.Align),
			RTR: iwarp.RTR(ui.Or(c.RTR, ui.RTRSet(iwarp.RTRSend|iwarp.RTRWrite|iwarp.RTRRead))),
		},
	})
	if err != nil {
		return err
	}
	defer func() { out.Emit(newConformAligned(c.Align, t)) }()
	if c.TargetDial != nil {
		out.Emit(conformListening{string(*c.TargetDial), "connecting to it again and again; Ctrl-C ends it"})
		t.Connect(ctx, kit.Dial("tcp", string(*c.TargetDial)), c.Parallel)
		return nil
	}
	ln, err := listen(ctx, *c.Target)
	if err != nil {
		return fmt.Errorf("--target %s: %w", *c.Target, err)
	}
	out.Emit(conformListening{ln.Addr().String(), "for iwarp conform --ulp target; Ctrl-C ends it"})
	return t.Serve(ctx, ln)
}
