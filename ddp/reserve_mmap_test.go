//go:build linux || darwin || freebsd

package ddp_test

import (
	"syscall"
	"testing"
)

// reserve maps n octets without using memory for them.
func reserve(t *testing.T, n uint64) ([]byte, func()) {
	t.Helper()
	b, err := syscall.Mmap(-1, 0, int(n), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skipf("no address space: %v", err)
	}
	return b, func() {
		if err := syscall.Munmap(b); err != nil {
			t.Error(err)
		}
	}
}
