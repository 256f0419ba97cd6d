package ooo_test

import (
	"errors"
	"hash/crc32"
	"testing"

	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/netstack/ooo"
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// FuzzEngine takes any octets as a stream, and as how it is cut and comes. What is found has
// to be an FPDU of the stream, at a place where a Marker or an FPDU before it says so, and no more is
// held than allowed.
func FuzzEngine(f *testing.F) {
	b, _ := stream(f, true, 700, 100, 300, 40)
	f.Add(b, []byte{4, 200, 1, 50, 3, 255, 2, 100, 0, 255}, byte(0))
	b, _ = stream(f, false, 30, 100, 20, 40)
	f.Add(b, []byte{0, 36, 1, 12, 0, 20}, byte(1))
	f.Add(b, []byte{9, 36, 1, 12, 0, 20}, byte(3))
	f.Fuzz(func(t *testing.T, b, cuts []byte, mode byte) {
		if len(b) > 1<<16 {
			return
		}
		cfg := ooo.Config{Markers: mode&1 == 0, CRC: true, Alignment: mode&1 != 0, Hold: 4096}
		e := ooo.New(cfg)
		base := uint64(0)
		if cfg.Alignment {
			fr := &framer{}
			aligned(t, e, fr, ooo.MinAligned)
			base = fr.pos
		}
		read := 0
		for i := 0; i+1 < len(cuts); i += 2 {
			from := int(cuts[i]) * len(b) / 256
			to := min(from+4*int(cuts[i+1]), len(b))
			e.Segment(base+uint64(from), b[from:to])
			if s := e.Stats(); s.Held > cfg.Hold {
				t.Fatalf("%d octets held", s.Held)
			}
			for {
				x, ok := e.Next()
				if !ok {
					break
				}
				at := int(x.Position - base)
				if at < read || at+x.Len > len(b) {
					t.Fatalf("an FPDU at %d of %d octets; %d of %d have been read", at, x.Len, read, len(b))
				}
				d := mpa.Deframer{Markers: cfg.Markers, CRC: true}
				d.SetPosition(x.Position)
				ulpdu, n, _, err := d.Next(append([]byte(nil), b[at:at+x.Len]...))
				if err != nil || n != x.Len || string(ulpdu) != string(x.ULPDU) {
					t.Fatalf("at %d: %v, %d octets", at, err, n)
				}
			}
			if i%6 == 4 {
				n := min(read+int(cuts[i]), len(b))
				if err := e.InOrder(b[read:n], 0); err != nil {
					if !cfg.Alignment || !errors.Is(err, ooo.ErrMisplaced) {
						t.Fatal(err)
					}
					return
				}
				read = n
			}
		}
		if err := e.InOrder(b[read:], 0); err != nil && (!cfg.Alignment || !errors.Is(err, ooo.ErrMisplaced)) {
			t.Fatal(err)
		}
	})
}
