package ooo

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// alignment keeps account of whether segments begin with FPDUs, where there are no
// Markers. It knows the boundaries from the stream in order alone.
type alignment struct {
	on     bool
	next   uint64 // the boundary that is next in order
	head   [lengthLen]byte
	got    int // octets of head
	starts []uint64
	seen   int // segments that began at a boundary
}

// Saw notes that a segment in order began at pos. It is asked for evidence where
// [Config].Alignment is set, and does nothing otherwise.
func (e *Engine) Saw(pos uint64) {
	a := &e.align
	if !a.on || pos < e.pos || len(a.starts) >= maxStarts || len(a.starts) > 0 && a.starts[len(a.starts)-1] >= pos {
		return
	}
	a.starts = append(a.starts, pos)
}

// deliver follows the boundaries through the octets b, which begin at e.pos.
func (a *alignment) deliver(e *Engine, b []byte) error {
	if !e.cfg.Alignment || e.cfg.Markers || !e.cfg.CRC {
		return nil
	}
	pos, end := e.pos, e.pos+uint64(len(b))
	for a.next < end {
		// The two octets of ULPDU_Length, which may come apart.
		for a.got < lengthLen && a.next+uint64(a.got) < end {
			a.head[a.got] = b[a.next+uint64(a.got)-pos]
			a.got++
		}
		if a.got < lengthLen {
			return nil
		}
		a.got = 0
		this := a.next
		a.next += uint64((lengthLen+int(binary.BigEndian.Uint16(a.head[:]))+3)&^3 + crcLen)
		if err := a.check(e, this); err != nil {
			return err
		}
	}
	return nil
}

// check compares the FPDU in order, from this boundary to the next, with the starts of
// segments and with what was found.
func (a *alignment) check(e *Engine, this uint64) error {
	n := 0
	for n < len(a.starts) && a.starts[n] < a.next {
		switch {
		case a.starts[n] == this:
			a.seen++
		case a.starts[n] > this:
			a.on = false
			if e.stop == nil {
				e.halt(fmt.Errorf("%w: one begins at %d, and an FPDU at %d", ErrUnaligned, a.starts[n], this))
			}
		}
		n++
	}
	a.starts = slices.Delete(a.starts, 0, n)
	for i := e.foundAt(this); i < len(e.found) && e.found[i].start < a.next; i++ {
		if f := &e.found[i]; f.start != this || f.end != a.next {
			return fmt.Errorf("%w: at %d; the one in order is from %d to %d", ErrMisplaced, f.start, this, a.next)
		}
	}
	return nil
}

// aligned takes a segment of a connection without Markers, that the program has
// vouched for. All of it must be whole FPDUs, or nothing of it is taken.
func (e *Engine) aligned(pos uint64, b []byte) {
	if e.align.seen < MinAligned || pos < e.pos || e.stats.Held+len(b) > e.cfg.Hold {
		return
	}
	if i := e.foundAt(pos); i < len(e.found) && e.found[i].start < pos+uint64(len(b)) {
		return // some of it has come before
	}
	if pos%4 != 0 || !whole(b) {
		e.align.on = false
		e.halt(fmt.Errorf("%w: the one at %d is not made of whole FPDUs", ErrUnaligned, pos))
		return
	}
	e.stats.Octets += uint64(len(b))
	b = slices.Clone(b)
	for len(b) > 0 {
		n := e.take(pos, b)
		if n == 0 {
			return
		}
		b, pos = b[n:], pos+uint64(n)
	}
	e.account()
}

// whole reports whether b is made of whole FPDUs with right CRCs, without Markers.
func whole(b []byte) bool {
	d := deframer()
	for len(b) > 0 {
		_, n, _, err := d.Next(b)
		if err != nil || n == 0 {
			return false
		}
		b = b[n:]
	}
	return true
}
