package uverbs

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/internal/fault"
	"github.com/go-iwarp/iwarp/rdmap"
	"github.com/go-iwarp/iwarp/verbs/internal/ring"
	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
)

// sendSide is the send queue. Elements from the consumer's index to next are at the
// connection; those from next on are the program's news.
//
// An element is one work request of package iwarp, or two: with an immediate, see
// docs/iwarp-verbs.md. Of two, the ID of the first has the bit firstOfTwo.
type sendSide struct {
	mu      sync.Mutex
	ring    *ring.Ring
	memory  resolver
	next    uint32
	batch   []iwarp.SendWR
	sg      [][][]byte // of each element
	stopped bool       // an element was refused: nothing behind it is looked at

	first uint32 // status of the first of two, if that has failed; under the connection's lock
}

const firstOfTwo = 1 << 32

func (s *sendSide) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next, s.stopped, s.first = s.ring.Producer(), false, 0
	s.ring.SetConsumer(s.next)
}

// maxBatch is how many elements are posted together: their segments then share a write.
const maxBatch = 128

// doorbell hands what the program has put into the send queue to the connection.
func (q *QP) doorbell() {
	s := &q.send
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.ring.Freed() && !s.stopped {
		end := s.ring.Producer()
		if s.next == end {
			return
		}
		c := q.conn.Load()
		if c == nil {
			if q.state.Load() == StateError {
				q.flushSends()
			}
			return
		}
		i, ok := s.next, true
		s.batch = s.batch[:0]
		for n := 0; i != end && n < maxBatch; n++ {
			if ok = q.translate(i); !ok {
				break
			}
			i = s.ring.Next(i)
		}
		if len(s.batch) > 0 {
			s.next = i // Completed may run before PostSend returns
			if err := q.rootQP().PostSend(s.batch...); err != nil {
				q.postFailed(err)
				return
			}
		}
		if !ok {
			// Not what the connection takes: it fails, behind all before it.
			s.stopped = true
			go q.refuse(i)
			return
		}
	}
}

func (q *QP) rootQP() *iwarp.QP {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.root
}

// postFailed deals with requests that were not accepted: the connection is closing, or
// one of them is not what it takes.
func (q *QP) postFailed(err error) {
	s := &q.send
	index := 0
	if pe := (*iwarp.PostError)(nil); errors.As(err, &pe) {
		index = pe.Index
	}
	i := uint32(s.batch[index].ID)
	s.next = i
	q.file.dev.logger.Debug("post_send", "qp", q.qpn, "error", err)
	if errors.Is(err, iwarp.ErrClosed) || errors.Is(err, iwarp.ErrPeerClosed) {
		q.flushSends()
		return
	}
	s.stopped = true
	go q.refuse(i)
}

// refuse completes element i with an error of this end, when all before it have
// completed, and ends the connection.
func (q *QP) refuse(i uint32) {
	if c := q.conn.Load(); c != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = c.Drain(ctx)
		cancel()
	}
	q.toError(eventNone)
	s := &q.send
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ring.Freed() || !s.stopped {
		return
	}
	w := ring.Send(s.ring.At(i))
	st := uint32(ring.StatusLocalQPOp)
	if w.Opcode() < ring.OpLocalInv || w.Opcode() == ring.OpSendInval {
		st = ring.StatusLocalProt // its memory is not what it names
	}
	s.next = s.ring.Next(i)
	s.ring.SetConsumer(s.next)
	q.complete(q.sendCQ, &ring.Completion{ID: w.ID(), Status: st, Opcode: ring.WCOpcode(w.Opcode())}, false)
	q.flushSends()
}

// flushSends completes what was never handed to a connection. From then on that is all.
func (q *QP) flushSends() {
	s := &q.send
	s.stopped = false
	for end := s.ring.Producer(); s.next != end; {
		w := ring.Send(s.ring.At(s.next))
		c := ring.Completion{ID: w.ID(), Status: ring.StatusFlush, Opcode: ring.WCOpcode(w.Opcode())}
		s.next = s.ring.Next(s.next)
		s.ring.SetConsumer(s.next)
		q.complete(q.sendCQ, &c, false)
	}
}

// translate appends the work requests of element i to the batch. It is false if that is
// none that the connection takes.
func (q *QP) translate(i uint32) bool {
	s := &q.send
	w := ring.Send(s.ring.At(i))
	flags, op := w.Flags(), w.Opcode()
	wr := iwarp.SendWR{
		ID: uint64(i), Unsignaled: flags&ring.FlagSignaled == 0 && !q.signalAll,
		Solicited: flags&ring.FlagSolicited != 0, Fence: flags&ring.FlagFence != 0,
	}
	switch op {
	case ring.OpLocalInv:
		wr.Op, wr.Invalidate = iwarp.OpInvalidate, iwarp.STag(w.Invalidate())
	case ring.OpCmpSwap:
		wr.Op, wr.Compare, wr.Operand = iwarp.OpCompareSwap, w.CompareAdd(), w.Swap()
		wr.CompareMask, wr.OperandMask = ^uint64(0), ^uint64(0)
	case ring.OpFetchAdd:
		wr.Op, wr.Operand = iwarp.OpFetchAdd, w.CompareAdd()
	case ring.OpWrite, ring.OpWriteImm:
		wr.Op = iwarp.OpWrite
	case ring.OpRead:
		wr.Op = iwarp.OpRead
	case ring.OpSend, ring.OpSendImm:
		wr.Op = iwarp.OpSend
	case ring.OpSendInval:
		wr.Op, wr.Invalidate = iwarp.OpSendInvalidate, iwarp.STag(w.Invalidate())
	default:
		return false
	}
	switch op {
	case ring.OpLocalInv:
		s.batch = append(s.batch, wr)
		return true
	case ring.OpCmpSwap, ring.OpFetchAdd:
		wr.Remote = iwarp.RemoteBuffer{TO: w.RemoteAddr(), STag: iwarp.STag(w.AtomicRKey())}
		_, ok := s.atomicSink(w)
		s.batch = append(s.batch, wr)
		return ok
	case ring.OpWrite, ring.OpWriteImm, ring.OpRead:
		wr.Remote = iwarp.RemoteBuffer{TO: w.RemoteAddr(), STag: iwarp.STag(w.RKey())}
	}
	if !s.gather(i, w, op == ring.OpRead) {
		return false
	}
	wr.SG = s.sg[i]
	s.batch = appendImmediate(s.batch, &wr, op, w)
	return true
}

// gather finds the memory of an element.
func (s *sendSide) gather(i uint32, w ring.Send, write bool) bool {
	sg := s.sg[i][:0]
	defer func() { s.sg[i] = sg }()
	if w.Flags()&ring.FlagInline != 0 && !write {
		b, ok := w.Inline()
		if ok && len(b) > 0 {
			sg = append(sg, b)
		}
		return ok
	}
	l, ok := w.SGEs()
	if ok {
		sg, ok = s.memory.resolve(sg, l, write)
	}
	return ok
}

// atomicSink is where the value goes that an atomic finds.
func (s *sendSide) atomicSink(w ring.Send) ([]byte, bool) {
	l, ok := w.SGEs()
	if !ok || l.Len() == 0 {
		return nil, ok
	}
	var room [1][]byte
	sg, ok := s.memory.resolve(room[:0], l[:ring.SGELen], true)
	if !ok || len(sg) == 0 {
		return nil, ok
	}
	return sg[0], len(sg[0]) >= 8
}

// The second word of Immediate Data: octets of the Write before it, or ofNextSend.
const ofNextSend = 0xffffffff

// appendImmediate appends a request, with its immediate if it has one. That of a Write
// comes behind it, that of a Send before, so that a receive is complete with one message.
func appendImmediate(to []iwarp.SendWR, wr *iwarp.SendWR, op uint32, w ring.Send) []iwarp.SendWR {
	if op != ring.OpWriteImm && op != ring.OpSendImm {
		return append(to, *wr)
	}
	four := w.Immediate()
	imm := iwarp.SendWR{ID: wr.ID, Op: iwarp.OpImmediate, Immediate: uint64(binary.BigEndian.Uint32(four[:])) << 32}
	if op == ring.OpSendImm {
		imm.Immediate |= ofNextSend
		imm.ID |= firstOfTwo
		imm.Unsignaled, imm.Fence, wr.Fence = true, wr.Fence, false
		return append(to, imm, *wr)
	}
	n := uint32(0)
	for _, p := range wr.SG {
		n += uint32(len(p))
	}
	imm.Immediate |= uint64(n)
	imm.Unsignaled, imm.Solicited = wr.Unsignaled, wr.Solicited
	wr.ID |= firstOfTwo
	wr.Unsignaled, wr.Solicited = true, false
	return append(to, *wr, imm)
}

// completed takes the completion of a work request of package iwarp.
func (q *QP) completed(c *rdmap.Completion) {
	s := &q.send
	if s.ring.Freed() {
		return
	}
	if c.ID&firstOfTwo != 0 {
		if c.Err != nil {
			s.first = status(c.Op, c.Err)
		}
		return
	}
	i := uint32(c.ID)
	w := ring.Send(s.ring.At(i))
	v := ring.Completion{ID: w.ID(), Opcode: ring.WCOpcode(w.Opcode()), Length: c.Length, Status: status(c.Op, c.Err)}
	if s.first != ring.StatusSuccess {
		v.Status, s.first = s.first, ring.StatusSuccess
	}
	if v.Status == ring.StatusSuccess && (c.Op == rdmap.OpFetchAdd || c.Op == rdmap.OpCompareSwap) {
		v.Status = s.putOriginal(w, c.Original)
	}
	unsignaled := w.Flags()&ring.FlagSignaled == 0 && !q.signalAll
	s.ring.SetConsumer(s.ring.Next(i))
	if !unsignaled || v.Status != ring.StatusSuccess {
		q.complete(q.sendCQ, &v, false)
	}
}

// putOriginal stores what an atomic has found. A region that has gone meanwhile has taken
// the connection with it.
func (s *sendSide) putOriginal(w ring.Send, v uint64) uint32 {
	l, ok := w.SGEs()
	if !ok || l.Len() == 0 {
		return ring.StatusSuccess
	}
	m := resolver{regions: s.memory.regions, pd: s.memory.pd} // the other one's lock is not held
	sg, ok := m.resolve(nil, l[:ring.SGELen], true)
	if !ok || len(sg) == 0 || len(sg[0]) < 8 {
		return ring.StatusLocalProt
	}
	var b [8]byte
	uabi.Order.PutUint64(b[:], v)
	if _, err := fault.Copy(sg[0], b[:]); err != nil {
		return ring.StatusLocalProt
	}
	return ring.StatusSuccess
}

// uses reports whether an element that is at the connection names memory of the region.
func (s *sendSide) uses(m *mr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ring.Freed() {
		return false
	}
	for i := s.ring.Consumer(); i != s.next; i = s.ring.Next(i) {
		w := ring.Send(s.ring.At(i))
		if l, ok := w.SGEs(); ok && w.Flags()&ring.FlagInline == 0 && m.uses(l) {
			return true
		}
	}
	return false
}
