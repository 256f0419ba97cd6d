package rdmap

import "fmt"

// AtomicOp is the operation of an Atomic Request, a four-bit code
// (https://www.rfc-editor.org/rfc/rfc7306#section-5.2.1 figure 5).
type AtomicOp uint8

// The atomic operations. 1 is reserved.
const (
	AtomicFetchAdd AtomicOp = 0
	AtomicCmpSwap  AtomicOp = 2
)

// Known reports whether RFC 7306 defines the operation.
func (op AtomicOp) Known() bool { return op == AtomicFetchAdd || op == AtomicCmpSwap }

// String returns the operation's name.
func (op AtomicOp) String() string {
	switch op {
	case AtomicFetchAdd:
		return "FetchAdd"
	case AtomicCmpSwap:
		return "CmpSwap"
	}
	return fmt.Sprintf("atomic operation %d", uint8(op))
}

// FetchAdd returns the sum of old and add, field by field: a bit set in mask is the
// most significant bit of a field, and the carry out of it is dropped. Mask 0 is
// one field of 64 bits, and so is a mask of bit 63 alone
// (https://www.rfc-editor.org/rfc/rfc7306#section-5.1.1). The values are numbers:
// byte order is the concern of whoever loads and stores the word.
func FetchAdd(old, add, mask uint64) uint64 {
	// Without their top bits no field can carry into the next; the top bits are
	// then added without carry.
	// Rule: EXT-5.1.1-01
	return (old&^mask + add&^mask) ^ (old^add)&mask
}

// CmpSwap returns swap in the bits of swapMask and old in the others, if old and
// compare are the same in the bits of compareMask; else it gives old
// (https://www.rfc-editor.org/rfc/rfc7306#section-5.1.2).
func CmpSwap(old, compare, compareMask, swap, swapMask uint64) uint64 {
	// Rule: EXT-5.1.2-01
	if (old^compare)&compareMask != 0 {
		return old
	}
	return old&^swapMask | swap&swapMask
}
