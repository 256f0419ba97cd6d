package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
)

// withdrawn is in place of the waiter of a request that was taken back.
type withdrawn struct{}

// waiter is how a simple call hears of its completion.
type waiter struct {
	done     chan struct{} // capacity 1
	sg       [1][]byte     // here and not on the stack, where it would escape
	original uint64
	err      error
}

// Message is what Recv has received.
type Message struct {
	// Op is OpRecv or OpRecvImmediate.
	Op Op
	// Length is the number of octets of the message; 0 for Immediate Data.
	Length int
	// Immediate is the eight octets of Immediate Data, the first one the most
	// significant.
	Immediate uint64
	// Invalidated is the STag of this end that the message ended, 0 if none.
	Invalidated STag
	// Solicited is true if the sender asked for a solicited event.
	Solicited bool
}

// Send sends p as one message and waits until the network has taken it; that the
// peer has it is for the peer to say. The peer needs a receive buffer for it: see
// Config.RecvDepth.
//
// If ctx ends first, the error is ctx's. While nothing of the message has been handed to
// the network it is withdrawn then, and the connection goes on: while the call waits for
// room in a full send queue (Config.SendDepth), while the message waits in the send queue
// behind others (behind a Read that waits for its turn, since ORD are outstanding, say),
// and while a responder waits for the initiator's first message. Once it has begun, the
// connection is aborted, because p is in use: the network, or the peer's answer to a
// Read, may come to it at any time. The same holds for SendInvalidate, SendImmediate,
// RDMAWrite, RDMARead, FetchAdd and CompareSwap. Recv and Drain lend no memory: the end
// of their context does no harm at any time.
func (c *Conn) Send(ctx context.Context, p []byte) error {
	return c.do(ctx, p, &SendWR{Op: OpSend})
}

// SendInvalidate is Send that also invalidates the peer's STag stag, when the
// message is delivered there.
func (c *Conn) SendInvalidate(ctx context.Context, p []byte, stag STag) error {
	return c.do(ctx, p, &SendWR{Op: OpSendInvalidate, Invalidate: stag})
}

// SendImmediate sends eight octets of Immediate Data (RFC 7306), v's most
// significant one first.
func (c *Conn) SendImmediate(ctx context.Context, v uint64) error {
	_, err := c.await(ctx, nil, &SendWR{Op: OpImmediate, Immediate: v})
	return err
}

// Recv copies the next message into p, waiting for one if need be. It is for
// connections without a QP of the program's: with one, receives complete on its
// CQ. Errors: [ErrShortBuffer] if the message is longer than p (it stays, and the
// Message tells its length), io.EOF after the peer's graceful end, the
// connection's error after any other, ctx's if it ends first, which does no harm.
// After io.EOF this end may go on sending. The peer's Close waits for this end's.
func (c *Conn) Recv(ctx context.Context, p []byte) (Message, error) {
	if err := c.made(); err != nil {
		return Message{}, err
	}
	box, ok := c.qp.queues.(*inbox)
	if !ok {
		return Message{}, fmt.Errorf("%w: Recv on a QP of the program's: poll its RecvCQ instead", ErrInvalidWR)
	}
	if n := c.nudge; n.active() {
		n.recvs.Add(1)
		defer n.recvs.Add(-1)
		n.look()
	}
	for {
		msg, ok, err := box.poll(p)
		endless := false
		if !ok {
			msg, ok, endless, err = c.spinRecv(box, p)
		}
		switch {
		case ok:
			return msg, err
		case !endless:
			return box.recv(ctx, p)
		case ctx.Err() != nil:
			return Message{}, context.Cause(ctx)
		}
	}
}

// spinRecv receives for a while, if that is worth it, until there is a message. With
// ProgressPolling it is, however long it takes.
func (c *Conn) spinRecv(box *inbox, p []byte) (msg Message, ok, endless bool, err error) {
	if c.poller == nil {
		return Message{}, false, false, nil
	}
	var s spinner
	for more := s.start(c.self[:], true); more; more = !ok && s.next() {
		s.receive()
		msg, ok, err = box.poll(p)
	}
	s.end()
	return msg, ok, s.endless, err
}

// RDMAWrite writes p to the peer's memory and waits until the network has taken it.
// The peer sees the octets after the next message of this connection that it
// receives.
func (c *Conn) RDMAWrite(ctx context.Context, p []byte, to RemoteBuffer) error {
	return c.do(ctx, p, &SendWR{Op: OpWrite, Remote: to})
}

// RDMARead reads len(p) octets of the peer's memory into p and waits until they are
// there.
func (c *Conn) RDMARead(ctx context.Context, p []byte, from RemoteBuffer) error {
	return c.do(ctx, p, &SendWR{Op: OpRead, Remote: from})
}

// FetchAdd adds v to the 64-bit word at the peer's address at and gives what was
// there before (https://www.rfc-editor.org/rfc/rfc7306#section-5.1.1). The word is a number in
// the byte order of the peer's machine. at.TO is a multiple of eight, else the request
// is refused with [ErrInvalidWR].
func (c *Conn) FetchAdd(ctx context.Context, at RemoteBuffer, v uint64) (uint64, error) {
	return c.await(ctx, nil, &SendWR{Op: OpFetchAdd, Remote: at, Operand: v})
}

// CompareSwap puts swap into the 64-bit word at the peer's address at if compare
// is there, and gives what was there before
// (https://www.rfc-editor.org/rfc/rfc7306#section-5.1.2). at is as for FetchAdd.
func (c *Conn) CompareSwap(ctx context.Context, at RemoteBuffer, compare, swap uint64) (uint64, error) {
	return c.await(ctx, nil, &SendWR{
		Op: OpCompareSwap, Remote: at, Compare: compare, CompareMask: ^uint64(0), Operand: swap,
		OperandMask: ^uint64(0),
	})
}

func (c *Conn) do(ctx context.Context, p []byte, wr *SendWR) error {
	_, err := c.await(ctx, p, wr)
	return err
}

// spinFor receives until a request has completed, for a while if that is worth it, and
// with ProgressPolling however long it takes.
func (c *Conn) spinFor(ctx context.Context, w *waiter) {
	if c.poller == nil {
		return
	}
	for endless := true; endless && len(w.done) == 0 && ctx.Err() == nil; {
		var s spinner
		for more := s.start(c.self[:], true); more; more = len(w.done) == 0 && s.next() {
			s.receive()
		}
		s.end()
		endless = s.endless
	}
}

// postWithRoom posts a simple call's request when the send queue has room for it.
func (c *Conn) postWithRoom(ctx context.Context, wr *SendWR, w *waiter) error {
	for {
		// Asked for before the post, so that no completion in between is missed.
		room := c.qp.sendDone.wait()
		if err := c.post(wr, w); !errors.Is(err, ErrSendQueueFull) {
			return err
		}
		if c.polls() && ctx.Err() == nil {
			c.poll()
			runtime.Gosched()
			continue
		}
		select {
		case <-room:
		case <-ctx.Done():
			return c.callEnded(ctx, wr.Op) // nothing was posted: no reason to abort
		}
	}
}

// await posts a work request of a simple call, with p as its memory if it takes
// any, and waits for its end.
func (c *Conn) await(ctx context.Context, p []byte, wr *SendWR) (uint64, error) {
	if err := c.made(); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	w, _ := c.waiters.Get().(*waiter)
	if len(p) > 0 {
		w.sg[0] = p
		wr.SG = w.sg[:]
	}
	err := c.post(wr, w)
	if errors.Is(err, ErrSendQueueFull) {
		err = c.postWithRoom(ctx, wr, w)
	}
	w.sg[0] = nil // the queue has copied it
	if err != nil {
		c.waiters.Put(w)
		return 0, err
	}
	c.kick()
	if c.trace != nil {
		c.trace.posted([]SendWR{*wr})
		c.trace.flush()
	}
	if wr.Op == OpRead || wr.Op == OpFetchAdd || wr.Op == OpCompareSwap || c.polls() {
		c.spinFor(ctx, w) // the others' completions come from this end
	}
	var cause *givenUp
	select {
	case <-w.done:
	case <-ctx.Done():
		select {
		case <-w.done: // both at once: no reason to abort
		default:
			if c.stream.Withdraw(w, withdrawn{}) { // it had not begun: no reason to abort
				cause = c.callEnded(ctx, wr.Op)
				c.waiters.Put(w)
				c.kick()
				return 0, cause
			}
			// The memory is the caller's again only when the request has completed.
			cause = c.callEnded(ctx, wr.Op)
			c.cut(fmt.Sprintf("aborted by this end, since the context of a call ended (%v: %v)", wr.Op,
				context.Cause(ctx)),
				net.ErrClosed)
			<-w.done
		}
	}
	original, err := w.original, w.err
	w.original, w.err = 0, nil
	c.waiters.Put(w)
	if cause != nil { // though it was done, the connection is not what it was
		cause.ended, err = err, cause
	}
	return original, err
}
