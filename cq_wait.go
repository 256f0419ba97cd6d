package iwarp

import (
	"context"
	"fmt"
	"net"
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
	if err := q.made(); err != nil {
		return 0, err
	}
	if len(c) == 0 {
		return 0, nil
	}
	n := q.take(c)
	for n == 0 {
		endless := false
		if n, endless = q.spin(c); n == 0 && !endless {
			n = q.sleep(ctx, c)
		}
		switch {
		case n > 0:
		case q.closed.Load():
			if n = q.Poll(c); n == 0 {
				return 0, fmt.Errorf("iwarp: completion queue: %w", net.ErrClosed)
			}
		case over(ctx.Done()):
			return 0, context.Cause(ctx)
		}
	}
	return n, nil
}

// Spin is Poll that receives by itself for a while, if there is no completion and that is likely to bring one, as Wait
// does before it sleeps: see [Config.Progress]. It is for a program that waits on [CQ.Events] beside other things, and
// calls it before it arms the queue. It does not sleep.
func (q *CQ) Spin(c []Completion) int {
	if q.made() != nil || len(c) == 0 {
		return 0
	}
	n := q.take(c)
	if n == 0 {
		n, _ = q.spin(c)
	}
	return n
}

// spin receives for a while, if that is worth it. With ProgressPolling it is, however
// long it takes.
func (q *CQ) spin(c []Completion) (n int, endless bool) {
	polled := q.polled.Load()
	if polled == nil {
		return 0, false
	}
	var s spinner
	for more := s.start(*polled, true); more && n == 0; more = n == 0 && s.next() {
		s.receive()
		n = q.take(c)
	}
	s.end()
	return n, s.endless
}

// over reports whether a context's channel is closed.
func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// sleep is a Poll that returns when there may be something to do: a completion, the
// end of ctx or of the queue, or nothing at all.
func (q *CQ) sleep(ctx context.Context, c []Completion) int {
	n, w := q.takeOrEnqueue(c)
	if w == nil {
		return n
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
	return q.dequeue(w, c)
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

// takeOrEnqueue takes completions, or gives a waiter in the list if there are none
// and the queue is open.
func (q *CQ) takeOrEnqueue(c []Completion) (n int, w *cqWaiter) {
	q.mu.Lock()
	n, next := q.takeLocked(c)
	if n == 0 && q.count() == 0 && !q.closed.Load() {
		w = q.waiters.add()
	}
	q.mu.Unlock()
	next.wakeUp()
	return n, w
}

func (l *cqWaiters) add() *cqWaiter {
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

// dequeue ends a sleep, and takes what has ended it. If a completion has woken the
// waiter it is not in the list any more.
func (q *CQ) dequeue(w *cqWaiter, c []Completion) int {
	q.mu.Lock()
	q.waiters.remove(w)
	closed := q.closed.Load()
	if !closed {
		w.next, q.waiters.idle = q.waiters.idle, w
	}
	n, next := q.takeLocked(c)
	q.mu.Unlock()
	next.wakeUp()
	if closed {
		w.unwatch()
	}
	return n
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

// close empties the lists. Once the lock is free, asleep are to be woken, and idle to
// forget their contexts.
func (l *cqWaiters) close() (asleep []*cqWaiter, idle *cqWaiter) {
	for w := l.first(); w != nil; w = l.first() {
		asleep = append(asleep, w)
	}
	idle, l.idle = l.idle, nil
	return asleep, idle
}
