package crc32c

import (
	"hash/crc32"

	"golang.org/x/sys/cpu"
)

const foldName = "PMULL"

var folds = cpu.ARM64.HasPMULL && cpu.ARM64.HasCRC32

// constants has, for the distances of 128 and 16 octets that a block of 16 octets
// is moved by, the same two factors as on amd64. TestConstants computes them.
var constants = [4]uint64{
	0x06992cea2, 0x0d3b6092,
	0x0f20c0dfe, 0x14cd00bd6,
}

func short(crc uint32, p []byte) uint32 { return crc32.Update(crc, table, p) }

func words(crc uint32, p *[16]byte, _, _ uint64) uint32 { return short(crc, p[:]) }

// fold runs over p, at least 128 octets, from the state crc (not inverted) to the
// state that it gives.
func fold(crc uint32, p []byte) uint32 {
	n := len(p) &^ 15
	return ^short(^foldPMULL(crc, &p[0], n, &constants), p[n:])
}

// foldCopy does that and copies p to dst, which is as long.
func foldCopy(crc uint32, dst, p []byte) uint32 {
	n := len(p) &^ 15
	crc = foldCopyPMULL(crc, &dst[0], &p[0], n, &constants)
	copy(dst[n:], p[n:])
	return ^short(^crc, dst[n:])
}

//go:noescape
func foldPMULL(crc uint32, p *byte, n int, k *[4]uint64) uint32

//go:noescape
func foldCopyPMULL(crc uint32, dst, p *byte, n int, k *[4]uint64) uint32

func features() (names []string) {
	x := &cpu.ARM64
	for _, f := range []struct {
		has  bool
		name string
	}{{x.HasASIMD, "asimd"}, {x.HasPMULL, "pmull"}, {x.HasCRC32, "crc32"}, {x.HasSHA3, "sha3"}} {
		if f.has {
			names = append(names, f.name)
		}
	}
	return names
}
