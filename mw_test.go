package iwarp_test

import (
	"errors"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/protocol"
)

// windowPair gives a client, and a server QP with a region that the client cannot
// reach but through windows.
func windowPair(t *testing.T) (client *iwarp.Conn, qp *iwarp.QP, mr *iwarp.MR, g *guarded) {
	t.Helper()
	qp = newQP(t, newDevice(t, nil), nil)
	client, _ = tcpPair(t, nil, &iwarp.Config{QP: qp})
	check(t, "PostRecv", qp.PostRecv(iwarp.RecvWR{ID: 1, SG: [][]byte{make([]byte, 64)}}, iwarp.RecvWR{ID: 2, SG: [][]byte{make([]byte, 64)}}))
	g = newGuarded(4096)
	mr = must(qp.PD().RegisterMR(g.mem, 0, nil))(t)
	t.Cleanup(mr.Close)
	return client, qp, mr, g
}

func post(t *testing.T, qp *iwarp.QP, wr iwarp.SendWR) iwarp.Completion {
	t.Helper()
	check(t, "PostSend", qp.PostSend(wr))
	return collect(t, qp.SendCQ(), 1)[0]
}

// A window opens a part of a region for the time that it is bound.
// Shows: RDMAP-8.1.1-03, RDMAP-8.1.1-04, SEC-6.2.1-01
func TestWindow(t *testing.T) {
	client, qp, mr, g := windowPair(t)
	mw := must(qp.AllocMW())(t)
	defer mw.Close()
	if mw.STag() != 0 || mw.Valid() {
		t.Error("a window without a binding has an STag")
	}
	c := post(t, qp, iwarp.SendWR{ID: 7, Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Offset: 100, Length: 50, Access: iwarp.RemoteWrite, Base: 1000}})
	if c.ID != 7 || c.Op != iwarp.OpBind || c.Err != nil || !mw.Valid() || mw.STag() == 0 || mw.STag() == mr.STag() {
		t.Fatalf("bind: %+v, STag %v", c, mw.STag())
	}
	ctx := testContext(t)
	check(t, "Write", client.Write(ctx, []byte("start"), mw.Remote(0)))
	check(t, "Write", client.Write(ctx, []byte("end"), mw.Remote(47)))
	check(t, "Send", client.Send(ctx, nil))
	collect(t, qp.RecvCQ(), 1)
	if string(g.mem[100:105]) != "start" || string(g.mem[147:150]) != "end" {
		t.Errorf("the region has %q and %q", g.mem[100:105], g.mem[147:150])
	}
	// A second bind replaces the first, under a new STag.
	old := mw.Remote(0)
	c = post(t, qp, iwarp.SendWR{Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Offset: 0, Length: 8, Access: iwarp.RemoteRead}})
	if c.Err != nil || mw.STag() == old.STag {
		t.Fatalf("second bind: %+v", c)
	}
	check(t, "Read", client.Read(ctx, make([]byte, 8), mw.Remote(0)))
	_ = client.Write(ctx, []byte("x"), old)
	wantDone(t, client)
	wantCode(t, client.Err(), protocol.DDPTaggedInvalidSTag, true)
	g.check(t)
}

// Each way past a window's edge is refused.
func TestWindowBounds(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(c *iwarp.Conn, at iwarp.RemoteBuffer) error
		code protocol.Code
	}{
		{"before", func(c *iwarp.Conn, at iwarp.RemoteBuffer) error {
			at.TO--
			return c.Write(t.Context(), []byte("x"), at)
		}, protocol.DDPTaggedBounds},
		{"beyond", func(c *iwarp.Conn, at iwarp.RemoteBuffer) error {
			return c.Write(t.Context(), make([]byte, 51), at)
		}, protocol.DDPTaggedBounds},
		{"read of a window for writing", func(c *iwarp.Conn, at iwarp.RemoteBuffer) error {
			return c.Read(t.Context(), make([]byte, 1), at)
		}, protocol.RDMAPAccess},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client, qp, mr, g := windowPair(t)
			mw := must(qp.AllocMW())(t)
			defer mw.Close()
			post(t, qp, iwarp.SendWR{Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Offset: 100, Length: 50, Access: iwarp.RemoteWrite, Base: 9}})
			_ = tt.do(client, mw.Remote(0))
			wantDone(t, client)
			wantCode(t, client.Err(), tt.code, true)
			g.checkUntouched(t)
		})
	}
}

// A window ends with its work request, with the peer's, with itself and with its
// region; afterwards nobody reaches the memory.
// Shows: RDMAP-8.1.1-06, DDP-8.3.1-05, SEC-6.2.2-02
func TestWindowEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, client *iwarp.Conn, qp *iwarp.QP, mw *iwarp.MW, mr *iwarp.MR)
	}{
		{"OpInvalidate", func(t *testing.T, _ *iwarp.Conn, qp *iwarp.QP, mw *iwarp.MW, _ *iwarp.MR) {
			if c := post(t, qp, iwarp.SendWR{Op: iwarp.OpInvalidate, Invalidate: mw.STag()}); c.Err != nil {
				t.Fatal(c.Err)
			}
		}},
		{"Send with Invalidate", func(t *testing.T, client *iwarp.Conn, qp *iwarp.QP, mw *iwarp.MW, _ *iwarp.MR) {
			check(t, "SendInvalidate", client.SendInvalidate(testContext(t), nil, mw.STag()))
			if c := collect(t, qp.RecvCQ(), 1)[0]; c.Invalidated != mw.STag() {
				t.Fatalf("completion %+v", c)
			}
		}},
		{"MW.Close", func(_ *testing.T, _ *iwarp.Conn, _ *iwarp.QP, mw *iwarp.MW, _ *iwarp.MR) { mw.Close() }},
		{"MR.Invalidate", func(_ *testing.T, _ *iwarp.Conn, _ *iwarp.QP, _ *iwarp.MW, mr *iwarp.MR) { mr.Invalidate() }},
		{"MR.Close", func(_ *testing.T, _ *iwarp.Conn, _ *iwarp.QP, _ *iwarp.MW, mr *iwarp.MR) { mr.Close() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client, qp, mr, g := windowPair(t)
			mw := must(qp.AllocMW())(t)
			defer mw.Close()
			post(t, qp, iwarp.SendWR{Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Length: 50, Access: iwarp.RemoteWrite}})
			at := mw.Remote(0)
			tt.end(t, client, qp, mw, mr)
			if mw.Valid() {
				t.Error("the window is valid still")
			}
			_ = client.Write(testContext(t), []byte("x"), at)
			wantDone(t, client)
			wantCode(t, client.Err(), protocol.DDPTaggedInvalidSTag, true)
			g.checkUntouched(t)
		})
	}
}

// A bind that cannot be is refused when it is posted, or completes in error; the
// connection goes on.
func TestWindowMisuse(t *testing.T) {
	client, qp, mr, _ := windowPair(t)
	mw := must(qp.AllocMW())(t)
	other := newQP(t, newDevice(t, nil), nil)
	foreign := must(other.PD().RegisterMR(make([]byte, 8), 0, nil))(t)
	foreignMW := must(other.AllocMW())(t)
	for name, b := range map[string]*iwarp.Bind{
		"none": nil, "no region": {MW: mw}, "no window": {MR: mr},
		"offset": {MW: mw, MR: mr, Offset: 4097}, "length": {MW: mw, MR: mr, Offset: 4000, Length: 97},
		"overflow":             {MW: mw, MR: mr, Offset: 1, Length: ^uint64(0)},
		"region of another PD": {MW: mw, MR: foreign}, "window of another QP": {MW: foreignMW, MR: mr},
	} {
		if err := qp.PostSend(iwarp.SendWR{Op: iwarp.OpBind, Bind: b}); !errors.Is(err, iwarp.ErrInvalidWR) {
			t.Errorf("%s: %v", name, err)
		}
	}
	foreignMW.Close()
	foreign.Close()
	check(t, "close", other.Close())
	mr.Invalidate()
	if c := post(t, qp, iwarp.SendWR{Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Length: 8, Access: iwarp.RemoteWrite}}); c.Err == nil || mw.Valid() {
		t.Errorf("bind to an invalid region: %+v, valid %v", c, mw.Valid())
	}
	mw.Close()
	mw.Close()
	if err := qp.PostSend(iwarp.SendWR{Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr}}); !errors.Is(err, iwarp.ErrInvalidWR) {
		t.Errorf("closed window: %v", err)
	}
	check(t, "Send", client.Send(testContext(t), []byte("all is well")))
	collect(t, qp.RecvCQ(), 1)
}

// The STag is known when the bind is posted, so that the Send behind it in the
// queue can carry it.
func TestWindowThenSend(t *testing.T) {
	client, qp, mr, g := windowPair(t)
	mw := must(qp.AllocMW())(t)
	defer mw.Close()
	check(t, "Send", client.Send(testContext(t), nil)) // the server may speak from now on
	collect(t, qp.RecvCQ(), 1)
	check(t, "PostSend", qp.PostSend(iwarp.SendWR{Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Length: 8, Access: iwarp.RemoteWrite}}))
	at := mw.Remote(0)
	check(t, "PostSend", qp.PostSend(iwarp.SendWR{Op: iwarp.OpSend}))
	recv(t, client)
	check(t, "Write", client.Write(testContext(t), []byte("good"), at))
	check(t, "Send", client.Send(testContext(t), nil))
	collect(t, qp.RecvCQ(), 1)
	if string(g.mem[:4]) != "good" {
		t.Errorf("the region has %q", g.mem[:4])
	}
}
