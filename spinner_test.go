package iwarp

import (
	"testing"
	"time"
)

// hotPair connects two ends of which a's last waits have been short, so that it may
// spin.
func hotPair(t *testing.T) (a, b *Conn) {
	t.Helper()
	a, b = adaptivePair(t, nil, nil)
	makeHot(a)
	return a, b
}

// makeHot has a connection's next wait spin.
func makeHot(c *Conn) {
	for range 2 {
		c.poller.parked(time.Microsecond, 64)
	}
}

// freshBudget has the process spin as if it never had, and looks afterwards whether every
// spin has ended.
func freshBudget(t *testing.T) {
	t.Helper()
	spins.mu.Lock()
	spins.credit, spins.at, spins.parked = maxCredit, uptime(), uptime()
	spins.mu.Unlock()
	before := spins.spinning.Load()
	t.Cleanup(func() {
		if n := spins.spinning.Load(); n != before {
			t.Errorf("%d spins, %d before: one has not ended", n, before)
		}
	})
}

func credit() time.Duration {
	spins.mu.Lock()
	defer spins.mu.Unlock()
	return spins.credit
}

// A spin of a caller is counted at its connections while it lasts, ends with its window,
// is paid for, and halves the next one.
func TestSpinner(t *testing.T) {
	a, _ := hotPair(t)
	freshBudget(t)
	var s spinner
	if !s.start(a.self[:], true) {
		t.Fatal("a connection whose waits were short is not spun for")
	}
	if n := a.poller.spinners.Load(); n != 1 {
		t.Errorf("%d callers spin, want 1", n)
	}
	before := credit()
	for turns := 0; s.receive() == 0 && s.next(); turns++ {
		if turns > 1_000_000 {
			t.Fatal("the spin does not end")
		}
	}
	s.end()
	if n := a.poller.spinners.Load(); n != 0 {
		t.Errorf("%d callers spin after the end", n)
	}
	if now := credit(); now > before-s.window {
		t.Errorf("the credit went from %v to %v for a spin of %v in vain", before, now, s.window)
	}
	if w := time.Duration(a.poller.window.Load()); w != maxSpin/2 {
		t.Errorf("the next spin is %v, want %v", w, maxSpin/2)
	}
	s.end() // again: nothing
}

// The receive goroutine's own spins are not counted as callers'.
func TestSpinnerOfReceiveGoroutine(t *testing.T) {
	a, _ := hotPair(t)
	freshBudget(t)
	var s spinner
	if !s.start(a.self[:], false) {
		t.Fatal("a connection whose waits were short is not spun for")
	}
	if n := a.poller.spinners.Load(); n != 0 {
		t.Errorf("%d callers spin, want none", n)
	}
	s.end()
}

// Time that somebody else had between two turns of a spin counts as spun in vain, also
// when the spin has found something.
func TestSpinnerStolenTime(t *testing.T) {
	a, b := hotPair(t)
	freshBudget(t)
	// The receive goroutine of a is kept out, as by a caller that receives.
	var s spinner
	if !s.start(a.self[:], true) {
		t.Fatal("a connection whose waits were short is not spun for")
	}
	before, had := credit(), a.Stats().RDMAP.MessagesReceived
	if err := b.Send(t.Context(), []byte("found")); err != nil {
		t.Fatal(err)
	}
	s.now = s.began + 2*time.Millisecond // the system let others run
	for s.receive() == 0 {
		if a.Stats().RDMAP.MessagesReceived > had {
			s.end()
			t.Skip("the receive goroutine was quicker")
		}
	}
	s.end()
	if now := credit(); now > before-2*time.Millisecond {
		t.Errorf("the credit went from %v to %v though 2 ms were lost", before, now)
	}
}

// Nobody spins on more than eight connections, nor on one that is not due.
func TestSpinnerStarts(t *testing.T) {
	a, _ := hotPair(t)
	cold, _ := adaptivePair(t, nil, nil)
	var many []*Conn
	for range maxSpun + 1 {
		many = append(many, a)
	}
	for _, tt := range []struct {
		name  string
		conns []*Conn
		want  bool
	}{
		{name: "one that is due", conns: []*Conn{a}, want: true},
		{name: "one that is not", conns: []*Conn{cold}},
		{name: "one of two", conns: []*Conn{cold, a}, want: true},
		{name: "as many as may be", conns: many[1:], want: true},
		{name: "one more", conns: many},
	} {
		t.Run(tt.name, func(t *testing.T) {
			freshBudget(t)
			var s spinner
			if got := s.start(tt.conns, true); got != tt.want {
				t.Errorf("it starts: %v, want %v", got, tt.want)
			}
			s.end()
		})
	}
}

// What comes for nobody, Writes, does not make the receive goroutine spin.
func TestWritesDoNotSpin(t *testing.T) {
	a, b := adaptivePair(t, nil, nil)
	mr, err := b.NewMR(make([]byte, 64), RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer mr.Close()
	for range 200 {
		before := b.Stats().RDMAP.MessagesReceived
		if err := a.RDMAWrite(t.Context(), make([]byte, 64), mr.Remote()); err != nil {
			t.Fatal(err)
		}
		for b.Stats().RDMAP.MessagesReceived == before {
			if err := b.Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if w := b.poller.window.Load(); w != 0 {
		t.Errorf("after Writes alone the next spin is %v", time.Duration(w))
	}
}
