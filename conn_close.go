package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/go-iwarp/iwarp/rdmap"
)

// CloseWrite refuses new work and sends a FIN when all that is posted has
// completed. Receiving goes on, until the peer closes its half too. It does not
// wait; Drained tells when the FIN has gone.
func (c *Conn) CloseWrite() {
	if c.made() != nil {
		return
	}
	c.setState(closing)
	// Rule: DDP-6.2.1-06
	c.stream.CloseSend()
	c.kick()
}

// Abort ends the connection at once, with a TCP reset where possible. Work
// requests outstanding are flushed; when Abort returns the library does not touch
// their memory any more. A connection that has ended already stays as it ended, and one
// whose peer has closed its half, with nothing left to do, ends gracefully.
func (c *Conn) Abort() {
	if c.made() != nil {
		return
	}
	c.abort("aborted by this end", net.ErrClosed)
	<-c.done
	c.qp.queues.disown()
}

// Drain waits until every work request posted to the send queue so far has
// completed, or ctx ends.
//
// The connection goes on when ctx ends: Drain lends no memory.
func (c *Conn) Drain(ctx context.Context) error {
	if err := c.made(); err != nil {
		return err
	}
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

// Done is closed when the connection has ended and every work request has
// completed.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Drained is closed when nothing will be sent any more: after the FIN, or when
// the connection has failed.
func (c *Conn) Drained() <-chan struct{} { return c.drained }

// Err returns the error that ended the connection, nil while it stands and after a
// graceful end. A *[ProtocolError] has the triple; with Remote it is the peer's
// Terminate.
func (c *Conn) Err() error { return c.stream.Err() }

// Close is CloseContext without a context.
func (c *Conn) Close() error { return c.CloseContext(context.Background()) }

// CloseContext ends the connection gracefully: it refuses new work, lets what is
// posted complete, sends a FIN and waits for the peer's. It takes as long as the
// work of this end moves, and Config.CloseTimeout beyond that for what the peer
// still wants or keeps open. Then, or when ctx ends, the connection is aborted, and
// the error says so. Otherwise it is nil, also when the connection had failed before
// (see Err). It is idempotent.
func (c *Conn) CloseContext(ctx context.Context) error {
	if err := c.made(); err != nil {
		return err
	}
	c.beginClose()
	stop := context.AfterFunc(ctx, func() { c.giveUp(context.Cause(ctx)) })
	<-c.done
	stop()
	c.qp.queues.disown()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// beginClose refuses new work and has what is posted followed by a FIN.
func (c *Conn) beginClose() {
	c.setState(closing)
	c.stream.CloseSend()
	c.mu.Lock()
	c.leaving = true
	c.mu.Unlock()
	c.startTimer()
	c.dropUnclosable()
	c.kick()
}

// giveUp cuts a connection that is closing, for the reason given.
func (c *Conn) giveUp(cause error) {
	waited := c.waitsFor()
	c.mu.Lock()
	if c.halves > 0 && c.cause == nil {
		c.cause = fmt.Errorf("iwarp: close: %w: %w", cause, waited)
	}
	c.mu.Unlock()
	c.cut("close", cause)
}
