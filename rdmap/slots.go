package rdmap

// slots are the entries of a queue whose entries stay where they are, since others refer
// to them. There are as many as were ever in use at once, about, however many there may
// be: ORD and IRD are large for the sake of those that need them.
type slots[T any] struct {
	ring []*T // entry i is at i modulo its length; nil where none was needed yet
}

const leastSlots = 8

// At returns entry i, which was reached before.
func (s *slots[T]) At(i uint64) *T { return s.ring[i%uint64(len(s.ring))] }

// reach returns entry i, and makes it if need be. The entries from head on, at most
// size, are in use.
func (s *slots[T]) reach(head, i uint64, size int) *T {
	if have := uint64(len(s.ring)); i-head >= have {
		want := max(have, leastSlots)
		for want <= i-head {
			want *= 2
		}
		ring := make([]*T, min(want, uint64(size)))
		for j := head; j-head < have; j++ {
			ring[j%uint64(len(ring))] = s.ring[j%have]
		}
		s.ring = ring
	}
	p := &s.ring[i%uint64(len(s.ring))]
	if *p == nil {
		*p = new(T)
	}
	return *p
}
