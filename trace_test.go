package iwarp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

// tally is a Trace that counts.
type tally struct {
	startups, failedStartups, posted, completed, failed, octets, sent, received, terminates, ends atomic.Int64
}

func (n *tally) trace() *iwarp.Trace {
	return &iwarp.Trace{
		Startup: func(s iwarp.StartupTrace) {
			if n.startups.Add(1); s.Err != nil {
				n.failedStartups.Add(1)
			}
		},
		Posted: func(_ *iwarp.Conn, wrs []iwarp.SendWR) { n.posted.Add(int64(len(wrs))) },
		Completed: func(_ *iwarp.Conn, list []iwarp.CompletionTrace) {
			n.completed.Add(int64(len(list)))
			for _, c := range list {
				n.octets.Add(int64(c.Length))
				if c.Err != nil {
					n.failed.Add(1)
				}
			}
		},
		FPDUs: func(_ *iwarp.Conn, f iwarp.FPDUTrace) {
			n.sent.Add(int64(f.Sent))
			n.received.Add(int64(f.Received))
		},
		Terminate: func(*iwarp.Conn, *iwarp.ProtocolError) { n.terminates.Add(1) },
		Ended:     func(*iwarp.Conn, error) { n.ends.Add(1) },
	}
}

// A Trace hears of everything, once, and may use the connection that it hears of.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var client, server tally
		ct := client.trace()
		inner := ct.Completed
		var once sync.Once
		ct.Completed = func(c *iwarp.Conn, list []iwarp.CompletionTrace) {
			inner(c, list)
			once.Do(func() { _ = c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpSend}) })
			_ = c.Stats()
		}
		x, y := pipe(nil)
		a, b := startOn(t, x, y, &iwarp.Config{Trace: ct}, &iwarp.Config{Trace: server.trace()})
		mr := must(b.NewMR(make([]byte, 64), iwarp.RemoteRead|iwarp.RemoteWrite))(t)
		check(t, "Write", a.RDMAWrite(t.Context(), make([]byte, 64), mr.Remote()))
		check(t, "Read", a.RDMARead(t.Context(), make([]byte, 32), mr.Remote()))
		check(t, "Send", a.Send(t.Context(), make([]byte, 5)))
		wantRecv(t, b, "")
		wantRecv(t, b, "\x00\x00\x00\x00\x00")
		_ = a.RDMARead(t.Context(), make([]byte, 8), iwarp.RemoteBuffer{STag: 1})
		wantDone(t, a)
		wantDone(t, b)
		synctest.Wait()
		for what, v := range map[string][2]int64{
			"startups": {client.startups.Load(), 1}, "posted": {client.posted.Load(), 5},
			"completed": {client.completed.Load(), 5},
			"failed":    {client.failed.Load(), 1}, "octets": {client.octets.Load(), 64 + 32 + 5 + 8},
			"terminates": {client.terminates.Load(), 1}, "ends": {client.ends.Load(), 1},
			"received by the server": {server.completed.Load(), 2},
			"the server's Terminate": {server.terminates.Load(), 1},
			"FPDUs to the server":    {client.sent.Load(), server.received.Load()},
			"FPDUs to the client":    {server.sent.Load(), client.received.Load()},
		} {
			if v[0] != v[1] {
				t.Errorf("%s: %d, want %d", what, v[0], v[1])
			}
		}
		if client.sent.Load() < 5 {
			t.Errorf("%d FPDUs", client.sent.Load())
		}
	})
}

// The functions of a Trace may use the connection that they hear of, in any way that does not
// wait; after its end also in those that do.
func TestTraceUsesItsConn(t *testing.T) {
	var n atomic.Int64
	post := func(c *iwarp.Conn) { _ = c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpSend, Unsignaled: true}) }
	tr := &iwarp.Trace{
		Startup: func(s iwarp.StartupTrace) { post(s.Conn) },
		Posted:  func(c *iwarp.Conn, _ []iwarp.SendWR) { _, _ = c.Stats(), c.ConnectionState() },
		Completed: func(c *iwarp.Conn, _ []iwarp.CompletionTrace) {
			if n.Add(1) < 50 {
				post(c)
			}
			_, _, _ = c.Err(), c.Context(), c.ShuttingDown()
		},
		FPDUs:     func(c *iwarp.Conn, _ iwarp.FPDUTrace) { _ = c.Stats() },
		Terminate: func(c *iwarp.Conn, _ *iwarp.ProtocolError) { _, _ = c.Stats(), c.Err() },
		Ended: func(c *iwarp.Conn, _ error) {
			c.Abort()
			_, _ = c.Close(), c.Release(context.Background())
		},
	}
	a, b := tcpPair(t, &iwarp.Config{Trace: tr}, &iwarp.Config{Trace: tr})
	for range 20 {
		check(t, "Send", a.Send(testContext(t), []byte("x")))
	}
	_ = a.RDMAWrite(testContext(t), make([]byte, 8), iwarp.RemoteBuffer{STag: 77})
	wantDone(t, a)
	wantDone(t, b)
}

// A device's totals outlive its connections.
func TestTotals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, nil)
		cfg := &iwarp.Config{Device: d, CloseWithPeer: true}
		for range 3 {
			a, b := pipePair(t, nil, cfg)
			check(t, "Send", a.Send(t.Context(), make([]byte, 100)))
			synctest.Wait()
			if n := d.Totals(); n.Live != 1 || len(d.Conns()) != 1 || d.Conns()[0] != b {
				t.Errorf("%+v", n)
			}
			check(t, "Close", a.Close())
			synctest.Wait()
		}
		a, b := pipePair(t, nil, cfg)
		_ = a.RDMAWrite(t.Context(), make([]byte, 8), iwarp.RemoteBuffer{STag: 5})
		wantDone(t, a)
		wantDone(t, b)
		a, b = pipePair(t, nil, cfg)
		b.Abort()
		wantDone(t, a)
		x, y := pipe(nil)
		_ = x.Close()
		if _, err := iwarp.Server(t.Context(), y, cfg); err == nil {
			t.Error("a startup without a peer")
		}
		got := d.Totals()
		if got.Connections != 5 || got.EndedGracefully != 3 || got.EndedInError != 2 || got.PayloadReceived < 300 ||
			got.Live != 0 || got.StartupsFailed != 1 || got.OctetsReceived < 300 || got.FPDUsReceived < 4 {
			t.Errorf("%+v", got)
		}
		if n := got.Errors[iwarp.ErrorKind{Code: protocol.DDPTaggedInvalidSTag}]; n != 1 || len(got.Errors) != 2 {
			t.Errorf("%+v", got.Errors)
		}
	})
}

// deafLLP is one over which no request ever comes.
type deafLLP struct{ iwarp.LLPConn }

func (deafLLP) LocalAddr() net.Addr  { return nil }
func (deafLLP) RemoteAddr() net.Addr { return nil }
func (deafLLP) Close() error         { return nil }

func (deafLLP) ReadRequest(context.Context, *mpa.RequestOptions) (iwarp.LLPRequest, error) {
	return nil, io.ErrUnexpectedEOF
}

// Each startup that does not make a connection is told of and counted once, whoever has
// ended it and however it was waited for.
func TestTraceOfStartupsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, nil)
		var n tally
		cfg := &iwarp.Config{Device: d, Trace: n.trace()}
		want := func(what string, failed, refused int64) {
			t.Helper()
			got := d.Totals()
			if int64(got.StartupsFailed) != failed || int64(got.StartupsRefused) != refused ||
				n.failedStartups.Load() != failed+refused || n.startups.Load() != failed+refused {
				t.Errorf("%s: %d failed, %d refused, want %d and %d; told of %d of %d", what, got.StartupsFailed,
					got.StartupsRefused, failed, refused, n.failedStartups.Load(), n.startups.Load())
			}
		}
		if _, err := iwarp.ServerRequestLLP(t.Context(), deafLLP{}, cfg); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("ServerRequestLLP: %v", err)
		}
		want("ServerRequestLLP", 1, 0)
		x, y := pipe(nil)
		_ = x.Close()
		if _, err := iwarp.ServerRequest(t.Context(), y, cfg); err == nil {
			t.Error("ServerRequest without a peer")
		}
		want("ServerRequest", 2, 0)
		x, y = pipe(nil)
		go func() { _, _ = iwarp.Client(t.Context(), x, nil) }()
		r := must(iwarp.ServerRequest(t.Context(), y, cfg))(t)
		nc, err := r.Reject(t.Context(), nil)
		check(t, "Reject", err)
		_ = nc.Close()
		_, _ = r.Reject(t.Context(), nil)
		synctest.Wait()
		want("Reject", 2, 1)
	})
}

// A connection without a Trace allocates nothing for one.
func TestNoTraceAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, trace := range map[string]*iwarp.Trace{"nil": nil, "empty": {}, "counting": new(tally).trace()} {
		a, b := tcpPair(t, &iwarp.Config{Trace: trace}, &iwarp.Config{Trace: trace})
		mr := must(b.NewMR(make([]byte, 64), iwarp.RemoteWrite))(t)
		buf := make([]byte, 64)
		wr := []iwarp.SendWR{{Op: iwarp.OpWrite, SG: [][]byte{buf}, Remote: mr.Remote(), Unsignaled: true}}
		post := func() {
			for errors.Is(a.QP().PostSend(wr...), iwarp.ErrSendQueueFull) {
			}
		}
		for range 1000 {
			post()
		}
		if n := testing.AllocsPerRun(2000, post); n >= 1 {
			t.Errorf("%s: %v allocations for a Write", name, n)
		}
	}
}
