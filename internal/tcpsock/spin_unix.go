//go:build unix

package tcpsock

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// SpinRead fills b from a socket and never sleeps: it asks again and again. It
// shows how fast a program could be that does nothing else.
func SpinRead(c syscall.RawConn, b []byte) error {
	var err error
	cerr := c.Control(func(fd uintptr) {
		for len(b) > 0 {
			n, rerr := unix.Read(int(fd), b)
			switch {
			case n > 0:
				b = b[n:]
			case rerr == unix.EAGAIN || rerr == unix.EINTR:
			case rerr == nil:
				err = io.ErrUnexpectedEOF
				return
			default:
				err = rerr
				return
			}
		}
	})
	if cerr != nil {
		return cerr
	}
	return err
}
