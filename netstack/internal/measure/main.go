// Command measure makes the figures of docs/out-of-order.md: an RDMA Write over a network in
// memory that loses or reorders segments, to a receiver in order and to one that places
// segments out of order.
//
//	go run ./internal/measure -o ../docs/performance/out-of-order
//
// in the folder netstack writes out-of-order.md and out-of-order.svg.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/internal/svgplot"
	"github.com/go-iwarp/iwarp/netstack"
	"github.com/go-iwarp/iwarp/netstack/ooo"
)

var (
	size   = flag.Int("size", 64<<20, "octets of the Write")
	delay  = flag.Duration("delay", 0, "of a packet, in each direction, beyond what handing it over takes")
	rounds = flag.Int("rounds", 2, "runs of each row; told is that with the median of the times, of two the faster")
	out    = flag.String("o", "", "write to this name with .md and .svg; empty: print the table")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// receiver is how the receiving end is set up.
type receiver struct {
	name      string
	color     string
	markers   bool
	inOrder   bool
	alignment bool
}

var receivers = []receiver{
	{name: "in order, no Markers", color: "#888", inOrder: true},
	{name: "in order, Markers", color: svgplot.Theirs, inOrder: true, markers: true},
	{name: "out of order, Markers", color: svgplot.Ours, markers: true},
	{name: "out of order, alignment", color: "#2a9d3a", alignment: true},
}

// trouble is what happens to segments with payload.
type trouble struct {
	name        string
	lost, later float64 // shares
}

var troubles = []trouble{
	{name: "none"},
	{name: "0.1 % lost", lost: 0.001},
	{name: "1 % lost", lost: 0.01},
	{name: "5 % lost", lost: 0.05},
	{name: "0.1 % reordered", later: 0.001},
	{name: "1 % reordered", later: 0.01},
	{name: "5 % reordered", later: 0.05},
}

// result is one run.
type result struct {
	took     time.Duration
	segments uint64 // with payload, that were sent
	stats    ooo.Stats
	rdma     iwarp.Stats
}

func run() error {
	results := make(map[receiver][]result)
	for _, r := range receivers { // to warm up
		if _, err := measure(r, troubles[2], 0); err != nil {
			return err
		}
	}
	for _, t := range troubles {
		for _, r := range receivers {
			var some []result
			for i := range *rounds {
				x, err := measure(r, t, uint64(i))
				if err != nil {
					return fmt.Errorf("%s, %s: %w", r.name, t.name, err)
				}
				some = append(some, x)
			}
			slices.SortFunc(some, func(a, b result) int { return int(a.took - b.took) })
			middle := some[(len(some)-1)/2]
			results[r] = append(results[r], middle)
			fmt.Fprintf(os.Stderr, "%s, %s: %v\n", r.name, t.name, middle.took.Round(time.Millisecond))
		}
	}
	doc := document(results)
	if *out == "" {
		_, err := os.Stdout.Write(doc)
		return err
	}
	if err := os.WriteFile(*out+".md", doc, 0o644); err != nil {
		return err
	}
	return os.WriteFile(*out+".svg", plots(results), 0o644)
}

// measure does one Write.
func measure(r receiver, t trouble, seed uint64) (x result, err error) {
	random := rand.New(rand.NewPCG(seed, 1))
	fate := func(to int, packet []byte) (f netstack.Fate) {
		if to != 1 || len(packet) < 200 {
			return f
		}
		x.segments++
		switch p := random.Float64(); {
		case p < t.lost:
			f.Drop = true
		case p < t.lost+t.later:
			f.Behind = 1 + random.IntN(20)
		}
		return f
	}
	a, b := netstack.Pipe(netstack.PipeConfig{Delay: *delay, Queue: 4096, Fate: fate})
	source, err := host(a, "10.0.0.1/24", netstack.Config{})
	if err != nil {
		return x, err
	}
	defer source.Close()
	sink, err := host(b, "10.0.0.2/24", netstack.Config{InOrder: r.inOrder, Alignment: r.alignment})
	if err != nil {
		return x, err
	}
	defer sink.Close()
	l, err := sink.Listen("10.0.0.2:7174", &iwarp.Config{MPA: iwarp.MPAConfig{Markers: r.markers}})
	if err != nil {
		return x, err
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	accepted := make(chan error, 1)
	var p *iwarp.Conn
	go func() {
		var err error
		p, err = l.Accept(ctx)
		accepted <- err
	}()
	c, err := source.Dial(ctx, "10.0.0.2:7174", nil)
	if err != nil {
		return x, err
	}
	defer c.Abort()
	if err := <-accepted; err != nil {
		return x, err
	}
	defer p.Abort()
	if err := transfer(ctx, c, p, &x); err != nil {
		return x, err
	}
	x.stats, _ = netstack.StatsOf(p)
	x.rdma = p.Stats()
	return x, nil
}

func host(link netstack.Link, address string, cfg netstack.Config) (*netstack.Host, error) {
	cfg.Link, cfg.Addresses = link, []netip.Prefix{netip.MustParsePrefix(address)}
	return netstack.NewHost(cfg)
}

// transfer writes, and waits until the other end knows it.
func transfer(ctx context.Context, c, p *iwarp.Conn, x *result) error {
	data, memory := make([]byte, *size), make([]byte, *size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	mr, err := p.NewMR(memory, iwarp.RemoteWrite)
	if err != nil {
		return err
	}
	defer func() { _ = mr.Close() }()
	runtime.GC()
	began := time.Now()
	if err := c.RDMAWrite(ctx, data, mr.Remote()); err != nil {
		return err
	}
	if err := c.Send(ctx, []byte("done")); err != nil {
		return err
	}
	if _, err := p.Recv(ctx, make([]byte, 16)); err != nil {
		return err
	}
	x.took = time.Since(began)
	if !bytes.Equal(data, memory) {
		return fmt.Errorf("the region is not what was written")
	}
	return nil
}

func document(results map[receiver][]result) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Placement out of order, measured on %s\n\n", time.Now().UTC().Format(time.DateOnly))
	fmt.Fprintf(&b, "By `go run ./internal/measure -o ../docs/performance/out-of-order` in the folder netstack:\n"+
		"one RDMA Write of %d MiB between two hosts in one process, packets of 1500 octets, a delay of %v,\n"+
		"%d processors; of %d runs that with the median time, of two the faster.\n"+
		"How to read it, and what it shows: [out-of-order.md](../out-of-order.md).\n\n"+
		"![Plots](out-of-order.svg)\n\n", *size>>20, *delay, runtime.GOMAXPROCS(0), *rounds)
	fmt.Fprintln(&b, "| segments | receiver | completed in | placed early | of all | earlier by, mean | most "+
		"| behind a hole, most | of that held, most |")
	fmt.Fprintln(&b, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for i, t := range troubles {
		for _, r := range receivers {
			x := results[r][i]
			fmt.Fprintf(&b, "| %s | %s | %v |", t.name, r.name, x.took.Round(time.Millisecond))
			if r.inOrder {
				fmt.Fprintln(&b, " 0 | 0 % | | | | all |")
				continue
			}
			s := x.stats
			mean := time.Duration(0)
			if s.Led > 0 {
				mean = s.LeadSum / time.Duration(s.Led)
			}
			fmt.Fprintf(&b, " %.2f MiB | %.1f %% | %v | %v | %d KiB | %d KiB |\n", float64(s.Early)/(1<<20), share(x),
				mean.Round(time.Microsecond), s.LeadMax.Round(time.Microsecond), s.MostBehind>>10, s.MostHeld>>10)
		}
	}
	return b.Bytes()
}

// share is the share of the octets that were placed early, in percent.
func share(x result) float64 { return 100 * float64(x.stats.Early) / float64(*size) }

func plots(results map[receiver][]result) []byte {
	var labels []string
	for _, t := range troubles {
		labels = append(labels, t.name)
	}
	early := svgplot.Figure{Title: "octets placed early", Unit: "%", Labels: labels, Bars: true}
	times := svgplot.Figure{Title: "a Write is complete", Unit: "s", Labels: labels, Bars: true}
	held := svgplot.Figure{
		Title: "most octets held by the receiver for a hole", Unit: "KiB", Labels: labels, Bars: true,
	}
	for _, r := range receivers {
		curve := func(f func(x result) float64) svgplot.Curve {
			c := svgplot.Curve{Name: r.name, Color: r.color}
			for _, x := range results[r] {
				c.Y = append(c.Y, f(x))
			}
			return c
		}
		times.Series = append(times.Series, curve(func(x result) float64 { return x.took.Seconds() }))
		if r.inOrder {
			continue
		}
		early.Series = append(early.Series, curve(share))
		kib := func(n int) float64 { return float64(n) / 1024 }
		behind := curve(func(x result) float64 { return kib(x.stats.MostBehind) })
		behind.Name, behind.Color = r.name+": all behind it", r.color+"80"
		held.Series = append(held.Series, behind, curve(func(x result) float64 { return kib(x.stats.MostHeld) }))
	}
	return svgplot.Page(early, times, held)
}
