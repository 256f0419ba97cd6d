package iwarp

import (
	"context"
	"log/slog"
	"sync"
)

// eventLog hands what happens to the program's log handler, in order, from a
// goroutine that lives while there is something to log. A handler may use the
// connection or the listener, and even close it, so none of their goroutines waits
// for it, and no lock is held. What comes while a handler is that far behind is lost.
type eventLog struct {
	logger *slog.Logger

	mu      sync.Mutex
	queue   []event
	running bool
}

// maxEvents is how many events wait for a handler at most.
const maxEvents = 64

type event struct {
	level slog.Level
	msg   string
	args  []any
}

func (l *eventLog) log(level slog.Level, msg string, args ...any) {
	if l.logger == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == maxEvents {
		return
	}
	l.queue = append(l.queue, event{level, msg, args})
	if !l.running {
		l.running = true
		go l.run()
	}
}

func (l *eventLog) run() {
	for {
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.running = false
			l.mu.Unlock()
			return
		}
		e := l.queue[0]
		l.queue = l.queue[1:]
		l.mu.Unlock()
		l.logger.Log(context.Background(), e.level, e.msg, e.args...)
	}
}
