package crc32c

import "testing"

func TestConstants(t *testing.T) {
	for i, octets := range []int{128, 16} {
		want := [2]uint64{factor(8*octets + 32), factor(8*octets - 32)}
		if got := [2]uint64(constants[2*i : 2*i+2]); got != want {
			t.Errorf("%d octets: %#016x, want %#016x", octets, got, want)
		}
	}
}
