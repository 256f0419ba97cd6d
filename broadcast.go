package iwarp

import (
	"sync"
	"sync/atomic"
)

// broadcast wakes all who wait for something to happen once.
type broadcast struct {
	wanted atomic.Bool
	mu     sync.Mutex
	ch     chan struct{}
}

// wait returns a channel that the next raise closes.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
		b.wanted.Store(true)
	}
	return b.ch
}

func (b *broadcast) raise() {
	if !b.wanted.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
		b.wanted.Store(false)
	}
}
