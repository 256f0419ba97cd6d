package iwarp_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
)

// The end of a connection is a completion, once, behind all others of the QP, with the
// connection's error and the QP's context; however it ends.
func TestEndAsCompletion(t *testing.T) {
	type session struct{ name string }
	for _, tt := range []struct {
		name     string
		end      func(a, b *iwarp.Conn)
		graceful bool
	}{
		{name: "graceful", end: func(a, b *iwarp.Conn) { go b.Close(); _ = a.Close() }, graceful: true},
		{name: "peer aborts", end: func(a, _ *iwarp.Conn) { a.Abort() }},
		{name: "own abort", end: func(_, b *iwarp.Conn) { b.Abort() }},
		{name: "QP.Close", end: func(_, b *iwarp.Conn) { _ = b.QP().Close() }},
	} {
		for _, srq := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := newDevice(t, nil)
					pd := must(d.NewPD())(t)
					cq := must(d.NewCQ(20))(t)
					s := &session{"one"}
					cfg := &iwarp.QPConfig{
						SendCQ: cq, RecvCQ: cq, SendDepth: 4, RecvDepth: 4, Context: s, NotifyEnd: true,
					}
					posted := 3
					if srq {
						cfg.SRQ = must(pd.NewSRQ(nil))(t)
						posted = 0 // those of an SRQ stay there
					}
					qp := must(pd.NewQP(cfg))(t)
					if !srq {
						check(t, "PostRecv", qp.PostRecv(iwarp.RecvWR{ID: 1}, iwarp.RecvWR{ID: 2}, iwarp.RecvWR{ID: 3}))
					}
					x, y := pipe(nil)
					a, b := startOn(t, x, y, nil, &iwarp.Config{QP: qp})
					synctest.Wait()
					check(t, "PostSend", qp.PostSend(iwarp.SendWR{ID: 9, Op: iwarp.OpWrite}))
					tt.end(a, b)
					wantDone(t, b)
					synctest.Wait()
					var all [20]iwarp.Completion
					n := cq.Poll(all[:])
					if n != posted+2 {
						t.Fatalf("%d completions, want %d: %+v", n, posted+2, all[:n])
					}
					for i, c := range all[:n] {
						if c.Context != s || c.QP != qp {
							t.Errorf("completion %d is of %v", i, c.Context)
						}
						if (c.Op == iwarp.OpEnd) != (i == n-1) {
							t.Errorf("completion %d of %d is of %v", i, n, c.Op)
						}
					}
					last := all[n-1]
					if tt.graceful != (last.Err == nil) || !errors.Is(last.Err, b.Err()) {
						t.Errorf("the end has error %v, the connection %v", last.Err, b.Err())
					}
					if last.Op.String() != "end of the connection" {
						t.Error(last.Op)
					}
					check(t, "QP.Close", qp.Close())
					if n := cq.Poll(all[:]); n != 0 {
						t.Errorf("%d completions after the end", n)
					}
					if srq {
						check(t, "SRQ.Close", cfg.SRQ.Close())
					}
					check(t, "PD.Close", pd.Close())
				})
			})
		}
	}
}

// The entry for the end is one of the CQ's, asked for when the QP is made and given back
// with a QP that was never connected.
func TestEndTakesAnEntry(t *testing.T) {
	d := newDevice(t, nil)
	pd := must(d.NewPD())(t)
	cq := must(d.NewCQ(1))(t)
	cfg := &iwarp.QPConfig{RecvCQ: cq, NotifyEnd: true}
	for range 3 {
		qp := must(pd.NewQP(cfg))(t)
		if _, err := pd.NewQP(cfg); !errors.Is(err, iwarp.ErrCQFull) {
			t.Errorf("a second QP: %v", err)
		}
		check(t, "Close", qp.Close())
		check(t, "Close", qp.Close())
	}
	// A CQ of its own has room for it beside all receives.
	own := must(pd.NewQP(&iwarp.QPConfig{RecvDepth: 2, NotifyEnd: true}))(t)
	check(t, "PostRecv", own.PostRecv(iwarp.RecvWR{}, iwarp.RecvWR{}))
	check(t, "Close", own.Close())
	check(t, "PD.Close", pd.Close())
}

// One goroutine, one CQ and one SRQ serve a thousand clients, from their first message to
// their end.
func TestEventLoopOfAThousandClients(t *testing.T) {
	clients := 1000
	if testing.Short() || raceEnabled {
		clients = 200
	}
	synctest.Test(t, func(t *testing.T) {
		type session struct{ asked, answered int }
		d := newDevice(t, nil)
		pd := must(d.NewPD())(t)
		cq := must(d.NewCQ(8 * clients))(t)
		srq := must(pd.NewSRQ(&iwarp.SRQConfig{Depth: 2 * clients}))(t)
		bufs := make([][]byte, 2*clients)
		for i := range bufs {
			bufs[i] = make([]byte, 16)
			check(t, "PostRecv", srq.PostRecv(iwarp.RecvWR{ID: uint64(i), SG: [][]byte{bufs[i]}}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		served := 0
		loop := make(chan struct{})
		go func() {
			defer close(loop)
			for c := range cq.All(ctx) {
				s, ok := c.Context.(*session)
				switch {
				case !ok:
					t.Error("no session")
				case c.Op == iwarp.OpEnd:
					if c.Err != nil || s.asked != 3 || s.answered != 3 {
						t.Errorf("end: %v, %+v", c.Err, *s)
					}
					if err := c.QP.Close(); err != nil {
						t.Error(err)
					}
					if served++; served == clients {
						return
					}
				case c.Err != nil:
					t.Error(c.Err)
				case c.Op == iwarp.OpRecv:
					s.asked++
					reply := append([]byte("re: "), bufs[c.ID][:c.Length]...)
					if err := c.QP.PostSend(iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{reply}}); err != nil {
						t.Error(err)
					}
					if err := srq.PostRecv(iwarp.RecvWR{ID: c.ID, SG: [][]byte{bufs[c.ID]}}); err != nil {
						t.Error(err)
					}
				default:
					s.answered++
				}
			}
		}()
		var wg sync.WaitGroup
		for range clients {
			qp := must(pd.NewQP(&iwarp.QPConfig{
				SendCQ: cq, RecvCQ: cq, SRQ: srq, SendDepth: 4, Context: new(session), NotifyEnd: true,
			}))(t)
			wg.Go(func() {
				x, y := pipe(nil)
				go func() { _, _ = iwarp.Server(ctx, y, &iwarp.Config{QP: qp, CloseWithPeer: true, IRD: 1, ORD: 1}) }()
				c, err := iwarp.Client(ctx, x, &iwarp.Config{RecvDepth: 4, IRD: 1, ORD: 1})
				if err != nil {
					t.Error(err)
					return
				}
				buf := make([]byte, 16)
				for range 3 {
					_ = c.Send(ctx, []byte("question"))
					m, err := c.Recv(ctx, buf)
					if err != nil || string(buf[:m.Length]) != "re: question" {
						t.Errorf("%v %q", err, buf[:m.Length])
					}
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		<-loop
		check(t, "SRQ.Close", srq.Close())
		check(t, "PD.Close", pd.Close())
	})
}

// All ends with its context and with its queue, and takes no completion that it does not
// hand out.
func TestAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, nil)
		cq := must(d.NewCQ(10))(t)
		qp := newQP(t, d, &iwarp.QPConfig{RecvCQ: cq, RecvDepth: 4, Context: 7})
		check(t, "PostRecv", qp.PostRecv(iwarp.RecvWR{ID: 0}, iwarp.RecvWR{ID: 1}, iwarp.RecvWR{ID: 2}))
		check(t, "Close", qp.Close()) // which flushes them
		for i := range 3 {
			for c := range cq.All(t.Context()) {
				if c.ID != uint64(i) || c.Context != 7 {
					t.Errorf("completion %d has ID %d", i, c.ID)
				}
				break
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for c := range cq.All(ctx) {
			t.Errorf("a completion out of nothing: %+v", c)
		}
		go func() { time.Sleep(time.Second); _ = cq.Close() }()
		for c := range cq.All(t.Context()) {
			t.Errorf("a completion out of nothing: %+v", c)
		}
		if ctx.Err() == nil {
			t.Error("it did not wait")
		}
		var none *iwarp.CQ
		for range none.All(t.Context()) {
			t.Error("a queue that nobody has made")
		}
	})
}

// What happens to the SRQs and QPs of a device arrives at one place; a program that does
// not look, or has closed its channel, loses events and nothing else.
func TestDeviceEvents(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lost  uint64
		spoil func(chan iwarp.Event)
	}{
		{name: "read", lost: 0, spoil: func(chan iwarp.Event) {}},
		{name: "full", lost: 2, spoil: func(c chan iwarp.Event) {
			for len(c) < cap(c) {
				c <- iwarp.Event{}
			}
		}},
		{name: "closed", lost: 2, spoil: func(c chan iwarp.Event) { close(c) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				events := make(chan iwarp.Event, 4)
				d := newDevice(t, &iwarp.DeviceConfig{Events: events})
				pd := must(d.NewPD())(t)
				srq := must(pd.NewSRQ(nil))(t)
				check(t, "PostRecv", srq.PostRecv(iwarp.RecvWR{SG: [][]byte{make([]byte, 8)}}, iwarp.RecvWR{}))
				qp := must(pd.NewQP(&iwarp.QPConfig{SRQ: srq}))(t)
				x, y := pipe(nil)
				a, b := startOn(t, x, y, nil, &iwarp.Config{QP: qp})
				srq.Arm(2)
				tt.spoil(events)
				check(t, "Send", a.Send(t.Context(), []byte("x")))
				synctest.Wait()
				if tt.lost == 0 {
					if e := <-events; e.Kind != iwarp.EventSRQLimit || e.SRQ != srq || e.QP != nil {
						t.Errorf("%v: %+v", e.Kind, e)
					}
				}
				collect(t, qp.RecvCQ(), 1)
				go func() { _ = b.Close() }()
				check(t, "Close", a.Close())
				wantDone(t, b)
				if tt.lost == 0 {
					if e := <-events; e.Kind != iwarp.EventLastWQE || e.QP != qp || e.SRQ != nil {
						t.Errorf("%v: %+v", e.Kind, e)
					}
				}
				check(t, "QP.Close", qp.Close())
				if got := d.Use().EventsLost; got != tt.lost {
					t.Errorf("%d events are lost, want %d", got, tt.lost)
				}
				if _, err := a.Recv(t.Context(), nil); !errors.Is(err, io.EOF) {
					t.Error(err)
				}
			})
		})
	}
	for k, want := range map[iwarp.EventKind]string{
		iwarp.EventSRQLimit: "SRQ limit reached", iwarp.EventLastWQE: "last WQE reached", 9: "event 9",
	} {
		if k.String() != want {
			t.Errorf("%q, want %q", k, want)
		}
	}
}
