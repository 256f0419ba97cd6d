//go:build !linux

package netstack

import (
	"errors"
	"fmt"
)

// OpenTUN opens a TUN device; on this system it gives [errors.ErrUnsupported].
func OpenTUN(name string, _ int) (Link, error) {
	return nil, fmt.Errorf("iwarp/netstack: TUN device %q: %w", name, errors.ErrUnsupported)
}
