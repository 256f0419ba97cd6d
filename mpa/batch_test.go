package mpa

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// drain takes the batch out in calls of at most n octets, and gives the octets and
// the places where a segment should end.
func drain(f *Framer, n int) (stream []byte, ends []int) {
	for f.Len() > 0 {
		pieces, end := f.Pending()
		room := n
		whole := true
		for _, p := range pieces {
			if room == 0 {
				whole = false
				break
			}
			k := min(room, len(p))
			whole = whole && k == len(p)
			stream = append(stream, p[:k]...)
			room -= k
		}
		if end && whole {
			ends = append(ends, len(stream))
		}
		f.Advance(n - room)
	}
	return stream, ends
}

// A batch is the same octets as one FPDU after the other, however its pieces are
// copied or referenced and in whatever steps it goes.
//
// Shows: MPA-3-01, MPA-4.4-10, MPA-4.3-03
func TestBatchEqualsAppend(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	big := pattern(64<<10, 3)
	for round := range 160 {
		markers, crc, stable := round&1 != 0, round&2 != 0, round&4 != 0
		one := Framer{Markers: markers, CRC: crc}
		f := Framer{Markers: markers, CRC: crc}
		f.SetSegment(1460, round&8 != 0)
		var want, got []byte
		for range 3 {
			for range 1 + r.IntN(12) {
				header := pattern(14+r.IntN(5), round)
				var payload [][]byte
				room := MaxULPDU - len(header)
				for range r.IntN(4) {
					n := r.IntN(room + 1)
					if r.IntN(2) == 0 {
						n = min(n, r.IntN(300))
					}
					payload = append(payload, big[:n])
					room -= n
				}
				if err := f.Add(header, payload, stable); err != nil {
					t.Fatal(err)
				}
				want, _ = one.Append(want, append([][]byte{header}, payload...)...)
				clear(header) // not kept
				clear(payload)
			}
			left := f.Len()
			b, _ := drain(&f, 1+r.IntN(40000))
			if len(b) != left {
				t.Fatalf("Len was %d, %d octets came", left, len(b))
			}
			got = append(got, b...)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("round %d: the batch differs from its FPDUs", round)
		}
	}
}

// Payload that may change is copied before the CRC is taken, stable payload of
// some size is not.
//
// Shows: MPA-4.4-14
func TestStablePayloadIsReferenced(t *testing.T) {
	for _, stable := range []bool{false, true} {
		p := pattern(20000, 0)
		f := Framer{CRC: true}
		if err := f.Add([]byte("header"), [][]byte{p}, stable); err != nil {
			t.Fatal(err)
		}
		p[100] ^= 1
		b, _ := drain(&f, 1<<20)
		d := Deframer{CRC: true}
		_, _, _, err := d.Next(b)
		if (err != nil) != stable {
			t.Errorf("stable %t: %v", stable, err)
		}
	}
}

// Shows: MPA-5.1-03, MPA-5.1-04
func TestBatchIsWholeSegments(t *testing.T) {
	for _, emss := range []int{536, 1448, 1460, 8948, 32741, 65483, 1 << 21} {
		for _, n := range []int{18, 100, 1000, 64000, MaxULPDU} {
			if n = min(n, MULPDU(emss, false)); n == 18 && emss > 1448 {
				continue // takes long and shows nothing more
			}
			f := Framer{}
			f.SetSegment(emss, false)
			p := [][]byte{make([]byte, n)}
			for !f.Full() {
				if err := f.Add(nil, p, true); err != nil {
					t.Fatalf("EMSS %d, ULPDU %d, batch of %d: %v", emss, n, f.Len(), err)
				}
			}
			limit := batchMax
			if n < gatherMin {
				limit = copiedMax // all of it is copied
			}
			if emss < limit {
				limit -= limit % emss
			}
			if f.Len() > limit {
				t.Errorf("EMSS %d, ULPDU %d: a batch of %d, want at most %d", emss, n, f.Len(), limit)
			}
			if low := limit - FPDULen(n); f.Len() <= low {
				t.Errorf("EMSS %d, ULPDU %d: a batch of only %d, want more than %d", emss, n, f.Len(), low)
			}
			drain(&f, 1<<21)
		}
	}
}

// The batch may end with an FPDU that is longer than all before; there is room for
// it.
func TestBatchEndsWithALongFPDU(t *testing.T) {
	for _, stable := range []bool{true, false} {
		f := Framer{CRC: true}
		f.SetSegment(65483, false)
		short, long := [][]byte{make([]byte, 100)}, [][]byte{make([]byte, MaxULPDU)}
		for range 20 {
			for !f.Full() {
				if err := f.Add(nil, short, stable); err != nil {
					t.Fatal(err)
				}
			}
			f.most = 0 // as if one FPDU before the bound: any length fits then
			if f.Full() {
				t.Fatal("the bound is passed by short FPDUs alone")
			}
			if err := f.Add(nil, long, stable); err != nil {
				t.Fatal(err)
			}
			if !f.Full() || f.Len() > copiedMax+FPDULen(MaxULPDU) {
				t.Fatalf("a batch of %d octets, Full is %t", f.Len(), f.Full())
			}
			drain(&f, 1<<21)
		}
	}
}

func TestBatchFullIsAnError(t *testing.T) {
	f := Framer{}
	p := [][]byte{make([]byte, 60000)}
	added := 0
	for ; added < 1000; added++ {
		if err := f.Add(nil, p, false); err != nil {
			if !errors.Is(err, ErrBatchFull) {
				t.Fatal(err)
			}
			break
		}
	}
	pos := f.Position()
	if b, _ := drain(&f, 1<<20); added == 1000 || uint64(len(b)) != pos {
		t.Errorf("%d FPDUs, %d octets", added, pos)
	}
	if f.Full() || f.chunks != 0 || f.small != nil || f.large[0] != nil || f.chunk != nil {
		t.Error("an empty batch holds memory")
	}
	if f.list != nil {
		t.Error("an empty batch holds pieces")
	}
	if err := f.Add(nil, p, false); err != nil {
		t.Errorf("after the batch has gone: %v", err)
	}
}

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
		{[]int{1000, 1000, 1000}, 1 << 20, []int{1000, 2000, 3000}},
		{[]int{500, 500, 460}, 1 << 20, []int{1460}},
		{[]int{1460, 1460, 1460}, 1 << 20, []int{4380}},
		{[]int{1460, 1460, 300, 1460, 100, 100}, 1 << 20, []int{3220, 4880}},
		{[]int{300, 1460, 300}, 1 << 20, []int{300, 2060}},
		{[]int{100, 100, 1300, 160}, 1 << 20, []int{200, 1660}},
		{[]int{1460, 1460, 300, 1460, 100, 100}, 999, []int{3220, 4880}},
		{[]int{1460, 1460, 300, 1460, 100, 100}, 1, []int{3220, 4880}},
		{[]int{4000, 100, 400, 1460}, 1 << 20, []int{4100, 4500, 5960}},
	} {
		f := Framer{}
		f.SetSegment(1460, true)
		for _, n := range tt.fpdus {
			if err := f.Add(nil, [][]byte{make([]byte, n-6)}, true); err != nil {
				t.Fatal(err)
			}
		}
		if _, ends := drain(&f, tt.step); !slices.Equal(ends, tt.ends) {
			t.Errorf("FPDUs of %v in steps of %d: segments end at %v, want %v", tt.fpdus, tt.step, ends, tt.ends)
		}
	}
}

// The counter tells which FPDUs TCP leaves whole when it cuts every segment's
// worth, and a strict framer ends the segment behind each.
func TestAlignedCounter(t *testing.T) {
	for _, tt := range []struct {
		align, strict bool
		fpdus         []int
		whole         uint64
		ends          []int
	}{
		{false, false, []int{1000, 1000, 460}, 2, nil},
		{false, false, []int{1000, 460, 1460}, 3, nil},
		{true, false, []int{1000, 1000, 460}, 3, []int{1000, 2460}},
		{true, true, []int{1000, 400, 1460}, 3, []int{1000, 1400, 2860}},
	} {
		f := Framer{}
		f.SetSegment(1460, tt.align)
		f.strict = tt.strict
		for _, n := range tt.fpdus {
			if err := f.Add(nil, [][]byte{make([]byte, n-6)}, true); err != nil {
				t.Fatal(err)
			}
		}
		if f.aligned != tt.whole {
			t.Errorf("align %t, strict %t, FPDUs of %v: %d are whole, want %d", tt.align, tt.strict, tt.fpdus, f.aligned, tt.whole)
		}
		if _, ends := drain(&f, 1<<20); tt.align && !slices.Equal(ends, tt.ends) {
			t.Errorf("align %t, strict %t, FPDUs of %v: segments end at %v, want %v", tt.align, tt.strict, tt.fpdus, ends, tt.ends)
		}
	}
}

func TestAlign(t *testing.T) {
	for _, tt := range []struct {
		a    Align
		emss int
		on   bool
	}{
		{AlignAuto, 1460, true},
		{AlignAuto, 1461, false},
		{AlignAuto, 65483, false},
		{AlignOff, 1460, false},
		{AlignSegments, 65483, true},
	} {
		if tt.a.on(tt.emss) != tt.on {
			t.Errorf("Align %d with EMSS %d is %t", tt.a, tt.emss, !tt.on)
		}
	}
}
