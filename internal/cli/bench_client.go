package cli

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
	"strconv"
	"time"

	"github.com/go-iwarp/iwarp"
)

// benchClient measures.
type benchClient struct {
	*benchCmd
	out  *output
	addr string
	cfg  *iwarp.Config
	ctl  *control

	network *benchNetwork // between two ends on this machine; nil with HOST:PORT

	machine machineEvent
	results []*benchResult
}

// otherEnd starts the other end on this machine and gives its address.
func (c *benchCmd) otherEnd(ctx context.Context, network *benchNetwork) (addr string, stop func(), err error) {
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
	return "", nil, fmt.Errorf("starting the other end: %w", errors.Join(err, errors.New("it does not say where it listens")))
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
func (c *benchCmd) otherEndHere(ctx context.Context, network *benchNetwork) (addr string, stop func(), err error) {
	cfg, err := c.Startup.config()
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
	if b.cfg, err = b.Startup.config(); err != nil {
		return err
	}
	nc, err := b.dial(ctx, preface{kind: linkControl})
	if err != nil {
		return err
	}
	defer nc.Close()
	b.ctl = newControl(nc, 3*b.Startup.timeout()) // the other end waits for us too
	hello, err := b.ctl.ask(ctx, benchMsg{Do: doHello})
	if err != nil {
		return err
	}
	b.machine = machineEvent{machine: thisMachine(), Peer: hello.Machine}
	b.out.emit(b.machine)
	for i, size := range b.sizes() {
		r, err := b.measure(ctx, b.spec(size), i == 0)
		if err != nil {
			return fmt.Errorf("%s of %s: %w", b.spec(size).Op, amount(size), err)
		}
		r.headerBefore = i == 0
		b.results = append(b.results, r)
		b.out.emit(r)
	}
	if b.HTML != "" {
		return b.writeHTML()
	}
	return nil
}

// dial makes a connection to the other end that begins with p.
func (b *benchClient) dial(ctx context.Context, p preface) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, b.Startup.timeout())
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
	kind linkKind
	b    *benchClient
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
	o := &opened{l, kind, b}
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

// end closes the link at both ends.
func (o *opened) end(ctx context.Context) {
	_, _ = o.b.ctl.ask(ctx, benchMsg{Do: doClose, Kind: o.kind})
	o.close()
}

// outcome is one sample.
type outcome struct {
	took  time.Duration
	usage benchUsage // both ends
	times []int64    // of each operation, with --lat
}

// sample runs one with so many operations on each connection.
func (o *opened) sample(ctx context.Context, count uint64) (outcome, error) {
	if _, err := o.b.ctl.ask(ctx, benchMsg{Do: doStart, Kind: o.kind, Count: count}); err != nil {
		return outcome{}, err
	}
	start := time.Now()
	used, err := measured(ctx, o, o.b.Startup.timeout(), count, true)
	if err != nil {
		return outcome{}, err
	}
	reply, err := o.b.ctl.ask(ctx, benchMsg{Do: doStop, Kind: o.kind})
	took := time.Since(start)
	return outcome{took, used.plus(reply.Usage), o.times()}, err
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

// measure does all samples of a size, the baseline's in turn.
func (b *benchClient) measure(ctx context.Context, spec benchSpec, first bool) (*benchResult, error) {
	if spec.Congestion == "" {
		spec.Congestion = b.probeCongestion(ctx)
	}
	ours, err := b.open(ctx, linkIWARP, &spec)
	if err != nil {
		return nil, err
	}
	defer ours.end(ctx)
	var base *opened
	if b.Baseline {
		if base, err = b.open(ctx, linkTCP, &spec); err != nil {
			return nil, err
		}
		defer base.end(ctx)
	}
	p := &benchProgress{out: b.out, title: spec.title(), total: b.Samples}
	defer p.clear()
	p.show(0)
	count, err := ours.warmUp(ctx, &spec, b.Duration)
	if err != nil {
		return nil, err
	}
	if base != nil { // as many as it takes for its own sockets to be warm
		if _, err := base.sample(ctx, count); err != nil {
			return nil, fmt.Errorf("baseline: %w", err)
		}
	}
	if stop, err := b.profile(first); err != nil {
		return nil, err
	} else if stop != nil {
		defer stop()
	}
	r := &benchResult{benchSpec: spec, network: b.network.result(), crc: b.Startup.CRC == on, markers: b.Startup.Markers, segment: int(b.Segment), align: b.Startup.Align}
	for len(r.rounds) < b.Samples {
		before, err := b.network.retransmissions()
		if err != nil {
			return nil, err
		}
		var round benchRound
		if round.ours, err = ours.sample(ctx, count); err != nil {
			return nil, err
		}
		if base != nil {
			if round.base, err = base.sample(ctx, count); err != nil {
				return nil, fmt.Errorf("baseline: %w", err)
			}
		}
		after, err := b.network.retransmissions()
		if err != nil {
			return nil, err
		}
		if ok, err := r.counts(after-before, b.Samples); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		r.add(count, round)
		p.show(len(r.rounds))
	}
	r.mulpdu, r.huge = ours.mulpdu(), ours.huge()
	r.finish(base != nil)
	return r, nil
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
