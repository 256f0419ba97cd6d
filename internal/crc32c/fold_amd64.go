package crc32c

import (
	"hash/crc32"

	"golang.org/x/sys/cpu"
)

const foldName = "AVX-512 VPCLMULQDQ"

var folds = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VPCLMULQDQ &&
	cpu.X86.HasSSE42

// constants has, for the distances of 256, 64 and 16 octets that a block of 16
// octets is moved by, the two factors x^(d+32) and x^(d-32) modulo the
// polynomial, d in bits, reflected and shifted as a reflected multiplication
// wants them. TestConstants computes them.
var constants = [6]uint64{
	0x0dcb17aa4, 0x0b9e02b86,
	0x0740eef02, 0x09e4addf8,
	0x0f20c0dfe, 0x14cd00bd6,
}

var hasCRC = cpu.X86.HasSSE42

// short is crc32.Update for a few octets, without the way that it has to go first.
func short(crc uint32, p []byte) uint32 {
	if len(p) == 0 {
		return crc
	}
	if !hasCRC {
		return crc32.Update(crc, table, p)
	}
	return ^shortSSE42(^crc, &p[0], len(p))
}

// fold runs over p, at least 256 octets, from the state crc (not inverted) to the
// state that it gives.
func fold(crc uint32, p []byte) uint32 {
	return foldAVX512(crc, &p[0], len(p), &constants)
}

// foldCopy does that and copies p to dst, which is as long.
func foldCopy(crc uint32, dst, p []byte) uint32 {
	return foldCopyAVX512(crc, &dst[0], &p[0], len(p), &constants)
}

// words takes them from the registers.
func words(crc uint32, p *[16]byte, a, b uint64) uint32 {
	if !hasCRC {
		return short(crc, p[:])
	}
	return ^wordsSSE42(^crc, a, b)
}

//go:noescape
func wordsSSE42(crc uint32, a, b uint64) uint32

//go:noescape
func shortSSE42(crc uint32, p *byte, n int) uint32

//go:noescape
func foldAVX512(crc uint32, p *byte, n int, k *[6]uint64) uint32

//go:noescape
func foldCopyAVX512(crc uint32, dst, p *byte, n int, k *[6]uint64) uint32

func features() (names []string) {
	x := &cpu.X86
	for _, f := range []struct {
		has  bool
		name string
	}{
		{x.HasSSE42, "sse4.2"},
		{x.HasPCLMULQDQ, "pclmulqdq"},
		{x.HasAVX2, "avx2"},
		{x.HasAVX512F, "avx512f"},
		{x.HasAVX512VL, "avx512vl"},
		{x.HasAVX512DQ, "avx512dq"},
		{x.HasAVX512VPCLMULQDQ, "vpclmulqdq"},
	} {
		if f.has {
			names = append(names, f.name)
		}
	}
	return names
}
