package rdmap

// Withdraw takes back a request that waits in the send queue for its turn: behind a
// Read that waits for one of ORD, say. It reports whether it could; then the octets of
// the request's SG are the caller's again, nothing of it is sent, and its completion,
// without an error, comes in its turn. Of a request whose message has begun, or that has
// completed, it is false. The request is named by the context that it was posted with,
// which is comparable; its completion has the context instead.
func (s *Stream) Withdraw(context, instead any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The oldest are the likeliest to be gone, so the search begins at the newest.
	for i := s.queue.tail; i > s.queue.next; i-- {
		e := s.queue.At(i - 1)
		if e.hidden || e.state != entryQueued || e.context != context {
			continue
		}
		e.release()
		e.req.Op, e.req.Fence, e.req.Unsignaled, e.total = OpBarrier, false, true, 0
		e.state, e.context = entryDone, instead
		s.wake.Store(true) // what is behind it may be due
		return true
	}
	return false
}

// CloseAtRest is CloseSend of a stream at rest: the peer has closed its half gracefully,
// and no request of either end is left. Otherwise it is false and changes nothing.
func (s *Stream) CloseAtRest() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || !s.peerClosed || !s.queue.empty() || s.inbound.head != s.inbound.ready {
		return false
	}
	s.setPhase(phaseClosing)
	return true
}
