package iwarp

import (
	"fmt"
	"sync"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/internal/ring"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// recvQueue is a QP's receive queue: buffers that the program posts, taken by
// incoming messages in order of arrival. It is the ddp.Source of QN 0. On an LLP
// without order a later message may take a buffer first; it completes in its turn.
type recvQueue struct {
	toCQs

	mu      sync.Mutex
	entries ring.Ring[recvEntry]
	head    uint64 // oldest that has not completed
	taken   uint64 // next to be taken by a message
	tail    uint64
	err     error // set when the stream has ended: posts complete at once
}

type recvEntry struct {
	id   uint64
	sg   [][]byte
	done bool // completed; the queue's head has not passed it yet
}

func newRecvQueue(qp *QP, depth int) *recvQueue {
	q := &recvQueue{toCQs: toCQs{qp}}
	q.entries.Make(depth)
	return q
}

func (q *recvQueue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fullLocked()
}

func (q *recvQueue) fullLocked() bool { return q.tail-q.head >= uint64(q.entries.Size()) }

// waiting reports whether a buffer is posted that no message has taken.
func (q *recvQueue) waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.taken != q.tail
}

func (q *recvQueue) ready() bool { return q.waiting() }

func (q *recvQueue) post(wr *RecvWR) error {
	if len(wr.SG) > q.qp.cfg.MaxSGE {
		return fmt.Errorf("%w: SG has %d elements: at most %d are allowed", ErrInvalidWR, len(wr.SG), q.qp.cfg.MaxSGE)
	}
	if err := q.qp.recvCQ.reserve(1); err != nil {
		if q.full() {
			return q.errFull()
		}
		return err
	}
	q.mu.Lock()
	full := q.fullLocked()
	if !full {
		e := q.entries.At(q.tail)
		e.id, e.done = wr.ID, false
		e.sg = append(e.sg[:0], wr.SG...)
		q.tail++
		if q.err != nil {
			q.flush()
		}
	}
	q.mu.Unlock()
	if full {
		q.qp.recvCQ.release(1)
		return q.errFull()
	}
	return nil
}

func (q *recvQueue) errFull() error {
	return fmt.Errorf("%w: %d posted", ErrRecvQueueFull, q.entries.Size())
}

// Take implements ddp.Source.
func (q *recvQueue) Take(*ddp.Header) (ddp.Buffer, bool) {
	q.mu.Lock()
	i := q.taken
	some := i != q.tail && q.err == nil
	var b ddp.Buffer
	if some {
		q.taken++
		b = ddp.Buffer{SG: q.entries.At(i).sg, Token: i}
	}
	q.mu.Unlock()
	return b, some
}

// deliver completes the buffer that a message has filled.
func (q *recvQueue) deliver(d *rdmap.Delivery) *protocol.Error {
	q.mu.Lock()
	e := q.entries.At(d.Buffer.Token)
	id := e.id
	clear(e.sg)
	e.done = true
	for q.head < q.taken && q.entries.At(q.head).done {
		q.head++
	}
	q.received(id, d)
	q.mu.Unlock()
	return nil
}

// end completes all that is posted, and from now on everything that will be.
func (q *recvQueue) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = fmt.Errorf("%w: %w", ErrFlushed, err)
		q.flush()
	}
}

func (q *recvQueue) flush() {
	for ; q.head < q.tail; q.head++ {
		e := q.entries.At(q.head)
		if e.done {
			continue
		}
		clear(e.sg)
		q.qp.recvCQ.push(&Completion{ID: e.id, QP: q.qp, Op: OpRecv, Err: q.err})
	}
	q.taken = q.tail
}

func (q *recvQueue) polled()          {}
func (q *recvQueue) disown()          {}
func (q *recvQueue) leave()           {}
func (q *recvQueue) completions() int { return q.entries.Size() }
