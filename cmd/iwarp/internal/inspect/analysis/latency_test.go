package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestLatencyBuckets(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 63, 64, 65, 127, 128, 1000, 123456, time.Second, time.Hour, math.MaxInt64} {
		got := middle(bucket(d))
		if diff := math.Abs(float64(got - d)); diff > float64(d)/64 {
			t.Errorf("%v is in a bucket around %v", d, got)
		}
	}
	for b := 1; b < bucket(math.MaxInt64); b++ {
		if middle(b) < middle(b-1) || bucket(middle(b)) != b {
			t.Fatalf("bucket %d is around %v, which is of bucket %d; the one before around %v", b, middle(b),
				bucket(middle(b)), middle(b-1))
		}
	}
}

func TestLatencyPercentiles(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 10, 1000, 1024, 1025, 20000} {
		var l recorder
		all := make([]time.Duration, n)
		for i := range all {
			all[i] = time.Duration(rnd.ExpFloat64() * 1e5)
			l.add(all[i])
		}
		slices.Sort(all)
		got := l.summary()
		for p, d := range map[int]time.Duration{50: got.P50, 90: got.P90, 99: got.P99} {
			want := all[(n*p+99)/100-1]
			if diff := math.Abs(float64(d - want)); n <= exactSamples && d != want || diff > float64(want)/50 {
				t.Errorf("%d samples: percentile %d is %v, want %v", n, p, d, want)
			}
		}
		if got.Count != uint64(n) || got.Min != all[0] || got.Max != all[n-1] {
			t.Errorf("%d samples: %+v, want %v to %v", n, got, all[0], all[n-1])
		}
	}
	var l recorder
	l.add(-5)
	if got := l.summary(); got.Min != 0 || got.Count != 1 {
		t.Errorf("a negative latency gives %+v", got)
	}
}
