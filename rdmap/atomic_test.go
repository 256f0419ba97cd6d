package rdmap_test

import (
	"math/rand/v2"
	"testing"

	"github.com/go-iwarp/iwarp/rdmap"
)

// Shows: EXT-5.1.1-01, EXT-5-02
func TestFetchAdd(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		old, add, mask, want uint64
	}{
		{name: "one field", old: 0, add: 1, mask: 0, want: 1},
		{name: "wrap", old: allOnes, add: 1, mask: 0, want: 0},
		{name: "wrap, mask bit 63", old: allOnes, add: 1, mask: 1 << 63, want: 0},
		{name: "carry out of the low half is dropped", old: 0xffffffff, add: 1, mask: 0x80000000, want: 0},
		{name: "carry out of the low half without a mask", old: 0xffffffff, add: 1, mask: 0, want: 0x100000000},
		{name: "four fields", old: 0x00ff00ff00ff00ff, add: 0x0001000100010001, mask: 0x0080008000800080, want: 0},
		{name: "eight fields", old: allOnes, add: 0x0101010101010101, mask: 0x8080808080808080, want: 0},
		{name: "into the top bit of a field", old: 0x7f, add: 1, mask: 0x80, want: 0x80},
		{name: "out of the top bit of a field", old: 0xff, add: 1, mask: 0x80, want: 0},
		{name: "every bit a field: exclusive or", old: 0b1100, add: 0b1010, mask: allOnes, want: 0b0110},
		{
			name: "probe: adding zero changes nothing", old: 0x123456789abcdef0, add: 0, mask: 0,
			want: 0x123456789abcdef0,
		},
	} {
		if got := rdmap.FetchAdd(tt.old, tt.add, tt.mask); got != tt.want {
			t.Errorf("%s: FetchAdd(%#x, %#x, %#x) = %#x, want %#x", tt.name, tt.old, tt.add, tt.mask, got, tt.want)
		}
	}
}

// fetchAddBitwise is the pseudocode of RFC 7306 section 5.1.1.
func fetchAddBitwise(old, add, mask uint64) (result uint64) {
	carry := uint64(0)
	for bit := range 64 {
		location := uint64(1) << bit
		sum := carry + (old&location)>>bit + (add&location)>>bit
		carry = sum >> 1
		if sum&1 != 0 {
			result |= location
		}
		if mask&location != 0 {
			carry = 0
		}
	}
	return result
}

// Shows: EXT-5.1.1-01
func TestFetchAddIsThePseudocode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		old, add, mask := r.Uint64(), r.Uint64(), r.Uint64()&r.Uint64()&r.Uint64()
		if got, want := rdmap.FetchAdd(old, add, mask), fetchAddBitwise(old, add, mask); got != want {
			t.Fatalf("FetchAdd(%#x, %#x, %#x) = %#x, want %#x", old, add, mask, got, want)
		}
	}
}

// Shows: EXT-5.1.2-01, EXT-5-02
func TestCmpSwap(t *testing.T) {
	for _, tt := range []struct {
		name                               string
		old, swap, smask, cmp, cmask, want uint64
	}{
		{name: "equal", old: 0x2a, swap: 9, smask: allOnes, cmp: 0x2a, cmask: allOnes, want: 9},
		{name: "not equal", old: 0x2a, swap: 9, smask: allOnes, cmp: 0x29, cmask: allOnes, want: 0x2a},
		{
			name: "compares and swaps single octets", old: 0x1234, swap: 0xff00, smask: 0xff00, cmp: 0x34, cmask: 0xff,
			want: 0xff34,
		},
		{name: "compare mask 0 is always equal", old: 5, swap: 6, smask: 0xf, cmp: 0, cmask: 0, want: 6},
		{name: "swap mask 0 changes nothing", old: 5, swap: 6, smask: 0, cmp: 5, cmask: allOnes, want: 5},
		{
			name: "swap bits outside the mask do not count", old: 0xf0, swap: allOnes, smask: 0x0f, cmp: 0xf0,
			cmask: allOnes, want: 0xff,
		},
	} {
		if got := rdmap.CmpSwap(tt.old, tt.cmp, tt.cmask, tt.swap, tt.smask); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
}

// Shows: EXT-5.2.1-04, EXT-5.2.1-03
func TestAtomicRequestApply(t *testing.T) {
	add := rdmap.NewFetchAdd(1, 2, 8, 5, 0)
	if word, ok := add.Apply(37); !ok || word != 42 {
		t.Errorf("FetchAdd of 5 to 37: %d, %v", word, ok)
	}
	add.Compare, add.CompareMask = 99, 98
	if word, ok := add.Apply(37); !ok || word != 42 {
		t.Errorf("FetchAdd with compare fields: %d, %v, want them ignored", word, ok)
	}
	swap := rdmap.NewCmpSwap(1, 2, 8, 42, allOnes, 7, allOnes)
	if word, ok := swap.Apply(42); !ok || word != 7 {
		t.Errorf("CmpSwap of 42 to 7: %d, %v", word, ok)
	}
	if word, ok := swap.Apply(41); !ok || word != 41 {
		t.Errorf("CmpSwap of 41: %d, %v, want no change", word, ok)
	}
}

// That it surfaces as an error is the engine's part.
func TestUnknownAtomicOperation(t *testing.T) {
	for op := range rdmap.AtomicOp(16) {
		known := op == rdmap.AtomicFetchAdd || op == rdmap.AtomicCmpSwap
		r := rdmap.AtomicRequest{Op: op, Data: 1, Mask: allOnes}
		word, ok := r.Apply(6)
		if ok != known || op.Known() != known || !ok && word != 6 {
			t.Errorf("%v: known %v, Apply gives %d, %v", op, op.Known(), word, ok)
		}
	}
	for op, want := range map[rdmap.AtomicOp]string{0: "FetchAdd", 1: "atomic operation 1", 2: "CmpSwap"} {
		if got := op.String(); got != want {
			t.Errorf("%d is %q, want %q", op, got, want)
		}
	}
}
