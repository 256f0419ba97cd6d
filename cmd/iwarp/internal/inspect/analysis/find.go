package analysis

import (
	"bytes"
	"encoding/binary"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Bounds of the search for iWARP in a direction of TCP.
const (
	findOctets   = 256 << 10 // that are kept to look through
	findDull     = 4 << 10   // of these, if nothing looks like an FPDU so far
	findSegments = 512
	findTrials   = 4096 // places that looked like an FPDU and were examined
)

// find looks for iWARP on a connection: for a startup frame, else for FPDUs. last
// says that nothing more will come.
func (r *Reader) find(c *tcpConn, last bool) {
	for i := range c.half {
		if r.findStartup(c, i) {
			return
		}
	}
	for i := range c.half {
		if h := &c.half[i]; h.m.startupMayCome(h) && !last {
			continue
		}
		if r.findFPDUs(c, i, last) {
			return
		}
	}
	tired := 0
	for i := range c.half {
		h := &c.half[i]
		n := len(h.pending())
		if n > findOctets || n > findDull && !h.m.maybe || h.stats.Segments > findSegments || h.m.trials > findTrials {
			h.m.tired = true
		}
		if h.m.tired {
			tired++
			h.cons = h.next // the other direction may tell still
			h.m.seen = h.next
		}
	}
	if n := c.half[0].stats.Segments + c.half[1].stats.Segments; tired == 2 || tired > 0 && n > 2*findSegments {
		c.state = ignored
		for i := range c.half {
			c.half[i] = half{fin: -1}
		}
	}
}

// startupMayCome reports whether what is there could be the first octets of a
// startup frame.
func (m *mpaHalf) startupMayCome(h *half) bool {
	b := h.pending()
	if len(b) >= startupKeyLen {
		return false
	}
	for _, k := range startupKeys {
		if bytes.HasPrefix(k.key, b) {
			return true
		}
	}
	return false
}

// findStartup looks for the key of a startup frame anywhere in what is pending.
func (r *Reader) findStartup(c *tcpConn, i int) bool {
	h := &c.half[i]
	b := h.pending()
	from := int(max(h.m.seen-h.cons-(startupKeyLen-1), 0))
	h.m.seen = h.next
	for from < len(b) {
		k := bytes.Index(b[from:], startupKeys[0].key[:9]) // "MPA ID Re" begins both
		if k < 0 {
			return false
		}
		kind, ok := startupKey(b[from+k:])
		if !ok {
			from += k + 1
			continue
		}
		a := i
		if kind == mpa.Reply {
			a = 1 - i
		}
		skipped := int64(from + k)
		r.open(c, a, true, false, h.spanAt(h.cons+skipped), "an MPA "+kind.String()+" frame")
		if skipped > 0 {
			r.anomaly(c, i, AnomalyStreaming, h.cons, uint64(skipped), "octets before MPA startup")
		}
		h.cons += skipped
		r.dropOlder(c, 1-i, h.spanAt(h.cons).frame)
		r.run(c, i)
		r.run(c, 1-i)
		return true
	}
	return false
}

// dropOlder drops what half i had before a frame: it is not MPA, unless a startup
// frame is in it.
func (r *Reader) dropOlder(c *tcpConn, i int, frame uint64) {
	h := &c.half[i]
	to := h.next
	for _, s := range h.spans {
		if s.frame >= frame {
			to = min(to, s.off)
		}
	}
	for at := range h.pending() {
		if startsMPA(h.pending()[at:]) {
			to = h.cons + int64(at)
			break
		}
	}
	if n := to - h.cons; n > 0 {
		r.anomaly(c, i, AnomalyStreaming, h.cons, uint64(n), "octets before MPA startup")
		h.cons = to
	}
}

// findFPDUs looks for a place from which FPDUs follow each other: first where
// segments begin, then, if the capture did not see the connection's start,
// anywhere.
func (r *Reader) findFPDUs(c *tcpConn, i int, last bool) bool {
	h := &c.half[i]
	from, ok := h.m.search(h, last, !h.syn || h.stats.Holes > 0, findTrials)
	if !ok {
		return false
	}
	why := "FPDUs that follow each other, without a startup"
	if from.sure {
		why = "an FPDU with a right CRC, without a startup"
	}
	r.open(c, i, false, true, h.spanAt(from.off), why)
	h.begin(from)
	if from.sure {
		c.an.crc = crcOn
	}
	r.run(c, i)
	r.run(c, 1-i)
	return true
}

// place is where FPDUs begin.
type place struct {
	off    int64 // of TCP
	base   int64 // so that Markers stand at multiples of 512 octets from here
	marked bool
	sure   bool // a CRC was right
}

// begin starts the analysis of FPDUs at a place.
func (h *half) begin(p place) {
	h.cons = p.off
	h.m.base, h.m.marked, h.m.guessed = p.base, p.marked, true
	h.m.phase = phaseFPDU
	h.m.need = 0
}

// search looks for a place in what is pending. trials bounds m.trials.
func (m *mpaHalf) search(h *half, last, anywhere bool, trials int) (place, bool) {
	b := h.pending()
	m.maybe = false
	for _, s := range h.spans {
		if s.off < h.cons || s.off >= h.next || m.trials > trials {
			continue
		}
		p, ok, more := m.examine(b[s.off-h.cons:], s.off, h.ends(s.off), last)
		if ok {
			return p, true
		}
		m.maybe = m.maybe || more
	}
	if !anywhere {
		return place{}, false
	}
	for at := max(m.scanned, h.cons); at < h.next && m.trials <= trials; at++ {
		x := b[at-h.cons:]
		if !last && len(x) < 4+2+ddp.UntaggedHeaderLen {
			break
		}
		if !looksRight(x) {
			m.scanned = at + 1
			continue
		}
		p, ok, more := m.examine(x, at, nil, last)
		if ok {
			return p, true
		}
		if more && len(x) < 1<<16+1024 {
			m.maybe = true
			break
		}
		m.scanned = at + 1
	}
	return place{}, false
}

// ends returns the offsets at which segments begin, from one on.
func (h *half) ends(off int64) []span {
	for i := range h.spans {
		if h.spans[i].off == off {
			return h.spans[i+1:]
		}
	}
	return nil
}

// looksRight is a quick look at what would be the first octets of an FPDU, with or
// without a Marker before it.
func looksRight(b []byte) bool {
	return startsFPDU(b) || len(b) >= 2*markerLen && binary.BigEndian.Uint32(b) == 0 && startsFPDU(b[markerLen:])
}

// startsFPDU is the same without a Marker.
func startsFPDU(b []byte) bool {
	return len(b) >= 4 && b[2]&0x3f == ddp.Version && b[3]&0xf0 == rdmap.Version<<6
}

// plausible reports whether a ULPDU, or its first octets, has headers as they
// should be. length is that of all of it.
func plausible(ulpdu []byte, length int) bool {
	h, n, err := ddp.Parse(ulpdu)
	if err != nil || length < n || h.Version != ddp.Version || h.Reserved != 0 {
		return false
	}
	ctl := rdmap.Control(h.Control)
	if ctl.Reserved() != 0 || ctl.Check(rdmap.Version, h.Tagged, h.QN) != nil {
		return false
	}
	op := ctl.Opcode()
	if want := op.HeaderLen(); want >= 0 && length-n != want {
		return false
	}
	return h.Tagged || op.Invalidates() || h.ULP32 == 0
}

// plausibleFPDU looks at the first octets of an FPDU that has no Marker before it.
func plausibleFPDU(b []byte) bool {
	return len(b) > 2 && plausible(b[2:], int(binary.BigEndian.Uint16(b)))
}

// enough is how much must speak for FPDUs where no CRC does.
const enough = 4

// examine tries a place: b begins at off. starts are the segments that follow. more
// says that more octets could decide.
func (m *mpaHalf) examine(b []byte, off int64, starts []span, last bool) (p place, ok, more bool) {
	if !looksRight(b) {
		return place{}, false, false
	}
	m.trials++
	if plausibleFPDU(b) {
		score, sure, more := chain(b, off, starts)
		if sure || score >= enough {
			return place{off: off, base: off, sure: sure}, true, false
		}
		if more && !last {
			if p, ok := examineMarked(b, off); ok && p.sure {
				return p, true, false
			}
			return place{}, false, true
		}
	}
	p, ok = examineMarked(b, off)
	return p, ok, false
}

// chain follows FPDUs without Markers from b's start and counts what speaks for
// them.
func chain(b []byte, off int64, starts []span) (score int, sure, more bool) {
	for at := 0; at < len(b); {
		if !plausibleFPDU(b[at:]) {
			return score, false, len(b)-at < 2+ddp.UntaggedHeaderLen
		}
		d := mpa.Deframer{CRC: true}
		ulpdu, n, need, err := d.Next(b[at:])
		if n > 0 {
			return score, true, false
		}
		if need > 0 {
			return score, false, true
		}
		if err != nil {
			d = mpa.Deframer{}
			ulpdu, n, _, _ = d.Next(b[at:])
		}
		score++ // of 2+4+2+2 and some more bits
		if ulpdu[0]&0x80 == 0 {
			score++ // and of QN and Invalidate STag, 64 bits
		}
		if binary.BigEndian.Uint32(b[at+n-4:]) == 0 {
			score++ // a CRC that is not used
		}
		at += n
		if at == len(b) || startsAt(starts, off+int64(at)) {
			score++
		}
		if score >= enough {
			return score, false, false
		}
	}
	return score, false, true
}

func startsAt(starts []span, off int64) bool {
	for i := range starts {
		if starts[i].off >= off {
			return starts[i].off == off
		}
	}
	return false
}

// examineMarked tries an FPDU with Markers at b's start: the first Marker is where
// a word tells its distance from there.
func examineMarked(b []byte, off int64) (place, bool) {
	tried := 0
	for d := 0; d < markerStep && d+markerLen <= len(b) && tried < 4; d += 4 {
		if binary.BigEndian.Uint32(b[d:]) != uint32(d) {
			continue
		}
		tried++
		pos := uint64(markerStep-d) % markerStep
		p := place{off: off, base: off - int64(pos), marked: true}
		x := bytes.Clone(b[:min(len(b), wanted(b, pos))]) // the Deframer moves octets
		df := mpa.Deframer{Markers: true, CRC: true}
		df.SetPosition(pos)
		if ulpdu, n, _, err := df.Next(x); n > 0 && plausible(ulpdu, len(ulpdu)) {
			p.sure = true
			return p, true
		} else if err == nil {
			continue
		}
		df = mpa.Deframer{Markers: true} // still looks at the Markers
		df.SetPosition(pos)
		ulpdu, n, _, _ := df.Next(x)
		// A word of zeros is also a CRC that is not used: it takes a Marker that
		// tells a distance, and an FPDU behind.
		if n > max(d, 1) && (d > 0 || n > markerStep) && plausible(ulpdu, len(ulpdu)) &&
			(n == len(b) || fitsBehind(b[n:], pos+uint64(n), true)) {
			return p, true
		}
	}
	return place{}, false
}

// fitsBehind reports whether b could be what follows an FPDU that ends at pos.
func fitsBehind(b []byte, pos uint64, marked bool) bool {
	if marked && pos%markerStep == 0 {
		return len(b) < 2*markerLen || startsFPDU(b[markerLen:])
	}
	return len(b) < 4 || startsFPDU(b)
}
