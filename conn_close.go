package iwarp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// endSend runs once, when nothing will be sent any more: a FIN tells the peer.
func (c *Conn) endSend(err error) {
	c.sendEnd.Do(func() {
		if err == nil && !c.mustDrop() {
			if err = c.llp.CloseWrite(); errors.Is(err, errors.ErrUnsupported) {
				c.noFIN.Store(true)
			}
		} else {
			c.drop()
		}
		if err != nil && c.logger != nil {
			c.logger.Debug("iwarp half-close", "remote", c.RemoteAddr(), "error", err)
		}
		close(c.drained)
		c.dropWithoutFIN()
		c.halfEnded()
	})
}

// drop closes the conn below. After Abort it is a reset, whoever comes first: a
// FIN would tell the peer that all has been sent.
func (c *Conn) drop() {
	if c.aborting.Load() {
		_ = c.llp.Abort()
	} else {
		_ = c.llp.Close()
	}
}

// dropWithoutFIN ends a connection whose conn below cannot close one half, such
// as a net.Pipe: where all has been sent, and a FIN would tell the peer so, the
// whole conn is closed. Endings may meet, so both Close and endSend call it.
func (c *Conn) dropWithoutFIN() {
	if c.noFIN.Load() && (c.closing.Load() || c.stream.Failed()) && !c.dropped.Swap(true) {
		c.drop()
	}
}

// mustDrop reports whether there is no use in a graceful end: TCP is lost.
func (c *Conn) mustDrop() bool {
	code, ok := protocol.CodeOf(c.stream.Err())
	return ok && code == protocol.MPAConnectionLost
}

// failHeld ends a responder's connection when there is something to send and the
// peer has closed its half before its first message: it can never be sent then
// (RFC 5044 section 7.1.2 rule 4).
func (c *Conn) failHeld() {
	if c.stream.Outstanding() > 0 {
		c.stream.Fail(&ProtocolError{
			Code: protocol.MPAConnectionLost, Section: "RFC 5044 section 7.1.2",
			Detail: "the peer closed its half before its first message, so that this end may send nothing", Err: io.ErrUnexpectedEOF,
		}, false)
		c.failed()
	}
}

// failed runs once, when the stream has failed: it bounds the time that the
// connection still has.
func (c *Conn) failed() {
	c.failOnce.Do(func() {
		if err := c.stream.Err(); c.logger != nil {
			c.logger.Warn("iwarp connection failed", "remote", c.RemoteAddr(), "error", err)
		}
		if c.mustDrop() {
			c.drop()
		}
		c.dropWithoutFIN()
		c.startTimer()
	})
}

// startTimer aborts the connection when CloseTimeout passes without progress.
func (c *Conn) startTimer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		return
	}
	last := c.progress()
	c.timer = time.AfterFunc(c.cfg.CloseTimeout, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.open.Load() == 0 {
			return
		}
		if now := c.progress(); now != last {
			last = now
			c.timer.Reset(c.cfg.CloseTimeout)
			return
		}
		c.timeout = fmt.Errorf("iwarp: close: the peer did not take the data or close its half within %v: %w", c.cfg.CloseTimeout, os.ErrDeadlineExceeded)
		_ = c.llp.Abort()
	})
}

// progress counts what shows that a closing connection is alive: octets that
// the LLP took. After the FIN there is none, so that the timer ends it.
func (c *Conn) progress() uint64 {
	if m, ok := c.llp.(*mpa.Conn); ok {
		return m.Stats().OctetsSent
	}
	return c.stream.Stats().PayloadSent
}

// halfEnded notes that one half has ended. The last one ends the connection.
func (c *Conn) halfEnded() {
	if c.open.Add(-1) > 0 {
		return
	}
	c.drop()
	c.mu.Lock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	if c.logger != nil {
		c.logger.Info("iwarp connection closed", "remote", c.RemoteAddr(), "error", c.stream.Err())
	}
	c.qp.sendCQ.removePolled(c)
	c.qp.recvCQ.removePolled(c)
	c.give()
	close(c.done)
}

// Close ends the connection gracefully: it refuses new work, lets what is posted
// complete, sends a FIN and waits for the peer's. It gives an error, and the
// connection has been aborted, when the peer makes no progress for CloseTimeout;
// otherwise nil, also when the connection had failed before (see Err). It is
// idempotent.
func (c *Conn) Close() error {
	c.closing.Store(true)
	c.stream.CloseSend()
	c.startTimer()
	c.dropWithoutFIN()
	c.kick()
	<-c.done
	c.qp.disown()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timeout
}

// CloseWrite refuses new work and sends a FIN when all that is posted has
// completed. Receiving goes on, until the peer closes its half too. It does not
// wait; Drained tells when the FIN has gone.
func (c *Conn) CloseWrite() {
	c.stream.CloseSend()
	c.kick()
}

// Abort ends the connection at once, with a TCP reset where possible. Work
// requests outstanding are flushed; when Abort returns the library does not touch
// their memory any more.
func (c *Conn) Abort() {
	c.aborting.Store(true) // before anybody sees the stream fail
	c.stream.Fail(&ProtocolError{Code: protocol.MPAConnectionLost, Detail: "aborted by this end", Err: net.ErrClosed}, false)
	_ = c.llp.Abort()
	c.kick()
	<-c.done
	c.qp.disown()
}

// Drain waits until every work request posted to the send queue so far has
// completed, or ctx ends.
//
// The connection goes on when ctx ends: Drain lends no memory.
func (c *Conn) Drain(ctx context.Context) error {
	w := &waiter{done: make(chan struct{}, 1)}
	for {
		// Asked for before the post, so that no completion in between is missed.
		room := c.qp.completed.wait()
		err := c.post(&SendWR{Op: opBarrier}, w)
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
