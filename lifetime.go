package iwarp

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp/protocol"
)

// lifetime is where a connection stands:
//
//	open --Close, CloseWrite--> closing --all has gone: FIN--> draining --peer's FIN--> done
//	  |                            |                              |                      ^
//	  +----------- error ----------+------------------------------+                      |
//	                               |                                                     |
//	                               +--> failed --Terminate, FIN, and the peer's FIN------+
//	                               |       |                                             |
//	                               |   the LLP is lost, Abort, CloseTimeout              |
//	                               |       v                                             |
//	                               +--> lost --both halves have been left----------------+
//
// It only goes on. The engines (rdmap.Stream, and the LLP) report what has happened:
// the stream has failed, all has been sent, no more octets will come. What follows
// for the connection is decided here, once for each state that it comes to.
type lifetime uint32

const (
	open     lifetime = iota // work is taken, octets go both ways
	closing                  // no more work is taken; what is posted goes on
	draining                 // all has been sent; the peer's octets still come
	failed                   // an error has ended the stream; what comes is swallowed
	lost                     // nothing can be sent any more, the LLP is being closed
	done                     // both halves have ended, and all is given back
)

// shut is how this end's half of the LLP was closed.
type shut uint8

const (
	shutNot        shut = iota
	shutHalf            // by a FIN, or at least that was tried
	shutImpossible      // the conn below cannot close one half, such as a net.Pipe
	shutWhole           // so the whole conn was closed, where all has been sent
)

// life is a connection's lifetime and what decides about the next step.
type life struct {
	state   atomic.Uint32 // a lifetime; changed by setState only
	done    chan struct{}
	drained chan struct{} // closed when the send half has ended

	mu      sync.Mutex
	halves  int  // that still run: send and receive
	leaving bool // Close was called
	reset   bool // the LLP is to be closed with a reset
	shut    shut
	timer   *time.Timer // bounds what the connection still has to do
	last    progress    // when the timer was set
	cause   error       // why Close did not wait for a graceful end
	events  eventLog
	story
}

func (l *life) init(logger *slog.Logger, id uint64) {
	l.done, l.drained, l.halves, l.events.logger = make(chan struct{}), make(chan struct{}), 2, withID(logger, id)
	l.story.id, l.story.began = id, time.Now()
}

// setState is the one place where a connection goes on to its end. It returns the
// state before.
func (c *Conn) setState(to lifetime) (from lifetime) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from = lifetime(c.state.Load())
	// Rule: RDMAP-6.2-01
	if from < to {
		c.state.Store(uint32(to))
	}
	return from
}

func (c *Conn) is(s lifetime) bool { return lifetime(c.state.Load()) == s }

// streamFailed notes that the stream has ended in error; gone says that the LLP
// has, too. It is called by everybody who sees it, and acts once.
func (c *Conn) streamFailed(gone bool) {
	to := failed
	if gone {
		to = lost
	}
	if lifetime(c.state.Load()) >= to {
		return
	}
	from := c.setState(to)
	if from < failed {
		c.trace.failed(c.stream.Err())
		if c.abortedHere() {
			c.events.log(slog.LevelInfo, "iwarp connection aborted", "remote", c.RemoteAddr(), "error", c.stream.Err())
		} else {
			c.events.log(slog.LevelWarn, "iwarp connection failed", "remote", c.RemoteAddr(), "error", c.stream.Err())
		}
	}
	if gone && from < lost {
		switch code, _ := protocol.CodeOf(c.stream.Err()); code {
		case protocol.RDMAPLocalCatastrophic, protocol.MPALocalCatastrophic:
			c.mu.Lock()
			c.reset = true // part of what was to be sent is missing, and a FIN would hide it
			c.mu.Unlock()
		}
		c.drop()
	}
	c.dropUnclosable()
	c.startTimer()
}

// sendEnded notes that nothing will be sent any more: a FIN tells the peer. err is
// the LLP's. The holder of the send token calls it, and it acts once.
func (c *Conn) sendEnded(err error) {
	if c.sent {
		return
	}
	c.sent = true
	if err != nil {
		c.streamFailed(true)
	}
	if c.setState(draining) < lost {
		// Rule: DDP-6.2.1-01, DDP-6.2.1-05, RDMAP-6.2.1-04
		c.closeHalf()
	}
	close(c.drained)
	c.halfEnded()
}

func (c *Conn) closeHalf() {
	// Rule: RDMAP-6.2.1-04, DDP-6.2.1-05
	err := c.llp.CloseWrite()
	s := shutHalf
	if errors.Is(err, errors.ErrUnsupported) {
		s = shutImpossible
	}
	if err != nil {
		c.events.log(slog.LevelDebug, "iwarp half-close", "remote", c.RemoteAddr(), "error", err)
	}
	c.mu.Lock()
	c.life.shut = s
	c.mu.Unlock()
	c.dropUnclosable()
}

// dropUnclosable ends a connection whose conn below cannot close one half: where
// all has been sent, and a FIN would tell the peer so, the whole conn is closed.
// What was decided before and what was sent may meet, so both sides call it.
func (c *Conn) dropUnclosable() {
	c.mu.Lock()
	drop := c.life.shut == shutImpossible && (c.leaving || lifetime(c.state.Load()) >= failed)
	if drop {
		c.life.shut = shutWhole
	}
	c.mu.Unlock()
	if drop {
		c.drop()
	}
}

// closedBelow reports whether this end has closed the conn below at its graceful
// end, so that what Receive says of it is no error.
func (c *Conn) closedBelow() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life.shut == shutWhole
}

// drop closes the conn below. After Abort it is a reset, whoever comes first: a
// FIN would tell the peer that all has been sent.
func (c *Conn) drop() {
	c.mu.Lock()
	reset := c.reset
	c.mu.Unlock()
	if reset {
		_ = c.llp.Abort()
	} else {
		_ = c.llp.Close()
	}
}

// cut ends the connection at once, for a reason that is no error of the protocol.
func (c *Conn) cut(detail string, cause error) {
	if c.is(done) {
		return
	}
	c.mu.Lock()
	c.reset = true // before anybody sees the stream fail
	c.mu.Unlock()
	c.stream.Fail(&ProtocolError{Code: protocol.MPAConnectionLost, Detail: detail, Err: cause}, false)
	if !c.stream.Failed() {
		return // both halves have ended gracefully: what is in TCP's hands stays there
	}
	c.streamFailed(true)
	_ = c.llp.Abort()
	c.kick()
}

// halfEnded notes that one half has ended. The last one ends the connection.
func (c *Conn) halfEnded() {
	c.mu.Lock()
	c.halves--
	over := c.halves == 0
	if over && c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	if !over {
		return
	}
	// Rule: DDP-3-10, DDP-6.2-02, RDMAP-6.2.1-03
	c.drop()
	c.setState(done)
	c.qp.sendCQ.removePolled(c)
	c.qp.recvCQ.removePolled(c)
	if c.poller != nil {
		spins.guests.end(c)
	}
	c.give()
	c.qp.pushEnd(c.Err())
	close(c.done)
	c.tellEnd()
}
