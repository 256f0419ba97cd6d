package inspect

import "time"

// series is values over time in a bounded number of bins of one width, which
// doubles when they no longer suffice.
type series struct {
	width time.Duration
	bins  []bin
}

// bin holds the sum of what was added in its time, and the largest and the last of
// the levels set in it.
type bin struct {
	sum       uint64
	max, last int
	set       bool
}

const (
	maxBins     = 512
	minBinWidth = time.Microsecond
)

// at returns the bin of a time since the start.
func (s *series) at(t time.Duration) *bin {
	if s.width == 0 {
		s.width = minBinWidth
	}
	t = max(t, 0)
	for t/s.width >= maxBins {
		s.halve()
	}
	i := int(t / s.width)
	for len(s.bins) <= i {
		s.bins = append(s.bins, bin{})
	}
	return &s.bins[i]
}

// halve makes one bin of two.
func (s *series) halve() {
	s.width *= 2
	for i := range (len(s.bins) + 1) / 2 {
		b := s.bins[2*i]
		if 2*i+1 < len(s.bins) {
			c := s.bins[2*i+1]
			b.sum += c.sum
			b.max = max(b.max, c.max)
			if c.set {
				b.set, b.last = true, c.last
			}
		}
		s.bins[i] = b
	}
	s.bins = s.bins[:(len(s.bins)+1)/2]
}

// add adds to the sum at a time.
func (s *series) add(t time.Duration, n uint64) { s.at(t).sum += n }

// level sets a level from a time on.
func (s *series) level(t time.Duration, v int) {
	b := s.at(t)
	b.max, b.last, b.set = max(b.max, v), v, true
}

// rates returns the sums per second. The bins of both plots of a connection must
// have one width: stretch.
func (s *series) rates() []float64 {
	out := make([]float64, len(s.bins))
	for i := range s.bins {
		out[i] = float64(s.bins[i].sum) / s.width.Seconds()
	}
	return out
}

// levels returns the largest level in each bin; that from before holds on.
func (s *series) levels() []float64 {
	out := make([]float64, len(s.bins))
	last := 0
	for i := range s.bins {
		b := &s.bins[i]
		out[i] = float64(max(b.max, last))
		if b.set {
			last = b.last
		}
	}
	return out
}

// stretch makes the series reach to a time, with bins of at least a width.
func (s *series) stretch(t, width time.Duration) {
	s.at(t)
	for s.width < width {
		s.halve()
	}
}
