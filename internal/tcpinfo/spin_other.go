//go:build !unix

package tcpinfo

import "syscall"

// SpinRead is not offered here.
func SpinRead(syscall.RawConn, []byte) error {
	return &UnsupportedError{Feature: "reading from a descriptor"}
}
