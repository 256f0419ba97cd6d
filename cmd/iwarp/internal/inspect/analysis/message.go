package analysis

import (
	"bytes"
	"fmt"
	"math"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

const (
	// maxRequests bounds the unanswered requests that are remembered: as many as
	// RFC 6581 can negotiate.
	maxRequests = protocol.NotNegotiated
	// recentSegments are remembered to find the one that a Terminate blames.
	recentSegments = 64
	// hintOctets of the first Send are kept to guess what it is.
	hintOctets = 96
	// lastQueue stands for all queues that RDMAP does not have.
	lastQueue = rdmap.QNAtomicResponse + 1
)

// ddpHalf is the analysis of DDP and RDMAP in a direction.
type ddpHalf struct {
	queues    [lastQueue + 1]queue
	tagged    slot
	open      *slot // the message that is coming in
	untagged  uint32
	requests  []request          // of this end, not answered
	room      int                // for requests in the array that they lie in
	uncertain bool               // requests or responses may be missing
	asked     uint64             // requests so far
	doubtful  uint64             // the last of them that may be answered by a response to another
	sink      *rdmap.ReadRequest // the last one that was answered
	ended     span               // of a Terminate
	endedAt   bool
	recent    [recentSegments]recentSegment
	segments  uint64
	sends     int
}

// queue is an untagged queue.
type queue struct {
	next  uint32
	known bool
	slot
}

// slot is a message that is coming in. known means that what comes next has to
// be its first segment if it is empty.
type slot struct {
	synced   bool
	busy     bool
	header   ddp.Header // of the first segment
	first    span
	pos      uint64
	segments int
	length   uint64
	partial  bool
	cut      bool
	payload  []byte
	answers  *request
	wrong    bool // no request that it could answer
}

// size is the memory that it takes beside itself, in octets.
func (s *slot) size() int {
	n := cap(s.payload)
	if s.answers != nil {
		n += requestMemory
	}
	return n
}

// recentSegment is a segment that was seen.
type recentSegment struct {
	header [ddp.UntaggedHeaderLen]byte
	n      int
	size   int
	frame  uint64
	fits   bool // a Read Response within what was asked for
}

func newDDPHalf() *ddpHalf {
	d := &ddpHalf{}
	d.tagged.synced = true
	for i := range d.queues {
		d.queues[i] = queue{next: 1, known: true, slot: slot{synced: true}}
	}
	return d
}

// forget is for when segments are missing.
func (d *ddpHalf) forget() {
	d.tagged, d.open = slot{}, nil
	for i := range d.queues {
		d.queues[i] = queue{}
	}
	d.doubt()
}

// ddpSegment takes the segment in an FPDU.
func (r *Reader) ddpSegment(c *tcpConn, i int, f *frameRef) {
	d := c.half[i].m.d
	h, n, err := ddp.Parse(f.ulpdu)
	if err != nil {
		r.blame(c, i, f, "DDP-4.4-01", lengthLen, "a DDP header of 14 octets, or 18 if untagged",
			fmt.Sprintf("a segment of %d octets", f.size))
		return
	}
	size := f.size - n
	if !r.opt.NoVerdicts {
		r.checkHeader(c, i, f, &h)
		r.checkOrder(c, i, f, &h, size)
	}
	c.half[i].stats.PayloadOctets += uint64(max(size, 0))
	s := r.slotOf(c, i, f, &h)
	s.segments++
	s.length += uint64(max(size, 0))
	r.keepPayload(d, s, &h, f.ulpdu[n:])
	s.cut = s.cut || f.cut
	op := rdmap.Control(h.Control).Opcode()
	if op == rdmap.OpcodeReadResponse && h.Tagged {
		r.matchRead(c, i, f, s, &h, size)
	}
	recent := &d.recent[d.segments%recentSegments]
	*recent = recentSegment{n: n, size: f.size, frame: f.latest.frame}
	copy(recent.header[:], f.ulpdu[:n])
	recent.fits = s.answers != nil && !s.answers.atomic && s.length <= uint64(s.answers.read.Size) &&
		s.answers.read.SinkSTag == h.STag && s.answers.read.SinkTO+s.length-uint64(size) == h.TO
	d.segments++
	if h.Last {
		r.message(c, i, f, s, &h)
		*s = slot{synced: true, payload: nil}
		d.open = nil
		return
	}
	d.open = s
}

// keepPayload keeps the first octets of a message.
func (r *Reader) keepPayload(d *ddpHalf, s *slot, h *ddp.Header, b []byte) {
	limit := r.opt.Payload
	if op := rdmap.Control(h.Control).Opcode(); !op.Payload() || d.sends == 0 || op == rdmap.OpcodeReadResponse ||
		op == rdmap.OpcodeWrite {
		limit = max(limit, hintOctets)
	}
	if n := min(limit-len(s.payload), len(b)); n > 0 && !s.cut {
		s.payload = append(s.payload, b[:n]...)
	}
}

// slotOf finds the message of a segment, a new one as the case may be.
func (r *Reader) slotOf(c *tcpConn, i int, f *frameRef, h *ddp.Header) *slot {
	d := c.half[i].m.d
	s := &d.tagged
	var q *queue
	if !h.Tagged {
		q = &d.queues[min(h.QN, lastQueue)]
		s = &q.slot
	}
	if d.open != nil && d.open != s {
		r.blame(c, i, f, "DDP-5.3-01", lengthLen, "another segment of the message before: its L=1 has not been",
			"a segment of another message")
	}
	if s.busy && !r.continues(c, i, f, h, s) {
		r.incomplete(c, i, s)
		*s = slot{synced: true}
	}
	if s.busy {
		return s
	}
	partial := !s.synced && (h.Tagged || h.MO != 0)
	*s = slot{synced: true, busy: true, header: *h, first: f.first, pos: f.pos, partial: partial}
	if q != nil {
		r.checkMSN(c, i, f, h, q)
		if h.MO != 0 && !partial {
			r.blame(c, i, f, "DDP-4.3-11", lengthLen+14, "MO 0 in the first segment of a message",
				fmt.Sprintf("MO %d", h.MO))
		}
		q.next, q.known = h.MSN+1, !r.mute || q.known && q.next == h.MSN
		d.untagged++
		if partial {
			s.length = uint64(h.MO)
		}
	}
	return s
}

// continues judges a segment that should belong to the message in s, and reports
// whether it does.
func (r *Reader) continues(c *tcpConn, i int, f *frameRef, h *ddp.Header, s *slot) bool {
	old := &s.header
	if h.Tagged {
		if h.STag != old.STag {
			r.blame(c, i, f, "DDP-4.2-05", lengthLen+2,
				"STag "+old.STag.String()+", that of the message's first segment", "STag "+h.STag.String())
			return false
		}
		if want := old.TO + s.length; h.TO != want {
			r.blame(c, i, f, "DDP-5.2-06", lengthLen+6, fmt.Sprintf("TO %#x", want), fmt.Sprintf("TO %#x", h.TO))
		}
		if h.Control != old.Control {
			r.blame(c, i, f, "DDP-4.2-04", lengthLen+1,
				fmt.Sprintf("RsvdULP %#02x, that of the message's first segment", old.Control),
				fmt.Sprintf("%#02x", h.Control))
		}
		return true
	}
	if h.MSN != old.MSN || h.QN != old.QN {
		r.blame(c, i, f, "DDP-4.3-10", lengthLen+10, fmt.Sprintf("MSN %d: its L=1 has not been", old.MSN),
			fmt.Sprintf("MSN %d", h.MSN))
		return false
	}
	if uint64(h.MO) != s.length {
		r.blame(c, i, f, "DDP-5.2-05", lengthLen+14, fmt.Sprintf("MO %d", s.length), fmt.Sprintf("MO %d", h.MO))
		s.length = uint64(h.MO)
	}
	if h.Control != old.Control || h.ULP32 != old.ULP32 {
		r.blame(c, i, f, "DDP-4.3-02", lengthLen+1,
			fmt.Sprintf("RsvdULP %#02x %#08x, that of the message's first segment", old.Control, old.ULP32),
			fmt.Sprintf("%#02x %#08x", h.Control, h.ULP32))
	}
	return true
}

// incomplete tells of a message that has no end.
func (r *Reader) incomplete(c *tcpConn, i int, s *slot) {
	if !s.busy || s.segments == 0 {
		return
	}
	m := r.newMessage(c, i, s, &s.header, s.first)
	m.Partial = true
	r.emit(m)
}

// newMessage makes the event without what depends on the operation.
func (r *Reader) newMessage(c *tcpConn, i int, s *slot, h *ddp.Header, at span) *Message {
	op := rdmap.Control(h.Control).Opcode()
	m := &Message{
		Head: c.headOf(EventMessage, i, at), FirstFrame: s.first.frame, Start: asTime(s.first.time),
		Op: op.String(), Opcode: uint8(op), Segments: s.segments, Length: s.length, Offset: s.pos,
		Tagged: h.Tagged, Partial: s.partial, Cut: s.cut,
	}
	if h.Tagged {
		m.STag, m.TO = STag(s.header.STag), s.header.TO
	} else {
		m.QN, m.MSN = h.QN, h.MSN
		if op.Invalidates() {
			t := STag(h.ULP32)
			m.Invalidate = &t
		}
	}
	if n := min(r.opt.Payload, len(s.payload)); n > 0 && op.Payload() {
		m.Payload = bytes.Clone(s.payload[:n])
	}
	return m
}

// message hands a whole message on.
func (r *Reader) message(c *tcpConn, i int, f *frameRef, s *slot, h *ddp.Header) {
	hf := &c.half[i]
	m := r.newMessage(c, i, s, h, f.latest)
	op := rdmap.Control(h.Control).Opcode()
	if hf.stats.Messages == nil {
		hf.stats.Messages = map[string]uint64{}
	}
	hf.stats.Messages[m.Op]++
	if s.length > math.MaxUint32 {
		r.blame(c, i, f, "DDP-5.2-02", 0, "a message below 2^32 octets", fmt.Sprintf("%d octets", s.length))
	}
	m.RTR = hf.m.fpdus == 1 && c.an.roles && i == c.an.a && c.an.neg != nil && c.an.neg.PeerToPeer && !m.Partial &&
		r.isRTR(c, op, s)
	switch op {
	case rdmap.OpcodeReadRequest:
		r.readRequest(c, i, f, m, s)
	case rdmap.OpcodeReadResponse:
		r.readResponse(c, i, f, m, s)
	case rdmap.OpcodeAtomicRequest:
		r.atomicRequest(c, i, f, m, s)
	case rdmap.OpcodeAtomicResponse:
		r.atomicResponse(c, i, f, m, s)
	case rdmap.OpcodeImmediate, rdmap.OpcodeImmediateSolicited:
		r.exactly(c, i, f, m, rdmap.ImmediateDataLen, "EXT-6.3-06")
		if v, _, err := rdmap.ParseImmediateData(s.payload); err == nil {
			u := v.Uint64()
			m.Immediate = &u
		}
	case rdmap.OpcodeTerminate:
		r.terminate(c, i, f, m, s)
	}
	r.emit(m)
	r.hintMessage(c, i, m, s)
	if !h.Tagged && h.QN == rdmap.QNSend && op.Payload() {
		hf.m.d.sends++
	}
}

// isRTR reports whether a message is a Ready To Receive indication
// (https://www.rfc-editor.org/rfc/rfc6581#section-9.2).
func (r *Reader) isRTR(c *tcpConn, op rdmap.Opcode, s *slot) bool {
	switch op {
	case rdmap.OpcodeSend:
		return s.length == 0 && c.an.rtr.Has(protocol.RTRSend)
	case rdmap.OpcodeWrite:
		return s.length == 0 && c.an.rtr.Has(protocol.RTRWrite)
	case rdmap.OpcodeReadRequest:
		q, _, err := rdmap.ParseReadRequest(s.payload)
		return err == nil && q.Size == 0 && c.an.rtr.Has(protocol.RTRRead)
	}
	return false
}

// exactly judges the length of a message that is all header.
func (r *Reader) exactly(c *tcpConn, i int, f *frameRef, m *Message, want int, rule string) {
	if m.Length != uint64(want) && !m.Partial {
		r.blame(c, i, f, rule, 0, fmt.Sprintf("%d octets behind the DDP header of %s", want, m.Op),
			fmt.Sprintf("%d", m.Length))
	}
}
