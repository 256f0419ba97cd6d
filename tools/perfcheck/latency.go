package main

import (
	"context"
	"fmt"

	"github.com/go-iwarp/iwarp/internal/netpair"
)

// A latencyPlace is where both ends of a ping-pong run, and how.
type latencyPlace struct {
	name string
	at   *place
	args []string
	// plain is the environment of plain TCP of C, nil where it does not run so.
	plain []string
}

// Latency is measured with the kernel's own steering: a message there is handled on
// the processor that sent it, as it would be without a network.
var latencyVeth = place{name: "MTU 1500, steering of the kernel", net: &netpair.Config{MTU: 1500, KernelSteering: true}}

var latencyPlaces = []latencyPlace{
	{name: "loopback", at: &loopback, plain: []string{}},
	{name: "MTU 1500", at: &latencyVeth, plain: []string{}},
	{name: "one process", at: &loopback, args: []string{"--one-process"}},
	{name: "one processor", at: &loopback, args: []string{"--same-cpu"}, plain: []string{"PIN=1"}},
}

// progress is how either end waits. The default stands first; a mode that is not
// the default has a flag.
var progress = []struct {
	name string
	args []string
	spin bool // and so does the baseline
}{
	{name: "adaptive"},
	{name: "parked", args: []string{"--progress=parked"}},
	{name: "polling", args: []string{"--progress=polling"}, spin: true},
}

var latencyOperations = []struct {
	name, op string
	sizes    []int
}{
	{name: "Send", op: "send", sizes: []int{64, 4096}},
	{name: "Write and Send", op: "notify", sizes: []int{64, 4096}},
	{name: "Read", op: "read", sizes: []int{64, 4096}},
	{name: "atomic", op: "atomic", sizes: []int{8}},
}

// latencyMark is what a median must reach, in microseconds, and what it must reach
// in multiples of plain TCP's.
func latencyMark(where, op, mode string, size int) (us, times mark) {
	if size != 64 {
		return us, times
	}
	switch {
	case mode == "polling" && op == "send" && where == "loopback":
		times = mark{gate: 1.15, aim: 1.05, low: true}
	case mode != "adaptive": // the default has the gates
	case op == "send" && where == "loopback":
		us = mark{gate: 6, aim: 3.6, low: true}
	case op == "send" && where == "MTU 1500":
		us = mark{gate: 12, aim: 4, low: true}
	case op == "send" && where == "one process":
		times = mark{gate: 1.3, aim: 1.05, low: true}
	case op == "send" && where == "one processor":
		times = mark{gate: 1.15, aim: 1.05, low: true}
	case op == "read" && where == "loopback":
		us = mark{gate: 14, aim: 8, low: true}
	}
	return us, times
}

// latencies measures messages that somebody waits for. All times are microseconds.
func (c *checker) latencies(ctx context.Context) error {
	begun := false
	for i := range latencyPlaces {
		p := &latencyPlaces[i]
		for _, mode := range progress {
			if mode.spin && p.name == "one processor" {
				continue // two that spin keep each other from running
			}
			for _, o := range latencyOperations {
				for _, size := range o.sizes {
					name := fmt.Sprintf("latency, %s, %s: %s of %s", p.name, mode.name, o.name, sizeName(size))
					if !c.wants(name) {
						continue
					}
					if err := c.missing(p.at); err != nil {
						c.skip(name, err)
						begun = false
						continue
					}
					if !begun {
						c.latencyTable()
						begun = true
					}
					err := c.latencyRow(ctx, p, name, o.op, mode.name, size, mode.spin, mode.args)
					if ctx.Err() != nil {
						return ctx.Err()
					}
					if err != nil {
						c.fail(name, err)
						begun = false
					}
				}
			}
		}
	}
	return nil
}

func (c *checker) latencyTable() {
	c.table("half a round trip (Reads and atomics: all of it), microseconds", "median", "99 %", "99.9 %", "CPU",
		"plain TCP of Go", "99 %", "99.9 %", "CPU", "times its", "min..max", "plain TCP of C", "99 %", "99.9 %", "CPU")
}

func (c *checker) latencyRow(ctx context.Context, p *latencyPlace, name, op, mode string, size int, spin bool,
	flags []string,
) error {
	args := []string{"--lat", "--baseline", "--op=" + op, fmt.Sprintf("--size=%d", size)}
	args = append(append(append(args, flags...), p.args...), p.at.args()...)
	results, err := c.bench(ctx, nil, args...)
	if err != nil {
		return err
	}
	r := results[0]
	cells := []string{name}
	for _, l := range []latency{r.latency, r.Baseline.latency} {
		cells = append(cells, micro(l.Median), micro(l.P99), micro(l.P999), micro(l.CPU))
	}
	cells = append(cells, fmt.Sprintf("%.2f", r.Ratio), spread(r.ratios()))
	switch l, err := c.plainLatency(ctx, p, op, size, spin); {
	case err != nil:
		cells = append(cells, "skipped: "+err.Error(), "", "", "")
	case l == nil:
		cells = append(cells, "", "", "", "")
	default:
		cells = append(cells, micro(l.Median), micro(l.P99), micro(l.P999), micro(l.CPU))
	}
	c.cells(cells...)
	us, times := latencyMark(p.name, op, mode, size)
	c.judge(name+": microseconds", r.Median/1e3, nil, us)
	c.judge(name+": times plain TCP's", r.Ratio, r.ratios(), times)
	return nil
}

// plainLatency measures plain TCP of C; nil where nothing is comparable.
func (c *checker) plainLatency(ctx context.Context, p *latencyPlace, op string, size int, spin bool) (*latency, error) {
	if p.plain == nil || op != "send" {
		return nil, nil
	}
	mode := "ping"
	if spin {
		mode = "spin"
	}
	var all [4][]float64
	for range c.samples {
		v, err := c.plain(ctx, p.at, p.plain, mode, size)
		if err != nil {
			return nil, err
		}
		for i := range all {
			all[i] = append(all[i], v[i])
		}
	}
	return &latency{median(all[0]), median(all[1]), median(all[2]), median(all[3])}, nil
}

// micro is a time in nanoseconds as microseconds.
func micro(ns float64) string {
	if ns == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", ns/1e3)
}
