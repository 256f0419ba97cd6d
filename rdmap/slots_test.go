package rdmap

import (
	"math/rand/v2"
	"testing"
)

// An entry stays where it is as long as it is in use, none is in use twice, and there are
// no more than twice as many as were ever in use at once.
func TestSlots(t *testing.T) {
	for _, size := range []int{1, 2, 7, 8, 9, 100} {
		r := rand.New(rand.NewPCG(1, 2))
		var s slots[uint64]
		used := map[uint64]*uint64{}
		head, tail, most := uint64(5), uint64(5), 0
		for range 10_000 {
			switch ahead := uint64(r.IntN(size)); {
			case r.IntN(2) == 0 && head < tail:
				delete(used, head)
				head++
			case tail-head < uint64(size):
				if i := tail + ahead; i-head < uint64(size) { // a later one may come first
					used[i] = s.reach(head, i, size)
					most = max(most, int(i-head)+1)
				}
				used[tail] = s.reach(head, tail, size)
				most = max(most, int(tail-head)+1)
				tail++
			}
			owner := map[*uint64]uint64{}
			for i, p := range used {
				if s.At(i) != p {
					t.Fatalf("size %d: entry %d of %d to %d has moved", size, i, head, tail)
				}
				if j, ok := owner[p]; ok {
					t.Fatalf("size %d: entries %d and %d are one", size, i, j)
				}
				owner[p] = i
			}
		}
		if limit := min(size, max(2*most, leastSlots)); len(s.ring) > limit {
			t.Errorf("size %d: %d entries, at most %d in use at once", size, len(s.ring), most)
		}
	}
}
