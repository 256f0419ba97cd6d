package iwarp

// WakeAll wakes all that wait, for nothing.
func (q *CQ) WakeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for w := q.waiters.first(); w != nil; w = q.waiters.first() {
		signal(w.wake)
	}
}
