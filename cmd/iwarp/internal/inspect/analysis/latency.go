package analysis

import (
	"math/bits"
	"slices"
	"time"
)

const (
	exactSamples = 1024
	subBuckets   = 64 // in a doubling: less than two per cent each
)

// recorder collects latencies in bounded memory.
type recorder struct {
	n        uint64
	min, max time.Duration
	exact    []time.Duration
	buckets  []uint32
}

// size is the memory that it takes beside itself, in octets.
func (l *recorder) size() int { return 8*cap(l.exact) + 4*cap(l.buckets) }

func (l *recorder) add(d time.Duration) {
	d = max(d, 0) // frames of several interfaces may have times that disagree
	if l.n == 0 || d < l.min {
		l.min = d
	}
	l.max = max(l.max, d)
	l.n++
	if l.buckets == nil && len(l.exact) < exactSamples {
		l.exact = append(l.exact, d)
		return
	}
	if l.buckets == nil {
		l.buckets = make([]uint32, 64*subBuckets)
		for _, e := range l.exact {
			l.buckets[bucket(e)]++
		}
		l.exact = nil
	}
	l.buckets[bucket(d)]++
}

// bucket numbers values so that those of one bucket are within 1/64 of each other.
func bucket(d time.Duration) int {
	v := uint64(d)
	if v < subBuckets {
		return int(v)
	}
	e := bits.Len64(v) - 7 // v>>e is 64 to 127
	return (e+1)*subBuckets + int(v>>e) - subBuckets
}

// middle returns a value in the bucket.
func middle(b int) time.Duration {
	if b < subBuckets {
		return time.Duration(b)
	}
	e := b/subBuckets - 1
	low := uint64(b%subBuckets+subBuckets) << e
	return time.Duration(low + 1<<e/2)
}

func (l *recorder) summary() Latency {
	out := Latency{Count: l.n, Min: l.min, Max: l.max}
	if l.n == 0 {
		return out
	}
	slices.Sort(l.exact)
	out.P50, out.P90, out.P99 = l.percentile(50), l.percentile(90), l.percentile(99)
	return out
}

// percentile returns the least value that p per cent do not exceed.
func (l *recorder) percentile(p uint64) time.Duration {
	rank := (l.n*p + 99) / 100 // from 1
	if l.buckets == nil {
		return l.exact[rank-1]
	}
	for b, n := range l.buckets {
		if rank <= uint64(n) {
			return min(max(middle(b), l.min), l.max)
		}
		rank -= uint64(n)
	}
	return l.max
}
