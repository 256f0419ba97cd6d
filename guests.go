package iwarp

import (
	"sync/atomic"
	"time"
)

// guests are connections for which somebody waits who would spin, but for those that
// spin already. Whoever spins reads them too, so that both ends of a connection can be
// waited for quickly by one goroutine that spins. Their own receive goroutines stay in
// the network poller, so that nothing depends on it.
type guests struct {
	some  atomic.Int32
	conns [maxGuests]atomic.Pointer[Conn]
}

const (
	// maxGuests bounds what a spin reads for others: each is a system call a turn.
	maxGuests = 2
	// guestFor is how long a connection stays a guest when nobody asks again.
	guestFor = 2 * maxSpin
)

// add makes c a guest, if there is room, until the time now and guestFor.
func (g *guests) add(c *Conn, now time.Duration) {
	c.poller.wanted.Store(int64(now))
	if c.poller.guest.Load() || !c.poller.guest.CompareAndSwap(false, true) {
		return
	}
	for i := range g.conns {
		if g.conns[i].CompareAndSwap(nil, c) {
			g.some.Add(1)
			if c.poller.ended.Load() {
				g.remove(c)
			}
			return
		}
	}
	c.poller.guest.Store(false)
}

// remove ends a guest's stay.
func (g *guests) remove(c *Conn) {
	for i := range g.conns {
		if g.conns[i].CompareAndSwap(c, nil) {
			g.some.Add(-1)
			c.poller.guest.Store(false)
		}
	}
}

// end says that c will never be a guest again.
func (g *guests) end(c *Conn) {
	c.poller.ended.Store(true)
	g.remove(c)
}

// receive reads the guests at the time now, in the course of a spin for others, and
// reports whether somebody waited for what has come.
func (g *guests) receive(now time.Duration) (came bool) {
	if g.some.Load() == 0 {
		return false
	}
	for i := range g.conns {
		c := g.conns[i].Load()
		switch {
		case c == nil:
			continue
		case now-time.Duration(c.poller.wanted.Load()) > guestFor:
			g.remove(c)
			continue
		}
		n, urgent := c.poll()
		if n >= bulkRead {
			c.poller.spun(0, n)
			g.remove(c)
		}
		if urgent {
			came = true
			c.waiterFirst()
		}
	}
	return came
}
