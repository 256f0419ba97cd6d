package ddp_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
)

// A source never makes a segment above the MULPDU of its moment, and makes all but
// the last exactly that long, also when the MULPDU changes on the way. No segment
// is empty without need.
// Shows: MPA-3-03, MPA-4.5-04, DDP-3-01, DDP-3-02, DDP-5.2-01
func TestSegmentsFillMULPDU(t *testing.T) {
	all := pattern(14*(128-14)*(128-18), 3) // fills segments of 128 octets, of either kind
	for _, data := range [][]byte{all, all[:10_000]} {
		testFill(t, data)
	}
}

func testFill(t *testing.T, data []byte) {
	for _, h := range []ddp.Header{untagged(0, 1, 0, false), tagged(0x1234, 77, false)} {
		for _, sizes := range [][]int{{128}, {1442}, {64768}, {1442, 128, 536, 9000}, {128, 129, 130, 131, 64768}} {
			var out ddp.Outgoing
			if err := out.Start(h, [][]byte{data[:3], data[3:5000], {}, data[5000:]}); err != nil {
				t.Fatal(err)
			}
			var got []byte
			for i := 0; ; i++ {
				mulpdu := sizes[i%len(sizes)]
				header, payload, last := out.Next(mulpdu)
				n := len(header) + len(slices.Concat(payload...))
				if n > mulpdu || !last && n != mulpdu || n == len(header) {
					t.Fatalf("%v: segment %d has %d octets, last %v; MULPDU is %d", sizes, i, n, last, mulpdu)
				}
				got = append(got, slices.Concat(payload...)...)
				if last {
					break
				}
			}
			if !bytes.Equal(got, data) {
				t.Errorf("%v: the segments do not make up the message", sizes)
			}
		}
	}
}

// Max bounds segments below the MULPDU, and nothing above it. EndsWith tells what
// Next is going to do.
//
// Shows: DDP-5.2-01, MPA-3-03
func TestMaxBoundsSegments(t *testing.T) {
	data := pattern(1000, 1)
	for _, tt := range []struct{ most, mulpdu, want int }{
		{most: 0, mulpdu: 214, want: 214},
		{most: 114, mulpdu: 214, want: 114},
		{most: 214, mulpdu: 114, want: 114},
		{most: 14, mulpdu: 214, want: 15},
		{most: 1, mulpdu: 0, want: 15},
	} {
		for _, h := range []ddp.Header{untagged(0, 1, 0, false), tagged(0x1234, 77, false)} {
			out := ddp.Outgoing{Max: tt.most}
			if err := out.Start(h, [][]byte{data}); err != nil {
				t.Fatal(err)
			}
			want := max(tt.want, h.Len()+1)
			var got []byte
			for last := false; !last; {
				ends := out.EndsWith(tt.mulpdu)
				var header []byte
				var payload [][]byte
				header, payload, last = out.Next(tt.mulpdu)
				if ends != last {
					t.Fatalf("EndsWith is %t before a segment whose Last is %t", ends, last)
				}
				n := len(header) + len(slices.Concat(payload...))
				if n > want || !last && n != want {
					t.Fatalf("Max %d, MULPDU %d: a segment of %d octets, want %d", tt.most, tt.mulpdu, n, want)
				}
				got = append(got, slices.Concat(payload...)...)
			}
			if !bytes.Equal(got, data) {
				t.Errorf("Max %d, MULPDU %d: the segments do not make up the message", tt.most, tt.mulpdu)
			}
		}
	}
}
