package bench

import (
	"bytes"
	"fmt"
	"html/template"
	"os"
	"strings"

	"github.com/go-iwarp/iwarp/internal/svgplot"
)

// writeHTML writes all results to one page that needs nothing else.
func (b *benchClient) writeHTML() error {
	page := benchPage{Machine: b.machine.Text(), Results: b.results}
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
	Charts  []svgplot.Figure
}

// Title is the page's.
func (p *benchPage) Title() string { return "iwarp bench: " + p.Results[0].title() }

// Table is the text of the terminal.
func (p *benchPage) Table() string {
	var lines []string
	for _, r := range p.Results {
		lines = append(lines, r.Text())
	}
	return strings.Join(lines, "\n")
}

func bandwidthChart(results []*benchResult) svgplot.Figure {
	c := svgplot.Figure{Title: "Bandwidth by size of the message", Unit: "GB/s"}
	ours, base := svgplot.Curve{Name: "iWARP", Color: svgplot.Ours}, svgplot.Curve{
		Name: "plain TCP", Color: svgplot.Theirs,
	}
	for _, r := range results {
		c.Labels = append(c.Labels, amountShort(r.Size))
		ours.Y, base.Y = append(ours.Y, r.ours.GBps), append(base.Y, r.base.GBps)
	}
	c.Series = []svgplot.Curve{ours}
	if results[0].baseline {
		c.Series = append(c.Series, base)
	}
	return c
}

func rateChart(results []*benchResult) svgplot.Figure {
	c := svgplot.Figure{Title: "Messages a second by size", Unit: "million/s", NoLegend: true}
	s := svgplot.Curve{Name: "iWARP", Color: svgplot.Ours}
	for _, r := range results {
		c.Labels = append(c.Labels, amountShort(r.Size))
		s.Y = append(s.Y, median(r.rate)/1e6)
	}
	c.Series = []svgplot.Curve{s}
	return c
}

func roundsChart(r *benchResult) svgplot.Figure {
	c := svgplot.Figure{Title: fmt.Sprintf("%s: each sample in turn", r.title()), Unit: "GB/s"}
	ours, base := svgplot.Curve{Name: "iWARP", Color: svgplot.Ours}, svgplot.Curve{
		Name: "plain TCP", Color: svgplot.Theirs,
	}
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
	c.Series = []svgplot.Curve{ours}
	if r.baseline {
		c.Series = append(c.Series, base)
	}
	return c
}

func histogramChart(r *benchResult) svgplot.Figure {
	c := svgplot.Figure{
		Title: r.title() + ": how often which latency (us) occurs", Unit: "%", Bars: true, NoLegend: true,
	}
	s := svgplot.Curve{Name: "iWARP", Color: svgplot.Ours}
	for _, h := range r.histogram() {
		if h.Count*2000 < len(r.times) {
			continue // below 0.05 %: not to be seen
		}
		c.Labels = append(c.Labels, fmt.Sprintf("%.1f", float64(h.Below)/1e3))
		s.Y = append(s.Y, 100*float64(h.Count)/float64(len(r.times)))
	}
	c.Series = []svgplot.Curve{s}
	return c
}

var benchTemplate = template.Must(template.New("bench").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.Title}}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
	color: #222; background: #fff }
h1 { font-size: 1.4rem } h2 { font-size: 1.05rem; margin: 2rem 0 .3rem }
pre { overflow-x: auto; background: #f5f5f5; padding: .8rem; font-size: 12px }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } pre { background: #252525 } }
` + svgplot.Style + `</style></head><body>
<h1>{{.Title}}</h1>
<p>{{.Machine}}</p>
<pre>{{.Table}}</pre>
{{range .Charts}}<h2>{{.Title}}</h2>
{{.SVG}}
{{end}}</body></html>
`))
