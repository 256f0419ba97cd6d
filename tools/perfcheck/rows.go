package main

import (
	"context"
	"fmt"
	"strings"
)

// row is a command line of "iwarp bench" and the figures of its result that the
// report has.
type row struct {
	name string
	at   *place // nil: loopback
	args string
	env  []string
	want []figure
}

// figure is one number and what it must reach.
type figure struct {
	name   string
	of     func(*result) float64
	mark   mark
	rounds bool // there is one for each round
}

// The figures, by what they are.
func ratio(gate, aim float64) figure {
	return figure{
		name: "of plain TCP", of: func(r *result) float64 { return r.Ratio }, mark: mark{gate: gate, aim: aim},
		rounds: true,
	}
}

func cpu(gate, aim float64) figure {
	return figure{
		name: "CPU seconds per GB over plain TCP's", of: func(r *result) float64 { return r.CPURatio },
		mark: mark{gate: gate, aim: aim, low: true},
	}
}

func rate(gate, aim float64) figure {
	return figure{
		name: "million messages/s", of: func(r *result) float64 { return r.Rate / 1e6 },
		mark: mark{gate: gate, aim: aim},
	}
}

func calls(gate, aim float64) figure {
	return figure{
		name: "data system calls over plain TCP's", of: func(r *result) float64 { return r.CallRatio },
		mark: mark{gate: gate, aim: aim, low: true},
	}
}

// allocs is 0 but for what a sample allocates as a whole.
func allocs() figure {
	return figure{
		name: "allocations per operation", of: func(r *result) float64 { return r.Allocs },
		mark: mark{gate: 0.01, aim: 0.01, low: true},
	}
}

// noFold makes a processor look as if it had no AVX-512 for the CRC.
var noFold = []string{"GODEBUG=cpu.avx512vl=off"}

var loopbackRows = []row{
	{
		name: "1 MiB Writes, fast CRC", args: "--baseline",
		want: []figure{ratio(0.75, 0.90), cpu(1.45, 1.2), calls(1.3, 1.0)},
	},
	{name: "1 MiB Writes, fast CRC, memory of Go's heap", args: "--baseline --pages heap", want: []figure{ratio(0, 0)}},
	{name: "1 MiB Writes, hash/crc32 only", args: "--baseline", env: noFold, want: []figure{ratio(0.55, 0.68)}},
	{name: "1 MiB Writes, CRC off", args: "--baseline --crc off", want: []figure{ratio(0.85, 1.0)}},
	{name: "1 MiB Reads, fast CRC", args: "--baseline --op read", want: []figure{ratio(0.70, 0.85)}},
	{
		name: "1 MiB Writes, 1448-octet segments, fast CRC", args: "--baseline --segment 1448",
		want: []figure{ratio(0.60, 0.75)},
	},
	{
		name: "1 MiB Writes, 1448-octet segments, CRC off", args: "--baseline --segment 1448 --crc off",
		want: []figure{ratio(0.70, 0.88)},
	},
	{
		name: "1 MiB Writes, 1448-octet segments, Markers, fast CRC", args: "--baseline --segment 1448 --markers",
		want: []figure{ratio(0.40, 0.55)},
	},
	{name: "16 MiB Writes", args: "--baseline --size 16M", want: []figure{ratio(0.85, 1.0)}},
	{name: "8 connections, 1 MiB Writes", args: "--baseline --conns 8", want: []figure{ratio(0.75, 0.90)}},
	{name: "64-octet Writes", args: "--size 64", want: []figure{rate(1.1, 3), allocs()}},
	{name: "64-octet Sends", args: "--size 64 --op send", want: []figure{rate(1.1, 3), allocs()}},
}

// networkRowList is what the ladder of sizes does not have. The baseline is what it
// is on loopback, the fastest that plain TCP of Go was found to do.
var networkRowList = []row{
	{name: "1 MiB Writes, CRC off", at: &veth, args: "--baseline --crc off", want: []figure{ratio(0, 0)}},
	{name: "1 MiB Writes, Markers", at: &veth, args: "--baseline --markers", want: []figure{ratio(0, 0)}},
	{
		name: "1000-octet Writes, Markers", at: &veth, args: "--baseline --buffered --size 1000 --markers",
		want: []figure{ratio(0, 0)},
	},
	{name: "8 connections, 1 MiB Writes", at: &veth, args: "--baseline --conns 8", want: []figure{ratio(0, 0)}},
	{
		name: "8 connections, 1000-octet Writes", at: &veth, args: "--baseline --buffered --conns 8 --size 1000",
		want: []figure{ratio(0, 0), rate(0, 0)},
	},
	{name: "8 connections, 1 MiB Writes", at: &jumbo, args: "--baseline --conns 8", want: []figure{ratio(0, 0)}},
	{name: "64-octet Writes", at: &veth, args: "--size 64", want: []figure{rate(4, 5), allocs()}},
}

// fullName is the row's name with its place, as -rows finds it.
func fullName(at *place, name string) string {
	if at == nil {
		at = &loopback
	}
	return at.name + ": " + name
}

func (c *checker) loopback(ctx context.Context) error { return c.measureAll(ctx, loopbackRows) }

// measureAll makes a table of some rows.
func (c *checker) measureAll(ctx context.Context, rows []row) error {
	begun := false
	for i := range rows {
		r := &rows[i]
		name := fullName(r.at, r.name)
		if !c.wants(name) {
			continue
		}
		if r.at != nil {
			if err := c.missing(r.at); err != nil {
				c.skip(name, err)
				begun = false
				continue
			}
		}
		args := strings.Fields(r.args)
		if r.at != nil {
			args = append(args, r.at.args()...)
		}
		results, err := c.bench(ctx, r.env, args...)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			c.fail(name, err)
			begun = false
			continue
		}
		if !begun {
			c.table("what", "measured", "min..max of the rounds", "gate", "aim", "")
			begun = true
		}
		for _, f := range r.want {
			c.figure(name, &f, results[0])
		}
	}
	return nil
}

// figure writes a row of a table.
func (c *checker) figure(name string, f *figure, r *result) {
	var rounds []float64
	if f.rounds {
		rounds = r.ratios()
	}
	what := name + ": " + f.name
	c.cells(what, fmt.Sprintf("%.3g", f.of(r)), spread(rounds), number(f.mark.gate), number(f.mark.aim),
		c.judge(what, f.of(r), rounds, f.mark))
}

// number is a number as text, or nothing for 0.
func number(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.3g", v)
}

// pair is two command lines of "iwarp bench" whose rates are compared in turn.
type pair struct {
	name         string
	at           *place
	args         string // of both
	ours, theirs string // of either
	other        *place // of the second, if it is another
	want         mark
}

var pairList = func() (list []pair) {
	for _, op := range []string{"Writes", "Sends"} {
		for _, size := range []int{300, 1000, 2000, 4096} {
			list = append(list, pair{
				name: fmt.Sprintf("%s of %s, alignment auto over off", op, sizeName(size)), at: &veth,
				args: fmt.Sprintf("--op %s --size %d", strings.ToLower(op[:len(op)-1]), size), ours: "--align auto",
				theirs: "--align off",
				want:   mark{gate: 0.85, aim: 1},
			})
		}
	}
	list = append(list, pair{
		name: "Writes of 1000 octets, alignment segments over auto", at: &veth,
		args: "--size 1000", ours: "--align segments", theirs: "--align auto", want: mark{gate: 0.12, aim: 0.25},
	})
	for _, op := range []string{"Writes", "Reads"} {
		for _, size := range []int{1000, 64 << 10} {
			list = append(list, pair{
				name: fmt.Sprintf("%s of %s, over steering fixed", op, sizeName(size)), at: &vethKernel, other: &veth,
				args: fmt.Sprintf("--op %s --size %d", strings.ToLower(op[:len(op)-1]), size),
				want: mark{gate: 0.5, aim: 0.9},
			})
		}
	}
	return list
}()

// ratioTable is a table of what two things, measured in turn, reach of each other.
type ratioTable struct {
	what   string // the ratio is
	rounds int
	begun  *bool // its head has been printed
}

// ratioRow measures ours and theirs in turn and prints their row. The error is ctx's.
func (c *checker) ratioRow(
	ctx context.Context, t *ratioTable, name string, ours, theirs func(context.Context) (float64, error), want mark,
) error {
	ratios, our, their, err := c.versus(ctx, t.rounds, ours, theirs)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		c.fail(name, err)
		*t.begun = false
		return nil
	}
	if !*t.begun {
		c.table("what", t.what, "min..max of the rounds", "GB/s of the two", "gate", "aim", "")
		*t.begun = true
	}
	c.cells(name, fmt.Sprintf("%.3g", median(ratios)), spread(ratios), fmt.Sprintf("%.3g, %.3g", our, their),
		number(want.gate), number(want.aim), c.judge(name, median(ratios), ratios, want))
	return nil
}

// networkRows is what is measured on a network but for the ladder and latency.
func (c *checker) networkRows(ctx context.Context) error {
	if err := c.measureAll(ctx, networkRowList); err != nil {
		return err
	}
	begun := false
	for i := range pairList {
		p := &pairList[i]
		name := fullName(p.at, p.name)
		if !c.wants(name) {
			continue
		}
		if err := c.missing(p.at); err != nil {
			c.skip(name, err)
			begun = false
			continue
		}
		other := p.at
		if p.other != nil {
			other = p.other
		}
		line := func(at *place, own string) func(context.Context) (float64, error) {
			return c.rate(append(strings.Fields(p.args+" "+own), at.args()...)...)
		}
		t := ratioTable{what: "ratio", rounds: c.samples, begun: &begun}
		if err := c.ratioRow(ctx, &t, name, line(p.at, p.ours), line(other, p.theirs), p.want); err != nil {
			return err
		}
	}
	return nil
}
