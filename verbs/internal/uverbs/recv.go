package uverbs

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
	"github.com/go-iwarp/iwarp/verbs/internal/ring"
	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
)

// recvSide is the receive queue, or what the messages of one queue pair hold of its SRQ.
// Memory is looked up when a message takes a receive, and not when the program posts it:
// rsockets gives memory back whose receive is still posted.
type recvSide struct {
	mu       sync.Mutex
	ring     *ring.Ring // nil: an SRQ
	memory   resolver
	taken    uint32 // next element for a message
	sg       [][][]byte
	held     []uint64 // slots of the SRQ
	aside    bool     // Ready has taken asideBuf for the next message, with asideOK
	asideBuf ddp.Buffer
	asideOK  bool
	ended    bool

	hasImm bool // an immediate has come that belongs to the next Send
	imm    [4]byte
}

func (r *recvSide) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended, r.hasImm, r.aside = false, false, false
	if r.ring != nil {
		r.taken = r.ring.Producer()
		r.ring.SetConsumer(r.taken)
	}
}

// queues is a QP as its connection sees it.
type queues struct{ q *QP }

func (s *queues) Completed(c *rdmap.Completion) { s.q.completed(c) }

// noReceive is the Token of Immediate Data, which has no memory.
const noReceive = 1 << 63

// Take implements ddp.Source.
func (s *queues) Take(h *ddp.Header) (ddp.Buffer, bool) {
	if op := rdmap.Control(h.Control).Opcode(); op == rdmap.OpcodeImmediate || op == rdmap.OpcodeImmediateSolicited {
		return ddp.Buffer{Token: noReceive}, true
	}
	return s.q.take()
}

// Ready implements iwarp.Queues.
func (s *queues) Ready() bool {
	q := s.q
	r := &q.recv
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended:
		return true // for nothing: what comes is refused
	case q.srq != nil:
		if !r.aside {
			r.asideBuf, r.asideOK, r.aside = q.takeShared()
		}
		return r.aside
	}
	return !r.ring.Freed() && r.taken != r.ring.Producer()
}

func (q *QP) take() (ddp.Buffer, bool) {
	r := &q.recv
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return ddp.Buffer{}, false
	}
	if q.srq != nil {
		if !r.aside {
			r.asideBuf, r.asideOK, _ = q.takeShared()
		}
		r.aside = false
		return r.asideBuf, r.asideOK
	}
	if r.ring.Freed() || r.taken == r.ring.Producer() {
		return ddp.Buffer{}, false
	}
	i := r.taken
	r.taken = r.ring.Next(i)
	e := ring.Recv(r.ring.At(i))
	l, ok := e.SGEs()
	if ok {
		r.sg[i], ok = r.memory.resolve(r.sg[i][:0], l, true)
	}
	if !ok {
		v := ring.Completion{ID: e.ID(), Status: ring.StatusLocalProt, Opcode: ring.WCRecv}
		r.ring.SetConsumer(r.taken)
		q.complete(q.recvCQ, &v, false)
		return ddp.Buffer{}, false
	}
	return ddp.Buffer{SG: r.sg[i], Token: uint64(i)}, true
}

// takeShared takes a receive of the SRQ. It is found but not ok if its memory is not what
// it names: it has completed so.
func (q *QP) takeShared() (b ddp.Buffer, ok, found bool) {
	b, ok, prot := q.srq.take()
	switch {
	case ok:
		q.recv.held = append(q.recv.held, b.Token)
	case prot:
		q.complete(q.recvCQ, &ring.Completion{
			ID: q.srq.finish(b.Token), Status: ring.StatusLocalProt, Opcode: ring.WCRecv,
		}, false)
	}
	return b, ok, ok || prot
}

// finish frees the receive of a message and returns its ID.
func (q *QP) finish(token uint64) (id uint64, ok bool) {
	r := &q.recv
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.srq != nil {
		if i := slices.Index(r.held, token); i >= 0 {
			r.held = slices.Delete(r.held, i, i+1)
			return q.srq.finish(token), true
		}
		return 0, false
	}
	if r.ring.Freed() {
		return 0, false
	}
	i := uint32(token)
	id = ring.Recv(r.ring.At(i)).ID()
	r.ring.SetConsumer(r.ring.Next(i))
	return id, true
}

// Delivered implements rdmap.Handler.
func (s *queues) Delivered(d *rdmap.Delivery) *protocol.Error {
	q := s.q
	token := d.Buffer.Token
	v := ring.Completion{Opcode: ring.WCRecv, Length: d.Length}
	if token == noReceive {
		if d.Err != nil {
			return nil
		}
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], d.Immediate)
		four, n := [4]byte(b[:4]), binary.BigEndian.Uint32(b[4:])
		if n == ofNextSend {
			q.recv.hasImm, q.recv.imm = true, four
			return nil
		}
		buf, ok := q.take()
		if !ok {
			return &protocol.Error{
				Code: protocol.DDPUntaggedNoBuffer, Section: "RFC 5041 section 7.1",
				Detail: "no receive is posted for an RDMA Write with an immediate",
			}
		}
		token = buf.Token
		v.Opcode, v.Length, v.Extra, v.Flags = ring.WCRecvImm, n, four, ring.WCWithImm
	} else if q.recv.hasImm {
		q.recv.hasImm = false
		v.Extra, v.Flags = q.recv.imm, ring.WCWithImm
	}
	var ok bool
	if v.ID, ok = q.finish(token); !ok {
		return nil
	}
	if d.Invalidated != 0 {
		v.Flags |= ring.WCWithInv
		uabi.Order.PutUint32(v.Extra[:], uint32(d.Invalidated))
	}
	if d.Err != nil {
		v.Status = status(rdmap.OpRecv, d.Err)
	}
	q.complete(q.recvCQ, &v, d.Opcode.Solicited())
	return nil
}

// Ended implements iwarp.Queues.
func (s *queues) Ended(err error) {
	q := s.q
	if e := asyncOf(err); q.state.Swap(StateError) != StateError && e != eventNone && !q.quiet.Load() {
		q.raise(e)
	}
	q.flushReceives()
	q.mu.Lock()
	end := q.onEnd
	q.mu.Unlock()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if end != nil {
		go end(err)
	}
}

// flushReceives completes the receives that no message has, and from then on there are
// none.
func (q *QP) flushReceives() {
	r := &q.recv
	r.mu.Lock()
	was := r.ended
	r.ended = true
	var ids []uint64
	switch {
	case q.srq != nil:
		for _, k := range r.held {
			ids = append(ids, q.srq.finish(k))
		}
		r.held = nil
	case !r.ring.Freed():
		// A receive taken by a message that never came whole is flushed too.
		i := r.ring.Consumer()
		for end := r.ring.Producer(); i != end; i = r.ring.Next(i) {
			ids = append(ids, ring.Recv(r.ring.At(i)).ID())
		}
		r.taken = i
		r.ring.SetConsumer(i)
	}
	r.mu.Unlock()
	for _, id := range ids {
		q.complete(q.recvCQ, &ring.Completion{ID: id, Status: ring.StatusFlush, Opcode: ring.WCRecv}, false)
	}
	if q.srq != nil && !was && !q.quiet.Load() {
		q.raise(eventLastWQE)
	}
}

// usesNow reports whether the connection may be at work on memory of the region.
func (q *QP) usesNow(m *mr) bool {
	r := &q.recv
	r.mu.Lock()
	busy := false
	if q.srq != nil {
		for _, k := range r.held {
			busy = busy || q.srq.uses(k, m)
		}
	} else if !r.ring.Freed() {
		for i := r.ring.Consumer(); i != r.taken; i = r.ring.Next(i) {
			if l, ok := ring.Recv(r.ring.At(i)).SGEs(); ok && m.uses(l) {
				busy = true
			}
		}
	}
	r.mu.Unlock()
	return busy || q.send.uses(m)
}
