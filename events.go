package iwarp

import (
	"context"
	"fmt"
	"iter"
)

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events.
const (
	// EventSRQLimit: an SRQ has fewer receives than the limit that [SRQ.Arm] set. Post
	// more, and arm it again.
	EventSRQLimit EventKind = iota + 1
	// EventLastWQE: the QP, which takes its receives from an SRQ, takes no more. All
	// receives that it had are in its CQ, as completions or polled already, so that the
	// QP can be closed when they are.
	EventLastWQE
)

// String returns the event in words.
func (k EventKind) String() string {
	switch k {
	case EventSRQLimit:
		return "SRQ limit reached"
	case EventLastWQE:
		return "last WQE reached"
	}
	return fmt.Sprintf("event %d", uint8(k))
}

// Event is something that happens to a device beside its completions: what
// ibv_get_async_event hands out elsewhere. See [DeviceConfig].Events.
type Event struct {
	Kind EventKind
	SRQ  *SRQ // of EventSRQLimit
	QP   *QP  // of EventLastWQE
}

// tell sends an event to the program's channel, if there is room. No lock is held.
func (d *Device) tell(e Event) {
	if d.events == nil {
		return
	}
	sent := false
	defer func() {
		if !sent {
			d.eventsLost.Add(1)
			_ = recover() // the program has closed its channel
		}
	}()
	select {
	case d.events <- e:
		sent = true
	default:
	}
}

// All returns the completions of the queue as they come, for an event loop:
//
//	for c := range cq.All(ctx) {
//		session := c.Context.(*session) // of QPConfig
//		...
//	}
//
// It ends when ctx does, or when the queue is closed and empty. The body may post work,
// close QPs and break; what it has not been given stays in the queue. Several loops may
// share a queue.
func (q *CQ) All(ctx context.Context) iter.Seq[Completion] {
	return func(yield func(Completion) bool) {
		var c [1]Completion
		for {
			n, err := q.Wait(ctx, c[:])
			if n == 0 || err != nil || !yield(c[0]) {
				return
			}
		}
	}
}

// reserveEnd sets aside the entry for the completion that tells of the end.
func (q *QP) reserveEnd() error {
	if !q.cfg.NotifyEnd {
		return nil
	}
	if err := q.recvCQ.reserve(1); err != nil {
		return fmt.Errorf("QPConfig.NotifyEnd takes an entry of the RecvCQ: %w", err)
	}
	q.endDue = true
	return nil
}

// takeEnd takes that entry, once.
func (q *QP) takeEnd() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	due := q.endDue
	q.endDue = false
	return due
}

// pushEnd puts the completion of the connection's end behind all others of the QP.
func (q *QP) pushEnd(err error) {
	if q.takeEnd() {
		q.recvCQ.push(&Completion{QP: q, Op: OpEnd, Err: err})
	}
}
