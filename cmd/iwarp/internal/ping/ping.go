// Package ping is "iwarp ping": client and server of the protocol of Linux's rping.
package ping

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

// Command is "iwarp ping".
type Command struct {
	Server  *ui.Address `arg:"" optional:"" name:"host:port" help:"The server to ping: an \"iwarp ping --serve\" or an rping -s. Default port 7174."`
	Serve   *ui.Address `placeholder:"ADDR" help:"Be the server, at this address, until SIGINT or SIGTERM. Default port 7174; \":7174\" is every address of this host."`
	Count   *uint64     `placeholder:"N" help:"Client: iterations; 0 goes on until interrupted (default 10)."`
	Size    *ui.Octets  `placeholder:"N" help:"Client: octets each way in each iteration, 1 or more; K, M and G may stand behind N (default 64). An rping server takes no more than its own -S, default 64."`
	MaxSize *ui.Octets  `placeholder:"N" help:"Server: the most octets that a client may advertise (default 64M). Each client that sends so much has it in the server's memory, all together at most 16 times that."`
	Clients *int        `name:"max-clients" placeholder:"N" help:"Server: clients at once; further ones wait (default 128)."`
	ui.LiveFlag
	JSON bool `name:"json" help:"Print JSON, an object a line, errors too. The keys are listed above."`

	Startup ui.StartupFlags `embed:""`
}

// Defaults of flags that only one side has, so that the other can refuse them.
const (
	defaultCount   = 10
	defaultSize    = 64
	defaultMaxSize = 64 << 20
	defaultClients = 128
)

// Help is the long help.
func (c *Command) Help() string {
	return `Each iteration the client fills a buffer, tells the server where it is, the server fetches it by RDMA Read
and writes it back by RDMA Write into a second buffer, and the client compares the two. This is what rping of
Linux's librdmacm does, so either end may be an rping: "rping -s -a ADDR -S SIZE" or "rping -c -a ADDR -C COUNT".

Exit codes: 0 if every iteration came back right (client) or the server was told to stop; 1 if not; 2 if the
command line is wrong.

With --json every line is an object; "event" says which:

  connected     local, peer, initiator, revision, crc, send_markers, recv_markers, peer_to_peer, rtr,
                ird, ord, peer_ird, peer_ord (16383: not said), mulpdu, private_data (hex)

  iteration     peer, iteration (from 1), octets, latency_ns

  summary       verified (client) or clients, failed (server), iterations, octets (each way),
                min_ns, median_ns, max_ns; client: fpdus_sent, fpdus_aligned (whole in one TCP segment)

  listening     address, max_size (server)

  disconnected  peer, iterations, reason, fpdus_sent, fpdus_aligned (server)

  error         error, peer, cause (client_first, peer_silent, startup_timeout, startup_closed, timeout,
                interrupted, unsupported, rejected), code (layer/type/code of RFC 5040 section 4.8), found_by (local or
                peer), echoed_header, private_data, exit_code; those that do not apply are absent`
}

// Validate refuses flags that do not go together.
func (c *Command) Validate() error {
	switch {
	case c.Server == nil && c.Serve == nil:
		return errors.New("expected HOST:PORT of the server, or --serve ADDR to be the server")
	case c.Server != nil && c.Serve != nil:
		return fmt.Errorf("--serve %s: not together with HOST:PORT (%s): a server does not dial", *c.Serve, *c.Server)
	case c.Serve != nil && c.Count != nil:
		return fmt.Errorf("--count %d: the client's flag, not for --serve", *c.Count)
	case c.Serve != nil && c.Size != nil:
		return fmt.Errorf("--size %d: the client's flag, not for --serve: the server takes what each client advertises",
			*c.Size)
	case c.Server != nil && c.MaxSize != nil:
		return fmt.Errorf("--max-size %d: the server's flag, needs --serve", *c.MaxSize)
	case c.Server != nil && c.Clients != nil:
		return fmt.Errorf("--max-clients %d: the server's flag, needs --serve", *c.Clients)
	case c.Server != nil && c.Live:
		return errors.New("--live: the server's flag, needs --serve")
	case c.Clients != nil && *c.Clients < 1:
		return fmt.Errorf("--max-clients %d: 1 or more", *c.Clients)
	}
	return c.Startup.Check()
}

// Run is the client or the server.
func (c *Command) Run(ctx context.Context, out *ui.Output) error {
	out.JSON = c.JSON
	cfg, err := c.Startup.Config()
	if err != nil {
		return err
	}
	cfg.RecvDepth, cfg.RecvSize = recvDepth, recvSize
	if c.Serve != nil {
		s := &pingServer{
			out: out, cfg: cfg, startup: &c.Startup, live: c.LiveFlag, timeout: c.Startup.Patience(),
			maxSize: uint32(ui.Or(c.MaxSize, defaultMaxSize)),
			slots:   make(chan struct{}, ui.Or(c.Clients, defaultClients)),
		}
		return s.run(ctx, string(*c.Serve))
	}
	c.Startup.Announce(out)
	p := &pingClient{out: out, count: ui.Or(c.Count, defaultCount), size: int(ui.Or(c.Size, defaultSize))}
	return p.run(ctx, string(*c.Server), cfg, c.Startup.Patience())
}

// iterationEvent is one iteration that went well.
type iterationEvent struct {
	Peer      string        `json:"peer"`
	Iteration uint64        `json:"iteration"`
	Octets    int           `json:"octets"`
	Latency   time.Duration `json:"latency_ns"`
	server    bool
}

func (e iterationEvent) EventKind() string { return "iteration" }

func (e iterationEvent) Text() string {
	if e.server {
		return fmt.Sprintf("%s: iteration %d: read and wrote %s in %v", e.Peer, e.Iteration,
			ui.Plural(e.Octets, "octet"), ui.Round(e.Latency))
	}
	return fmt.Sprintf("iteration %d: %s there and back in %v, verified", e.Iteration, ui.Plural(e.Octets, "octet"),
		ui.Round(e.Latency))
}

// latencies collects what the summary needs. Of very many it keeps a fair sample,
// so that a client that runs for days does not grow.
type latencies struct {
	n        uint64
	octets   uint64
	min, max time.Duration
	sample   []time.Duration
}

const maxSample = 1 << 16

func (l *latencies) add(d time.Duration, octets int) {
	if l.n == 0 || d < l.min {
		l.min = d
	}
	l.max = max(l.max, d)
	l.n++
	l.octets += uint64(octets)
	if len(l.sample) < maxSample {
		l.sample = append(l.sample, d)
	} else if i := rand.Uint64N(l.n); i < maxSample {
		l.sample[i] = d
	}
}

func (l *latencies) summary() summary {
	s := summary{Iterations: l.n, Octets: l.octets, Min: l.min, Max: l.max}
	if len(l.sample) > 0 {
		sorted := slices.Sorted(slices.Values(l.sample))
		s.Median = (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
	}
	return s
}

// summary is the part of the last line that client and server share.
type summary struct {
	Iterations uint64        `json:"iterations"`
	Octets     uint64        `json:"octets"`
	Min        time.Duration `json:"min_ns"`
	Median     time.Duration `json:"median_ns"`
	Max        time.Duration `json:"max_ns"`
}

// sentFPDUs is what one end has sent on a connection.
type sentFPDUs struct {
	FPDUs   uint64 `json:"fpdus_sent"`
	Aligned uint64 `json:"fpdus_aligned"` // whole in one TCP segment
}

func sentBy(c *iwarp.Conn) sentFPDUs {
	s := c.Stats().MPA
	return sentFPDUs{s.FPDUsSent, s.FPDUsAligned}
}

// String is the share that is aligned.
func (s sentFPDUs) String() string { return ui.AlignedShare(s.Aligned, s.FPDUs) }

func (s summary) times() string {
	if s.Iterations == 0 {
		return ""
	}
	return fmt.Sprintf("; latency min %v, median %v, max %v", ui.Round(s.Min), ui.Round(s.Median), ui.Round(s.Max))
}
