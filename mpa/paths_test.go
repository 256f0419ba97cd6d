package mpa

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

// An FPDU is the same octets whichever way it is made: small, large, of one piece
// or many, copied or referenced.
// Shows: MPA-4.1-01, MPA-4.1-02, MPA-4.1-03, MPA-4.1-05, MPA-4.4-11, MPA-4.4-12, MPA-4.4-13, MPA-4.3-03, MPA-4.2-02
func TestFramesOfEveryPath(t *testing.T) {
	for _, markers := range []bool{false, true} {
		for _, size := range []int{
			1, 18, 63, 64, 65, 255, 256, 257, 1000, 1024, 1442, 4095, 4097, gatherMin - 1, gatherMin + 14, 40_001,
			40_002, 40_003, 40_004, MaxULPDU,
		} {
			ulpdu := pattern(size, size)
			header, payload := ulpdu[:min(14, size)], ulpdu[min(14, size):]
			for name, pieces := range map[string][][]byte{
				"whole": {payload},
				"cut":   {payload[:len(payload)/3], nil, payload[len(payload)/3:]},
			} {
				for _, stable := range []bool{false, true} {
					what := fmt.Sprintf("Markers %t, %d octets, %s, stable %t", markers, size, name, stable)
					f := framer{marked: markers, crc: true, pos: 512 * 3}
					want := refFrame(512*3, ulpdu, markers)
					if one := f.append(nil, append([][]byte{header}, pieces...)...); !bytes.Equal(one, want) {
						t.Fatalf("%s: the FPDU has other octets", what)
					}
					s := newSender(markers, true, 0, AlignOff)
					s.framer.pos = 512 * 3
					if err := s.add(header, pieces, stable); err != nil {
						t.Fatal(what, err)
					}
					batch, _, _, _ := s.pending()
					if !bytes.Equal(slices.Concat(batch...), want) {
						t.Fatalf("%s: the batch has other octets", what)
					}
					s.advance(s.batch.left)
				}
			}
		}
	}
}
