package iwarp_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// Either end may close its half and still receive.
// Shows: DDP-6.2.1-04, DDP-6.2.1-05, DDP-6.2.1-06, MPA-7.2-01, MPA-7.2-02
func TestHalfClose(t *testing.T) {
	for _, kind := range []string{"tcp", "unix", "TLS", "Pipe"} {
		for _, clientFirst := range []bool{true, false} {
			x, y := netPair(t, kind)
			a, b := startOn(t, x, y, nil, nil)
			if !clientFirst {
				a, b = b, a
			}
			ctx := testContext(t)
			check(t, "Send", a.Send(ctx, []byte("last words")))
			a.CloseWrite()
			wantRecv(t, b, "last words")
			if _, err := b.Recv(ctx, nil); err != io.EOF {
				t.Fatalf("%s: Recv after the peer's half: %v", kind, err)
			}
			<-a.Drained()
			if err := a.Send(ctx, nil); err == nil || errors.Is(err, net.ErrClosed) {
				t.Logf("%s: Send after CloseWrite: %v", kind, err)
			}
			if err := a.Send(ctx, nil); err == nil {
				t.Errorf("%s: Send after CloseWrite succeeds", kind)
			}
			for range 10 {
				check(t, "Send from the open half", b.Send(ctx, []byte("still here")))
				wantRecv(t, a, "still here")
			}
			if err := b.RDMARead(ctx, make([]byte, 1), iwarp.RemoteBuffer{}); err == nil {
				t.Errorf("%s: a Read that can have no Response succeeds", kind)
			}
			check(t, "Close", b.Close())
			if _, err := a.Recv(ctx, nil); err != io.EOF {
				t.Errorf("%s: Recv at the end: %v", kind, err)
			}
			check(t, "Close", a.Close())
			check(t, "Close again", a.Close())
			if a.Err() != nil || b.Err() != nil {
				t.Errorf("%s: errors of a graceful end: %v, %v", kind, a.Err(), b.Err())
			}
		}
	}
}

// Close lets what is posted complete first, Reads included.
// Shows: DDP-6.2.1-01
func TestCloseCompletes(t *testing.T) {
	a, b := qpPair(t, nil, nil)
	mr := must(b.PD().NewMR(pattern(1<<20), iwarp.RemoteRead|iwarp.RemoteWrite, nil))(t)
	defer mr.Close()
	sink := make([]byte, 1<<20)
	var wrs []iwarp.SendWR
	for i := range uint64(20) {
		wrs = append(wrs, iwarp.SendWR{ID: i, Op: iwarp.OpRead, SG: [][]byte{sink}, Remote: mr.Remote()})
	}
	check(t, "PostSend", a.PostSend(wrs...))
	check(t, "PostRecv", b.PostRecv(iwarp.RecvWR{}))
	closed := make(chan error, 1)
	go func() { closed <- a.Conn().Close() }()
	// The peer closes when it hears that we have.
	if c := collect(t, b.RecvCQ(), 1)[0]; !errors.Is(c.Err, io.EOF) || !errors.Is(c.Err, iwarp.ErrFlushed) {
		t.Errorf("receive at the peer's end: %v", c.Err)
	}
	check(t, "Close", b.Conn().Close())
	check(t, "Close", <-closed)
	for i, c := range collect(t, a.SendCQ(), 20) {
		if c.ID != uint64(i) || c.Err != nil {
			t.Errorf("%+v", c)
		}
	}
}

// A peer that never reads, or never closes, delays Close by CloseTimeout.
// Shows: RDMAP-6.2-01
func TestCloseTimeout(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, c *iwarp.Conn, p *iwarptest.Peer){
		"never closes": func(*testing.T, *iwarp.Conn, *iwarptest.Peer) {},
		"never reads": func(t *testing.T, c *iwarp.Conn, _ *iwarptest.Peer) {
			check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpWrite, SG: [][]byte{make([]byte, 1<<20)}}))
		},
		"never answers": func(t *testing.T, c *iwarp.Conn, _ *iwarptest.Peer) {
			check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{make([]byte, 1)}}))
		},
		"never stops sending": func(t *testing.T, c *iwarp.Conn, p *iwarptest.Peer) {
			go func() {
				for {
					if _, err := p.Conn.Write(p.Out.Frame(iwarptest.Write(0, 0, nil))); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
		},
		"a responder that may not send": func(t *testing.T, c *iwarp.Conn, _ *iwarptest.Peer) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := &iwarp.Config{CloseTimeout: 7 * time.Second}
				c, p := clientOfPeer(t, cfg)
				if name == "a responder that may not send" {
					c, p = serverOfPeer(t, cfg)
					check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpSend}))
				}
				prepare(t, c, p)
				start := time.Now()
				err := c.Close()
				if d := time.Since(start); d < 7*time.Second || d > 15*time.Second {
					t.Errorf("Close took %v", d)
				}
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("Close: %v", err)
				}
				wantWords(t, err, "7s")
				wantDone(t, c)
				p.Conn.Close()
				time.Sleep(2 * time.Second)
			})
		})
	}
}

// R59: after a Terminate this end closes too, within CloseTimeout.
func TestTerminateTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := clientOfPeer(t, &iwarp.Config{CloseTimeout: 3 * time.Second})
		start := time.Now()
		p.Send(iwarptest.Send(9, nil))
		p.WantTerminate("MSN", uint16(protocol.DDPUntaggedMSN))
		p.WantEOF("FIN behind the Terminate")
		<-c.Done()
		if d := time.Since(start); d < 3*time.Second || d > 6*time.Second {
			t.Errorf("ended after %v", d)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, p := clientOfPeer(t, &iwarp.Config{CloseTimeout: 3 * time.Second})
		p.Send(iwarptest.Terminate(uint16(protocol.DDPUntaggedMSN), nil))
		<-c.Done() // the peer keeps its half open for ever
		wantCode(t, c.Err(), protocol.DDPUntaggedMSN, true)
	})
}

// Abort gives the memory back at once, whatever the peer does.
func TestAbort(t *testing.T) {
	for _, kind := range []string{"tcp", "unix", "TLS", "Pipe", "net.Pipe"} {
		x, y := netPair(t, kind)
		a, b := startOn(t, x, y, nil, nil)
		mem := make([]byte, 1<<20)
		mr := must(b.NewMR(make([]byte, 2*len(mem)), iwarp.RemoteRead|iwarp.RemoteWrite))(t)
		defer mr.Close()
		for range 20 {
			check(t, "PostSend", a.QP().PostSend(
				iwarp.SendWR{Op: iwarp.OpWrite, SG: [][]byte{mem}, Remote: mr.Remote()},
				iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{mem}, Remote: remoteAt(mr, 1<<20)}))
		}
		a.Abort()
		clear(mem) // ours again: the race detector looks on
		wantCode(t, a.Err(), protocol.MPAConnectionLost, false)
		a.Abort()
		check(t, "Close after Abort", a.Close())
		_, err := b.Recv(testContext(t), nil)
		if kind == "unix" || kind == "net.Pipe" { // they know no reset
			if err == nil {
				t.Errorf("%s: Recv succeeds", kind)
			}
			b.Abort()
			continue
		}
		wantCode(t, err, protocol.MPAConnectionLost, false)
		wantDone(t, b)
	}
}

// A blocking call whose context ends aborts the connection, and says both.
func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := clientOfPeer(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Recv(ctx, nil); !errors.Is(err, context.DeadlineExceeded) || c.Err() != nil {
			t.Fatalf("Recv: %v, connection %v", err, c.Err())
		}
		if err := c.Send(ctx, nil); !errors.Is(err, context.DeadlineExceeded) || c.Err() != nil {
			t.Fatalf("Send with a context that has ended: %v, connection %v", err, c.Err())
		}
		check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{make([]byte, 1)}}))
		ctx2, cancel2 := context.WithTimeout(t.Context(), time.Second)
		defer cancel2()
		if err := c.Drain(ctx2); !errors.Is(err, context.DeadlineExceeded) || c.Err() != nil {
			t.Fatalf("Drain: %v, connection %v", err, c.Err())
		}
		ctx3, cancel3 := context.WithTimeout(t.Context(), time.Second)
		defer cancel3()
		err := c.RDMARead(ctx3, make([]byte, 10), iwarp.RemoteBuffer{})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, iwarp.ErrFlushed) {
			t.Errorf("Read: %v", err)
		}
		wantDone(t, c)
	})
}

// R54: Drain ends after the last completion of what was posted, also when the
// queue is full, and when the connection fails.
func TestDrain(t *testing.T) {
	const n = 100
	start := func(t *testing.T) (*iwarp.QP, *iwarptest.Peer, chan error) {
		x, y := pipe(nil)
		qp := newQP(t, newDevice(t, nil), &iwarp.QPConfig{SendDepth: n})
		c, p := clientOn(t, x, y, &iwarp.Config{QP: qp})
		for i := range uint64(n) {
			check(t, "PostSend", qp.PostSend(iwarp.SendWR{ID: i, Op: iwarp.OpRead, SG: [][]byte{make([]byte, 1)}}))
		}
		drained := make(chan error, 1)
		go func() { drained <- c.Drain(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-drained:
			t.Fatalf("drained with %d posted: %v", n, err)
		default:
		}
		return qp, p, drained
	}
	count := func(t *testing.T, qp *iwarp.QP, wantErr bool) {
		t.Helper()
		c := make([]iwarp.Completion, n+1)
		if got := qp.SendCQ().Poll(c); got != n {
			t.Fatalf("%d completions after Drain, want %d", got, n)
		}
		for i := range uint64(n) {
			if c[i].ID != i || (c[i].Err != nil) != wantErr {
				t.Fatalf("completion %d: %+v", i, c[i])
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		qp, p, drained := start(t)
		for range n {
			req := p.Frame("a Read Request")
			p.Send(iwarptest.ReadResponse(binary.BigEndian.Uint32(req[18:]), 0, []byte{1}))
		}
		check(t, "Drain", <-drained)
		count(t, qp, false)
		check(t, "Drain of nothing", qp.Conn().Drain(t.Context()))
	})
	synctest.Test(t, func(t *testing.T) {
		qp, p, drained := start(t)
		p.Abort()
		check(t, "Drain", <-drained)
		count(t, qp, true)
		check(t, "Drain after the end", qp.Conn().Drain(t.Context()))
	})
	synctest.Test(t, func(t *testing.T) {
		a, b := startOn2(t)
		go b.Close()
		check(t, "Close", a.Close())
		check(t, "Drain after Close", a.Drain(t.Context()))
	})
}

func startOn2(t *testing.T) (a, b *iwarp.Conn) {
	x, y := pipe(nil)
	return startOn(t, x, y, nil, nil)
}

// R57: Close under load, from either end or both, returns in bounded time and
// every request completes once.
func TestCloseUnderLoad(t *testing.T) {
	n := 100
	if testing.Short() {
		n = 20
	}
	for i := range n {
		a, b := tcpPair(t, nil, nil)
		// Writes and Reads go to octets of their own, else a Response may be made of
		// what a later Write changes, and the race detector sees it.
		mr := must(b.NewMR(make([]byte, 2<<16), iwarp.RemoteRead|iwarp.RemoteWrite))(t)
		mr2 := must(a.NewMR(make([]byte, 2<<16), iwarp.RemoteRead|iwarp.RemoteWrite))(t)
		var wg sync.WaitGroup
		load := func(c *iwarp.Conn, mr *iwarp.MR) {
			data := make([]byte, 1<<16)
			for j := 0; ; j++ {
				var err error
				if j%2 == 0 {
					err = c.RDMAWrite(t.Context(), data, mr.Remote())
				} else {
					err = c.RDMARead(t.Context(), data, remoteAt(mr, 1<<16))
				}
				if err != nil {
					return
				}
			}
		}
		wg.Go(func() { load(a, mr) })
		wg.Go(func() { load(a, mr) })
		wg.Go(func() { load(b, mr2) })
		for a.Stats().RDMAP.MessagesSent < uint64(i%7) {
			runtime.Gosched() // so that the end comes at another point each time
		}
		ends := make(chan error, 2)
		switch i % 3 {
		case 0:
			go func() { ends <- a.Close() }()
			go func() { ends <- b.Close() }()
		case 1:
			go func() { ends <- a.Close() }()
			go func() { <-b.Done(); ends <- nil }()
			go func() {
				for {
					if _, err := b.Recv(context.Background(), nil); err != nil {
						_ = b.Close()
						return
					}
				}
			}()
		case 2:
			a.Abort()
			ends <- nil
			go func() { ends <- b.Close() }()
		}
		for range 2 {
			select {
			case <-ends:
			case <-time.After(patience):
				t.Fatalf("round %d: Close hangs\n%s", i, stacks())
			}
		}
		wg.Wait()
		mr.Close()
		mr2.Close()
	}
}

// A reset at each stage of a connection's life.
func TestResetStages(t *testing.T) {
	reset := func(c net.Conn) {
		_ = c.(*iwarptest.Conn).Abort()
	}
	for name, stage := range map[string]func(t *testing.T, c *iwarp.Conn, p *iwarptest.Peer){
		"idle": func(*testing.T, *iwarp.Conn, *iwarptest.Peer) {},
		"Read posted": func(t *testing.T, c *iwarp.Conn, _ *iwarptest.Peer) {
			go c.RDMARead(t.Context(), make([]byte, 1), iwarp.RemoteBuffer{})
		},
		"half a Response": func(t *testing.T, c *iwarp.Conn, p *iwarptest.Peer) {
			go c.RDMARead(t.Context(), make([]byte, 100), iwarp.RemoteBuffer{})
			req := p.Frame("the Read Request")
			p.Send(iwarptest.Tagged(2, false, binary.BigEndian.Uint32(req[18:]), 0, make([]byte, 50)))
		},
		"Write under way": func(t *testing.T, c *iwarp.Conn, _ *iwarptest.Peer) {
			go c.RDMAWrite(t.Context(), make([]byte, 1<<20), iwarp.RemoteBuffer{})
		},
		"half an FPDU": func(_ *testing.T, _ *iwarp.Conn, p *iwarptest.Peer) {
			p.SendRaw(p.Out.Frame(iwarptest.Send(1, nil))[:7])
		},
		"half closed": func(_ *testing.T, c *iwarp.Conn, _ *iwarptest.Peer) { c.CloseWrite() },
		"closing":     func(_ *testing.T, c *iwarp.Conn, _ *iwarptest.Peer) { go c.Close() },
		"terminated":  func(_ *testing.T, _ *iwarp.Conn, p *iwarptest.Peer) { p.Send(iwarptest.Send(3, nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := clientOfPeer(t, nil)
				stage(t, c, p)
				synctest.Wait()
				reset(p.Conn)
				wantDone(t, c)
				if name != "terminated" {
					wantCode(t, c.Err(), protocol.MPAConnectionLost, false)
					if !errors.Is(c.Err(), syscall.ECONNRESET) && !errors.Is(c.Err(), syscall.EPIPE) {
						t.Errorf("%v does not say reset", c.Err())
					}
				}
				_ = c.Close()
			})
		})
	}
}

// R55, R58: random sequences of connect, transfer, close and reset; each
// request completes once, and nothing is left behind.
func TestRandomEnds(t *testing.T) {
	n := 300
	if raceEnabled || testing.Short() {
		n = 100
	}
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 0))
	for i := range n {
		if !randomEnd(t, rnd) {
			t.Fatalf("round %d of seed %d", i, seed)
		}
	}
}

func randomEnd(t *testing.T, rnd *rand.Rand) bool {
	d := newDevice(t, nil)
	qp, other := newQP(t, d, nil), newQP(t, d, nil)
	mr := must(other.PD().NewMR(make([]byte, 3<<17), iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic, nil))(t)
	where := map[iwarp.Op]uint64{iwarp.OpRead: 1 << 17, iwarp.OpFetchAdd: 2 << 17}
	a, b := netPair(t, []string{"tcp", "unix", "Pipe", "net.Pipe"}[rnd.IntN(4)])
	ca, cb := startOn(t, a, b, &iwarp.Config{QP: qp}, &iwarp.Config{QP: other})
	ops := []iwarp.Op{iwarp.OpWrite, iwarp.OpRead, iwarp.OpFetchAdd, iwarp.OpSend, iwarp.OpInvalidate}
	posted := uint64(0)
	recvs := uint64(rnd.IntN(20))
	for i := range recvs {
		check(t, "PostRecv", other.PostRecv(iwarp.RecvWR{ID: i, SG: [][]byte{make([]byte, 1<<17)}}))
	}
	for range rnd.IntN(100) {
		wr := iwarp.SendWR{ID: posted, Op: ops[rnd.IntN(len(ops))], Fence: rnd.IntN(10) == 0}
		wr.Remote = remoteAt(mr, where[wr.Op])
		if wr.Op == iwarp.OpWrite || wr.Op == iwarp.OpRead || wr.Op == iwarp.OpSend {
			wr.SG = [][]byte{make([]byte, rnd.IntN(1<<rnd.IntN(18)))}
		}
		if qp.PostSend(wr) == nil {
			posted++
		}
	}
	for range rnd.IntN(3) {
		switch rnd.IntN(6) {
		case 0:
			_ = a.Close()
		case 1:
			_ = b.Close()
		case 2:
			ca.Abort()
		case 3:
			cb.Abort()
		case 4:
			ca.CloseWrite()
		case 5:
			cb.CloseWrite()
		}
	}
	done := make(chan error, 2)
	go func() { done <- ca.Close() }()
	go func() { done <- cb.Close() }()
	<-done
	<-done
	wantDone(t, ca)
	wantDone(t, cb)
	ok := once(t, qp.SendCQ(), posted, "send") && once(t, other.RecvCQ(), recvs, "receive")
	mr.Close()
	check(t, "QP.Close", qp.Close())
	check(t, "QP.Close", other.Close())
	if u := d.Use(); u.QPs != 0 || u.MRs != 0 || u.CQs != 0 {
		t.Errorf("left in use: %+v", u)
	}
	return ok
}

// once reports whether a queue has each of n ids once, in order.
func once(t *testing.T, cq *iwarp.CQ, n uint64, what string) bool {
	t.Helper()
	c := make([]iwarp.Completion, n+1)
	if got := uint64(cq.Poll(c)); got != n {
		t.Errorf("%d %s completions, %d requests", got, what, n)
		return false
	}
	for i := range n {
		if c[i].ID != i {
			t.Errorf("%s completion %d has id %d", what, i, c[i].ID)
			return false
		}
	}
	return true
}
