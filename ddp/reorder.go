package ddp

import (
	"slices"
	"time"
)

// reorder keeps account of the order of sending: which segment is the first that
// is missing, and the headers of those that came before their turn. Their
// payload has been placed already.
type reorder struct {
	next uint64
	ring []early // slot of order is order & (len-1); as long as was needed
}

type early struct {
	here   bool
	header Header
	length int           // of the segment, header included
	at     time.Duration // when it came
}

// seen reports whether the segment has been here before.
func (o *reorder) seen(order uint64) bool {
	// Rule: DDP-3-11, DDP-5.3-05
	if order < o.next {
		return true
	}
	if order-o.next >= uint64(len(o.ring)) {
		return false
	}
	return o.slot(order).here
}

// within reports whether a segment is less than window after the first that is
// missing.
func (o *reorder) within(order uint64, window int) bool {
	// Rule: DDP-7.1-06
	return order-o.next < uint64(window)
}

// keep notes a segment that came before its turn. The ring grows with the distance: a
// wide window costs nothing where it is not made use of.
// Rule: SCTP-10-04
func (o *reorder) keep(order uint64, h *Header, length int, at time.Duration) {
	if ahead := order - o.next; ahead >= uint64(len(o.ring)) {
		n := max(minRing, len(o.ring))
		for uint64(n) <= ahead {
			n *= 2
		}
		old := o.ring
		o.ring = make([]early, n)
		for i := range old {
			at := o.next + uint64(i)
			*o.slot(at) = old[at&uint64(len(old)-1)]
		}
	}
	*o.slot(order) = early{here: true, header: *h, length: length, at: at}
}

// minRing is the least size of the ring, in segments.
const minRing = 64

// pop goes on to the next segment in order and gives it if it is here already.
// What it gives is good until the next call of keep.
func (o *reorder) pop() *early {
	o.next++
	if o.ring == nil {
		return nil
	}
	s := o.slot(o.next)
	if !s.here {
		return nil
	}
	s.here = false
	return s
}

// waiting reports whether a segment has come before its turn and is kept.
func (o *reorder) waiting() bool {
	return slices.ContainsFunc(o.ring, func(e early) bool { return e.here })
}

func (o *reorder) slot(order uint64) *early { return &o.ring[order&uint64(len(o.ring)-1)] }
