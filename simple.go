package iwarp

import (
	"context"
	"fmt"

	"github.com/go-iwarp/iwarp/rdmap"
)

const opBarrier = Op(rdmap.WRLocal)

// waiter is how a simple call hears of its completion.
type waiter struct {
	done     chan struct{} // capacity 1
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
// If ctx ends first, the connection is aborted, because p is in use, and the
// error is ctx's. The same holds for Write, Read and the other blocking calls.
func (c *Conn) Send(ctx context.Context, p []byte) error {
	sg := [1][]byte{p}
	return c.do(ctx, &SendWR{Op: OpSend, SG: sg[:]})
}

// SendInvalidate is Send that also invalidates the peer's STag stag, when the
// message is delivered there.
func (c *Conn) SendInvalidate(ctx context.Context, p []byte, stag STag) error {
	sg := [1][]byte{p}
	return c.do(ctx, &SendWR{Op: OpSendInvalidate, SG: sg[:], Invalidate: stag})
}

// SendImmediate sends eight octets of Immediate Data (RFC 7306), v's most
// significant one first.
func (c *Conn) SendImmediate(ctx context.Context, v uint64) error {
	return c.do(ctx, &SendWR{Op: OpImmediate, Immediate: v})
}

// Recv copies the next message into p, waiting for one if need be. It is for
// connections without a QP of the program's: with one, receives complete on its
// CQ. Errors: [ErrShortBuffer] if the message is longer than p (it stays, and the
// Message tells its length), io.EOF after the peer's graceful end, the
// connection's error after any other, ctx's if it ends first, which does no harm.
func (c *Conn) Recv(ctx context.Context, p []byte) (Message, error) {
	if c.qp.inbox == nil {
		return Message{}, fmt.Errorf("%w: Recv on a QP of the program's: poll its RecvCQ instead", ErrInvalidWR)
	}
	return c.qp.inbox.recv(ctx, p)
}

// Write writes p to the peer's memory and waits until the network has taken it.
// The peer sees the octets after the next message of this connection that it
// receives.
func (c *Conn) Write(ctx context.Context, p []byte, to RemoteBuffer) error {
	sg := [1][]byte{p}
	return c.do(ctx, &SendWR{Op: OpWrite, SG: sg[:], Remote: to})
}

// Read reads len(p) octets of the peer's memory into p and waits until they are
// there.
func (c *Conn) Read(ctx context.Context, p []byte, from RemoteBuffer) error {
	sg := [1][]byte{p}
	return c.do(ctx, &SendWR{Op: OpRead, SG: sg[:], Remote: from})
}

// FetchAdd adds v to the 64-bit word at the peer's address at and gives what was
// there before (RFC 7306 section 5.1.1).
func (c *Conn) FetchAdd(ctx context.Context, at RemoteBuffer, v uint64) (uint64, error) {
	return c.await(ctx, &SendWR{Op: OpFetchAdd, Remote: at, Operand: v})
}

// CompareSwap puts swap into the 64-bit word at the peer's address at if compare
// is there, and gives what was there before (RFC 7306 section 5.1.2).
func (c *Conn) CompareSwap(ctx context.Context, at RemoteBuffer, compare, swap uint64) (uint64, error) {
	return c.await(ctx, &SendWR{
		Op: OpCompareSwap, Remote: at, Compare: compare, CompareMask: ^uint64(0), Operand: swap, OperandMask: ^uint64(0),
	})
}

func (c *Conn) do(ctx context.Context, wr *SendWR) error {
	_, err := c.await(ctx, wr)
	return err
}

// await posts a work request of a simple call and waits for its end.
func (c *Conn) await(ctx context.Context, wr *SendWR) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	w, _ := c.waiters.Get().(*waiter)
	if err := c.post(wr, w); err != nil {
		c.waiters.Put(w)
		return 0, err
	}
	c.kick()
	var cause error
	select {
	case <-w.done:
	case <-ctx.Done():
		select {
		case <-w.done: // both at once: no reason to abort
		default:
			// The memory is the caller's again only when the request has completed.
			cause = context.Cause(ctx)
			c.Abort()
			<-w.done
		}
	}
	original, err := w.original, w.err
	w.original, w.err = 0, nil
	c.waiters.Put(w)
	if err != nil && cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return original, err
}
