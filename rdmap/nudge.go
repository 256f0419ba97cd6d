package rdmap

import "github.com/go-iwarp/iwarp/protocol"

// Nudge has a zero-length RDMA Write sent. It is no request: it has no completion, and
// goes out though the queue waits for a Response. A receiver looks at neither STag nor
// Tagged Offset of it (https://www.rfc-editor.org/rfc/rfc5041#section-5.2), it takes
// no buffer, delivers nothing and changes no MSN, so that it is harmless in every
// state of a stream; but it is octets. The caller has Transmit called.
func (s *Stream) Nudge() {
	s.mu.Lock()
	s.send.nudge = s.err == nil
	s.mu.Unlock()
}

// startNudge begins that message.
func (s *Stream) startNudge() bool {
	if !s.send.nudge {
		return false
	}
	t := &s.send
	t.nudge, t.kind = false, sendingNudge
	t.payload[0] = nil
	if err := t.out.Start(t.tagged(OpcodeWrite, rtrSTag, 0), t.payload[:]); err != nil {
		s.fail(&protocol.Error{Code: protocol.RDMAPLocalCatastrophic, Err: err}, true)
	}
	return true
}

// Answers reports what the peer has been asked and has answered: whether anything was
// ever posted, whether a request that was sent waits for its Response, and whether an
// octet of a Response has ever come.
func (s *Stream) Answers() (asked, due, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.outstanding
	o := q.oldest()
	return s.queue.tail > 0, o != nil, q.head > 0 || o != nil && o.sink != nil && o.sink.FirstMissing() > 0
}
