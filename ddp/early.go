package ddp

import "time"

// Early is an [LLP] that finds segments behind a gap without knowing how many are
// missing before them, so that it cannot number them: MPA over TCP, which locates FPDUs by
// Markers behind a hole of the stream (https://www.rfc-editor.org/rfc/rfc5044#section-6).
// What it knows is that they are whole, right and sent. They are placed at once, and come a second
// time by Receive, in order, when the gap is filled; that is when the rest is done,
// delivery above all. An LLP that numbers its segments is [Unordered].
type Early interface {
	LLP
	// ReceiveEarly calls fn for each segment that was found since the last call and
	// whose turn has not come. fn returns how many octets of payload it has placed;
	// segment is valid during the call only. ReceiveEarly does not block, and belongs to the
	// goroutine that calls Receive. Receive returns nil when there is something for
	// ReceiveEarly.
	ReceiveEarly(fn func(segment []byte) (placed int))
	// Ahead returns how long before their turn segments were placed: the sum over those
	// whose turn has come, and the longest. Any goroutine may call it.
	Ahead() (sum, longest time.Duration)
}

// EarlyULP is a [ULP] that lets segments be placed before their turn: see
// [Receiver.Early].
type EarlyULP interface {
	ULP
	// CheckEarly is asked about a segment with n octets of payload, some, that may never
	// get its turn. It changes nothing. It reports whether the payload may be placed
	// now; t says where that of a tagged segment belongs.
	CheckEarly(h *Header, n int) (t Target, ok bool)
}

// Early places the payload of a segment that the LLP has found before its turn: see
// the interface [Early]. It returns the number of octets placed, 0 if it has placed nothing.
//
// All that it does is to place. Nothing is delivered, no buffer is taken for a message, and what
// breaks a rule is left to its turn, when it has the consequences that it always has.
// Tagged segments are placed where CheckEarly says, after the checks of every
// tagged segment; untagged ones if they belong to the message that is coming in, and its
// buffer is there. Segment places them again: so what is in memory when a message is
// delivered is what the segments in order brought, also where messages overlap.
//
// It belongs to the goroutine that calls Segment, and to an LLP that keeps order
// otherwise: with a Receiver that is not Ordered it does nothing.
func (r *Receiver) Early(seg []byte) (placed int) {
	ulp, ok := r.ulp.(EarlyULP)
	if !ok || !r.ordered || r.err != nil {
		return 0
	}
	h := &r.header
	n, ok := h.parse(seg)
	if !ok || h.Version != r.version || n == len(seg) {
		return 0
	}
	r.letGo() // Region.place takes the lock by itself
	payload := seg[n:]
	t, ok := ulp.CheckEarly(h, len(payload))
	if !ok {
		return 0
	}
	r.placing = len(seg)
	ok = r.placeEarly(h, payload, t)
	r.placing = 0
	if !ok {
		return 0
	}
	// Rule: MPA-3-08
	r.stats.outOfOrder.Add(1)
	r.stats.early.Add(uint64(len(payload)))
	return len(payload)
}

func (r *Receiver) placeEarly(h *Header, payload []byte, t Target) bool {
	// Rule: DDP-7.1-06
	switch {
	case h.Tagged && t.Sink != nil:
		return t.Sink.placeEarly(h.STag, h.TO, payload)
	case h.Tagged:
		return t.Region != nil && h.STag != 0 && t.Region.place(h.STag, r.peer, h.TO, payload, t.Need) == nil
	}
	q := r.queues.get(h.QN)
	if q == nil || h.MSN != q.next || !q.current.taken {
		return false
	}
	m := &q.current
	if !fits(uint64(h.MO), uint64(len(payload)), m.memory.total) {
		return false
	}
	m.memory.place(uint64(h.MO), payload)
	return true
}

// placeEarly is place for a segment that comes again: the octets do not count as come.
// Octets that have come stay as they are.
func (s *Sink) placeEarly(stag STag, to uint64, data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := uint64(len(data))
	if s.check(stag, to, n) != nil || !s.came.admits(to, n) {
		return false
	}
	s.memory.place(to, data)
	return true
}
