package ddp

import "slices"

// extent keeps account of which octets of a message have come. A source cuts a
// message in rising order (https://www.rfc-editor.org/rfc/rfc5041#section-5.3), but
// that is a SHOULD: segments in another order are valid too, as long as they cover the
// message and bring each octet once.
type extent struct {
	next  uint64 // the first octet that is missing
	ahead []span // what has come behind it, in order; no two touch
}

// span is the octets from from up to to, to not included.
type span struct{ from, to uint64 }

// maxSpans bounds what a peer can make an extent remember.
const maxSpans = 64

// admits reports whether n octets at off may be added: none of them has come yet.
func (e *extent) admits(off, n uint64) bool {
	return off == e.next && len(e.ahead) == 0 || n == 0 || e.admitsAhead(off, n)
}

func (e *extent) admitsAhead(off, n uint64) bool {
	i := e.find(off)
	if off < e.next || i > 0 && e.ahead[i-1].to > off || i < len(e.ahead) && e.ahead[i].from < off+n {
		return false
	}
	return len(e.ahead) < maxSpans || off == e.next || e.touches(i, off, n)
}

// touches reports whether n octets at off go on from the span before place i, or
// up to the one there.
func (e *extent) touches(i int, off, n uint64) bool {
	return i > 0 && e.ahead[i-1].to == off || i < len(e.ahead) && e.ahead[i].from == off+n
}

// find returns the place of the first span that does not begin before off.
func (e *extent) find(off uint64) int {
	i, _ := slices.BinarySearchFunc(e.ahead, off, func(s span, off uint64) int {
		if s.from < off {
			return -1
		}
		return 1
	})
	return i
}

// add notes n octets at off, which are admitted.
func (e *extent) add(off, n uint64) {
	if off == e.next && len(e.ahead) == 0 {
		e.next += n
		return
	}
	e.addAhead(off, n)
}

func (e *extent) addAhead(off, n uint64) {
	if n == 0 {
		return
	}
	i := e.find(off)
	s := span{off, off + n}
	if i < len(e.ahead) && e.ahead[i].from == s.to {
		s.to = e.ahead[i].to
		e.ahead = slices.Delete(e.ahead, i, i+1)
	}
	switch {
	case s.from == e.next: // and so before all others
		e.next = s.to
	case i > 0 && e.ahead[i-1].to == s.from:
		e.ahead[i-1].to = s.to
	default:
		e.ahead = slices.Insert(e.ahead, i, s)
	}
}

// whole reports whether the first n octets have come, and no others.
func (e *extent) whole(n uint64) bool { return e.next == n && len(e.ahead) == 0 }

// reset forgets everything and keeps the memory.
func (e *extent) reset() { e.next, e.ahead = 0, e.ahead[:0] }
