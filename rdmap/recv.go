package rdmap

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// Receive is the receive owner's work: it takes one DDP segment with its place
// in the sender's order, places it and acts on the messages that it completes.
// seg is not kept.
//
// An error has ended the stream; the caller wakes the send owner, which sends
// the Terminate that is due, and goes on receiving until the peer's FIN.
// Segments after an error are dropped without another one.
func (s *Stream) Receive(order uint64, seg []byte) *protocol.Error {
	// Rule: DDP-3-08, RDMAP-7-01, DDP-6.2-03
	if s.Failed() {
		s.EndBatch()
		s.StopReceive()
		return nil
	}
	// Rule: DDP-6.2.1-03
	if s.peerClosed { // which the receive owner alone changes
		s.EndBatch()
		err := &protocol.Error{
			Code: protocol.DDPLocalCatastrophic, Section: "RFC 5041 section 6.2.1",
			Detail: fmt.Sprintf("segment of %d octets after the peer closed its half", len(seg)),
		}
		s.receiveFailed(err)
		return err
	}
	s.segLen = len(seg)
	if err := s.recv.Segment(order, seg); err != nil {
		if s.told != nil {
			// DDP has put the Terminate's own header where the segment of ours
			// belongs that the peer echoes, if it does.
			err = s.told
		}
		s.receiveFailed(err)
		return err
	}
	if !s.opened {
		s.open()
	}
	return nil
}

// EndBatch ends a batch of segments: see [Config].Batched. The receive owner calls
// it, also when there is nothing to end.
func (s *Stream) EndBatch() {
	s.recv.EndBatch()
	s.countFresh()
}

// countFresh makes octets placed in a batch known. An atomic addition for each
// segment would cost what the lock held over the batch spares.
func (s *Stream) countFresh() {
	if s.fresh > 0 {
		s.placed.Add(s.fresh)
		s.fresh = 0
	}
}

// open notes the first valid segment: from now on the responder may send, as the
// LLP knows.
func (s *Stream) open() {
	s.opened = true
	s.wake.Store(true)
}

func (s *Stream) receiveFailed(err *protocol.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Rule: DDP-6.2.2-03, DDP-7.1-14, RDMAP-3.2-03, RDMAP-5.1-08, RDMAP-5.2.1-14, RDMAP-5.2.2-07, RDMAP-5.3-14
	// Rule: RDMAP-5.4-09, RDMAP-7.1-03, RDMAP-5.4-07
	s.fail(err, !err.Remote && !fromTerminate(err)) // no Terminate answers a Terminate
	if b, ok := s.recv.Blamed(QNSend); ok && b.Token != tokenRTR && s.err == err {
		// Rule: RDMAP-7.1-01, RDMAP-5.3-14
		s.delivery = Delivery{Buffer: b, Err: err}
		_ = s.deliver() // it has failed already
	}
	s.busy &^= receiveOwner
	s.settle()
}

// fromTerminate reports whether it was a Terminate that broke a rule. No
// Terminate answers a Terminate, not even one with a wrong MSN.
func fromTerminate(err *protocol.Error) bool {
	if err.Offender == nil {
		return false
	}
	h, _, perr := ddp.Parse(err.Offender.DDPHeader)
	c := Control(h.Control)
	return perr == nil && h.Version == c.Version() && c.Opcode() == OpcodeTerminate
}

// upcalls is the Stream as DDP's ULP sees it.
type upcalls Stream

// CheckTagged implements ddp.ULP: which memory a Write or a Read Response may
// reach. A Write reaches what is in the table and has the right for it; a
// Response reaches the sink of the Read that it answers, and nothing else.
func (u *upcalls) CheckTagged(h *ddp.Header, n int) (ddp.Target, *protocol.Error) {
	if err := Control(h.Control).Check((*Stream)(u).send.version, true, 0); err != nil {
		return ddp.Target{}, err
	}
	s := (*Stream)(u)
	if Control(h.Control).Opcode() == OpcodeReadResponse {
		return s.responseTarget(h, n)
	}
	// Rule: RDMAP-5.1-04
	if n == 0 {
		return ddp.Target{}, nil
	}
	s.fresh += uint64(n)
	if !s.cfg.Batched {
		s.countFresh()
	}
	// Rule: RDMAP-5.1-03, DDP-7.1-08
	return ddp.Target{Region: s.cfg.Table.Lookup(h.STag), Need: ddp.RemoteWrite}, nil
}

func (s *Stream) responseTarget(h *ddp.Header, n int) (ddp.Target, *protocol.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := s.outstanding.oldest()
	if oldest == nil {
		return ddp.Target{}, strayResponse("STag %v: no RDMA Read is outstanding", h.STag)
	}
	if n == 0 {
		return ddp.Target{}, nil // matched when it is delivered
	}
	o, first := s.outstanding.find(h.STag)
	// Rule: RDMAP-5.5-13
	if o == nil || (!first && !s.cfg.Unordered) {
		return ddp.Target{}, strayResponse("STag %v: not the sink of the oldest outstanding RDMA Read", h.STag)
	}
	s.readOctets += uint64(n)
	return ddp.Target{Sink: o.sink}, nil
}

func opcodeError(format string, args ...any) *protocol.Error {
	return &protocol.Error{
		Code: protocol.RDMAPOpcode, Section: "RFC 5040 section 7.2", Detail: fmt.Sprintf(format, args...),
	}
}

func strayResponse(format string, args ...any) *protocol.Error {
	return &protocol.Error{
		Code: protocol.DDPTaggedInvalidSTag, Section: "RFC 5040 section 5.2.2",
		Detail: "RDMA Read Response: " + fmt.Sprintf(format, args...),
	}
}

// CheckUntagged implements ddp.ULP.
func (u *upcalls) CheckUntagged(h *ddp.Header, _ int) *protocol.Error {
	// Rule: RDMAP-7.2-01, EXT-8.2-01
	return Control(h.Control).Check((*Stream)(u).send.version, false, h.QN)
}

// Deliver implements ddp.ULP: the one place where each kind of message is acted
// upon.
func (u *upcalls) Deliver(m *ddp.Message) *protocol.Error {
	s := (*Stream)(u)
	op := Control(m.Header.Control).Opcode()
	// Rule: RDMAP-3.2-02, RDMAP-5.1-02
	if op == OpcodeWrite {
		// Not delivered to the ULP (RFC 5040 section 5.1), so that nobody need be
		// kept out.
		s.writes.Add(1)
		return nil
	}
	s.countFresh() // whoever hears of the message may look at the counters
	s.mu.Lock()
	s.stats.MessagesReceived++
	s.noteOpcode(op)
	// Rule: RDMAP-5.5-04, RDMAP-5.3-08, RDMAP-5.1-07
	err := s.act(op, m)
	s.mu.Unlock()
	return err
}

// act is Deliver for what is not a Write. The stream is locked.
func (s *Stream) act(op Opcode, m *ddp.Message) *protocol.Error {
	switch op {
	case OpcodeReadResponse:
		return s.deliverReadResponse()
	case OpcodeReadRequest:
		return s.deliverReadRequest(m)
	case OpcodeAtomicRequest:
		return s.deliverAtomicRequest(m)
	case OpcodeAtomicResponse:
		return s.deliverAtomicResponse(m)
	// Rule: RDMAP-5.4-04
	case OpcodeTerminate:
		return s.deliverTerminate(m)
	case OpcodeImmediate, OpcodeImmediateSolicited:
		return s.deliverImmediate(op, m)
	default:
		return s.deliverSend(op, m)
	}
}

// sendSource gives QN 0 buffers, with two exceptions: the first message of a
// peer-to-peer connection may be an RTR, which is the library's, and Immediate
// Data is handed up in the Delivery, whatever the size of the buffer it takes.
type sendSource Stream

// tokenRTR marks the buffer of an RTR Send. A source's own tokens are smaller.
const tokenRTR = ^uint64(0)

// Take implements ddp.Source.
func (src *sendSource) Take(h *ddp.Header) (ddp.Buffer, bool) {
	s := (*Stream)(src)
	if s.isRTR(h) {
		return ddp.Buffer{Token: tokenRTR}, true
	}
	// Rule: RDMAP-5.3-03, RDMAP-5.3-04, EXT-6.3-03
	b, ok := s.cfg.Recv.Take(h)
	if op := Control(h.Control).Opcode(); ok && (op == OpcodeImmediate || op == OpcodeImmediateSolicited) {
		b.SG, b.Max = s.imm.take(h.MSN), 0
	}
	if s.grower == nil {
		b.Max = 0
	}
	return b, ok
}

// Grow implements ddp.Grower, for a source of the ULP's that is one: only its
// buffers have a Max.
func (src *sendSource) Grow(h *ddp.Header, b *ddp.Buffer, n uint64) *protocol.Error {
	return (*Stream)(src).grower.Grow(h, b, n)
}

// immediates are the places of the Immediate Data messages that are coming in, by
// their MSN: more than one only on an LLP without order.
type immediates struct {
	live map[uint32]*immediate
	free []*immediate
}

type immediate struct {
	octets ImmediateData
	sg     [1][]byte
}

func (m *immediates) take(msn uint32) [][]byte {
	var i *immediate
	if n := len(m.free); n > 0 {
		i, m.free = m.free[n-1], m.free[:n-1]
	} else {
		i = new(immediate)
		i.sg[0] = i.octets[:]
	}
	if m.live == nil {
		m.live = make(map[uint32]*immediate)
	}
	m.live[msn] = i
	return i.sg[:]
}

// give returns the data of a message that is whole. ok is false if its first
// segment had another opcode.
func (m *immediates) give(msn uint32) (data ImmediateData, ok bool) {
	i := m.live[msn]
	if i == nil {
		return data, false
	}
	delete(m.live, msn)
	m.free = append(m.free, i)
	return i.octets, true
}

// isRTR reports whether h begins a zero-length Send as the very first message
// on a responder that agreed to such an RTR.
func (s *Stream) isRTR(h *ddp.Header) bool {
	// Rule: MPA2-9.2-08
	return !s.opened && !s.cfg.Initiator && s.cfg.RTR.Has(protocol.RTRSend) &&
		Control(h.Control).Opcode() == OpcodeSend && h.Last && h.MSN == 1 && s.segLen == ddp.UntaggedHeaderLen
}

func (s *Stream) deliverSend(op Opcode, m *ddp.Message) *protocol.Error {
	if m.Buffer.Token == tokenRTR {
		return nil
	}
	if _, is := s.imm.live[m.Header.MSN]; is {
		return opcodeError("%v ends a message that began as Immediate Data", op)
	}
	// Rule: RDMAP-3.2-01, RDMAP-5.3-06
	s.delivery = Delivery{Opcode: op, Length: m.Length, Buffer: m.Buffer}
	// Rule: RDMAP-5.3-12
	if op.Invalidates() {
		// Rule: RDMAP-4.1-02, RDMAP-5.3-10
		stag := ddp.STag(m.Header.ULP32)
		if err := s.cfg.Table.RemoteInvalidate(stag, s.cfg.Peer.PD, s.cfg.Peer.Stream); err != nil {
			return err
		}
		s.delivery.Invalidated = stag
	}
	s.stats.PayloadReceived += uint64(m.Length)
	return s.deliver()
}

func (s *Stream) deliverImmediate(op Opcode, m *ddp.Message) *protocol.Error {
	// Rule: EXT-6.3-07
	if m.Length != ImmediateDataLen {
		return lengthError(op, m.Length, ImmediateDataLen, "RFC 7306 section 6.3")
	}
	data, ok := s.imm.give(m.Header.MSN)
	if !ok {
		return opcodeError("%v ends a message that began as a Send", op)
	}
	s.delivery = Delivery{Opcode: op, Length: m.Length, Buffer: m.Buffer, Immediate: data.Uint64()}
	return s.deliver()
}

// deliver hands a message up. The error is the handler's, which could not take it.
func (s *Stream) deliver() *protocol.Error {
	// Rule: RDMAP-5.3-08, EXT-6.3-04
	err := s.cfg.Handler.Delivered(&s.delivery)
	s.delivery = Delivery{} // keeps nothing of the source's
	return err
}

func lengthError(op Opcode, got uint32, want int, section string) *protocol.Error {
	return &protocol.Error{
		Code: protocol.RDMAPOperationUnspecified, Section: section,
		Detail: fmt.Sprintf("%v of %d octets: it has exactly %d", op, got, want),
	}
}

func (s *Stream) deliverReadRequest(m *ddp.Message) *protocol.Error {
	// Rule: RDMAP-4.2-01, RDMAP-4.4-01
	if m.Length != ReadRequestLen {
		return lengthError(OpcodeReadRequest, m.Length, ReadRequestLen, "RFC 5040 section 4.4")
	}
	slot := s.inbound.At(m.Buffer.Token)
	r, _, err := ParseReadRequest(slot.octets[:])
	if err != nil {
		return lengthError(OpcodeReadRequest, m.Length, ReadRequestLen, "RFC 5040 section 4.4")
	}
	slot.read, slot.header, slot.isAtomic = r, m.Header, false
	if err := s.checkSource(&r); err != nil {
		return readOffender(err, &m.Header, &r)
	}
	// Rule: RDMAP-5.2.1-05
	s.inboundReady()
	return nil
}

func (s *Stream) deliverAtomicRequest(m *ddp.Message) *protocol.Error {
	if m.Length != AtomicRequestLen {
		return lengthError(OpcodeAtomicRequest, m.Length, AtomicRequestLen, "RFC 7306 section 5.2.1")
	}
	slot := s.inbound.At(m.Buffer.Token)
	a, _, err := ParseAtomicRequest(slot.octets[:])
	if err != nil {
		return lengthError(OpcodeAtomicRequest, m.Length, AtomicRequestLen, "RFC 7306 section 5.2.1")
	}
	// Rule: EXT-5-02, EXT-5.2.1-10
	if a.Op != AtomicFetchAdd && a.Op != AtomicCmpSwap {
		return &protocol.Error{
			Code: protocol.RDMAPOpcode, Section: "RFC 7306 section 5.2.1",
			Detail: fmt.Sprintf("atomic operation code %d: neither FetchAdd (0) nor CmpSwap (2)", uint8(a.Op)),
		}
	}
	slot.request, slot.header, slot.isAtomic = a, m.Header, true
	// Rule: EXT-5.2.1-08, EXT-5.2.1-09
	s.inboundReady()
	return nil
}

// inboundReady lets the send path answer. The receive path goes on at once:
// it must never wait for the send path, or two ends that both do so hang.
func (s *Stream) inboundReady() {
	// Rule: RDMAP-5.5-06, EXT-5.4-02
	s.inbound.ready++
	s.wake.Store(true)
}

func (s *Stream) deliverReadResponse() *protocol.Error {
	// Rule: RDMAP-5.5-05
	o := s.outstanding.oldest()
	if o == nil || o.isAtomic {
		return strayResponse("no RDMA Read is outstanding")
	}
	if o.size > 0 {
		// Rule: RDMAP-5.2.2-05
		if missing := o.sink.FirstMissing(); missing != uint64(o.size) {
			return &protocol.Error{
				Code: protocol.RDMAPOperationUnspecified, Section: "RFC 5040 section 5.2.2",
				Detail: fmt.Sprintf("RDMA Read Response ends without octet %d of the %d that were asked for", missing,
					o.size),
			}
		}
	}
	s.placed.Add(uint64(o.size))
	// Rule: RDMAP-5.2.2-03
	s.responded(o, 0)
	return nil
}

func (s *Stream) deliverAtomicResponse(m *ddp.Message) *protocol.Error {
	// Rule: EXT-5.2.2-06
	if m.Length != AtomicResponseLen {
		return lengthError(OpcodeAtomicResponse, m.Length, AtomicResponseLen, "RFC 7306 section 5.2.2")
	}
	// Rule: EXT-5.2.2-05
	o := s.outstanding.oldest()
	if o == nil || !o.isAtomic {
		return opcodeError("Atomic Response while no atomic is the oldest request outstanding")
	}
	r, _, err := ParseAtomicResponse(o.reply[:])
	// Rule: EXT-5-05, EXT-5.2.2-06
	if err != nil || r.ID != o.id {
		return &protocol.Error{
			Code: protocol.RDMAPOperationUnspecified, Section: "RFC 7306 section 5.2.2",
			Detail: fmt.Sprintf("Atomic Response has request identifier %d: %d is due", r.ID, o.id),
		}
	}
	s.responded(o, r.Original)
	return nil
}

// responded completes the oldest outstanding request.
func (s *Stream) responded(o *outstanding, original uint64) {
	e := s.queue.At(o.entry)
	// Rule: RDMAP-5.5-13
	e.state, e.original = entryDone, original
	s.outstanding.pop()
	s.complete()
	if s.queue.next < s.queue.tail || s.refuses() {
		s.wake.Store(true) // something may have waited for ORD, a fence or the end
	}
}

// terminateSource always has a buffer: one Terminate must find its place
// (RFC 5040 section 5.4).
type terminateSource Stream

// Take implements ddp.Source.
func (src *terminateSource) Take(*ddp.Header) (ddp.Buffer, bool) {
	// Rule: RDMAP-5.4-02, RDMAP-5.4-03
	return ddp.Buffer{SG: [][]byte{make([]byte, maxTerminateLen)}}, true
}

// maxTerminateLen has room for a Terminate with everything in it and more.
const maxTerminateLen = 128

func (s *Stream) deliverTerminate(m *ddp.Message) *protocol.Error {
	term, _, err := ParseTerminate(m.Buffer.SG[0][:m.Length])
	if err != nil {
		return &protocol.Error{ // which fromTerminate keeps from being sent
			Code: protocol.RDMAPOperationUnspecified, Section: "RFC 5040 section 4.8",
			Detail: fmt.Sprintf("Terminate of %d octets cannot be read", m.Length), Err: err,
		}
	}
	// An initiator alone sends the errors of startup, and before anything else
	// (RFC 6581 section 9).
	// Rule: RDMAP-5.4-05, RDMAP-5.4-08, MPA2-9.1-07
	s.told = term.err(s.cfg.Initiator || s.opened)
	return s.told
}

// lost wraps an error of the network in MPA's error 1.
func lost(err error) *protocol.Error {
	var perr *protocol.Error
	if errors.As(err, &perr) {
		return perr
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return &protocol.Error{Code: protocol.MPAConnectionLost, Section: "RFC 5044 section 8", Err: err}
}
