package mpa

import "slices"

// append appends to b the FPDU of the ULPDU whose pieces are given, as it stands at
// the current position, and moves on.
func (f *framer) append(b []byte, ulpdu ...[]byte) []byte {
	n := sizeOf(nil, ulpdu)
	from, total := len(b), f.len(n)
	b = slices.Grow(b, total)[:from+total]
	f.encode(b[from:], nil, ulpdu, n, nil)
	return b
}
