//go:build unix && !linux

package tcpinfo

import "golang.org/x/sys/unix"

func read(fd uintptr, b []byte) (int, error) { return unix.Read(int(fd), b) }
