package iwarp

import (
	"context"
	"unsafe"
)

// Sleep is what a call of Wait does that has found nothing: ctx had not ended then.
func (q *CQ) Sleep(ctx context.Context) { q.sleep(ctx, nil) }

// WakeAll wakes all that wait, for nothing.
func (q *CQ) WakeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for w := q.waiters.first(); w != nil; w = q.waiters.first() {
		signal(w.wake)
	}
}

// SetLastPD makes the next domains have the numbers after n.
func (d *Device) SetLastPD(n uint64) { d.lastPD.Store(n) }

// Held returns what Recv has yet to take: messages, and octets of memory for them.
func (c *Conn) Held() (messages, octets int) {
	b := c.qp.queues.(*inbox)
	b.mu.Lock()
	defer b.mu.Unlock()
	return int(b.count.Load()), int(b.held.octets)
}

// LetterSize is what a message takes that waits for Recv and has no chunk.
const LetterSize = unsafe.Sizeof(letter{})
