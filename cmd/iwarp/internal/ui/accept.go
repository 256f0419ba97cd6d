package ui

import (
	"context"
	"errors"
	"time"
)

// AcceptFailures counts how often in a row Accept has failed in a way that passes.
type AcceptFailures uint

// Pause lets some time pass after a failure, more after each, and tells of the
// first. It returns at once when ctx has ended.
func (n *AcceptFailures) Pause(ctx context.Context, err error, tell func(error)) {
	if ctx.Err() != nil {
		return
	}
	if *n == 0 {
		tell(err)
	}
	pause := min(5*time.Millisecond<<min(*n, 8), time.Second)
	*n++
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
}

// Passes tells an error of Accept that may pass, such as that no descriptor is
// left, from one that does not.
func Passes(err error) bool {
	var temporary interface{ Temporary() bool } // as net/http does
	return errors.As(err, &temporary) && temporary.Temporary()
}
