package bench

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/internal/procstat"
)

// benchLink is one end of the connections of a spec, of iWARP or of plain TCP.
type benchLink interface {
	// add takes over connection i and blocks for its startup. It may be called for
	// different ones at once.
	add(ctx context.Context, i int, nc net.Conn) error
	// regions are what the other end may write and read, one for each connection.
	regions() []iwarp.RemoteBuffer
	// connected tells the other end's regions.
	connected(regions []iwarp.RemoteBuffer) error
	// run does this end's part of a sample: active is the client's.
	run(ctx context.Context, count uint64, active bool) error
	// counts is what the connections have done so far, where the link knows.
	counts() (n linkCounts, ok bool)
	// moved grows whenever something has been sent or received. It may be called
	// during run.
	moved() uint64
	// progress tells how far each connection is, in a measure of the link's own. It may be called during run.
	progress(to []uint64)
	// times are the latencies of the last run, of all connections.
	times() []int64
	mulpdu() int
	// ord is how many Reads and atomics may be outstanding on a connection; 0 where there are none.
	ord() int
	// huge reports whether the messages lie in huge pages.
	huge() bool
	close()
}

// linkCounts are sums over the connections of a link.
type linkCounts struct {
	calls          uint64 // reads and writes
	fpdus, aligned uint64 // sent, and of those whole in one TCP segment
}

// newLink makes the link of one end.
func newLink(kind linkKind, spec benchSpec, cfg *iwarp.Config, initiator bool) (benchLink, error) {
	if err := spec.check(kind); err != nil {
		return nil, err
	}
	if kind == linkTCP {
		return newTCPLink(spec), nil
	}
	return newIWARPLink(spec, cfg, initiator)
}

// watched runs f, which uses the link, and ends it when nothing has moved there for
// some time: the other end may have gone, or never have meant it.
func watched(ctx context.Context, l benchLink, most time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	done := make(chan struct{})
	const looks = 4
	tick := time.NewTicker(max(most/looks, time.Millisecond))
	defer tick.Stop()
	wg.Go(func() {
		for last, quiet := l.moved(), 0; quiet < looks; {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			quiet++
			if now := l.moved(); now != last {
				last, quiet = now, 0
			}
		}
		cancel(fmt.Errorf("nothing has been sent or received for %v", most))
	})
	err := f(ctx)
	close(done)
	wg.Wait()
	if err != nil {
		return ui.CauseOf(ctx, err)
	}
	return nil
}

// all has the times of all connections.
func all[C any](conns []C, of func(C) []int64) []int64 {
	if len(conns) == 1 {
		return of(conns[0])
	}
	var list []int64
	for _, c := range conns {
		list = append(list, of(c)...)
	}
	return list
}

// each runs f for n connections at once and gives the first error, which ends the
// others.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	if n == 1 {
		return f(ctx, 0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	for i := range n {
		wg.Go(func() {
			if err := f(ctx, i); err != nil {
				once.Do(func() { first = err })
				cancel(err)
			}
		})
	}
	wg.Wait()
	return first
}

// measured is run, watched, with what this process has used for it.
func measured(ctx context.Context, l benchLink, most time.Duration, count uint64,
	active bool,
) (u benchUsage, err error) {
	err = watched(ctx, l, most, func(ctx context.Context) error {
		u, err = unwatched(ctx, l, count, active)
		return err
	})
	return u, err
}

func unwatched(ctx context.Context, l benchLink, count uint64, active bool) (benchUsage, error) {
	before, counted := l.counts()
	start := procstat.Now()
	allocs := mallocs() // asked for within the rest, whose own would count
	err := l.run(ctx, count, active)
	allocs = mallocs() - allocs
	used := procstat.Now().Sub(start)
	u := benchUsage{CPU: used.CPU, Calls: used.Calls, Allocs: allocs}
	if counted {
		now, _ := l.counts()
		u.Calls, u.FPDUs, u.Whole = now.calls-before.calls, now.fpdus-before.fpdus, now.aligned-before.aligned
	}
	return u, err
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
