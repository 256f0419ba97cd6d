package mpa

import (
	"slices"
	"testing"
)

// Segments end before an FPDU that does not fit; FPDUs of exactly a segment and
// several that share one need no end.
//
// Shows: MPA-5.1-03, MPA-5.1-04
func TestSegmentEnds(t *testing.T) {
	for _, tt := range []struct {
		fpdus []int // octets
		step  int   // of what TCP takes
		ends  []int
	}{
		{fpdus: []int{1000, 1000, 1000}, step: 1 << 20, ends: []int{1000, 2000, 3000}},
		{fpdus: []int{500, 500, 460}, step: 1 << 20, ends: []int{1460}},
		{fpdus: []int{1460, 1460, 1460}, step: 1 << 20, ends: []int{4380}},
		{fpdus: []int{1460, 1460, 300, 1460, 100, 100}, step: 1 << 20, ends: []int{3220, 4880}},
		{fpdus: []int{300, 1460, 300}, step: 1 << 20, ends: []int{300, 2060}},
		{fpdus: []int{100, 100, 1300, 160}, step: 1 << 20, ends: []int{200, 1660}},
		{fpdus: []int{1460, 1460, 300, 1460, 100, 100}, step: 999, ends: []int{3220, 4880}},
		{fpdus: []int{1460, 1460, 300, 1460, 100, 100}, step: 1, ends: []int{3220, 4880}},
		{fpdus: []int{4000, 100, 400, 1460}, step: 1 << 20, ends: []int{4100, 4500, 5960}},
	} {
		f := newSender(false, false, 1460, AlignSegments)
		for _, n := range tt.fpdus {
			if err := f.add(nil, [][]byte{make([]byte, n-6)}, true); err != nil {
				t.Fatal(err)
			}
		}
		if _, ends := drain(f, tt.step); !slices.Equal(ends, tt.ends) {
			t.Errorf("FPDUs of %v in steps of %d: segments end at %v, want %v", tt.fpdus, tt.step, ends, tt.ends)
		}
	}
}

// The counter tells which FPDUs TCP leaves whole when it cuts every segment's
// worth, and AlignStrict ends the segment behind each.
func TestAlignedCounter(t *testing.T) {
	for _, tt := range []struct {
		how   Align
		fpdus []int
		whole uint64
		ends  []int
	}{
		{how: AlignOff, fpdus: []int{1000, 1000, 460}, whole: 2},
		{how: AlignOff, fpdus: []int{1000, 460, 1460}, whole: 3},
		{how: AlignAuto, fpdus: []int{1000, 1000, 460}, whole: 2},
		{how: AlignSegments, fpdus: []int{1000, 1000, 460}, whole: 3, ends: []int{1000, 2460}},
		{how: AlignStrict, fpdus: []int{1000, 400, 1460}, whole: 3, ends: []int{1000, 1400, 2860}},
	} {
		f := newSender(false, false, 1460, tt.how)
		for _, n := range tt.fpdus {
			if err := f.add(nil, [][]byte{make([]byte, n-6)}, true); err != nil {
				t.Fatal(err)
			}
		}
		if f.cut.aligned != tt.whole {
			t.Errorf("Align %d, FPDUs of %v: %d are whole, want %d", tt.how, tt.fpdus, f.cut.aligned, tt.whole)
		}
		if _, ends := drain(f, 1<<20); !slices.Equal(ends, tt.ends) {
			t.Errorf("Align %d, FPDUs of %v: segments end at %v, want %v", tt.how, tt.fpdus, ends, tt.ends)
		}
	}
}

// How long the next ULPDU of a message should be, so that FPDUs end where segments
// do: within a long message under AlignAuto, and in any that does not fit under
// AlignSegments. (An FPDU is 6 octets longer than a ULPDU here.)
//
// Shows: MPA-5.1-03, MPA-4.5-03, MPA-4.5-07
func TestNextULPDU(t *testing.T) {
	const emss, mulpdu = 1460, 1454
	for _, tt := range []struct {
		why  string
		how  Align
		fill int
		rest uint64
		want int
	}{
		{why: "a segment begins", how: AlignAuto, fill: 0, rest: 1 << 20, want: mulpdu},
		{why: "a long message fills the segment", how: AlignAuto, fill: 1000, rest: 1 << 20, want: 454},
		{why: "a short one does not care", how: AlignAuto, fill: 1000, rest: fitSegments*emss - 1, want: mulpdu},
		{why: "little room: end with the next segment", how: AlignAuto, fill: 1400, rest: 1 << 20, want: 754},
		{why: "and there", how: AlignAuto, fill: 700, rest: 1 << 20, want: 754},
		{why: "nothing is done", how: AlignOff, fill: 1000, rest: 1 << 20, want: mulpdu},
		{why: "each has its segment", how: AlignStrict, fill: 1000, rest: 1 << 20, want: mulpdu},
		{why: "does not fit: fill the segment", how: AlignSegments, fill: 1000, rest: 1000, want: 454},
		{why: "fits", how: AlignSegments, fill: 1000, rest: 454, want: mulpdu},
		{why: "too short to be cut", how: AlignSegments, fill: 1400, rest: 128, want: mulpdu},
		{why: "too little room to be used", how: AlignSegments, fill: 1400, rest: 1000, want: mulpdu},
		{why: "room for 128 octets is enough", how: AlignSegments, fill: 1460 - 6 - 130, rest: 1000, want: 130},
		{why: "room for 126 is not", how: AlignSegments, fill: 1460 - 6 - 126, rest: 1000, want: mulpdu},
		{why: "nor in a long message", how: AlignAuto, fill: 1460 - 6 - 126, rest: 1 << 20, want: 790},
	} {
		s := segments{emss: emss, how: tt.how, fill: tt.fill}
		if got := s.ulpdu(mulpdu, tt.rest); got != tt.want {
			t.Errorf("%s: %d octets, want %d", tt.why, got, tt.want)
		}
	}
	// Wherever a long message begins, it is aligned from the third FPDU on at the latest.
	for _, emss := range []int{536, 1448, 1460, 8948, 16384} {
		for fill := 0; fill < emss; fill += 4 {
			s := segments{emss: emss, how: AlignAuto, fill: fill}
			for range 2 {
				n := s.ulpdu(MULPDU(emss, false), 1<<20)
				if n < 128 || n > MULPDU(emss, false) {
					t.Fatalf("EMSS %d, from %d: a ULPDU of %d octets", emss, fill, n)
				}
				s.passed(FPDULen(n))
			}
			if s.fill != 0 {
				t.Fatalf("EMSS %d: a message that begins at %d is at %d after two FPDUs", emss, fill, s.fill)
			}
		}
	}
}
