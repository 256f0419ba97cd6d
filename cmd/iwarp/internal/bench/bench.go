// Package bench is "iwarp bench": bandwidth, latency and message rate, beside plain TCP.
package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/internal/netpair"
)

// Command is "iwarp bench".
type Command struct {
	Server *ui.Address `arg:"" optional:"" name:"host:port" help:"The other end: an \"iwarp bench --serve\". Without it both ends run on this machine, as two processes."`
	Serve  *ui.Address `placeholder:"ADDR" help:"Be the other end, at this address, until SIGINT or SIGTERM. Default port 7174."`

	Op       benchOp       `default:"auto" placeholder:"write|read|send|notify|atomic" help:"What to measure: RDMA Writes (default), RDMA Reads, Sends (default with --lat), notify: a Write and then a Send, or atomic: FetchAdds, of 8 octets."`
	Size     []ui.Octets   `placeholder:"N,..." help:"Octets of a message, or a list of sizes; K, M and G may stand behind (default 1M, with --lat 64)."`
	Sweep    bool          `help:"Many sizes, from 64 octets to 16M."`
	Depth    *int          `placeholder:"N" help:"Operations under way at once on a connection (default: 4M worth, 4 to 512, and with many connections no more than 8192 on all of them)."`
	Conns    int           `short:"n" default:"1" placeholder:"N" help:"Connections, all at once (default 1)."`
	Bidi     bool          `help:"Both directions at once."`
	Lat      bool          `help:"Latency, of one operation at a time, instead of bandwidth."`
	Progress progressMode  `default:"adaptive" placeholder:"adaptive|parked|polling" help:"How either end waits: adaptive (default): spins for tens of microseconds where the other end answers as quickly, parked: never spins, polling: spins however long it takes, which needs a processor for each end."`
	Baseline bool          `help:"Plain TCP of Go in turn with every sample, and the ratio to it: writes of 16 segments, reads of 256 KiB; with --lat a ping-pong, which spins with --progress polling."`
	Buffered bool          `help:"With --baseline: plain TCP writes messages of the same size through a buffer of 64 KiB, as a program with such messages does (with more than 64 connections, of --depth messages). Not with --lat."`
	Samples  int           `default:"7" placeholder:"N" help:"Samples (default 7). The median of them is the result."`
	Duration time.Duration `default:"250ms" placeholder:"D" help:"About how long a sample takes (default 250ms)."`
	Segment  ui.FpduMax    `placeholder:"N" help:"Hold FPDUs to what fits TCP segments of N octets, as on a network with such a path: 1448 is Ethernet's."`
	Pages    benchPages    `default:"huge" placeholder:"huge|heap" help:"The memory that messages of 256 KiB and more come from and go to, the baseline's too: in huge pages where Linux gives them (default, up to 16 connections), or wherever Go's heap has it, which is slower and differs from run to run."`
	SameCPU  bool          `name:"same-cpu" help:"Both ends on one processor, where a wake-up is cheap and steady. Only without HOST:PORT, and on Linux."`
	One      bool          `name:"one-process" help:"Both ends in this process. Only without HOST:PORT."`
	Net      *int          `placeholder:"MTU" help:"Both ends on this machine, but on a network between them, whose MTU this is: 1500 is Ethernet's. Network namespaces are made for it and are gone afterwards. Linux, as root."`
	Offloads bool          `default:"true" negatable:"" help:"With --net: segmentation offloads, as adapters have them (default). Without them each TCP segment is a packet of its own."`
	Steering benchSteering `default:"fixed" placeholder:"fixed|kernel" help:"With --net: one processor receives all packets, in order (default), and a sample in which a segment had to be sent again is void and is taken again; or whichever processor the kernel chooses, which reorders packets."`
	HTML     string        `name:"html" placeholder:"FILE" help:"Write the results with plots to FILE, as HTML that needs nothing else."`
	JSON     bool          `name:"json" help:"Print JSON, an object a line, errors too. The keys are listed above."`

	Clients *int `name:"max-clients" placeholder:"N" help:"With --serve: clients at once (default 16); further ones are refused."`
	ui.LiveFlag
	MaxMemory *ui.Octets `placeholder:"N" help:"With --serve: about how much memory all clients together may take, one client at most three quarters of it; K, M and G may stand behind N (default 2G)."`

	Profile string `placeholder:"FILE" hidden:"" help:"Write a processor profile of the first size."`
	Child   bool   `hidden:"" help:"Started by another bench: end with standard input."`

	Startup ui.StartupFlags `embed:""`
}

// Help is the long help.
func (c *Command) Help() string {
	return `Both ends take memory, connect, warm up, and then run --samples samples. A sample ends when the other end
says that all has arrived. All TCP sockets, the baseline's too, have the same congestion control: cubic where it
may be set, else reno, else the system's; what it is, is shown. What is sent is always the same memory.

Latency is half a round trip for send and notify, and the whole operation for read. A Write alone tells
the other end nothing, so that --lat goes with the other three.

With --json every line is an object; "event" says which:

  machine   go, os, arch, cpus, processor, features (a list), crc_kernel; peer: the same of the other end

  result    op, octets, depth, conns, bidi, latency, progress, crc, markers, segment (0: the TCP's), mulpdu,
            congestion, huge_pages (whether the messages lie in such), buffered, align,
            fpdus_aligned (share of the FPDUs sent that lie whole in one TCP segment, both ends), samples
            messages_per_s, gb_per_s (1e9 octets), gb_per_s_min, gb_per_s_max,
            cpu_s_per_gb (both ends), allocs_per_op (both ends), syscalls_per_gb (reads and writes, both ends)
            with --lat instead: min_ns, median_ns, p99_ns, p999_ns, max_ns, cpu_ns (processor time of both ends for what
            the others are the time of), allocs_per_op, histogram: a list of {below_ns, count}
            with several connections also: jain (Jain's index of how far the connections were in the middle of a
            sample: 1 is all alike), memory_per_conn (octets of memory of both ends for a connection)
            to an end that is far away (1 ms) also: round_trip_ns, and limited_by where what is in flight limits:
            ord or depth
            with --net also: net, an object with mtu, offloads, steering, retransmissions (TCP segments sent again in
            the samples that count), void_samples (taken again, since segments were)
            with --baseline also: ratio (median of the rounds' ratios, below 1 is slower for bandwidth, above 1
            for latency), ratio_min, ratio_max, cpu_ratio, syscall_ratio, and baseline: an object with
            gb_per_s, cpu_s_per_gb, syscalls_per_gb, or median_ns, p99_ns, p999_ns, cpu_ns; messages_per_s, jain,
            memory_per_conn
            rounds: a list of {gb_per_s or median_ns, baseline (the same of the baseline), ratio}

  listening address (with --serve)

  error     as in iwarp ping`
}

// benchOp is what is measured.
type benchOp string

const (
	opAuto   benchOp = "auto"
	opWrite  benchOp = "write"
	opRead   benchOp = "read"
	opSend   benchOp = "send"
	opNotify benchOp = "notify"
	opAtomic benchOp = "atomic"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *benchOp) UnmarshalText(b []byte) error {
	if v := benchOp(b); v == opAuto || slices.Contains(benchOps, v) {
		*o = v
		return nil
	}
	return fmt.Errorf("%q: write, read, send, notify or atomic", b)
}

var benchOps = []benchOp{opWrite, opRead, opSend, opNotify, opAtomic}

// asks reports whether the operation is an answer of the other end, which its program has no part in.
func (o benchOp) asks() bool { return o == opRead || o == opAtomic }

// atomicOctets is what an atomic is of.
const atomicOctets = 8

// benchPages is where messages lie.
type benchPages string

const (
	pagesHuge benchPages = "huge"
	pagesHeap benchPages = "heap"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *benchPages) UnmarshalText(b []byte) error {
	if v := benchPages(b); v == pagesHuge || v == pagesHeap {
		*p = v
		return nil
	}
	return fmt.Errorf("%q: huge or heap", b)
}

// benchSteering is which processors receive packets on the network of --net.
type benchSteering string

const (
	steeringFixed  benchSteering = "fixed"
	steeringKernel benchSteering = "kernel"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *benchSteering) UnmarshalText(b []byte) error {
	if v := benchSteering(b); v == steeringFixed || v == steeringKernel {
		*s = v
		return nil
	}
	return fmt.Errorf("%q: fixed or kernel", b)
}

// Bounds of what can be asked for.
const (
	maxBenchDepth   = 8192
	maxBenchConns   = 16 << 10
	maxBenchSamples = 1000
)

// Validate refuses flags that do not go together.
func (c *Command) Validate() error {
	switch {
	case c.Server != nil && c.Serve != nil:
		return fmt.Errorf("--serve %s: not together with HOST:PORT (%s): a server does not dial", *c.Serve, *c.Server)
	case c.Serve != nil && (len(c.Size) > 0 || c.Sweep || c.Lat || c.Baseline || c.Op != opAuto):
		return errors.New("--serve: the client says what is measured: only the startup flags, --segment, " +
			"--max-clients, --max-memory and --live go with it")
	case c.Serve == nil && (c.Clients != nil || c.MaxMemory != nil || c.Live):
		return errors.New("--max-clients, --max-memory, --live: the server's flags, need --serve")
	case c.Clients != nil && *c.Clients < 1:
		return fmt.Errorf("--max-clients %d: 1 or more", *c.Clients)
	case c.Lat && c.Op == opWrite:
		return errors.New("--lat --op write: a Write alone tells the other end nothing: use notify, a Write and then " +
			"a Send")
	case c.Lat && (c.Bidi || c.Depth != nil):
		return errors.New("--lat: one operation at a time on a connection: without --bidi and --depth")
	case c.Op == opAtomic && (c.Sweep || slices.ContainsFunc(c.Size,
		func(n ui.Octets) bool { return n != atomicOctets })):
		return fmt.Errorf("--op atomic: an atomic is of %d octets: without --sweep and --size", atomicOctets)
	case c.Buffered && (!c.Baseline || c.Lat):
		return errors.New("--buffered: says how the baseline writes: only with --baseline, and without --lat")
	case c.Sweep && len(c.Size) > 0:
		return errors.New("--sweep: not together with --size")
	case c.Depth != nil && (*c.Depth < 1 || *c.Depth > maxBenchDepth):
		return fmt.Errorf("--depth %d: from 1 to %d", *c.Depth, maxBenchDepth)
	case c.Conns < 1 || c.Conns > maxBenchConns:
		return fmt.Errorf("--conns %d: from 1 to %d", c.Conns, maxBenchConns)
	case c.Samples < 1 || c.Samples > maxBenchSamples:
		return fmt.Errorf("--samples %d: from 1 to %d", c.Samples, maxBenchSamples)
	case c.Duration < time.Millisecond || c.Duration > time.Minute:
		return fmt.Errorf("--duration %v: from 1ms to 1m", c.Duration)
	case c.Segment != 0 && c.Startup.FPDUMax != 0:
		return fmt.Errorf("--segment %d: not together with --fpdu-max", c.Segment)
	case c.Server != nil && (c.SameCPU || c.One):
		return errors.New("--same-cpu, --one-process: not with HOST:PORT, whose processes are not ours")
	case c.Net != nil && (c.Server != nil || c.Serve != nil):
		return errors.New("--net: both ends run here: not with HOST:PORT or --serve")
	case c.Net != nil && (*c.Net < netpair.MinMTU || *c.Net > netpair.MaxMTU):
		return fmt.Errorf("--net %d: an MTU from %d to %d", *c.Net, netpair.MinMTU, netpair.MaxMTU)
	case c.Net == nil && (!c.Offloads || c.Steering != steeringFixed):
		return errors.New("--no-offloads, --steering: only with --net, whose network they are of")
	case len(c.Startup.Private) > 0:
		return errors.New("--private: bench's peers need none")
	case c.Startup.Record != "":
		return errors.New("--record: what is recorded is not what would be measured: record an \"iwarp ping\"")
	}
	for _, n := range c.Size {
		if n > maxBenchOctets {
			return fmt.Errorf("--size %d: at most %d", n, maxBenchOctets)
		}
	}
	return c.Startup.Check()
}

// maxBenchOctets bounds the memory that a client can make a server take.
const maxBenchOctets = 256 << 20

// Run is the client or the server.
func (c *Command) Run(ctx context.Context, out *ui.Output) error {
	out.JSON = c.JSON
	if c.Segment != 0 {
		c.Startup.FPDUMax = c.Segment
	}
	if c.Serve != nil {
		return c.serve(ctx, out)
	}
	if c.SameCPU {
		if err := onOneCPU(); err != nil {
			return fmt.Errorf("--same-cpu: %w", err)
		}
	}
	apart, err := c.enoughFiles()
	if err != nil {
		return err
	}
	c.Startup.Announce(out)
	b := &benchClient{Command: c, out: out, apart: apart}
	if c.Server != nil {
		b.addr = string(*c.Server)
		return b.run(ctx)
	}
	network, err := c.newNetwork()
	if err != nil {
		return err
	}
	defer network.close()
	b.network = network
	if !c.One {
		shareProcessors()
	}
	addr, stop, err := c.otherEnd(ctx, network)
	if err != nil {
		return err
	}
	defer stop()
	b.addr = addr
	return b.run(ctx)
}

// sizes is what to measure with, in order.
func (c *Command) sizes() []int {
	if c.Sweep {
		return []int{64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}
	}
	if len(c.Size) == 0 {
		switch {
		case c.Op == opAtomic:
			return []int{atomicOctets}
		case c.Lat:
			return []int{64}
		}
		return []int{1 << 20}
	}
	var sizes []int
	for _, n := range c.Size {
		sizes = append(sizes, int(n))
	}
	return sizes
}

// spec is the work of one size.
func (c *Command) spec(size int) benchSpec {
	s := benchSpec{
		Op: c.Op, Size: size, Conns: c.Conns, Bidi: c.Bidi, Lat: c.Lat, Progress: c.Progress,
		Depth: min(max(4<<20/size, 4), 512, max(maxManyDepth/c.Conns, 1)), HugePages: c.Pages == pagesHuge,
		Buffered: c.Buffered,
	}
	if s.Op == opAuto {
		s.Op = opWrite
		if s.Lat {
			s.Op = opSend
		}
	}
	if c.Depth != nil {
		s.Depth = *c.Depth
	}
	if s.Lat {
		s.Depth = 1
	}
	return s
}

// childArgs is the command line of the other end on this machine.
func (c *Command) childArgs(host string) []string {
	f := &c.Startup
	args := []string{
		"bench", "--serve", host + ":0", "--child", "--json",
		fmt.Sprintf("--rev=%d", f.Rev), "--crc=" + string(f.CRC), "--rtr=" + f.RTR.Flag(),
		fmt.Sprintf("--fpdu-max=%d", f.FPDUMax), "--timeout=" + f.Patience().String(),
		"--align=" + f.Align.String(),
	}
	for _, d := range [...]struct {
		name string
		v    ui.Depth
	}{{"ird", f.IRD}, {"ord", f.ORD}} {
		if d.v != 0 {
			args = append(args, fmt.Sprintf("--%s=%d", d.name, max(int(d.v), 0)))
		}
	}
	if f.Markers {
		args = append(args, "--markers")
	}
	return args
}

// title names a spec in a line.
func (s *benchSpec) title() string {
	words := []string{string(s.Op), ui.Amount(s.Size)}
	if s.Lat {
		words = append(words, "latency")
	} else {
		words = append(words, fmt.Sprintf("depth %d", s.Depth))
	}
	if s.Conns > 1 {
		words = append(words, ui.Plural(uint64(s.Conns), "connection"))
	}
	if s.Bidi {
		words = append(words, "both directions")
	}
	if s.Progress != 0 {
		words = append(words, s.Progress.String())
	}
	return strings.Join(words, ", ")
}
