package cli

import (
	"bytes"
	"fmt"
	"html/template"
	"math"
	"os"
	"slices"
	"strings"
)

// writeHTML writes all results to one page that needs nothing else.
func (b *benchClient) writeHTML() error {
	page := benchPage{Machine: b.machine.text(), Results: b.results}
	if first := b.results[0]; first.Lat {
		for _, r := range b.results {
			page.Charts = append(page.Charts, histogramChart(r))
		}
	} else {
		page.Charts = append(page.Charts, bandwidthChart(b.results), rateChart(b.results))
	}
	for _, r := range b.results {
		page.Charts = append(page.Charts, roundsChart(r))
	}
	var out bytes.Buffer
	if err := benchTemplate.Execute(&out, &page); err != nil {
		return err
	}
	return os.WriteFile(b.HTML, out.Bytes(), 0o644)
}

type benchPage struct {
	Machine string
	Results []*benchResult
	Charts  []figure
}

// Title is the page's.
func (p *benchPage) Title() string { return "iwarp bench: " + p.Results[0].title() }

// Table is the text of the terminal.
func (p *benchPage) Table() string {
	var lines []string
	for _, r := range p.Results {
		lines = append(lines, r.text())
	}
	return strings.Join(lines, "\n")
}

// figure is some curve of points over a common axis.
type figure struct {
	Title    string
	Unit     string
	Labels   []string // of the points, from left to right
	Bars     bool
	Series   []curve
	YTop     float64
	NoLegend bool
}

type curve struct {
	Name  string
	Color string
	Y     []float64
}

const (
	oursColor = "#1565c0"
	baseColor = "#ef6c00"
)

func bandwidthChart(results []*benchResult) figure {
	c := figure{Title: "Bandwidth by size of the message", Unit: "GB/s"}
	ours, base := curve{Name: "iWARP", Color: oursColor}, curve{Name: "plain TCP", Color: baseColor}
	for _, r := range results {
		c.Labels = append(c.Labels, amountShort(r.Size))
		ours.Y, base.Y = append(ours.Y, r.ours.GBps), append(base.Y, r.base.GBps)
	}
	c.Series = []curve{ours}
	if results[0].baseline {
		c.Series = append(c.Series, base)
	}
	return c
}

func rateChart(results []*benchResult) figure {
	c := figure{Title: "Messages a second by size", Unit: "million/s", NoLegend: true}
	s := curve{Name: "iWARP", Color: oursColor}
	for _, r := range results {
		c.Labels = append(c.Labels, amountShort(r.Size))
		s.Y = append(s.Y, median(r.rate)/1e6)
	}
	c.Series = []curve{s}
	return c
}

func roundsChart(r *benchResult) figure {
	c := figure{Title: fmt.Sprintf("%s: each sample in turn", r.title()), Unit: "GB/s"}
	ours, base := curve{Name: "iWARP", Color: oursColor}, curve{Name: "plain TCP", Color: baseColor}
	of := func(f *figures) float64 { return f.GBps }
	if r.Lat {
		c.Unit = "us, median"
		of = func(f *figures) float64 { return f.Median / 1e3 }
	}
	for i := range r.rounds {
		c.Labels = append(c.Labels, fmt.Sprint(i+1))
		ours.Y = append(ours.Y, of(&r.rounds[i].figures))
		if r.baseline {
			base.Y = append(base.Y, of(r.rounds[i].Baseline))
		}
	}
	c.Series = []curve{ours}
	if r.baseline {
		c.Series = append(c.Series, base)
	}
	return c
}

func histogramChart(r *benchResult) figure {
	c := figure{Title: r.title() + ": how often which latency (us) occurs", Unit: "%", Bars: true, NoLegend: true}
	s := curve{Name: "iWARP", Color: oursColor}
	for _, h := range r.histogram() {
		if h.Count*2000 < len(r.times) {
			continue // below 0.05 %: not to be seen
		}
		c.Labels = append(c.Labels, fmt.Sprintf("%.1f", float64(h.Below)/1e3))
		s.Y = append(s.Y, 100*float64(h.Count)/float64(len(r.times)))
	}
	c.Series = []curve{s}
	return c
}

// The size of a figure, and of the area that its points use.
const (
	figureWidth, figureHeight = 760.0, 300.0
	areaLeft, areaTop         = 60.0, 20.0
	areaWidth, areaHeight     = 680.0, 230.0
)

// top is the end of the y axis: 1, 2 or 5 times a power of ten.
func (c *figure) top() float64 {
	most := 0.0
	for _, s := range c.Series {
		most = max(most, slices.Max(append(s.Y, 0)))
	}
	if most <= 0 || math.IsInf(most, 0) || math.IsNaN(most) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(most)))
	for _, f := range []float64{1, 2, 5} {
		if most <= f*unit {
			return f * unit
		}
	}
	return 10 * unit
}

func (c *figure) x(i int) float64 {
	return areaLeft + areaWidth*(float64(i)+0.5)/float64(max(len(c.Labels), 1))
}

func (c *figure) y(v float64) float64 { return areaTop + areaHeight*(1-v/c.YTop) }

// SVG draws the figure.
func (c figure) SVG() template.HTML {
	c.YTop = c.top()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, figureWidth, figureHeight, template.HTMLEscapeString(c.Title))
	for i := range 6 {
		v := c.YTop * float64(i) / 5
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="right" x="%g" y="%.1f">%.3g</text>`,
			areaLeft, areaLeft+areaWidth, c.y(v), c.y(v), areaLeft-6, c.y(v)+4, v)
	}
	step := len(c.Labels)/16 + 1
	for i, label := range c.Labels {
		if i%step == 0 {
			fmt.Fprintf(&b, `<text class="mid" x="%.1f" y="%g">%s</text>`, c.x(i), areaTop+areaHeight+18, template.HTMLEscapeString(label))
		}
	}
	fmt.Fprintf(&b, `<text x="4" y="12">%s</text>`, template.HTMLEscapeString(c.Unit))
	for i, s := range c.Series {
		c.draw(&b, &s)
		if !c.NoLegend {
			fmt.Fprintf(&b, `<rect x="%g" y="%g" width="10" height="10" fill="%s"/><text x="%g" y="%g">%s</text>`,
				areaLeft+float64(i)*110, figureHeight-16, s.Color, areaLeft+float64(i)*110+15, figureHeight-7, template.HTMLEscapeString(s.Name))
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // all text in it is escaped above
}

func (c *figure) draw(b *strings.Builder, s *curve) {
	if c.Bars {
		w := areaWidth / float64(max(len(c.Labels), 1)) * 0.8
		for i, v := range s.Y {
			fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%.3g</title></rect>`,
				c.x(i)-w/2, c.y(v), w, areaTop+areaHeight-c.y(v), s.Color, v)
		}
		return
	}
	var points []string
	for i, v := range s.Y {
		points = append(points, fmt.Sprintf("%.1f,%.1f", c.x(i), c.y(v)))
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"><title>%s: %.4g</title></circle>`,
			c.x(i), c.y(v), s.Color, template.HTMLEscapeString(c.Labels[i]), v)
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.Join(points, " "), s.Color)
}

var benchTemplate = template.Must(template.New("bench").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.Title}}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
h1 { font-size: 1.4rem } h2 { font-size: 1.05rem; margin: 2rem 0 .3rem }
pre { overflow-x: auto; background: #f5f5f5; padding: .8rem; font-size: 12px }
svg { width: 100%; height: auto } svg text { font-size: 12px; fill: currentColor }
.grid { stroke: #ddd } .mid { text-anchor: middle } .right { text-anchor: end }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } pre { background: #252525 } .grid { stroke: #444 } }
</style></head><body>
<h1>{{.Title}}</h1>
<p>{{.Machine}}</p>
<pre>{{.Table}}</pre>
{{range .Charts}}<h2>{{.Title}}</h2>
{{.SVG}}
{{end}}</body></html>
`))
