package iwarp

import (
	"sync"
	"testing"
	"time"
)

// Whoever spins reads a few connections for others, as long as these ask for it, and
// none that has ended.
func TestGuests(t *testing.T) {
	const now = time.Second
	var g guests
	var conns []*Conn
	for range maxGuests + 1 {
		a, b := adaptivePair(t, nil, nil)
		conns = append(conns, b)
		g.add(b, now)
		g.add(b, now) // again
		if err := a.Send(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		g.receive(now)
		if _, err := b.Recv(t.Context(), nil); err != nil { // whoever has read it
			t.Fatal(err)
		}
	}
	last := conns[maxGuests]
	if n := g.some.Load(); n != maxGuests || last.poller.guest.Load() {
		t.Errorf("%d guests, want %d", n, maxGuests)
	}
	g.receive(now + guestFor)
	if n := g.some.Load(); n != maxGuests {
		t.Errorf("%d guests while they may stay, want %d", n, maxGuests)
	}
	g.end(conns[0])
	g.add(conns[0], now)
	g.add(last, now+guestFor)
	if conns[0].poller.guest.Load() || !last.poller.guest.Load() {
		t.Error("a guest that has ended keeps its place")
	}
	g.receive(now + guestFor + 1)
	if n := g.some.Load(); n != 1 || !last.poller.guest.Load() {
		t.Errorf("%d guests, want the one that has asked again", n)
	}
	g.remove(last)
	for i := range g.conns {
		if c := g.conns[i].Load(); c != nil {
			t.Error("a guest that nobody counts")
		}
	}
}

// A place is taken and given back by anybody at any time, and none is lost.
func TestGuestsConcurrently(t *testing.T) {
	var g guests
	var wg sync.WaitGroup
	for range 4 {
		c := &Conn{poller: &poller{}}
		for range 2 {
			wg.Go(func() {
				for i := range 10_000 {
					g.add(c, time.Duration(i))
					g.remove(c)
				}
			})
		}
	}
	wg.Wait()
	for i := range g.conns {
		if c := g.conns[i].Load(); c != nil {
			g.remove(c)
		}
	}
	if n := g.some.Load(); n != 0 {
		t.Errorf("%d guests at the end", n)
	}
}
