package iwarp

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// QPConfig configures a [QP]. Nil, and zero in a field, mean the documented
// default.
type QPConfig struct {
	// SendCQ and RecvCQ receive the completions; they may be one. Nil: the QP
	// makes a queue of its own, large enough for its work requests.
	SendCQ, RecvCQ *CQ
	SendDepth      int // send work requests at once; default 128
	RecvDepth      int // receive work requests at once; default 128
	// SRQ, if not nil, is where this QP's messages take their receives from. The QP
	// has no receive queue of its own then: RecvDepth is not looked at, nothing is
	// charged for it, and a RecvCQ that the QP makes has SRQConfig.MaxShare entries.
	SRQ    *SRQ
	MaxSGE int // elements of a work request's SG; default 16
	// Context comes back in each of the QP's completions: what the program keeps of the
	// connection, say.
	Context any
	// NotifyEnd has the end of the connection arrive on the RecvCQ as a completion, once:
	// with [OpEnd], and as Err what [Conn.Err] returns, nil after a graceful end. It is the
	// last completion of the receive queue, and of the send queue if that has the same CQ;
	// one with another CQ has all its own by then. It takes an entry of the RecvCQ as long as the
	// QP exists and has not ended. There is none from a QP that was never connected.
	NotifyEnd bool
	// RecvWait is how long a message may wait for a receive that is not posted yet; what
	// follows it on the connection waits too, and TCP holds the peer back. Default 0: a
	// message without a receive ends the connection at once (1/2/02), as after RecvWait
	// (https://www.rfc-editor.org/rfc/rfc5041#section-7.1). It is for ULPs that were
	// made for InfiniBand, whose senders try again. Not with an SRQ.
	RecvWait time.Duration
	// Queues, if not nil, is where this QP's messages take their receives from and where
	// its work requests complete: queues that are not this package's. SendCQ, RecvCQ and
	// SRQ must be nil then, RecvDepth is not looked at, and PostRecv is refused.
	Queues Queues
}

// QP is a queue pair: the send and the receive queue of one connection. It
// exists, and takes receives, before it is connected, so that the peer's first
// message finds a buffer; [Dial], [Client], [Server] and [ConnRequest.Accept]
// connect the QP of their Config. A QP serves one connection in its life. All
// methods may be called from any goroutine.
type QP struct {
	dev            *Device
	pd             *PD
	stream         ddp.StreamID
	cfg            QPConfig
	sendCQ, recvCQ *CQ
	ownCQs         []*CQ
	queues         queues

	trace    atomic.Pointer[tracer] // the connection's
	sendDone broadcast              // a send work request has
	handed   atomic.Bool            // a completion was handed up: the receive goroutine looks at it

	mu     sync.Mutex
	conn   atomic.Pointer[Conn] // changed under mu
	closed bool
	endDue bool // an entry of the RecvCQ is set aside for the end
}

// NewQP makes a queue pair in the domain. cfg may be nil. The error wraps
// [ErrLimit].
func (p *PD) NewQP(cfg *QPConfig) (*QP, error) {
	if err := p.made(); err != nil {
		return nil, err
	}
	return p.newQP(cfg, nil)
}

// newQP makes a QP, with in for its receive queue if that is not nil.
func (p *PD) newQP(cfg *QPConfig, in *inbox) (*QP, error) {
	var c QPConfig
	if cfg != nil {
		c = *cfg
	}
	l := p.dev.limits
	limits := []limit{
		{"QPConfig.SendDepth", &c.SendDepth, defaultQueue, 1, l.MaxWR},
		{"QPConfig.MaxSGE", &c.MaxSGE, 16, 1, l.MaxSGE},
	}
	if c.SRQ != nil || c.Queues != nil {
		c.RecvDepth = 0 // of a queue that it does not have
	} else {
		limits = append(limits, limit{"QPConfig.RecvDepth", &c.RecvDepth, defaultQueue, 1, l.MaxWR})
	}
	if err := settle(limits...); err != nil {
		return nil, err
	}
	if err := p.checkQueues(&c); err != nil {
		return nil, err
	}
	if err := p.take(resQP, 1); err != nil {
		return nil, err
	}
	// Rule: RDMAP-8.1.2-01
	if err := p.take(resEntries, int64(c.SendDepth+c.RecvDepth)); err != nil {
		p.give(resQP, 1)
		return nil, err
	}
	q := &QP{dev: p.dev, pd: p, stream: ddp.StreamID(p.dev.lastQP.Add(1)), cfg: c, sendCQ: c.SendCQ, recvCQ: c.RecvCQ}
	p.used.Add(1)
	err := q.makeQueues(in)
	if err == nil {
		err = q.makeCQs()
	}
	if err == nil {
		err = q.reserveEnd()
	}
	if err != nil {
		q.release()
		return nil, err
	}
	return q, nil
}

// makeQueues settles where the QP's messages find their buffers.
func (q *QP) makeQueues(in *inbox) error {
	switch srq := q.cfg.SRQ; {
	case in != nil:
		in.qp, q.queues = q, in
	case srq != nil:
		if err := srq.join(); err != nil {
			return err
		}
		q.queues = &srqSource{toCQs: toCQs{q}, srq: srq}
	case q.cfg.Queues != nil:
		q.queues = &elsewhere{qp: q, Queues: q.cfg.Queues}
	default:
		q.queues = newRecvQueue(q, q.cfg.RecvDepth)
	}
	return nil
}

// checkQueues refuses queues of another tenant: programs that do not trust each
// other share none (RFC 5042 section 7.1).
func (p *PD) checkQueues(c *QPConfig) error {
	if c.RecvWait > 0 && c.SRQ != nil {
		return fmt.Errorf("%w: QPConfig.RecvWait beside an SRQ, whose receives others may take first", ErrInvalidWR)
	}
	if c.Queues != nil && (c.SendCQ != nil || c.RecvCQ != nil || c.SRQ != nil) {
		return fmt.Errorf("%w: QPConfig.Queues stands in for SendCQ, RecvCQ and SRQ: none of them can be set beside it",
			ErrInvalidWR)
	}
	for _, f := range [...]struct {
		name string
		cq   *CQ
	}{{"SendCQ", c.SendCQ}, {"RecvCQ", c.RecvCQ}} {
		// Rule: DDP-8.3.2-03, RDMAP-8.1.1-09, SEC-7.1-01
		if f.cq != nil && f.cq.tenant != p.tenant {
			return fmt.Errorf("%w: QPConfig.%s is of another device or tenant than the protection domain", ErrInvalidWR,
				f.name)
		}
	}
	// Rule: DDP-8.3.2-03
	if c.SRQ != nil && c.SRQ.pd != p {
		return fmt.Errorf("%w: QPConfig.SRQ is of another protection domain", ErrInvalidWR)
	}
	return nil
}

// makeCQs makes the completion queues that the QP was not given.
func (q *QP) makeCQs() error {
	ends := 0
	if q.cfg.NotifyEnd {
		ends = 1
	}
	for _, c := range [...]struct {
		cq    **CQ
		depth int
	}{{&q.sendCQ, q.cfg.SendDepth}, {&q.recvCQ, q.queues.completions() + ends}} {
		if *c.cq != nil {
			continue
		}
		cq, err := q.dev.newCQ(q.pd.tenant, min(c.depth, q.dev.limits.MaxCQE))
		if err != nil {
			return err
		}
		*c.cq = cq
		q.ownCQs = append(q.ownCQs, cq)
	}
	return nil
}

// PD returns the QP's protection domain.
func (q *QP) PD() *PD { return q.pd }

// SendCQ is where send work requests complete.
func (q *QP) SendCQ() *CQ { return q.sendCQ }

// RecvCQ is where receives complete.
func (q *QP) RecvCQ() *CQ { return q.recvCQ }

// Conn returns the QP's connection, nil before there is one.
func (q *QP) Conn() *Conn {
	return q.conn.Load()
}

// PostRecv posts receives, in order. It does not block. The first that cannot be
// posted ends the list and is named by a *[PostError], whose cause is
// [ErrRecvQueueFull], [ErrCQFull] or [ErrInvalidWR]. On a connection that has
// ended receives complete at once, with ErrFlushed.
func (q *QP) PostRecv(wrs ...RecvWR) error {
	if err := q.made(); err != nil {
		return err
	}
	for i := range wrs {
		if err := q.queues.post(&wrs[i]); err != nil {
			return &PostError{Index: i, Err: err}
		}
	}
	if c := q.Conn(); c != nil {
		c.nudge.look()
	}
	return nil
}

// PostSend posts send work requests, in order, and starts sending. It does not
// wait for the peer or the network. The first that cannot be posted ends the
// list and is named by a *[PostError], whose cause is [ErrSendQueueFull],
// [ErrCQFull], [ErrNotConnected], [ErrInvalidWR], or [ErrClosed] after
// Close or CloseWrite. On a connection that has failed, requests are accepted
// and complete at once, with ErrFlushed.
func (q *QP) PostSend(wrs ...SendWR) error {
	if err := q.made(); err != nil {
		return err
	}
	c := q.Conn()
	if c == nil {
		return &PostError{Err: ErrNotConnected}
	}
	n, err := c.postAll(wrs)
	c.kick()
	if c.trace != nil {
		c.trace.posted(wrs[:n])
		c.trace.flush()
	}
	if err != nil {
		return &PostError{Index: n, Err: err}
	}
	return nil
}

// Close gives the QP back. A connection that it has is aborted first, unless
// [Conn.Release] has left it to itself; end it with [Conn.Close] for a graceful end. Receives still posted on a QP
// that was never connected are flushed.
func (q *QP) Close() error {
	if err := q.made(); err != nil {
		return err
	}
	switch c := q.Conn(); {
	case c == nil:
		q.queues.end(ErrNotConnected)
	case !c.released.Load():
		c.Abort()
	}
	q.release()
	return nil
}

// release gives the QP's place in the device back, once.
func (q *QP) release() {
	q.mu.Lock()
	was := q.closed
	q.closed = true
	q.mu.Unlock()
	if was {
		return
	}
	if q.queues != nil {
		q.queues.leave()
	}
	if q.takeEnd() {
		q.recvCQ.release(1)
	}
	q.pd.leave()
	q.pd.give(resQP, 1)
	q.pd.give(resEntries, int64(q.cfg.SendDepth+q.cfg.RecvDepth))
	for _, cq := range q.ownCQs {
		cq.Close()
	}
}

// attach makes c the QP's connection.
func (q *QP) attach(c *Conn) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.mayAttach(); err != nil {
		return err
	}
	q.conn.Store(c)
	return nil
}

// usable tells before startup what attach would say.
func (q *QP) usable() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mayAttach()
}

func (q *QP) mayAttach() error {
	switch {
	case q.closed:
		return fmt.Errorf("iwarp: QP: %w", net.ErrClosed)
	case q.conn.Load() != nil:
		return fmt.Errorf("%w: the QP has had a connection: a QP serves one", ErrInUse)
	}
	return nil
}

func (q *QP) handOver() {
	if !q.handed.Load() {
		q.handed.Store(true)
	}
}

// handler is the QP as its connection's stream sees it.
type handler QP

// Completed implements rdmap.Handler.
func (h *handler) Completed(c *rdmap.Completion) {
	q := (*QP)(h)
	q.sendDone.raise()
	q.handOver()
	if c.Op != rdmap.OpBarrier {
		q.trace.Load().note(c.Op, c.Length, c.Err)
	}
	if w, ok := c.Context.(*waiter); ok {
		w.original, w.err = c.Original, c.Err
		w.done <- struct{}{}
		return
	}
	if c.Context == (withdrawn{}) {
		return
	}
	q.queues.completed(c)
}

// Delivered implements rdmap.Handler.
func (h *handler) Delivered(d *rdmap.Delivery) *protocol.Error {
	q := (*QP)(h)
	q.handOver()
	if t := q.trace.Load(); t != nil {
		t.note(recvOp(d), d.Length, d.Err)
	}
	return q.queues.deliver(d)
}
