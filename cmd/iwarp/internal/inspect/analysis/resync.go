package analysis

import (
	"encoding/binary"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/mpa"
)

// lostTrials is how many places may be examined when FPDUs are lost, before more
// octets come.
const lostTrials = 512

// gap is told that the octets from next to to are not here. It gives where the
// analysis goes on, to or later.
func (r *Reader) gap(c *tcpConn, i int, to int64) int64 {
	h := &c.half[i]
	m := &h.m
	if m.skip > h.next {
		if m.skip >= to {
			return m.skip
		}
		r.loseFPDUs(c, i)
		return to
	}
	switch m.phase {
	case phaseFPDU:
	case phaseWait, phaseStartup:
		r.loseFPDUs(c, i)
		if o := &c.half[1-i].m; o.phase == phaseWait {
			r.loseFPDUs(c, 1-i) // it waits for a frame that is lost
		}
		return to
	default:
		return to
	}
	b := h.pending()
	pos := uint64(h.cons - m.base)
	d := mpa.Deframer{Markers: m.marked}
	d.SetPosition(pos)
	_, _, need, err := d.Next(b)
	f := frameRef{off: h.cons, pos: pos, length: need, raw: b, crc: crcTextUnknown, cut: true}
	if m.marked {
		f.markers = r.standardMarkers(pos, need)
		if pos%markerStep == 0 {
			f.start = markerLen
		}
	}
	if err != nil || m.foreign || len(b) < f.start+lengthLen || h.cons+int64(need) < to {
		r.loseFPDUs(c, i)
		return to
	}
	// Its header is here, so that the next FPDU is known too.
	f.size = int(binary.BigEndian.Uint16(b[f.start:]))
	for k, at := range f.markers {
		if at+markerLen > len(b) { // from here on there are none, and this is half of one at best
			b, f.markers = b[:min(at, len(b))], f.markers[:k]
			f.raw = b
			break
		}
	}
	x := strip(nil, b[f.start:], f.markers, f.start)
	f.ulpdu = x[lengthLen:min(len(x), lengthLen+f.size)]
	if _, _, err := ddp.Parse(f.ulpdu); err != nil && len(f.ulpdu) < f.size {
		r.loseFPDUs(c, i)
		return to
	}
	r.gotFPDU(c, i, &f)
	m.need = 0
	return f.off + int64(f.length)
}

// loseFPDUs makes the analysis look for the next FPDU.
func (r *Reader) loseFPDUs(c *tcpConn, i int) {
	m := &c.half[i].m
	m.phase, m.lost, m.need, m.skip, m.trials = phaseLost, c.half[i].cons, 0, 0, 0
	if m.d.open != nil {
		r.incomplete(c, i, m.d.open)
	}
	m.d.forget()
	c.half[1-i].m.d.doubt()
}

// resync looks for the next FPDU.
func (r *Reader) resync(c *tcpConn, i int, last bool) bool {
	h := &c.half[i]
	m := &h.m
	p, ok := place{}, false
	known := m.marked && (m.fpdus > 0 || c.an.neg != nil) // where the Markers are
	if known {
		p, ok = r.byMarkers(c, h, last)
	}
	if !ok && (!known || m.guessed) {
		p, ok = m.search(h, last, true, lostTrials+int((h.next-m.lost)/64))
	}
	if !ok {
		if n := h.next - h.cons; n > findOctets {
			h.cons = h.next - maxFPDU
			m.scanned = max(m.scanned, h.cons)
		}
		return false
	}
	if h.m.fpdus > 0 && m.marked && p.marked && !p.sure {
		p.base = m.base // nothing better was found
	}
	if m.fpdus > 0 {
		r.anomaly(c, i, AnomalyResync, p.off, uint64(max(p.off-m.lost, 0)), "")
		m.d.forget()
	}
	guessed := m.guessed
	base, had := m.base, m.fpdus > 0 || c.an.startup[i] != nil
	h.begin(p)
	m.guessed = guessed || c.an.neg == nil
	if had && (p.off-base)%4 == 0 && (!p.marked || (p.base-base)%markerStep == 0) {
		m.base = base // offsets go on from the start of Full Operation
	}
	if c.an.crc == crcUnknown && p.sure {
		c.an.crc = crcOn
	}
	return true
}

// byMarkers finds the FPDU that a Marker points to
// (https://www.rfc-editor.org/rfc/rfc5044#section-6).
func (r *Reader) byMarkers(c *tcpConn, h *half, last bool) (place, bool) {
	m := &h.m
	b := h.pending()
	from := h.cons
	if c.an.crc == crcOn {
		// Every FPDU can be told by its CRC, not only those that a Marker is in.
		if p, ok := r.byCRC(h); ok {
			return p, true
		}
	}
	for at := from + int64(uint64(m.base-from)%markerStep); at+markerLen <= h.next; at += markerStep {
		ptr := int64(binary.BigEndian.Uint16(b[at-from+2:]) &^ 3)
		start := at - ptr
		if start < from {
			continue // it begins where the capture has a hole
		}
		pos := uint64(start - m.base)
		_, n, need, err := r.deframe(m, b[start-from:], pos, c.an.crc == crcOn, false)
		if need > 0 && !last && h.next-start < maxFPDU {
			return place{}, false
		}
		if err != nil || n == 0 {
			continue
		}
		return place{off: start, base: m.base, marked: true, sure: c.an.crc == crcOn}, true
	}
	return place{}, false
}

// couldBegin is a look at the headers of what would be an FPDU with Markers at pos, where
// no Marker is among them, before a CRC is computed: payload of one octet over and
// over, such as "AAAA", looks right to a shorter look.
func couldBegin(b []byte, pos uint64) bool {
	switch marker := -pos % markerStep; {
	case marker == 0:
		return plausibleFPDU(b[markerLen:])
	case marker >= lengthLen+ddp.UntaggedHeaderLen:
		return plausibleFPDU(b)
	}
	return looksRight(b)
}

// byCRC finds the first FPDU with a right CRC where it is known where Markers are.
func (r *Reader) byCRC(h *half) (place, bool) {
	m := &h.m
	b := h.pending()
	at := max(m.scanned, h.cons)
	for at += (m.base - at) & 3; at < h.next; at += 4 {
		x := b[at-h.cons:]
		if len(x) < 4+lengthLen+ddp.UntaggedHeaderLen {
			break
		}
		if couldBegin(x, uint64(at-m.base)) {
			ulpdu, n, need, _ := r.deframe(m, x, uint64(at-m.base), true, false)
			if n > 0 && plausible(ulpdu, len(ulpdu)) {
				return place{off: at, base: m.base, marked: true, sure: true}, true
			}
			if need > 0 && h.next-at < maxFPDU {
				break
			}
		}
		m.scanned = at + 4
	}
	return place{}, false
}
