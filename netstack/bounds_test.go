package netstack

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
)

// Each write is of whole FPDUs, of one that is longer than a segment or of some that fit in, whatever
// the parts in which the stream is given; and all of it is written, also where writes
// fail half way.
//
// Shows: MPA-5.1-03, MPA-5.1-04
func TestWriter(t *testing.T) {
	const segment = 400
	for _, markers := range []bool{false, true} {
		f := iwarptest.Framer{Markers: markers}
		var stream []byte
		ends := map[int]bool{0: true}
		for i := range 60 {
			stream = append(stream, f.Frame(bytes.Repeat([]byte{byte(i)}, []int{20, 380, 150, 1000, 1}[i%5]))...)
			ends[len(stream)] = true
		}
		for _, part := range []int{1, 2, 3, 7, 100, 399, 1024, len(stream)} {
			var got []byte
			w := &writer{bounds: bounds{markers: markers, segment: segment}, to: func(b []byte) (int, error) {
				from, to := len(got), len(got)+len(b)
				if got = append(got, b...); !ends[from] || !ends[to] {
					t.Fatalf("part of %d octets: a write from %d to %d cuts an FPDU", part, from, to)
				}
				if len(b) > segment && !onlyOne(ends, from, to) {
					t.Fatalf("part of %d octets: a write of %d octets at %d", part, len(b), from)
				}
				return len(b), nil
			}}
			for b := range slices.Chunk(stream, part) {
				if n, err := w.Write(b); n != len(b) || err != nil {
					t.Fatal(n, err)
				}
			}
			if !bytes.Equal(got, stream) {
				t.Errorf("part of %d octets: wrote other octets", part)
			}
			wantInSpiteOfErrors(t, markers, stream, part)
		}
	}
}

// wantInSpiteOfErrors writes through a conn that fails again and again, as one whose
// deadline passes.
func wantInSpiteOfErrors(t *testing.T, markers bool, stream []byte, part int) {
	t.Helper()
	var got []byte
	calls := 0
	w := &writer{bounds: bounds{markers: markers, segment: 400}, to: func(b []byte) (int, error) {
		if calls++; calls%3 > 0 {
			b = b[:len(b)*(calls%3)/3]
			got = append(got, b...)
			return len(b), os.ErrDeadlineExceeded
		}
		got = append(got, b...)
		return len(b), nil
	}}
	for b := range slices.Chunk(stream, part) {
		for len(b) > 0 {
			n, err := w.Write(b)
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			b = b[n:]
		}
	}
	for w.flush() != nil {
	}
	if !bytes.Equal(got, stream) {
		t.Errorf("part of %d octets: with errors, wrote %d other octets than the %d", part, len(got), len(stream))
	}
}

// onlyOne reports whether no FPDU ends between from and to.
func onlyOne(ends map[int]bool, from, to int) bool {
	for i := from + 1; i < to; i++ {
		if ends[i] {
			return false
		}
	}
	return true
}
