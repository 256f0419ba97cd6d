package iwarp_test

import (
	"context"
	"errors"
	"math"
	"net"
	"runtime"
	"testing"
	"weak"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/protocol"
)

// The numbers of domains do not come again: a connection of the 2^32nd domain after
// another one does not reach its regions.
// Shows: DDP-8.3.1-01, SEC-6.1.1-01
func TestDomainNumbersDoNotWrap(t *testing.T) {
	d := newDevice(t, nil)
	old := must(d.NewPD())(t)
	mr := must(old.NewMR(make([]byte, 8), iwarp.RemoteRead, nil))(t)
	defer mr.Close()
	d.SetLastPD(math.MaxUint32)
	for range 2 { // one of them had the number 0 or 1 when there were 32 bits
		pd := must(d.NewPD())(t)
		client, server := tcpPair(t, nil, &iwarp.Config{PD: pd})
		if err := client.RDMARead(testContext(t), make([]byte, 8), mr.Remote()); err == nil {
			t.Errorf("a stranger has read another domain's region")
		}
		wantDone(t, server)
		wantCode(t, server.Err(), protocol.RDMAPSTagNotAssociated, false)
	}
}

// A QP with an SRQ has no receive queue: its depth is neither judged nor charged.
// What is charged otherwise is what there is.
// Shows: DDP-8.3.2-02, RDMAP-8.1.2-01
func TestEntriesCharged(t *testing.T) {
	d := newDevice(t, &iwarp.DeviceConfig{MaxWR: 64})
	entries := func(what string, want int64, f func(pd *iwarp.PD) func()) {
		t.Helper()
		pd := must(d.NewPD())(t)
		before := d.Use().Entries
		end := f(pd)
		if got := d.Use().Entries - before; got != want {
			t.Errorf("%s: %d entries charged, want %d", what, got, want)
		}
		end()
		if got := d.Use().Entries; got != before {
			t.Errorf("%s: %d entries charged after its end", what, got-before)
		}
		check(t, "PD.Close", pd.Close())
	}
	qp := func(cfg iwarp.QPConfig) func(*iwarp.PD) func() {
		return func(pd *iwarp.PD) func() {
			qp := must(pd.NewQP(&cfg))(t)
			return func() { check(t, "QP.Close", qp.Close()) }
		}
	}
	entries("a QP", 2*(4+6), qp(iwarp.QPConfig{SendDepth: 4, RecvDepth: 6}))
	entries("a QP with an SRQ", 16+4+4+8, func(pd *iwarp.PD) func() {
		srq := must(pd.NewSRQ(&iwarp.SRQConfig{Depth: 16, MaxShare: 8}))(t)
		end := qp(iwarp.QPConfig{SendDepth: 4, RecvDepth: 1000, SRQ: srq})(pd)
		return func() { end(); check(t, "SRQ.Close", srq.Close()) }
	})
	entries("a QP with an SRQ and a CQ", 16+4+10, func(pd *iwarp.PD) func() {
		srq := must(pd.NewSRQ(&iwarp.SRQConfig{Depth: 16}))(t)
		cq := must(d.NewCQ(10))(t)
		end := qp(iwarp.QPConfig{SendDepth: 4, RecvDepth: -1, SRQ: srq, SendCQ: cq, RecvCQ: cq})(pd)
		return func() { end(); cq.Close(); check(t, "SRQ.Close", srq.Close()) }
	})
	entries("a connection", 5+7+5+1, func(pd *iwarp.PD) func() {
		_, c := tcpPair(t, nil, &iwarp.Config{PD: pd, SendDepth: 5, RecvDepth: 7})
		return c.Abort
	})
}

// A peer that this end has no resources for is rejected, and the program told why:
// neither is left to guess.
func TestAcceptWithoutResources(t *testing.T) {
	d := newDevice(t, nil)
	closed := must(d.NewPD())(t)
	check(t, "PD.Close", closed.Close())
	full := must(d.NewPD())(t)
	full.SetQuota(iwarp.Quota{QPs: 1})
	held := must(full.NewQP(nil))(t)
	used := must(must(d.NewPD())(t).NewQP(nil))(t)
	check(t, "QP.Close", used.Close())
	for _, c := range []struct {
		name string
		cfg  *iwarp.Config
		want error
	}{
		{name: "closed domain", cfg: &iwarp.Config{PD: closed}, want: net.ErrClosed},
		{name: "no QP left", cfg: &iwarp.Config{PD: full}, want: iwarp.ErrLimit},
		{name: "closed QP", cfg: &iwarp.Config{QP: used}, want: net.ErrClosed},
	} {
		if c.cfg.QP == nil {
			t.Run(c.name+", Listener", func(t *testing.T) {
				ln := must(iwarp.Listen("tcp", "127.0.0.1:0", c.cfg))(t)
				defer ln.Close()
				wantTurnedAway(t, c.want, func(ctx context.Context) (net.Conn, func() error) {
					nc := must(net.Dial("tcp", ln.Addr().String()))(t)
					return nc, func() error { _, err := ln.Accept(ctx); return err }
				})
			})
		}
		t.Run(c.name+", Server", func(t *testing.T) {
			wantTurnedAway(t, c.want, func(ctx context.Context) (net.Conn, func() error) {
				a, b := netPair(t, "tcp")
				return a, func() error { _, err := iwarp.Server(ctx, b, c.cfg); return err }
			})
		})
	}
	check(t, "QP.Close", held.Close())
}

func wantTurnedAway(t *testing.T, want error, connect func(ctx context.Context) (net.Conn, func() error)) {
	t.Helper()
	ctx := testContext(t)
	nc, accept := connect(ctx)
	defer nc.Close()
	done := make(chan error, 1)
	go func() { done <- accept() }()
	_, err := iwarp.Client(ctx, nc, nil)
	if rejected := (*iwarp.RejectError)(nil); !errors.As(err, &rejected) {
		t.Errorf("the peer has %v, want a rejection", err)
	}
	if err := <-done; !errors.Is(err, want) {
		t.Errorf("the program has %v, want %v", err, want)
	}
}

// When an operation has completed, or its region is closed, the library does not
// keep the memory alive: it may be a mapping that goes away, or large.
func TestMemoryIsForgotten(t *testing.T) {
	for _, kind := range []string{"tcp", "Pipe"} {
		t.Run(kind, func(t *testing.T) {
			a, b := qpPairOn(t, kind)
			forgotten(t, "Send", func() []weak.Pointer[byte] {
				data, buf := memory(40000), memory(40000)
				postRecv(t, b, buf)
				send(t, a, iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{data}})
				wantCompletion(t, b.RecvCQ())
				return pointers(data, buf)
			})
			forgotten(t, "Write and Read", func() []weak.Pointer[byte] {
				data, target := memory(40000), memory(40000)
				mr := must(b.PD().NewMR(target, iwarp.RemoteRead|iwarp.RemoteWrite, nil))(t)
				send(t, a, iwarp.SendWR{Op: iwarp.OpWrite, SG: [][]byte{data}, Remote: mr.Remote()})
				send(t, a, iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{data}, Remote: mr.Remote()})
				mr.Close()
				return pointers(data, target)
			})
			forgotten(t, "SRQ", func() []weak.Pointer[byte] {
				buf := memory(40000)
				srq := must(a.PD().NewSRQ(nil))(t)
				t.Cleanup(func() { _ = srq.Close() })
				check(t, "PostRecv", srq.PostRecv(iwarp.RecvWR{SG: [][]byte{buf}}))
				check(t, "Close", srq.Close())
				return pointers(buf)
			})
			forgotten(t, "window", func() []weak.Pointer[byte] {
				target := memory(40000)
				mr := must(a.PD().NewMR(target, 0, nil))(t)
				mw := must(a.NewMW())(t)
				t.Cleanup(func() { _ = mw.Close() })
				send(t, a, iwarp.SendWR{Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Length: 100}})
				mr.Close()
				return pointers(target)
			})
			// What a connection had in hand when it failed is not kept by what is left of it.
			forgotten(t, "failed connection", func() []weak.Pointer[byte] {
				data, sink, buf, target := memory(8<<20), memory(100), memory(100), memory(64<<20)
				mr := must(b.PD().NewMR(target, iwarp.RemoteRead, nil))(t)
				postRecv(t, b, buf)
				postRecv(t, a, buf)
				check(t, "PostSend", a.PostSend(
					iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{make([]byte, len(target))}, Remote: mr.Remote()},
					iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{sink}, Remote: mr.Remote()},
					iwarp.SendWR{Op: iwarp.OpWrite, SG: [][]byte{data}, Remote: mr.Remote()}))
				a.Conn().Abort()
				wantDone(t, b.Conn())
				mr.Close()
				for _, cq := range []*iwarp.CQ{a.SendCQ(), a.RecvCQ(), b.SendCQ(), b.RecvCQ()} {
					cq.Poll(make([]iwarp.Completion, 10))
				}
				return pointers(data, sink, buf, target)
			})
			runtime.KeepAlive(a)
			runtime.KeepAlive(b)
		})
	}
}

// memory is an allocation of its own, which the collector sees go.
func memory(n int) []byte { return make([]byte, n) }

func pointers(bufs ...[]byte) (p []weak.Pointer[byte]) {
	for _, b := range bufs {
		p = append(p, weak.Make(&b[0]))
	}
	return p
}

// forgotten fails if something still refers to the memory that f has used. f is a
// frame of its own, so that nothing of it is on the stack afterwards.
func forgotten(t *testing.T, what string, f func() []weak.Pointer[byte]) {
	t.Helper()
	for i, p := range f() {
		for range 10 {
			if runtime.GC(); p.Value() == nil {
				break
			}
		}
		if p.Value() != nil {
			t.Errorf("%s: memory %d is still referenced", what, i)
		}
	}
}

func qpPairOn(t *testing.T, kind string) (a, b *iwarp.QP) {
	t.Helper()
	a = must(must(newDevice(t, nil).NewPD())(t).NewQP(nil))(t)
	b = must(must(newDevice(t, nil).NewPD())(t).NewQP(nil))(t)
	x, y := netPair(t, kind)
	startOn(t, x, y, &iwarp.Config{QP: a}, &iwarp.Config{QP: b})
	return a, b
}

func postRecv(t *testing.T, qp *iwarp.QP, buf []byte) {
	t.Helper()
	check(t, "PostRecv", qp.PostRecv(iwarp.RecvWR{SG: [][]byte{buf}}))
}

// send posts a request and waits for its success.
func send(t *testing.T, qp *iwarp.QP, wr iwarp.SendWR) {
	t.Helper()
	check(t, "PostSend", qp.PostSend(wr))
	wantCompletion(t, qp.SendCQ())
}

func wantCompletion(t *testing.T, cq *iwarp.CQ) {
	t.Helper()
	if c := collect(t, cq, 1)[0]; c.Err != nil {
		t.Fatalf("completion %+v", c)
	}
}
