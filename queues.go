package iwarp

import (
	"fmt"
	"sync/atomic"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Queues are a program's own in place of a QP's receive queue and completion queues:
// queues in memory that is shared with a program in C, say, or one queue for receives
// and completions of many connections. Set them as [QPConfig.Queues]; sends are posted
// with [QP.PostSend] as on any QP.
//
// The library calls it with locks of the connection held, from any goroutine, so that
// the methods must not block and must not call the library. Take is called for one
// message at a time (over an LLP without order, such as SCTP, also for a later message
// while an earlier one is coming in). Memory that Take has handed out is the library's until
// Delivered or Ended.
type Queues interface {
	// Take is asked for the receive of each message when its first segment comes. A
	// message without one (false) ends the connection with 1/2/02.
	ddp.Source
	// Ready reports whether there is a receive for one more message, which Take is then
	// asked for; where others take receives too it is to be set aside. It is called only where
	// QPConfig.RecvWait is set, when the first segment of a message is here.
	Ready() bool
	// Completed hands over each send work request that has ended, in the order of
	// posting. That includes one that is Unsignaled and has succeeded, which programs
	// want no completion for. Delivered hands over each message.
	rdmap.Handler
	// Ended is called once, when nothing is placed any more: receives that Take has
	// handed out and Delivered has not named are the program's again. err is io.EOF
	// where the peer has closed its half, after which this end may go on sending; or the
	// connection's error. Take is not called any more. No lock is held.
	Ended(err error)
}

// elsewhere is Queues as the rest of the package sees them.
type elsewhere struct {
	qp *QP
	Queues
	ended atomic.Bool
}

func (e *elsewhere) completed(c *rdmap.Completion) {
	e.qp.sendCQ.release(1)
	e.Completed(c)
}

func (e *elsewhere) deliver(d *rdmap.Delivery) *protocol.Error { return e.Delivered(d) }

func (e *elsewhere) end(err error) {
	if !e.ended.Swap(true) {
		e.Ended(err)
	}
}

func (e *elsewhere) post(*RecvWR) error {
	return fmt.Errorf("%w: the QP's receives are QPConfig.Queues': post them there", ErrInvalidWR)
}

// Take implements ddp.Source.
func (e *elsewhere) Take(h *ddp.Header) (ddp.Buffer, bool) {
	if e.ended.Load() {
		return ddp.Buffer{}, false
	}
	return e.Queues.Take(h)
}

func (e *elsewhere) waiting() bool    { return true }
func (e *elsewhere) ready() bool      { return e.ended.Load() || e.Ready() }
func (e *elsewhere) polled()          {}
func (e *elsewhere) disown()          {}
func (e *elsewhere) leave()           {}
func (e *elsewhere) completions() int { return 1 }
