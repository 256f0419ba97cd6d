//go:build !race

package tcpsock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// read is one system call on a socket that does not block; why it is raw is told
// at sender.call.
func read(fd uintptr, b []byte) (int, error) {
	if len(b) == 0 {
		return unix.Read(int(fd), b)
	}
	n, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
