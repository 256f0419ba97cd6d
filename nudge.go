package iwarp

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp/mpa"
)

// nudger sees to it that the first octets of an initiator are not overlooked.
//
// Linux siw as a responder sends its Reply before it is ready to be told of octets.
// What comes in between lies in its socket until more comes: the RTR, a Send, a Read
// Request. If the initiator sends nothing more because it waits for the answer, both
// wait for ever. So an initiator that has sent something, has had nothing back and
// waits sends a zero-length RDMA Write after Config.MPA.NudgeAfter, once.
//
// Once the peer has said something it costs an atomic load. It has no goroutine, and
// a connection that is idle has no timer.
type nudger struct {
	c     *Conn
	stats func() mpa.Stats
	state atomic.Int32
	recvs atomic.Int32 // calls of Recv under way
	first uint64       // FPDUs sent when it was first looked at; the timer's
}

const (
	nudgeIdle  = iota // nothing is expected of the peer, as far as was seen last
	nudgeArmed        // a timer runs
	nudgeOver         // the peer has answered, or has been nudged
)

// newNudger returns nil where no nudge is due, ever.
func newNudger(c *Conn) *nudger {
	if c.under.mpa == nil || !c.agreed.Initiator || c.cfg.MPA.NudgeAfter < 0 {
		return nil
	}
	return &nudger{c: c, stats: c.under.mpa}
}

// active reports whether there may be something to do yet.
func (n *nudger) active() bool { return n != nil && n.state.Load() != nudgeOver }

// look has the connection looked at after a while. It is called when the program has
// posted something, or begins to wait.
func (n *nudger) look() {
	if n != nil && n.state.Load() == nudgeIdle && n.state.CompareAndSwap(nudgeIdle, nudgeArmed) {
		time.AfterFunc(n.c.cfg.MPA.NudgeAfter, n.due)
	}
}

// due looks at the connection. It runs in the timer's goroutine, one call at a time.
func (n *nudger) due() {
	st := n.stats()
	asked, due, answered := n.c.stream.Answers()
	switch {
	case n.c.stream.Failed(), answered, !due && st.FPDUsReceived > 0:
		n.state.Store(nudgeOver)
		return
	case n.first > 0 && st.FPDUsSent > n.first:
		n.state.Store(nudgeOver) // what came later has done it
		return
	case asked && st.FPDUsSent == 0:
		time.AfterFunc(n.c.cfg.MPA.NudgeAfter, n.due) // on its way
		return
	}
	n.first = st.FPDUsSent
	if asked && (due || n.waits()) {
		n.state.Store(nudgeOver)
		n.c.events.log(slog.LevelDebug, "iwarp: no answer yet, sending an empty RDMA Write", "remote", n.c.RemoteAddr(),
			"after", n.c.cfg.MPA.NudgeAfter)
		n.c.stream.Nudge()
		n.c.kick()
		return
	}
	n.state.Store(nudgeIdle)
	if asked, due, _ = n.c.stream.Answers(); asked && (due || n.waits()) {
		n.look() // it has begun to, meanwhile
	}
}

// waits reports whether a message of the peer is expected: somebody is in Recv, or has
// posted receives.
func (n *nudger) waits() bool {
	return n.recvs.Load() > 0 || n.c.qp.queues.waiting()
}
