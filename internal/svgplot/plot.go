// Package svgplot draws curves and bars as SVG, which needs nothing else to be shown.
package svgplot

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Figure is some curves of points over a common axis.
type Figure struct {
	Title    string
	Unit     string   // of the values
	Labels   []string // of the points, from left to right
	Bars     bool     // instead of curves
	Log      bool     // the values' axis is logarithmic; values of 0 and below are left out
	Series   []Curve
	NoLegend bool

	bottom, top float64 // of the values' axis
}

// Curve is one value for each label; NaN is none.
type Curve struct {
	Name  string
	Color string // as CSS has it
	Y     []float64
}

// The size of a figure, and of the area that its points use.
const (
	figureWidth, figureHeight = 760.0, 300.0
	areaLeft, areaTop         = 60.0, 20.0
	areaWidth, areaHeight     = 680.0, 230.0
)

// Style is the CSS that figures want, for a page that shows some.
const Style = `svg { width: 100%; height: auto } svg text { font-size: 12px; fill: currentColor }
.grid { stroke: #ddd } .mid { text-anchor: middle } .right { text-anchor: end }
@media (prefers-color-scheme: dark) { .grid { stroke: #444 } }
`

// shows reports whether a value has a place in the figure.
func (f *Figure) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!f.Log || v > 0)
}

// scale finds the ends of the values' axis: 0, or a power of ten, and 1, 2 or 5 times a power of ten.
func (f *Figure) scale() {
	least, most := math.Inf(1), 0.0
	for _, s := range f.Series {
		for _, v := range s.Y {
			if f.shows(v) {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	f.bottom, f.top = 0, 1
	if most > 0 {
		f.top = above(most)
	}
	if f.Log {
		if most <= 0 {
			least = 1
		}
		f.bottom = math.Pow(10, math.Floor(math.Log10(least)))
		f.top = max(f.top, 10*f.bottom)
	}
}

// above is the least of 1, 2 and 5 times a power of ten that is not below v.
func above(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*unit {
			return m * unit
		}
	}
	return 10 * unit
}

// ticks are the values that the axis names.
func (f *Figure) ticks() (list []float64) {
	if !f.Log {
		for i := range 6 {
			list = append(list, f.top*float64(i)/5)
		}
		return list
	}
	for unit := f.bottom; unit <= f.top*1.001; unit *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if v := m * unit; v <= f.top*1.001 {
				list = append(list, v)
			}
		}
	}
	return list
}

// short is a number as the axis names it.
func short(v float64) string {
	switch {
	case v >= 1e6 && v < 1e9:
		return fmt.Sprintf("%.3g M", v/1e6)
	case v >= 1e3 && v < 1e6:
		return fmt.Sprintf("%.3g k", v/1e3)
	}
	return fmt.Sprintf("%.3g", v)
}

func (f *Figure) x(i int) float64 {
	return areaLeft + areaWidth*(float64(i)+0.5)/float64(max(len(f.Labels), 1))
}

func (f *Figure) y(v float64) float64 {
	at := v / f.top
	if f.Log {
		at = math.Log(v/f.bottom) / math.Log(f.top/f.bottom)
	}
	return areaTop + areaHeight*(1-at)
}

// SVG draws the figure for a page of HTML that has [Style].
func (f Figure) SVG() template.HTML {
	var b strings.Builder
	f.scale()
	f.draw(&b, "")
	return template.HTML(b.String()) // all text in it is escaped
}

// Page draws figures below each other as one SVG file.
func Page(figures ...Figure) []byte {
	const title = 24.0 // the height of one
	var b strings.Builder
	height := (figureHeight + title) * float64(len(figures))
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" color="#222">`,
		figureWidth, height)
	b.WriteString("<style>text { font-size: 12px; fill: currentColor } .grid { stroke: #ddd } .mid { text-anchor: " +
		"middle } " +
		".right { text-anchor: end }</style>" + `<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	for i, f := range figures {
		at := (figureHeight + title) * float64(i)
		fmt.Fprintf(&b, `<text x="4" y="%g" font-weight="bold">%s</text>`, at+16, template.HTMLEscapeString(f.Title))
		f.scale()
		f.draw(&b, fmt.Sprintf(`y="%g" width="%g" height="%g" `, at+title, figureWidth, figureHeight))
		b.WriteByte('\n')
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// draw writes the figure as an svg element with some attributes.
func (f *Figure) draw(b *strings.Builder, attributes string) {
	fmt.Fprintf(b, `<svg %sviewBox="0 0 %g %g" role="img" aria-label="%s">`, attributes, figureWidth, figureHeight,
		template.HTMLEscapeString(f.Title))
	for _, v := range f.ticks() {
		fmt.Fprintf(b,
			`<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="right" x="%g" y="%.1f">%s</text>`,
			areaLeft, areaLeft+areaWidth, f.y(v), f.y(v), areaLeft-6, f.y(v)+4, short(v))
	}
	step := len(f.Labels)/16 + 1
	for i, label := range f.Labels {
		if i%step == 0 {
			fmt.Fprintf(b, `<text class="mid" x="%.1f" y="%g">%s</text>`, f.x(i), areaTop+areaHeight+18,
				template.HTMLEscapeString(label))
		}
	}
	fmt.Fprintf(b, `<text x="4" y="12">%s</text>`, template.HTMLEscapeString(f.Unit))
	for i, s := range f.Series {
		f.drawCurve(b, &s)
		if !f.NoLegend {
			x := areaLeft + float64(i)*areaWidth/float64(max(len(f.Series), 6))
			fmt.Fprintf(b, `<rect x="%g" y="%g" width="10" height="10" fill="%s"/><text x="%g" y="%g">%s</text>`,
				x, figureHeight-16, s.Color, x+15, figureHeight-7, template.HTMLEscapeString(s.Name))
		}
	}
	b.WriteString("</svg>")
}

func (f *Figure) drawCurve(b *strings.Builder, s *Curve) {
	if f.Bars {
		w := areaWidth / float64(max(len(f.Labels), 1)) * 0.8
		for i, v := range s.Y {
			if f.shows(v) {
				fmt.Fprintf(b,
					`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%.3g</title></rect>`,
					f.x(i)-w/2, f.y(v), w, areaTop+areaHeight-f.y(v), s.Color, v)
			}
		}
		return
	}
	var points []string
	for i, v := range s.Y {
		if !f.shows(v) {
			continue
		}
		points = append(points, fmt.Sprintf("%.1f,%.1f", f.x(i), f.y(v)))
		label := ""
		if i < len(f.Labels) {
			label = f.Labels[i]
		}
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"><title>%s: %.4g</title></circle>`,
			f.x(i), f.y(v), s.Color, template.HTMLEscapeString(label), v)
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.Join(points, " "),
		s.Color)
}

// The colours of curves that are compared, which differ for everybody.
const (
	Ours   = "#1565c0"
	Theirs = "#ef6c00"
	Third  = "#00897b"
	Fourth = "#8e24aa"
)
