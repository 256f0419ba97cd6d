package ui

import (
	"fmt"
	"os"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/live"
)

// LiveFlag lets "iwarp top" see a server's connections.
type LiveFlag struct {
	Live bool `help:"Server: let \"iwarp top\", of the same user, see its connections."`
}

// Offer does so until the returned function is called, and says how to look.
func (f *LiveFlag) Offer(out *Output, d *iwarp.Device) (end func(), err error) {
	if !f.Live {
		return func() {}, nil
	}
	o, err := live.Offer(d)
	if err != nil {
		return nil, fmt.Errorf("--live: %w", err)
	}
	out.Note(fmt.Sprintf("its connections: iwarp top %d", os.Getpid()))
	return func() { _ = o.Close() }, nil
}
