//go:build unix

package tcpsock

import "golang.org/x/sys/unix"

// CanRead is true where [TryRead] works.
const CanRead = true

// TryRead reads from the descriptor without waiting. again is true when there is
// nothing to read yet; 0 octets without again and without an error are the end
// of the stream.
func TryRead(fd uintptr, b []byte) (n int, again bool, err error) {
	for {
		n, err = read(fd, b)
		switch err {
		case nil:
			return n, false, nil
		case unix.EINTR: //nolint:errorlint // an errno of the kernel, never wrapped
		case unix.EAGAIN:
			return 0, true, nil
		default:
			return 0, false, err
		}
	}
}
