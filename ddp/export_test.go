package ddp

import "github.com/go-iwarp/iwarp/protocol"

// SetNextMSN moves a queue to an MSN, to see it wrap.
func (r *Receiver) SetNextMSN(qn, msn uint32) { r.queues.get(qn).next = msn }

// Indices lists the index of every entry of the table.
func (t *Table) Indices() []uint32 {
	var out []uint32
	slots := t.slots.Load()
	for i := range slots.entries {
		if r := slots.entries[i].Load(); r != nil && r != tombstone {
			out = append(out, r.index)
		}
	}
	return out
}

// Slots is the size of the hash table.
func (t *Table) Slots() int { return len(t.slots.Load().entries) }

// Share gives the region's guard as many locks as on a machine with many cores.
func (r *Region) Share() { r.guard.more = make([]stripe, maxStripes) }

// SmallTable is a table whose indices have so few bits that it can be filled.
func SmallTable(bits int) *Table {
	t := NewTable(1<<bits - 1)
	t.mask = 1<<bits - 1
	return t
}

// Bytes is the region's buffer.
func (r *Region) Bytes() []byte { return r.buf }

// Held is the region that the receiver keeps locked, nil if there is none.
func (r *Receiver) Held() *Region { return r.held.region }

// What follows only tests ask.

// Active reports that a message has been started and its last segment has not
// been cut yet.
func (o *Outgoing) Active() bool { return o.active }

// Err is the first error, nil as long as there is none.
func (r *Receiver) Err() *protocol.Error { return r.err }

// Access is what peers may do while the region is valid.
func (r *Region) Access() Access {
	l := r.guard.reader(0)
	l.RLock()
	defer l.RUnlock()
	return r.access
}

// Atomic is atomic without an STag to look at.
func (r *Region) Atomic(who Peer, to uint64, f func(word *uint64)) *protocol.Error {
	return r.atomic(0, who, to, f)
}

// Borrow is borrow without an STag to look at.
func (r *Region) Borrow(who Peer, to, n uint64, need Access) (src []byte, err *protocol.Error) {
	return r.borrow(0, who, to, n, need)
}

// CheckFetch is checkFetch without an STag to look at.
func (r *Region) CheckFetch(who Peer, to, n uint64, need Access) *protocol.Error {
	return r.checkFetch(0, who, to, n, need)
}

// Fetch copies octets out, as borrowers do. It looks at no STag.
func (r *Region) Fetch(who Peer, to uint64, dst []byte, need Access) *protocol.Error {
	return r.fetch(0, who, to, dst, need)
}

func (r *Region) fetch(s STag, who Peer, to uint64, dst []byte, need Access) *protocol.Error {
	src, err := r.borrow(s, who, to, uint64(len(dst)), need)
	if err == nil {
		copy(dst, src)
		r.Release()
	}
	return err
}

// PD is the Protection Domain.
func (r *Region) PD() PD { return r.pd }

// Place is place without an STag to look at.
func (r *Region) Place(who Peer, to uint64, data []byte, need Access) *protocol.Error {
	return r.place(0, who, to, data, need)
}

// STag is the STag of the use that is going on, 0 if there is none.
func (s *Sink) STag() STag {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stag
}

// Len is the length of the armed memory in octets, 0 if the sink is not armed.
func (s *Sink) Len() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory.total
}

// Place copies data to the offset to, if all of it may go there. Errors
// (https://www.rfc-editor.org/rfc/rfc5041#section-7.1): 1/1/00 when the sink is
// not armed, 1/1/03 TO wrap, 1/1/01 beyond the end. No data is no access.
func (s *Sink) Place(to uint64, data []byte) *protocol.Error {
	if len(data) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(s.stag, to, uint64(len(data))); err != nil {
		return err
	}
	s.memory.place(to, data)
	return nil
}

// Fetch is [Region.Fetch] for the region that s names, 0/1/00 if there is none.
func (t *Table) Fetch(s STag, who Peer, to uint64, dst []byte, need Access) *protocol.Error {
	if len(dst) == 0 {
		return nil
	}
	r := t.Lookup(s)
	if r == nil {
		return unknownSTag(&fetchCodes, s)
	}
	return r.fetch(s, who, to, dst, need)
}

// Len is the number of STags now, regions and sinks together.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live
}

// Limit is the largest number of STags at a time.
func (t *Table) Limit() int { return t.limit }

// Place is [Region.Place] for the region that s names, 1/1/00 if there is none.
func (t *Table) Place(s STag, who Peer, to uint64, data []byte, need Access) *protocol.Error {
	if len(data) == 0 {
		return nil
	}
	r := t.Lookup(s)
	if r == nil {
		return unknownSTag(&placeCodes, s)
	}
	return r.place(s, who, to, data, need)
}

// Taken is the number of buffers taken for messages that are not delivered yet.
func (r *Receiver) Taken() int {
	n := 0
	count := func(q *queue) {
		n += len(q.ahead)
		if q.current.taken {
			n++
		}
	}
	for i := range r.queues.low {
		count(&r.queues.low[i])
	}
	for _, q := range r.queues.more {
		count(q)
	}
	return n
}
