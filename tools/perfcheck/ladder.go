package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/go-iwarp/iwarp/internal/svgplot"
)

// sizes is the ladder, in octets: those of messages that fill a segment of
// Ethernet, and those just beside.
var sizes = []int{64, 300, 1000, 1448, 1500, 2000, 4096, 5000, 16 << 10, 64 << 10, 1 << 20}

// operations are what a ladder is of, and their colours.
var operations = []struct{ name, op, color string }{
	{name: "Writes", op: "write", color: svgplot.Ours},
	{name: "Sends", op: "send", color: svgplot.Third},
	{name: "Reads", op: "read", color: svgplot.Fourth},
}

var ladderPlaces = []*place{&loopback, &veth, &vethKernel, &vethBare, &jumbo, &jumboBare}

// dented is the share of the straight line between a size's neighbours, in the
// plot of messages a second whose axes are logarithmic, below which a size is a dent.
const dented = 0.8

// ladderMark is what the share of plain TCP has to reach at a size.
func ladderMark(at *place, op string, size int) mark {
	switch {
	case at == &veth && op != "read" && size == 1000:
		return mark{gate: 0.6, aim: 0.85}
	case at == &veth && op != "read" && size >= 16<<10:
		return mark{gate: 0.65, aim: 0.9}
	case at == &veth && op == "read" && size >= 64<<10:
		return mark{gate: 0.55, aim: 0.85}
	case at == &jumbo && op == "write" && size >= 4096:
		return mark{gate: 0.55, aim: 0.8}
	}
	return mark{}
}

// ladders measures every operation at every size and place, beside plain TCP that
// writes messages of the same size through a buffer.
func (c *checker) ladders(ctx context.Context) error {
	for _, at := range ladderPlaces {
		plots := []svgplot.Figure{
			{Title: at.name + ": messages a second by octets", Unit: "per second", Log: true},
			{Title: at.name + ": share of plain TCP, by octets", Unit: "ratio"},
		}
		for _, o := range operations {
			if err := c.ladder(ctx, at, o.name, o.op, o.color, plots); err != nil {
				return err
			}
		}
		if len(plots[0].Series) > 0 {
			c.plots = append(c.plots, plots...)
		}
	}
	return nil
}

// ladder measures one operation at one place.
func (c *checker) ladder(ctx context.Context, at *place, name, op, color string, plots []svgplot.Figure) error {
	var want []int
	var list []string
	for _, size := range sizes {
		if c.wants(fullName(at, fmt.Sprintf("%s of %s", name, sizeName(size)))) {
			want, list = append(want, size), append(list, fmt.Sprint(size))
		}
	}
	if len(want) == 0 {
		return nil
	}
	if err := c.missing(at); err != nil {
		c.skip(fullName(at, name), err)
		return nil
	}
	args := append([]string{"--baseline", "--buffered", "--op=" + op, "--size=" + strings.Join(list, ",")},
		at.args()...)
	results, err := c.bench(ctx, nil, args...)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		c.fail(fullName(at, name), err)
		if len(results) == 0 {
			return nil
		}
	}
	c.table(fullName(at, name), "messages/s", "of the line", "GB/s", "plain TCP, GB/s", "of plain TCP", "min..max",
		"CPU, of plain TCP's",
		"calls a message", "sent again", "gate", "aim", "")
	ours := svgplot.Curve{Name: name, Color: color, Y: none(len(sizes))}
	theirs := svgplot.Curve{Name: "plain TCP", Color: svgplot.Theirs, Y: none(len(sizes))}
	share := svgplot.Curve{Name: name, Color: color, Y: none(len(sizes))}
	for i, r := range results {
		m := ladderMark(at, op, r.Octets)
		row := fullName(at, fmt.Sprintf("%s of %s", name, sizeName(r.Octets)))
		verdict := c.judge(row+": of plain TCP", r.Ratio, r.ratios(), m)
		if at == &loopback && op == "read" && r.Octets == 300 {
			c.judge(row+": thousand messages/s", r.Rate/1e3, nil, mark{gate: 600, aim: 1200})
		}
		again := ""
		if at.net != nil {
			again = fmt.Sprint(r.Net.Retransmissions)
			if r.Net.Void > 0 {
				again += fmt.Sprintf(", %d void", r.Net.Void)
			}
		}
		c.cells(fmt.Sprint(r.Octets), perSecond(r.Rate), line(results, i), fmt.Sprintf("%.3f", r.GBps),
			fmt.Sprintf("%.3f", r.Baseline.GBps),
			fmt.Sprintf("%.2f", r.Ratio), spread(r.ratios()), fmt.Sprintf("%.2f", r.CPURatio),
			fmt.Sprintf("%.2g", r.Calls*float64(r.Octets)/1e9), again, number(m.gate), number(m.aim), verdict)
		for k, size := range sizes {
			if size == r.Octets {
				ours.Y[k], theirs.Y[k], share.Y[k] = r.Rate, r.Baseline.GBps*1e9/float64(size), r.Ratio
			}
		}
	}
	for i := range plots {
		plots[i].Labels = nil
		for _, size := range sizes {
			plots[i].Labels = append(plots[i].Labels, strings.TrimSuffix(sizeName(size), " octets"))
		}
	}
	plots[0].Series = append(plots[0].Series, ours)
	if op == "write" {
		plots[0].Series = append(plots[0].Series, theirs)
	}
	plots[1].Series = append(plots[1].Series, share)
	return nil
}

// none is as many values that are not there.
func none(n int) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = math.NaN()
	}
	return list
}

// line is the share that a size reaches of the straight line between its
// neighbours in the ladder, where both were measured.
func line(results []*result, i int) string {
	if i == 0 || i == len(results)-1 {
		return ""
	}
	k := slices.Index(sizes, results[i].Octets)
	if k <= 0 || k == len(sizes)-1 || results[i-1].Octets != sizes[k-1] || results[i+1].Octets != sizes[k+1] {
		return ""
	}
	x := func(r *result) float64 { return math.Log(float64(r.Octets)) }
	y := func(r *result) float64 { return math.Log(r.Rate) }
	a, r, b := results[i-1], results[i], results[i+1]
	between := y(a) + (y(b)-y(a))*(x(r)-x(a))/(x(b)-x(a))
	share := math.Exp(y(r) - between)
	if share < dented {
		return fmt.Sprintf("**%.2f**", share)
	}
	return fmt.Sprintf("%.2f", share)
}

// perSecond is a rate as text.
func perSecond(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2f M", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.1f k", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}
