package iwarp

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp/mpa"
)

// poller lets callers that wait receive by themselves, which spares them the wake-up by
// another goroutine: see Progress. The receive goroutine is always there beside them,
// and woken by the network poller as on any connection, so that nothing depends on
// their coming back. It only finds, mostly, that they have been quicker.
type poller struct {
	m       *mpa.Conn
	endless bool // ProgressPolling

	owner sync.Mutex // held by whoever receives, but for the time of a wait
	over  bool       // no more octets will come; under owner

	spinners atomic.Int32 // callers that spin on the connection
	window   atomic.Int64 // of policy: nanoseconds
	gosched  atomic.Int64 // when one that spins has last let other goroutines run
	guest    atomic.Bool  // of those that spin for others
	wanted   atomic.Int64 // when it was last to be one
	ended    atomic.Bool  // it will not be one any more
	mu       sync.Mutex
	policy   spinPolicy

	shared func() error // bound once
	once   func() error
	some   bool // once has found something; under owner
	// prodded says that the read deadline has passed for the receive goroutine to look at a
	// message that waits; under owner.
	prodded bool
}

// newPoller returns nil where nobody but the receive goroutine receives.
func newPoller(c *Conn) *poller {
	m, ok := c.llp.(*mpa.Conn)
	if !ok || !m.CanTryReceive() || c.cfg.Progress == ProgressParked {
		return nil
	}
	p := &poller{m: m, endless: c.cfg.Progress == ProgressPolling}
	p.shared = func() error {
		if ok, err := c.resume(); err != nil {
			return err
		} else if !ok {
			p.owner.Unlock()
			c.late.pause()
			p.owner.Lock()
			return nil
		}
		return m.ReceiveShared(&p.owner, c.place)
	}
	p.once = func() (err error) {
		p.some = true // if it does not return
		if ok, err := c.resume(); err != nil || !ok {
			p.some = err != nil
			return err
		}
		p.some, err = m.TryReceive(c.place)
		return err
	}
	return p
}

// receiveBesideWaiters is the receive goroutine of a connection on which callers that
// wait may receive too.
func (c *Conn) receiveBesideWaiters() {
	p := c.poller
	for {
		began := uptime()
		p.owner.Lock()
		c.came, c.urgent = 0, false
		err := c.stream.Guard(p.shared)
		if p.over {
			p.owner.Unlock()
			return
		}
		p.over = c.received(err)
		over, came, urgent := p.over, c.came, c.urgent
		p.owner.Unlock()
		c.trace.flush()
		switch {
		case over:
			return
		case came == 0 || !urgent: // Writes: nobody waits for these
			continue
		}
		p.parked(uptime()-began, came)
		c.waiterFirst()
		c.spinReceive()
	}
}

// spinReceive receives, in the receive goroutine, as long as octets come soon enough
// and no caller does it.
func (c *Conn) spinReceive() {
	p := c.poller
	if p.endless {
		return
	}
	var s spinner
	for p.spinners.Load() == 0 && s.start(c.self[:], false) {
		for s.receive() == 0 && p.spinners.Load() == 0 && s.next() {
		}
		urgent := s.urgent
		s.end()
		if !urgent {
			return
		}
		c.waiterFirst()
	}
}

// poll receives what has arrived, without waiting, and returns how much that was, in
// octets of segments, and whether somebody waits for what it has brought about.
func (c *Conn) poll() (came int, urgent bool) {
	came, urgent = c.pollOwned()
	if came > 0 {
		c.trace.flush()
	}
	return came, urgent
}

// pollOwned is poll under the owner's lock.
func (c *Conn) pollOwned() (came int, urgent bool) {
	p := c.poller
	if !p.owner.TryLock() {
		return 0, false
	}
	defer p.owner.Unlock()
	if p.over {
		return 0, false
	}
	c.came, c.urgent = 0, false
	if err := c.stream.Guard(p.once); (p.some || err != nil) && c.received(err) {
		p.over = true
		// The receive goroutine is going to see the end as well. This is to be sure.
		_ = p.m.SetReadDeadline(aDeadlineAgo)
	}
	if c.late.here {
		p.prod()
	}
	return c.came, c.urgent
}

// aDeadlineAgo has passed on every clock.
var aDeadlineAgo = time.Unix(1, 0)

// Poll receives what has arrived, in the caller's goroutine and without waiting, and
// returns how many octets that were, with headers. It is for programs that spin on queues
// of their own ([QPConfig.Queues]); [CQ.Poll] and [CQ.Wait] do it by themselves. It
// does nothing with [ProgressParked], and where the conn below is no socket.
func (c *Conn) Poll() int {
	if c.poller == nil {
		return 0
	}
	came, _ := c.poll()
	return came
}

// polls reports whether callers receive by themselves however long that takes.
func (c *Conn) polls() bool { return c.poller != nil && c.poller.endless }

// parked tells the policy of a wait of the receive goroutine.
func (p *poller) parked(wait time.Duration, came int) {
	p.mu.Lock()
	p.policy.parked(wait, came)
	p.window.Store(int64(p.policy.window))
	p.mu.Unlock()
}

// spun tells the policy of a spin.
func (p *poller) spun(wait time.Duration, came int) {
	p.mu.Lock()
	p.policy.spun(wait, came)
	p.window.Store(int64(p.policy.window))
	p.mu.Unlock()
}
