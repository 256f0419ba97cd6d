package iwarp

import (
	"context"
	"sync"
	"time"
)

// order hands requests up in the order of their connections: see ListenConfig.InOrder. A
// nil order has none.
type order struct {
	patience time.Duration

	mu   sync.Mutex
	last *turn
}

// turn is a connection's place in the order. A nil turn waits for nobody.
type turn struct {
	of     *order
	before *turn // under of.mu; nil when all before have passed

	spoken chan struct{} // closed when its Request has come, or will not
	gone   chan struct{} // closed when its Request has been handed up, or will not be
	lost   bool          // there is no Request; written before spoken is closed
}

// next takes the place behind all others.
func (o *order) next() *turn {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	t := &turn{of: o, before: o.last, spoken: make(chan struct{}), gone: make(chan struct{})}
	o.last = t
	return t
}

// ahead returns the next one that t has to wait for, nil if there is none. Those that
// have failed are taken out of the line, which does not grow for them.
func (t *turn) ahead() *turn {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	for t.before != nil && t.before.lost {
		t.before = t.before.before
	}
	return t.before
}

// failed says that no Request will come.
func (t *turn) failed() {
	if t == nil {
		return
	}
	t.of.mu.Lock()
	t.lost = true
	if t.of.last == t { // nobody is behind it who would take it out
		t.of.last = t.before
	}
	t.of.mu.Unlock()
	close(t.spoken)
	close(t.gone)
}

// wait says that the Request has come, and waits until those of all connections ahead
// have been handed up, but not longer than patience for those that are silent.
func (t *turn) wait(ctx context.Context) {
	if t == nil {
		return
	}
	close(t.spoken)
	timer := time.NewTimer(t.of.patience)
	defer timer.Stop()
	late := false
	for a := t.ahead(); a != nil; {
		if !late {
			select {
			case <-a.spoken:
			case <-timer.C:
				late = true
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-a.spoken: // and waits for the program, as those before it do
			select {
			case <-a.gone:
			case <-ctx.Done():
				return
			}
			if !a.lost {
				return
			}
		default: // silent for too long
		}
		a = a.ahead()
	}
}

// passed says that the request has been handed up.
func (t *turn) passed() {
	if t == nil {
		return
	}
	t.of.mu.Lock()
	t.before = nil
	t.of.mu.Unlock()
	close(t.gone)
}
