package analysis

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/go-iwarp/iwarp/mpa"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The octet orders of FPDUPTR where Markers are not what they should be.
const (
	orderUnknown = iota
	orderBig
	orderLittle
)

// otherMarkers tries another idea of where the Markers are, if the one so far did
// not work out.
func (r *Reader) otherMarkers(c *tcpConn, i int) bool {
	h := &c.half[i]
	m := &h.m
	if m.guessed && !m.marked {
		if p, ok := examineMarked(h.pending(), h.cons); ok {
			m.base, m.marked = p.base, true
			return true
		}
		return false
	}
	if !m.marked || m.fpdus == 0 {
		return false
	}
	// Are there Markers somewhere else in this FPDU?
	f, need := r.foreign(h)
	if need > 0 || f.length == 0 {
		return false
	}
	odd := false
	for _, at := range f.markers {
		w := binary.BigEndian.Uint32(f.raw[at:])
		odd = odd || (f.pos+uint64(at))%markerStep != 0 || w != uint32(max(at-f.start, 0))
	}
	if odd && plausible(f.ulpdu, f.size) {
		m.foreign = true
		for _, at := range f.markers {
			d := max(at-f.start, 0)
			big, little := d == int(binary.BigEndian.Uint16(f.raw[at+
				2:])), d == int(binary.LittleEndian.Uint16(f.raw[at+2:]))
			switch {
			case big && !little:
				m.order = orderBig
			case little && !big:
				m.order = orderLittle
			}
		}
	}
	return m.foreign
}

// foreign takes the FPDU at the start of what is pending, with Markers wherever a
// word tells its distance from ULPDU_Length, in either octet order.
func (r *Reader) foreign(h *half) (f frameRef, need int) {
	b := h.pending()
	f = frameRef{off: h.cons, pos: uint64(h.cons - h.m.base)}
	r.markers = r.markers[:0]
	last := h.m.lastMarker
	if len(b) >= markerLen && binary.BigEndian.Uint32(b) == 0 {
		f.start = markerLen
		r.markers = append(r.markers, 0)
		last = int64(f.pos)
	}
	if len(b) < f.start+lengthLen {
		return f, f.start + lengthLen
	}
	f.size = int(binary.BigEndian.Uint16(b[f.start:]))
	total := f.start + mpa.FPDULen(f.size)
	for at := f.start + markerLen; at < total; at += markerLen {
		if len(b) < at+markerLen {
			return f, total
		}
		d := at - f.start
		if int64(f.pos)+int64(at)-last < leastStep {
			continue // the word is there by chance: an MSN, say
		}
		big, little := d == int(binary.BigEndian.Uint16(b[at+2:])), d == int(binary.LittleEndian.Uint16(b[at+2:]))
		if b[at] == 0 && b[at+1] == 0 && (big && h.m.order != orderLittle || little && h.m.order != orderBig) {
			r.markers = append(r.markers, at)
			total += markerLen
			last = int64(f.pos) + int64(at)
		}
	}
	if len(b) < total {
		return f, total
	}
	f.length, f.raw, f.markers = total, b[:total], r.markers
	r.scratch = strip(r.scratch[:0], f.raw[f.start:], f.markers, f.start)
	d := mpa.Deframer{}
	f.ulpdu, _, _, _ = d.Next(r.scratch)
	return f, 0
}

// strip appends raw, which begins at from, without the Markers.
func strip(out, raw []byte, markers []int, from int) []byte {
	at := 0
	for _, m := range markers {
		if m -= from; m >= at && m < len(raw) {
			out = append(out, raw[at:m]...)
			at = min(m+markerLen, len(raw))
		}
	}
	return append(out, raw[at:]...)
}

// readForeign takes an FPDU with Markers in places of the sender's own.
func (r *Reader) readForeign(c *tcpConn, i int) bool {
	h := &c.half[i]
	m := &h.m
	f, need := r.foreign(h)
	if need > 0 {
		m.need = need
		return false
	}
	m.need = 0
	f.crc = crcTextOff
	if c.an.crc != crcOff {
		// The engine cannot look at it: to it the Markers would be content.
		f.crc = crcTextGood
		end := f.length - crcLen
		if got, want := binary.LittleEndian.Uint32(f.raw[end:]), crc32.Checksum(f.raw[:end], castagnoli); got != want {
			f.crc = crcTextBad
			if c.an.crc == crcOn {
				r.blame(c, i, &f, "MPA-4.4-15", f.size+(-(lengthLen+f.size)&3)+lengthLen,
					fmt.Sprintf("CRC 0x%08x", want), fmt.Sprintf("0x%08x", got))
			}
		}
	}
	if !plausible(f.ulpdu, f.size) {
		m.foreign = false
		r.loseFPDUs(c, i)
		return true
	}
	h.cons += int64(f.length)
	r.gotFPDU(c, i, &f)
	return true
}
