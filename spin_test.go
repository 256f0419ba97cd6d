package iwarp

import (
	"testing"
	"time"
)

const us = time.Microsecond

// Short waits begin to spin, long and bulky ones do not, and a spin in vain halves the
// next one.
func TestSpinPolicy(t *testing.T) {
	type step struct {
		spin   bool
		wait   time.Duration
		octets int
		window time.Duration // after it
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{
			name: "idle",
			steps: []step{
				{spin: false, wait: time.Second, octets: 64, window: 0},
				{spin: false, wait: 201 * us, octets: 64, window: 0},
			},
		},
		{
			name: "one short wait",
			steps: []step{
				{spin: false, wait: 200 * us, octets: 64, window: 0},
				{spin: false, wait: 201 * us, octets: 64, window: 0},
				{spin: false, wait: 200 * us, octets: 64, window: 0},
			},
		},
		{
			name: "two",
			steps: []step{
				{spin: false, wait: 200 * us, octets: 64, window: 0},
				{spin: false, wait: 200 * us, octets: 64, window: 50 * us},
			},
		},
		{name: "bulk", steps: []step{
			{spin: false, wait: 10 * us, octets: 64, window: 0},
			{spin: false, wait: 10 * us, octets: 16 << 10, window: 0},
			{spin: false, wait: 10 * us, octets: 64, window: 0},
			{spin: false, wait: 10 * us, octets: 16<<10 - 1, window: 50 * us},
			{spin: true, wait: 10 * us, octets: 16 << 10, window: 0},
		}},
		{name: "in vain", steps: []step{
			{spin: false, wait: 90 * us, octets: 64, window: 0},
			{spin: false, wait: 90 * us, octets: 64, window: 50 * us},
			{spin: true, wait: 51 * us, octets: 0, window: 25 * us},
			{spin: true, wait: 26 * us, octets: 0, window: 12500 * time.Nanosecond},
			{spin: true, wait: 13 * us, octets: 0, window: 0},
			{spin: false, wait: 90 * us, octets: 64, window: 0},
			{spin: false, wait: 90 * us, octets: 64, window: 0},
			{spin: false, wait: 90 * us, octets: 64, window: 50 * us}, // in doubt: one more
			{spin: true, wait: 51 * us, octets: 0, window: 25 * us},
			{spin: true, wait: 26 * us, octets: 0, window: 12500 * time.Nanosecond},
			{spin: true, wait: 13 * us, octets: 0, window: 0},
			{spin: false, wait: 90 * us, octets: 64, window: 0},
			{spin: false, wait: 90 * us, octets: 64, window: 0},
			{spin: false, wait: 90 * us, octets: 64, window: 0},
			{spin: false, wait: 90 * us, octets: 64, window: 0},
			{spin: false, wait: 90 * us, octets: 64, window: 50 * us},
		}},
		{name: "found again", steps: []step{
			{spin: false, wait: 90 * us, octets: 64, window: 0},
			{spin: false, wait: 90 * us, octets: 64, window: 50 * us},
			{spin: true, wait: 51 * us, octets: 0, window: 25 * us},
			{spin: true, wait: 5 * us, octets: 64, window: 50 * us},
		}},
		{
			name: "found too late",
			steps: []step{
				{spin: false, wait: 90 * us, octets: 64, window: 0},
				{spin: false, wait: 90 * us, octets: 64, window: 50 * us},
				{spin: true, wait: 3000 * us, octets: 64, window: 25 * us},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p spinPolicy
			for i, s := range tt.steps {
				if s.spin {
					p.spun(s.wait, s.octets)
				} else {
					p.parked(s.wait, s.octets)
				}
				if p.window != s.window {
					t.Fatalf("step %d: the next spin is %v, want %v", i, p.window, s.window)
				}
			}
		})
	}
}

// world is a process in which connections are waited for, in a time of its own.
type world struct {
	now    time.Duration
	budget spinBudget
	procs  int
	vain   time.Duration
	parks  int
}

func (w *world) processors(int) int { return w.procs }

// wait waits once for an arrival that comes after a while.
func (w *world) wait(p *spinPolicy, after time.Duration) {
	if p.window > 0 && w.budget.begin(w.now, w.processors) {
		if after <= p.window {
			w.now += after
			w.budget.end(0)
			p.spun(after, 64)
			return
		}
		w.now += p.window
		w.vain += p.window
		w.budget.end(p.window)
		p.spun(p.window, 0)
		after -= p.window
	}
	w.parks++
	w.now += after
	p.parked(after, 64)
}

// Whatever the peers do, spins in vain take at most a twentieth of a processor, beside
// the credit that a process begins with.
func TestSpinInVainIsBounded(t *testing.T) {
	for name, after := range map[string]func(i int) time.Duration{
		"always too late":   func(int) time.Duration { return 60 * us },
		"every other one":   func(i int) time.Duration { return []time.Duration{5 * us, 120 * us}[i%2] },
		"two of three":      func(i int) time.Duration { return []time.Duration{5 * us, 5 * us, 190 * us}[i%3] },
		"just beyond":       func(int) time.Duration { return maxSpin + 1 },
		"bursts":            func(i int) time.Duration { return []time.Duration{us, 150 * us}[min(i%100/98, 1)] },
		"idle for a second": func(i int) time.Duration { return []time.Duration{us, time.Second}[i%2] },
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{procs: 4}
			var many [10]spinPolicy
			for i := range 200_000 {
				w.wait(&many[i%len(many)], after(i/len(many)))
			}
			if limit := maxCredit + maxSpin + w.now/20; w.vain > limit {
				t.Errorf("%v of %v in vain, want at most %v", w.vain, w.now, limit)
			}
		})
	}
}

// A peer that answers at once is spun for all the time, where there are processors.
func TestSpinFindsQuickPeer(t *testing.T) {
	for procs, limit := range map[int]int{2: 2, 1: 1000} {
		w := &world{procs: procs}
		var p spinPolicy
		for range 100_000 {
			w.wait(&p, 7*us)
		}
		// One processor has to be left to the network poller every 2 ms: 700 ms.
		if w.vain != 0 || w.parks > limit {
			t.Errorf("%d processors: %v in vain, parked %d times, want at most %d", procs, w.vain, w.parks, limit)
		}
	}
}

// At most half of the processors spin, at least one, as many as there are now.
func TestSpinnersAreBounded(t *testing.T) {
	for procs, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 64: 32} {
		w := &world{procs: procs}
		begun := 0
		for range 100 {
			if w.budget.begin(time.Millisecond, w.processors) {
				begun++
			}
		}
		if begun != want {
			t.Errorf("%d processors: %d spin at once, want %d", procs, begun, want)
		}
		for range begun {
			w.budget.end(0)
		}
		w.procs = 8
		if now := time.Millisecond + lookEvery + 1; !w.budget.begin(now, w.processors) || w.budget.limit() != 4 {
			t.Errorf("after a change to 8 processors %d may spin, want 4", w.budget.limit())
		}
	}
}

// A spin from which the processor was taken for long is a debt that is paid before the
// next one.
func TestSpinStolen(t *testing.T) {
	w := &world{procs: 2}
	if !w.budget.begin(0, w.processors) {
		t.Fatal("no spin")
	}
	w.budget.end(time.Second)
	due := vainShare * maxDebt
	if w.budget.begin(due, w.processors) {
		t.Error("a spin before the debt is paid")
	}
	if !w.budget.begin(due+vainShare, w.processors) {
		t.Error("no spin after it is")
	}
}

// A spin that finds something takes one doubt back, and doubts are bounded: an hour in
// vain does not take an hour of short waits to forget.
func TestSpinDoubt(t *testing.T) {
	p := spinPolicy{window: maxSpin, doubt: 3}
	if p.spun(5*us, 64); p.doubt != 2 {
		t.Errorf("after a find the doubt is %d, want 2", p.doubt)
	}
	p = spinPolicy{window: minSpin, doubt: maxDoubt}
	if p.spun(2*minSpin, 0); p.doubt != maxDoubt || p.window != 0 {
		t.Errorf("after a spin in vain the doubt is %d, want %d, and the next spin %v", p.doubt, maxDoubt, p.window)
	}
}
