package iwarp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"
)

// ErrShutdown is what Recv returns on a connection that [Listener.Shutdown] has asked to
// end, when the messages that had come before are taken, and what the listener's Accept
// and AcceptRequest return. It is [net.ErrClosed] too.
var ErrShutdown = fmt.Errorf("iwarp: the listener is shutting down: %w", net.ErrClosed)

// errEnded is the cause of a connection's context after a graceful end.
var errEnded = fmt.Errorf("iwarp: the connection has ended: %w", net.ErrClosed)

// lastID numbers the connections of the process, for its logs.
var lastID atomic.Uint64

// story is what is told of a connection beside its state.
type story struct {
	id       uint64
	startup  time.Time // when startup began
	began    time.Time
	listener *Listener // that has accepted it; nil
	unbind   func() bool

	// under life.mu
	own      bool // this end's program has aborted it
	ctx      context.Context
	cancel   context.CancelCauseFunc
	stopping chan struct{} // closed when Shutdown asks for the end; nil: nobody has looked
	stop     bool          // Shutdown has asked
}

// newID returns a number for a connection or a startup.
func newID() uint64 { return lastID.Add(1) }

// withID returns a logger whose lines have the number of a connection.
func withID(l *slog.Logger, id uint64) *slog.Logger {
	if l == nil {
		return nil
	}
	return l.With("conn", id)
}

// ID is the number of the connection in this process, which its log lines have as "conn".
func (c *Conn) ID() uint64 { return c.story.id }

// bind lets Config.Context end the connection.
func (c *Conn) bind() {
	ctx := c.cfg.Context
	if ctx == nil || ctx.Done() == nil {
		return
	}
	c.unbind = context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		c.abort(fmt.Sprintf("ended by Config.Context (%v)", cause), cause)
	})
}

// Context returns a context that ends with the connection. [context.Cause] of it is then
// Err, or an error that is [net.ErrClosed] after a graceful end. It has the values of
// Config.Context.
func (c *Conn) Context() context.Context {
	if c.made() != nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(c.made())
		return ctx
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		base := context.Background()
		if c.cfg.Context != nil {
			base = context.WithoutCancel(c.cfg.Context)
		}
		c.ctx, c.cancel = context.WithCancelCause(base)
		if over(c.done) {
			c.cancel(c.endCause())
		}
	}
	return c.ctx
}

func (c *Conn) endCause() error {
	if err := c.Err(); err != nil {
		return err
	}
	return errEnded
}

// CloseWithError ends the connection at once, as Abort does, for a reason of the
// program's: Err, and the errors of calls and work requests that this cuts short, have
// err inside. The peer is not told why: MPA and RDMAP carry no reason of a ULP's. A nil
// err is [net.ErrClosed]. A connection that has ended already stays as it ended.
func (c *Conn) CloseWithError(err error) {
	if c.made() != nil {
		return
	}
	if err == nil {
		err = net.ErrClosed
	}
	c.abort(fmt.Sprintf("ended by this end (%v)", err), err)
	<-c.done
	c.qp.queues.disown()
}

// abort cuts the connection for a reason of the program's. If the peer has closed its half
// gracefully and nothing is left to do, that is a graceful end.
func (c *Conn) abort(detail string, cause error) {
	if c.stream.CloseAtRest() {
		c.beginClose()
		return
	}
	c.mu.Lock()
	c.own = true
	c.mu.Unlock()
	c.cut(detail, cause)
}

// abortedHere reports whether this end's program has aborted the connection.
func (c *Conn) abortedHere() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own
}

// peerLeft ends this half too if the program wants that when the peer has ended its own.
func (c *Conn) peerLeft() {
	if c.cfg.CloseWithPeer {
		c.beginClose()
	}
}

// ShuttingDown is closed when [Listener.Shutdown] asks the connection to end. A program
// that uses Recv need not look: Recv returns [ErrShutdown] then. One with a QP of its own
// answers what it has received, and calls Close or CloseWrite.
func (c *Conn) ShuttingDown() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping == nil {
		c.stopping = make(chan struct{})
		if c.stop {
			close(c.stopping)
		}
	}
	return c.stopping
}

// askToEnd is what Listener.Shutdown does to each connection.
func (c *Conn) askToEnd() {
	c.mu.Lock()
	first := !c.stop
	c.stop = true
	if first && c.stopping != nil {
		close(c.stopping)
	}
	c.mu.Unlock()
	if box, ok := c.qp.queues.(*inbox); ok && first {
		box.shutDown()
	}
}

// tellEnd is called when the connection has ended and all is given back.
func (c *Conn) tellEnd() {
	if c.unbind != nil {
		c.unbind()
	}
	c.mu.Lock()
	cancel := c.cancel
	c.mu.Unlock()
	if cancel != nil {
		cancel(c.endCause())
	}
	if c.listener != nil {
		c.listener.conns.remove(c)
	}
	c.cfg.Device.census.remove(c)
	c.trace.ended(c.Err())
	s := c.Stats()
	args := []any{
		"remote", c.RemoteAddr(), "duration", time.Since(c.story.began).Round(time.Microsecond),
		"octets_sent", s.RDMAP.PayloadSent, "octets_received", s.RDMAP.PayloadReceived,
	}
	if d := s.DDP; d.OutOfOrder > 0 {
		args = append(args, "segments_early", d.OutOfOrder, "octets_early", d.OctetsEarly,
			"longest_ahead", d.MaxAhead.Round(time.Microsecond))
	}
	if err := c.Err(); err != nil {
		args = append(args, "error", err)
	}
	c.events.log(slog.LevelInfo, "iwarp connection closed", args...)
}

// waitsFor says what a connection that closes is waiting for.
func (c *Conn) waitsFor() error {
	p := c.stream.Progressed()
	switch {
	case p.Reading:
		return fmt.Errorf("it waited for the peer's answers, with %d work requests of this end outstanding",
			p.Outstanding)
	case p.Outstanding > 0 && !c.llp.MaySend():
		return fmt.Errorf("it waited to send %d work requests of this end: %w", p.Outstanding, ErrClientFirst)
	case p.Outstanding > 0:
		return fmt.Errorf("it waited for the peer to take %d work requests of this end", p.Outstanding)
	case !over(c.drained):
		return errors.New("it waited for the peer to take what this end owes it")
	}
	return errors.New("it waited for the peer to close its half: its program has not called Close, and " +
		"Config.CloseWithPeer is not set there")
}
