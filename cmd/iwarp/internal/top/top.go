// Package top is "iwarp top": a running program's connections, live.
package top

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/live"
)

// Command is "iwarp top".
type Command struct {
	Target   target  `arg:"" name:"pid|addr" help:"The number of a process of this host; or HOST:PORT or a URL of its HTTP server; or the path of a Unix-domain socket."`
	Once     bool    `help:"Show the counters of now, and end. Without it the rates since the last look are shown, until SIGINT."`
	Interval ui.Wait `default:"1s" placeholder:"D" help:"How often to look (default 1s)."`
	JSON     bool    `name:"json" help:"Print JSON, an object a look. The keys are listed above."`
}

// Help is the long help.
func (c *Command) Help() string {
	return `Shows the connections of a program that offers them. Programs with this library do that by a line of code,

  offer, err := live.Offer(device)                          package github.com/go-iwarp/iwarp/live: iwarp top PID
  http.Handle(live.Endpoint, live.Handler(device))          where there is an HTTP server: iwarp top HOST:PORT

and "iwarp ping --serve", "iwarp bench --serve" and "iwarp serve" by the flag --live. To see it at work:

  iwarp ping --serve :7174 --live &
  iwarp ping localhost --count 0 > /dev/null &
  iwarp top PID                                             the first one's, which it says

A row is a connection, the busiest first: octets of payload and messages that this program sent (OUT) and received
(IN), RDMA Reads and atomics of the peer that it answered, and TCP segments that were sent again.

Exit codes: 0 it was interrupted, or the program has ended; 1 there was nothing to see, or what came was no such
answer; 2 the command line is wrong.

With --json every line is an object; "event" says which:

  snapshot  format, pid, program, time, totals: an object with live, connections, ended_gracefully, ended_in_error,
            startups_failed, startups_refused, messages_sent, messages_received, payload_sent, payload_received
            (octets), reads_served, atomics_served; errors: a list of {code (as in iwarp ping), by (here, peer or
            program), count};
            conns: a list of {id, local, remote, initiator, began, fpdus_sent, fpdus_received, retransmits, mulpdu, and
            the last six of totals}; left_out (connections that are not in the list, which has 10000 at most)

  error     error, exit_code`
}

// Run looks until ctx ends.
func (c *Command) Run(ctx context.Context, out *ui.Output) error {
	out.JSON = c.JSON
	s := newSource(c.Target)
	defer s.close()
	var v view
	tick := time.NewTicker(time.Duration(c.Interval))
	defer tick.Stop()
	for first := true; ; first = false {
		now, err := s.fetch(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case !first && errors.As(err, new(goneError)):
			out.Note("the program has ended, or offers its connections no more")
			return nil
		default:
			return err
		}
		c.show(out, &v, now, first)
		if c.Once {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// show writes what was found.
func (c *Command) show(out *ui.Output, v *view, s *live.Snapshot, first bool) {
	if c.JSON {
		out.Emit(snapshotEvent{s})
		return
	}
	v.take(s, time.Now())
	width, height := out.Size()
	switch lines := v.lines(width, height); {
	case c.Once:
		out.Printf("%s", text(out, lines, ""))
	case out.Style:
		// From the top left corner, each line to its end, and nothing below.
		out.Printf("%s\x1b[H%s\x1b[J", ui.Word(first, "\x1b[2J", ""), text(out, lines, "\x1b[K"))
	default:
		out.Printf("%s\n", text(out, lines, ""))
	}
}

// snapshotEvent is a snapshot as an event.
type snapshotEvent struct{ *live.Snapshot }

func (snapshotEvent) EventKind() string { return "snapshot" }

func (e snapshotEvent) Text() string { return fmt.Sprintf("%s, PID %d", e.Program, e.PID) }
