package iwarp

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/go-iwarp/iwarp/rdmap"
)

// CloseWrite refuses new work and sends a FIN when all that is posted has
// completed. Receiving goes on, until the peer closes its half too. It does not
// wait; Drained tells when the FIN has gone.
func (c *Conn) CloseWrite() {
	c.setState(closing)
	c.stream.CloseSend()
	c.kick()
}

// Abort ends the connection at once, with a TCP reset where possible. Work
// requests outstanding are flushed; when Abort returns the library does not touch
// their memory any more. A connection that has ended already stays as it ended.
func (c *Conn) Abort() {
	c.cut("aborted by this end", net.ErrClosed)
	<-c.done
	c.qp.queues.disown()
}

// Drain waits until every work request posted to the send queue so far has
// completed, or ctx ends.
//
// The connection goes on when ctx ends: Drain lends no memory.
func (c *Conn) Drain(ctx context.Context) error {
	w := &waiter{done: make(chan struct{}, 1)}
	for {
		// Asked for before the post, so that no completion in between is missed.
		room := c.qp.sendDone.wait()
		err := c.post(&SendWR{Op: rdmap.OpBarrier}, w)
		var end <-chan struct{}
		switch {
		case err == nil:
			c.kick()
			end = w.done // in error too: what has failed is drained
		case errors.Is(err, rdmap.ErrClosed):
			if end = c.drained; c.Err() != nil {
				end = c.done
			}
		case !errors.Is(err, ErrSendQueueFull):
			return err
		}
		if end != nil {
			room = nil
		}
		select {
		case <-end:
			return nil
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// broadcast wakes all who wait for something to happen once.
type broadcast struct {
	wanted atomic.Bool
	mu     sync.Mutex
	ch     chan struct{}
}

// wait gives a channel that the next raise closes.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
		b.wanted.Store(true)
	}
	return b.ch
}

func (b *broadcast) raise() {
	if !b.wanted.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
		b.wanted.Store(false)
	}
}

// Done is closed when the connection has ended and every work request has
// completed.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Drained is closed when nothing will be sent any more: after the FIN, or when
// the connection has failed.
func (c *Conn) Drained() <-chan struct{} { return c.drained }

// Err gives the error that ended the connection, nil while it stands and after a
// graceful end. A *[ProtocolError] has the triple; with Remote it is the peer's
// Terminate.
func (c *Conn) Err() error { return c.stream.Err() }
