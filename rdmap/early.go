package rdmap

import "github.com/go-iwarp/iwarp/ddp"

// ReceiveEarly places a segment that the LLP has found before its turn, and does nothing
// else: see [ddp.Receiver.Early]. It returns how many octets it has placed. The receive owner calls it.
//
// RDMA Writes, RDMA Read Responses and Sends are placed: all that has payload. A Write
// needs the rights that it always needs, at this time; a Response the sink of an
// outstanding Read.
func (s *Stream) ReceiveEarly(seg []byte) (placed int) {
	if s.peerClosed || s.Failed() {
		return 0
	}
	return s.recv.Early(seg)
}

// CheckEarly implements ddp.EarlyULP.
func (u *upcalls) CheckEarly(h *ddp.Header, _ int) (t ddp.Target, ok bool) {
	// Rule: DDP-7.1-08
	s := (*Stream)(u)
	c := Control(h.Control)
	if c.Check(s.send.version, h.Tagged, h.QN) != nil {
		return t, false
	}
	switch op := c.Opcode(); op {
	case OpcodeWrite:
		return ddp.Target{Region: s.cfg.Table.Lookup(h.STag), Need: ddp.RemoteWrite}, true
	case OpcodeReadResponse:
		s.mu.Lock()
		defer s.mu.Unlock()
		o, _ := s.outstanding.find(h.STag)
		if o == nil {
			return t, false
		}
		return ddp.Target{Sink: o.sink}, true
	case OpcodeSend, OpcodeSendInvalidate, OpcodeSendSolicited, OpcodeSendSolicitedInvalidate:
		_, immediate := s.imm.live[h.MSN]
		return t, !immediate
	default:
		return t, false
	}
}
