package iwarp

import (
	"fmt"
	"os"
	"time"

	"github.com/go-iwarp/iwarp/rdmap"
)

// startTimer bounds what a closing or failed connection waits for: see
// Config.CloseTimeout.
func (c *Conn) startTimer() {
	if c.cfg.CloseTimeout < 0 {
		return
	}
	now := c.progress()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil && c.halves > 0 {
		c.last = now
		c.timer = time.AfterFunc(c.cfg.CloseTimeout, c.timeUp)
	}
}

// timeUp cuts the connection, unless work of this end has moved since the timer
// was set.
func (c *Conn) timeUp() {
	now, waited := c.progress(), c.waitsFor()
	c.mu.Lock()
	if c.halves == 0 {
		c.mu.Unlock()
		return
	}
	if now.since(&c.last) {
		c.last = now
		c.timer.Reset(c.cfg.CloseTimeout)
		c.mu.Unlock()
		return
	}
	// Rule: MPA-7.1.2-26
	c.cause = fmt.Errorf("iwarp: close: %w within Config.CloseTimeout of %v: %w", waited, c.cfg.CloseTimeout,
		os.ErrDeadlineExceeded)
	cause := c.cause
	c.mu.Unlock()
	// Rule: RDMAP-6.2.1-03
	c.cut("close", cause)
}

// progress is how far the work of this end has come. The peer's own work (its
// Reads, what it sends) does not count: it could go on for ever.
type progress struct {
	own      rdmap.Progressed
	sent     uint64 // octets that the LLP has taken
	segments uint64 // that have come whole
	partial  uint64 // octets of the one that is coming
}

func (c *Conn) progress() progress {
	p := progress{own: c.stream.Progressed()}
	switch {
	case c.under.mpa != nil:
		s := c.under.mpa()
		p.sent, p.segments, p.partial = s.OctetsSent, s.FPDUsReceived, s.OctetsRead-s.OctetsReceived
	case c.under.carried != nil:
		s := c.under.carried()
		p.sent, p.segments = s.OctetsSent, s.SegmentsReceived
	}
	return p
}

// since reports whether work of this end was outstanding before and has moved
// since: something has completed, octets of a Response have been placed, octets of
// a batch with messages of this end have been taken, or more of an FPDU has come,
// as long as that one FPDU may be a Response's.
func (p *progress) since(before *progress) bool {
	switch {
	case before.own.Outstanding == 0:
		return false
	case p.own.Octets != before.own.Octets || p.own.Done != before.own.Done:
		return true
	case before.own.Sending && p.sent != before.sent:
		return true
	}
	return before.own.Reading && p.segments == before.segments && p.partial > before.partial
}
