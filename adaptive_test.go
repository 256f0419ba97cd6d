package iwarp

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// adaptivePair connects two ends over loopback TCP.
func adaptivePair(t *testing.T, cc, sc *Config) (a, b *Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	got := make(chan *Conn, 1)
	go func() {
		var c *Conn
		nc, err := ln.Accept()
		if err == nil {
			c, err = Server(t.Context(), nc, sc)
		}
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	a, err = Dial(t.Context(), "tcp", ln.Addr().String(), cc)
	if b = <-got; err != nil || b == nil {
		t.Fatal("no connection: ", err)
	}
	t.Cleanup(func() { a.Abort(); b.Abort(); <-a.Done(); <-b.Done() })
	return a, b
}

// No wake-up is lost, whoever receives: two goroutines at each end wait for completions
// of one queue, and something is always on its way. A watchdog sees to it that it comes.
func TestAdaptiveLosesNothing(t *testing.T) {
	n := 500_000 // at each end
	if testing.Short() {
		n = 30_000
	}
	dev, err := NewDevice(nil)
	if err != nil {
		t.Fatal(err)
	}
	var qps [2]*QP
	for i := range qps {
		pd, err := dev.NewPD()
		if err != nil {
			t.Fatal(err)
		}
		cq, err := dev.NewCQ(64)
		if err != nil {
			t.Fatal(err)
		}
		if qps[i], err = pd.NewQP(&QPConfig{SendCQ: cq, RecvCQ: cq, SendDepth: 32, RecvDepth: 32}); err != nil {
			t.Fatal(err)
		}
		for range 32 {
			if err := qps[i].PostRecv(RecvWR{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	a, b := adaptivePair(t, &Config{QP: qps[0]}, &Config{QP: qps[1]})
	var moves atomic.Int64
	errs := make(chan error, 4)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	send := SendWR{Op: OpSend, Unsignaled: true}
	// bounce answers each message, so that 3 are always under way.
	bounce := func(q *QP) error {
		var c [4]Completion
		for {
			k, err := q.RecvCQ().Wait(ctx, c[:])
			if err != nil {
				return err
			}
			for _, c := range c[:k] {
				if c.Err != nil {
					return c.Err
				}
				if moves.Add(1) >= int64(2*n) {
					cancel()
				}
				if err := errors.Join(q.PostRecv(RecvWR{}), q.PostSend(send)); err != nil {
					return err
				}
			}
		}
	}
	for range 2 {
		for _, q := range qps {
			go func() { errs <- bounce(q) }()
		}
	}
	for range 3 {
		if err := qps[0].PostSend(send); err != nil {
			t.Fatal(err)
		}
	}
	watchdog := time.NewTicker(10 * time.Second)
	defer watchdog.Stop()
	for last, left := int64(-1), 4; left > 0; {
		select {
		case err := <-errs:
			if left--; !errors.Is(err, context.Canceled) {
				t.Error(err)
				cancel()
			}
		case <-watchdog.C:
			now := moves.Load()
			if now == last {
				t.Fatalf("nothing has moved for 10 s, after %d completions", now)
			}
			last = now
		}
	}
	t.Logf("windows of %v and %v at the end", time.Duration(a.poller.window.Load()),
		time.Duration(b.poller.window.Load()))
}

// The blocking calls get on in each mode, beside each other, when one end is a mere
// target, and when one waits while nobody else does.
func TestAdaptiveBlockingCalls(t *testing.T) {
	for _, progress := range []Progress{ProgressAdaptive, ProgressParked, ProgressPolling} {
		a, b := adaptivePair(t, &Config{Progress: progress}, &Config{Progress: progress})
		mr, err := b.NewMR(make([]byte, 4096), RemoteRead|RemoteWrite|RemoteAtomic)
		if err != nil {
			t.Fatal(err)
		}
		defer mr.Close()
		const n = 2000
		errs := make(chan error, 3)
		go func() {
			var err error
			for range n {
				err = errors.Join(err, a.RDMARead(t.Context(), make([]byte, 64), mr.Remote().Slice(8, 64)))
			}
			errs <- err
		}()
		go func() {
			var err error
			for i := range uint64(n) {
				was, aerr := a.FetchAdd(t.Context(), mr.Remote().Slice(0, 8), 1)
				if err = errors.Join(err, aerr); err == nil && was != i {
					err = errors.New("an atomic was lost or done twice")
				}
			}
			errs <- err
		}()
		go func() {
			var err error
			for range n {
				_, rerr := b.Recv(t.Context(), nil)
				err = errors.Join(err, rerr, b.Send(t.Context(), nil))
			}
			errs <- err
		}()
		for range n {
			if err := a.Send(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Recv(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Errorf("progress %d: %v", progress, err)
			}
		}
	}
}

// Nothing spins for a connection on which nothing comes, or comes seldom.
func TestAdaptiveIdle(t *testing.T) {
	a, b := adaptivePair(t, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := b.Recv(ctx, nil); done <- err }()
	turns := a.poller.m.Stats().SystemCalls + b.poller.m.Stats().SystemCalls
	for range 3 {
		var s spinner
		if s.start(a.self[:], true) || s.start(b.self[:], true) {
			t.Error("an idle connection is spun for")
		}
	}
	if now := a.poller.m.Stats().SystemCalls + b.poller.m.Stats().SystemCalls; now > turns+2 {
		t.Errorf("%d system calls on idle connections", now-turns)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// A wait of a second ago does not make it spin.
	b.poller.parked(time.Second, 64)
	if w := b.poller.window.Load(); w != 0 {
		t.Errorf("after a wait of a second the next spin is %v", time.Duration(w))
	}
}

// Where it cannot spin, or may not, there is nobody but the receive goroutine.
func TestNoPoller(t *testing.T) {
	a, _ := adaptivePair(t, &Config{Progress: ProgressParked}, nil)
	if a.poller != nil {
		t.Error("a parked connection has a poller")
	}
	c, _ := net.Pipe()
	defer c.Close()
	if _, err := (&Config{Progress: ProgressPolling + 1}).withDefaults(); err == nil {
		t.Error("a kind of progress that there is not is taken")
	}
}
