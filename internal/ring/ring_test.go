package ring

import "testing"

// A queue of any length at any index finds what was put into it, before and after its
// ring has grown.
func TestGrow(t *testing.T) {
	for _, start := range []uint64{0, 1, 3, 1<<32 - 2, 1<<63 + 5} {
		var r Ring[uint64]
		head, tail := start, start
		put := func() {
			r.Grow(head, tail, 11)
			*r.At(tail) = tail
			tail++
		}
		for step := range 200 {
			if tail-head < 11 && step%5 != 0 {
				put()
			} else if head < tail {
				head++
			}
			for i := head; i < tail; i++ {
				if got := *r.At(i); got != i {
					t.Fatalf("start %d, step %d: at %d is %d", start, step, i, got)
				}
			}
		}
		if r.Size() != 11 {
			t.Errorf("the ring has grown to %d, want its limit of 11", r.Size())
		}
	}
}

func TestGrowKeepsTheOldPlace(t *testing.T) {
	var r Ring[int]
	r.Grow(0, 0, 100)
	old := r.At(0)
	*old = 1
	for i := range uint64(5) {
		r.Grow(0, i, 100)
	}
	if *r.At(0) = 2; *old != 1 {
		t.Error("an element that was moved is changed at its old place")
	}
}

func TestMakeOnce(t *testing.T) {
	var r Ring[int]
	r.Make(3)
	*r.At(4) = 7
	r.Make(9)
	if r.Size() != 3 || *r.At(1) != 7 || len(r.All()) != 3 {
		t.Errorf("size %d, at 1 is %d", r.Size(), *r.At(1))
	}
}
