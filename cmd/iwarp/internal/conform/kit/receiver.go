package kit

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/advert"

	"github.com/go-iwarp/iwarp/iwarptest"
)

// message is an untagged message that came whole.
type message struct {
	op         uint8
	msn        uint32
	invalidate uint32
	data       []byte
}

// read is a Read Request of the kit that is not answered in full yet, or is.
type read struct {
	stag     uint32
	to       uint64
	size     uint32
	data     []byte
	complete bool
}

// memory is the kit's own, that the peer may reach.
type memory struct {
	buf []byte
}

// receiver is what is known of a connection in Full Operation: it takes the peer's
// segments, and holds the peer to the rules of a sender.
type receiver struct {
	frames   int
	next     [4]uint32 // MSN that the kit sends next, per QN
	due      [4]uint32 // MSN that is due from the peer, per QN
	maxReads int       // Read and Atomic Requests that the kit may have outstanding
	requests int       // of these that are
	served   bool      // the peer has answered one
	partial  [4]*message
	tagged   *taggedRun
	runs     []taggedRun // tagged messages that are whole

	inbox   []message // Sends and Immediate Data
	asked   []message // Read and Atomic Requests of the peer
	reads   []*read   // of the kit
	atomics []message // Atomic Responses
	mem     map[uint32]*memory
	first   []byte // the first segment
	advert  *advert.Advert
	probes  uint32
	// manual leaves the peer's empty Read Requests to the case.
	manual bool
}

// taggedRun is a tagged message.
type taggedRun struct {
	op       uint8
	stag     uint32
	to       uint64
	size     int
	segments int
	largest  int // segment, in octets
}

func (w *receiver) init() {
	*w = receiver{mem: make(map[uint32]*memory)}
	for i := range w.next {
		w.next[i], w.due[i] = 1, 1
	}
}

// msn returns the MSN that is next on a queue.
func (w *receiver) msn(qn uint32) uint32 {
	w.next[qn]++
	return w.next[qn] - 1
}

// pump takes what comes until the condition holds. If nothing comes for the time
// of d, or the connection ends before, it tells what happened instead.
func (s *session) pump(d time.Duration, until func() bool) (outcome, bool) {
	const tooMany = 1 << 20 // a peer that never stops
	for n := 0; !until() && n < tooMany; n++ {
		e := s.p.Await(d)
		switch e.Kind {
		case iwarptest.EventFrame:
			s.note("<- %s", iwarptest.Describe(e.Segment))
			s.frames++
			if s.first == nil {
				s.first = e.Segment
				s.opened()
			}
			if o, wrong := s.take(e.Segment); wrong != "" {
				s.fail("the peer sends %s: %s", iwarptest.Describe(e.Segment), wrong)
			} else if o != nil {
				return *o, false
			}
		case iwarptest.EventFIN:
			s.note("<- FIN")
			if e.Err != nil {
				s.fail("the peer closes within an FPDU: %v (RFC 5044 section 7.2)", e.Err)
			}
			return outcome{kind: closes, detail: "FIN"}, false
		case iwarptest.EventReset:
			s.note("<- %v", e.Err)
			return outcome{kind: closes, detail: "reset"}, false
		case iwarptest.EventBadFrame:
			s.note("<- %x", e.Segment[:min(len(e.Segment), 80)])
			s.fail("the peer sends a malformed FPDU: %v (RFC 5044 section 4)", e.Err)
		case iwarptest.EventSilence:
			return outcome{kind: silent, detail: fmt.Sprintf("for %v", d)}, false
		}
	}
	return outcome{}, true
}

// take handles a segment of the peer's. wrong says which rule of a sender it
// breaks.
func (s *session) take(seg []byte) (o *outcome, wrong string) {
	tagged := len(seg) > 0 && seg[0]&0x80 != 0
	header := 18
	if tagged {
		header = 14
	}
	switch {
	case len(seg) < header:
		return nil, "it is shorter than its DDP header (RFC 5041 section 4)"
	case seg[0]&3 != 1:
		return nil, "the DDP version must be 1 (RFC 5041 section 4.1)"
	case seg[0]&0x3c != 0:
		return nil, "the reserved bits of DDP must be sent as zero (RFC 5041 section 4.1)"
	case seg[1]>>6 != 1:
		return nil, "the RDMAP version must be 1 (RFC 5040 section 4.1)"
	case seg[1]&0x30 != 0:
		return nil, "the reserved bits of RDMAP must be sent as zero (RFC 5040 section 4.1)"
	}
	op := seg[1] & 0xf
	if tagged {
		return nil, s.takeTagged(op, seg)
	}
	return s.takeUntagged(op, seg)
}

func (s *session) takeTagged(op uint8, seg []byte) (wrong string) {
	if op != 0 && op != 2 {
		return fmt.Sprintf("opcode %d must be untagged (RFC 5040 section 4.1)", op)
	}
	stag, to, data, last := binary.BigEndian.Uint32(seg[2:]), binary.BigEndian.Uint64(seg[6:]), seg[14:],
		seg[0]&0x40 != 0
	run := s.tagged
	switch {
	case run == nil:
		run = &taggedRun{op: op, stag: stag, to: to}
		s.tagged = run
	case run.op != op || run.stag != stag:
		return "all segments of a tagged message have one opcode and STag (RFC 5041 section 4.2)"
	case to != run.to+uint64(run.size):
		return fmt.Sprintf("the TO must be %#x, where the last segment ended (RFC 5041 section 5.2)",
			run.to+uint64(run.size))
	case len(data) == 0:
		return "an empty segment within a message (RFC 5041 section 5.2)"
	}
	run.size += len(data)
	run.segments++
	run.largest = max(run.largest, len(seg))
	if op == 2 {
		wrong = s.takeResponse(stag, to, data, last)
	} else {
		wrong = s.takeWrite(stag, to, data)
	}
	if last {
		s.runs = append(s.runs, *run)
		s.tagged = nil
	}
	return wrong
}

func (s *session) takeWrite(stag uint32, to uint64, data []byte) string {
	if len(data) == 0 {
		return ""
	}
	m := s.mem[stag]
	if m == nil {
		return "nobody has told the peer of this STag (RFC 5040 section 5.1)"
	}
	if to > uint64(len(m.buf)) || uint64(len(data)) > uint64(len(m.buf))-to {
		return "it is out of the bounds that the peer was told (RFC 5040 section 5.1)"
	}
	copy(m.buf[to:], data)
	return ""
}

func (s *session) takeResponse(stag uint32, to uint64, data []byte, last bool) string {
	var r *read
	for _, x := range s.reads {
		if !x.complete {
			r = x
			break
		}
	}
	switch {
	case r == nil:
		return "no Read Request is outstanding (RFC 5040 section 5.2.2)"
	case r.stag != stag:
		return fmt.Sprintf("the oldest Read Request has the sink STag %08x: Responses come in the order of Requests "+
			"(RFC 5040 section 5.2.2)",
			r.stag)
	case to != r.to+uint64(len(r.data)):
		return fmt.Sprintf("the sink's TO must be %#x (RFC 5040 section 4.4)", r.to+uint64(len(r.data)))
	}
	r.data = append(r.data, data...)
	if len(r.data) > int(r.size) || last && len(r.data) != int(r.size) {
		return fmt.Sprintf("%d octets were asked for (RFC 5040 section 5.2.1)", r.size)
	}
	if r.complete = last; last {
		s.requests--
		s.served = true
	}
	return ""
}

// queues is which queue an opcode belongs to, from 3 on; -1 for tagged ones.
var queues = [16]int{-1, 1, -1, 0, 0, 0, 0, 2, 0, 0, 1, 3, -1, -1, -1, -1}

func (s *session) takeUntagged(op uint8, seg []byte) (*outcome, string) {
	invalidate, qn, msn, mo := binary.BigEndian.Uint32(seg[2:]), binary.BigEndian.Uint32(seg[6:]),
		binary.BigEndian.Uint32(seg[10:]), binary.BigEndian.Uint32(seg[14:])
	switch {
	case queues[op] < 0:
		return nil, fmt.Sprintf("opcode %d is not for untagged messages (RFC 5040 section 4.1)", op)
	case uint32(queues[op]) != qn:
		return nil, fmt.Sprintf("opcode %d belongs to queue %d (RFC 5040 section 4.1)", op, queues[op])
	case invalidate != 0 && op != 4 && op != 6:
		return nil, "the Invalidate STag must be sent as zero (RFC 5040 section 4.1)"
	case msn != s.due[qn]:
		return nil, fmt.Sprintf("the MSN must be %d (RFC 5041 section 4.3)", s.due[qn])
	}
	m := s.partial[qn]
	if m == nil {
		m = &message{op: op, msn: msn, invalidate: invalidate}
		s.partial[qn] = m
	}
	switch {
	case m.op != op || m.invalidate != invalidate:
		return nil, "all segments of a message have one RsvdULP field (RFC 5041 section 4.3)"
	case int(mo) != len(m.data):
		return nil, fmt.Sprintf("the MO must be %d (RFC 5041 section 5.2)", len(m.data))
	case len(m.data) > 0 && len(seg) == 18:
		return nil, "an empty segment within a message (RFC 5041 section 5.2)"
	}
	m.data = append(m.data, seg[18:]...)
	if seg[0]&0x40 == 0 {
		return nil, ""
	}
	s.partial[qn] = nil
	s.due[qn]++
	return s.deliver(m)
}

// exact are the lengths that some messages must have.
var exact = map[uint8]int{1: 28, 8: 8, 9: 8, 10: 52, 11: 12}

func (s *session) deliver(m *message) (*outcome, string) {
	if n, ok := exact[m.op]; ok && len(m.data) != n {
		return nil, fmt.Sprintf("%d octets after the DDP header, %d are due (RFC 5040 section 4, RFC 7306 section 4)",
			len(m.data), n)
	}
	switch m.op {
	case 7:
		o, wrong := terminateOutcome(iwarptest.Untagged(iwarptest.UntaggedHeader{
			Opcode: 7, Last: true, QN: 2, MSN: m.msn,
		},
			m.data))
		return &o, wrong
	case 1:
		if binary.BigEndian.Uint32(m.data[12:]) == 0 && !s.manual {
			s.send(iwarptest.ReadResponse(binary.BigEndian.Uint32(m.data), binary.BigEndian.Uint64(m.data[4:]), nil))
			return nil, ""
		}
		s.asked = append(s.asked, *m)
	case 10:
		s.asked = append(s.asked, *m)
	case 11:
		s.atomics = append(s.atomics, *m)
		s.requests--
		s.served = true
	default:
		if s.isRTR(m) {
			return nil, ""
		}
		if a := advert.Parse(m.data); a != nil && s.advert == nil {
			s.advert = a
			return nil, ""
		}
		s.inbox = append(s.inbox, *m)
	}
	return nil, ""
}

// isRTR reports whether a message is the RTR of an initiator that was told to send
// one of that kind: it is not the ULP's (https://www.rfc-editor.org/rfc/rfc6581#section-9.2).
func (s *session) isRTR(m *message) bool {
	return s.k.o.Role == Responder && m.msn == 1 && m.op == 3 && len(m.data) == 0 &&
		s.mine.a && s.their.a && s.mine.rtr&s.their.rtr == rtrSend
}

// readZero sends a Read Request of no octets: it must be answered whatever is
// above the endpoint.
func (s *session) readZero() *read {
	s.probes++
	return s.read(0x50000000+s.probes, uint64(s.probes)<<32, 0, 0, 0)
}

func (s *session) read(sink uint32, sinkTO uint64, size, src uint32, srcTO uint64) *read {
	r := &read{stag: sink, to: sinkTO, size: size}
	s.reads = append(s.reads, r)
	s.send(iwarptest.ReadRequest(s.msn(1), sink, sinkTO, size, src, srcTO))
	return r
}

// probe finds out whether the connection works: it asks for a Read of no octets
// (RFC 5040 section 5.2.1), or for an echo where no Reads are allowed.
func (s *session) probe() outcome {
	if s.maxReads == 0 {
		if s.k.o.ULP == Target && s.advert == nil {
			if o, ok := s.pump(s.timeout(), func() bool { return s.advert != nil }); !ok {
				return o
			}
		}
		if s.advert == nil {
			s.unclear("no Read Request is allowed, so that the kit cannot tell whether the connection works")
		}
		n := len(s.inbox)
		s.send(iwarptest.Send(s.msn(0), []byte("Eprobe")))
		o, _ := s.pump(s.timeout(), func() bool { return len(s.inbox) > n })
		return o
	}
	if o, ok := s.pump(s.timeout(), func() bool { return s.requests < s.maxReads }); !ok {
		return o
	}
	r := s.readZero()
	o, _ := s.pump(s.timeout(), func() bool { return r.complete })
	if o.kind == terminates && !s.their.block && !s.served && s.refusesReads(o) {
		s.unclear("the peer refuses the kit's Read Request (%v): without the enhanced startup the depth is the "+
			"programs' to agree on (RFC 6581 section 4.1)",
			o)
	}
	return o
}

// refusesReads reports whether a Terminate that follows the probe says that there
// are too many Requests: a depth of 0 is legal too, where nothing has been said
// about it. 2/0/07 is what Linux siw makes of 0/2/07, with a header that nobody can
// find. 1/2/02 says that no buffer waits for the Request, or for any other message.
func (s *session) refusesReads(o outcome) bool {
	switch o.code {
	case 0x0207, 0x2007:
		return s.k.o.ULP != Target
	case 0x1202:
		h := parseEcho(o.body).ddp
		return len(h) == 18 && isRequest(h) && binary.BigEndian.Uint32(h[10:]) == s.next[1]-1
	}
	return false
}

// works wants the connection to work.
func (s *session) works(why string) {
	if o := s.probe(); o.kind != goesOn {
		s.fail("%s: the peer %v, where the connection should go on", why, s.close2(o))
	}
}

// close2 completes an outcome: after a Terminate nothing may come but the end.
func (s *session) close2(o outcome) outcome {
	if o.kind != terminates {
		return o
	}
	if e := parseEcho(o.body); e.wrong != "" {
		s.note("   the Terminate is malformed: %s", e.wrong)
	}
	if w, ok := s.p.Conn.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	}
	e := s.p.Await(s.timeout())
	switch e.Kind {
	case iwarptest.EventFrame:
		s.fail("the peer sends %s after its Terminate (RFC 5040 section 5.4)", iwarptest.Describe(e.Segment))
	case iwarptest.EventSilence:
		s.fail("the connection is still open %v after the Terminate and the kit's FIN (RFC 5040 section 7)",
			s.timeout())
	case iwarptest.EventBadFrame:
		s.fail("the peer sends a malformed FPDU after its Terminate: %v", e.Err)
	}
	s.note("   the connection has ended")
	return o
}

// judge holds what the peer does now, after the kit has sent what the case is
// about, against what is legal.
func (s *session) judge() outcome {
	return s.verdict(s.close2(s.probe()))
}

// judgeEnd is judge for a stream that is not in order any more, so that nothing
// can be asked: the peer ends it, or waits for more.
func (s *session) judgeEnd(d time.Duration) {
	o, _ := s.pump(d, func() bool { return false })
	s.verdict(s.close2(o))
}

func (s *session) verdict(o outcome) outcome {
	if !o.matches(s.c.Legal) {
		s.fail("the peer %v; legal is: %s", o, list(s.c.Legal))
	}
	return o
}

// same compares octets.
func (s *session) same(what, section string, got, want []byte) {
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	s.fail("%s: %d octets, %d are due; the first difference is at octet %d (%s)", what, len(got), len(want), at,
		section)
}

// bye ends a good connection in good order.
func (s *session) bye() {
	w, ok := s.p.Conn.(interface{ CloseWrite() error })
	if !ok {
		return
	}
	_ = w.CloseWrite()
	o, _ := s.pump(s.timeout(), func() bool { return false })
	switch {
	case o.kind == terminates && s.k.o.ULP != Target:
		s.close2(o) // a kernel that tears down a queue pair may send one
	case o.kind != closes:
		s.fail("after the kit's FIN the peer %v, where it should close its half (RFC 5041 section 6.2.1)", o)
	}
}
