//go:build unix

package tcpsock

import (
	"context"
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// SpinRead fills b from a socket and never sleeps: it asks again and again. It
// shows how fast a program could be that does nothing else. It returns ctx's error
// when ctx ends first.
func SpinRead(ctx context.Context, c syscall.RawConn, b []byte) error {
	const look = 64 // at ctx, once in so many system calls
	var err error
	done := ctx.Done()
	cerr := c.Control(func(fd uintptr) {
		for turn := 0; len(b) > 0; turn++ {
			if turn%look == look-1 {
				select {
				case <-done:
					err = context.Cause(ctx)
					return
				default:
				}
			}
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
