package proxy

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/stream"
)

// serveTCP is a server that plays with each connection, which it then closes, until the test ends.
func serveTCP(t *testing.T, play func(*net.TCPConn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer nc.Close()
				play(nc.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		wg.Wait()
	})
	return ln.Addr().String()
}

// dial connects to a proxy as a program that knows TCP only.
func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	deadline, _ := cmdtest.Context(t).Deadline()
	if err := nc.SetDeadline(deadline); err != nil {
		t.Fatal(err)
	}
	return nc.(*net.TCPConn)
}

// bridges are the two ends of iWARP between a client and a server of TCP.
func bridges(t *testing.T, server string, flags ...string) (near, far *proxy) {
	t.Helper()
	far = start(t, "iwarp://127.0.0.1:0", "tcp://"+server, flags...)
	return start(t, "tcp://127.0.0.1:0", "iwarp://"+far.addr, flags...), far
}

// The answer begins after the FIN of the question: half a connection goes on.
func TestBridge(t *testing.T) {
	near, far := bridges(t, serveTCP(t, func(nc *net.TCPConn) {
		all, _ := io.ReadAll(nc)
		_, _ = nc.Write(append([]byte("got "), all...))
	}))
	for _, size := range []int{0, 1, 3 << 20} {
		nc := dial(t, near.addr)
		sent := make([]byte, size)
		_, _ = rand.Read(sent)
		if _, err := nc.Write(sent); err != nil {
			t.Fatal(err)
		}
		if err := nc.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(nc)
		if err != nil || !bytes.Equal(got, append([]byte("got "), sent...)) {
			t.Errorf("of %d octets %d came back: %v", size, len(got), err)
		}
		_ = nc.Close()
	}
	for _, p := range []*proxy{near, far} {
		p.out.Await(t, `"connection":3,"peer":"127.0.0.1:\d+","octets_sent":3145728,"octets_received":3145732,"faults":0,`+
			`"duration_ns":\d+\}`)
		cmdtest.MustContain(t, "output", p.end(t), `"mode":"bridge","faults":[]}`,
			`{"event":"summary","connections":3,"failed":0,"octets_sent":3145729,"octets_received":3145741,"faults":0}`)
	}
}

// What an end does not finish is no end in good order at the other: both kinds of reset pass, either way.
func TestBridgeReset(t *testing.T) {
	near, far := bridges(t, serveTCP(t, func(nc *net.TCPConn) {
		if b := make([]byte, 1); mustRead(nc, b) && b[0] == 'r' {
			_ = nc.SetLinger(0)
			return
		}
		if _, err := io.Copy(io.Discard, nc); err == nil {
			t.Error("the server has seen a FIN of a client that was reset")
		}
	}))
	nc := dial(t, near.addr)
	if _, err := nc.Write([]byte("r")); err != nil {
		t.Fatal(err)
	}
	if n, err := nc.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the client read %d octets, error %v, want a reset", n, err)
	}
	nc = dial(t, near.addr)
	if _, err := nc.Write([]byte("c")); err != nil {
		t.Fatal(err)
	}
	far.out.Await(t, `"connected","connection":2`)
	_ = nc.SetLinger(0)
	_ = nc.Close()
	for _, p := range []*proxy{near, far} {
		p.out.Await(t, `"connection":1,.*"error":"`)
		p.out.Await(t, `"connection":2,.*"error":"`)
		cmdtest.MustContain(t, "output", p.end(t), `"connections":2,"failed":2,`)
	}
}

func mustRead(r io.Reader, b []byte) bool {
	_, err := io.ReadFull(r, b)
	return err == nil
}

// refused expects the reset of a connection, which may come before it stands.
func refused(t *testing.T, addr string) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer nc.Close()
	if n, err := nc.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the client read %d octets, error %v, want a reset", n, err)
	}
}

// A server that is not there is a reset for the client, and an error that names it, at either proxy.
func TestBridgeUnreachable(t *testing.T) {
	near, far := bridges(t, "127.0.0.1:1")
	refused(t, near.addr)
	far.out.Await(t, `"error","error":"connecting to tcp://127.0.0.1:1: .*","peer":"127.0.0.1:`)
	addr := far.addr
	far.end(t)
	near.out.Await(t, `"disconnected","connection":1,.*"error":"`)
	refused(t, near.addr)
	near.out.Await(t, `"error","error":"connecting to iwarp://`+addr+`: .*","peer":"127.0.0.1:`)
}

// A peer that is no stream is told of, and others are served.
func TestBridgeStrangers(t *testing.T) {
	far := start(t, "iwarp://127.0.0.1:0", "tcp://"+serveTCP(t, func(nc *net.TCPConn) { _, _ = io.Copy(nc, nc) }))
	nc := dial(t, far.addr)
	_, _ = nc.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 4))
	_, _ = io.Copy(io.Discard, nc)
	far.out.Await(t, `"error","error":"startup`)
	c, err := stream.Dial(cmdtest.Context(t), "tcp", far.addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abort()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if !mustRead(c, make([]byte, 1)) {
		t.Error("no echo")
	}
}

// There are never more connections than --max-connections at the server, and all are served.
func TestBridgeBound(t *testing.T) {
	const most, clients = 2, 12
	var now, peak atomic.Int32
	near, _ := bridges(t, serveTCP(t, func(nc *net.TCPConn) {
		n := now.Add(1)
		for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
		}
		_, _ = io.Copy(nc, nc)
		now.Add(-1) // before the client sees the end
	}), "--max-connections", "2")
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			nc := dial(t, near.addr)
			defer nc.Close()
			_, err := nc.Write([]byte("hello"))
			err = errors.Join(err, nc.CloseWrite())
			got, rerr := io.ReadAll(nc)
			if err = errors.Join(err, rerr); err != nil || string(got) != "hello" {
				t.Errorf("%q came back: %v", got, err)
			}
		})
	}
	wg.Wait()
	if peak.Load() > most {
		t.Errorf("%d connections at once, at most %d wanted", peak.Load(), most)
	}
	cmdtest.MustContain(t, "output", near.end(t), `"connections":12,"failed":0,`)
}

// After the signal no more are taken, and what is under way goes on to its end; or until the grace is over.
func TestBridgeStop(t *testing.T) {
	server := serveTCP(t, func(nc *net.TCPConn) { _, _ = io.Copy(nc, nc) })
	near, far := bridges(t, server)
	nc := dial(t, near.addr)
	talk := func() {
		t.Helper()
		if _, err := nc.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if b := make([]byte, 5); !mustRead(nc, b) || string(b) != "hello" {
			t.Fatalf("%q came back", b)
		}
	}
	talk()
	for _, p := range []*proxy{near, far} {
		p.stop()
		p.out.Await(t, `"stopping","connections":1,"grace_ns":20000000000`)
		if _, err := net.Dial("tcp", p.addr); err == nil {
			t.Error("a connection is taken after the signal")
		}
	}
	talk()
	_ = nc.CloseWrite()
	if b, err := io.ReadAll(nc); len(b) > 0 || err != nil {
		t.Errorf("%q, %v at the end", b, err)
	}
	for _, p := range []*proxy{near, far} {
		cmdtest.MustContain(t, "output", p.end(t), `"connections":1,"failed":0,"octets_sent":10,"octets_received":10,`)
	}

	near, _ = bridges(t, server, "--grace", "10ms")
	nc = dial(t, near.addr)
	talk()
	text := near.end(t)
	cmdtest.MustContain(t, "output", text, `"error":"the proxy was told to stop"`, `"connections":1,"failed":1,`)
	if strings.Contains(text, "cancel") {
		t.Errorf("words of the program's inside: %s", text)
	}
	if n, err := nc.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the client read %d octets, error %v, want a reset", n, err)
	}
}
