package ddp

import "github.com/go-iwarp/iwarp/protocol"

// queues are the untagged queues of a stream. RDMAP uses 0 to 3.
type queues struct {
	low  [4]queue
	more map[uint32]*queue
}

// queue is the receiving end of one QN.
type queue struct {
	source  Source
	grower  Grower // the source, if it is one
	started bool
	next    uint32  // MSN of the first message that is not delivered
	current inbound // that message
	// ahead are messages after it that have begun already; only without order.
	ahead map[uint32]*inbound
	free  []*inbound
}

// inbound is a message that is coming in.
type inbound struct {
	taken  bool
	buffer Buffer
	memory gather
	limit  uint64 // octets that memory may have in the end
	passed extent // the octets of segments that have passed in the order of sending
}

func (qs *queues) set(qn uint32, s Source) {
	var q *queue
	if qn < uint32(len(qs.low)) {
		q = &qs.low[qn]
	} else if q = qs.more[qn]; q == nil {
		q = new(queue)
		if qs.more == nil {
			qs.more = make(map[uint32]*queue)
		}
		qs.more[qn] = q
	}
	if !q.started {
		// Rule: DDP-4.3-07
		q.started, q.next = true, 1
	}
	q.source = s
	q.grower, _ = s.(Grower)
}

// get returns the queue, nil if it has no source.
func (qs *queues) get(qn uint32) *queue {
	var q *queue
	if qn < uint32(len(qs.low)) {
		q = &qs.low[qn]
	} else if q = qs.more[qn]; q == nil {
		return nil
	}
	// Rule: DDP-7.1-01
	if q.source == nil {
		return nil
	}
	return q
}

// inbound returns the message, with a buffer taken for it at its first segment;
// nil if there is no buffer.
func (q *queue) inbound(h *Header) *inbound {
	if h.MSN == q.next {
		if !q.current.taken && !q.current.take(q.source, h) {
			return nil
		}
		return &q.current
	}
	if m := q.ahead[h.MSN]; m != nil {
		return m
	}
	m := q.spare()
	if !m.take(q.source, h) {
		q.free = append(q.free, m)
		return nil
	}
	if q.ahead == nil {
		q.ahead = make(map[uint32]*inbound)
	}
	q.ahead[h.MSN] = m
	return m
}

func (q *queue) spare() *inbound {
	if n := len(q.free); n > 0 {
		m := q.free[n-1]
		q.free = q.free[:n-1]
		return m
	}
	return new(inbound)
}

func (m *inbound) take(s Source, h *Header) bool {
	b, ok := s.Take(h)
	if !ok {
		return false
	}
	m.taken, m.buffer, m.passed = true, b, extent{}
	m.memory.reset(b.SG)
	m.limit = max(m.memory.total, b.Max)
	return true
}

// mayPass checks a segment of n octets whose turn it is in the order of sending: it
// brings no octet again, and the last one, which has the highest MO
// (https://www.rfc-editor.org/rfc/rfc5041#section-4.1), leaves none out.
func (m *inbound) mayPass(h *Header, n uint64) *protocol.Error {
	off := uint64(h.MO)
	switch {
	// Rule: DDP-4.1-05, DDP-7.1-04
	case h.Last && !m.passed.whole(off):
		return badLast(h, m.passed.next)
	// Rule: DDP-5.3-02, DDP-5.2-05
	case !m.passed.admits(off, n):
		return badMO(h, m.passed.next)
	}
	return nil
}

// grow has the source make the buffer large enough for n octets.
func (m *inbound) grow(s Grower, h *Header, n uint64) *protocol.Error {
	if s == nil {
		return noBuffer(h) // a Max from a source that is none
	}
	if err := s.Grow(h, &m.buffer, n); err != nil {
		return err
	}
	m.memory.extend(m.buffer.SG)
	if n > m.memory.total {
		return noBuffer(h)
	}
	return nil
}

// finish goes on to the next message. MSN 0xffffffff is followed by 0.
func (q *queue) finish() {
	// Rule: DDP-4.3-08, DDP-4.3-09
	q.next++
	q.current = inbound{}
	if m := q.ahead[q.next]; m != nil {
		delete(q.ahead, q.next)
		q.current = *m
		*m = inbound{}
		q.free = append(q.free, m)
	}
}

// inProgress reports whether a message has a buffer and is not whole.
func (qs *queues) inProgress() bool {
	for i := range qs.low {
		if qs.low[i].inProgress() {
			return true
		}
	}
	for _, q := range qs.more {
		if q.inProgress() {
			return true
		}
	}
	return false
}

func (q *queue) inProgress() bool { return q.current.taken || len(q.ahead) > 0 }

// buffer returns the buffer of a message that is coming in. It is false if the
// message has none.
func (qs *queues) buffer(h *Header) (Buffer, bool) {
	q := qs.get(h.QN)
	if q == nil {
		return Buffer{}, false
	}
	m := &q.current
	if h.MSN != q.next {
		m = q.ahead[h.MSN]
	}
	if m == nil || !m.taken {
		return Buffer{}, false
	}
	return m.buffer, true
}
