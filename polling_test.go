package iwarp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/protocol"
)

var allProgress = []iwarp.Progress{iwarp.ProgressAdaptive, iwarp.ProgressParked, iwarp.ProgressPolling}

// Every kind of operation works when the callers receive by themselves, on each
// kind of connection; those that cannot be polled are received as usual.
func TestPolling(t *testing.T) {
	for _, kind := range []string{"tcp", "unix", "TLS", "Pipe"} {
		t.Run(kind, func(t *testing.T) {
			x, y := netPair(t, kind)
			a, b := startOn(t, x, y, &iwarp.Config{Progress: iwarp.ProgressPolling},
				&iwarp.Config{Progress: iwarp.ProgressPolling})
			ctx := testContext(t)
			mem := make([]byte, 1<<20)
			mr := must(b.NewMR(mem, iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic))(t)
			defer mr.Close()
			src, dst := pattern(1<<20), make([]byte, 1<<20)
			for range 3 {
				check(t, "Send", a.Send(ctx, []byte("ping")))
				wantRecv(t, b, "ping")
				check(t, "Send", b.Send(ctx, []byte("pong")))
				wantRecv(t, a, "pong")
				check(t, "Write", a.RDMAWrite(ctx, src, mr.Remote()))
				// Nobody polls b now: its receive goroutine must take over.
				check(t, "Read", a.RDMARead(ctx, dst, mr.Remote()))
				if !bytes.Equal(src, dst) {
					t.Fatal("what was read differs from what was written")
				}
				must(a.FetchAdd(ctx, mr.Remote(), 1))(t)
			}
			closeBoth(t, a, b)
			if _, err := a.Recv(ctx, nil); !errors.Is(err, io.EOF) {
				t.Errorf("Recv after the end: %v", err)
			}
		})
	}
}

// Spin finds what comes while it spins, and returns where that brings nothing.
func TestSpin(t *testing.T) {
	for _, progress := range allProgress {
		d := newDevice(t, nil)
		qa, qb := newQP(t, d, nil), newQP(t, d, nil)
		x, y := netPair(t, "tcp")
		a, b := startOn(t, x, y, &iwarp.Config{QP: qa, Progress: progress}, &iwarp.Config{QP: qb, Progress: progress})
		var comps [4]iwarp.Completion
		if n := qb.RecvCQ().Spin(comps[:]); n != 0 {
			t.Errorf("%v: %d completions of nothing", progress, n)
		}
		check(t, "PostRecv", qb.PostRecv(iwarp.RecvWR{ID: 7, SG: [][]byte{make([]byte, 8)}}))
		check(t, "PostSend", qa.PostSend(iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{[]byte("octets")}}))
		for n := 0; n == 0; {
			n = qb.RecvCQ().Spin(comps[:])
			runtime.Gosched()
		}
		if comps[0].ID != 7 || comps[0].Length != 6 {
			t.Errorf("%v: %+v", progress, comps[0])
		}
		if n := new(iwarp.CQ).Spin(comps[:]) + qb.RecvCQ().Spin(nil); n != 0 {
			t.Errorf("%d completions of nothing", n)
		}
		closeBoth(t, a, b)
	}
}

// More simple calls at once than the send queue holds: each has its turn.
func TestManySimpleCalls(t *testing.T) {
	for _, progress := range allProgress {
		a, b := tcpPair(t, &iwarp.Config{SendDepth: 2, Progress: progress}, nil)
		mr := must(b.NewMR(make([]byte, 1<<20), iwarp.RemoteRead))(t)
		ctx := testContext(t)
		errs := make(chan error)
		for range 20 {
			go func() { errs <- a.RDMARead(ctx, make([]byte, 1<<18), mr.Remote()) }()
		}
		for range 20 {
			check(t, "Read", <-errs)
		}
		mr.Close()
	}
}

func TestPollingVerbs(t *testing.T) {
	d := newDevice(t, nil)
	qa, qb := newQP(t, d, nil), newQP(t, d, nil)
	bufs := make([][]byte, 100)
	for i := range bufs {
		bufs[i] = make([]byte, 8)
		check(t, "PostRecv", qb.PostRecv(iwarp.RecvWR{ID: uint64(i), SG: [][]byte{bufs[i]}}))
	}
	tcpPair(t, &iwarp.Config{QP: qa, Progress: iwarp.ProgressPolling},
		&iwarp.Config{QP: qb, Progress: iwarp.ProgressPolling})
	for i := range bufs {
		check(t, "PostSend", qa.PostSend(iwarp.SendWR{ID: uint64(i), Op: iwarp.OpSend, SG: [][]byte{{byte(i)}}}))
	}
	for i, c := range collect(t, qb.RecvCQ(), len(bufs)) {
		if c.ID != uint64(i) || c.Err != nil || bufs[i][0] != byte(i) {
			t.Fatalf("completion %d: %+v", i, c)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if n, err := qb.RecvCQ().Wait(ctx, make([]iwarp.Completion, 1)); n != 0 ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait for nothing: %d, %v", n, err)
	}
	check(t, "PostRecv", qb.PostRecv(iwarp.RecvWR{ID: 1000}))
	qa.Conn().Abort()
	if c := collect(t, qb.RecvCQ(), 1)[0]; c.ID != 1000 || !errors.Is(c.Err, iwarp.ErrFlushed) {
		t.Errorf("after the peer's reset: %+v", c)
	}
	wantDone(t, qb.Conn())
}

// An error is found, and told, in polling mode as in the other.
func TestPollingHostile(t *testing.T) {
	ln := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	y := must(net.Dial("tcp", ln.Addr().String()))(t)
	x := must(ln.Accept())(t)
	c, p := serverOn(t, x, y, &iwarp.Config{Progress: iwarp.ProgressPolling})
	recvErr := make(chan error, 1)
	go func() {
		_, err := c.Recv(testContext(t), make([]byte, 8))
		recvErr <- err
	}()
	p.SendRaw([]byte{0, 19, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 'x', 0, 0, 0, 1, 2, 3, 4})
	wantCode(t, <-recvErr, protocol.MPACRC, false)
	y.Close()
	wantDone(t, c)
}

// Polls from many goroutines, and from none, exclude each other and lose nothing.
func TestPollingContention(t *testing.T) {
	a, b := tcpPair(t, &iwarp.Config{Progress: iwarp.ProgressPolling},
		&iwarp.Config{Progress: iwarp.ProgressPolling, RecvDepth: 256})
	ctx := testContext(t)
	const n = 200
	done := make(chan int, 4)
	for range 4 {
		go func() {
			got := 0
			for {
				_, err := b.Recv(ctx, make([]byte, 16))
				if err != nil {
					done <- got
					return
				}
				got++
			}
		}()
	}
	for i := range n {
		for a.Send(ctx, []byte("one")) != nil {
			t.Fatal("Send failed", i)
		}
		if i%50 == 49 {
			// The peer promises 128 receives: let it take them.
			check(t, "Send", b.Send(ctx, nil))
			recv(t, a)
		}
	}
	go b.Close()
	check(t, "Close", a.Close())
	total := 0
	for range 4 {
		total += <-done
	}
	if total != n {
		t.Errorf("received %d of %d", total, n)
	}
}
