//go:build race && linux

package tcpsock

import "syscall"

// What one goroutine does before it sends comes before what another does after it
// has received that. Raw calls say nothing of it to the race detector, package
// syscall does, with a variable that net.Conn shares: so its own calls are made here.

func released() { _, _ = syscall.Write(-1, nil) }

func read(fd uintptr, b []byte) (int, error) { return syscall.Read(int(fd), b) }
