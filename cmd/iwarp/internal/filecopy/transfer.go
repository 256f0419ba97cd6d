package filecopy

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/time/rate"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/tree"
)

// transfer is a copy under way: a producer that walks the sources, and workers, each with
// a connection of its own.
type transfer struct {
	connect func(ctx context.Context, session []byte) (*link, error)
	workers int
	report  *report
	limit   *rate.Limiter // nil: none
	chunk   int64         // octets of a file that are moved at once
	dry     bool

	session []byte
	jobs    chan job  // of the producer
	handed  chan part // of a job, for a worker that is idle

	mu       sync.Mutex
	active   int           // jobs that are being done
	produced bool          // no job follows
	done     chan struct{} // neither
}

// job is something to do on a connection. If that fails it is done again, on another
// one: whatever it has done already it does not spoil. What concerns one file it
// reports, and only an error of the connection, or one that ends all, is its own.
type job func(ctx context.Context, l *link) error

// maxTries is how often a job is tried, each time on a new connection.
const maxTries = 3

// errFatal is an error that ends the transfer.
type errFatal struct{ error }

func (e errFatal) Unwrap() error { return e.error }

// run has produce make jobs and the workers do them. produce has a connection for its
// questions.
func (t *transfer) run(ctx context.Context, first *link, produce func(ctx context.Context, l *link) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.session = first.session
	t.jobs, t.handed, t.done = make(chan job), make(chan part), make(chan struct{})
	var wg sync.WaitGroup
	for range t.workers {
		wg.Go(func() {
			if err := t.work(ctx); err != nil {
				cancel(err)
			}
		})
	}
	err := produce(ctx, first)
	if err != nil {
		cancel(err)
	}
	t.account(0, true)
	wg.Wait()
	return context.Cause(ctx)
}

// submit gives the workers a job; it waits until one takes it.
func (t *transfer) submit(ctx context.Context, j job) error {
	t.account(1, false)
	select {
	case t.jobs <- j:
		return nil
	case <-ctx.Done():
		t.account(-1, false)
		return context.Cause(ctx)
	}
}

// account counts jobs that begin or end.
func (t *transfer) account(n int, produced bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active += n
	t.produced = t.produced || produced
	if t.active == 0 && t.produced {
		close(t.done)
	}
}

// work does jobs until none is left. It connects when it has the first.
func (t *transfer) work(ctx context.Context) error {
	var l *link
	defer func() { l.close() }()
	for {
		var err error
		select {
		case p := <-t.handed:
			if l, err = t.ready(ctx, l); err == nil {
				if p.do(ctx, l) != nil { // the job is told, and is tried again
					l.close()
					l = nil
				}
			} else {
				p.fail(err)
			}
		case j := <-t.jobs:
			l, err = t.try(ctx, l, j)
			t.account(-1, false)
		case <-t.done:
			return nil
		case <-ctx.Done():
			return nil // whoever ended it says why
		}
		if err != nil {
			return err
		}
	}
}

// try does a job on l, or on a new connection where l is nil or fails, and returns the
// connection that is to be used next.
func (t *transfer) try(ctx context.Context, l *link, j job) (*link, error) {
	var err error
	for range maxTries {
		if l, err = t.ready(ctx, l); err != nil {
			return nil, err
		}
		err = j(ctx, l)
		var fatal errFatal
		if err == nil || errors.As(err, &fatal) || ctx.Err() != nil {
			return l, err
		}
		t.report.note(fmt.Errorf("the connection failed, and is made again: %w", err))
		l.close()
		l = nil
	}
	return nil, err
}

// ready returns l if it is well, and else a new connection.
func (t *transfer) ready(ctx context.Context, l *link) (*link, error) {
	if l != nil && !l.dead() {
		return l, nil
	}
	l.close()
	return t.join(ctx)
}

// join makes a connection of the transfer's session.
func (t *transfer) join(ctx context.Context) (*link, error) {
	t.mu.Lock()
	session := t.session
	t.mu.Unlock()
	l, err := t.connect(ctx, session)
	if err == nil {
		t.mu.Lock()
		t.session = l.session
		t.mu.Unlock()
	}
	return l, err
}

// part is a part of a job. Whoever takes it calls one of the two.
type part struct {
	do   job
	fail func(error) // there is no connection to do it on
}

// chunks calls do for each chunk of a file of size octets: here on l, or on the
// connection of a worker that has nothing to do.
func (t *transfer) chunks(
	ctx context.Context,
	l *link,
	size int64,
	do func(ctx context.Context, l *link, off, n int64) error,
) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	failed := func(err error) bool {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = err
		}
		return first != nil
	}
	for off := int64(0); off < size && !failed(nil); off += t.chunk {
		n := min(t.chunk, size-off)
		if err := t.wait(ctx, n); err != nil {
			failed(err)
			break
		}
		wg.Add(1)
		p := part{fail: func(err error) {
			failed(err)
			wg.Done()
		}}
		p.do = func(ctx context.Context, l *link) error {
			err := do(ctx, l, off, n)
			p.fail(err)
			return err
		}
		select {
		case t.handed <- p:
		default:
			_ = p.do(ctx, l)
		}
	}
	wg.Wait()
	return first
}

// wait waits until n octets may be moved.
func (t *transfer) wait(ctx context.Context, n int64) error {
	if t.limit == nil || n == 0 {
		return nil
	}
	if err := t.limit.WaitN(ctx, int(n)); err != nil {
		return errFatal{err}
	}
	return nil
}

// item is an entry at its source, and where it goes.
type item struct {
	from tree.Entry
	to   tree.Entry // the same with the destination's path
}

// isFileError reports whether an error concerns files, and neither the connection nor
// all that follows.
func isFileError(err error) bool {
	var broken *linkError
	var fatal errFatal
	return !errors.As(err, &broken) && !errors.As(err, &fatal) && !errors.Is(err, context.Canceled)
}
