package inspect

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
)

// Geometry, in the units of the SVG.
const (
	chartWidth = 1000
	axisX      = 92  // the time axis
	leftX      = 190 // the lifelines
	rightX     = 930
	topY       = 34
	rowHeight  = 26
	slant      = 7 // how far an arrow falls
	maxPause   = 44
	chunkRows  = 200
	maxLinked  = 1023 // frames of a row, but for its last, that links lead to it from
)

// chart is a piece of a sequence diagram.
type chart struct {
	Title        string // what it has
	Open         bool
	Before       int // messages left out before it
	Width        int
	Height       int
	Axis         int
	Left, Right  int
	NameA, NameB string
	Middle       int
	Rows         []chartRow
}

type chartRow struct {
	ID     string // "" if a row before has the frame's
	Class  string
	Time   string
	Frame  uint64
	Label  string
	Full   string
	Y      int // of the text
	X1, Y1 int // the arrow
	X2, Y2 int
	Tip    string // points
	Note   bool
	Pause  string // in words, if it is worth some
	PauseY int
	Broken string // the rules, if some were broken
}

// chunks lays out the diagram of a connection, and notes in links where frames
// are.
func (c *reportConn) chunks(n int, links map[uint64]string) (out []chart) {
	rules := map[uint64][]string{}
	for _, v := range c.verdicts {
		if !slices.Contains(rules[v.Frame], v.Rule) {
			rules[v.Frame] = append(rules[v.Frame], v.Rule)
		}
	}
	done := 0
	layOut := func(rows []reportRow, before int) {
		for chunk := range slices.Chunk(rows, chunkRows) {
			g := layChart(chunk, n, links, rules)
			g.Title = fmt.Sprintf("%d to %d of %d", done+before+1, done+before+len(chunk), c.messages)
			g.NameA, g.NameB = sideWords(c.opened.Roles, 0), sideWords(c.opened.Roles, 1)
			g.Open = len(out) == 0
			g.Before, before, done = before, 0, done+before+len(chunk)
			out = append(out, g)
		}
	}
	layOut(c.head, 0)
	layOut(c.tailRows(), c.messages-len(c.head)-len(c.tail))
	return out
}

// layChart lays out a piece.
func layChart(rows []reportRow, n int, links map[uint64]string, rules map[uint64][]string) chart {
	g := chart{Width: chartWidth, Axis: axisX, Left: leftX, Right: rightX, Middle: (leftX + rightX) / 2}
	typical := typicalPause(rows)
	y := topY
	for i := range rows {
		r := &rows[i]
		row := chartRow{
			Class: r.class, Time: seconds(r.at), Frame: r.frame, Label: r.label, Full: r.full, Note: r.from < 0,
		}
		if i > 0 {
			pause := r.at - rows[i-1].at
			extra := pauseHeight(pause, typical)
			if extra > rowHeight/2 {
				row.Pause, row.PauseY = ui.Round(pause).String(), y+extra/2+2
			}
			y += extra
		}
		row.place(r.from, y)
		for f := max(r.first, r.frame-min(r.frame, maxLinked)); f <= r.frame; f++ {
			if links[f] != "" {
				continue
			}
			if row.ID == "" {
				row.ID = fmt.Sprintf("c%d-f%d", n, f)
			}
			links[f] = row.ID
			row.Broken = strings.Join(append(strings.Fields(row.Broken), rules[f]...), " ")
		}
		g.Rows = append(g.Rows, row)
		y += rowHeight
	}
	g.Height = y + rowHeight/2
	return g
}

// place gives a row its coordinates.
func (row *chartRow) place(from, y int) {
	row.Y = y + 9
	row.X1, row.X2 = leftX, rightX
	if from == 1 {
		row.X1, row.X2 = rightX, leftX
	}
	row.Y1, row.Y2 = y+12, y+12+slant
	back := 9 // of the tip
	if from != 1 {
		back = -back
	}
	row.Tip = fmt.Sprintf("%d,%d %d,%d %d,%d", row.X2, row.Y2, row.X2+back, row.Y2-4, row.X2+back, row.Y2+4)
}

// typicalPause is the median time between two rows, at least a microsecond.
func typicalPause(rows []reportRow) time.Duration {
	var d []time.Duration
	for i := 1; i < len(rows); i++ {
		d = append(d, rows[i].at-rows[i-1].at)
	}
	if len(d) == 0 {
		return time.Microsecond
	}
	slices.Sort(d)
	return max(d[len(d)/2], time.Microsecond)
}

// pauseHeight gives a pause room by the logarithm of its length, if it is longer
// than usual.
func pauseHeight(pause, typical time.Duration) int {
	if pause <= 2*typical {
		return 0
	}
	return min(int(12*math.Log10(float64(pause)/float64(typical))), maxPause)
}

// plot is a diagram of values over time.
type plot struct {
	Title         string
	Width, Height int
	Left, Right   int
	Top, Bottom   int
	TopLabel      string // of the y axis
	Mid           int
	MidLabel      string
	Start, End    string // of the x axis
	Lines         []plotLine
}

type plotLine struct{ Name, Class, Points string }

const plotHeight = 150

// plots draws throughput, and outstanding Reads if there were any.
func (c *reportConn) plots(end time.Duration, nameA, nameB string) (out []plot) {
	width := time.Duration(0)
	all := [][2]*series{{&c.rate[0], &c.rate[1]}, {&c.reads[0], &c.reads[1]}}
	for _, pair := range all {
		for _, s := range pair {
			s.stretch(end, 0)
			width = max(width, s.width)
		}
	}
	used := [2]bool{}
	for k, pair := range all {
		for _, s := range pair {
			s.stretch(end, width)
			used[k] = used[k] || slices.ContainsFunc(s.bins, func(b bin) bool { return b.sum > 0 || b.max > 0 })
		}
	}
	names := [2]string{"from the " + nameA, "from the " + nameB}
	if used[0] {
		out = append(out,
			draw("Throughput, octets of FPDUs a second (mean over "+ui.Round(width).String()+")", end, names,
				[2][]float64{c.rate[0].rates(), c.rate[1].rates()}, perSecond))
	}
	if used[1] {
		out = append(out, draw("Reads and atomics outstanding (most within "+ui.Round(width).String()+")", end, names,
			[2][]float64{c.reads[0].levels(), c.reads[1].levels()}, func(v float64) string {
				return fmt.Sprintf("%.4g",
					v)
			}))
	}
	return out
}

// perSecond names a rate.
func perSecond(v float64) string {
	for _, u := range []struct {
		n    float64
		unit string
	}{{1e9, " GB/s"}, {1e6, " MB/s"}, {1e3, " kB/s"}} {
		if v >= u.n {
			return fmt.Sprintf("%.3g%s", v/u.n, u.unit)
		}
	}
	return fmt.Sprintf("%.3g B/s", v)
}

// draw makes the lines of a plot, which step from bin to bin.
func draw(title string, end time.Duration, names [2]string, values [2][]float64, label func(float64) string) plot {
	p := plot{
		Title: title, Width: chartWidth, Height: plotHeight, Left: axisX, Right: rightX, Top: 12,
		Bottom: plotHeight - 24,
	}
	top := max(slices.Max(append(values[0], 0)), slices.Max(append(values[1], 0)))
	p.TopLabel, p.MidLabel, p.Mid = label(top), label(top/2), (p.Top+p.Bottom)/2
	p.Start, p.End = "0", ui.Round(end).String()
	for i, v := range values {
		if !slices.ContainsFunc(v, func(x float64) bool { return x > 0 }) {
			continue
		}
		var pts strings.Builder
		step := float64(p.Right-p.Left) / float64(len(v))
		for k, x := range v {
			y := float64(p.Bottom) - x/top*float64(p.Bottom-p.Top)
			x0 := float64(p.Left) + float64(k)*step
			fmt.Fprintf(&pts, "%.1f,%.1f %.1f,%.1f ", x0, y, x0+step, y)
		}
		p.Lines = append(p.Lines,
			plotLine{Name: names[i], Class: [2]string{"a", "b"}[i], Points: strings.TrimSpace(pts.String())})
	}
	return p
}
