//go:build !unix

package tcpsock

// CanRead is true where [TryRead] works.
const CanRead = false

// TryRead is not offered here: read from the conn.
func TryRead(uintptr, []byte) (n int, again bool, err error) {
	return 0, false, &UnsupportedError{Feature: "reading from a descriptor"}
}
