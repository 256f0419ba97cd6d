//go:build !linux

package tcpsock

import "syscall"

// SetCongestion is not offered here.
func SetCongestion(syscall.RawConn, string) error {
	return &UnsupportedError{Feature: "TCP_CONGESTION"}
}

// Congestion is not offered here.
func Congestion(syscall.RawConn) (string, error) {
	return "", &UnsupportedError{Feature: "TCP_CONGESTION"}
}
