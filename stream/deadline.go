package stream

import (
	"sync"
	"time"
)

// deadline is a moment that may change while somebody waits for it.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	ended chan struct{} // closed when the moment has come
	is    bool          // there is one
}

func newDeadline() deadline { return deadline{ended: make(chan struct{})} }

// set changes the moment; zero is never.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.ended // the function runs, or has run
	}
	d.timer, d.is = nil, !t.IsZero()
	over := d.over()
	if d.is {
		in := time.Until(t)
		if in <= 0 {
			if !over {
				close(d.ended)
			}
			return
		}
		if over {
			d.ended = make(chan struct{})
		}
		ended := d.ended
		d.timer = time.AfterFunc(in, func() { close(ended) })
		return
	}
	if over {
		d.ended = make(chan struct{})
	}
}

// over reports whether the moment has come. The caller has the lock.
func (d *deadline) over() bool {
	select {
	case <-d.ended:
		return true
	default:
		return false
	}
}

// wait returns a channel that is closed when the moment has come.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended
}

// pending reports whether there is a deadline.
func (d *deadline) pending() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.is
}

// stop forgets the timer, so that it holds nothing after the connection.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
