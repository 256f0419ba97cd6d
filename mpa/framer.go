package mpa

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/go-iwarp/iwarp/internal/fastcopy"
)

// A SizeError says that a ULPDU cannot be sent because of its length.
type SizeError struct {
	Len int // octets
}

// Error names the length and the bounds.
func (e *SizeError) Error() string {
	return fmt.Sprintf("iwarp: ULPDU of %d octets, want 1 to %d [RFC 5044 section 3]", e.Len, MaxULPDU)
}

// framer encodes FPDUs. It does no I/O and keeps nothing but its place in the
// stream. The zero value is ready.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|         ULPDU_Length          |                               |
//	+-------------------------------+                               +
//	~                             ULPDU                             ~
//	+                               +-------------------------------+
//	|                               |      PAD (0 to 3 octets)      |
//	+-------------------------------+-------------------------------+
//	|                             CRC32c                            |
//	+---------------------------------------------------------------+
//
// With Markers, one stands at every octet whose offset in the stream is a multiple
// of 512 (https://www.rfc-editor.org/rfc/rfc5044#section-4.3):
//
//	+-------------------------------+-------------------------------+
//	|         RESERVED (0)          |            FPDUPTR            |
//	+-------------------------------+-------------------------------+
//
// FPDUPTR is the distance from the Marker back to the ULPDU_Length of the FPDU
// around it, or 0 if the Marker stands before one.
//
// See https://www.rfc-editor.org/rfc/rfc5044#section-4.
type framer struct {
	marked bool // puts a Marker at every 512th octet of the stream, from its first
	crc    bool // computes the CRC; otherwise the field is sent as zero

	pos     uint64 // of the next FPDU in the stream
	markers uint64 // made so far
}

// len is the length in octets of the FPDU of a ULPDU of n octets at the current
// position, with its Markers.
func (f *framer) len(n int) int {
	if !f.marked {
		return FPDULen(n)
	}
	return layoutOf(f.pos, n, true).total
}

// reference is a piece of payload that is sent from where it lies.
type reference struct {
	at    int // octets of the FPDU's room before it
	piece []byte
}

// encode makes the FPDU of the ULPDU of n octets that header and payload form, and
// moves on. It is written to room, which is as long; but where refs is not nil,
// pieces of gatherMin octets and more are only added to the CRC and noted in refs,
// and room is as much shorter. With Markers there are no refs.
func (f *framer) encode(room, header []byte, payload [][]byte, n int, refs *[]reference) {
	w := fpduWriter{to: room, sums: f.crc, next: math.MaxInt}
	// Rule: MPA-4.3-03
	if f.marked {
		// Rule: MPA-4.3-08
		w.next, w.sums, w.sumsAll = firstMarker(f.pos), false, f.crc
		// Rule: MPA-7.1.2-18
		w.marker() // the one before ULPDU_Length
		// Rule: MPA-4.3-10
		w.start = w.at
	}
	w.head(n, header)
	total := len(room)
	for _, p := range payload {
		if refs != nil && len(p) >= gatherMin {
			w.refer(p, refs)
			total += len(p)
		} else {
			w.put(p)
		}
	}
	w.end(n)
	f.pos += uint64(total)
	f.markers += uint64(w.markers)
}

// fpduWriter writes one FPDU, from front to back.
type fpduWriter struct {
	to      []byte
	at      int  // octets written
	next    int  // where the next Marker is due
	start   int  // of ULPDU_Length
	markers int  // written
	sums    bool // adds to sum what is written
	sumsAll bool // sums up at the end: with Markers that are many pieces
	sum     uint32
}

// headLen is how much of an FPDU can be put together in two registers.
const headLen = 16

// head writes ULPDU_Length and the header.
//
// The CRC of the first octets is taken from registers and not from memory: stored
// just before, in other pieces, they could not be loaded again until the stores have
// reached the cache.
func (w *fpduWriter) head(n int, header []byte) {
	if len(header) < headLen-lengthLen || w.next-w.at < headLen {
		var length [lengthLen]byte
		// Rule: MPA-4.1-02
		binary.BigEndian.PutUint16(length[:], uint16(n))
		w.put(length[:])
		w.put(header)
		return
	}
	// Rule: MPA-4.1-01
	a := uint64(bits.ReverseBytes16(uint16(n))) | uint64(binary.LittleEndian.Uint32(header))<<16 |
		uint64(binary.LittleEndian.Uint16(header[4:]))<<48
	b := binary.LittleEndian.Uint64(header[6:])
	to := (*[headLen]byte)(w.to[w.at:])
	binary.LittleEndian.PutUint64(to[:], a)
	binary.LittleEndian.PutUint64(to[8:], b)
	if w.sums {
		w.sum = wordsCRC(w.sum, to, a, b)
	}
	w.at += headLen
	if len(header) > headLen-lengthLen {
		w.put(header[headLen-lengthLen:])
	}
}

// put writes p, and the Markers that are due within it.
func (w *fpduWriter) put(p []byte) {
	for len(p) > w.next-w.at {
		n := w.next - w.at
		w.copy(p[:n])
		w.marker()
		p = p[n:]
	}
	w.copy(p)
}

func (w *fpduWriter) copy(p []byte) {
	if w.sums {
		w.sum = copyCRC(w.to[w.at:], w.sum, p)
	} else {
		fastcopy.Copy(w.to[w.at:], p)
	}
	w.at += len(p)
}

// marker writes a Marker if one is due.
func (w *fpduWriter) marker() {
	if w.at != w.next {
		return
	}
	// Rule: MPA-4.2-01, MPA-4.2-03, MPA-4.2-04, MPA-4.3-11, MPA-4.2-02
	binary.BigEndian.PutUint32(w.to[w.at:], uint32(max(w.at-w.start, 0))) // 0 for the one before ULPDU_Length
	w.at += markerLen
	w.next += markerStep
	w.markers++
}

// refer adds p to the CRC and leaves it where it is.
func (w *fpduWriter) refer(p []byte, refs *[]reference) {
	if w.sums {
		// Rule: MPA-4.4-12
		w.sum = updateCRC(w.sum, p)
	}
	*refs = append(*refs, reference{w.at, p})
}

// end writes PAD and CRC.
func (w *fpduWriter) end(n int) {
	if pad := padLen(n); pad > 0 {
		// Rule: MPA-4.1-03
		var zero [3]byte
		// Rule: MPA-4.4-12
		w.put(zero[:pad])
	}
	// Rule: MPA-4.3-01, MPA-4.4-12
	w.marker() // one between PAD and CRC is covered by this CRC
	if w.sumsAll {
		// Rule: MPA-4.4-13
		w.sum = updateCRC(0, w.to[:w.at])
	}
	// Rule: MPA-4.4-01, MPA-4.4-10
	binary.LittleEndian.PutUint32(w.to[w.at:], w.sum)
}

func sizeOf(header []byte, payload [][]byte) int {
	n := len(header)
	for _, p := range payload {
		n += len(p)
	}
	return n
}
