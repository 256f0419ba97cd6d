package rdmap_test

import (
	"errors"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/rdmap"
)

// limited is a Bound of so many octets.
type limited struct{ left, taken int64 }

func (l *limited) Take(n int64) bool {
	if n > l.left {
		return false
	}
	l.left, l.taken = l.left-n, l.taken+n
	return true
}

func (l *limited) Give(n int64) { l.left, l.taken = l.left+n, l.taken-n }

// What waits of Read Responses is asked for beyond 64 KiB, and given back when it has
// gone. Without more the Response goes on, in batches of 64 KiB and a segment at most.
// Shows: SEC-6.4.3.3-02
func TestResponsesAreBounded(t *testing.T) {
	const size = 1 << 20
	for _, left := range []int64{0, 64 << 10, 100 << 10, 1 << 30} {
		b := &limited{left: left}
		e := newEnd(t, responder, func(c *rdmap.Config) { c.Bound = b })
		e.llp.limit, e.llp.block = 1<<20, true
		region := e.register(octets(size), ddp.RemoteRead)
		e.deliver(iwarptest.ReadRequest(1, 7, 0, size, uint32(region.STag()), 0))
		var got int
		for turn := 0; got < size; turn++ {
			if p, err := e.s.Transmit(e.llp, false); err != nil || p == rdmap.Idle || turn > 100 {
				t.Fatalf("%d octets of the bound: %d octets have gone: %v, %v", left, got, p, err)
			}
			waiting := 0
			for _, s := range e.llp.batch {
				for _, p := range s.payload {
					waiting += len(p)
				}
			}
			if most := 64<<10 + left/(64<<10)*(64<<10) + 1442; int64(waiting) > most {
				t.Fatalf("%d octets of the bound: %d octets wait", left, waiting)
			}
			if b.taken > left || waiting <= 64<<10 && b.taken != 0 {
				t.Fatalf("%d octets of the bound: %d octets wait, %d taken", left, waiting, b.taken)
			}
			got += waiting
			e.llp.take = len(e.llp.batch)
		}
		e.transmit()
		if b.taken != 0 {
			t.Errorf("%d octets of the bound are not given back", b.taken)
		}
	}
	// A stream that ends gives back what it has taken.
	b := &limited{left: 1 << 20}
	e := newEnd(t, responder, func(c *rdmap.Config) { c.Bound = b })
	e.llp.limit, e.llp.block = 1<<20, true
	region := e.register(octets(size), ddp.RemoteRead)
	e.deliver(iwarptest.ReadRequest(1, 7, 0, size, uint32(region.STag()), 0))
	if p, err := e.s.Transmit(e.llp, false); p != rdmap.Blocked || err != nil || b.taken == 0 {
		t.Fatalf("%v, %v, %d octets taken", p, err, b.taken)
	}
	e.llp.fail = errors.New("broken")
	if p, err := e.s.Transmit(e.llp, true); p != rdmap.Finished || err == nil || b.taken != 0 {
		t.Errorf("%v, %v, %d octets taken after the end", p, err, b.taken)
	}
}
