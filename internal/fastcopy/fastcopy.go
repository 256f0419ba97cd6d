// Package fastcopy copies octets whose place in memory is arbitrary, such as the
// payload behind a header of 16 octets. On some processors the copy that Go has
// built in is several times slower for these than for aligned ones.
package fastcopy

// minWide is the shortest run that is worth a call. It is at least the 128 that the
// loop needs.
const minWide = 512

// Copy copies src to the start of dst, as the built-in copy does, and returns
// the number of octets. The two must not overlap.
func Copy(dst, src []byte) int {
	n := min(len(dst), len(src))
	if !wide || n < minWide {
		return copy(dst, src)
	}
	touch(dst[:n], src[:n])
	copyWide(&dst[0], &src[0], n)
	return n
}
