package ddp

import (
	"errors"
	"fmt"
	"math"
)

// ErrMessageTooLong is what [Outgoing.Start] gives for a message of 2^32 octets
// or more (https://www.rfc-editor.org/rfc/rfc5041#section-5.2).
var ErrMessageTooLong = errors.New("ddp: message of 2^32 octets or more")

// ErrWrap says that a Tagged Offset plus a length does not fit 64 bits.
var ErrWrap = errors.New("ddp: Tagged Offset wraps 2^64")

// Outgoing cuts one message into segments, one at a time, each at the MULPDU of
// its moment (https://www.rfc-editor.org/rfc/rfc5041#section-5.2). It copies no
// payload and, once it has been used for a message of as many pieces, allocates
// nothing. It is not safe for concurrent use and must not be copied after the
// first Start. The zero value has no message.
type Outgoing struct {
	// Max bounds segments in octets, header included, below the MULPDU; 0 does not.
	// Set it before the first Start. RFC 5044 section 4.5 asks for segments as large
	// as the MULPDU, where nothing speaks against it.
	Max int

	header    Header   // of the next segment, Last aside
	encoded   int      // octets of it in scratch, but for what changes
	sg        [][]byte // what is left: the rest of sg[0] from off on, and the others
	off       int
	remaining uint64
	active    bool

	scratch [UntaggedHeaderLen]byte
	inline  [4][]byte
	pieces  [][]byte
}

// Start begins a message whose octets are those of sg, one piece after the
// other. h is the template of all its headers: STag and first TO, or QN and MSN;
// Last and MO are set here. Start keeps the slice sg and the memory that it
// names, and changes neither; the caller leaves both alone until the message has
// been sent. A message under way is dropped.
//
// The errors are [ErrMessageTooLong] and, for a tagged message of one octet or
// more, [ErrWrap] when TO plus length wraps 2^64.
func (o *Outgoing) Start(h Header, sg [][]byte) error {
	o.Reset()
	total := gatherLen(sg)
	// Rule: DDP-5.2-02
	if total > math.MaxUint32 {
		return fmt.Errorf("%w: %d octets (RFC 5041 section 5.2)", ErrMessageTooLong, total)
	}
	if h.Tagged && total > 0 && Wraps(h.TO, total) {
		return fmt.Errorf("%w: TO 0x%016x plus %d octets (RFC 5041 section 7.1)", ErrWrap, h.TO, total)
	}
	// Rule: DDP-4.3-11, DDP-4.1-07, DDP-4.2-04, DDP-4.2-05, DDP-4.2-08, DDP-4.3-06, DDP-4.3-10
	h.MO, h.Last = 0, false
	o.header, o.sg, o.remaining, o.active = h, sg, total, true
	o.encoded = len(o.header.AppendTo(o.scratch[:0]))
	return nil
}

// Reset drops the message, and with it the references to the caller's memory.
func (o *Outgoing) Reset() {
	o.sg, o.off, o.remaining, o.active = nil, 0, 0, false
	clear(o.pieces[:cap(o.pieces)])
	o.pieces = o.pieces[:0]
}

// Remaining is the number of payload octets that have not been cut yet. It is 0
// also before the only segment of a zero-length message: see [Outgoing.Active].
func (o *Outgoing) Remaining() uint64 { return o.remaining }

// Rest is how many octets the next segment would have with all that is left of the
// message, its header included.
func (o *Outgoing) Rest() uint64 { return o.remaining + uint64(o.encoded) }

// Next cuts the next segment, of at most mulpdu octets with its header, and
// tells whether it is the message's last. Segments come in rising MO or TO; a
// zero-length message is exactly one segment. header and payload are valid until
// the next call of a method of o; the payload's octets are the caller's memory.
// Without a message it gives nil, nil, false.
//
// A mulpdu that leaves no room for payload is taken to leave room for one octet.
// No LLP offers that little, and a message that never ends would be worse.
func (o *Outgoing) Next(mulpdu int) (header []byte, payload [][]byte, last bool) {
	if !o.active {
		return nil, nil, false
	}
	header = o.scratch[:o.encoded]
	// Rule: DDP-3-01, DDP-3-02
	n := o.room(mulpdu)
	// Rule: DDP-4.1-03, DDP-4.1-04, DDP-4.1-05, DDP-5.2-03, DDP-5.2-07, RDMAP-5.3-04, RDMAP-5.1-04, MPA-4.5-04
	if n >= o.remaining {
		n, last = o.remaining, true
		header[0] |= bitLast
	}
	h := &o.header
	if h.Tagged {
		h.putTO(header)
		// Rule: DDP-5.2-06, DDP-5.3-02
		h.TO += n
	} else {
		h.putMO(header)
		// Rule: DDP-5.2-05, DDP-5.3-02
		h.MO += uint32(n)
	}
	o.remaining -= n
	o.take(n)
	if last {
		o.active, o.sg = false, nil
	}
	return header, o.pieces, last
}

// room is how many octets of payload a segment can carry.
func (o *Outgoing) room(mulpdu int) uint64 {
	if o.Max > 0 && o.Max < mulpdu {
		mulpdu = o.Max
	}
	// Rule: DDP-5.2-01, MPA-3-03, MPA-3-05, MPA-4.5-04
	return uint64(max(max(mulpdu, 0)-o.encoded, 1))
}

// EndsWith reports whether the segment that Next would cut for mulpdu is the last
// of its message.
func (o *Outgoing) EndsWith(mulpdu int) bool { return o.remaining <= o.room(mulpdu) }

// take moves the next n octets from sg to pieces. There are that many.
func (o *Outgoing) take(n uint64) {
	if o.pieces == nil {
		o.pieces = o.inline[:0]
	}
	o.pieces = o.pieces[:0]
	for n > 0 {
		rest := o.sg[0][o.off:]
		if uint64(len(rest)) > n {
			rest = rest[:n]
			o.off += len(rest)
		} else {
			o.sg, o.off = o.sg[1:], 0
		}
		if len(rest) > 0 {
			o.pieces = append(o.pieces, rest)
			n -= uint64(len(rest))
		}
	}
}

// Wraps reports whether n octets from TO to on break rule 5 of
// https://www.rfc-editor.org/rfc/rfc5041#section-7.1, "a 64-bit unsigned sum of the
// DDP Segment payload length and the TO does not wrap". It is the one judge of
// that, for whoever registers, posts, cuts or places.
//
// The sum is that of the rule, not the TO of the last octet: for octets that end
// at TO 2^64-1 it is 2^64, which 64 bits hold as 0. So that octet is out of reach.
// To take the TO of the last octet instead, as one might, would let this end send
// what a peer that computes the sum has to refuse. No octets reach nothing, and
// are not judged (https://www.rfc-editor.org/rfc/rfc5041#section-5.2).
func Wraps(to, n uint64) bool { return to > math.MaxUint64-n }
