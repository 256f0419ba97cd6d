package ddp

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// An extent says what a set of octets says, whatever comes in what order.
func TestExtentIsASet(t *testing.T) {
	const size = 60
	rapid.Check(t, func(t *rapid.T) {
		var e extent
		var came [size]bool
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			off := rapid.IntRange(0, size).Draw(t, "off")
			n := rapid.IntRange(0, min(8, size-off)).Draw(t, "n")
			want := !slices.Contains(came[off:off+n], true)
			if got := e.admits(uint64(off), uint64(n)); got != want {
				t.Fatalf("%d octets at %d: %t with %+v", n, off, got, e)
			}
			if !want {
				continue
			}
			e.add(uint64(off), uint64(n))
			for i := range n {
				came[off+i] = true
			}
			first := slices.Index(came[:], false)
			if first < 0 {
				first = size
			}
			if e.next != uint64(first) {
				t.Fatalf("first missing is %d, want %d: %+v", e.next, first, e)
			}
			last := e.next
			for i, s := range e.ahead {
				if s.from <= last || s.to <= s.from {
					t.Fatalf("span %d: %+v", i, e)
				}
				last = s.to
			}
			for n := range size + 1 {
				if want := first == n && !slices.Contains(came[n:], true); e.whole(uint64(n)) != want {
					t.Fatalf("whole(%d) is %t: %+v", n, !want, e)
				}
			}
		}
	})
}

// What a peer can make an extent remember is bounded. At the bound what joins what
// is there, or fills a gap, goes on.
func TestExtentIsBounded(t *testing.T) {
	var e extent
	n := 0
	for off := uint64(2); e.admits(off, 1); off += 2 {
		e.add(off, 1)
		n++
	}
	if n != maxSpans || len(e.ahead) != maxSpans || cap(e.ahead) > 2*maxSpans {
		t.Fatalf("%d spans, %d kept", n, len(e.ahead))
	}
	for _, off := range []uint64{3, 5, 0, 1, 7} {
		if !e.admits(off, 1) {
			t.Fatalf("octet %d is refused", off)
		}
		e.add(off, 1)
	}
	if e.next != 9 || len(e.ahead) != maxSpans-4 {
		t.Errorf("first missing %d, %d spans: %+v", e.next, len(e.ahead), e.ahead[:3])
	}
}
