package netstack

import "github.com/go-iwarp/iwarp/mpa"

// bounds finds the FPDUs in a stream that is being written, so that each segment can begin
// with one (https://www.rfc-editor.org/rfc/rfc5044#appendix-A.1).
type bounds struct {
	markers bool
	segment int    // octets that a segment holds
	pos     uint64 // where the next FPDU begins
}

// group is how many octets of b, which begins with an FPDU, should be written at once: whole FPDUs,
// as many as fit into a segment, one at least. It is 0 if not even one is there.
func (c *bounds) group(b []byte) int {
	n := 0
	for {
		size := c.size(c.pos+uint64(n), b[n:])
		if size == 0 || n+size > len(b) || n > 0 && n+size > c.segment {
			return n
		}
		n += size
	}
}

// missing is how many octets the FPDU still needs that begins with b; 1 if its length is
// not there.
func (c *bounds) missing(b []byte) int {
	if size := c.size(c.pos, b); size > 0 {
		return size - len(b)
	}
	return 1
}

// size is the length of the FPDU at pos, which begins with b; 0 if b is too short to
// tell.
func (c *bounds) size(pos uint64, b []byte) int {
	d := mpa.Deframer{Markers: c.markers}
	d.SetPosition(pos)
	head := 2
	if c.markers && pos%512 == 0 {
		head += 4
	}
	if len(b) < head {
		return 0
	}
	_, _, need, _ := d.Next(b[:head])
	return need
}

// writer writes FPDUs so that segments begin with them. The beginning of one is held back until
// the rest of it is there, which is what package mpa writes next.
type writer struct {
	bounds
	to   func([]byte) (int, error)
	part []byte // the beginning of an FPDU
	due  []byte // of part, what has to be written before anything else: a Write has failed
}

// Write implements io.Writer. Octets that are held back count as written, also after an error:
// those that are due go first with the next Write.
func (w *writer) Write(b []byte) (done int, err error) {
	if err := w.flush(); err != nil {
		return 0, err
	}
	for done < len(b) {
		if len(w.part) > 0 { // the beginning of an FPDU
			n := min(w.missing(w.part), len(b)-done)
			w.part = append(w.part, b[done:done+n]...)
			done += n
			if w.missing(w.part) > 0 {
				continue
			}
			w.pos += uint64(len(w.part))
			w.due = w.part
			if err := w.flush(); err != nil {
				return done, err
			}
			continue
		}
		n := w.group(b[done:])
		if n == 0 {
			w.part = append(w.part[:0], b[done:]...)
			return len(b), nil
		}
		k, err := w.to(b[done : done+n])
		w.pos += uint64(n)
		done += n
		if k < n {
			w.part = append(w.part[:0], b[done-n+k:done]...)
			w.due = w.part
		}
		if err != nil {
			return done, err
		}
		if err := w.flush(); err != nil {
			return done, err
		}
	}
	return done, nil
}

// flush writes what is due.
func (w *writer) flush() error {
	if w.due == nil {
		return nil
	}
	for len(w.due) > 0 {
		n, err := w.to(w.due)
		w.due = w.due[n:]
		if err != nil {
			return err
		}
	}
	w.part, w.due = w.part[:0], nil
	return nil
}
