package svgplot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// Whatever is to be drawn, the result is XML whose every number is one.
func TestSVG(t *testing.T) {
	for name, f := range map[string]Figure{
		"nothing":   {},
		"one point": {Labels: []string{"a"}, Series: []Curve{{Name: "<&>", Color: Ours, Y: []float64{3}}}},
		"zeros":     {Labels: []string{"a", "b"}, Series: []Curve{{Y: []float64{0, 0}}}},
		"no values": {Labels: []string{"a", "b"}, Log: true, Series: []Curve{{Y: []float64{0, -1}}}},
		"not numbers": {
			Labels: []string{"a", "b", "c"}, Log: true, Series: []Curve{{Y: []float64{math.NaN(), math.Inf(1), 5}}},
		},
		"bars":     {Labels: []string{"a", "b"}, Bars: true, Series: []Curve{{Y: []float64{1, math.NaN()}}}},
		"too many": {Labels: []string{"a"}, Series: []Curve{{Y: []float64{1, 2, 3}}}},
		"log": {
			Title: `"quoted"`, Labels: []string{"64", "1M"}, Log: true,
			Series: []Curve{{Name: "a", Y: []float64{0.02, 7}}, {Name: "b", Y: []float64{1}}},
		},
	} {
		for _, svg := range []string{string(f.SVG()), string(Page(f, f))} {
			for d := xml.NewDecoder(strings.NewReader(svg)); ; {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%s: %v in %s", name, err, svg)
				}
			}
			if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
				t.Errorf("%s: %s", name, svg)
			}
		}
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.05: "0.05", 500: "500", 2e3: "2 k", 5e7: "50 M", 1e9: "1e+09"} {
		if got := short(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

// The axis ends above the largest value, and begins at 0 or below the least.
func TestScale(t *testing.T) {
	for _, c := range []struct {
		log         bool
		y           []float64
		bottom, top float64
	}{
		{log: false, y: []float64{0.3, 7}, bottom: 0, top: 10},
		{log: false, y: []float64{1, 2}, bottom: 0, top: 2},
		{log: false, bottom: 0, top: 1},
		{log: true, y: []float64{0.03, 7}, bottom: 0.01, top: 10},
		{log: true, y: []float64{3}, bottom: 1, top: 10},
	} {
		f := Figure{Log: c.log, Series: []Curve{{Y: c.y}}}
		f.scale()
		if math.Abs(f.bottom-c.bottom) > 1e-9 || math.Abs(f.top-c.top) > 1e-9 {
			t.Errorf("%v: from %v to %v, want %v to %v", c.y, f.bottom, f.top, c.bottom, c.top)
		}
	}
}
