//go:build !linux

package netpair

import (
	"fmt"
	"runtime"
)

// New makes a pair; only Linux can.
func New(cfg *Config) (*Pair, error) {
	if _, err := cfg.check(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("netpair: %w: this is %s, and they are Linux's", ErrUnsupported, runtime.GOOS)
}

// Retransmissions counts nothing here.
func (p *Pair) Retransmissions() (uint64, error) { return 0, ErrUnsupported }

// space is never made here.
type space struct{}

func (*space) do(func() error) error { return ErrUnsupported }
func (*space) close() error          { return nil }
