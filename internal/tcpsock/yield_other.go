//go:build !linux

package tcpsock

import "runtime"

// Yield lets another goroutine have the processor, if one wants it.
func Yield() { runtime.Gosched() }
