package sctp

// This file is the engine of a session's receiving half: which chunk may come, and what it
// means. It has no I/O, and the order of arrival is any.

// window tells the numbers of chunks from their DDP-SSNs, and who has been there. A session
// begins with number 0, and at most 32767 chunks may be under way
// (https://www.rfc-editor.org/rfc/rfc5043#section-10).
type window struct {
	next uint64   // the first that is missing
	seen []uint64 // a bit for each number after it, in a ring; nil until one is needed
}

// span is how many numbers a window tells apart.
const span = 1 << 15

func (w *window) bit(number uint64) (word *uint64, mask uint64) {
	return &w.seen[number%span/64], 1 << (number % 64)
}

// take takes a chunk in. It is false for one that has been here, or cannot be under way.
func (w *window) take(ssn uint16) (number uint64, ok bool) {
	// Rule: SCTP-10-05, SCTP-10-02
	ahead := ssn - uint16(w.next)
	if ahead >= span {
		return 0, false
	}
	number = w.next + uint64(ahead)
	if ahead > 0 {
		if w.seen == nil {
			w.seen = make([]uint64, span/64)
		}
		word, mask := w.bit(number)
		ok = *word&mask == 0
		*word |= mask
		return number, ok
	}
	for w.next++; w.seen != nil; w.next++ {
		word, mask := w.bit(w.next)
		if *word&mask == 0 {
			break
		}
		*word &^= mask
	}
	return number, true
}

// inbound is the receiving half of a session.
type inbound struct {
	window window
	opened bool   // the peer's first control message has come
	high   uint64 // one more than the highest number that a segment had
	end    uint64 // the number of the peer's Terminate; 0 until it has come
}

// over reports whether the peer's Terminate has come, and all before it.
func (in *inbound) over() bool { return in.end > 0 && in.window.next > in.end }

// segment takes a segment chunk in, and returns the segment with its order.
func (in *inbound) segment(b []byte) (order uint64, segment []byte, err error) {
	ssn, segment, err := ParseSegment(b)
	if err != nil {
		return 0, nil, err
	}
	number, err := in.number(ssn)
	if err != nil {
		return 0, nil, err
	}
	switch {
	// Rule: SCTP-6.1-02, SCTP-6.2-01
	case number == 0:
		return 0, nil, illegal("RFC 5043 section 6.1", "a segment has DDP-SSN 0, which a control message has to have")
	case in.end > 0 && number > in.end:
		return 0, nil, illegal("RFC 5043 section 6.2", "segment %d after Terminate, which was %d", number, in.end)
	}
	in.high = max(in.high, number+1)
	return number - 1, segment, nil
}

// control takes a control message in. may says which functions the first one may have.
func (in *inbound) control(b []byte, may ...Function) (Control, error) {
	c, err := ParseControl(b)
	if err != nil {
		return c, err
	}
	number, err := in.number(c.SSN)
	if err != nil {
		return c, err
	}
	// Rule: SCTP-6.1-02, MPA2-7-07
	if number > 0 {
		switch {
		case c.Function != Terminate:
			return c, illegal("RFC 5043 section 6.2", "%v with DDP-SSN %d: only Terminate ends a session", c.Function,
				c.SSN)
		case in.end > 0:
			return c, illegal("RFC 5043 section 6.2", "Terminate %d after Terminate, which was %d", number, in.end)
		case number < in.high:
			return c, illegal("RFC 5043 section 6.2", "Terminate %d before segment %d", number, in.high-1)
		}
		in.end = number
		return c, nil
	}
	for _, f := range may {
		if c.Function == f {
			in.opened = true
			return c, nil
		}
	}
	return c, illegal("RFC 5043 section 6.1", "a session opened by %v where one of %v was due", c.Function, may)
}

func (in *inbound) number(ssn uint16) (uint64, error) {
	number, ok := in.window.take(ssn)
	// Rule: SCTP-6-01, SCTP-10-04, SCTP-10-05
	if !ok {
		return 0, illegal("RFC 5043 section 10", "DDP-SSN %d has been there, or cannot be: the first missing is %d",
			ssn, uint16(in.window.next))
	}
	return number, nil
}

// foreign is the error for a chunk whose PPID is none of ours.
func foreign(ppid uint32) error {
	return illegal("RFC 5043 section 5.1", "a chunk has the PPID %d: %d and %d alone are carried",
		ppid, PPIDSegment, PPIDControl)
}
