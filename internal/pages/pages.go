// Package pages gives benchmarks memory that costs the same from run to run.
//
// In pages of 4 KiB that lie anywhere in the machine's memory, some parts of a
// processor's cache get more of a buffer than others, by chance, and a MiB that
// should stay in a cache of two does not. A huge page lies in one piece.
package pages

// Huge returns n octets of zeros, in huge pages where the system has them, and reports
// whether they are: false also where the system does not tell, as Linux before 6.1.
// The memory is Go's, like any other. Less than an eighth of a huge page is not
// worth one.
func Huge(n int) (b []byte, huge bool) {
	size := hugeSize()
	if size == 0 || n < size/8 {
		return make([]byte, n), false
	}
	return aligned(n, size)
}
