//go:build !unix

package tcpsock

import (
	"context"
	"syscall"
)

// SpinRead is not offered here.
func SpinRead(context.Context, syscall.RawConn, []byte) error {
	return &UnsupportedError{Feature: "reading from a descriptor"}
}
