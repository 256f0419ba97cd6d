package analysis

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

// What an FPDU consists of (https://www.rfc-editor.org/rfc/rfc5044#section-4).
const (
	lengthLen = 2
	crcLen    = 4
	// leastStep is the least distance of Markers that are not where they should be.
	leastStep  = 500
	markerLen  = 4
	markerStep = 512
	// maxFPDU is more than any FPDU takes, Markers included.
	maxFPDU = 1<<16 + 1<<10
)

// frameRef is one FPDU in its stream.
type frameRef struct {
	off     int64  // of TCP
	pos     uint64 // since Full Operation began
	length  int    // all of it on the wire
	start   int    // of ULPDU_Length in it
	raw     []byte // as captured
	ulpdu   []byte // without Markers
	size    int    // ULPDU_Length
	markers []int  // offsets in raw
	crc     string
	cut     bool
	first   span
	latest  span
	aligned bool
}

// The values of [FPDU].CRC.
const (
	crcTextGood    = "good"
	crcTextBad     = "bad"
	crcTextOff     = "off"
	crcTextUnknown = "unknown"
)

// at returns where an octet stands in the FPDU; i counts from ULPDU_Length and
// without Markers.
func (f *frameRef) at(i int) int {
	x := f.start + i
	for _, m := range f.markers {
		if m >= f.start && m <= x {
			x += markerLen
		}
	}
	return x
}

// readFPDU takes the next FPDU.
func (r *Reader) readFPDU(c *tcpConn, i int) bool {
	h := &c.half[i]
	m := &h.m
	b := h.pending()
	if len(b) < m.need {
		return false
	}
	if m.fpdus == 0 && !m.guessed && h.cons == m.base {
		if len(b) < 2*markerLen {
			return false
		}
		r.checkUseOfMarkers(c, i, b)
	}
	if m.foreign {
		return r.readForeign(c, i)
	}
	pos := uint64(h.cons - m.base)
	f := frameRef{off: h.cons, pos: pos, crc: crcTextOff}
	check := c.an.crc != crcOff
	if check {
		f.crc = crcTextGood
	}
	ulpdu, n, need, err := r.deframe(m, b, pos, check, false)
	if need > 0 {
		m.need = need
		return false
	}
	m.need = 0
	if err != nil {
		ok := false
		if ulpdu, n, ok = r.tolerate(c, i, &f, err); !ok {
			return m.phase != phaseFPDU || m.foreign
		}
	} else if !check {
		if !r.believable(c, i, b, ulpdu, n, pos) {
			return true
		}
	} else if c.an.crc == crcUnknown && plausible(ulpdu, len(ulpdu)) {
		c.an.crc = crcOn
	}
	f.length, f.raw, f.ulpdu, f.size = n, b[:n], ulpdu, len(ulpdu)
	if m.marked {
		f.markers = r.standardMarkers(pos, n)
		if len(f.markers) > 0 && f.markers[0] == 0 {
			f.start = markerLen
		}
	}
	h.cons += int64(n)
	r.gotFPDU(c, i, &f)
	return true
}

// believable looks at an FPDU that no CRC protects. If it is none, m.phase or
// m.marked says how to go on.
func (r *Reader) believable(c *tcpConn, i int, b, ulpdu []byte, n int, pos uint64) bool {
	h := &c.half[i]
	m := &h.m
	if fitsBehind(b[n:], pos+uint64(n), m.marked) {
		return true
	}
	if m.guessed && r.otherMarkers(c, i) {
		return false
	}
	if plausible(ulpdu, len(ulpdu)) {
		return true
	}
	r.anomaly(c, i, AnomalyLost, h.cons, 0, "neither this FPDU nor what would be the next one looks like one")
	r.loseFPDUs(c, i)
	h.cons += 4
	return false
}

// deframe runs the receiving engine on the FPDU at b's start. b is left as it is.
func (r *Reader) deframe(m *mpaHalf, b []byte, pos uint64,
	check, ignore bool,
) (ulpdu []byte, n, need int, err *protocol.Error) {
	d := mpa.Deframer{Markers: m.marked, CRC: check, IgnoreMarkers: ignore}
	d.SetPosition(pos)
	if m.marked { // the engine moves octets together; they are kept for comparison
		r.scratch = append(r.scratch[:0], b[:min(len(b), wanted(b, pos))]...)
		b = r.scratch
	}
	return d.Next(b)
}

// wanted is at least the length of the marked FPDU at b's start.
func wanted(b []byte, pos uint64) int {
	at := 0
	if pos%markerStep == 0 {
		at = markerLen
	}
	if len(b) < at+lengthLen {
		return len(b)
	}
	n := int(binary.BigEndian.Uint16(b[at:]))
	return n + (n/(markerStep-markerLen)+4)*markerLen + 16
}

// standardMarkers returns where the Markers of an FPDU of n octets at pos stand.
func (r *Reader) standardMarkers(pos uint64, n int) []int {
	r.markers = r.markers[:0]
	for at := int(-pos % markerStep); at < n; at += markerStep {
		r.markers = append(r.markers, at)
	}
	return r.markers
}

// checkUseOfMarkers compares what the first octets of Full Operation look like
// with what the startup frames say.
func (r *Reader) checkUseOfMarkers(c *tcpConn, i int, b []byte) {
	h := &c.half[i]
	m := &h.m
	zero := binary.BigEndian.Uint32(b) == 0
	switch {
	case m.marked && !zero && plausibleFPDU(b):
		r.verdict(c, i, "MPA-7.1.1-06", h.cons, 0, "a Marker, 00000000, before the first FPDU: the peer's M is 1",
			fmt.Sprintf("%x", b[:4]))
		m.marked = false
	case !m.marked && zero && plausibleFPDU(b[markerLen:]):
		r.verdict(c, i, "MPA-7.1.1-07", h.cons, 0, "ULPDU_Length of the first FPDU: the peer's M is 0",
			"a Marker, 00000000")
		m.marked = true
	}
}

// tolerate makes the best of an FPDU that the engine refuses. ok is false if there
// is none; m.phase or m.foreign then says how to go on.
func (r *Reader) tolerate(c *tcpConn, i int, f *frameRef, err *protocol.Error) (ulpdu []byte, n int, ok bool) {
	h := &c.half[i]
	m := &h.m
	b := h.pending()
	ulpdu, n, _, _ = r.deframe(m, b, f.pos, false, true)
	if n == 0 { // cannot be: the engine had all of it
		r.loseFPDUs(c, i)
		return nil, 0, false
	}
	fits, right := fitsBehind(b[n:], f.pos+uint64(n), m.marked), plausible(ulpdu, len(ulpdu))
	if (err.Code == protocol.MPAMarker || !fits || !right) && r.otherMarkers(c, i) {
		return nil, 0, false
	}
	if err.Code == protocol.MPAMarker {
		f.crc = crcTextGood
		if c.an.crc == crcOff {
			f.crc = crcTextOff
		}
		return ulpdu, n, true // judged with all Markers
	}
	f.crc = crcTextBad
	if c.an.crc == crcUnknown && right && fits {
		// Nobody said that there is one.
		f.crc = crcTextOff
		if c.an.badCRCs++; c.an.badCRCs >= 4 {
			c.an.crc = crcOff
		}
		return ulpdu, n, true
	}
	end := n - crcLen
	r.verdict(c, i, "MPA-4.4-15", f.off+int64(end), f.pos+uint64(end),
		fmt.Sprintf("CRC 0x%08x over the FPDU of %d "+
			"octets", crc32.Checksum(b[:end], castagnoli), n), fmt.Sprintf("0x%08x",
			binary.LittleEndian.Uint32(b[end:])))
	if !fits {
		h.stats.CRCBad++
		r.loseFPDUs(c, i)
		h.cons += 4
		return nil, 0, false
	}
	return ulpdu, n, true
}

// gotFPDU counts an FPDU, judges it and hands its segment on.
func (r *Reader) gotFPDU(c *tcpConn, i int, f *frameRef) {
	h := &c.half[i]
	m := &h.m
	f.first, f.latest, f.aligned = h.spansOf(f.off, f.off+int64(f.length))
	st := &h.stats
	st.FPDUs++
	st.Markers += uint64(len(f.markers))
	st.Marked = st.Marked || m.marked
	switch f.crc {
	case crcTextGood:
		st.CRCGood++
	case crcTextBad:
		st.CRCBad++
	case crcTextOff:
		st.CRCOff++
	}
	r.alignment(h, f)
	if m.fpdus > 0 {
		if gap := asTime(f.first.time).Sub(asTime(m.lastAt.time)); gap > st.Gap {
			st.Gap, st.GapFrame = gap, m.lastAt.frame
		}
	}
	if !r.opt.NoVerdicts {
		r.checkFPDU(c, i, f)
	}
	m.fpdus++
	m.lastAt = f.latest
	if n := len(f.markers); n > 0 {
		m.lastMarker = int64(f.pos) + int64(f.markers[n-1])
	}
	if r.opt.FPDUs {
		r.emit(&FPDU{
			Head: c.headOf(EventFPDU, i, f.latest), FirstFrame: f.first.frame, Offset: f.pos, Length: f.length,
			Octets: bytes.Clone(f.raw), ULPDU: bytes.Clone(f.ulpdu), CRC: f.crc,
			Markers: append([]int(nil), f.markers...), Aligned: f.aligned, Cut: f.cut,
		})
	}
	r.mute = f.crc == crcTextBad
	r.ddpSegment(c, i, f)
	if r.mute {
		c.half[0].m.d.doubt()
		c.half[1].m.d.doubt()
	}
	r.mute = false
}

// alignment counts the segments of TCP that begin within, or with, an FPDU.
func (r *Reader) alignment(h *half, f *frameRef) {
	if f.aligned {
		h.stats.AlignedSegments++
		h.stats.FPDUSegments++
	}
	for k := len(h.spans) - 1; k >= 0 && h.spans[k].off > f.off; k-- {
		if h.spans[k].off < f.off+int64(f.length) {
			h.stats.FPDUSegments++
		}
	}
}
