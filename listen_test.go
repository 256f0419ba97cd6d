package iwarp_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
)

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

// A listener bounds the startups that are under way: while the program takes none of
// those whose Request has come, further connections wait, and are served when there is
// room.
func TestMaxPending(t *testing.T) {
	const limit = 3
	ln := must((&iwarp.ListenConfig{
		MaxPending: limit, Config: &iwarp.Config{StartupTimeout: time.Minute},
	}).Listen(t.Context(),
		"tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	for i := range limit {
		c := must(net.Dial("tcp", ln.Addr().String()))(t)
		defer c.Close()
		_ = must(c.Write(iwarptest.Request(iwarptest.FlagC, 1, nil)))(t)
		for ln.Stats().Waiting != i+1 {
			runtime.Gosched()
		}
	}
	got := make(chan accepted, 1)
	go func() { c, err := iwarp.Dial(testContext(t), "tcp", ln.Addr().String(), nil); got <- accepted{c, err} }()
	for range limit {
		r := must(ln.AcceptRequest(testContext(t)))(t)
		if r.Request().Revision != 1 {
			t.Error("a startup beyond the bound came before its turn")
		}
		_ = r.Close()
	}
	b := must(ln.Accept(testContext(t)))(t)
	a := <-got
	check(t, "Dial", a.err)
	closeBoth(t, a.c, b)
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
		{network: "tcp", address: "127.0.0.1:0", dial: "127.0.0.1"},
		{network: "tcp4", address: "0.0.0.0:0", dial: "127.0.0.1"},
		{network: "tcp", address: ":0", dial: "127.0.0.1"},
		{network: "tcp6", address: "[::1]:0", dial: "::1"},
		{network: "tcp", address: "[::]:0", dial: "::1"},
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
