// Package demo is "iwarp demo": what RDMA does, with both ends in one process.
package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

// Command is "iwarp demo".
type Command struct {
	Bytes ui.Octets `default:"256M" placeholder:"N" help:"Octets of the large transfer at the end; K, M and G may stand behind N (default 256M)."`

	Startup ui.StartupFlags `embed:""`
}

// Help is the long help.
func (c *Command) Help() string {
	return `Both ends of a connection run in this process and talk over TCP on the loopback interface. Each operation of
RDMA is done once, explained, and checked; a refused access shows how errors are told; then a large transfer
shows the speed. The startup flags hold for both ends.

Exit codes: 0 if everything happened as explained, 1 if not, 2 if the command line is wrong.`
}

// maxDemoBytes bounds what the demo allocates for the transfer.
const maxDemoBytes = 1 << 30

// Validate refuses what the demo cannot do.
func (c *Command) Validate() error {
	if c.Bytes > maxDemoBytes {
		return fmt.Errorf("--bytes %d: at most %d (1G), since it is all in memory", c.Bytes, maxDemoBytes)
	}
	return c.Startup.Check()
}

// demo is a run of the demonstration: the two ends and where to tell of them.
type demo struct {
	*narrator
	cfg            *iwarp.Config
	timeout        time.Duration
	client, server *iwarp.Conn
	mr             *iwarp.MR          // the server's memory
	remote         iwarp.RemoteBuffer // as the client knows it
}

// Run shows it all.
func (c *Command) Run(ctx context.Context, out *ui.Output) error {
	cfg, err := c.Startup.Config()
	if err != nil {
		return err
	}
	c.Startup.Announce(out)
	d := &demo{narrator: &narrator{Output: out}, cfg: cfg, timeout: c.Startup.Patience()}
	d.opening()
	start := time.Now()
	defer d.abort()
	for _, step := range []func(context.Context) error{
		d.startup, d.send, d.write, d.read, d.atomics, d.immediate, d.invalidate, d.refused,
	} {
		if err := d.run(ctx, step); err != nil {
			return err
		}
	}
	if err := d.transfer(ctx, int(c.Bytes)); err != nil {
		return err
	}
	d.closing(time.Since(start))
	return nil
}

// run does one step within the timeout.
func (d *demo) run(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.timeout,
		fmt.Errorf("step %d of the demo took more than %v", d.step+1, d.timeout))
	defer cancel()
	if err := step(ctx); err != nil {
		return fmt.Errorf("%s: %w", d.title, err)
	}
	return nil
}

func (d *demo) opening() {
	d.Printf("%s\n\n", d.Bold("iwarp demo: RDMA between two ends, both in this process, over TCP on loopback"))
	d.prose("With RDMA a program opens a piece of its memory to a peer. From then on the peer reads and writes there " +
		"by " +
		"itself: the program that owns the memory makes no call for it, and no copy. iWARP is RDMA over TCP. " +
		"Here it is done in software; a network card or the Linux kernel may be the peer as well.")
}

func (d *demo) closing(took time.Duration) {
	d.Printf("\n%s %s\n", d.Green("All of it went as it should,"), "in "+ui.Round(took).String()+".")
	d.Printf("%s\n",
		d.Dim("Next: \"iwarp ping --serve :7174\" here, \"iwarp ping HOST\" there; either may be an rping of Linux."))
}

// abort ends what connections are left, after an error.
func (d *demo) abort() {
	for _, c := range []*iwarp.Conn{d.client, d.server} {
		if c != nil {
			c.Abort()
		}
	}
}

// connect makes a connection between two ends.
func (d *demo) connect(ctx context.Context) (client, server *iwarp.Conn, err error) {
	scfg, ccfg := d.cfg.Clone(), d.cfg.Clone()
	if d.cfg.PrivateData == nil {
		ccfg.PrivateData, scfg.PrivateData = []byte("I am the client"), []byte("I am the server")
	}
	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", scfg)
	if err != nil {
		return nil, nil, err
	}
	defer ln.Close()
	type accepted struct {
		conn *iwarp.Conn
		err  error
	}
	ch := make(chan accepted, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		c, err := ln.Accept(ctx)
		ch <- accepted{c, err}
	}()
	client, err = iwarp.Dial(ctx, "tcp", ln.Addr().String(), ccfg)
	if err != nil {
		cancel()
		if a := <-ch; a.conn != nil {
			a.conn.Abort()
		}
		return nil, nil, err
	}
	a := <-ch
	if a.err != nil {
		client.Abort()
		return nil, nil, a.err
	}
	return client, a.conn, nil
}

// disconnect ends both ends in good order: each waits for the other.
func (d *demo) disconnect() error {
	ch := make(chan error, 1)
	go func() { ch <- d.server.Close() }()
	err := d.client.Close()
	return errors.Join(err, <-ch)
}

// narrator writes the demo's text.
type narrator struct {
	*ui.Output
	step  int
	title string
}

// heading begins a step.
func (n *narrator) heading(title, prose string) {
	n.step++
	n.title, _, _ = strings.Cut(title, ":")
	n.Printf("\n%s\n", n.Bold(fmt.Sprintf("%d. %s", n.step, title)))
	n.prose(prose)
}

// prose explains.
func (n *narrator) prose(s string) {
	line := ""
	for word := range strings.FieldsSeq(s) {
		if line != "" && len(line)+1+len(word) > ui.TextWidth {
			n.Printf("   %s\n", n.Dim(line))
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	n.Printf("   %s\n", n.Dim(line))
}

// Who acts in a line of the demo.
const (
	toServer = "client --> server"
	toClient = "client <-- server"
	atClient = "client"
	atServer = "           server"
)

// act tells what somebody did.
func (n *narrator) act(who, format string, args ...any) {
	n.Printf("   %-17s  %s\n", who, fmt.Sprintf(format, args...))
}

// timed is act with the time since start.
func (n *narrator) timed(who string, start time.Time, format string, args ...any) {
	n.act(who, "%s  %s", fmt.Sprintf(format, args...), n.Dim("("+ui.Round(time.Since(start)).String()+")"))
}
