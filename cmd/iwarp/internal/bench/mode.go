package bench

import (
	"fmt"
	"slices"

	"github.com/go-iwarp/iwarp"
)

// progressMode is a value of --progress: who receives, and how who waits does so.
type progressMode iwarp.Progress

// progressNames are the values of --progress.
var progressNames = [...]string{
	iwarp.ProgressAdaptive: "adaptive", iwarp.ProgressParked: "parked", iwarp.ProgressPolling: "polling",
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *progressMode) UnmarshalText(b []byte) error {
	i := slices.Index(progressNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("%.20q: adaptive, parked or polling", b)
	}
	*p = progressMode(i)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (p progressMode) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// String returns the flag's value.
func (p progressMode) String() string { return progressNames[p] }

// spins reports whether whoever waits spins however long it takes.
func (p progressMode) spins() bool { return iwarp.Progress(p) == iwarp.ProgressPolling }
