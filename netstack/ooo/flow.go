package ooo

import (
	"slices"
	"time"

	"github.com/go-iwarp/iwarp/mpa"
)

func deframer() mpa.Deframer { return mpa.Deframer{CRC: true} }

// Block is a range of sequence numbers, as in the SACK option of TCP: from Start up to,
// and without, End (https://www.rfc-editor.org/rfc/rfc2018#section-3).
type Block struct{ Start, End uint32 }

// Flow is one direction of a TCP connection, seen from beside the endpoint that receives:
// the segments that come in, and the acknowledgements that the endpoint sends for them.
// What the endpoint has acknowledged selectively it has found good by all rules of TCP,
// in its window, and keeps: that, and nothing else, goes to the [Engine] (appendix A.3 of
// RFC 5044 asks for no less). An endpoint without SACK thus has nothing placed early.
//
// It belongs to one goroutine at a time.
type Flow struct {
	Engine *Engine

	start   uint32 // sequence number of the stream's first octet
	edge    uint64 // what came in up to here has no hole, as far as can be seen
	waiting []segment
	octets  int // in waiting
}

type segment struct {
	pos  uint64
	data []byte
}

// maxWaiting bounds the octets of segments that wait for their acknowledgement.
const maxWaiting = 1 << 20

// NewFlow makes a Flow. start is the TCP sequence number of the first octet of Full
// Operation, behind the peer's startup frame.
func NewFlow(start uint32, e *Engine) *Flow { return &Flow{Engine: e, start: start} }

// position is the offset of a sequence number that is near the first octet not delivered.
// Offsets before the stream are below zero.
func (f *Flow) position(seq uint32) int64 {
	// Rule: MPA-4.3-06, MPA-3-08
	pos := f.Engine.Position()
	return int64(pos) + int64(int32(seq-f.start-uint32(pos)))
}

// Received takes the payload of a segment that came in, before TCP has it. Its checksums have
// been found right. b is not kept.
func (f *Flow) Received(seq uint32, b []byte) {
	if len(b) == 0 || !f.Engine.Useful() {
		return
	}
	at := f.position(seq)
	if at < 0 {
		if at+int64(len(b)) <= 0 {
			return
		}
		b, at = b[-at:], 0
	}
	pos, end := uint64(at), uint64(at)+uint64(len(b))
	f.edge = max(f.edge, f.Engine.Position())
	switch {
	case end <= f.edge:
	case pos <= f.edge:
		f.Engine.Saw(pos)
		f.edge = end
	case f.octets+len(b) <= maxWaiting:
		f.waiting = append(f.waiting, segment{pos, slices.Clone(b)})
		f.octets += len(b)
	}
}

// Sent takes the acknowledgement of a segment that TCP sends: all before ack has come,
// and so have the blocks. It hands what TCP has committed to keep to the Engine.
func (f *Flow) Sent(ack uint32, blocks []Block) {
	at := f.position(ack)
	if at > 0 {
		f.edge = max(f.edge, uint64(at))
	}
	if len(f.waiting) == 0 {
		return
	}
	kept := f.waiting[:0]
	for _, s := range f.waiting {
		end := int64(s.pos) + int64(len(s.data))
		switch {
		case end <= at: // its turn has come
		case f.covered(s.pos, end, blocks):
			f.Engine.Segment(s.pos, s.data)
		default:
			kept = append(kept, s)
			continue
		}
		f.octets -= len(s.data)
	}
	clear(f.waiting[len(kept):])
	f.waiting = kept
}

func (f *Flow) covered(pos uint64, end int64, blocks []Block) bool {
	for _, b := range blocks {
		if f.position(b.Start) <= int64(pos) && end <= f.position(b.End) {
			return true
		}
	}
	return false
}

// InOrder is [Engine.InOrder]; octets that TCP delivers go through it.
func (f *Flow) InOrder(b []byte, now time.Duration) error { return f.Engine.InOrder(b, now) }
