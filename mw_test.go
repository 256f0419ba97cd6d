package iwarp_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// windowPair returns a client, and a server QP with a region that the client cannot
// reach but through windows.
func windowPair(t *testing.T) (client *iwarp.Conn, qp *iwarp.QP, mr *iwarp.MR, g *guarded) {
	t.Helper()
	qp = newQP(t, newDevice(t, nil), nil)
	client, _ = tcpPair(t, nil, &iwarp.Config{QP: qp})
	check(t, "PostRecv",
		qp.PostRecv(iwarp.RecvWR{ID: 1, SG: [][]byte{make([]byte, 64)}},
			iwarp.RecvWR{ID: 2, SG: [][]byte{make([]byte, 64)}}))
	g = newGuarded(4096)
	mr = must(qp.PD().NewMR(g.mem, 0, &iwarp.MROptions{QP: qp}))(t)
	t.Cleanup(func() { _ = mr.Close() })
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
	mw := must(qp.NewMW())(t)
	defer mw.Close()
	if mw.STag() != 0 || mw.Valid() {
		t.Error("a window without a binding has an STag")
	}
	c := post(t, qp,
		iwarp.SendWR{
			ID: 7, Op: iwarp.OpBind,
			Bind: &iwarp.Bind{MW: mw, MR: mr, Offset: 100, Length: 50, Access: iwarp.RemoteWrite, Base: 1000},
		})
	if c.ID != 7 || c.Op != iwarp.OpBind || c.Err != nil || !mw.Valid() || mw.STag() == 0 || mw.STag() == mr.STag() {
		t.Fatalf("bind: %+v, STag %v", c, mw.STag())
	}
	ctx := testContext(t)
	check(t, "Write", client.RDMAWrite(ctx, []byte("start"), mw.Remote()))
	check(t, "Write", client.RDMAWrite(ctx, []byte("end"), remoteAt(mw, 47)))
	check(t, "Send", client.Send(ctx, nil))
	collect(t, qp.RecvCQ(), 1)
	if string(g.mem[100:105]) != "start" || string(g.mem[147:150]) != "end" {
		t.Errorf("the region has %q and %q", g.mem[100:105], g.mem[147:150])
	}
	// A second bind replaces the first, under a new STag.
	old := mw.Remote()
	c = post(t, qp,
		iwarp.SendWR{
			Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Offset: 0, Length: 8, Access: iwarp.RemoteRead},
		})
	if c.Err != nil || mw.STag() == old.STag {
		t.Fatalf("second bind: %+v", c)
	}
	check(t, "Read", client.RDMARead(ctx, make([]byte, 8), mw.Remote()))
	_ = client.RDMAWrite(ctx, []byte("x"), old)
	wantDone(t, client)
	wantCode(t, client.Err(), protocol.DDPTaggedInvalidSTag, true)
	g.check(t)
}

// Each way past a window's edge is refused.
// Shows: RDMAP-8.1.1-03, SEC-6.2.1-01
func TestWindowBounds(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(c *iwarp.Conn, at iwarp.RemoteBuffer) error
		code protocol.Code
	}{
		{name: "before", do: func(c *iwarp.Conn, at iwarp.RemoteBuffer) error {
			at.TO--
			return c.RDMAWrite(t.Context(), []byte("x"), at)
		}, code: protocol.DDPTaggedBounds},
		{name: "beyond", do: func(c *iwarp.Conn, at iwarp.RemoteBuffer) error {
			at.Length = 0 // so that only the server objects
			return c.RDMAWrite(t.Context(), make([]byte, 51), at)
		}, code: protocol.DDPTaggedBounds},
		{name: "read of a window for writing", do: func(c *iwarp.Conn, at iwarp.RemoteBuffer) error {
			return c.RDMARead(t.Context(), make([]byte, 1), at)
		}, code: protocol.RDMAPAccess},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client, qp, mr, g := windowPair(t)
			mw := must(qp.NewMW())(t)
			defer mw.Close()
			post(t, qp,
				iwarp.SendWR{
					Op:   iwarp.OpBind,
					Bind: &iwarp.Bind{MW: mw, MR: mr, Offset: 100, Length: 50, Access: iwarp.RemoteWrite, Base: 9},
				})
			_ = tt.do(client, mw.Remote())
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
		{name: "OpInvalidate", end: func(t *testing.T, _ *iwarp.Conn, qp *iwarp.QP, mw *iwarp.MW, _ *iwarp.MR) {
			if c := post(t, qp, iwarp.SendWR{Op: iwarp.OpInvalidate, Invalidate: mw.STag()}); c.Err != nil {
				t.Fatal(c.Err)
			}
		}},
		{
			name: "Send with Invalidate",
			end: func(t *testing.T, client *iwarp.Conn, qp *iwarp.QP, mw *iwarp.MW, _ *iwarp.MR) {
				check(t, "SendInvalidate", client.SendInvalidate(testContext(t), nil, mw.STag()))
				if c := collect(t, qp.RecvCQ(), 1)[0]; c.Invalidated != mw.STag() {
					t.Fatalf("completion %+v", c)
				}
			},
		},
		{
			name: "MW.Close",
			end:  func(_ *testing.T, _ *iwarp.Conn, _ *iwarp.QP, mw *iwarp.MW, _ *iwarp.MR) { mw.Close() },
		},
		{
			name: "OpInvalidate of the region",
			end: func(t *testing.T, _ *iwarp.Conn, qp *iwarp.QP, _ *iwarp.MW, mr *iwarp.MR) {
				if c := post(t, qp, iwarp.SendWR{Op: iwarp.OpInvalidate, Invalidate: mr.STag()}); c.Err != nil {
					t.Fatal(c.Err)
				}
			},
		},
		{
			name: "Send with Invalidate of the region",
			end: func(t *testing.T, client *iwarp.Conn, qp *iwarp.QP, _ *iwarp.MW, mr *iwarp.MR) {
				check(t, "SendInvalidate", client.SendInvalidate(testContext(t), nil, mr.STag()))
				collect(t, qp.RecvCQ(), 1)
			},
		},
		{name: "MR.SetAccess, none", end: func(t *testing.T, _ *iwarp.Conn, _ *iwarp.QP, _ *iwarp.MW, mr *iwarp.MR) {
			check(t, "SetAccess", mr.SetAccess(0))
		}},
		{
			name: "MR.Rekey",
			end: func(_ *testing.T, _ *iwarp.Conn, _ *iwarp.QP, _ *iwarp.MW,
				mr *iwarp.MR,
			) {
				mr.Rekey(uint8(mr.STag()))
			},
		},
		{
			name: "MR.Invalidate",
			end:  func(_ *testing.T, _ *iwarp.Conn, _ *iwarp.QP, _ *iwarp.MW, mr *iwarp.MR) { mr.Invalidate() },
		},
		{
			name: "MR.Close",
			end:  func(_ *testing.T, _ *iwarp.Conn, _ *iwarp.QP, _ *iwarp.MW, mr *iwarp.MR) { mr.Close() },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client, qp, mr, g := windowPair(t)
			mw := must(qp.NewMW())(t)
			defer mw.Close()
			post(t, qp,
				iwarp.SendWR{
					Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Length: 50, Access: iwarp.RemoteWrite},
				})
			at := mw.Remote()
			tt.end(t, client, qp, mw, mr)
			if mw.Valid() {
				t.Error("the window is valid still")
			}
			_ = client.RDMAWrite(testContext(t), []byte("x"), at)
			wantDone(t, client)
			wantCode(t, client.Err(), protocol.DDPTaggedInvalidSTag, true)
			g.checkUntouched(t)
		})
	}
}

// A bind that cannot be is refused when it is posted, or completes in error; the
// connection goes on.
// Shows: RDMAP-8.1.1-01, RDMAP-8.1.1-03, SEC-6.2.1-01
func TestWindowMisuse(t *testing.T) {
	client, qp, mr, _ := windowPair(t)
	mw := must(qp.NewMW())(t)
	other := newQP(t, newDevice(t, nil), nil)
	foreign := must(other.PD().NewMR(make([]byte, 8), 0, nil))(t)
	foreignMW := must(other.NewMW())(t)
	bound := must(qp.PD().NewMR(make([]byte, 8), 0, &iwarp.MROptions{QP: must(qp.PD().NewQP(nil))(t)}))(t)
	closed := must(qp.PD().NewMR(make([]byte, 8), 0, nil))(t)
	closed.Close()
	for name, b := range map[string]*iwarp.Bind{
		"none": nil, "no region": {MW: mw}, "no window": {MR: mr},
		"offset": {MW: mw, MR: mr, Offset: 4097}, "length": {MW: mw, MR: mr, Offset: 4000, Length: 97},
		"overflow":             {MW: mw, MR: mr, Offset: 1, Length: ^uint64(0)},
		"region of another QP": {MW: mw, MR: bound, Length: 8}, "region that is closed": {MW: mw, MR: closed},
		"last octet of all":    {MW: mw, MR: mr, Length: 1, Base: ^uint64(0)},
		"unknown right":        {MW: mw, MR: mr, Access: 0x80},
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
	if c := post(t, qp,
		iwarp.SendWR{
			Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Length: 8, Access: iwarp.RemoteWrite},
		}); c.Err == nil || mw.Valid() {
		t.Errorf("bind to an invalid region: %+v, valid %v", c, mw.Valid())
	}
	mw.Close()
	mw.Close()
	if err := qp.PostSend(iwarp.SendWR{
		Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr},
	}); !errors.Is(err, iwarp.ErrInvalidWR) {
		t.Errorf("closed window: %v", err)
	}
	check(t, "Send", client.Send(testContext(t), []byte("all is well")))
	collect(t, qp.RecvCQ(), 1)
}

// The STag is known when the bind is posted, so that the Send behind it in the
// queue can carry it.
func TestWindowThenSend(t *testing.T) {
	client, qp, mr, g := windowPair(t)
	mw := must(qp.NewMW())(t)
	defer mw.Close()
	check(t, "Send", client.Send(testContext(t), nil)) // the server may speak from now on
	collect(t, qp.RecvCQ(), 1)
	check(t, "PostSend",
		qp.PostSend(iwarp.SendWR{
			Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Length: 8, Access: iwarp.RemoteWrite},
		}))
	at := mw.Remote()
	check(t, "PostSend", qp.PostSend(iwarp.SendWR{Op: iwarp.OpSend}))
	recv(t, client)
	check(t, "Write", client.RDMAWrite(testContext(t), []byte("good"), at))
	check(t, "Send", client.Send(testContext(t), nil))
	collect(t, qp.RecvCQ(), 1)
	if string(g.mem[:4]) != "good" {
		t.Errorf("the region has %q", g.mem[:4])
	}
}

// heldQP returns a server's QP whose send queue stands still: the client has not
// sent its first message, and until then the server may not (RFC 5044 section
// 7.1.2). That message is what open sends.
func heldQP(t *testing.T, depth int) (qp *iwarp.QP, open func()) {
	t.Helper()
	qp = newQP(t, newDevice(t, nil), &iwarp.QPConfig{SendDepth: depth})
	check(t, "PostRecv", qp.PostRecv(iwarp.RecvWR{}))
	client, _ := tcpPair(t, &iwarp.Config{MPA: iwarp.MPAConfig{RTR: iwarp.RTRNone}}, &iwarp.Config{QP: qp})
	return qp, func() { check(t, "Send", client.Send(testContext(t), nil)) }
}

// A right that a region loses its windows lose; the rest stays.
// Shows: RDMAP-8.1.1-05, DDP-8.3.1-04
func TestWindowLosesRight(t *testing.T) {
	client, qp, mr, g := windowPair(t)
	mw := must(qp.NewMW())(t)
	defer mw.Close()
	post(t, qp,
		iwarp.SendWR{
			Op:   iwarp.OpBind,
			Bind: &iwarp.Bind{MW: mw, MR: mr, Length: 50, Access: iwarp.RemoteWrite | iwarp.RemoteRead},
		})
	check(t, "SetAccess", mr.SetAccess(iwarp.RemoteRead))
	check(t, "Read", client.RDMARead(testContext(t), make([]byte, 8), mw.Remote()))
	_ = client.RDMAWrite(testContext(t), []byte("x"), mw.Remote())
	wantDone(t, client)
	wantCode(t, client.Err(), protocol.DDPTaggedInvalidSTag, true)
	g.checkUntouched(t)
}

// A bind that cannot be posted leaves its window as it was.
func TestBindRefused(t *testing.T) {
	qp, open := heldQP(t, 1)
	mr := must(qp.PD().NewMR(make([]byte, 64), 0, nil))(t)
	mw := must(qp.NewMW())(t)
	bind := iwarp.SendWR{Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Length: 64, Access: iwarp.RemoteWrite}}
	check(t, "PostSend", qp.PostSend(bind))
	was := mw.STag()
	if err := qp.PostSend(bind); !errors.Is(err, iwarp.ErrSendQueueFull) {
		t.Fatalf("a second bind with a depth of 1: %v", err)
	}
	if mw.STag() != was {
		t.Errorf("STag %v, and %v after a bind that was refused", was, mw.STag())
	}
	open()
	if c := collect(t, qp.SendCQ(), 1)[0]; c.Err != nil || !mw.Valid() || mw.STag() != was {
		t.Errorf("bind: %v, STag %v, valid: %v", c.Err, mw.STag(), mw.Valid())
	}
	mr.Close()
	if mw.Valid() {
		t.Error("a window is valid when its region is closed")
	}
	mw.Close()
}

// The struct of a bind is the program's again when it is posted.
func TestBindIsCopied(t *testing.T) {
	qp, open := heldQP(t, 2)
	mr := must(qp.PD().NewMR(make([]byte, 64), 0, nil))(t)
	defer mr.Close()
	one, two := must(qp.NewMW())(t), must(qp.NewMW())(t)
	defer one.Close()
	defer two.Close()
	bind := &iwarp.Bind{MW: one, MR: mr, Length: 64, Access: iwarp.RemoteWrite}
	check(t, "PostSend", qp.PostSend(iwarp.SendWR{Op: iwarp.OpBind, Bind: bind}))
	bind.MW = two
	check(t, "PostSend", qp.PostSend(iwarp.SendWR{Op: iwarp.OpBind, Bind: bind}))
	*bind = iwarp.Bind{}
	open()
	for i, c := range collect(t, qp.SendCQ(), 2) {
		check(t, fmt.Sprintf("bind %d", i+1), c.Err)
	}
	if !one.Valid() || !two.Valid() {
		t.Errorf("the windows are valid: %v and %v", one.Valid(), two.Valid())
	}
}

// A region keeps nothing of windows that once were bound to it.
func TestWindowForgotten(t *testing.T) {
	qp, open := heldQP(t, 2)
	first := must(qp.PD().NewMR(make([]byte, 64), 0, nil))(t)
	second := must(qp.PD().NewMR(make([]byte, 64), 0, nil))(t)
	mw := must(qp.NewMW())(t)
	for _, mr := range []*iwarp.MR{first, second} {
		check(t, "PostSend", qp.PostSend(iwarp.SendWR{Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Length: 64}}))
	}
	open()
	collect(t, qp.SendCQ(), 2)
	mw.Close()
	gone := weak.Make(mw)
	mw = nil
	for range 3 {
		runtime.GC()
	}
	if gone.Value() != nil {
		t.Error("a closed window is still referred to")
	}
	first.Close()
	second.Close()
}

// Binds that wait in the queue count to a quota of regions: it bounds the STags that
// there are, and is whole again when they have had their turn.
// Shows: DDP-8.3.2-02, RDMAP-8.1.2-01
func TestWindowQuota(t *testing.T) {
	qp, open := heldQP(t, 100)
	pd := qp.PD()
	pd.SetQuota(iwarp.Quota{MRs: 3})
	mr := must(pd.NewMR(make([]byte, 64), 0, nil))(t)
	mw := must(qp.NewMW())(t)
	bind := iwarp.SendWR{Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Length: 64, Access: iwarp.RemoteWrite}}
	for i := range 3 { // the binding, the next, and the place that the quota has left
		check(t, fmt.Sprintf("bind %d", i+1), qp.PostSend(bind))
	}
	was := mw.STag()
	for range 10 {
		if err := qp.PostSend(bind); !errors.Is(err, iwarp.ErrLimit) {
			t.Fatalf("a bind beyond the quota: %v", err)
		}
	}
	if mw.STag() != was || pd.Use().MRs != 3 {
		t.Errorf("STag %v, then %v; %d regions and windows in use", was, mw.STag(), pd.Use().MRs)
	}
	open()
	for _, c := range collect(t, qp.SendCQ(), 3) {
		check(t, "bind", c.Err)
	}
	if n := pd.Use().MRs; n != 2 {
		t.Errorf("%d regions and windows in use after the binds' turn, want 2", n)
	}
	for range 100 { // a quota that is full hinders no bind in its turn
		send(t, qp, bind)
	}
	mw.Close()
	mr.Close()
	if n := pd.Use().MRs; n != 0 {
		t.Errorf("%d regions and windows in use at the end", n)
	}
}

// A window's STag is known when its bind is posted, and works from the bind's turn
// on: not while a Read that the bind waits for has no Response.
// Shows: RDMAP-8.1.1-04
func TestWindowBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, p := clientOfPeer(t, nil)
		g := newGuarded(100)
		mr := must(v.NewMR(g.mem, 0))(t)
		defer mr.Close()
		mw := must(v.QP().NewMW())(t)
		defer mw.Close()
		check(t, "PostSend", v.QP().PostSend(
			iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{make([]byte, 1)}},
			iwarp.SendWR{
				Op: iwarp.OpBind, Fence: true,
				Bind: &iwarp.Bind{MW: mw, MR: mr, Length: 100, Access: iwarp.RemoteWrite},
			}))
		p.Frame("the Read Request")
		if mw.STag() == 0 || mw.Valid() {
			t.Errorf("STag %v, valid %t", mw.STag(), mw.Valid())
		}
		p.Send(iwarptest.Write(uint32(mw.STag()), 0, []byte("early")))
		p.WantTerminate("before the bind's turn", uint16(protocol.DDPTaggedInvalidSTag))
		p.WantEOF("the end")
		p.CloseWrite()
		wantDone(t, v)
		g.checkUntouched(t)
	})
}
