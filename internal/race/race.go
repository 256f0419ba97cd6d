// Package race keeps accesses that race on purpose from the race detector: those to memory
// whose owner has said that they may.
package race

// Copy copies src to the start of dst, unseen by the race detector, and returns the number of
// octets. The two must not overlap. It is slow, and for builds with Enabled only.
//
//go:norace
func Copy(dst, src []byte) int {
	n := min(len(dst), len(src))
	for i := range n { // the built-in copy would tell, in a function that is norace too
		dst[i] = src[i]
	}
	return n
}
