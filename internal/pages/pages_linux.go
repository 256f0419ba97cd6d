package pages

import (
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxHuge is the largest huge page worth having, in octets: where pages are of
// 64 KiB, huge ones are of 512 MiB.
const maxHuge = 4 << 20

// hugeSize is that of a transparent huge page in octets, 0 if there are none.
func hugeSize() int {
	if b, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled"); err != nil ||
		strings.Contains(string(b), "[never]") {
		return 0
	}
	s, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(s)))
	if err != nil || n < 1 || n&(n-1) != 0 || n > maxHuge {
		return 0
	}
	return n
}

// aligned takes whole pages from Go's heap and asks for huge ones there.
func aligned(n, size int) ([]byte, bool) {
	whole := (n + size - 1) &^ (size - 1)
	b := make([]byte, whole+size)
	b = b[-uintptr(unsafe.Pointer(&b[0]))&uintptr(size-1):][:whole]
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	for i := 0; i < len(b); i += size {
		b[i] = 0 // a page that was never used is a huge one now
	}
	// The heap's other pages are collapsed. It fails if one stays small, and on
	// kernels that do not know it.
	return b[:n:n], unix.Madvise(b, unix.MADV_COLLAPSE) == nil
}
