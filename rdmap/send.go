package rdmap

import (
	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// What the send owner is in the middle of.
const (
	sendingNothing = iota
	sendingRequest
	sendingResponse  // RDMA Read Response
	sendingAtomic    // Atomic Response
	sendingTerminate // the last message of a stream
	sendingNudge     // see Nudge
)

// sender is the send owner's state: the message being cut, and the MSNs of
// each queue. DDP sends messages whole and in order, so there is one at a time.
type sender struct {
	out      ddp.Outgoing
	kind     int
	request  inbound
	begun    bool      // of its segments some are queued and some are not
	tags     bool      // it is a tagged message
	released bool      // the inbound slot of request is free again
	at       uint64    // TO of the next octet of a Read Response
	msn      [4]uint32 // of the latest message
	version  uint8     // DV and RV
	header   []byte    // scratch for the RDMAP header of responses and the Terminate
	payload  [1][]byte // scratch for their gather list
	respond  bool      // whose turn it is when both sides have work
	copied   int64     // octets of Read Responses in the LLP's batch
	bound    int64     // of them so many, or more, were asked for
	queued   uint64    // requests before this index are in the LLP's batch or beyond
	sent     Stats     // what has been queued since batchTaken, for the stream's counters
	reading  bool      // the LLP has a segment in hand, and may read the memory of others
	finished bool      // nothing will be sent any more
	nudge    bool      // an empty Write is due; under the stream's lock
}

// idle says that no message is in hand any more, and keeps nothing of the memory of
// the last one: a region's may be unmapped, or somebody else's, when it is closed.
func (t *sender) idle() {
	t.kind, t.begun = sendingNothing, false
	t.out.Reset()
	t.payload[0] = nil
}

// control returns the control octet of a message, with the reserved bits zero.
// Rule: RDMAP-4.1-01, RDMAP-4.1-07, RDMAP-3.1-04, RDMAP-4.1-06
func (t *sender) control(op Opcode) uint8 { return t.version<<6 | uint8(op) }

func (t *sender) untagged(op Opcode, ulp uint32) ddp.Header {
	qn := op.QN()
	// Rule: DDP-4.3-07, DDP-4.3-08, DDP-4.3-09
	t.msn[qn]++ // 1 is the first, and 0 follows 2^32-1 (RFC 5041 section 4.3)
	// Rule: RDMAP-4.1-02, RDMAP-4.1-03, EXT-4.1-02, RDMAP-3.1-04
	return ddp.Header{Last: true, Version: t.version, Control: t.control(op), ULP32: ulp, QN: qn, MSN: t.msn[qn]}
}

func (t *sender) tagged(op Opcode, stag ddp.STag, to uint64) ddp.Header {
	return ddp.Header{Tagged: true, Last: true, Version: t.version, Control: t.control(op), STag: stag, TO: to}
}

// Progress says where Transmit has left things.
type Progress int

// The outcomes of Transmit.
const (
	Idle     Progress = iota // nothing to send now
	Blocked                  // the LLP takes no more at the moment: call again with wait
	More                     // one batch has gone and there is more to send
	Finished                 // nothing will ever be sent again: half-close the LLP
)

// Transmit is the send owner's work: it cuts the messages that are due into
// segments, hands one batch of them to the LLP and completes what the LLP has
// taken. With wait false it does not block; with wait true it blocks until the
// LLP has taken the batch.
//
// An error is the LLP's. It has already ended the stream; the caller closes the
// LLP. A stream that ended otherwise gives Finished once its Terminate, if it
// owes one, has gone.
func (s *Stream) Transmit(llp ddp.LLP, wait bool) (Progress, error) {
	if s.send.finished {
		return Finished, nil
	}
	maySend := llp.MaySend()
	if maySend {
		if err := s.guardedFill(llp); err != nil {
			return s.sendFailed(err)
		}
	} else if s.silenced(llp) {
		return s.finishSend(), nil
	}
	if llp.Buffered() {
		done, err := llp.Flush(wait)
		if err != nil {
			s.lostSource(err)
			return s.sendFailed(err)
		}
		if !done {
			return Blocked, nil
		}
	}
	s.mu.Lock()
	// Rule: RDMAP-5.5-09
	s.batchTaken()
	p := s.progress(maySend)
	s.mu.Unlock()
	return p, nil
}

// silenced reports whether a responder that may not send yet never will: its stream
// has failed, so that it owes no Terminate either (RFC 5044 section 7.1.2 rule 4),
// or there is something to send and the peer has closed its half before its first
// message, which fails the stream.
func (s *Stream) silenced(llp ddp.LLP) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// What the peer sent before its FIN has been seen, now that the FIN has.
	if s.err == nil && s.peerClosed && !s.queue.empty() && !llp.MaySend() {
		s.fail(&protocol.Error{
			Code: protocol.MPAConnectionLost, Section: "RFC 5044 section 7.1.2",
			Detail: "the peer closed its half before its first message, so that this end may send nothing",
			Err:    errNeverOpen,
		}, false)
	}
	return s.err != nil && !llp.MaySend()
}

// fill queues segments until the batch is full or nothing is due.
func (s *Stream) fill(llp ddp.LLP) error {
	t := &s.send
	for !llp.Full() {
		if t.kind == sendingNothing && !s.startNext() {
			return nil
		}
		// Rule: RDMAP-5.4-07, DDP-3-08, RDMAP-7-01
		if t.kind != sendingTerminate && s.Failed() && !s.finishes() {
			t.idle()
			continue
		}
		if t.kind == sendingResponse && !s.mayHold() {
			return nil // the rest goes in batches of its own
		}
		last, err := s.segments(llp)
		if err != nil {
			return err
		}
		if last {
			t.idle()
		}
	}
	return nil
}

// finishes reports whether the message in hand is still sent on a stream that has
// failed. Between the segments of an untagged message the peer expects nothing else,
// so one that has begun is finished before the Terminate that is due. Anything else
// ends in the middle, and the peer discards it.
func (s *Stream) finishes() bool {
	t := &s.send
	if !t.begun || t.kind == sendingResponse || t.tags {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Rule: DDP-5.2-03
	return s.terminate != nil && !s.peerClosed
}

// segments queues segments of the message in hand: of a Read Response one, of
// anything else all, or as many as the batch takes.
func (s *Stream) segments(llp ddp.LLP) (last bool, err error) {
	t := &s.send
	switch t.kind {
	case sendingResponse:
		last, err := s.responseSegment(llp)
		if last && err == nil && !s.Failed() {
			s.messageQueued()
		}
		return last, err
	case sendingAtomic:
		s.releaseInbound() // before the last segment: see responseSegment
	}
	t.reading = true
	// Rule: RDMAP-3.1-01, RDMAP-6.1-01
	last, err = llp.QueueMessage(&t.out, t.kind == sendingRequest)
	t.reading = false
	t.begun = !last
	if last && err == nil {
		s.messageQueued()
	}
	return last, err
}

// messageQueued notes that the last segment of the message in hand has been
// queued. It takes no lock: batchTaken tells the rest of the stream.
func (s *Stream) messageQueued() {
	t := &s.send
	t.sent.MessagesSent++
	switch t.kind {
	case sendingRequest:
		t.queued++
	case sendingAtomic:
		t.sent.AtomicsServed++
	case sendingResponse:
		t.sent.ReadsServed++
		t.sent.PayloadSent += uint64(t.request.read.Size)
	}
}

// batchTaken completes the Sends and Writes that the LLP has taken in full, and
// lets Reads and atomics wait for their Responses. The stream is locked.
func (s *Stream) batchTaken() {
	s.letGo()
	s.countSent()
	for q := &s.queue; q.acked < s.send.queued; q.acked++ {
		e := q.At(q.acked)
		switch {
		case e.state != entryStarted: // local, or the Response was faster than we
		case e.req.Op.awaitsResponse():
			// Rule: RDMAP-5.5-12, EXT-5.4-05
			e.state = entryWaiting
		default:
			// Rule: DDP-5.4-01, RDMAP-5.5-03, RDMAP-5.5-09
			e.state = entryDone
			s.stats.PayloadSent += uint64(e.total)
		}
	}
	s.complete()
}

// countSent adds what the send owner has counted to the stream's counters.
func (s *Stream) countSent() {
	sent := &s.send.sent
	s.stats.MessagesSent += sent.MessagesSent
	s.stats.AtomicsServed += sent.AtomicsServed
	s.stats.ReadsServed += sent.ReadsServed
	s.stats.PayloadSent += sent.PayloadSent
	*sent = Stats{}
}

// progress says what is left after a batch has gone. What is due on an LLP that
// may not send yet waits for the receive owner's Wake. The stream is locked.
func (s *Stream) progress(maySend bool) Progress {
	switch {
	case s.send.kind == sendingTerminate, s.send.kind != sendingNothing && s.err == nil, s.terminate != nil:
		return More
	case s.err != nil:
		return s.finishSendLocked()
	// Rule: RDMAP-5.2.1-09
	case s.send.nudge || s.requestDue() || s.inbound.head < s.inbound.ready:
		if !maySend {
			return Idle
		}
		return More
	// Rule: DDP-2.3-01, DDP-6.2.1-01
	case s.refuses() && s.queue.empty():
		return s.finishSendLocked()
	}
	return Idle
}

func (s *Stream) finishSend() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finishSendLocked()
}

func (s *Stream) finishSendLocked() Progress {
	s.countSent()
	s.send.idle()
	s.letGo()
	s.send.finished = true
	s.busy &^= sendOwner
	s.settle()
	return Finished
}

// sendFailed ends the stream for an error of the LLP's send side.
func (s *Stream) sendFailed(err error) (Progress, error) {
	// Rule: DDP-7-01
	s.Fail(lost(err), false)
	return s.finishSend(), err
}

// startNext picks the next message: the Terminate before all, else requests and
// responses in turn.
func (s *Stream) startNext() bool {
	s.mu.Lock()
	started := s.err == nil && s.startMessage()
	// Rule: DDP-7.1-14, DDP-6.2.2-03
	if !started && s.terminate != nil { // startMessage may have found a reason for one
		s.startTerminate()
		started = true
	}
	s.mu.Unlock()
	return started
}

func (s *Stream) startMessage() bool {
	if s.startNudge() {
		return s.err == nil
	}
	// Rule: RDMAP-5.5-02, RDMAP-5.5-07, RDMAP-5.5-11, EXT-5.4-04
	s.send.respond = !s.send.respond
	if s.send.respond {
		return s.startResponse() || s.err == nil && s.startRequest()
	}
	return s.startRequest() || s.err == nil && s.startResponse()
}

// requestDue reports whether the oldest request not yet started may start. A
// Read beyond ORD waits, and what was posted after it waits too (RFC 5040
// section 5.5 rule 13: messages go to DDP in the order of posting).
func (s *Stream) requestDue() bool {
	if s.queue.next == s.queue.tail {
		return false
	}
	e := s.queue.At(s.queue.next)
	if e.state == entryDone {
		return true // withdrawn
	}
	// Rule: RDMAP-6.1-03, RDMAP-6.1-04, RDMAP-8.1.1-11, SEC-6.4.3.3-02
	if e.req.Op.awaitsResponse() && s.outstanding.full() {
		return false
	}
	// Rule: RDMAP-5.5-07
	return !e.req.Fence || s.outstanding.empty()
}

// startRequest begins the message of the next request in the queue. Local
// operations are carried out on the way.
func (s *Stream) startRequest() bool {
	for s.requestDue() {
		index := s.queue.next
		e := s.queue.At(index)
		// Rule: DDP-5.3-01, RDMAP-5.1-05, RDMAP-5.2.1-06, RDMAP-5.3-05, RDMAP-5.5-08, EXT-5.2.1-11, EXT-6.3-05
		// Rule: EXT-6.4-01
		s.queue.next++
		if e.state == entryDone { // withdrawn
			s.send.queued++
			continue
		}
		if e.req.Op.local() || e.req.Op.awaitsResponse() && !s.prepare(e) {
			s.finishLocal(e)
			s.send.queued++
			continue
		}
		e.state = entryStarted
		s.send.kind = sendingRequest
		h, sg := s.requestMessage(index, e)
		s.send.tags, e.begun, e.msn = h.Tagged, true, h.MSN
		// Rule: RDMAP-3.1-03
		if err := s.send.out.Start(h, sg); err != nil {
			// check has bounded the length, so this is a mistake of ours.
			s.fail(&protocol.Error{Code: protocol.RDMAPLocalCatastrophic, Err: err}, true)
		}
		return true
	}
	return false
}

// requestMessage returns the header template and the payload of a request.
func (s *Stream) requestMessage(index uint64, e *entry) (ddp.Header, [][]byte) {
	t, r := &s.send, &e.req
	switch r.Op {
	case OpWrite:
		// Rule: RDMAP-5.1-01, RDMAP-5.1-06
		return t.tagged(OpcodeWrite, r.Remote.STag, r.Remote.TO), r.SG
	case OpSendInvalidate:
		op := OpcodeSendInvalidate
		if r.Solicited {
			op = OpcodeSendSolicitedInvalidate
		}
		// Rule: RDMAP-3.2-01, RDMAP-4.1-02, RDMAP-5.3-10
		return t.untagged(op, uint32(r.Invalidate)), r.SG
	case OpImmediate:
		op := OpcodeImmediate
		if r.Solicited {
			op = OpcodeImmediateSolicited
		}
		// Rule: EXT-6.2-01, EXT-6.3-06
		return t.untagged(op, 0), e.scratch(ImmediateUint64(r.Immediate).AppendTo(e.header[:0]))
	case OpRead:
		o := s.outstanding.push(index, e)
		// Rule: RDMAP-5.2-01, RDMAP-5.2.1-07
		read := ReadRequest{SinkSTag: o.stag, Size: e.total, SrcSTag: r.Remote.STag, SrcTO: r.Remote.TO}
		return t.untagged(OpcodeReadRequest, 0), e.scratch(read.AppendTo(e.header[:0]))
	case OpFetchAdd, OpCompareSwap:
		o := s.outstanding.push(index, e)
		a := atomicMessage(r, o.id)
		return t.untagged(OpcodeAtomicRequest, 0), e.scratch(a.AppendTo(e.header[:0]))
	}
	op := OpcodeSend
	if r.Solicited {
		// Rule: RDMAP-5.3-09
		op = OpcodeSendSolicited
	}
	// Rule: RDMAP-4.1-03
	return t.untagged(op, 0), r.SG
}

// scratch makes a one-element gather list of the entry's own header.
func (e *entry) scratch(b []byte) [][]byte {
	e.own[0] = b
	return e.own[:]
}

func atomicMessage(r *SendWR, id uint32) AtomicRequest {
	if r.Op == OpCompareSwap {
		return NewCmpSwap(id, r.Remote.STag, r.Remote.TO, r.Compare, r.CompareMask, r.Operand, r.OperandMask)
	}
	return NewFetchAdd(id, r.Remote.STag, r.Remote.TO, r.Operand, r.OperandMask)
}

// prepare readies the slot of a request that awaits a Response. Only a Read needs
// memory of its own: it is false when no STag is left for that.
func (s *Stream) prepare(e *entry) bool {
	size := e.total
	if e.req.Op != OpRead {
		size = 0
	}
	return s.outstanding.prepare(size)
}

// finishLocal completes, in its turn, a request that sends nothing: a local
// Invalidate, or a Read for which no STag is left. Invalidation waits for
// placements that are under way, which never wait for the send path.
func (s *Stream) finishLocal(e *entry) {
	e.state = entryDone
	switch e.req.Op {
	case OpBarrier:
		return
	case OpBind:
		if e.req.Bind != nil {
			e.err = e.req.Bind.Activate()
		}
		return
	case OpRead:
		e.err = &protocol.Error{
			Code: protocol.RDMAPLocalCatastrophic, Detail: "no STag is left for the sink of an RDMA Read",
		}
		return
	}
	if !s.cfg.Table.Invalidate(e.req.Invalidate, s.cfg.Peer) {
		e.err = &protocol.Error{
			Code: protocol.RDMAPLocalCatastrophic, Section: "RFC 5040 section 8.1.1",
			Detail: "local Invalidate of STag " + e.req.Invalidate.String() + ": no such STag",
		}
	}
}

func (s *Stream) startTerminate() {
	t := &s.send
	term := FromError(s.terminate)
	s.terminate = nil
	t.kind = sendingTerminate
	t.header = term.AppendTo(t.header[:0])
	t.payload[0] = t.header
	if err := t.out.Start(t.untagged(OpcodeTerminate, 0), t.payload[:]); err != nil {
		t.idle()
	}
}
