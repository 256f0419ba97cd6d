package iwarp

import (
	"context"
	"fmt"
	"net"
	"runtime"
)

// cqWaiters are the calls of Wait that sleep, the one that came first in front.
// All of it is under the queue's lock.
type cqWaiters struct {
	head, tail *cqWaiter
	idle       *cqWaiter // not in use, linked by next
}

// cqWaiter is what a call of Wait sleeps on. It has a channel of its own, since a
// receive from one channel costs a fraction of a select, on the way of every
// message. So the end of the context has to come through that channel as well: the
// waiter registers for it, and stays registered for the next call, which mostly has
// the same context.
type cqWaiter struct {
	wake       chan struct{} // capacity 1
	next, prev *cqWaiter
	queued     bool

	done <-chan struct{} // of the latest context
	stop func() bool     // ends the registration for done; nil if there is none
}

// Wait is Poll that blocks until there is at least one completion. It gives
// ctx's error when ctx ends first and [net.ErrClosed] when the queue is closed
// and empty. The queue may keep ctx until it is closed.
func (q *CQ) Wait(ctx context.Context, c []Completion) (int, error) {
	if len(c) == 0 {
		return 0, nil
	}
	for turn := uint(0); ; turn++ {
		if n := q.Poll(c); n > 0 {
			return n, nil
		}
		spins := q.spins()
		if spins {
			if turn%spinYield == 0 {
				runtime.Gosched()
			}
			if turn%spinLook != spinLook-1 {
				continue
			}
		}
		if q.closed.Load() {
			if n := q.Poll(c); n > 0 {
				return n, nil
			}
			return 0, fmt.Errorf("iwarp: completion queue: %w", net.ErrClosed)
		}
		if over(ctx.Done()) {
			return 0, context.Cause(ctx)
		}
		if !spins {
			q.sleep(ctx)
		}
	}
}

// A Wait that spins lets other goroutines run, and looks at its context, only once
// in so many turns: a turn is as short as a system call that finds nothing.
const (
	spinYield = 8
	spinLook  = 64
)

// over reports whether a context's channel is closed.
func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

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

// sleep returns when there may be something to do: a completion, the end of ctx or
// of the queue, or nothing at all.
func (q *CQ) sleep(ctx context.Context) {
	w := q.enqueue()
	if w == nil {
		return
	}
	done := ctx.Done()
	if done == nil || w.watch(ctx, done) {
		// The registration wakes the waiter once, and who had it before may have taken
		// that. While done is open it is still to come.
		if !over(done) {
			<-w.wake
		}
	} else {
		select {
		case <-w.wake:
		case <-done:
		}
	}
	q.dequeue(w)
}

// watch makes the end of a context wake the waiter, and reports whether it does. A
// context that is seen for the first time is not worth the registration.
func (w *cqWaiter) watch(ctx context.Context, done <-chan struct{}) bool {
	if w.done != done {
		w.unwatch()
		w.done = done
		return false
	}
	if w.stop == nil {
		w.stop = context.AfterFunc(ctx, func() { signal(w.wake) })
	}
	return true
}

func (w *cqWaiter) unwatch() {
	if w.stop != nil {
		w.stop()
	}
	w.stop, w.done = nil, nil
}

// enqueue gives a waiter in the list, nil if there is no reason to sleep.
func (q *CQ) enqueue() *cqWaiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count > 0 || q.closed.Load() {
		return nil
	}
	l := &q.waiters
	w := l.idle
	if w == nil {
		w = &cqWaiter{wake: make(chan struct{}, 1)}
	} else {
		l.idle = w.next
	}
	w.next, w.prev, w.queued = nil, l.tail, true
	if l.tail != nil {
		l.tail.next = w
	} else {
		l.head = w
	}
	l.tail = w
	return w
}

// dequeue ends a sleep. If a completion has woken the waiter it is not in the list
// any more, and looks for that completion.
func (q *CQ) dequeue(w *cqWaiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiters.remove(w)
	if q.closed.Load() {
		w.unwatch()
		return
	}
	w.next, q.waiters.idle = q.waiters.idle, w
}

func (l *cqWaiters) remove(w *cqWaiter) {
	if !w.queued {
		return
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		l.tail = w.prev
	}
	w.next, w.prev, w.queued = nil, nil, false
}

// first takes the waiter that has slept longest out of the list, nil if nobody
// sleeps. Whoever calls it signals the waiter, after the queue's lock: the waiter
// would run into that.
func (l *cqWaiters) first() *cqWaiter {
	w := l.head
	if w != nil {
		l.remove(w)
	}
	return w
}

// wakeUp signals a waiter, if there is one.
func (w *cqWaiter) wakeUp() {
	if w != nil {
		signal(w.wake)
	}
}

// close wakes all who sleep, and forgets their contexts.
func (l *cqWaiters) close() {
	for w := l.first(); w != nil; w = l.first() {
		signal(w.wake)
	}
	for ; l.idle != nil; l.idle = l.idle.next {
		l.idle.unwatch()
	}
}
