package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

// benchClient measures.
type benchClient struct {
	*Command
	out  *ui.Output
	addr string
	cfg  *iwarp.Config
	ctl  *control

	apart   bool          // the baseline comes afterwards, not in turn
	network *benchNetwork // between two ends on this machine; nil with HOST:PORT

	machine machineEvent
	results []*benchResult
}

// otherEnd starts the other end on this machine and gives its address.
func (c *Command) otherEnd(ctx context.Context, network *benchNetwork) (addr string, stop func(), err error) {
	if c.One {
		return c.otherEndHere(ctx, network)
	}
	exe, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, exe, c.childArgs(network.host())...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), procsEnv+"="+strconv.Itoa(runtime.GOMAXPROCS(0)))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := network.start(cmd); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = stdin.Close() // ends it
		_ = cmd.Wait()
	}
	lines := bufio.NewScanner(stdout)
	if lines.Scan() {
		var e struct {
			Address string `json:"address"`
			Error   string `json:"error"`
		}
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Address != "" {
			return e.Address, stop, nil
		}
		err = errors.New(e.Error)
	}
	stop()
	return "", nil, fmt.Errorf("starting the other end: %w",
		errors.Join(err, errors.New("it does not say where it listens")))
}

// procsEnv is Go's variable for the number of threads that run at once.
const procsEnv = "GOMAXPROCS"

// shareProcessors leaves half of the processors to the other end, unless told
// otherwise: two processes that each believe that they have them all keep waking
// threads where the other one runs. It holds for the baseline too.
func shareProcessors() {
	if os.Getenv(procsEnv) == "" {
		runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2))
	}
}

// otherEndHere runs the other end in this process.
func (c *Command) otherEndHere(ctx context.Context, network *benchNetwork) (addr string, stop func(), err error) {
	cfg, err := c.Startup.Config()
	if err != nil {
		return "", nil, err
	}
	ln, err := network.listen()
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.serveOn(ctx, ln, cfg)
	}()
	return ln.Addr().String(), func() {
		cancel()
		<-done
	}, nil
}

// run measures every size and tells the results.
func (b *benchClient) run(ctx context.Context) (err error) {
	if b.cfg, err = b.Startup.Config(); err != nil {
		return err
	}
	nc, err := b.dial(ctx, preface{kind: linkControl})
	if err != nil {
		return err
	}
	defer nc.Close()
	b.ctl = newControl(nc, 3*b.Startup.Patience()) // the other end waits for us too
	hello, err := b.ctl.ask(ctx, benchMsg{Do: doHello})
	if err != nil {
		return err
	}
	b.machine = machineEvent{machine: thisMachine(), Peer: hello.Machine}
	b.out.Emit(b.machine)
	for i, size := range b.sizes() {
		r, err := b.measure(ctx, b.spec(size), i == 0)
		if err != nil {
			return fmt.Errorf("%s of %s: %w", b.spec(size).Op, ui.Amount(size), err)
		}
		r.headerBefore = i == 0
		b.results = append(b.results, r)
		b.out.Emit(r)
	}
	if b.HTML != "" {
		return b.writeHTML()
	}
	return nil
}

// dial makes a connection to the other end that begins with p.
func (b *benchClient) dial(ctx context.Context, p preface) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, b.Startup.Patience())
	defer cancel()
	nc, err := b.network.dial(ctx, b.addr)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", b.addr, err)
	}
	if err := p.write(nc); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return nc, nil
}

// opened is a link of both ends.
type opened struct {
	benchLink
	kind  linkKind
	conns int
	b     *benchClient
	ended bool
}

// open makes the connections of a kind.
func (b *benchClient) open(ctx context.Context, kind linkKind, spec *benchSpec) (*opened, error) {
	b.ctl.expect(spec.Conns)
	reply, err := b.ctl.ask(ctx, benchMsg{Do: doOpen, Kind: kind, Spec: spec})
	if err != nil {
		return nil, err
	}
	l, err := newLink(kind, *spec, b.cfg, true)
	if err != nil {
		return nil, err
	}
	o := &opened{benchLink: l, kind: kind, conns: spec.Conns, b: b}
	for i := range spec.Conns {
		nc, err := b.dial(ctx, preface{kind, reply.Token, uint32(i)})
		if err == nil {
			spec.Congestion = setCongestion(nc, spec.Congestion)
			err = l.add(ctx, i, nc)
		}
		if err != nil {
			l.close()
			return nil, err
		}
	}
	reply, err = b.ctl.ask(ctx, benchMsg{Do: doConnected, Kind: kind, Regions: l.regions()})
	if err == nil {
		err = l.connected(reply.Regions)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return o, nil
}

// end closes the link at both ends, once.
func (o *opened) end(ctx context.Context) {
	if o.ended {
		return
	}
	o.ended = true
	_, _ = o.b.ctl.ask(ctx, benchMsg{Do: doClose, Kind: o.kind})
	o.close()
}

// outcome is one sample.
type outcome struct {
	took  time.Duration
	usage benchUsage // both ends
	times []int64    // of each operation, with --lat
	jain  float64    // with several connections
}

// sample runs one with so many operations on each connection.
func (o *opened) sample(ctx context.Context, count uint64) (outcome, error) {
	if _, err := o.b.ctl.ask(ctx, benchMsg{Do: doStart, Kind: o.kind, Count: count}); err != nil {
		return outcome{}, err
	}
	var fair *fairness
	if o.conns > 1 {
		fair = watchFairness(o, o.conns, max(o.b.Duration/(maxLooks/2), time.Millisecond))
	}
	start := time.Now()
	used, err := measured(ctx, o, o.b.Startup.Patience(), count, true)
	out := outcome{times: slices.Clone(o.times())} // the next sample uses the same memory
	if fair != nil {
		out.jain = fair.index()
	}
	if err != nil {
		return outcome{}, err
	}
	reply, err := o.b.ctl.ask(ctx, benchMsg{Do: doStop, Kind: o.kind})
	out.took, out.usage = time.Since(start), used.plus(reply.Usage)
	return out, err
}

// warmUp finds how many operations take about as long as a sample should.
func (o *opened) warmUp(ctx context.Context, spec *benchSpec, want time.Duration) (uint64, error) {
	count := uint64(max(2*spec.Depth, 16))
	for range 30 {
		out, err := o.sample(ctx, count)
		if err != nil {
			return 0, err
		}
		if out.took > want/4 {
			return max(uint64(float64(count)*float64(want)/float64(out.took)), 1), nil
		}
		count *= 2
	}
	return count, nil
}

// measure does all samples of a size, the baseline's in turn, or afterwards where there are not enough descriptors for
// both.
func (b *benchClient) measure(ctx context.Context, spec benchSpec, first bool) (_ *benchResult, err error) {
	if spec.Congestion == "" {
		spec.Congestion = b.probeCongestion(ctx)
	}
	var memory [3]float64 // before, with our connections, and with the baseline's too
	if memory[0], err = b.memory(ctx, spec.Conns); err != nil {
		return nil, err
	}
	ours, err := b.open(ctx, linkIWARP, &spec)
	if err != nil {
		return nil, err
	}
	defer ours.end(ctx)
	p := &benchProgress{out: b.out, title: spec.title(), total: b.Samples}
	defer p.clear()
	p.show(0)
	count, err := ours.warmUp(ctx, &spec, b.Duration)
	if err != nil {
		return nil, err
	}
	if memory[1], err = b.memory(ctx, spec.Conns); err != nil {
		return nil, err
	}
	r := &benchResult{
		benchSpec: spec, network: b.network.result(), crc: b.Startup.CRC == ui.On, markers: b.Startup.Markers,
		segment: int(b.Segment), align: b.Startup.Align,
	}
	r.mulpdu, r.huge, r.ord = ours.mulpdu(), ours.huge(), ours.ord()
	r.memory = perConn(memory[0], memory[1], spec.Conns)
	links := []*opened{ours}
	var before []outcome // ours, where they come first
	if b.apart {
		if before, err = b.rounds(ctx, r, p, count, first, ours); err != nil {
			return nil, err
		}
		ours.end(ctx)
		links = nil
		if memory[1], err = b.memory(ctx, spec.Conns); err != nil {
			return nil, err
		}
	}
	if b.Baseline {
		base, err := b.open(ctx, linkTCP, &spec)
		if err != nil {
			return nil, fmt.Errorf("baseline: %w", err)
		}
		defer base.end(ctx)
		// As many as it takes for its own sockets to be warm.
		if _, err := base.sample(ctx, count); err != nil {
			return nil, fmt.Errorf("baseline: %w", err)
		}
		if memory[2], err = b.memory(ctx, spec.Conns); err != nil {
			return nil, err
		}
		r.baseMemory = perConn(memory[1], memory[2], spec.Conns)
		links = append(links, base)
	}
	list, err := b.rounds(ctx, r, p, count, first && !b.apart, links...)
	if err != nil {
		return nil, err
	}
	for i := range b.Samples {
		var round benchRound
		switch {
		case b.apart:
			round = benchRound{before[i], list[i]}
		case b.Baseline:
			round = benchRound{list[2*i], list[2*i+1]}
		default:
			round.ours = list[i]
		}
		r.add(count, round)
	}
	r.finish(b.Baseline)
	trip, err := b.roundTrip(ctx)
	if err != nil {
		return nil, err
	}
	r.limit(trip, r.ord)
	return r, nil
}

// rounds takes as many samples as are wanted of each of the links, in turn, and again where a round is void.
func (b *benchClient) rounds(ctx context.Context, r *benchResult, p *benchProgress, count uint64, profiled bool,
	links ...*opened,
) (list []outcome, err error) {
	if stop, err := b.profile(profiled); err != nil {
		return nil, err
	} else if stop != nil {
		defer stop()
	}
	for len(list) < b.Samples*len(links) {
		before, err := b.network.retransmissions()
		if err != nil {
			return nil, err
		}
		var round []outcome
		for _, l := range links {
			out, err := l.sample(ctx, count)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l.kind, err)
			}
			round = append(round, out)
		}
		after, err := b.network.retransmissions()
		if err != nil {
			return nil, err
		}
		if ok, err := r.counts(after-before, b.Samples); err != nil {
			return nil, err
		} else if ok {
			list = append(list, round...)
			p.show(len(list) / len(links))
		}
	}
	return list, nil
}

// probeCongestion finds out which congestion control may be set, and gives the
// system's own where none can.
func (b *benchClient) probeCongestion(ctx context.Context) string {
	nc, err := b.dial(ctx, preface{kind: linkTCP}) // of no session: the other end closes it
	if err != nil {
		return ""
	}
	defer nc.Close()
	return setCongestion(nc, "")
}

// profile writes a processor profile of this end, if one was asked for.
func (b *benchClient) profile(first bool) (stop func(), err error) {
	if b.Profile == "" || !first {
		return nil, nil
	}
	return startProfile(b.Profile)
}

func startProfile(name string) (stop func(), err error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, nil
}
