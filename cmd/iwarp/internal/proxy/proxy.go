// Package proxy is "iwarp proxy": a bridge between TCP and iWARP for programs that know nothing of iWARP, and a relay
// between two iWARP ends that makes faults.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
)

// Command is "iwarp proxy".
type Command struct {
	Listen  endpoint    `required:"" placeholder:"ADDR" help:"Where to take connections: HOST:PORT, or :PORT for every address of this host; tcp:// or iwarp:// in front makes a bridge."`
	To      endpoint    `required:"" placeholder:"ADDR" help:"Where each connection goes on: HOST:PORT, with iwarp:// or tcp:// in front where --listen has the other one."`
	Faults  []faultSpec `name:"fault" sep:"none" placeholder:"SPEC" help:"What goes wrong on each connection of a relay; may be given several times. The text above lists them."`
	Record  string      `placeholder:"FILE" help:"Record the iWARP connections in FILE, as pcapng, for \"iwarp inspect\" or Wireshark: of a relay both sides, before and after the faults."`
	Clients int         `name:"max-connections" default:"128" placeholder:"N" help:"Connections at once (default 128); further ones wait."`
	Timeout ui.Wait     `default:"10s" placeholder:"D" help:"How long a connection may take to be made (default 10s)."`
	Grace   ui.Wait     `default:"10s" placeholder:"D" help:"How long connections may go on after SIGINT or SIGTERM (default 10s); those that are left are reset."`
	JSON    bool        `name:"json" help:"Print JSON, an object a line. The keys are listed above."`

	wire wire // what Validate has made of Faults
}

// Help is the long help.
func (c *Command) Help() string {
	return `A bridge, for programs that know TCP only: one of these at each end, and iWARP between them (the streams of
docs/stream.md, so that a program with rsockets may be the other end). Nothing is encrypted.

  iwarp proxy --listen tcp://localhost:8080 --to iwarp://HOST:7180     where the client is
  iwarp proxy --listen iwarp://:7180 --to tcp://localhost:80           where the server is

A relay between two iWARP ends, which passes on what they send as it is, but for the faults that are asked for:

  iwarp proxy --listen :7180 --to HOST:7174 --fault corrupt:fpdu=17,responder

SPEC is one of these, of what the initiator sends, who connects to the relay, or of what the responder sends:

  delay:D[,WHO]                 every octet is D on its way (5ms); without WHO both ways
  throttle:N[,WHO]              at most N octets a second pass; K, M and G may stand behind N
  KIND:WHERE[,OPTION...],WHO    KIND at a place; WHO is initiator or responder

  corrupt   inverts bits (mask=0x01) of an octet (octet=N): of an FPDU without octet=N the last one, of its CRC;
            with fix and octet=N the CRC is made right again
  drop      leaves it out
  reorder   passes it on after the next one
  split     passes it on in writes of size=N octets (1)
  hold      passes on nothing from there on, for=D, or until the end
  cut       ends the direction there with a FIN
  reset     resets the connection there

WHERE is fpdu=N, write=N (what comes at a time) or octet=N, counted from 0 on each connection. FPDU 0 of an initiator
on a peer-to-peer connection is its Ready To Receive message. count=N, of corrupt, drop, reorder and split, is for how
many in a row; -1 is all.

Exit codes: 0 it was told to stop; 1 it could not go on; 2 the command line is wrong.

With --json every line is an object; "event" says which:

  listening     address, to, mode (bridge, relay), faults

  connected     connection (from 1), peer, to

  fault         connection, fault (as it was given): the first time on a connection

  disconnected  connection, peer, octets_sent (by the peer), octets_received (by it), faults (how many times
                one happened), duration_ns, error (absent if both ends closed in good order)

  stopping      connections (that are still open), grace_ns

  error         error, peer, cause, code

  summary       connections, failed, octets_sent, octets_received, faults`
}

// Validate refuses what cannot be done.
func (c *Command) Validate() error {
	switch from, to := c.Listen.scheme, c.To.scheme; {
	case c.To == endpoint{}:
		return errors.New("--to: where the connections go on is missing: HOST:PORT")
	case from == to && from == schemeTCP:
		return errors.New("--listen tcp:// and --to tcp://: there is no iWARP between them: one of them is iwarp://")
	case (from == "") != (to == ""):
		return fmt.Errorf("--listen %v and --to %v: both with tcp:// or iwarp:// in front, for a bridge, or none of "+
			"them, for a relay", c.Listen, c.To)
	case c.bridge() && len(c.Faults) > 0:
		return fmt.Errorf("--fault %v: faults are a relay's, between two iWARP ends: --listen and --to without tcp://",
			c.Faults[0])
	case c.To.host == "":
		return fmt.Errorf("--to %v: the host is missing: HOST:PORT", c.To)
	case c.To.port == 0:
		return fmt.Errorf("--to %v: the port is a number from 1 to 65535", c.To)
	case c.Clients < 1:
		return fmt.Errorf("--max-connections %d: 1 or more", c.Clients)
	}
	var err error
	c.wire, err = newWire(c.Faults)
	return err
}

// bridge reports whether one side is plain TCP.
func (c *Command) bridge() bool { return c.Listen.scheme != c.To.scheme }

// Run passes on what comes until ctx ends.
func (c *Command) Run(ctx context.Context, out *ui.Output) (err error) {
	out.JSON = c.JSON
	s := &server{
		out: out, to: c.To, timeout: time.Duration(c.Timeout), grace: time.Duration(c.Grace),
		places: make(chan struct{}, c.Clients),
	}
	if c.Record != "" {
		f, err := os.Create(c.Record)
		if err != nil {
			return fmt.Errorf("--record: %w", err)
		}
		// Lossless, since a recording with holes shows faults that nobody made.
		rec, err := capture.NewRecorder(f, &capture.Options{Lossless: true})
		if err != nil {
			return errors.Join(err, f.Close())
		}
		s.wrap = rec.Conn
		defer func() {
			if rerr := errors.Join(rec.Close(), f.Close()); rerr != nil {
				err = errors.Join(err, fmt.Errorf("--record %s: %w", c.Record, rerr))
			}
		}()
	}
	ln, mode, err := c.listen(ctx, s)
	if err != nil {
		return fmt.Errorf("--listen %v: %w", c.Listen, err)
	}
	e := listeningEvent{Address: ln.Addr().String(), To: c.To.String(), Mode: mode, Faults: []string{}}
	for _, f := range c.Faults {
		e.Faults = append(e.Faults, f.text)
	}
	out.Emit(e)
	return s.run(ctx, ln)
}

// listen makes the listener, and what is done with its connections.
func (c *Command) listen(ctx context.Context, s *server) (listener, string, error) {
	switch {
	case !c.bridge():
		s.pass = (&relay{server: s, wire: c.wire}).pass
		ln, err := listenTCP(ctx, c.Listen.address())
		return ln, "relay", err
	case c.Listen.scheme == schemeTCP:
		s.pass = (&bridge{server: s, dial: s.dialStream}).pass
		ln, err := listenTCP(ctx, c.Listen.address())
		return ln, "bridge", err
	default:
		s.pass = (&bridge{server: s, dial: s.dialTCP}).pass
		ln, err := s.listenStream(ctx, c.Listen.address(), c.Clients)
		return ln, "bridge", err
	}
}
