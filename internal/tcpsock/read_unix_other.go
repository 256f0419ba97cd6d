//go:build unix && !linux

package tcpsock

import "syscall"

// The call of package syscall, unlike that of x/sys, tells the race detector of the
// order that it makes with what net.Conn does.
func read(fd uintptr, b []byte) (int, error) { return syscall.Read(int(fd), b) }
