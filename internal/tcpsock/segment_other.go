//go:build !linux

package tcpsock

import "syscall"

// FourfoldSegments is not offered here.
func FourfoldSegments(syscall.RawConn, string) error {
	return &UnsupportedError{Feature: "TCP_MAXSEG"}
}
