package iwarp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// memListener is a net.Listener in memory, whose connections come from addresses of
// the test's choice, and which may run out of descriptors.
type memListener struct {
	in     chan net.Conn
	closed chan struct{}
	open   atomic.Int32 // connections of this side that are open
	most   atomic.Int32 // of them; 0: any number
}

func newMemListener() *memListener {
	return &memListener{in: make(chan net.Conn, 10000), closed: make(chan struct{})}
}

func (l *memListener) Accept() (net.Conn, error) {
	if most := l.most.Load(); most > 0 && l.open.Load() >= most {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept", syscall.EMFILE)}
	}
	select {
	case c := <-l.in:
		l.open.Add(1)
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error   { close(l.closed); return nil }
func (l *memListener) Addr() net.Addr { return iwarptest.Addr("memory") }

// memConn is the listener's end of a connection from some address.
type memConn struct {
	*iwarptest.Conn
	l      *memListener
	from   net.Addr
	closed atomic.Bool
}

func (c *memConn) RemoteAddr() net.Addr { return c.from }

func (c *memConn) Close() error {
	if !c.closed.Swap(true) {
		c.l.open.Add(-1)
	}
	return c.Conn.Close()
}

// dialed is the other end of a memConn.
type dialed struct {
	net.Conn
	server *memConn
}

// dial connects from an address.
func (l *memListener) dial(from string) dialed {
	a, b := iwarptest.Pipe(nil)
	c := &memConn{Conn: b, l: l, from: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 1))}
	l.in <- c
	return dialed{a, c}
}

// wantGone checks which of some connections the listener has closed: a letter for
// each, x for closed.
func wantGone(t *testing.T, why string, cs []dialed, want string) {
	t.Helper()
	synctest.Wait()
	got := ""
	for _, c := range cs {
		if c.server.closed.Load() {
			got += "x"
		} else {
			got += "."
		}
	}
	if got != want {
		t.Errorf("%s: closed %s, want %s", why, got, want)
	}
}

// pendingTest runs f with a listener in virtual time, in which nothing that f does
// may take any.
func pendingTest(t *testing.T, cfg iwarp.ListenConfig, f func(t *testing.T, l *memListener, ln *iwarp.Listener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newMemListener()
		start := time.Now()
		ln := must(cfg.NewListener(l))(t)
		f(t, l, ln)
		if d := time.Since(start); d != 0 {
			t.Errorf("it took %v: somebody had to wait", d)
		}
		check(t, "Close", ln.Close())
	})
}

func request(private string) []byte {
	return iwarptest.Request(iwarptest.FlagC, 1, []byte(private))
}

// wantRequest takes the next Request from a listener.
func wantRequest(t *testing.T, ln *iwarp.Listener, private string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	if private != "" {
		cancel()
		ctx, cancel = context.WithTimeout(t.Context(), patience)
	}
	defer cancel()
	r, err := ln.AcceptRequest(ctx)
	switch {
	case err == nil && private == "":
		t.Errorf("a Request of %q, want none", r.PrivateData())
	case err == nil && string(r.PrivateData()) != private:
		t.Errorf("a Request of %q, want %q", r.PrivateData(), private)
	case err != nil && private != "":
		t.Fatalf("no Request of %q: %v", private, err)
	}
	if r != nil {
		_ = r.Close()
	}
}

// At its bound a listener drops the oldest silent startup for a new one: of the peer
// that has the most. An IPv6 peer is a network of 64 bits.
// Shows: SEC-6.4.1-01
func TestPendingOrder(t *testing.T) {
	pendingTest(t, iwarp.ListenConfig{MaxPending: 4}, func(t *testing.T, l *memListener, _ *iwarp.Listener) {
		var cs []dialed
		for _, from := range strings.Fields("10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6") {
			cs = append(cs, l.dial(from))
		}
		wantGone(t, "a peer each: the oldest", cs, "xx....")
	})
	pendingTest(t, iwarp.ListenConfig{MaxPending: 4}, func(t *testing.T, l *memListener, ln *iwarp.Listener) {
		var cs []dialed
		for _, from := range strings.Fields("10.0.0.1 10.0.0.2 10.0.0.2 10.0.0.3") {
			cs = append(cs, l.dial(from))
		}
		wantGone(t, "there is room", cs, "....")
		cs = append(cs, l.dial("10.0.0.2"))
		wantGone(t, "who has two gives one", cs, ".x...")
		cs = append(cs, l.dial("10.0.0.4"))
		wantGone(t, "who has two gives one", cs, ".xx...")
		cs = append(cs, l.dial("10.0.0.5"))
		wantGone(t, "all have one: the oldest", cs, "xxx....")
		if st := ln.Stats(); st.Connections != 7 || st.Dropped != 3 || st.Silent != 4 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
	})
	pendingTest(t, iwarp.ListenConfig{MaxPending: 3}, func(t *testing.T, l *memListener, _ *iwarp.Listener) {
		var cs []dialed
		for _, from := range strings.Fields("10.0.0.1 2001:db8::1 2001:db8::ffff:1 fe80::1") {
			cs = append(cs, l.dial(from))
		}
		wantGone(t, "2001:db8::/64 is one peer", cs, ".x..")
		cs = append(cs, l.dial("fe80::2"), l.dial("fe80::3"))
		wantGone(t, "but each link-local address is one", cs, "xxx...")
	})
}

// A peer whose Request has come is never dropped, and is handed up in the order in
// which the Requests came; half a Request counts for nothing.
// Shows: SEC-6.4.1-01
func TestPendingProvenStay(t *testing.T) {
	pendingTest(t, iwarp.ListenConfig{MaxPending: 4}, func(t *testing.T, l *memListener, ln *iwarp.Listener) {
		good := []dialed{l.dial("10.0.0.1"), l.dial("10.0.0.1"), l.dial("10.0.0.1")}
		for _, i := range []int{1, 0} {
			_, _ = good[i].Write(request(fmt.Sprint("good ", i)))
			synctest.Wait()
		}
		_, _ = good[2].Write(request("half")[:20])
		for i := range 1000 {
			l.dial(fmt.Sprintf("10.1.%d.%d", i/200, i%200+1))
		}
		wantGone(t, "the proven stay", good, "..x")
		late := l.dial("10.0.0.9")
		_, _ = late.Write(request("late"))
		synctest.Wait()
		if st := ln.Stats(); st.Waiting != 3 || st.Silent != 1 || st.Requests != 3 || st.Dropped != 1000 {
			t.Errorf("%+v", st)
		}
		for _, want := range []string{"good 1", "good 0", "late", ""} {
			wantRequest(t, ln, want)
		}
	})
}

// With nobody silent a new connection waits for the program, and then gets in.
func TestPendingAllProven(t *testing.T) {
	pendingTest(t, iwarp.ListenConfig{MaxPending: 2}, func(t *testing.T, l *memListener, ln *iwarp.Listener) {
		var cs []dialed
		for i := range 6 {
			c := l.dial("10.0.0.1")
			_, _ = c.Write(request(fmt.Sprint(i)))
			synctest.Wait()
			cs = append(cs, c)
		}
		if st := ln.Stats(); st.Waiting != 2 || st.Connections != 2 || l.open.Load() != 3 {
			t.Errorf("%+v, and %d open", st, l.open.Load())
		}
		wantGone(t, "all wait", cs, "......")
		for i := range 6 {
			wantRequest(t, ln, fmt.Sprint(i))
			synctest.Wait()
		}
	})
}

// MaxPendingPerPeer is a bound of one peer, and harms nobody else.
// Shows: SEC-6.4.1-01
func TestPendingPerPeer(t *testing.T) {
	pendingTest(t, iwarp.ListenConfig{MaxPending: 4, MaxPendingPerPeer: 2},
		func(t *testing.T, l *memListener, ln *iwarp.Listener) {
			cs := []dialed{l.dial("10.0.0.1"), l.dial("10.0.0.2"), l.dial("10.0.0.2"), l.dial("10.0.0.2")}
			wantGone(t, "its own oldest goes", cs, ".x..")
			for _, c := range cs[2:] {
				_, _ = c.Write(request("proven"))
			}
			synctest.Wait()
			cs = append(cs, l.dial("10.0.0.2"))
			wantGone(t, "none of its own is silent: closed at once", cs, ".x..x")
			if st := ln.Stats(); st.Refused != 1 || st.Dropped != 1 || st.Waiting != 2 || st.Silent != 1 {
				t.Errorf("%+v", st)
			}
		})
}

// A flood of silent connections is logged once a second, with how many there were.
func TestPendingLog(t *testing.T) {
	var out lines
	cfg := iwarp.ListenConfig{
		MaxPending: 2,
		Config:     &iwarp.Config{StartupTimeout: time.Hour, Logger: slog.New(slog.NewTextHandler(&out, nil))},
	}
	synctest.Test(t, func(t *testing.T) {
		l := newMemListener()
		ln := must(cfg.NewListener(l))(t)
		flood := func() (lines int) {
			for range 500 {
				l.dial("10.0.0.1")
				_, _ = l.dial("10.0.0.2").Write([]byte("GET"))
			}
			synctest.Wait()
			return len(out.all())
		}
		if n := flood(); n != 2 { // one for the dropped, one for the bad
			t.Errorf("%d lines: %q", n, out.all())
		}
		time.Sleep(time.Second)
		n := flood()
		log := strings.Join(out.all(), "\n")
		if n != 4 || strings.Count(log, "more_before=") != 2 || !strings.Contains(log, "startup dropped") ||
			!strings.Contains(log, "startup failed") {
			t.Errorf("%d lines: %s", n, log)
		}
		check(t, "Close", ln.Close())
	})
}

// Without descriptors a listener gives up silent startups, so that it can take
// connections again.
// Shows: SEC-6.4.1-01
func TestPendingNoDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemListener()
		l.most.Store(16)
		ln := must(iwarp.NewListener(l, &iwarp.Config{StartupTimeout: time.Hour}))(t)
		for range 1000 {
			l.dial("10.0.0.1")
		}
		start := time.Now()
		_, _ = l.dial("10.0.0.2").Write(request("good"))
		wantRequest(t, ln, "good")
		if d := time.Since(start); d > time.Second {
			t.Errorf("it took %v", d)
		}
		if st := ln.Stats(); st.AcceptErrors == 0 || st.Dropped < 900 {
			t.Errorf("%+v", st)
		}
		// The bound comes back when there are descriptors again.
		l.most.Store(0)
		for range 200 {
			time.Sleep(time.Second)
			l.dial("10.0.0.1")
		}
		synctest.Wait()
		if st := ln.Stats(); st.Silent != 128 {
			t.Errorf("%+v", st)
		}
		l.most.Store(2) // one startup, and then none
		for range 10 {
			l.dial("10.0.0.1")
		}
		_, _ = l.dial("10.0.0.2").Write(request("good"))
		wantRequest(t, ln, "good")
		check(t, "Close", ln.Close())
	})
}

// Over sockets, with more silent connections than a listener takes: a good client
// comes in, and the connections dropped are closed.
func TestPendingSockets(t *testing.T) {
	ln := must((&iwarp.ListenConfig{
		MaxPending: 8, Config: &iwarp.Config{StartupTimeout: time.Hour},
	}).Listen(t.Context(),
		"tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	var silent []net.Conn
	for range 50 {
		c := must(net.Dial("tcp", ln.Addr().String()))(t)
		defer c.Close()
		silent = append(silent, c)
	}
	serveOne(t, ln)
	for _, c := range silent[:42] {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a connection that was to make room: %v", err)
		} else if err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatal(err)
		}
	}
	if st := ln.Stats(); st.Silent+st.Waiting > 8 || st.Dropped < 42 || st.Requests != 1 {
		t.Errorf("%+v", st)
	}
}
