//go:build !unix

package tcpsock

import "syscall"

// SpinRead is not offered here.
func SpinRead(syscall.RawConn, []byte) error {
	return &UnsupportedError{Feature: "reading from a descriptor"}
}
