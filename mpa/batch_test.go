package mpa

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// newSender is a sender with memory of its own.
func newSender(markers, crc bool, emss int, how Align) *sender {
	s := &sender{framer: framer{marked: markers, crc: crc}}
	s.batch.mem = newMemory()
	s.setSegments(emss, how)
	return s
}

// drain takes the batch out in calls of at most n octets, and returns the octets and
// the places where a segment should end.
func drain(s *sender, n int) (stream []byte, ends []int) {
	for s.batch.left > 0 {
		pieces, cuts, start, end := s.pending()
		room := n
		for i, p := range pieces {
			k := min(room, len(p))
			stream = append(stream, p[:k]...)
			room -= k
			if k < len(p) {
				break
			}
			if len(cuts) > 0 && cuts[0]-start == i+1 {
				cuts, ends = cuts[1:], append(ends, len(stream))
			} else if end && i+1 == len(pieces) {
				ends = append(ends, len(stream))
			}
		}
		s.advance(n - room)
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
		one := framer{marked: markers, crc: crc}
		f := newSender(markers, crc, 1460, Align(round/8%4))
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
				if err := f.add(header, payload, stable); err != nil {
					t.Fatal(err)
				}
				want = one.append(want, append([][]byte{header}, payload...)...)
				clear(header) // not kept
				clear(payload)
			}
			left := f.batch.left
			b, _ := drain(f, 1+r.IntN(40000))
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
		f := newSender(false, true, 0, AlignOff)
		if err := f.add([]byte("header"), [][]byte{p}, stable); err != nil {
			t.Fatal(err)
		}
		p[100] ^= 1
		b, _ := drain(f, 1<<20)
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
			f := newSender(false, false, emss, AlignOff)
			p := [][]byte{make([]byte, n)}
			for !f.full() {
				if err := f.add(nil, p, true); err != nil {
					t.Fatalf("EMSS %d, ULPDU %d, batch of %d: %v", emss, n, f.batch.left, err)
				}
			}
			limit := batchMax
			if n < gatherMin {
				limit = copiedMax // all of it is copied
			}
			unit := emss
			if emss < alignAutoMax {
				unit = packetMax / emss * emss // packets that Linux fills
			}
			if unit < limit {
				limit -= limit % unit
			}
			if f.batch.left > limit {
				t.Errorf("EMSS %d, ULPDU %d: a batch of %d, want at most %d", emss, n, f.batch.left, limit)
			}
			if low := limit - FPDULen(n); f.batch.left <= low {
				t.Errorf("EMSS %d, ULPDU %d: a batch of only %d, want more than %d", emss, n, f.batch.left, low)
			}
			drain(f, 1<<21)
		}
	}
}

// A short FPDU and what follows it are one piece, of whatever length that is, also when
// TCP has taken a part of the first one.
func TestBatchIsOnePiece(t *testing.T) {
	for n := smallChunk - ownChunk - 100; n < smallChunk+100; n += 4 {
		for _, gone := range []int{0, 1, 100} {
			one := framer{crc: true}
			f := newSender(false, true, 0, AlignOff)
			var want []byte
			for i, p := range [][]byte{pattern(300, 1), pattern(n, 2), pattern(10, 3)} {
				want = one.append(want, p)
				if err := f.add(nil, [][]byte{p}, false); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					f.advance(gone)
				}
			}
			pieces, _, _, _ := f.pending()
			b, _ := drain(f, 1<<20)
			if !bytes.Equal(b, want[gone:]) {
				t.Fatalf("%d octets of the first gone, then %d: the batch differs from its FPDUs", gone, n)
			}
			if len(pieces) != 1 && 300+n < smallChunk-40 {
				t.Errorf("then %d octets: %d pieces", n, len(pieces))
			}
		}
	}
}

// In a long run on a network batches become longer, and there is always room for one more
// FPDU of any length until they are full. The first batch that is not full begins anew.
func TestBatchesGrowInALongRun(t *testing.T) {
	for _, c := range []struct {
		name string
		emss int
		want []int // octets copied for one batch after the other, in units of copiedMax
	}{
		{"network", 1448, []int{1, 2, 4, 4}},
		{"jumbo frames", 8948, []int{1, 2, 4, 4}},
		{"loopback", 65483, []int{1, 1, 1, 1}},
		{"unknown", 0, []int{1, 1, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			f := newSender(false, false, c.emss, AlignOff)
			p := make([]byte, gatherMin)
			for _, most := range []int{gatherMin, c.emss, MaxULPDU} { // MaxULPDU: as if the EMSS were wrong
				most = min(max(most, 1442), MaxULPDU)
				for i, want := range c.want {
					for !f.full() {
						if most > len(p) {
							p = make([]byte, most)
						}
						if err := f.add(nil, [][]byte{p[:most-r.IntN(most/4)]}, false); err != nil {
							t.Fatalf("batch %d of ULPDUs of up to %d octets, %d copied: %v", i, most, f.batch.copied,
								err)
						}
					}
					// An FPDU may be longer than all before, and packets are not filled by any length.
					if got := f.batch.copied; got > want*copiedMax+FPDULen(most) ||
						got < want*(copiedMax-packetMax)-FPDULen(most) {
						t.Errorf("batch %d of ULPDUs of up to %d octets: %d copied, want about %d", i, most, got,
							want*copiedMax)
					}
					drain(f, 100000)
				}
				if err := f.add(nil, [][]byte{p[:100]}, false); err != nil {
					t.Fatal(err)
				}
				drain(f, 100000)
			}
			if f.batch.larges != 0 || f.batch.large != [maxLarge]*largeArray{} {
				t.Error("an empty batch holds memory")
			}
		})
	}
}

// The batch may end with an FPDU that is longer than all before; there is room for
// it.
func TestBatchEndsWithALongFPDU(t *testing.T) {
	for _, stable := range []bool{true, false} {
		f := newSender(false, true, 65483, AlignOff)
		short, long := [][]byte{make([]byte, 100)}, [][]byte{make([]byte, MaxULPDU)}
		for range 20 {
			for !f.full() {
				if err := f.add(nil, short, stable); err != nil {
					t.Fatal(err)
				}
			}
			f.batch.most = 0 // as if one FPDU before the bound: any length fits then
			if f.full() {
				t.Fatal("the bound is passed by short FPDUs alone")
			}
			if err := f.add(nil, long, stable); err != nil {
				t.Fatal(err)
			}
			if !f.full() || f.batch.left > copiedMax+FPDULen(MaxULPDU) {
				t.Fatalf("a batch of %d octets, Full is %t", f.batch.left, f.full())
			}
			drain(f, 1<<21)
		}
	}
}

func TestBatchFullIsAnError(t *testing.T) {
	f := newSender(false, false, 0, AlignOff)
	p := [][]byte{make([]byte, 60000)}
	added := 0
	for ; added < 1000; added++ {
		if err := f.add(nil, p, false); err != nil {
			if !errors.Is(err, ErrBatchFull) {
				t.Fatal(err)
			}
			break
		}
	}
	pos := f.framer.pos
	if b, _ := drain(f, 1<<20); added == 1000 || uint64(len(b)) != pos {
		t.Errorf("%d FPDUs, %d octets", added, pos)
	}
	if f.full() || f.batch.small != nil || f.batch.large[0] != nil || f.batch.chunk != nil {
		t.Error("an empty batch holds memory")
	}
	if f.batch.list != nil {
		t.Error("an empty batch holds pieces")
	}
	if err := f.add(nil, p, false); err != nil {
		t.Errorf("after the batch has gone: %v", err)
	}
}
