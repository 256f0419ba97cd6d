package iwarp

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// CQ is a completion queue. Send and receive queues of any number of QPs may
// share one. It never overflows: posting a work request reserves its entry, and
// fails with [ErrCQFull] when there is none. All methods may be called from any
// goroutine.
type CQ struct {
	tenant *Tenant

	depth int

	mu       sync.Mutex
	ring     []Completion // made when the first entry is reserved
	head     int
	count    int
	reserved int // entries that posted work requests may still need
	armed    armState
	polled   atomic.Pointer[[]*Conn] // connections that Poll may read; never changed in place
	events   chan struct{}
	ready    chan struct{} // holds a token while there is something to poll
	closed   chan struct{}
}

type armState uint8

const (
	disarmed armState = iota
	armedSolicited
	armedAny
)

// NewCQ makes a completion queue with room for depth completions, counting those
// of all work requests that are posted and not yet polled.
func (d *Device) NewCQ(depth int) (*CQ, error) { return d.newCQ(d.own, depth) }

func (d *Device) newCQ(t *Tenant, depth int) (*CQ, error) {
	if depth < 1 || depth > d.limits.MaxCQE {
		return nil, fmt.Errorf("%w: completion queue depth %d: between 1 and %d", ErrLimit, depth, d.limits.MaxCQE)
	}
	if err := d.manager.take(resCQ, 1, &t.acct, nil); err != nil {
		return nil, err
	}
	if err := d.manager.take(resEntries, int64(depth), &t.acct, nil); err != nil {
		d.manager.give(resCQ, 1, &t.acct, nil)
		return nil, err
	}
	return &CQ{
		tenant: t, depth: depth,
		events: make(chan struct{}, 1), ready: make(chan struct{}, 1), closed: make(chan struct{}),
	}, nil
}

// Depth is the number of completions that the queue has room for.
func (q *CQ) Depth() int { return q.depth }

// Poll moves up to len(c) completions into c and gives their number, which may
// be 0. It does not block.
func (q *CQ) Poll(c []Completion) int {
	n := q.take(c)
	if polled := q.polled.Load(); n == 0 && polled != nil && len(c) > 0 {
		for _, conn := range *polled {
			conn.poll()
		}
		n = q.take(c)
	}
	return n
}

func (q *CQ) take(c []Completion) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(c), q.count)
	for i := range n {
		c[i] = q.ring[q.head]
		if qp := c[i].QP; qp.shared != nil && c[i].isRecv() {
			qp.shared.srq.polled(qp)
		}
		q.ring[q.head] = Completion{}
		q.head = (q.head + 1) % len(q.ring)
	}
	q.count -= n
	if q.count > 0 {
		signal(q.ready)
	}
	return n
}

// Wait is Poll that blocks until there is at least one completion. It gives
// ctx's error when ctx ends first and [net.ErrClosed] when the queue is closed
// and empty.
func (q *CQ) Wait(ctx context.Context, c []Completion) (int, error) {
	if len(c) == 0 {
		return 0, nil
	}
	for turn := uint(0); ; turn++ {
		if n := q.Poll(c); n > 0 {
			return n, nil
		}
		again := q.ready
		if q.spins() {
			if turn%spinYield == 0 {
				runtime.Gosched()
			}
			if turn%spinLook != spinLook-1 {
				continue
			}
			again = spinning
		}
		select {
		case <-q.closed:
			if n := q.Poll(c); n > 0 {
				return n, nil
			}
			return 0, fmt.Errorf("iwarp: completion queue: %w", net.ErrClosed)
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-again:
		}
	}
}

// A Wait that spins lets other goroutines run, and looks at its context, only once
// in so many turns: a turn is as short as a system call that finds nothing.
const (
	spinYield = 8
	spinLook  = 64
)

// spinning is always ready: Wait does not sleep.
var spinning = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// spins reports whether Wait should poll connections instead of sleeping.
func (q *CQ) spins() bool {
	polled := q.polled.Load()
	if polled == nil {
		return false
	}
	for _, conn := range *polled {
		if conn.polls() {
			return true
		}
	}
	return false
}

// addPolled lets Poll read a connection.
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
// nothing.
func (q *CQ) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-q.closed:
	default:
		close(q.closed)
		m := &q.tenant.dev.manager
		m.give(resCQ, 1, &q.tenant.acct, nil)
		m.give(resEntries, int64(q.depth), &q.tenant.acct, nil)
	}
}

// reserve sets n entries aside.
func (q *CQ) reserve(n int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count+q.reserved+n > q.depth {
		return fmt.Errorf("%w: depth %d, %d completions to poll, %d work requests posted", ErrCQFull, q.depth, q.count, q.reserved)
	}
	if q.ring == nil {
		q.ring = make([]Completion, q.depth)
	}
	q.reserved += n
	return nil
}

// release gives n reserved entries back.
func (q *CQ) release(n int) {
	if n == 0 {
		return
	}
	q.mu.Lock()
	q.reserved -= n
	q.mu.Unlock()
}

// push puts a completion into the entry reserved for it. Whoever waits is woken
// without the lock, or would run into it.
func (q *CQ) push(c *Completion) {
	q.mu.Lock()
	q.reserved--
	q.ring[(q.head+q.count)%len(q.ring)] = *c
	q.count++
	event := q.armed == armedAny || q.armed == armedSolicited && (c.Solicited || c.Err != nil)
	if event {
		q.armed = disarmed
	}
	q.mu.Unlock()
	signal(q.ready)
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
