package iwarp_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

// A rejection carries Private Data and leaves the connection below open, which
// the two programs can go on with.
// Shows: MPA-7.1.2-06, MPA-7.1.2-07, MPA-7.1.2-12, MPA-7.1.2-17, MPA-7.1.1-12, MPA2-9.1-08
func TestReject(t *testing.T) {
	for _, c := range []struct{ rev, n int }{{1, 0}, {1, 512}, {2, 0}, {2, 1}, {2, 508}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			a, b := netPair(t, "tcp")
			defer a.Close()
			defer b.Close()
			ctx := testContext(t)
			pd := pattern(c.n)
			open := make(chan net.Conn, 1)
			go func() {
				r, err := iwarp.ServerRequest(ctx, b, &iwarp.Config{IRD: 11, ORD: 12})
				if err == nil && string(r.PrivateData()) != "who are you" {
					err = fmt.Errorf("Private Data %q", r.PrivateData())
				}
				if err == nil && (r.RemoteAddr() != b.RemoteAddr() || r.LocalAddr() != b.LocalAddr() || int(r.Request().Revision) != c.rev) {
					err = errors.New("the request does not show where it came from")
				}
				var nc net.Conn
				if err == nil {
					nc, err = r.Reject(ctx, pd)
				}
				if err == nil {
					_, err = nc.Write([]byte("let us talk")) // at once, behind the Reply
				}
				if err == nil {
					if _, err2 := r.Accept(ctx, nil); !errors.Is(err2, mpa.ErrAnswered) {
						err = fmt.Errorf("Accept after Reject: %w", err2)
					}
				}
				if err != nil {
					t.Error(err)
				}
				open <- nc
			}()
			_, err := iwarp.Client(ctx, a, &iwarp.Config{Revision: c.rev, PrivateData: []byte("who are you")})
			var rej *iwarp.RejectError
			if !errors.As(err, &rej) || !bytes.Equal(rej.PrivateData, pd) {
				t.Fatalf("Client: %v (%+v)", err, rej)
			}
			if c.rev == 2 && (rej.PeerIRD != 11 || rej.PeerORD != 12) {
				t.Errorf("depths %+v", rej)
			}
			nc := <-open
			if nc != b {
				t.Fatal("Reject gave another conn")
			}
			talk := make([]byte, 11)
			if _, err := io.ReadFull(a, talk); err != nil || string(talk) != "let us talk" {
				t.Fatalf("after the rejection: %q, %v", talk, err)
			}
			if _, err := a.Write([]byte("yes")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(b, talk[:3]); err != nil || string(talk[:3]) != "yes" {
				t.Fatalf("after the rejection: %q, %v", talk[:3], err)
			}
		})
	}
}

// Too much Private Data is a mistake of the program, not the end of the request.
func TestRejectTooLong(t *testing.T) {
	a, b := pipe(nil)
	defer a.Close()
	ctx := testContext(t)
	got := make(chan error, 1)
	go func() { _, err := iwarp.Client(ctx, a, nil); got <- err }()
	r := must(iwarp.ServerRequest(ctx, b, nil))(t)
	_, err := r.Reject(ctx, make([]byte, 509))
	wantWords(t, err, "509", "508")
	nc := must(r.Reject(ctx, []byte("no")))(t)
	defer nc.Close()
	var rej *iwarp.RejectError
	if err := <-got; !errors.As(err, &rej) || string(rej.PrivateData) != "no" {
		t.Errorf("%v", err)
	}
}

// R09: accept and reject race; each request has one outcome.
func TestAcceptRejectRace(t *testing.T) {
	const n = 100
	ln := must(iwarp.Listen("tcp", "127.0.0.1:0", nil))(t)
	defer ln.Close()
	ctx := testContext(t)
	var wg sync.WaitGroup
	var acceptedHere, rejectedHere, acceptedThere, rejectedThere, other atomic.Int32
	for range n {
		wg.Go(func() {
			r, err := ln.AcceptRequest(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			var both sync.WaitGroup
			both.Go(func() {
				if c, err := r.Accept(ctx, nil); err == nil {
					acceptedHere.Add(1)
					_ = c.Close()
				} else if !errors.Is(err, mpa.ErrAnswered) {
					t.Error(err)
				}
			})
			both.Go(func() {
				if nc, err := r.Reject(ctx, nil); err == nil {
					rejectedHere.Add(1)
					_ = nc.Close()
				} else if !errors.Is(err, mpa.ErrAnswered) {
					t.Error(err)
				}
			})
			both.Wait()
		})
		wg.Go(func() {
			c, err := iwarp.Dial(ctx, "tcp", ln.Addr().String(), nil)
			var rej *iwarp.RejectError
			switch {
			case err == nil:
				acceptedThere.Add(1)
				_ = c.Close()
			case errors.As(err, &rej):
				rejectedThere.Add(1)
			default:
				other.Add(1)
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if acceptedHere.Load() != acceptedThere.Load() || rejectedHere.Load() != rejectedThere.Load() || acceptedHere.Load()+rejectedHere.Load() != n {
		t.Errorf("accepted %d and %d, rejected %d and %d", acceptedHere.Load(), acceptedThere.Load(), rejectedHere.Load(), rejectedThere.Load())
	}
}

// R11: a peer that never answers ends startup after StartupTimeout, or with ctx;
// so does one that answers an octet at a time.
// Shows: MPA-7.1.2-20, MPA-7.1.2-25
func TestStartupTimeout(t *testing.T) {
	drip := func(frame []byte) func(net.Conn) {
		return func(c net.Conn) {
			for _, b := range frame {
				time.Sleep(3 * time.Second)
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
			}
		}
	}
	silent := func(net.Conn) {}
	for _, c := range []struct {
		name   string
		server bool
		peer   func(net.Conn)
		cfg    iwarp.Config
		ctx    time.Duration
		want   time.Duration
	}{
		{"client, silent peer", false, silent, iwarp.Config{}, 0, 10 * time.Second},
		{"server, silent peer", true, silent, iwarp.Config{StartupTimeout: time.Minute}, 0, time.Minute},
		{"client, slow peer", false, drip(iwarptest.Reply(iwarptest.FlagC, 1, nil)), iwarp.Config{}, 0, 10 * time.Second},
		{"server, slow peer", true, drip(iwarptest.Request(iwarptest.FlagC, 1, nil)), iwarp.Config{}, 0, 10 * time.Second},
		{"client, context", false, silent, iwarp.Config{StartupTimeout: -1}, time.Hour, time.Hour},
		{"server, context", true, silent, iwarp.Config{}, time.Second, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, y := pipe(nil)
				var wg sync.WaitGroup
				wg.Go(func() { c.peer(y) })
				defer wg.Wait()
				ctx := t.Context()
				if c.ctx > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.ctx)
					defer cancel()
				}
				start := time.Now()
				var err error
				if c.server {
					_, err = iwarp.Server(ctx, x, &c.cfg)
				} else {
					_, err = iwarp.Client(ctx, x, &c.cfg)
				}
				if d := time.Since(start); d != c.want {
					t.Errorf("ended after %v, want %v", d, c.want)
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v is not context.DeadlineExceeded", err)
				}
				wantCode(t, err, protocol.MPAStartup, false)
				if _, err := y.Write([]byte("x")); err == nil {
					if _, err = io.Copy(io.Discard, y); errors.Is(err, os.ErrDeadlineExceeded) {
						t.Error("the conn below is open")
					}
				}
				y.Close()
			})
		})
	}
}

// R77: a responder that is merely slow is waited for.
func TestSlowResponder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := pipe(nil)
		got := make(chan accepted, 1)
		go func() { c, err := iwarp.Client(t.Context(), x, nil); got <- accepted{c, err} }()
		r := must(iwarp.ServerRequest(t.Context(), y, nil))(t)
		time.Sleep(5 * time.Second)
		b := must(r.Accept(t.Context(), nil))(t)
		a := <-got
		check(t, "Client", a.err)
		exercise(t, a.c, b)
	})
}

// script is a TCP server that treats each connection by its number and counts.
func script(t *testing.T, handle func(i int, c net.Conn)) (address string, count *atomic.Int32) {
	t.Helper()
	ln := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	count = new(atomic.Int32)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			i := int(count.Add(1))
			wg.Go(func() {
				defer c.Close()
				handle(i, c)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String(), count
}

func readRequest(c net.Conn) []byte {
	b := make([]byte, 1000)
	n, err := io.ReadFull(c, b[:20])
	if err == nil {
		n, _ = io.ReadFull(c, b[20:20+int(b[18])<<8+int(b[19])])
		n += 20
	}
	return b[:n]
}

// R02: revision 1 after a responder that closes on revision 2, on exactly one
// more TCP connection.
// Shows: MPA2-10-05
func TestFallback(t *testing.T) {
	for name, end := range map[string]func(net.Conn){
		"FIN":   func(net.Conn) {},
		"reset": func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) },
	} {
		t.Run(name, func(t *testing.T) {
			served := make(chan error, 1)
			address, count := script(t, func(i int, c net.Conn) {
				if i == 1 {
					if r := readRequest(c); r[17] != 2 {
						t.Errorf("first Request has revision %d", r[17])
					}
					end(c)
					return
				}
				b, err := iwarp.Server(testContext(t), c, nil)
				if err == nil {
					_, err = b.Recv(testContext(t), make([]byte, 10))
				}
				served <- err
				if err == nil {
					_ = b.Close()
				}
			})
			a := must(iwarp.Dial(testContext(t), "tcp", address, nil))(t)
			if st := a.ConnectionState(); st.Revision != 1 || st.Enhanced || st.PeerToPeer || st.ORD != 1 {
				t.Errorf("state %+v", st)
			}
			check(t, "Send", a.Send(testContext(t), []byte("hi")))
			check(t, "the server", <-served)
			check(t, "Close", a.Close())
			if n := count.Load(); n != 2 {
				t.Errorf("%d TCP connections, want 2", n)
			}
		})
	}
}

// Nothing else makes Dial try again.
func TestNoFallback(t *testing.T) {
	for _, c := range []struct {
		name   string
		cfg    iwarp.Config
		handle func(net.Conn)
		code   protocol.Code // 0: rejected
		tcp    int32
	}{
		{"both revisions refused", iwarp.Config{}, func(c net.Conn) { readRequest(c) }, protocol.MPAConnectionLost, 2},
		{"revision 1 from the start", iwarp.Config{Revision: 1}, func(c net.Conn) { readRequest(c) }, protocol.MPAConnectionLost, 1},
		{"peer-to-peer required", iwarp.Config{RequirePeerToPeer: true}, func(c net.Conn) { readRequest(c) }, protocol.MPAConnectionLost, 1},
		{"timeout", iwarp.Config{StartupTimeout: 50 * time.Millisecond}, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, protocol.MPAStartup, 1},
		{"half a Reply", iwarp.Config{}, func(c net.Conn) { readRequest(c); _, _ = c.Write(iwarptest.Reply(0, 2, nil)[:19]) }, protocol.MPAStartup, 1},
		{"rejected", iwarp.Config{}, func(c net.Conn) {
			readRequest(c)
			_, _ = c.Write(iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagR|iwarptest.FlagS, 2, iwarptest.Enhanced(1, 1, nil)))
		}, 0, 1},
		{"rejected in revision 1", iwarp.Config{}, func(c net.Conn) {
			readRequest(c)
			_, _ = c.Write(iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagR, 1, nil))
		}, 0, 1},
		// R06: a server that speaks something else.
		{"text server", iwarp.Config{}, func(c net.Conn) { _, _ = c.Write([]byte("220 mail.example.com ESMTP ready\r\n")); readRequest(c) }, protocol.MPAStartup, 1},
		{"short text", iwarp.Config{}, func(c net.Conn) { _, _ = c.Write([]byte("no\n")); readRequest(c) }, protocol.MPAStartup, 1},
		{"a Request as the answer", iwarp.Config{}, func(c net.Conn) { readRequest(c); _, _ = c.Write(iwarptest.Request(0, 2, nil)); readRequest(c) }, protocol.MPAStartup, 1},
		{"another revision", iwarp.Config{}, func(c net.Conn) { readRequest(c); _, _ = c.Write(iwarptest.Reply(0, 3, nil)); readRequest(c) }, protocol.MPAStartup, 1},
		{"PD_Length 513", iwarp.Config{}, func(c net.Conn) {
			readRequest(c)
			_, _ = c.Write(iwarptest.Reply(0, 2, make([]byte, 513)))
			readRequest(c)
		}, protocol.MPAStartup, 1},
		{"S with 3 octets", iwarp.Config{}, func(c net.Conn) {
			readRequest(c)
			_, _ = c.Write(iwarptest.Reply(iwarptest.FlagS, 2, make([]byte, 3)))
			readRequest(c)
		}, protocol.MPAStartup, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			address, count := script(t, func(_ int, nc net.Conn) { c.handle(nc) })
			_, err := iwarp.Dial(testContext(t), "tcp", address, &c.cfg)
			var rej *iwarp.RejectError
			switch {
			case c.code == 0 && !errors.As(err, &rej):
				t.Errorf("error %v, want a rejection", err)
			case c.code != 0:
				wantCode(t, err, c.code, false)
			}
			if n := count.Load(); n != c.tcp {
				t.Errorf("%d TCP connections, want %d", n, c.tcp)
			}
		})
	}
}

// R07, R08: bad Requests end their own connection, at once and without an
// answer; the listener serves the next one.
// Shows: MPA-7.1.1-02, MPA-7.1.1-15, MPA-7.1.1-18, MPA-7.1.2-05, MPA-7.1.2-15, MPA-7.1.2-19, MPA-8-05, MPA2-6-06
func TestBadRequests(t *testing.T) {
	ln := must(iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{StartupTimeout: 2 * time.Second}))(t)
	defer ln.Close()
	good := iwarptest.Request(iwarptest.FlagC, 1, nil)
	change := func(i int, v byte) []byte {
		b := bytes.Clone(good)
		b[i] = v
		return b
	}
	for name, octets := range map[string][]byte{
		"key":             change(3, 'X'),
		"first octet":     change(0, 'G'),
		"text":            []byte("GET / HTTP/1.0\r\n\r\n"),
		"a Reply":         iwarptest.Reply(iwarptest.FlagC, 1, nil),
		"revision 0":      change(17, 0),
		"revision 3":      change(17, 3),
		"PD_Length 513":   iwarptest.Request(iwarptest.FlagC, 1, make([]byte, 513)),
		"PD_Length 65535": change(18, 0xff),
		"S with 3":        iwarptest.Request(iwarptest.FlagS, 2, make([]byte, 3)),
		"octets behind":   append(bytes.Clone(good), iwarptest.FPDU(iwarptest.Send(1, nil))...),
		"one octet more":  append(bytes.Clone(good), 0),
	} {
		t.Run(name, func(t *testing.T) {
			c := must(net.Dial("tcp", ln.Addr().String()))(t)
			defer c.Close()
			if _, err := c.Write(octets); err != nil {
				t.Fatal(err)
			}
			_ = c.SetReadDeadline(time.Now().Add(patience))
			b, err := io.ReadAll(c)
			if len(b) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("answer %q, %v, want the end of the connection", b, err)
			}
		})
	}
	serveOne(t, ln)
}

// serveOne shows that a listener still works.
func serveOne(t *testing.T, ln *iwarp.Listener) {
	t.Helper()
	got := make(chan accepted, 1)
	go func() { c, err := ln.Accept(testContext(t)); got <- accepted{c, err} }()
	a := must(iwarp.Dial(testContext(t), "tcp", ln.Addr().String(), nil))(t)
	b := <-got
	check(t, "Accept", b.err)
	exercise(t, a, b.c)
}

func TestThousandBadRequests(t *testing.T) {
	ln := must(iwarp.Listen("tcp", "127.0.0.1:0", nil))(t)
	defer ln.Close()
	n := 1000
	if raceEnabled || testing.Short() {
		n = 300
	}
	for i := range n {
		c := must(net.Dial("tcp", ln.Addr().String()))(t)
		b := make([]byte, 1+i%40)
		_, _ = rand.Read(b)
		_, _ = c.Write(b)
		_ = c.(*net.TCPConn).SetLinger(0) // reset at once
		_ = c.Close()
	}
	serveOne(t, ln)
}

// A listener bounds the startups that are under way: further connections wait,
// and are served when there is room.
func TestMaxPending(t *testing.T) {
	const limit = 3
	ln := must(iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{MaxPending: limit, StartupTimeout: time.Minute}))(t)
	defer ln.Close()
	var silent []net.Conn
	for range limit {
		silent = append(silent, must(net.Dial("tcp", ln.Addr().String()))(t))
	}
	got := make(chan accepted, 1)
	go func() { c, err := iwarp.Dial(testContext(t), "tcp", ln.Addr().String(), nil); got <- accepted{c, err} }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := ln.AcceptRequest(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a startup beyond the bound: %v", err)
	}
	_ = silent[0].Close()
	b := must(ln.Accept(testContext(t)))(t)
	a := <-got
	check(t, "Dial", a.err)
	closeBoth(t, a.c, b)
	for _, c := range silent {
		_ = c.Close()
	}
}

// A peer that says nothing does not delay another one.
func TestSilentPeerDelaysNobody(t *testing.T) {
	ln := must(iwarp.Listen("tcp", "127.0.0.1:0", nil))(t)
	defer ln.Close()
	for range 20 {
		c := must(net.Dial("tcp", ln.Addr().String()))(t)
		defer c.Close()
	}
	serveOne(t, ln)
}

// failingListener gives errors before its connections.
type failingListener struct {
	net.Listener
	errs chan error
}

func (l *failingListener) Accept() (net.Conn, error) {
	select {
	case err := <-l.errs:
		return nil, err
	default:
		return l.Listener.Accept()
	}
}

// An Accept that fails for one connection, or for lack of descriptors, is tried
// again; any other failure ends the listener and is told.
func TestListenerErrors(t *testing.T) {
	nl := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	fl := &failingListener{nl, make(chan error, 10)}
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EMFILE} {
		fl.errs <- &net.OpError{Op: "accept", Err: os.NewSyscallError("accept", errno)}
	}
	ln := must(iwarp.NewListener(fl, nil))(t)
	serveOne(t, ln)
	broken := errors.New("broken")
	fl.errs <- broken
	_ = must(net.Dial("tcp", ln.Addr().String()))(t).Close() // for the Accept that was waiting
	if _, err := ln.AcceptRequest(testContext(t)); !errors.Is(err, broken) {
		t.Errorf("AcceptRequest: %v", err)
	}
	check(t, "Close", ln.Close())
}

// R69, R71: any address; Close ends what waits.
func TestListenAddresses(t *testing.T) {
	for _, c := range []struct{ network, address, dial string }{
		{"tcp", "127.0.0.1:0", "127.0.0.1"}, {"tcp4", "0.0.0.0:0", "127.0.0.1"}, {"tcp", ":0", "127.0.0.1"},
		{"tcp6", "[::1]:0", "::1"}, {"tcp", "[::]:0", "::1"},
	} {
		t.Run(c.address, func(t *testing.T) {
			ln, err := iwarp.Listen(c.network, c.address, nil)
			if err != nil && strings.Contains(c.dial, ":") {
				t.Skipf("no IPv6: %v", err)
			}
			check(t, "Listen", err)
			_, port, _ := net.SplitHostPort(ln.Addr().String())
			waits := make(chan error, 1)
			got := make(chan accepted, 1)
			go func() {
				b, err := ln.Accept(testContext(t))
				got <- accepted{b, err}
				_, err = ln.Accept(testContext(t))
				waits <- err
			}()
			a, err := iwarp.Dial(testContext(t), c.network, net.JoinHostPort(c.dial, port), nil)
			if err != nil && strings.Contains(c.dial, ":") {
				ln.Close()
				t.Skipf("no IPv6: %v", err)
			}
			check(t, "Dial", err)
			b := <-got
			check(t, "Accept", b.err)
			half := must(net.Dial("tcp", net.JoinHostPort(c.dial, port)))(t) // a startup under way
			defer half.Close()
			check(t, "Close", ln.Close())
			if err := <-waits; !errors.Is(err, net.ErrClosed) {
				t.Errorf("Accept after Close: %v", err)
			}
			exercise(t, a, b.c) // lives on
		})
	}
	if _, err := iwarp.Dial(testContext(t), "tcp", "127.0.0.1:1", nil); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Logf("nobody listens: %v", err)
	}
}

// A request that could not be accepted with one configuration can be with
// another.
func TestAcceptAgain(t *testing.T) {
	used, _ := qpPair(t, nil, nil)
	a, b := pipe(nil)
	got := make(chan accepted, 1)
	go func() { c, err := iwarp.Client(testContext(t), a, nil); got <- accepted{c, err} }()
	r := must(iwarp.ServerRequest(testContext(t), b, nil))(t)
	for _, c := range []struct {
		cfg  iwarp.Config
		word string
	}{
		{iwarp.Config{QP: used}, "in use"},
		{iwarp.Config{Revision: 7}, "Config.Revision"},
		{iwarp.Config{Revision: 1, PrivateData: make([]byte, 512)}, "512"}, // the Request is of revision 2
	} {
		_, err := r.Accept(testContext(t), &c.cfg)
		wantWords(t, err, c.word)
	}
	server := must(r.Accept(testContext(t), &iwarp.Config{PrivateData: []byte("at last")}))(t)
	client := <-got
	check(t, "Client", client.err)
	if pd := client.c.ConnectionState().PrivateData; string(pd) != "at last" {
		t.Errorf("Private Data %q", pd)
	}
	exercise(t, client.c, server)
}

// R69: a listener closes while connections come in all the time.
func TestListenerCloseUnderLoad(t *testing.T) {
	for range 10 {
		ln := must(iwarp.Listen("tcp", ":0", nil))(t)
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		var wg sync.WaitGroup
		served := make(chan struct{}, 1000)
		wg.Go(func() {
			for {
				c, err := ln.Accept(t.Context())
				if err != nil {
					return
				}
				served <- struct{}{}
				wg.Go(c.Abort)
			}
		})
		stop := make(chan struct{})
		for range 4 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if c, err := iwarp.Dial(t.Context(), "tcp", "127.0.0.1:"+port, nil); err == nil {
						c.Abort()
					}
				}
			})
		}
		for range 5 {
			<-served
		}
		check(t, "Close", ln.Close())
		close(stop)
		wg.Wait()
	}
}

// R18: a responder may post before the initiator has sent anything. On a
// client-server connection its messages wait for the first FPDU; on a
// peer-to-peer one the initiator sends one by itself.
// Shows: MPA-7.1.2-14, MPA2-5-02
func TestResponderFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := serverOfPeer(t, nil)
		check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{ID: 1, Op: iwarp.OpSend, SG: [][]byte{[]byte("first")}}))
		p.WantIdle("the responder holds its FPDUs")
		time.Sleep(time.Minute)
		p.WantIdle("the responder holds its FPDUs, whatever time passes")
		p.Send(iwarptest.Write(0, 0, nil))
		p.WantFrame("held until now", iwarptest.Send(1, []byte("first")))
		check(t, "completion", collect(t, c.QP().SendCQ(), 1)[0].Err)
	})
	for _, rtr := range []iwarp.RTR{iwarp.RTRWrite, iwarp.RTRRead, iwarp.RTRSend} {
		synctest.Test(t, func(t *testing.T) {
			x, y := pipe(nil)
			all := iwarp.RTRWrite | iwarp.RTRRead | iwarp.RTRSend
			a, b := startOn(t, x, y, &iwarp.Config{RTR: rtr}, &iwarp.Config{RTR: all, RecvDepth: 1})
			check(t, "Send", b.Send(testContext(t), []byte("first")))
			wantRecv(t, a, "first")
			// An RTR Send takes none of the receives.
			check(t, "Send", a.Send(testContext(t), []byte("second")))
			wantRecv(t, b, "second")
		})
	}
}

// A held responder ends with its peer: it can never send then.
func TestResponderNeverOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := serverOfPeer(t, nil)
		check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{ID: 1, Op: iwarp.OpSend}))
		p.CloseWrite()
		if err := collect(t, c.QP().SendCQ(), 1)[0].Err; !errors.Is(err, iwarp.ErrFlushed) {
			t.Errorf("completion %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, p := serverOfPeer(t, nil)
		p.CloseWrite()
		if _, err := c.Recv(testContext(t), nil); err != io.EOF {
			t.Errorf("Recv: %v", err)
		}
		check(t, "Close", c.Close())
		p.WantEOF("a graceful end, with no message either way")
	})
}

// Shows: MPA2-9.1-07, MPA2-9.2-09, MPA2-8-01
func TestEnhancedErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   iwarp.Config
		block []byte
		code  protocol.Code
	}{
		{"responder ORD above initiator IRD", iwarp.Config{IRD: 4}, iwarptest.Enhanced(0x8000|32, 0x8000|5, nil), protocol.MPAInsufficientIRD},
		{"no common RTR", iwarp.Config{RTR: iwarp.RTRWrite}, iwarptest.Enhanced(0x8000|0x4000|32, 4, nil), protocol.MPANoMatchingRTR},
		{"no RTR at all", iwarp.Config{}, iwarptest.Enhanced(0x8000|32, 4, nil), protocol.MPANoMatchingRTR},
		{"A not copied", iwarp.Config{}, iwarptest.Enhanced(32, 0x8000|4, nil), protocol.MPANoMatchingRTR},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, y := pipe(nil)
				p := iwarptest.NewPeer(t, y)
				got := make(chan error, 1)
				go func() { _, err := iwarp.Client(testContext(t), x, &c.cfg); got <- err }()
				p.Respond("startup", iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2, c.block))
				p.WantTerminate("the ends do not fit", uint16(c.code))
				p.WantEOF("the end")
				p.CloseWrite()
				wantCode(t, <-got, c.code, false)
			})
		})
	}
}

// R03: what a peer insists on is a matter of the connection.
func TestRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := pipe(nil)
		p := iwarptest.NewPeer(t, y)
		got := make(chan error, 1)
		go func() {
			_, err := iwarp.Server(testContext(t), x, &iwarp.Config{RequirePeerToPeer: true})
			got <- err
		}()
		p.SendRaw(iwarptest.Request(iwarptest.FlagC, 1, nil))
		if err := <-got; err == nil {
			t.Error("a client-server connection although peer-to-peer is required")
		} else {
			wantWords(t, err, "RequirePeerToPeer")
		}
	})
}

// R15, R13, R14: Private Data is the ULP's own octets, on both revisions.
func TestPrivateDataExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for rev := byte(1); rev <= 2; rev++ {
			x, y := pipe(nil)
			p := iwarptest.NewPeer(t, y)
			pd := make([]byte, 12)
			_, _ = rand.Read(pd)
			go func() {
				p.Conn.Write(iwarptest.Request(iwarptest.FlagC|(rev-1)*iwarptest.FlagS, rev, append(iwarptest.Enhanced(300, 16382, nil)[:4*(rev-1)], pd...)))
			}()
			r := must(iwarp.ServerRequest(testContext(t), x, nil))(t)
			if !bytes.Equal(r.PrivateData(), pd) {
				t.Errorf("revision %d: Private Data %x, want %x", rev, r.PrivateData(), pd)
			}
			_ = r.Close()
			if _, err := r.Accept(t.Context(), nil); !errors.Is(err, mpa.ErrAnswered) {
				t.Errorf("Accept after Close: %v", err)
			}
		}
	})
}
