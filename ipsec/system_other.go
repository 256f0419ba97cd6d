//go:build !linux

package ipsec

import (
	"errors"
	"fmt"
	"runtime"
)

// System returns the kernel of this host. Only Linux has XFRM: elsewhere the error
// wraps [errors.ErrUnsupported].
func System() (Kernel, error) {
	return nil, fmt.Errorf("ipsec: XFRM on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
