package iwarp

import "github.com/go-iwarp/iwarp/ddp"

// queues is where a QP's messages find their buffers, and where its work requests
// complete: a receive queue of its own, a share of an SRQ, or the inbox of a
// connection without a QP of the program's. Queues that lie elsewhere, in memory
// that another program shares, say, are one more implementation.
//
// Take, completed and deliver are called with the stream's lock held: they must not
// block, and must not reach code of the program.
type queues interface {
	ddp.Source // the buffers of QN 0
	// post adds a receive.
	post(wr *RecvWR) error
	// deliver completes the receive that Take named by token. c lacks ID and QP. With
	// c.Err the message broke a rule and has ended the connection.
	deliver(c Completion, token uint64)
	// completed hands over the completion of a send work request.
	completed(c Completion)
	// end says that the connection has ended and that nothing is placed any more: it
	// completes the receives that are left, which err has cut short. After a graceful
	// end of the peer's half err is io.EOF.
	end(err error)
	// waiting reports whether the program has posted a receive, so that it expects a
	// message.
	waiting() bool
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

// sendsToCQ is the part of queues that those of this package share.
type sendsToCQ struct{ qp *QP }

func (q *sendsToCQ) completed(c Completion) { q.qp.sendCQ.push(&c) }
