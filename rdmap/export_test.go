package rdmap

import "github.com/go-iwarp/iwarp/ddp"

// SetSendMSN sets the MSN of the next message that the stream sends on a queue.
func (s *Stream) SetSendMSN(qn int, msn uint32) { s.send.msn[qn] = msn - 1 }

// SetAtomics sets how many atomics the stream has sent already, modulo 2^32.
func (s *Stream) SetAtomics(n uint32) { s.outstanding.lastID = n }

// TakeRequest asks QN 1 for a buffer, as DDP does, with delivered requests of the
// peer behind it and waiting ones of them not answered yet. It gives the slot.
func (s *Stream) TakeRequest(delivered, waiting uint64, msn uint32) (slot uint64, ok bool) {
	s.inbound.ready, s.inbound.head = delivered, delivered-waiting
	b, ok := (*inboundSource)(s).Take(&ddp.Header{QN: QNReadRequest, MSN: msn})
	return b.Token % uint64(max(s.inbound.size, 1)), ok
}

// TakeResponse asks QN 3 for a buffer and gives the Request Identifier of the
// atomic that it belongs to.
func (s *Stream) TakeResponse(msn uint32) (id uint32, ok bool) {
	b, ok := (*responseSource)(s).Take(&ddp.Header{QN: QNAtomicResponse, MSN: msn})
	if !ok {
		return 0, false
	}
	return s.outstanding.At(b.Token).id, true
}

// NewControl returns the control octet of a message that a stream sends.
func NewControl(op Opcode) Control { return Control((&sender{version: Version}).control(op)) }

// Over reports whether both owners have left the stream and every request has
// completed.
func (s *Stream) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy == 0 && s.queue.empty()
}
