package mpa

import "encoding/binary"

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

// frameMarked appends one FPDU with its Markers to b and moves on.
func (f *Framer) frameMarked(b, header []byte, payload [][]byte, n int) []byte {
	from := len(b)
	w := markedWriter{pos: f.pos, start: f.pos}
	b = w.marker(b)
	w.start = w.pos
	var length [lengthLen]byte
	binary.BigEndian.PutUint16(length[:], uint16(n))
	b = w.write(b, length[:])
	b = w.write(b, header)
	for _, p := range payload {
		b = w.write(b, p)
	}
	b = w.write(b, zeros[:padLen(n)])
	b = w.marker(b) // one between PAD and CRC is covered by this CRC
	b = f.appendCRC(b, b[from:])
	f.pos += uint64(len(b) - from)
	f.markers += w.count
	return b
}

// markedWriter appends the content of one FPDU and puts the Markers in.
type markedWriter struct {
	pos   uint64 // in the stream, of the next octet
	start uint64 // of ULPDU_Length
	count uint64
}

// marker appends a Marker if one is due.
func (w *markedWriter) marker(b []byte) []byte {
	if w.pos%markerStep != 0 {
		return b
	}
	ptr := uint16(w.pos - w.start) // 0 for the one before ULPDU_Length
	w.pos += markerLen
	w.count++
	return binary.BigEndian.AppendUint32(b, uint32(ptr))
}

func (w *markedWriter) write(b, p []byte) []byte {
	for len(p) > 0 {
		b = w.marker(b)
		n := min(len(p), int(markerStep-w.pos%markerStep))
		b = append(b, p[:n]...)
		w.pos += uint64(n)
		p = p[n:]
	}
	return b
}
