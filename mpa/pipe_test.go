package mpa

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// half is one direction of an in-memory connection.
type half struct {
	mu     sync.Mutex
	cond   *sync.Cond
	buf    []byte
	fin    bool
	broken error
}

func newHalf() *half {
	h := &half{}
	h.cond = sync.NewCond(&h.mu)
	return h
}

func (h *half) do(f func()) {
	h.mu.Lock()
	f()
	h.mu.Unlock()
	h.cond.Broadcast()
}

// deadline is one of a memConn's two deadlines; its half's mutex guards it.
type deadline struct {
	timer  *time.Timer
	passed bool
}

func (d *deadline) set(h *half, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.passed = false
	if t.IsZero() {
		return
	}
	if wait := time.Until(t); wait > 0 {
		d.timer = time.AfterFunc(wait, func() { h.do(func() { d.passed = true }) })
		return
	}
	d.passed = true
	h.cond.Broadcast()
}

// memConn is a TCP-like conn in memory that works in a synctest bubble. Reads
// give at most maxRead octets, writes take at most maxWrite in a call (and say so
// without an error), and at most window octets wait to be read.
type memConn struct {
	in, out                   *half
	rd, wd                    deadline
	maxRead, maxWrite, window int
	writes                    int
	noDeadline                bool
}

func memPipe() (a, b *memConn) {
	x, y := newHalf(), newHalf()
	return &memConn{in: x, out: y}, &memConn{in: y, out: x}
}

func (c *memConn) Read(b []byte) (int, error) {
	h := c.in
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case c.rd.passed:
			return 0, os.ErrDeadlineExceeded
		case len(h.buf) > 0:
			if c.maxRead > 0 {
				b = b[:min(len(b), c.maxRead)]
			}
			n := copy(b, h.buf)
			h.buf = h.buf[n:]
			h.cond.Broadcast()
			return n, nil
		case h.broken != nil:
			return 0, h.broken
		case h.fin:
			return 0, io.EOF
		}
		h.cond.Wait()
	}
}

func (c *memConn) Write(b []byte) (int, error) {
	h := c.out
	h.mu.Lock()
	defer h.mu.Unlock()
	c.writes++
	for {
		switch {
		case c.wd.passed:
			return 0, os.ErrDeadlineExceeded
		case h.broken != nil:
			return 0, h.broken
		case h.fin:
			return 0, syscall.EPIPE
		case c.window == 0 || len(h.buf) < c.window:
			if c.window > 0 {
				b = b[:min(len(b), c.window-len(h.buf))]
			}
			if c.maxWrite > 0 {
				b = b[:min(len(b), c.maxWrite)]
			}
			h.buf = append(h.buf, b...)
			h.cond.Broadcast()
			return len(b), nil
		}
		h.cond.Wait()
	}
}

func (c *memConn) CloseWrite() error {
	c.out.do(func() { c.out.fin = true })
	return nil
}

func (c *memConn) Close() error {
	c.out.do(func() { c.out.fin = true })
	c.in.do(func() { c.in.broken = net.ErrClosed })
	return nil
}

func (c *memConn) Abort() error {
	c.out.do(func() { c.out.broken = syscall.ECONNRESET })
	c.in.do(func() { c.in.broken = net.ErrClosed })
	return nil
}

func (c *memConn) SetReadDeadline(t time.Time) error {
	if c.noDeadline {
		return os.ErrNoDeadline
	}
	c.rd.set(c.in, t)
	return nil
}

func (c *memConn) SetWriteDeadline(t time.Time) error {
	if c.noDeadline {
		return os.ErrNoDeadline
	}
	c.wd.set(c.out, t)
	return nil
}

func (c *memConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *memConn) LocalAddr() net.Addr  { return &net.TCPAddr{} }
func (c *memConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// closed reports whether this end was closed by its own side.
func (c *memConn) closed() bool {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return c.in.broken == net.ErrClosed
}

// waiting returns the octets that this end could read now.
func (c *memConn) waiting() []byte {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return append([]byte(nil), c.in.buf...)
}

// tcpPair is a loopback connection.
func tcpPair(tb testing.TB) (a, b *net.TCPConn) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	x, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	y, err := l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { x.Close(); y.Close() })
	return x.(*net.TCPConn), y.(*net.TCPConn)
}
