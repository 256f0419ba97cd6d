package iwarp

import (
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

// receiveLoop is the receive goroutine. It ends when no more octets will come.
func (c *Conn) receiveLoop() {
	if c.poller != nil {
		c.receiveBesidePollers()
	} else {
		for !c.received(c.stream.Guard(c.receiveOnce)) {
			if c.qp.handed.Load() {
				// Whoever waits for that goes on now, and not after the read that is
				// going to find nothing. What it sends has the peer at work meanwhile,
				// on one processor too: the kernel may let it go first.
				c.qp.handed.Store(false)
				runtime.Gosched()
			}
		}
	}
	c.stopReceive()
	c.kick()
	c.halfEnded()
}

// receiveOnce receives what has arrived.
func (c *Conn) receiveOnce() error { return c.llp.Receive(c.place) }

// placeGuarded is placeSegment for an LLP that need not stand a panic on its way
// through Receive.
func (c *Conn) placeGuarded(order uint64, seg []byte) error {
	return c.stream.Guard(func() error { return c.placeSegment(order, seg) })
}

// place hands a segment to the stream.
func (c *Conn) placeSegment(order uint64, seg []byte) error {
	if err := c.stream.Receive(order, seg); err != nil {
		return err
	}
	return nil
}

// received deals with what a call of Receive has done, and reports whether no
// more octets will come.
func (c *Conn) received(err error) (over bool) {
	c.stream.EndBatch()
	if err != nil && c.closedBelow() {
		err = io.EOF
	}
	over = err != nil && c.receiveEnded(err)
	if c.stream.Failed() {
		// Nothing is placed any more; what comes is swallowed until the peer's FIN,
		// since a reset would destroy a Terminate on its way.
		// Rule: RDMAP-6.2.1-04
		c.stopReceive()
	}
	if c.stream.Wake() {
		c.kick()
	}
	return over
}

// receiveEnded handles an error of Receive and reports whether no more octets
// will come.
func (c *Conn) receiveEnded(err error) (over bool) {
	var perr *ProtocolError
	switch {
	// Rule: DDP-6.2.1-04, MPA-3-09
	case errors.Is(err, io.EOF):
		if c.stream.PeerClosed() != nil {
			c.streamFailed(false)
		}
		return true
	case !errors.As(err, &perr):
		perr = &ProtocolError{Code: protocol.MPAConnectionLost, Section: "RFC 5044 section 8", Err: err}
	}
	over = perr.Code == protocol.MPAConnectionLost && !perr.Remote
	intact := !over || errors.Is(perr, io.ErrUnexpectedEOF) // a FIN within an FPDU leaves this half open
	// Rule: MPA-8-10, DDP-7-01, RDMAP-7.1-01
	if !perr.Remote {
		c.stream.Fail(perr, intact)
	}
	if over {
		_ = c.stream.PeerClosed()
	}
	c.streamFailed(!intact)
	return over
}

// stopReceive says that nothing will be placed any more, and completes all receives,
// and Recv, with the reason. The owner of the receive side calls it.
func (c *Conn) stopReceive() {
	c.stream.StopReceive()
	err := c.stream.Err()
	if err == nil {
		err = io.EOF
	}
	c.qp.queues.end(err)
}

// poller lets callers that poll for completions receive by themselves, which
// spares them the wake-up by another goroutine: see Config.Polling. The receive
// goroutine and the pollers pass the receive side to each other.
type poller struct {
	m     *mpa.Conn
	owner sync.Mutex    // held by whoever receives
	polls atomic.Uint64 // how often somebody has polled
	over  bool          // no more octets will come; under owner
	ended chan struct{} // closed then
	off   atomic.Bool   // the conn below cannot be polled

	mu     sync.Mutex
	parked parkState
}

type parkState uint8

const (
	notParked   parkState = iota
	parked                // the receive goroutine waits in Receive
	interrupted           // a poller has woken it with a deadline
)

// pollPause is how long the receive goroutine leaves the connection to pollers
// after it has last seen one.
const pollPause = 2 * time.Millisecond

// aDeadlineAgo has passed on every clock.
var aDeadlineAgo = time.Unix(1, 0)

// receiveBesidePollers is the receive goroutine of a connection that is polled:
// it waits for octets as long as nobody polls, and stands aside while somebody
// does.
func (c *Conn) receiveBesidePollers() {
	p := c.poller
	for {
		p.owner.Lock()
		if p.over {
			p.owner.Unlock()
			return
		}
		p.park()
		err := c.stream.Guard(c.receiveOnce)
		woken := p.unpark()
		if !woken || !isTimeout(err) {
			if c.received(err) {
				p.owner.Unlock()
				return
			}
		}
		p.owner.Unlock()
		if woken {
			p.standAside()
		}
	}
}

func (p *poller) park() {
	p.mu.Lock()
	p.parked = parked
	p.mu.Unlock()
}

// unpark reports whether a poller has interrupted the wait.
func (p *poller) unpark() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	woken := p.parked == interrupted
	p.parked = notParked
	if woken {
		_ = p.m.SetReadDeadline(time.Time{})
	}
	return woken
}

// interrupt wakes the receive goroutine if it waits for octets.
func (p *poller) interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.parked == parked {
		p.parked = interrupted
		_ = p.m.SetReadDeadline(aDeadlineAgo)
	}
}

// standAside returns when nobody has polled for a while.
func (p *poller) standAside() {
	timer := time.NewTimer(pollPause)
	defer timer.Stop()
	for last := p.polls.Load(); ; {
		select {
		case <-timer.C:
		case <-p.ended:
			return
		}
		now := p.polls.Load()
		if now == last {
			return
		}
		last = now
		timer.Reset(pollPause)
	}
}

// poll receives what has arrived, without waiting, on behalf of a caller that
// looks for completions.
func (c *Conn) poll() {
	p := c.poller
	if p == nil || p.off.Load() {
		return
	}
	p.polls.Add(1)
	if !p.owner.TryLock() {
		p.interrupt()
		return
	}
	defer p.owner.Unlock()
	if p.over {
		return
	}
	some := true // if it does not return
	err := c.stream.Guard(func() (err error) {
		some, err = p.m.TryReceive(c.place)
		return err
	})
	if errors.Is(err, errors.ErrUnsupported) {
		p.off.Store(true)
		return
	}
	if (some || err != nil) && c.received(err) {
		p.over = true
		close(p.ended)
	}
}

// polls reports whether callers receive by themselves.
func (c *Conn) polls() bool { return c.poller != nil && !c.poller.off.Load() }

// isTimeout reports whether a deadline has passed. TCP's own timeout (ETIMEDOUT) is
// another thing: the end of the connection.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
