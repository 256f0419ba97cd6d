package netstack

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/go-iwarp/iwarp/mpa"
)

// conn is a TCP connection of netstack. Its Read comes back when the eye has found
// something, and its Write keeps FPDUs within segments.
type conn struct {
	*gonet.TCPConn
	host *Host
	ep   tcpip.Endpoint
	wq   *waiter.Queue
	key  flowKey

	readMu   sync.Mutex
	deadline deadline
	startup  uint32 // octets read, before there is an eye
	eye      atomic.Pointer[eye]

	out    *writer // from Full Operation on; nil before
	closed atomic.Bool
}

func newConn(h *Host, wq *waiter.Queue, ep tcpip.Endpoint) *conn {
	c := &conn{TCPConn: gonet.NewTCPConn(wq, ep), host: h, ep: ep, wq: wq}
	c.key = flowKey{addrPort(c.TCPConn.LocalAddr()), addrPort(c.TCPConn.RemoteAddr())}
	return c
}

func addrPort(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		p := t.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	}
	return netip.AddrPort{}
}

// errWoken is what Read returns when FPDUs were found behind a hole. To package mpa
// it looks like a deadline that has passed, after which nothing is lost.
type wokenError struct{}

func (wokenError) Error() string { return "iwarp/netstack: FPDUs were found before their turn" }

func (wokenError) Is(target error) bool {
	return target == os.ErrDeadlineExceeded
}

var errWoken error = wokenError{}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	c.readMu.Lock()
	defer c.readMu.Unlock()
	e := c.eye.Load()
	n, err := c.read(b, e)
	if e == nil {
		c.startup += uint32(n)
		return n, err
	}
	if n > 0 {
		if bad := e.inOrder(b[:n]); bad != nil {
			return 0, bad
		}
	}
	return n, err
}

func (c *conn) read(b []byte, e *eye) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	var wake chan struct{}
	if e != nil {
		wake = e.wake
	}
	passed := c.deadline.passed()
	w := tcpip.SliceWriter(b)
	res, err := c.ep.Read(&w, tcpip.ReadOptions{})
	if _, block := err.(*tcpip.ErrWouldBlock); block {
		entry, ready := waiter.NewChannelEntry(waiter.ReadableEvents)
		c.wq.EventRegister(&entry)
		defer c.wq.EventUnregister(&entry)
		for {
			res, err = c.ep.Read(&w, tcpip.ReadOptions{})
			if _, block := err.(*tcpip.ErrWouldBlock); !block {
				break
			}
			select {
			case <-wake:
				return 0, errWoken
			case <-passed:
				return 0, c.readError(os.ErrDeadlineExceeded)
			case <-ready:
			}
		}
	}
	switch err.(type) {
	case nil:
		c.ep.ModerateRecvBuf(res.Count)
		return res.Count, nil
	case *tcpip.ErrClosedForReceive:
		if c.closed.Load() {
			return 0, net.ErrClosed
		}
		return 0, io.EOF
	}
	return 0, c.readError(errors.New(err.String()))
}

func (c *conn) readError(err error) error {
	return &net.OpError{Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// Write implements net.Conn. Whole FPDUs are written by themselves, as many as fit into a
// segment: netstack then does not cut within.
func (c *conn) Write(b []byte) (int, error) {
	if c.out == nil {
		return c.TCPConn.Write(b)
	}
	return c.out.Write(b)
}

// operate is Full Operation: the octets of FPDUs follow. Everything of startup has been
// read, and nothing else.
func (c *conn) operate(p mpa.Params) *eye {
	b := bounds{markers: p.SendMarkers, segment: c.host.segment(c.key.remote.Addr())}
	c.out = &writer{bounds: b, to: c.TCPConn.Write}
	e := newEye(c.host.engine(p))
	c.readMu.Lock()
	defer c.readMu.Unlock()
	if c.host.cfg.InOrder || !c.host.link.watch(c.key, c.startup, e) {
		return nil
	}
	c.eye.Store(e)
	return e
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.deadline.set(t)
	return c.TCPConn.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.deadline.set(t)
	return nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.closed.Store(true)
	c.host.link.forget(c.key)
	c.deadline.set(time.Unix(1, 0))
	return c.TCPConn.Close()
}

// Abort ends the connection with a reset.
func (c *conn) Abort() error {
	c.closed.Store(true)
	c.host.link.forget(c.key)
	c.deadline.set(time.Unix(1, 0))
	c.ep.Abort()
	return nil
}

// deadline is a deadline that can be moved while somebody waits for it.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	ch    chan struct{}
}

// passed returns a channel that is closed when the deadline passes.
func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ch == nil {
		d.ch = make(chan struct{})
	}
	return d.ch
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.ch == nil {
		d.ch = make(chan struct{})
	}
	select {
	case <-d.ch: // it had passed: whoever reads from now on waits for another
		d.ch = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	ch := d.ch
	if wait := time.Until(t); wait > 0 {
		d.timer = time.AfterFunc(wait, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.ch == ch {
				shut(ch)
			}
		})
		return
	}
	shut(ch)
}

func shut(ch chan struct{}) {
	select {
	case <-ch:
	default:
		close(ch)
	}
}
