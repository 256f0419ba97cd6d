package iwarp

import (
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/rdmap"
)

// lateMessage is the first segment of a message that found no receive and waits for one:
// see QPConfig.RecvWait. Nothing is received meanwhile.
type lateMessage struct {
	here   bool
	order  uint64
	seg    []byte // a copy
	since  time.Duration
	pauses atomic.Uint32 // since the message came
}

// errWaits is how a segment that waits gets out of Receive.
var errWaits = errors.New("iwarp: a message waits for a receive")

// waits keeps a segment that begins a message for which there is no receive, and reports
// whether it has.
func (c *Conn) waits(order uint64, seg []byte) bool {
	if c.qp.cfg.RecvWait <= 0 || c.stream.Failed() {
		return false
	}
	h, _, err := ddp.Parse(seg)
	if err != nil || h.Tagged || h.QN != rdmap.QNSend || h.MO != 0 || c.qp.queues.ready() {
		return false
	}
	l := &c.late
	l.here, l.order, l.seg, l.since = true, order, append(l.seg[:0], seg...), uptime()
	l.pauses.Store(0)
	return true
}

// resume hands the segment that waits to the stream, if there is a receive now, or it
// has waited for long enough. It is false if it waits on.
func (c *Conn) resume() (bool, error) {
	l := &c.late
	switch {
	case !l.here:
		return true, nil
	case !c.qp.queues.ready() && !c.stream.Failed() && !c.released.Load() && uptime()-l.since < c.qp.cfg.RecvWait:
		return false, nil
	}
	l.here = false
	if c.released.Load() {
		return true, nil
	}
	if err := c.stream.Receive(l.order, l.seg); err != nil {
		return true, err
	}
	return true, nil
}

// prod has the receive goroutine look for the receive, where a caller that receives has
// found that a message waits: that goroutine waits for octets, which may all be here.
func (p *poller) prod() {
	if !p.prodded {
		p.prodded = true
		_ = p.m.SetReadDeadline(aDeadlineAgo)
	}
}

// wasProdded reports whether that is why a read has ended.
func (c *Conn) wasProdded(err error) bool {
	p := c.poller
	if p == nil || !p.prodded || p.over || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	p.prodded = false
	return p.m.SetReadDeadline(time.Time{}) == nil
}

// The pauses between two looks for a receive.
const (
	shortPause  = 20 * time.Microsecond
	longPause   = time.Millisecond
	shortPauses = 50
)

// pause is called by the receive goroutine, without a lock.
func (l *lateMessage) pause() {
	if l.pauses.Add(1) <= shortPauses {
		time.Sleep(shortPause)
		return
	}
	time.Sleep(longPause)
}
