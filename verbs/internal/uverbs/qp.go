package uverbs

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/verbs/internal/ring"
	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
)

// States of a queue pair: enum ibv_qp_state.
const (
	StateReset = 0
	StateInit  = 1
	StateRTR   = 2
	StateRTS   = 3
	StateSQD   = 4
	StateError = 6
)

// QP is a queue pair. Its queues are rings; it is the iwarp.Queues of its connection.
type QP struct {
	asyncEvents
	file           *File
	qpn            uint32
	pd             *pd
	sendCQ, recvCQ *cq
	srq            *srq
	caps           uabi.Caps
	signalAll      bool

	state atomic.Uint32
	quiet atomic.Bool // destroyed: nothing completes any more
	conn  atomic.Pointer[iwarp.Conn]

	mu        sync.Mutex
	root      *iwarp.QP
	onEnd     func(error) // of rdma_cm: no message comes any more
	access    uint32
	maxReads  uint8
	destReads uint8

	send sendSide
	recv recvSide
}

func (f *File) createQP(r *request) unix.Errno {
	body := r.body
	if !r.extended {
		if len(body) < 8 {
			return unix.EINVAL
		}
		body = body[8:]
	}
	c, err := uabi.Decode[uabi.CreateQPCmd](body)
	if err != nil {
		return unix.EINVAL
	}
	if r.extended {
		x, err := uabi.Decode[uabi.CreateQPExtra](body[uabi.Size[uabi.CreateQPCmd]():])
		if err == nil && (x.CompMask != 0 || x.Flags != 0) {
			return unix.EOPNOTSUPP
		}
	}
	q, e := f.newQP(&c)
	if e != 0 {
		return e
	}
	h, e := f.add(q)
	if e == 0 {
		resp := []any{uabi.CreateQPResp{Handle: h, QPN: q.qpn, Caps: q.caps}}
		if r.extended {
			resp = append(resp, uabi.Extension{ResponseLength: 40})
		}
		var rq uabi.RingInfo
		if q.recv.ring != nil {
			rq = q.recv.ring.Info()
		}
		e = r.reply(append(resp, rq, q.send.ring.Info())...)
	}
	if e != 0 {
		_, _ = remove[*QP](f, h)
		q.destroy()
	}
	return e
}

// typeRC is a reliable connection, the one type that iWARP has.
const typeRC = 2

func (f *File) newQP(c *uabi.CreateQPCmd) (*QP, unix.Errno) {
	if c.Type != typeRC {
		return nil, unix.EOPNOTSUPP
	}
	q := &QP{asyncEvents: asyncEvents{file: f, user: c.UserHandle}, file: f, signalAll: c.SignalAll != 0}
	var e [4]unix.Errno
	q.pd, e[0] = get[*pd](f, c.PD)
	q.sendCQ, e[1] = get[*cq](f, c.SendCQ)
	q.recvCQ, e[2] = get[*cq](f, c.RecvCQ)
	if c.HasSRQ != 0 {
		q.srq, e[3] = get[*srq](f, c.SRQ)
	}
	for _, e := range e {
		if e != 0 {
			return nil, e
		}
	}
	k := c.Caps
	for _, v := range [...]*uint32{&k.SendWR, &k.RecvWR, &k.SendSGE, &k.RecvSGE} {
		*v = max(*v, 1)
	}
	if k.SendWR > maxWR || k.RecvWR > maxWR || k.SendSGE > maxSGE || k.RecvSGE > maxSGE || k.Inline > maxInline {
		return nil, unix.EINVAL
	}
	k.Inline = max(k.Inline, minInline, k.SendSGE*ring.SGELen)
	q.caps = k
	if e := q.makeRings(); e != 0 {
		return nil, e
	}
	if e := q.makeRoot(); e != 0 {
		q.freeRings()
		return nil, e
	}
	q.pd.refs.Add(1)
	q.sendCQ.attach(q)
	q.recvCQ.attach(q)
	if q.srq != nil {
		q.srq.refs.Add(1)
	}
	d := f.dev
	d.mu.Lock()
	for q.qpn == 0 || d.qps[q.qpn] != nil {
		q.qpn = d.number()
	}
	d.qps[q.qpn] = q
	d.mu.Unlock()
	return q, 0
}

func (q *QP) makeRings() unix.Errno {
	k := &q.caps
	var err error
	s, r := &q.send, &q.recv
	if s.ring, err = q.file.mem.New(int(k.SendWR), ring.SendLen+int(max(k.SendSGE*ring.SGELen, k.Inline))); err != nil {
		return unix.ENOMEM
	}
	s.sg = make([][][]byte, s.ring.Slots())
	s.memory = resolver{regions: &q.file.dev.memory, pd: q.pd}
	if q.srq != nil {
		k.RecvWR, k.RecvSGE = 0, 0
		return 0
	}
	if r.ring, err = q.file.mem.New(int(k.RecvWR), ring.RecvLen+int(k.RecvSGE)*ring.SGELen); err != nil {
		s.ring.Free()
		return unix.ENOMEM
	}
	r.sg = make([][][]byte, r.ring.Slots())
	r.memory = s.memory
	return 0
}

func (q *QP) freeRings() {
	q.send.mu.Lock()
	q.send.ring.Free()
	q.send.mu.Unlock()
	q.recv.mu.Lock()
	q.recv.ring.Free()
	q.recv.mu.Unlock()
}

// receivePatience is how long a message waits for its receive. Programs that were made for
// InfiniBand, fio say, have their Sends tried again until there is one.
const receivePatience = 5 * time.Second

// makeRoot makes the queue pair of package iwarp. Two work requests of it may be one of
// the program's: see sendSide.
func (q *QP) makeRoot() unix.Errno {
	root, err := q.pd.p.NewQP(
		&iwarp.QPConfig{
			SendDepth: 2 * q.send.ring.Slots(),
			MaxSGE:    maxSGE,
			Queues:    &queues{q: q},
			RecvWait:  receivePatience,
		},
	)
	if err != nil {
		q.file.dev.logger.Debug("create_qp", "error", err)
		return errno(err)
	}
	q.mu.Lock()
	q.root = root
	q.mu.Unlock()
	return 0
}

// QPN is the number of the queue pair.
func (q *QP) QPN() uint32 { return q.qpn }

// Connect prepares the queue pair for a connection and returns that of package iwarp.
// onEnd is called once, from a goroutine of its own, when no message comes any more. The
// errno says that the queue pair cannot be connected.
func (q *QP) Connect(onEnd func(error)) (*iwarp.QP, unix.Errno) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.quiet.Load() || q.root.Conn() != nil || q.onEnd != nil {
		return nil, unix.EINVAL
	}
	q.onEnd = onEnd
	return q.root, 0
}

// Unconnected says that the connection for which Connect was called has not come about.
func (q *QP) Unconnected() {
	q.mu.Lock()
	q.onEnd = nil
	q.mu.Unlock()
}

// Established says that c is the queue pair's connection. What the program has posted
// before goes out now.
func (q *QP) Established(c *iwarp.Conn) {
	q.conn.Store(c)
	for _, s := range [...]uint32{StateReset, StateInit, StateRTR} {
		q.state.CompareAndSwap(s, StateRTS)
	}
	q.doorbell()
}

// toError is the transition to the error state: everything completes, flushed.
func (q *QP) toError(event uint32) {
	if q.state.Swap(StateError) != StateError && event != eventNone {
		q.raise(event)
	}
	q.mu.Lock()
	root := q.root
	q.mu.Unlock()
	if c := root.Conn(); c != nil {
		c.Abort()
	} else {
		q.flushReceives()
	}
	q.doorbell()
}

// reset is the transition to the reset state.
func (q *QP) reset() unix.Errno {
	q.quiet.Store(true)
	defer q.quiet.Store(false)
	q.mu.Lock()
	root := q.root
	q.onEnd = nil
	q.mu.Unlock()
	_ = root.Close()
	q.conn.Store(nil)
	q.send.reset()
	q.recv.reset()
	if e := q.makeRoot(); e != 0 {
		return e
	}
	q.state.Store(StateReset)
	return 0
}

// What modifyQP changes: enum ibv_qp_attr_mask.
const (
	qpState     = 1 << 0
	qpAccess    = 1 << 3
	qpMaxReads  = 1 << 13
	qpDestReads = 1 << 17
)

func (f *File) modifyQP(c uabi.ModifyQPCmd, r *request) unix.Errno {
	q, e := get[*QP](f, c.Handle)
	if e != 0 {
		return e
	}
	q.mu.Lock()
	if c.Mask&qpAccess != 0 {
		q.access = c.Access
	}
	if c.Mask&qpMaxReads != 0 {
		q.maxReads = c.MaxReads
	}
	if c.Mask&qpDestReads != 0 {
		q.destReads = c.MaxDestReads
	}
	q.mu.Unlock()
	if c.Mask&qpState != 0 {
		e = q.modifyState(uint32(c.State))
	}
	if e == 0 && r.extended {
		e = r.reply(uabi.Extension{ResponseLength: 8})
	}
	return e
}

func (q *QP) modifyState(to uint32) unix.Errno {
	switch from := q.state.Load(); {
	case to == StateError:
		q.toError(eventNone)
	case to == StateReset:
		return q.reset()
	case to > StateError:
		return unix.EINVAL
	case from == StateError:
		// The peer was quick, and rdma_cm's event is on its way.
	case q.conn.Load() != nil && to != StateSQD:
		// A connection has put the queue pair into RTS already.
	case to == StateSQD && from != StateRTS && from != StateSQD:
		return unix.EINVAL
	default:
		q.state.CompareAndSwap(from, to)
	}
	return 0
}

func (f *File) queryQP(c uabi.QueryQPCmd, r *request) unix.Errno {
	q, e := get[*QP](f, c.Handle)
	if e != 0 {
		return e
	}
	s := uint8(q.state.Load())
	q.mu.Lock()
	resp := uabi.QueryQPResp{
		Caps: q.caps, Access: q.access, State: s, CurrentState: s, PathMTU: 3,
		MaxReads: q.maxReads, MaxDestReads: q.destReads, Port: 1,
	}
	q.mu.Unlock()
	if q.signalAll {
		resp.SignalAll = 1
	}
	return r.reply(resp)
}

func (f *File) destroyQP(c uabi.DestroyCmd, r *request) unix.Errno {
	q, e := remove[*QP](f, c.Handle)
	if e != 0 {
		return e
	}
	return r.reply(uabi.DestroyResp{AsyncEvents: q.destroy()})
}

// releasePatience bounds how long destroy_qp waits for TCP to take what was posted.
const releasePatience = 2 * time.Second

// destroy gives the queue pair's memory back. A healthy connection ends by itself in the
// background, so that what TCP has taken arrives.
func (q *QP) destroy() uint32 {
	d := q.file.dev
	d.mu.Lock()
	delete(d.qps, q.qpn)
	d.mu.Unlock()
	q.quiet.Store(true)
	q.state.Store(StateError)
	q.mu.Lock()
	root := q.root
	q.mu.Unlock()
	if c := root.Conn(); c != nil && c.Err() == nil {
		ctx, cancel := context.WithTimeout(context.Background(), releasePatience)
		_ = c.Release(ctx)
		cancel()
	}
	_ = root.Close()
	q.sendCQ.detach(q)
	q.recvCQ.detach(q)
	if q.srq != nil {
		q.srq.refs.Add(-1)
	}
	q.freeRings()
	q.pd.refs.Add(-1)
	return q.end(isQPEvent)
}

// complete puts a completion into a queue.
func (q *QP) complete(to *cq, c *ring.Completion, solicited bool) {
	if !q.quiet.Load() {
		c.QPN = q.qpn
		to.push(c, solicited)
	}
}

// status is the status of a failed work request.
func status(op iwarp.Op, err error) uint32 {
	switch (&iwarp.Completion{Op: op, Err: err}).Status() {
	case iwarp.StatusSuccess:
		return ring.StatusSuccess
	case iwarp.StatusFlushed:
		return ring.StatusFlush
	case iwarp.StatusRemoteAccess:
		return ring.StatusRemoteAccess
	case iwarp.StatusRemoteInvalid:
		return ring.StatusRemoteInvalid
	case iwarp.StatusRemoteUnsupported:
		return ring.StatusRemoteOp
	case iwarp.StatusLength:
		return ring.StatusLocalLength
	}
	return ring.StatusLocalProt
}

// asyncOf is the asynchronous event for the end of a connection.
func asyncOf(err error) uint32 {
	var p *iwarp.ProtocolError
	switch {
	case !errors.As(err, &p) || p.Code.Layer() == protocol.LayerLLP:
		return eventNone
	case p.Remote:
		return eventQPRequest
	case p.Code.Type() == 1:
		return eventQPAccess
	}
	return eventQPFatal
}
