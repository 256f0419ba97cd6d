package tcpsock

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// SetCongestion sets the congestion control of a TCP socket by the kernel's name
// for it, such as "cubic". Which names an unprivileged process may set is the
// administrator's choice.
func SetCongestion(c syscall.RawConn, name string) error {
	var err error
	if cerr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	}); cerr != nil {
		return cerr
	}
	return err
}

// Congestion returns the congestion control of a TCP socket.
func Congestion(c syscall.RawConn) (name string, err error) {
	if cerr := c.Control(func(fd uintptr) {
		name, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	}); cerr != nil {
		return "", cerr
	}
	return name, err
}
