package ui

import (
	"fmt"
	"strings"
	"time"
)

// Progress is a line that shows how far a transfer is. It is there on terminals
// only, and goes away at the end.
type Progress struct {
	*Output
	Total int
	Start time.Time
	shown time.Time
}

const (
	progressEvery = 50 * time.Millisecond
	barWidth      = 30
)

// Show brings the line up to date, not too often.
func (p *Progress) Show(done int) {
	now := time.Now()
	if !p.Terminal || now.Sub(p.shown) < progressEvery {
		return
	}
	p.shown = now
	full := int(int64(barWidth) * int64(done) / int64(p.Total))
	p.Printf("\r   [%s%s] %3d %%  %s of %s  %s   ", strings.Repeat("#", full), strings.Repeat(".", barWidth-full),
		int64(done)*100/int64(p.Total), Amount(done), Amount(p.Total), Rate(done, now.Sub(p.Start)))
}

// Clear takes the line away.
func (p *Progress) Clear() {
	if p.Terminal && !p.shown.IsZero() {
		p.Printf("\r%s\r", strings.Repeat(" ", TextWidth+3))
	}
}

// Amount returns octets in the largest unit that leaves a whole number, or one with
// a decimal.
func Amount[T ~int | ~int64](n T) string {
	switch {
	case n >= 1<<20:
		return decimal(float64(n)/(1<<20)) + " MiB"
	case n >= 1<<10:
		return decimal(float64(n)/(1<<10)) + " KiB"
	}
	return Plural(uint64(n), "octet")
}

func decimal(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") }

// Rate returns octets in a time, in octets and in bits a second.
func Rate(n int, d time.Duration) string {
	s := max(d.Seconds(), 1e-9)
	return fmt.Sprintf("%.2f GiB/s (%.1f Gbit/s)", float64(n)/s/(1<<30), float64(n)*8/s/1e9)
}
