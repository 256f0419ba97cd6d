package iwarp

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/go-iwarp/iwarp/mpa"
)

// Release ends the connection as Close does, and returns as soon as the library touches no
// memory of the QP's work requests any more: what is posted to the send queue has
// completed, receives are flushed, and what the peer still sends is thrown away. The
// peer's FIN is waited for without the caller, as long as Config.CloseTimeout allows; Done
// tells when that is over. [QP.Close] then gives the QP back and leaves the connection
// to its end. Regions are not the connection's: close them as ever.
//
// If ctx ends first, or the conn below cannot be left so, the connection is aborted,
// which gives the memory back as well; the error says so in the first case. It is the
// connection's own, if that has failed.
func (c *Conn) Release(ctx context.Context) error {
	if err := c.made(); err != nil {
		return err
	}
	c.beginClose()
	select {
	case <-c.drained:
	case <-ctx.Done():
		c.giveUp(context.Cause(ctx))
		<-c.done
		return context.Cause(ctx)
	}
	if !c.leaveReceiving() {
		c.Abort()
	}
	return c.Err()
}

// leaveReceiving has the receive owner throw away what comes, and returns when nothing
// is placed any more. It is false where the receive owner cannot be reached.
func (c *Conn) leaveReceiving() bool {
	if c.released.Swap(true) {
		<-c.unplaced
		return true
	}
	if p := c.poller; p != nil {
		p.owner.Lock()
		c.stopReceive()
		p.owner.Unlock()
		return true
	}
	m, ok := c.llp.(*mpa.Conn)
	if !ok {
		return false
	}
	// The receive goroutine sees released when its read has ended.
	_ = m.SetReadDeadline(aDeadlineAgo)
	select {
	case <-c.unplaced:
	case <-c.done:
	}
	return true
}

// leftReceiving is called by the receive goroutine after a read, and reports whether
// that was cut short for Release, so that receiving goes on.
func (c *Conn) leftReceiving(err error) bool {
	if !c.released.Load() || c.poller != nil {
		return false
	}
	c.stopReceive()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	m, ok := c.llp.(*mpa.Conn)
	return ok && m.SetReadDeadline(time.Time{}) == nil
}
