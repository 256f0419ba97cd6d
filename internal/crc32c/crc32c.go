// Package crc32c computes the CRC32c of MPA (RFC 5044 section 4.4) as fast as the
// processor allows. Values are those of hash/crc32 with the Castagnoli table, in
// every way: only the speed differs.
package crc32c

import (
	"hash/crc32"
	"unsafe"
)

// Rule: MPA-4.4-11
var table = crc32.MakeTable(crc32.Castagnoli)

// minFold is the shortest run of octets for which folding beats the crc32
// instruction of hash/crc32. It is at least the 256 that the kernel takes at a time.
const minFold = 512

// minAlign is from where Copy begins at a cache line of dst.
const minAlign = 4096

// Update adds p to the running value crc, as crc32.Update does.
func Update(crc uint32, p []byte) uint32 {
	switch {
	case len(p) < minFold:
		return short(crc, p)
	case !folds:
		return crc32.Update(crc, table, p)
	}
	return ^fold(^crc, p)
}

// Copy copies src to the start of dst and adds it to the running value crc, in one
// pass where the processor can. dst must be at least as long as src, and the two
// must not overlap. The value is that of the octets copied, also when src changes
// meanwhile.
func Copy(crc uint32, dst, src []byte) uint32 {
	if len(src) < minFold || !folds {
		copy(dst, src) // then the copy: src may change meanwhile
		return Update(crc, dst[:len(src)])
	}
	if len(src) >= minAlign {
		// A store across two cache lines costs twice: begin with a whole one.
		head := int(-uintptr(unsafe.Pointer(&dst[0])) % 64)
		copy(dst, src[:head])
		crc = short(crc, dst[:head])
		dst, src = dst[head:], src[head:]
	}
	return ^foldCopy(^crc, dst[:len(src)], src)
}

// Words adds the 16 octets of p, which are also at hand as two words, least
// significant octet first: what has just been stored in other pieces than these
// cannot be loaded again until the stores have reached the cache.
func Words(crc uint32, p *[16]byte, a, b uint64) uint32 { return words(crc, p, a, b) }

// Kernel names what does the work on this processor.
func Kernel() string {
	if folds {
		return foldName
	}
	return "hash/crc32"
}

// Features names the features of this processor that matter here and that it has.
func Features() []string { return features() }
