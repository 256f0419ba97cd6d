package iwarp

import (
	"errors"
	"io"
	"runtime"

	"github.com/go-iwarp/iwarp/protocol"
)

// receiveLoop is the receive goroutine. It ends when no more octets will come.
func (c *Conn) receiveLoop() {
	if c.poller != nil {
		c.receiveBesideWaiters()
	} else {
		for !c.received(c.stream.Guard(c.receiveOnce)) {
			c.trace.flush()
			c.waiterFirst()
		}
	}
	c.stopReceive()
	c.kick()
	c.halfEnded()
}

// waiterFirst lets whoever waits for what was handed up go on now, and not after the
// read that is going to find nothing. What it sends has the peer at work meanwhile, on
// one processor too: the kernel may let it go first.
func (c *Conn) waiterFirst() {
	if c.qp.handed.Load() {
		c.qp.handed.Store(false)
		runtime.Gosched()
	}
}

// receiveOnce receives what has arrived, before its turn too.
func (c *Conn) receiveOnce() error {
	if ok, err := c.resume(); err != nil {
		return err
	} else if !ok {
		c.late.pause()
		return nil
	}
	if c.under.early != nil {
		c.under.early.ReceiveEarly(c.placeEarly)
	}
	return c.llp.Receive(c.place)
}

// placeEarly places a segment whose turn has not come.
func (c *Conn) placeEarly(seg []byte) (placed int) {
	// A failure of the guard has failed the stream, as Receive is going to find.
	_ = c.stream.Guard(func() error {
		placed = c.stream.ReceiveEarly(seg)
		return nil
	})
	return placed
}

// placeGuarded is placeSegment for an LLP that need not stand a panic on its way
// through Receive.
func (c *Conn) placeGuarded(order uint64, seg []byte) error {
	return c.stream.Guard(func() error { return c.placeSegment(order, seg) })
}

// place hands a segment to the stream.
func (c *Conn) placeSegment(order uint64, seg []byte) error {
	c.came += len(seg)
	if c.released.Load() {
		return nil
	}
	if c.waits(order, seg) {
		return errWaits
	}
	if err := c.stream.Receive(order, seg); err != nil {
		return err
	}
	return nil
}

// received deals with what a call of Receive has done, and reports whether no
// more octets will come.
func (c *Conn) received(err error) (over bool) {
	c.stream.EndBatch()
	if c.leftReceiving(err) || c.wasProdded(err) || err == errWaits { //nolint:errorlint // never wrapped
		return false
	}
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
	if c.qp.handed.Load() {
		c.urgent = true
	}
	if c.stream.Wake() {
		c.urgent = true
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
		} else {
			c.peerLeft()
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
	if !c.halted {
		c.halted = true
		close(c.unplaced)
	}
}
