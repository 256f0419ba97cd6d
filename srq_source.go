package iwarp

import (
	"fmt"
	"slices"
	"sync"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/internal/fault"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// srqSource is a QP's view of its SRQ: the ddp.Source of QN 0. Which receives its
// messages hold is noted, to be flushed when the connection ends.
type srqSource struct {
	toCQs
	srq *SRQ

	mu     sync.Mutex
	taken  []srqTaken
	staged map[uint64]*srqStaged // by Token; messages without a receive
	last   uint64                // Token of the latest of them
	ended  bool
}

// srqTaken is a receive that a message has.
type srqTaken struct {
	slot  uint32
	begun bool // the message was not whole when it took it
}

// srqStaged is a message that takes its receive when it is whole.
type srqStaged struct {
	letter letter
	has    bool // a receive, the one below
	slot   uint32
	sg     [][]byte
}

// stagedToken and those above name staged messages. Slots are below.
const stagedToken = 1 << 32

// Take implements ddp.Source.
func (s *srqSource) Take(h *ddp.Header) (ddp.Buffer, bool) {
	defer s.srq.raise()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return ddp.Buffer{}, false
	}
	if !h.Last {
		// With most 0 there has been no receive yet, and none to hope for: what follows
		// says so.
		if ok, most := s.srq.spare(); !ok && most > 0 {
			return s.stage(h, most)
		}
	}
	slot, sg, ok := s.receive(!h.Last)
	return ddp.Buffer{SG: sg, Token: uint64(slot)}, ok
}

// receive takes a receive. The completion's entry is reserved here, since nobody knew
// at post whose CQ it would be.
func (s *srqSource) receive(begun bool) (uint32, [][]byte, bool) {
	if s.qp.recvCQ.reserve(1) != nil {
		return 0, nil, false
	}
	slot, sg, ok := s.srq.take(s.qp, begun)
	if !ok {
		s.qp.recvCQ.release(1)
		return 0, nil, false
	}
	s.taken = append(s.taken, srqTaken{slot, begun})
	return slot, sg, true
}

// stage lets a message begin without a receive. Immediate Data has eight octets and
// comes in one segment from everybody who means well.
func (s *srqSource) stage(h *ddp.Header, most uint64) (ddp.Buffer, bool) {
	if op := rdmap.Control(h.Control).Opcode(); op == rdmap.OpcodeImmediate || op == rdmap.OpcodeImmediateSolicited {
		return ddp.Buffer{}, false
	}
	if s.staged == nil {
		s.staged, s.last = make(map[uint64]*srqStaged), stagedToken
	}
	s.last++
	s.staged[s.last] = new(srqStaged)
	// One octet more than any receive, so that SG never has Max and Grow is called for
	// the last segment.
	return ddp.Buffer{Max: most + 1, Token: s.last}, true
}

// Grow implements ddp.Grower, for staged messages.
func (s *srqSource) Grow(h *ddp.Header, b *ddp.Buffer, n uint64) *protocol.Error {
	defer s.srq.raise()
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.staged[b.Token]
	if m == nil {
		return noReceive(h, "its connection has ended")
	}
	most := int(b.Max - 1)
	if n > uint64(most) {
		return longerThan(h, n, uint64(most))
	}
	l, bound := &m.letter, &s.srq.pd.dev.held
	for l.room < int(n) {
		more := min(l.more(int(n), h.Last), most-l.room, maxChunk)
		if _, size := chunkClass(more); !bound.Take(int64(size)) {
			return noReceive(h,
				fmt.Sprintf("the SRQ has none to spare for a message that is not whole, and DeviceConfig.MaxHeld is %d",
					bound.max))
		}
		l.add(more, most)
	}
	b.SG = l.sg
	if !h.Last {
		return nil
	}
	if m.slot, m.sg, m.has = s.receive(false); !m.has {
		return noReceive(h, "the SRQ has none")
	}
	if size := sizeOf(m.sg); n > size {
		return longerThan(h, n, size)
	}
	return nil
}

func longerThan(h *ddp.Header, n, size uint64) *protocol.Error {
	return &protocol.Error{
		Code: protocol.DDPUntaggedTooLong, Section: "RFC 5041 section 7.1",
		Detail: fmt.Sprintf("QN %d, MSN %d: %d octets do not fit the buffer of %d", h.QN, h.MSN, n, size),
	}
}

func noReceive(h *ddp.Header, why string) *protocol.Error {
	return &protocol.Error{
		Code: protocol.DDPUntaggedNoBuffer, Section: "RFC 5041 section 7.1",
		Detail: fmt.Sprintf("QN %d, MSN %d: no buffer is available: %s", h.QN, h.MSN, why),
	}
}

func (s *srqSource) deliver(d *rdmap.Delivery) (err *protocol.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	token := d.Buffer.Token
	if token >= stagedToken {
		m := s.staged[token]
		if m == nil {
			return nil
		}
		if d.Err == nil {
			if err = m.unstage(int(d.Length)); err != nil {
				d.Err, d.Length = err, 0
			}
		}
		s.drop(token)
		if !m.has { // it was refused, and completes nothing
			return nil
		}
		token = uint64(m.slot)
	}
	i := slices.IndexFunc(s.taken, func(t srqTaken) bool { return t.slot == uint32(token) })
	if i < 0 {
		return nil
	}
	begun := s.taken[i].begun
	s.taken = slices.Delete(s.taken, i, i+1)
	s.received(s.srq.finish(uint32(token), begun), d)
	return err
}

// unstage copies a message of n octets to its receive, whose memory may not be there.
func (m *srqStaged) unstage(n int) *protocol.Error {
	if err := copyGather(m.sg, m.letter.sg, n); err != nil {
		return &protocol.Error{
			Code: protocol.DDPLocalCatastrophic, Section: "RFC 5041 section 7.2",
			Detail: "copying a message to its receive of the SRQ", Err: err,
		}
	}
	return nil
}

// drop forgets a staged message.
func (s *srqSource) drop(token uint64) {
	m := s.staged[token]
	delete(s.staged, token)
	s.srq.pd.dev.held.Give(int64(m.letter.taken))
	m.letter.giveChunks()
}

func (s *srqSource) end(err error) {
	if s.flush(err) {
		s.qp.dev.tell(Event{Kind: EventLastWQE, QP: s.qp})
	}
}

// flush completes what is left, and reports whether that is the first time.
func (s *srqSource) flush(err error) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = !s.ended
	s.ended = true
	for _, t := range s.taken {
		s.qp.recvCQ.push(&Completion{
			ID: s.srq.finish(t.slot, t.begun), QP: s.qp, Op: OpRecv, Err: fmt.Errorf("%w: %w", ErrFlushed, err),
		})
	}
	s.taken = nil
	for token := range s.staged {
		s.drop(token)
	}
	return first
}

func (s *srqSource) post(*RecvWR) error {
	return fmt.Errorf("%w: the QP takes receives from its SRQ: post to that", ErrInvalidWR)
}

func (s *srqSource) waiting() bool    { return true }
func (s *srqSource) ready() bool      { return s.srq.Posted() > 0 }
func (s *srqSource) polled()          { s.srq.polled(s.qp) }
func (s *srqSource) disown()          {}
func (s *srqSource) leave()           { s.srq.leave(s.qp) }
func (s *srqSource) completions() int { return s.srq.cfg.MaxShare }

func sizeOf(sg [][]byte) (n uint64) {
	for _, p := range sg {
		n += uint64(len(p))
	}
	return n
}

// copyGather copies n octets from one list of pieces to another, which both have them.
// The error says that memory is not there.
func copyGather(to, from [][]byte, n int) error {
	var dst []byte
	for _, src := range from {
		src = src[:min(n, len(src))]
		n -= len(src)
		for len(src) > 0 {
			for len(dst) == 0 {
				dst, to = to[0], to[1:]
			}
			k, err := fault.Copy(dst, src)
			if err != nil {
				return err
			}
			dst, src = dst[k:], src[k:]
		}
	}
	return nil
}
