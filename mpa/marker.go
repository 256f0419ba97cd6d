package mpa

import (
	"encoding/binary"
	"slices"
)

// A Marker stands at every octet of the stream whose offset is a multiple of 512
// (https://www.rfc-editor.org/rfc/rfc5044#section-4.3):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|         RESERVED (0)          |            FPDUPTR            |
//	+-------------------------------+-------------------------------+
//
// FPDUPTR is the distance from the Marker back to the ULPDU_Length of the FPDU
// around it, or 0 if the Marker stands before one.

// frameMarked appends one FPDU with its Markers to b and moves on. l is its layout.
func (f *Framer) frameMarked(b, header []byte, payload [][]byte, n int, l layout) []byte {
	from := len(b)
	b = slices.Grow(b, l.total)[:from+l.total]
	w := markedWriter{to: b[from:], next: int(-f.pos % markerStep), start: l.start}
	var length [lengthLen]byte
	binary.BigEndian.PutUint16(length[:], uint16(n))
	w.write(length[:])
	w.write(header)
	for _, p := range payload {
		w.write(p)
	}
	w.write(zeros[:padLen(n)])
	w.marker() // one between PAD and CRC is covered by this CRC
	f.pos += uint64(l.total)
	f.markers += uint64(l.markers)
	return f.appendCRC(b[:from+w.at], b[from:][:w.at])
}

// markedWriter writes the content of one FPDU and puts the Markers in.
type markedWriter struct {
	to    []byte // the whole FPDU
	at    int    // what is written of it
	next  int    // where the next Marker is due
	start int    // of ULPDU_Length
}

// marker writes a Marker if one is due.
func (w *markedWriter) marker() {
	if w.at != w.next {
		return
	}
	binary.BigEndian.PutUint32(w.to[w.at:], uint32(max(w.at-w.start, 0))) // 0 for the one before ULPDU_Length
	w.at += markerLen
	w.next += markerStep
}

func (w *markedWriter) write(p []byte) {
	for len(p) > 0 {
		w.marker()
		n := copy(w.to[w.at:min(w.next, len(w.to))], p)
		w.at += n
		p = p[n:]
	}
}
