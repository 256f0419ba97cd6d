package iwarp_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
)

// A completion queue never overflows: posts are refused instead, and work again
// when completions have been polled.
// Shows: RDMAP-8.1.1-10, RDMAP-8.1.2-04
func TestCQFull(t *testing.T) {
	d := newDevice(t, nil)
	cq := must(d.NewCQ(4))(t)
	if cq.Depth() != 4 {
		t.Errorf("depth %d", cq.Depth())
	}
	pd := must(d.NewPD())(t)
	a := must(pd.NewQP(&iwarp.QPConfig{SendCQ: cq, RecvCQ: cq}))(t)
	other := must(pd.NewQP(nil))(t)
	tcpPair(t, &iwarp.Config{QP: a}, nil)
	tcpPair(t, &iwarp.Config{QP: other}, nil)
	w := iwarp.SendWR{Op: iwarp.OpWrite}
	check(t, "PostRecv", a.PostRecv(iwarp.RecvWR{}))
	err := a.PostSend(w, w, w, w)
	var perr *iwarp.PostError
	if !errors.As(err, &perr) || perr.Index != 3 || !errors.Is(err, iwarp.ErrCQFull) {
		t.Fatalf("PostSend: %v", err)
	}
	if err := a.PostRecv(iwarp.RecvWR{}); !errors.Is(err, iwarp.ErrCQFull) {
		t.Fatalf("PostRecv: %v", err)
	}
	collect(t, cq, 3)
	check(t, "PostSend after Poll", a.PostSend(w, w))
	w.Unsignaled = true
	check(t, "PostSend", a.PostSend(w))
	collect(t, cq, 2)
	check(t, "Drain", a.Conn().Drain(testContext(t))) // the unsignaled one gave its entry back
	w.Unsignaled = false
	check(t, "PostSend", a.PostSend(w, w, w))
	collect(t, cq, 3)
	// A bad request gives its entry back too.
	for range 10 {
		_ = a.PostSend(iwarp.SendWR{Op: 77})
	}
	check(t, "PostSend", a.PostSend(w, w, w))
	// The QP that does not use the queue has not noticed.
	check(t, "PostSend on another QP", other.PostSend(w))
	collect(t, other.SendCQ(), 1)
}

func TestCQWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cq := must(newDevice(t, nil).NewCQ(4))(t)
		var c [4]iwarp.Completion
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if n, err := cq.Wait(ctx, c[:]); n != 0 || !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(start) != time.Minute {
			t.Errorf("Wait: %d, %v after %v", n, err, time.Since(start))
		}
		if n, err := cq.Wait(ctx, nil); n != 0 || err != nil {
			t.Errorf("Wait for nothing: %d, %v", n, err)
		}
		closed := make(chan error)
		go func() {
			_, err := cq.Wait(context.Background(), c[:])
			closed <- err
		}()
		synctest.Wait()
		cq.Close()
		if err := <-closed; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Wait on a queue that is closed: %v", err)
		}
		if n := cq.Poll(c[:]); n != 0 {
			t.Errorf("Poll of a closed queue: %d", n)
		}
	})
}

// A call of Wait may be stopped between its look at the context and its sleep. If
// the context ends meanwhile, and another call with the same one has been woken by
// that, it must not sleep.
func TestCQSleepAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cq := must(newDevice(t, nil).NewCQ(4))(t)
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 { // known, and registered for
			go cq.Sleep(ctx)
			synctest.Wait()
			cq.WakeAll()
			synctest.Wait()
		}
		go cq.Sleep(ctx)
		synctest.Wait()
		cancel()
		synctest.Wait() // that call has gone
		cq.Sleep(ctx)   // a deadlock, if it waits
		cq.Close()
	})
}

// R63: many waiters on one queue; no wake-up is lost and no completion doubled.
func TestCQManyWaiters(t *testing.T) {
	const depth, waiters = 64, 8
	total := 100_000
	if raceEnabled || testing.Short() {
		total = 20_000
	}
	d := newDevice(t, nil)
	cq := must(d.NewCQ(depth))(t)
	a := newQP(t, d, &iwarp.QPConfig{SendCQ: cq, SendDepth: depth})
	tcpPair(t, &iwarp.Config{QP: a}, nil)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	seen := make([]atomic.Int32, total)
	tokens := make(chan struct{}, depth)
	var got atomic.Int64
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			c := make([]iwarp.Completion, 1+i%3)
			for {
				n, err := cq.Wait(ctx, c)
				if err != nil {
					return
				}
				for _, c := range c[:n] {
					seen[c.ID].Add(1)
					<-tokens
				}
				if got.Add(int64(n)) == int64(total) {
					cancel()
				}
			}
		})
	}
	for i := range total {
		tokens <- struct{}{}
		if err := a.PostSend(iwarp.SendWR{ID: uint64(i), Op: iwarp.OpWrite}); err != nil {
			t.Fatalf("post %d: %v", i, err)
		}
	}
	wg.Wait()
	if got.Load() != int64(total) {
		t.Fatalf("%d of %d completions: a wake-up was lost", got.Load(), total)
	}
	for i := range seen {
		if n := seen[i].Load(); n != 1 {
			t.Fatalf("request %d completed %d times", i, n)
		}
	}
}

// A queue whose waiters have come again and again with the same context, or with
// another each time, hears of each context's end, of a completion and of its own
// end. In a bubble a wake-up that is lost is a deadlock, and a goroutine that is
// left is an error.
func TestCQWaitAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, nil)
		cq := must(d.NewCQ(4))(t)
		var c [4]iwarp.Completion
		wait := func(ctx context.Context) error {
			_, err := cq.Wait(ctx, c[:])
			return err
		}
		type own struct {
			context.Context
			_ []int // cannot be compared
		}
		for range 3 {
			lasting, cancel := context.WithCancelCause(t.Context())
			errs := make(chan error, 3)
			// Three at a time: so many waiters get to know the context.
			for range 3 {
				for range 3 {
					go func() { errs <- wait(own{Context: lasting}) }()
				}
				synctest.Wait()
				short, end := context.WithTimeout(t.Context(), time.Second)
				if err := wait(short); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Wait: %v", err)
				}
				end()
				cq.WakeAll() // as completions would that somebody else takes
				synctest.Wait()
				if len(errs) != 0 {
					t.Errorf("Wait ended for nothing: %v", <-errs)
				}
				why := errors.New("over")
				cancel(why)
				for range 3 {
					if err := <-errs; !errors.Is(err, why) {
						t.Errorf("Wait: %v", err)
					}
				}
				lasting, cancel = context.WithCancelCause(t.Context())
				for range 2 { // seen, and registered for
					go func() { errs <- wait(lasting) }()
					synctest.Wait()
					cq.WakeAll()
					synctest.Wait()
				}
				cancel(why)
				for range 2 {
					if err := <-errs; !errors.Is(err, why) {
						t.Errorf("Wait: %v", err)
					}
				}
				lasting, cancel = context.WithCancelCause(t.Context())
			}
			cancel(nil)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		errs := make(chan error, 6)
		for _, ctx := range []context.Context{ctx, context.Background(), own{Context: ctx}, ctx, ctx, ctx} {
			go func() { errs <- wait(ctx) }()
		}
		synctest.Wait()
		cq.WakeAll()
		synctest.Wait()
		cq.Close()
		for range 6 {
			if err := <-errs; !errors.Is(err, net.ErrClosed) {
				t.Errorf("Wait: %v", err)
			}
		}
	})
}

// Shows: RDMAP-5.3-09
func TestCQEvents(t *testing.T) {
	a, b := qpPair(t, nil, nil)
	for i := range 6 {
		check(t, "PostRecv", b.PostRecv(iwarp.RecvWR{ID: uint64(i)}))
	}
	cq := b.RecvCQ()
	send := func(solicited bool) {
		t.Helper()
		check(t, "PostSend", a.PostSend(iwarp.SendWR{Op: iwarp.OpSend, Solicited: solicited}))
	}
	event := func() {
		t.Helper()
		select {
		case <-cq.Events():
		case <-time.After(patience):
			t.Fatal("no event")
		}
	}
	none := func() {
		t.Helper()
		select {
		case <-cq.Events():
			t.Fatal("an event that nobody asked for")
		default:
		}
	}
	send(true)
	collect(t, cq, 1)
	none()
	cq.Arm(false)
	send(false)
	event()
	collect(t, cq, 1)
	send(false)
	collect(t, cq, 1)
	none()
	cq.Arm(true)
	send(false)
	collect(t, cq, 1)
	none()
	send(true)
	event()
	collect(t, cq, 1)
	// An error is as good as a solicited event.
	cq.Arm(true)
	a.Conn().Abort()
	event()
	if c := collect(t, cq, 1)[0]; c.Err == nil {
		t.Error("no error in the last completion")
	}
	// To arm for any and then for solicited does not take the first wish back.
	cq.Arm(false)
	cq.Arm(true)
	check(t, "PostRecv", b.PostRecv(iwarp.RecvWR{}))
	event()
}

// A Write or Send is complete when the network has taken it: the peer has not
// read an octet yet, and may never do so.
// Shows: DDP-5.4-01, RDMAP-5.5-03, RDMAP-5.5-09
func TestCompleteIsNotReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := clientOfPeer(t, nil)
		check(t, "PostSend", c.QP().PostSend(
			iwarp.SendWR{ID: 1, Op: iwarp.OpWrite, SG: [][]byte{make([]byte, 1000)}},
			iwarp.SendWR{ID: 2, Op: iwarp.OpSend, SG: [][]byte{make([]byte, 1000)}}))
		for i, got := range collect(t, c.QP().SendCQ(), 2) {
			if got.ID != uint64(i+1) || got.Err != nil {
				t.Errorf("%+v", got)
			}
		}
		// More than the network takes.
		check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{ID: 3, Op: iwarp.OpWrite, SG: [][]byte{make([]byte, 1<<20)}}))
		synctest.Wait()
		if n := c.QP().SendCQ().Poll(make([]iwarp.Completion, 1)); n != 0 {
			t.Error("a Write that the network has not taken is complete")
		}
		p.Abort()
		if got := collect(t, c.QP().SendCQ(), 1)[0]; got.ID != 3 || !errors.Is(got.Err, iwarp.ErrFlushed) {
			t.Errorf("%+v", got)
		}
	})
}

// A completion queue that two QPs share cannot overflow: a post without room for
// its completion is refused, whoever makes it, every completion comes, and a QP
// with another queue notices nothing.
// Shows: SEC-6.4.3.2-01, SEC-6.4.6-01
func TestSharedCQ(t *testing.T) {
	d := newDevice(t, nil)
	cq := must(d.NewCQ(4))(t)
	defer cq.Close()
	var clients []*iwarp.QP
	for _, c := range []*iwarp.CQ{cq, cq, nil} {
		qp := newQP(t, d, &iwarp.QPConfig{SendCQ: c, SendDepth: 10})
		tcpPair(t, &iwarp.Config{QP: qp}, nil)
		clients = append(clients, qp)
	}
	post := func(qp *iwarp.QP, id uint64) error { return qp.PostSend(iwarp.SendWR{ID: id, Op: iwarp.OpWrite}) }
	for i := range uint64(4) {
		check(t, "PostSend", post(clients[i%2], i))
	}
	for _, qp := range clients[:2] { // also when all four have completed
		if err := post(qp, 9); !errors.Is(err, iwarp.ErrCQFull) {
			t.Errorf("a fifth: %v", err)
		}
	}
	for i := range uint64(10) {
		check(t, "PostSend with another queue", post(clients[2], i))
	}
	collect(t, clients[2].SendCQ(), 10)
	seen := map[uint64]bool{}
	for _, c := range collect(t, cq, 4) {
		if c.Err != nil || c.ID > 3 || seen[c.ID] {
			t.Errorf("%+v", c)
		}
		seen[c.ID] = true
	}
	check(t, "after polling", post(clients[0], 5))
	collect(t, cq, 1)
	// Also while nothing has completed: what is posted has its entry.
	recvs := must(d.NewCQ(3))(t)
	defer recvs.Close()
	x, y := newQP(t, d, &iwarp.QPConfig{RecvCQ: recvs}), newQP(t, d, &iwarp.QPConfig{RecvCQ: recvs})
	check(t, "PostRecv", x.PostRecv(iwarp.RecvWR{ID: 1}, iwarp.RecvWR{ID: 2}))
	check(t, "PostRecv", y.PostRecv(iwarp.RecvWR{ID: 3}))
	for _, qp := range []*iwarp.QP{x, y} {
		if err := qp.PostRecv(iwarp.RecvWR{ID: 4}); !errors.Is(err, iwarp.ErrCQFull) {
			t.Errorf("a fourth: %v", err)
		}
	}
	check(t, "Close", x.Close())
	check(t, "Close", y.Close())
	if got := collect(t, recvs, 3); got[0].ID != 1 || got[1].ID != 2 || got[2].ID != 3 {
		t.Errorf("flushed: %+v", got)
	}
}
