package cli

import (
	"fmt"
	"strings"
	"time"
)

// progress is a line that shows how far a transfer is. It is there on terminals
// only, and goes away at the end.
type progress struct {
	*output
	total int
	start time.Time
	shown time.Time
}

const (
	progressEvery = 50 * time.Millisecond
	barWidth      = 30
)

// show brings the line up to date, not too often.
func (p *progress) show(done int) {
	now := time.Now()
	if !p.terminal || now.Sub(p.shown) < progressEvery {
		return
	}
	p.shown = now
	full := int(int64(barWidth) * int64(done) / int64(p.total))
	p.printf("\r   [%s%s] %3d %%  %s of %s  %s   ", strings.Repeat("#", full), strings.Repeat(".", barWidth-full),
		int64(done)*100/int64(p.total), amount(done), amount(p.total), rate(done, now.Sub(p.start)))
}

// clear takes the line away.
func (p *progress) clear() {
	if p.terminal && !p.shown.IsZero() {
		p.printf("\r%s\r", strings.Repeat(" ", textWidth+3))
	}
}

// amount gives octets in the largest unit that leaves a whole number, or one with
// a decimal.
func amount[T ~int | ~int64](n T) string {
	switch {
	case n >= 1<<20:
		return decimal(float64(n)/(1<<20)) + " MiB"
	case n >= 1<<10:
		return decimal(float64(n)/(1<<10)) + " KiB"
	}
	return plural(uint64(n), "octet")
}

func decimal(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") }

// rate gives octets in a time, in octets and in bits a second.
func rate(n int, d time.Duration) string {
	s := max(d.Seconds(), 1e-9)
	return fmt.Sprintf("%.2f GiB/s (%.1f Gbit/s)", float64(n)/s/(1<<30), float64(n)*8/s/1e9)
}
