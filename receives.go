package iwarp

import (
	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// queues is where a QP's messages find their buffers, and where its work requests
// complete: a receive queue of its own, a share of an SRQ, or the inbox of a
// connection without a QP of the program's, or queues of the program's own ([Queues]).
//
// Take, completed and deliver are called with the stream's lock held: they must not
// block, and must not reach code of the program.
type queues interface {
	ddp.Source // the buffers of QN 0
	// post adds a receive.
	post(wr *RecvWR) error
	// deliver completes the receive that Take named by d.Buffer.Token. With d.Err the
	// message broke a rule and has ended the connection. d is valid during the call.
	// An error says that the message could not be copied to its receive, which has
	// completed with it, and ends the connection.
	deliver(d *rdmap.Delivery) *protocol.Error
	// completed hands over the completion of a send work request. c is valid during the
	// call.
	completed(c *rdmap.Completion)
	// end says that the connection has ended and that nothing is placed any more: it
	// completes the receives that are left, which err has cut short. After a graceful
	// end of the peer's half err is io.EOF.
	end(err error)
	// waiting reports whether the program has posted a receive, so that it expects a
	// message.
	waiting() bool
	// ready reports whether there is a receive for one more message.
	ready() bool
	// polled notes that the program has taken the completion of a receive.
	polled()
	// completions is the number of receives that may wait to be polled: the depth of a
	// RecvCQ that the QP makes.
	completions() int
	// disown says that the program has closed the connection: what the peer has sent and
	// nobody has taken is the program's from now on.
	disown()
	// leave says that the QP has been closed.
	leave()
}

// toCQs is the part of queues that those of this package share: completions go to
// the QP's CQs.
type toCQs struct{ qp *QP }

func (q *toCQs) completed(c *rdmap.Completion) {
	if c.Unsignaled && c.Err == nil {
		q.qp.sendCQ.release(1)
		return
	}
	q.qp.sendCQ.push(&Completion{ID: c.ID, QP: q.qp, Op: c.Op, Length: c.Length, Original: c.Original, Err: c.Err})
}

// received hands over the completion of a receive.
func (q *toCQs) received(id uint64, d *rdmap.Delivery) {
	q.qp.recvCQ.push(&Completion{
		ID: id, QP: q.qp, Op: recvOp(d), Length: d.Length, Immediate: d.Immediate, Invalidated: d.Invalidated,
		Solicited: d.Opcode.Solicited(), Err: d.Err,
	})
}

// recvOp is the Op of a completion for a message.
func recvOp(d *rdmap.Delivery) Op {
	if d.Opcode == rdmap.OpcodeImmediate || d.Opcode == rdmap.OpcodeImmediateSolicited {
		return OpRecvImmediate
	}
	return OpRecv
}
