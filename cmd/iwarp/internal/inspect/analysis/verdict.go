package analysis

import (
	"encoding/binary"
	"fmt"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// verdict reports a broken rule. off is the octet to blame in the stream of TCP,
// pos where to say that it is.
func (r *Reader) verdict(c *tcpConn, i int, rule string, off int64, pos uint64, expected, seen string) {
	if r.opt.NoVerdicts || r.mute {
		return
	}
	ru := ruleOf(rule)
	c.an.verdicts[rule]++
	c.half[i].stats.Verdicts++
	r.emit(&Verdict{
		Head: c.headOf(EventVerdict, i, c.half[i].spanAt(off)),
		Rule: rule, Summary: ru.Text, Level: ru.Level, RFC: ru.RFC, Section: ru.Section,
		Offset: pos, Expected: expected, Seen: seen,
	})
}

// blame reports a rule that an FPDU broke; at is the octet to blame, counted from
// ULPDU_Length without Markers.
func (r *Reader) blame(c *tcpConn, i int, f *frameRef, rule string, at int, expected, seen string) {
	x := min(f.at(at), max(f.length-1, 0))
	r.verdict(c, i, rule, f.off+int64(x), f.pos+uint64(x), expected, seen)
}

// checkFPDU judges what MPA adds to a segment.
func (r *Reader) checkFPDU(c *tcpConn, i int, f *frameRef) {
	switch {
	case f.size > mpa.MaxULPDU:
		r.blame(c, i, f, "MPA-3-05", 0, fmt.Sprintf("ULPDU_Length of at most %d", mpa.MaxULPDU),
			fmt.Sprintf("%d", f.size))
	case f.size == 0:
		r.blame(c, i, f, "MPA-3-06", 0, "ULPDU_Length of at least 1", "0")
	}
	if f.cut {
		return
	}
	for k := lengthLen + f.size; k%4 != 0; k++ {
		if x := f.at(k); x < len(f.raw) && f.raw[x] != 0 {
			r.blame(c, i, f, "MPA-4.1-03", k, "PAD of zero octets", hexOctet(f.raw[x]))
			break
		}
	}
	for _, at := range f.markers {
		if at+markerLen <= len(f.raw) {
			r.checkMarker(c, i, f, at)
		}
	}
}

// checkMarker judges one Marker.
func (r *Reader) checkMarker(c *tcpConn, i int, f *frameRef, at int) {
	w := f.raw[at : at+markerLen]
	want := max(at-f.start, 0)
	pos := f.pos + uint64(at)
	report := func(rule, expected string) {
		r.verdict(c, i, rule, f.off+int64(at), pos, expected, fmt.Sprintf("% x", w))
	}
	ptr := binary.BigEndian.Uint16(w[2:])
	if pos%markerStep != 0 {
		report("MPA-4.3-04", fmt.Sprintf("Markers at multiples of %d octets: none at %d", markerStep, pos))
	}
	switch {
	case int(ptr&^3) == want:
		if ptr&3 != 0 {
			report("MPA-4.2-04", "the two low bits of FPDUPTR zero")
		}
	case int(binary.LittleEndian.Uint16(w[2:])) == want:
		report("MPA-4.2-01", fmt.Sprintf("FPDUPTR %d, most significant octet first", want))
	case want == 0 && pos == 0:
		report("MPA-4.3-08", "FPDUPTR 0 in the Marker before the first FPDU")
	case want == 0:
		report("MPA-4.3-07", "FPDUPTR 0 in a Marker between two FPDUs")
	default:
		report("MPA-4.3-05", fmt.Sprintf("FPDUPTR %d", want))
	}
	if v := binary.BigEndian.Uint16(w); v != 0 {
		report("MPA-4.2-02", "reserved octets zero")
	}
}

// checkHeader judges the fields of DDP and RDMAP that can be judged alone.
func (r *Reader) checkHeader(c *tcpConn, i int, f *frameRef, h *ddp.Header) {
	const first, control, stag, qn = lengthLen, lengthLen + 1, lengthLen + 2, lengthLen + 6
	version := uint8(1)
	if n := c.an.neg; n != nil && n.Revision == 0 {
		version = 0 // the RDMA Consortium's (RFC 5044 appendix C)
	}
	ctl := rdmap.Control(h.Control)
	op := ctl.Opcode()
	if h.Version != version {
		r.blame(c, i, f, "DDP-4.1-08", first, fmt.Sprintf("DV %d", version), fmt.Sprintf("DV %d", h.Version))
	}
	if h.Reserved != 0 {
		r.blame(c, i, f, "DDP-4.1-07", first, "Rsvd 0", fmt.Sprintf("Rsvd %#x", h.Reserved))
	}
	if ctl.Version() != version {
		r.blame(c, i, f, "RDMAP-4.1-06", control, fmt.Sprintf("RV %d", version), fmt.Sprintf("RV %d", ctl.Version()))
	}
	if ctl.Reserved() != 0 {
		r.blame(c, i, f, "RDMAP-4.1-07", control, "Rsv 0", fmt.Sprintf("Rsv %d", ctl.Reserved()))
	}
	switch {
	case !op.Known():
		r.blame(c, i, f, "RDMAP-7.2-02", control, "an opcode that is assigned", op.String())
		return
	case op.Tagged() != h.Tagged:
		r.blame(c, i, f, "RDMAP-4.1-04", first, fmt.Sprintf("T=%d for %v", bit(op.Tagged()), op),
			fmt.Sprintf("T=%d", bit(h.Tagged)))
		return
	case !h.Tagged && h.QN != op.QN():
		rule := "RDMAP-4.1-08"
		if op >= rdmap.OpcodeImmediate {
			rule = "EXT-4.1-03"
		}
		r.blame(c, i, f, rule, qn, fmt.Sprintf("QN %d for %v", op.QN(), op), fmt.Sprintf("QN %d", h.QN))
	}
	if !h.Tagged && !op.Invalidates() && h.ULP32 != 0 {
		rule := "RDMAP-4.1-03"
		if op >= rdmap.OpcodeImmediate {
			rule = "EXT-4.1-02"
		}
		r.blame(c, i, f, rule, stag, fmt.Sprintf("Invalidate STag 0 in %v", op), fmt.Sprintf("%#08x", h.ULP32))
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// checkOrder judges when a segment is sent.
func (r *Reader) checkOrder(c *tcpConn, i int, f *frameRef, h *ddp.Header, size int) {
	an := c.an
	m, o := &c.half[i].m, &c.half[1-i]
	if m.d.endedAt {
		r.blame(c, i, f, "RDMAP-5.4-07", 0, fmt.Sprintf("nothing after the Terminate in frame %d", m.d.ended.frame),
			rdmap.Control(h.Control).String())
	}
	if m.fpdus > 1 || f.pos != 0 || an.neg == nil || !an.roles || an.midStream {
		return
	}
	if i != an.a {
		if o.m.fpdus == 0 && o.m.phase == phaseFPDU && o.stats.Holes == 0 && !o.missing() {
			r.blame(c, i, f, "MPA-7.1.2-14", 0, "no FPDU of the Responder before one from the Initiator",
				"the Responder's first FPDU")
		}
		return
	}
	if !an.neg.PeerToPeer || an.rtr == 0 {
		return
	}
	op := rdmap.Control(h.Control).Opcode()
	kind := map[rdmap.Opcode]protocol.RTR{
		rdmap.OpcodeSend: protocol.RTRSend, rdmap.OpcodeWrite: protocol.RTRWrite,
		rdmap.OpcodeReadRequest: protocol.RTRRead,
	}[op]
	switch {
	case kind == 0 && op != rdmap.OpcodeTerminate, kind != 0 && kind != protocol.RTRRead && size != 0:
		r.blame(c, i, f, "MPA2-5-02", lengthLen+1, "an RTR indication as the first FPDU: "+an.rtr.String(),
			fmt.Sprintf("%v of %d octets", op, size))
	case kind != 0 && !an.rtr.Has(kind):
		r.blame(c, i, f, "MPA2-9.2-08", lengthLen+1, "an RTR indication of a kind that both support: "+an.rtr.String(),
			op.String())
	}
}

// checkMSN judges the MSN of the first segment of a message.
func (r *Reader) checkMSN(c *tcpConn, i int, f *frameRef, h *ddp.Header, q *queue) {
	d := c.half[i].m.d
	if !q.known || h.QN >= lastQueue || h.MSN == q.next {
		return
	}
	rule := "DDP-4.3-08"
	switch {
	case q.next == 1 && d.segments == uint64(d.untagged) || q.next == 1:
		rule = "DDP-4.3-07"
	case q.next == 0:
		rule = "DDP-4.3-09"
	}
	seen := fmt.Sprintf("MSN %d", h.MSN)
	if h.MSN == d.untagged+1 && d.untagged > 0 {
		seen += ", which counts the messages of all queues"
	}
	r.blame(c, i, f, rule, lengthLen+10, fmt.Sprintf("MSN %d, the next one of QN %d", q.next, h.QN), seen)
}

// checkAtomic judges an Atomic Request.
func (r *Reader) checkAtomic(c *tcpConn, i int, f *frameRef, s *slot, q *rdmap.AtomicRequest) {
	const at = lengthLen + ddp.UntaggedHeaderLen
	if !q.Op.Known() {
		r.blame(c, i, f, "EXT-5.2.1-04", at+3, "AOpCode 0 or 2", fmt.Sprintf("%d", uint8(q.Op)))
	}
	if v := binary.BigEndian.Uint32(s.payload) &^ 0xf; v != 0 {
		r.blame(c, i, f, "EXT-5.2.1-02", at, "reserved bits zero", fmt.Sprintf("%#08x", v))
	}
	if q.Op == rdmap.AtomicFetchAdd && (q.Compare != 0 || q.CompareMask != ^uint64(0)) {
		r.blame(c, i, f, "EXT-5.2.1-03", at+36, "Compare Data 0 and Compare Mask all ones in a FetchAdd",
			fmt.Sprintf("%#x and %#x", q.Compare, q.CompareMask))
	}
}

// checkStartup judges one startup frame alone.
func (r *Reader) checkStartup(c *tcpConn, i int, s *mpa.Startup, raw []byte) {
	off := c.half[i].cons
	report := func(rule string, at int, expected, seen string) {
		r.verdict(c, i, rule, off+int64(at), uint64(off)+uint64(at), expected, seen)
	}
	flags := fmt.Sprintf("flags %#02x", raw[16])
	if s.Reserved != 0 {
		report("MPA-7.1.1-13", 16, "Res 0", flags)
	}
	if s.Kind == mpa.Request && s.Reject {
		report("MPA-7.1.1-11", 16, "R 0 in a Request", flags)
	}
	if s.Revision > mpa.Revision2 {
		report("MPA-7.1.1-14", 17, "Rev 1 or 2", fmt.Sprintf("Rev %d", s.Revision))
	}
	b, ok := s.Block()
	if !ok {
		return
	}
	block := fmt.Sprintf("% x", raw[mpa.StartupHeaderLen:mpa.StartupHeaderLen+protocol.EnhancedLen])
	switch {
	case !b.PeerToPeer && (raw[20]&0x40 != 0 || raw[22]&0xc0 != 0):
		report("MPA2-9.2-10", 20, "B, C and D zero where A is", block)
	case b.PeerToPeer && b.RTR == 0:
		report("MPA2-9.2-02", 20, "at least one of B, C and D where A is set", block)
	}
	if s.Kind == mpa.Request && !b.PeerToPeer && b.IRD == protocol.NotNegotiated && b.ORD == protocol.NotNegotiated {
		report("MPA2-10-03", 16, "no enhanced frame where nothing is wanted of it",
			"S=1, A=0, IRD and ORD not negotiated")
	}
}

// checkNegotiation judges the Reply against the Request.
func (r *Reader) checkNegotiation(c *tcpConn, req, rep *mpa.Startup) {
	i := 1 - c.an.a
	h := &c.half[i]
	off := h.m.base - int64(rep.Len())
	report := func(rule string, at int, expected, seen string) {
		r.verdict(c, i, rule, off+int64(at), uint64(off)+uint64(at), expected, seen)
	}
	q, enhanced := req.Block()
	p, answered := rep.Block()
	switch {
	case rep.Reject:
		return
	case rep.Revision != req.Revision:
		report("MPA-7.1.1-15", 17, fmt.Sprintf("Rev %d, that of the Request", req.Revision),
			fmt.Sprintf("Rev %d", rep.Revision))
		return
	case enhanced && !answered:
		report("MPA2-10-01", 16, "S=1, as in the Request", "S=0")
		return
	case !enhanced && answered:
		report("MPA2-10-02", 16, "S=0, as in the Request", "S=1")
		return
	case !enhanced:
		return
	}
	words := func(v uint16) string {
		if v == protocol.NotNegotiated {
			return "0x3fff (not negotiated)"
		}
		return fmt.Sprintf("%d", v)
	}
	if q.PeerToPeer != p.PeerToPeer {
		report("MPA2-9.2-04", 20, fmt.Sprintf("A=%d, as in the Request", bit(q.PeerToPeer)),
			fmt.Sprintf("A=%d", bit(p.PeerToPeer)))
	}
	if q.ORD == protocol.NotNegotiated && p.IRD != protocol.NotNegotiated {
		report("MPA2-9.1-10", 20, "IRD 0x3fff, since the Request's ORD is that", words(p.IRD))
	}
	if q.IRD == protocol.NotNegotiated && p.ORD != protocol.NotNegotiated {
		report("MPA2-9.1-12", 22, "ORD 0x3fff, since the Request's IRD is that", words(p.ORD))
	}
	if q.IRD != protocol.NotNegotiated && p.ORD != protocol.NotNegotiated && p.ORD > q.IRD {
		report("MPA2-9.1-03", 22, fmt.Sprintf("ORD of at most %d, the Request's IRD", q.IRD), words(p.ORD))
	}
}
