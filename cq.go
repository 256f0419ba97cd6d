package iwarp

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-iwarp/iwarp/internal/ring"
)

// CQ is a completion queue. Send and receive queues of any number of QPs may
// share one. It never overflows: posting a work request reserves its entry, and
// fails with [ErrCQFull] when there is none. All methods may be called from any
// goroutine.
type CQ struct {
	tenant *Tenant

	depth int
	used  atomic.Int64 // entries that completions have, or that posted work requests may still need

	mu      sync.Mutex
	ring    ring.Ring[Completion] // made for the first completion
	head    uint64                // the oldest
	tail    uint64                // where the next one goes
	armed   armState
	polled  atomic.Pointer[[]*Conn] // connections that Poll or Wait may read; never changed in place
	events  chan struct{}
	waiters cqWaiters
	closed  atomic.Bool // changed under mu
}

type armState uint8

const (
	disarmed armState = iota
	armedSolicited
	armedAny
)

// NewCQ makes a completion queue with room for depth completions, counting those
// of all work requests that are posted and not yet polled.
func (d *Device) NewCQ(depth int) (*CQ, error) {
	if err := d.made(); err != nil {
		return nil, err
	}
	return d.newCQ(d.own, depth)
}

func (d *Device) newCQ(t *Tenant, depth int) (*CQ, error) {
	if err := settle(limit{"the depth of the completion queue", &depth, 0, 1, d.limits.MaxCQE}); err != nil {
		return nil, err
	}
	if err := d.manager.take(resCQ, 1, &t.acct, nil); err != nil {
		return nil, err
	}
	// Rule: RDMAP-8.1.2-04, SEC-6.4.3.2-01
	if err := d.manager.take(resEntries, int64(depth), &t.acct, nil); err != nil {
		d.manager.give(resCQ, 1, &t.acct, nil)
		return nil, err
	}
	return &CQ{tenant: t, depth: depth, events: make(chan struct{}, 1)}, nil
}

// Depth is the number of completions that the queue has room for.
func (q *CQ) Depth() int { return q.depth }

// Poll moves up to len(c) completions into c and gives their number, which may
// be 0. It does not block.
func (q *CQ) Poll(c []Completion) int {
	n := q.take(c)
	if polled := q.polled.Load(); n == 0 && polled != nil && len(c) > 0 {
		some := false
		for _, conn := range *polled {
			if conn.polls() {
				conn.poll()
				some = true
			}
		}
		if some {
			n = q.take(c)
		}
	}
	return n
}

func (q *CQ) take(c []Completion) int {
	q.mu.Lock()
	n, next := q.takeLocked(c)
	q.mu.Unlock()
	next.wakeUp()
	return n
}

// takeLocked moves completions into c. If some are left, next is who should be
// woken for them, after the lock.
func (q *CQ) takeLocked(c []Completion) (n int, next *cqWaiter) {
	n = min(len(c), q.count())
	if n == 0 {
		return 0, nil
	}
	for i := range n {
		oldest := q.ring.At(q.head)
		c[i], *oldest = *oldest, Completion{}
		if c[i].isRecv() {
			c[i].QP.queues.polled()
		}
		q.head++
	}
	if q.head == q.tail {
		q.head, q.tail = 0, 0 // the entry used last is in the cache
	}
	q.used.Add(int64(-n))
	if q.count() > 0 {
		next = q.waiters.first()
	}
	return n, next
}

// count is the number of completions that are there.
func (q *CQ) count() int { return int(q.tail - q.head) }

// addPolled lets Poll and Wait read a connection.
func (q *CQ) addPolled(c *Conn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var conns []*Conn
	if old := q.polled.Load(); old != nil {
		conns = slices.Clone(*old)
	}
	if !slices.Contains(conns, c) {
		conns = append(conns, c)
	}
	q.polled.Store(&conns)
}

func (q *CQ) removePolled(c *Conn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	old := q.polled.Load()
	if old == nil {
		return
	}
	conns := slices.DeleteFunc(slices.Clone(*old), func(x *Conn) bool { return x == c })
	if len(conns) == 0 {
		q.polled.Store(nil)
		return
	}
	q.polled.Store(&conns)
}

// Arm asks for one event on the channel that Events gives: at the next
// completion, or, with solicitedOnly, at the next one that is solicited or in
// error. Completions that are already there raise none: poll once more after
// arming.
func (q *CQ) Arm(solicitedOnly bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if solicitedOnly {
		q.armed = max(q.armed, armedSolicited)
	} else {
		q.armed = armedAny
	}
}

// Events is where events asked for by Arm arrive.
func (q *CQ) Events() <-chan struct{} { return q.events }

// Close releases the queue. Work requests that are still posted complete into
// nothing. It is idempotent, and its error is nil.
func (q *CQ) Close() error {
	if err := q.made(); err != nil {
		return err
	}
	q.mu.Lock()
	if q.closed.Swap(true) {
		q.mu.Unlock()
		return nil
	}
	asleep, idle := q.waiters.close()
	q.mu.Unlock()
	for _, w := range asleep {
		w.wakeUp()
	}
	for ; idle != nil; idle = idle.next {
		idle.unwatch()
	}
	m := &q.tenant.dev.manager
	m.give(resCQ, 1, &q.tenant.acct, nil)
	m.give(resEntries, int64(q.depth), &q.tenant.acct, nil)
	return nil
}

// reserve sets n entries aside.
func (q *CQ) reserve(n int) error {
	for {
		used := q.used.Load()
		// Rule: RDMAP-8.1.1-10, SEC-6.4.6-01, SEC-6.4.3.2-01
		if used+int64(n) > int64(q.depth) {
			return q.full(used)
		}
		if q.used.CompareAndSwap(used, used+int64(n)) {
			return nil
		}
	}
}

func (q *CQ) full(used int64) error {
	q.mu.Lock()
	count := min(q.count(), int(used))
	q.mu.Unlock()
	return fmt.Errorf("%w: depth %d, %d completions to poll, %d work requests posted", ErrCQFull, q.depth, count,
		int(used)-count)
}

// release gives n reserved entries back.
func (q *CQ) release(n int) {
	if n != 0 {
		q.used.Add(int64(-n))
	}
}

// push puts a completion into the entry reserved for it. Whoever waits is woken
// without the lock, or would run into it.
func (q *CQ) push(c *Completion) {
	q.mu.Lock()
	q.ring.Make(q.depth)
	e := q.ring.At(q.tail)
	*e = *c
	e.Context = c.QP.cfg.Context
	q.tail++
	// Rule: RDMAP-5.3-09
	event := q.armed == armedAny || q.armed == armedSolicited && (c.Solicited || c.Err != nil)
	if event {
		q.armed = disarmed
	}
	next := q.waiters.first()
	q.mu.Unlock()
	next.wakeUp()
	if event {
		signal(q.events)
	}
}

// signal puts a token into a channel of capacity one, unless it has one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
