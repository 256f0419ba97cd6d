package iwarp

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-iwarp/iwarp/internal/ring"
)

// SRQConfig configures an [SRQ]. Nil, and zero in a field, mean the documented
// default.
type SRQConfig struct {
	Depth  int // receives at once; default 1024
	MaxSGE int // elements of a receive's SG; default 16
	// MaxShare bounds the receives that one connection may hold: taken by its
	// messages and not yet polled from its RecvCQ by the program. A connection that
	// goes beyond is the only one to suffer: its peer is told that there is no
	// buffer (1/2/02). Default: Depth, so that only SRQ.Shares tells who is greedy.
	MaxShare int
}

// SRQ is a shared receive queue: receives that any QP of the domain which was made
// with it may use, each for the next message of whichever connection has one
// first. It saves memory where many connections are mostly idle. Receives posted
// to it complete on the RecvCQ of the QP that has used them; the CQ needs room at
// that moment, or the message finds no buffer.
//
// RFC 5042 section 6.4.3.1 warns that one peer may use up what all share; see
// [SRQConfig.MaxShare], [SRQ.Shares] and [SRQ.Arm]. Messages that have begun and not
// ended hold at most as many receives as they leave to others: beyond that what comes
// of them lies in memory of the library, which DeviceConfig.MaxHeld bounds, and they
// take a receive when they are whole.
type SRQ struct {
	pd  *PD
	cfg SRQConfig

	mu     sync.Mutex
	slots  []recvEntry
	free   []uint32          // slots without a receive
	posted ring.Ring[uint32] // slots with a receive, from head to tail
	head   uint64
	tail   uint64
	limit  int
	shares map[*QP]int
	begun  int    // receives that messages have taken which are not whole
	most   uint64 // octets of the largest receive that was posted
	qps    int
	events chan struct{}
	due    atomic.Bool // an event, when the locks are free
	closed bool
}

// NewSRQ makes a shared receive queue. cfg may be nil. The error wraps [ErrLimit].
func (p *PD) NewSRQ(cfg *SRQConfig) (*SRQ, error) {
	if err := p.made(); err != nil {
		return nil, err
	}
	var c SRQConfig
	if cfg != nil {
		c = *cfg
	}
	l := p.dev.limits
	err := settle(
		limit{"SRQConfig.Depth", &c.Depth, 1024, 1, l.MaxWR},
		limit{"SRQConfig.MaxSGE", &c.MaxSGE, 16, 1, l.MaxSGE},
	)
	if err != nil {
		return nil, err
	}
	if err := settle(limit{"SRQConfig.MaxShare", &c.MaxShare, c.Depth, 1, c.Depth}); err != nil {
		return nil, err
	}
	if err := p.take(resEntries, int64(c.Depth)); err != nil {
		return nil, err
	}
	q := &SRQ{
		pd: p, cfg: c, slots: make([]recvEntry, c.Depth),
		shares: make(map[*QP]int), events: make(chan struct{}, 1),
	}
	q.posted.Make(c.Depth)
	for i := range q.slots {
		q.free = append(q.free, uint32(i))
	}
	p.used.Add(1)
	return q, nil
}

// PostRecv posts receives for whichever connection needs one. It does not block.
// The first that cannot be posted ends the list and is named by a *[PostError],
// whose cause is [ErrRecvQueueFull] or [ErrInvalidWR].
func (q *SRQ) PostRecv(wrs ...RecvWR) error {
	if err := q.made(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range wrs {
		if err := q.post(&wrs[i]); err != nil {
			return &PostError{Index: i, Err: err}
		}
	}
	return nil
}

func (q *SRQ) post(wr *RecvWR) error {
	switch n := len(q.free); {
	case q.closed:
		return fmt.Errorf("%w: the SRQ is closed", ErrInvalidWR)
	case len(wr.SG) > q.cfg.MaxSGE:
		return fmt.Errorf("%w: SG has %d elements: at most %d are allowed", ErrInvalidWR, len(wr.SG), q.cfg.MaxSGE)
	case n == 0:
		return fmt.Errorf("%w: %d posted to the SRQ", ErrRecvQueueFull, q.cfg.Depth)
	default:
		slot := q.free[n-1]
		q.free = q.free[:n-1]
		e := &q.slots[slot]
		e.id, e.sg = wr.ID, append(e.sg[:0], wr.SG...)
		q.most = max(q.most, sizeOf(wr.SG))
		*q.posted.At(q.tail) = slot
		q.tail++
		return nil
	}
}

// Arm asks for one event on Events when fewer than limit receives are left; at
// once if that is so already. 0 disarms.
func (q *SRQ) Arm(limit int) {
	defer q.raise()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = limit
	q.checkLimit()
}

func (q *SRQ) checkLimit() {
	if q.count() < q.limit {
		q.limit = 0
		q.due.Store(true)
	}
}

// raise sends the event that is due. No lock is held.
func (q *SRQ) raise() {
	if q.due.Load() && q.due.Swap(false) {
		signal(q.events)
		q.pd.dev.tell(Event{Kind: EventSRQLimit, SRQ: q})
	}
}

// Events is where the event asked for by Arm arrives. It arrives at [DeviceConfig].Events
// too, beside those of the device's other SRQs.
func (q *SRQ) Events() <-chan struct{} { return q.events }

// Posted is the number of receives that wait for a message.
func (q *SRQ) Posted() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count()
}

func (q *SRQ) count() int { return int(q.tail - q.head) }

// Shares tells how many receives each QP holds: taken by a message and not yet
// polled by the program. QPs that hold none, or are closed, are left out.
func (q *SRQ) Shares() map[*QP]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	// Rule: DDP-8.3.2-06, RDMAP-8.1.2-07, SEC-6.4.3.1-01
	m := make(map[*QP]int, len(q.shares))
	for qp, n := range q.shares {
		m[qp] = n
	}
	return m
}

// Close gives the queue back; receives still posted are dropped without a
// completion. It fails with [ErrInUse] while QPs have it.
func (q *SRQ) Close() error {
	if err := q.made(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.qps > 0 {
		return fmt.Errorf("%w: %d QPs have the SRQ", ErrInUse, q.qps)
	}
	if !q.closed {
		q.closed = true
		q.slots, q.head = nil, q.tail // with the memory of the receives
		q.pd.leave()
		q.pd.give(resEntries, int64(q.cfg.Depth))
	}
	return nil
}

func (q *SRQ) join() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return fmt.Errorf("%w: QPConfig.SRQ is closed", ErrInvalidWR)
	}
	q.qps++
	return nil
}

func (q *SRQ) leave(qp *QP) {
	q.mu.Lock()
	q.qps--
	delete(q.shares, qp) // its program may never poll the rest
	q.mu.Unlock()
}

// spare reports whether a message that is not whole may hold a receive: as long as
// those that do leave as many to others. If not, most is what it may grow to.
func (q *SRQ) spare() (ok bool, most uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count() > q.begun, q.most
}

// take hands the oldest receive to a message of qp; begun says that it is not whole.
func (q *SRQ) take(qp *QP, begun bool) (uint32, [][]byte, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	// Rule: DDP-8.3.2-06, RDMAP-8.1.2-07, SEC-6.4.3.1-01
	if q.count() == 0 || q.shares[qp] >= q.cfg.MaxShare {
		return 0, nil, false
	}
	slot := *q.posted.At(q.head)
	q.head++
	q.shares[qp]++
	if begun {
		q.begun++
	}
	q.checkLimit()
	return slot, q.slots[slot].sg, true
}

// finish frees the slot of a receive that is about to complete and gives its ID.
func (q *SRQ) finish(slot uint32, begun bool) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if begun {
		q.begun--
	}
	e := &q.slots[slot]
	clear(e.sg)
	q.free = append(q.free, slot)
	return e.id
}

// polled notes that the program has seen a completion of qp.
func (q *SRQ) polled(qp *QP) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shares[qp]--; q.shares[qp] <= 0 {
		delete(q.shares, qp)
	}
}
