package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// row is a command line of "iwarp bench" and the figures of its result that the
// table has a gate for.
type row struct {
	name string
	args string
	env  []string
	want []figure
}

// figure is one number and what it must reach. A gate of 0 is none.
type figure struct {
	name      string
	of        func(*result) float64
	gate, aim float64
	low       bool // lower is better
	rounds    bool // there is one for each round
}

// The figures, by what they are.
func ratio(gate, aim float64) figure {
	return figure{name: "of plain TCP", of: func(r *result) float64 { return r.Ratio }, gate: gate, aim: aim, rounds: true}
}

func latency(gate, aim float64) figure {
	return figure{name: "times plain TCP's", of: func(r *result) float64 { return r.Ratio }, gate: gate, aim: aim, low: true, rounds: true}
}

func cpu(gate, aim float64) figure {
	return figure{name: "CPU seconds per GB over plain TCP's", of: func(r *result) float64 { return r.CPURatio }, gate: gate, aim: aim, low: true}
}

func rate(gate, aim float64) figure {
	return figure{name: "million messages/s", of: func(r *result) float64 { return r.Rate / 1e6 }, gate: gate, aim: aim}
}

func calls(gate, aim float64) figure {
	return figure{name: "data system calls over plain TCP's", of: func(r *result) float64 { return r.CallRatio }, gate: gate, aim: aim, low: true}
}

// allocs is 0 but for what a sample allocates as a whole.
func allocs() figure {
	return figure{name: "allocations per operation", of: func(r *result) float64 { return r.Allocs }, gate: 0.01, aim: 0.01, low: true}
}

// noFold makes a processor look as if it had no AVX-512 for the CRC.
var noFold = []string{"GODEBUG=cpu.avx512vl=off"}

var rows = []row{
	{name: "1 MiB Writes, fast CRC", args: "--baseline", want: []figure{ratio(0.75, 0.90), cpu(1.45, 1.2), calls(1.3, 1.0)}},
	{name: "1 MiB Writes, fast CRC, memory of Go's heap", args: "--baseline --pages heap", want: []figure{ratio(0, 0)}},
	{name: "1 MiB Writes, hash/crc32 only", args: "--baseline", env: noFold, want: []figure{ratio(0.55, 0.68)}},
	{name: "1 MiB Writes, CRC off", args: "--baseline --crc off", want: []figure{ratio(0.85, 1.0)}},
	{name: "1 MiB Reads, fast CRC", args: "--baseline --op read", want: []figure{ratio(0.70, 0.85)}},
	{name: "1 MiB Writes, 1448-octet segments, fast CRC", args: "--baseline --segment 1448", want: []figure{ratio(0.60, 0.75)}},
	{name: "1 MiB Writes, 1448-octet segments, CRC off", args: "--baseline --segment 1448 --crc off", want: []figure{ratio(0.70, 0.88)}},
	{name: "1 MiB Writes, 1448-octet segments, Markers, fast CRC", args: "--baseline --segment 1448 --markers", want: []figure{ratio(0.40, 0.55)}},
	{name: "16 MiB Writes", args: "--baseline --size 16M", want: []figure{ratio(0.85, 1.0)}},
	{name: "8 connections, 1 MiB Writes", args: "--baseline --conns 8", want: []figure{ratio(0.75, 0.90)}},
	{name: "64-octet Writes", args: "--size 64", want: []figure{rate(1.1, 3), allocs()}},
	{name: "64-octet Sends", args: "--size 64 --op send", want: []figure{rate(1.1, 3), allocs()}},
	{name: "64-octet ping-pong, parked, on one CPU", args: "--baseline --lat --same-cpu", want: []figure{latency(1.15, 1.05), allocs()}},
	{name: "64-octet ping-pong, polling", args: "--baseline --lat --poll", want: []figure{latency(1.30, 1.10), allocs()}},
}

func (c *checker) measure(ctx context.Context, r *row) error {
	res, err := c.bench(ctx, r.env, strings.Fields(r.args)...)
	if err != nil {
		return err
	}
	for _, f := range r.want {
		var rounds []float64
		if f.rounds {
			for _, round := range res.Rounds {
				rounds = append(rounds, round.Ratio)
			}
		}
		c.judge(r.name+": "+f.name, f.of(res), rounds, f.gate, f.aim, f.low)
	}
	return nil
}

// judge writes a row of the table.
func (c *checker) judge(name string, v float64, rounds []float64, gate, aim float64, low bool) {
	reached := func(want float64) bool { return low && v <= want || !low && v >= want }
	verdict := "aim"
	switch {
	case gate == 0 && aim == 0:
		verdict = ""
	case !reached(gate):
		verdict = "**missed**"
		c.missed++
	case !reached(aim):
		verdict = "gate"
	}
	spread := ""
	if len(rounds) > 0 {
		spread = fmt.Sprintf("%.2f..%.2f", slices.Min(rounds), slices.Max(rounds))
	}
	c.line("| %s | %.3g | %s | %.4g | %.4g | %s |", name, v, spread, gate, aim, verdict)
}
