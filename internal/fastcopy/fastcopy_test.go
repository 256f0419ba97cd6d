package fastcopy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestCopy(t *testing.T) {
	src, dst := make([]byte, 5000), make([]byte, 5000)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(src)
	check := func(from, to, n int) {
		t.Helper()
		for i := range dst {
			dst[i] = 0xa5
		}
		if got := Copy(dst[to:to+n], src[from:from+n]); got != n {
			t.Fatalf("%d octets, want %d", got, n)
		}
		if !bytes.Equal(dst[to:to+n], src[from:from+n]) {
			t.Fatalf("%d octets from %d to %d: they differ", n, from, to)
		}
		for i, c := range dst {
			if (i < to || i >= to+n) && c != 0xa5 {
				t.Fatalf("%d octets from %d to %d: octet %d was written", n, from, to, i)
			}
		}
	}
	for n := range 2000 {
		check(n%67, n%61, n)
	}
	for from := range 65 {
		for to := range 65 {
			check(from, to, minWide)
			check(from, to, 1448)
		}
	}
	if n := Copy(dst[:600], src); n != 600 {
		t.Errorf("into a shorter one: %d", n)
	}
}

func BenchmarkCopy(b *testing.B) {
	src, dst := make([]byte, 1<<17), make([]byte, 1<<17)
	for _, n := range []int{512, 1448, 4096, 65536} {
		for _, off := range []int{0, 16, 30} {
			b.Run(fmt.Sprintf("n=%d/off=%d", n, off), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					Copy(dst[:n], src[off:])
				}
			})
			b.Run(fmt.Sprintf("n=%d/off=%d/builtin", n, off), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					copy(dst[:n], src[off:])
				}
			})
		}
	}
}
