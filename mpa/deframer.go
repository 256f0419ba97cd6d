package mpa

import (
	"encoding/binary"
	"fmt"

	"github.com/go-iwarp/iwarp/protocol"
)

// Deframer is the receiving engine: it finds the FPDUs in a stream of octets,
// checks them and gives their ULPDUs. It does no I/O and keeps no octets. The
// zero value is ready; set the exported fields before the first use.
type Deframer struct {
	// Markers says that the peer puts Markers into what it sends.
	Markers bool
	// CRC says that CRCs are checked.
	CRC bool
	// Strict refuses a ULPDU_Length above [MaxULPDU]. Otherwise all that 16 bits
	// can say is accepted: Linux siw sends up to 65474 octets where the MTU is
	// large.
	Strict bool
	// IgnoreMarkers takes Markers out without a look at what they say. It is for
	// captures that should be read in spite of an error.
	IgnoreMarkers bool

	pos     uint64
	markers uint64 // taken out so far
	err     *protocol.Error
}

// SetPosition moves to offset pos in the stream of Full Operation, a multiple of four.
// It is for tools that start in the middle of a stream.
func (d *Deframer) SetPosition(pos uint64) { d.pos = pos &^ 3 }

// Next looks at b, which begins where the last FPDU ended, and takes one FPDU
// from it.
//
// With n > 0 a whole and valid FPDU was there: n octets are used up and ulpdu is
// what it carried, possibly of zero octets. ulpdu is a part of b; if there are
// Markers the octets of the FPDU in b have been moved together for it, after they
// were checked. With n == 0 and no error more octets are needed, and need says
// how many b must hold before another call makes sense.
//
// An error is of code [protocol.MPACRC] or [protocol.MPAMarker]. It is final:
// every later call gives it again, as nothing can be trusted from there on
// (https://www.rfc-editor.org/rfc/rfc5044#section-8).
func (d *Deframer) Next(b []byte) (ulpdu []byte, n, need int, err *protocol.Error) {
	// Rule: MPA-8-08
	if d.err != nil {
		return nil, 0, 0, d.err
	}
	start := 0
	if d.Markers && d.pos%markerStep == 0 {
		start = markerLen
	}
	if len(b) < start+lengthLen {
		return nil, 0, start + lengthLen, nil
	}
	// Rule: MPA-4.1-01, MPA-4.1-02, MPA-5.2-01, MPA-6-02
	length := int(binary.BigEndian.Uint16(b[start:]))
	if d.Strict && length > MaxULPDU {
		return nil, 0, 0, d.fail(protocol.MPAMarker, "RFC 5044 section 3", "ULPDU_Length is %d, at most %d is allowed",
			length, MaxULPDU)
	}
	l := layoutOf(d.pos, length, d.Markers)
	// Rule: MPA-6-03, MPA-5.1-05
	if len(b) < l.total {
		return nil, 0, l.total, nil
	}
	b = b[:l.total]
	// Rule: MPA-6-01
	if err := d.check(b, l); err != nil {
		return nil, 0, 0, err
	}
	if l.markers > 0 {
		d.compact(b, l.start)
	}
	d.pos += uint64(l.total)
	d.markers += uint64(l.markers)
	from := l.start + lengthLen
	// Rule: MPA-3-01, MPA-3-07, MPA-4.3-12, MPA-4.3-13, MPA-4.1-04, DDP-3-04
	return b[from : from+length : from+length], l.total, 0, nil
}

// check looks at CRC and Markers of the whole FPDU b. The CRC comes first: only
// when it is right does a Marker that points elsewhere mean that the ends
// disagree.
func (d *Deframer) check(b []byte, l layout) *protocol.Error {
	// Rule: MPA-4.1-06, MPA-7.1.1-10, MPA-4.4-08, MPA-4.4-01, MPA-4.4-09
	if d.CRC {
		end := len(b) - crcLen
		// Rule: MPA-4.4-11, MPA-4.4-12, MPA-4.4-13, MPA-4.4-14, DDP-3-06
		got, want := binary.LittleEndian.Uint32(b[end:]), updateCRC(0, b[:end])
		// Rule: MPA-4.4-15, MPA-8-02
		if got != want {
			return d.fail(protocol.MPACRC, "RFC 5044 section 4.4",
				"CRC is 0x%08x, want 0x%08x over the FPDU of %d octets at stream offset %d", got, want, len(b), d.pos)
		}
	}
	// Rule: MPA-5.2-02
	if l.markers == 0 || d.IgnoreMarkers {
		return nil
	}
	for at := firstMarker(d.pos); at < len(b); at += markerStep {
		// The low two bits are computed with as zero, though the CRC covers them
		// as they came (erratum 1427).
		// Rule: MPA-4.2-02, MPA-4.2-05, MPA-4.3-05, MPA-4.3-10
		got := binary.BigEndian.Uint16(b[at+2:]) &^ 3
		want := uint16(max(at-l.start, 0))
		if got != want {
			// Rule: MPA-8-03, MPA-8-04
			return d.fail(protocol.MPAMarker, "RFC 5044 section 4.3",
				"FPDUPTR is %d, want %d in the Marker at stream offset %d", got, want, d.pos+uint64(at))
		}
	}
	return nil
}

// firstMarker is the offset of the first Marker at or after pos, from pos.
// Rule: MPA-4.3-06
func firstMarker(pos uint64) int { return int(-pos % markerStep) }

// compact moves the content of the marked FPDU b together, so that it follows its
// ULPDU_Length without Markers.
func (d *Deframer) compact(b []byte, start int) {
	at := firstMarker(d.pos)
	if at < start {
		at += markerStep // the one before ULPDU_Length is not in the way
	}
	to := at
	for at < len(b) {
		// Rule: MPA-4.3-13
		next := min(at+markerStep, len(b))
		to += copy(b[to:], b[at+markerLen:next])
		at = next
	}
}

func (d *Deframer) fail(code protocol.Code, section, format string, args ...any) *protocol.Error {
	// Rule: MPA-8-08, MPA-8-06
	d.err = &protocol.Error{Code: code, Section: section, Detail: fmt.Sprintf(format, args...)}
	return d.err
}
