package crc32c

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// factor returns x^n modulo the polynomial as a reflected multiplication wants it.
func factor(n int) uint64 {
	const poly = 0x11edc6f41
	r := uint64(1)
	for range n {
		if r <<= 1; r>>32 != 0 {
			r ^= poly
		}
	}
	return uint64(bits.Reverse32(uint32(r))) << 1
}

func random(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

// check compares both functions with hash/crc32.
func check(t *testing.T, crc uint32, src, dst []byte) {
	t.Helper()
	want := crc32.Update(crc, table, src)
	if got := Update(crc, src); got != want {
		t.Fatalf("Update of %d octets from %08x: %08x, want %08x", len(src), crc, got, want)
	}
	guard := bytes.Clone(dst[len(src):])
	if got := Copy(crc, dst, src); got != want {
		t.Fatalf("Copy of %d octets from %08x: %08x, want %08x", len(src), crc, got, want)
	}
	if !bytes.Equal(dst[:len(src)], src) {
		t.Fatalf("Copy of %d octets: they differ", len(src))
	}
	if !bytes.Equal(dst[len(src):], guard) {
		t.Fatalf("Copy of %d octets wrote behind them", len(src))
	}
}

// Shows: MPA-4.4-11
func TestEveryLength(t *testing.T) {
	src, dst := random(5000), make([]byte, 5200)
	for n := range 4500 {
		check(t, uint32(n)*0x9e3779b9, src[n%17:][:n], dst[n%13:])
	}
}

func TestEveryAlignment(t *testing.T) {
	src, dst := random(5000), make([]byte, 5000)
	for i := range 130 {
		for _, n := range []int{512, 575, 1460, 2047, 4096, 4200} {
			check(t, 0, src[i:][:n], dst[130-i:])
		}
	}
}

// Shows: MPA-4.4-11
func TestVectors(t *testing.T) {
	if got := Update(0, []byte("123456789")); got != 0xe3069283 {
		t.Errorf("123456789: %08x", got)
	}
	if got := Update(0, make([]byte, 32)); got != 0x8a9136aa {
		t.Errorf("32 zero octets: %08x", got)
	}
}

// Shows: MPA-4.4-11
func TestWords(t *testing.T) {
	p := random(16)
	a, b := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
	for _, crc := range []uint32{0, 1, 0xe3069283, 0xffffffff} {
		want := crc32.Update(crc, table, p)
		if got := Words(crc, (*[16]byte)(p), a, b); got != want {
			t.Errorf("from %08x: %08x, want %08x", crc, got, want)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	src, dst := random(4096), make([]byte, 4096)
	if n := testing.AllocsPerRun(100, func() { Update(0, src); Copy(0, dst, src) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzCRC(f *testing.F) {
	f.Add(uint32(0), []byte("hello"), uint16(1000))
	f.Fuzz(func(t *testing.T, crc uint32, p []byte, repeat uint16) {
		if len(p) == 0 || len(p) > 1<<16 {
			return
		}
		src := bytes.Repeat(p, 1+int(repeat)/len(p))
		check(t, crc, src, make([]byte, len(src)+64))
	})
}

func BenchmarkUpdate(b *testing.B) { benchmark(b, func(_, src []byte) { Update(0, src) }) }

func BenchmarkCopy(b *testing.B) { benchmark(b, func(dst, src []byte) { Copy(0, dst, src) }) }

func BenchmarkStandard(b *testing.B) {
	benchmark(b, func(_, src []byte) { crc32.Update(0, table, src) })
}

func BenchmarkCopyStandard(b *testing.B) {
	benchmark(b, func(dst, src []byte) { copy(dst, src); crc32.Update(0, table, src) })
}

func benchmark(b *testing.B, f func(dst, src []byte)) {
	for _, n := range []int{64, 512, 1448, 4096, 65536, 1 << 20} {
		src, dst := random(n), make([]byte, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				f(dst, src)
			}
		})
	}
}

// What runs here, for the log of a test run.
func TestKernel(t *testing.T) {
	if Kernel() == "" {
		t.Error("the kernel has no name")
	}
	t.Log(Kernel(), Features())
}
