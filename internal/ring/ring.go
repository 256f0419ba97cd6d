// Package ring holds the elements of queues whose indices only grow.
package ring

// Ring is memory for a queue. An element lies at its index modulo the size, so that a
// queue is a ring and the indices that it keeps: of its oldest element, of the next
// free one, and of what else it has to know (what is sent, what is taken). The zero
// value has no memory: see Make and Grow. It has no lock.
type Ring[T any] struct{ slots []T }

// Make makes memory for n elements, if there is none yet.
func (r *Ring[T]) Make(n int) {
	if r.slots == nil {
		r.slots = make([]T, n)
	}
}

// Grow doubles the memory, up to limit elements, if those from index head to tail, tail
// not included, fill it. They are copied: what was at the old place stays as it was.
func (r *Ring[T]) Grow(head, tail uint64, limit int) {
	if int(tail-head) < len(r.slots) {
		return
	}
	bigger := Ring[T]{make([]T, min(max(4, 2*len(r.slots)), limit))}
	for i := head; i < tail; i++ {
		*bigger.At(i) = *r.At(i)
	}
	*r = bigger
}

// At is the element of index i. There is memory.
func (r *Ring[T]) At(i uint64) *T { return &r.slots[i%uint64(len(r.slots))] }

// Size is the number of elements that there is memory for.
func (r *Ring[T]) Size() int { return len(r.slots) }

// All is the memory, in no order that means anything.
func (r *Ring[T]) All() []T { return r.slots }
