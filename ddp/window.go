package ddp

import (
	"fmt"
	"sync"
)

// windows are the windows of a region, so that whoever takes rights from the
// region takes them from those too. A region without windows has no map.
type windows struct {
	mu sync.Mutex // taken before a window's guard, never after
	of map[*Region]struct{}
}

func (w *windows) remove(r *Region) {
	w.mu.Lock()
	delete(w.of, r)
	w.mu.Unlock()
}

// becomeWindow makes a new region, not valid yet, a window of p.
func (r *Region) becomeWindow(p *Region) error {
	switch {
	case p.parent != nil:
		return fmt.Errorf("%w: STag %v is of a window itself", ErrParent, p.STag())
	case p.table != r.table || p.pd != r.pd:
		return fmt.Errorf("%w: STag %v is of another Protection Domain (RFC 5040 section 8.1.1)", ErrParent, p.STag())
	case p.stream != 0 && p.stream != r.stream:
		return fmt.Errorf("%w: STag %v is bound to another stream (RFC 5040 section 8.1.1)", ErrParent, p.STag())
	}
	p.windows.mu.Lock()
	defer p.windows.mu.Unlock()
	if p.ended() {
		return fmt.Errorf("%w: it is deregistered", ErrParent)
	}
	r.parent = p
	if p.windows.of == nil {
		p.windows.of = make(map[*Region]struct{})
	}
	p.windows.of[r] = struct{}{}
	return nil
}

func (r *Region) ended() bool {
	l := r.guard.reader(0)
	l.RLock()
	defer l.RUnlock()
	return r.gone
}

// Activate makes a window valid. The error wraps [ErrParent]: its region is not
// valid, or has lost since Register what the window was to have.
func (r *Region) Activate() error {
	p := r.parent
	if p == nil {
		return fmt.Errorf("%w: STag %v is of a region, not of a window", ErrParent, r.STag())
	}
	// With the lock, so that what is taken from the parent meanwhile is taken from
	// this window afterwards.
	p.windows.mu.Lock()
	defer p.windows.mu.Unlock()
	if !p.Valid() {
		return fmt.Errorf("%w: STag %v is not valid", ErrParent, p.STag())
	}
	r.guard.lock()
	defer r.guard.unlock()
	switch {
	case r.gone:
		return fmt.Errorf("%w: it, or the window, was invalidated before the window's turn", ErrParent)
	case r.lost:
		return fmt.Errorf("%w: STag %v lost a right that the window was to have before the window's turn", ErrParent,
			p.STag())
	}
	r.valid = true
	return nil
}

// leaveToWindows leaves to the region's windows those of their rights that are in
// a, and ends them if that is none. It is what every call that takes rights from a
// region does after it; when it returns, no access through a window under a right
// taken away is going on.
func (r *Region) leaveToWindows(a Access) {
	r.windows.mu.Lock()
	defer r.windows.mu.Unlock()
	for w := range r.windows.of {
		if a&allAccess == 0 {
			w.end()
			continue
		}
		w.guard.lock()
		w.lost = w.lost || !w.valid && w.access&^a != 0
		w.access &= a
		w.guard.unlock()
	}
	if a&allAccess == 0 {
		clear(r.windows.of)
	}
}
