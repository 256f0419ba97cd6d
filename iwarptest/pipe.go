package iwarptest

import (
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// DefaultWindow is the [PipeConfig].Window that 0 stands for, in octets.
const DefaultWindow = 64 << 10

// PipeConfig says how a [Pipe] behaves, in both directions alike. Its zero value
// is a fast connection like TCP on loopback.
type PipeConfig struct {
	// Window is the number of octets that can be on their way: a Write that finds
	// it full waits. 0 means [DefaultWindow].
	Window int
	// MaxRead is the most octets that one Read gives; 0 means no limit. See
	// [Conn.SetMaxRead].
	MaxRead int
	// MaxWrite makes Writes short: one that has more octets takes so many and
	// returns with [io.ErrShortWrite]. 0 means that a Write takes all, as those of
	// real connections do. (A Write that meets its deadline while the window is
	// full is short too.)
	MaxWrite int
	// KeepWrites makes a Read give octets of one Write only, so that a reader can
	// see how a stream was cut into Writes.
	KeepWrites bool
	// Delay is the time that octets, and the end of the stream, need to the other
	// end. A reset needs none.
	Delay time.Duration
}

// Pipe makes a connection in memory and gives its two ends. A nil cfg is the zero
// value.
//
// It is like TCP: Writes are buffered up to the window, CloseWrite is a FIN, and
// a Close with unread input, or one that input still comes to, is a reset. A
// reset also takes away what had arrived and was not read yet; TCP allows that
// and some systems do it. Reads and Writes wait in a way that testing/synctest
// knows as durably blocked, and deadlines and Delay use the bubble's clock.
func Pipe(cfg *PipeConfig) (a, b *Conn) {
	var c PipeConfig
	if cfg != nil {
		c = *cfg
	}
	if c.Window <= 0 {
		c.Window = DefaultWindow
	}
	ab, ba := newHalf(c), newHalf(c)
	a = &Conn{in: ba, out: ab, local: "a", remote: "b"}
	b = &Conn{in: ab, out: ba, local: "b", remote: "a"}
	return a, b
}

// Conn is one end of a [Pipe]. All methods can be called from any goroutine.
type Conn struct {
	in, out       *half
	local, remote Addr
	resetOnClose  atomic.Bool
	writes        atomic.Int64
	written       atomic.Int64
}

var _ net.Conn = (*Conn)(nil)

// Addr is the address of one end of a [Pipe]: "a" or "b".
type Addr string

// Network returns "pipe".
func (Addr) Network() string { return "pipe" }

// String returns the end's name.
func (a Addr) String() string { return string(a) }

// Read waits for octets and reads at most len(b) of them. It gives [io.EOF] at the
// peer's FIN, an error that is [syscall.ECONNRESET] after a reset,
// [os.ErrDeadlineExceeded] or [net.ErrClosed].
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	return n, c.opError("read", err)
}

// Write waits until all of b is on its way, and copies it. The number of octets
// and an error tell how far it came: [os.ErrDeadlineExceeded], [net.ErrClosed],
// [syscall.EPIPE] after CloseWrite or [syscall.ECONNRESET] after a reset. A Write
// to an end that has been closed succeeds, and resets the connection.
func (c *Conn) Write(b []byte) (int, error) {
	n, lost, err := c.out.write(b)
	if lost {
		c.reset()
	}
	c.writes.Add(1)
	c.written.Add(int64(n))
	return n, c.opError("write", err)
}

// Written tells how many Writes there were on this end and how many octets they
// took.
func (c *Conn) Written() (writes, octets int64) { return c.writes.Load(), c.written.Load() }

// CloseWrite sends a FIN: the peer reads what was written before and then
// [io.EOF]. This end can still read.
func (c *Conn) CloseWrite() error { return c.opError("close", c.out.finish()) }

// Close closes the end. The peer reads what was written before and then [io.EOF],
// unless this end has unread input: then the connection is reset. It does not
// wait. A second Close gives [net.ErrClosed].
func (c *Conn) Close() error {
	unread, err := c.in.closeRead()
	if err != nil {
		return c.opError("close", err)
	}
	if unread || c.resetOnClose.Load() {
		c.reset() // and nobody sees a FIN before it
	}
	_ = c.out.finish() // not an error if there was a FIN already
	c.out.closeWrite()
	return nil
}

// Abort resets the connection and closes this end.
func (c *Conn) Abort() error {
	c.resetOnClose.Store(true)
	return c.Close()
}

// SetLinger with 0 makes Close a reset, as it does on a [net.TCPConn]; any other
// value makes Close what it was.
func (c *Conn) SetLinger(sec int) error {
	c.resetOnClose.Store(sec == 0)
	return nil
}

func (c *Conn) reset() {
	c.out.reset()
	c.in.reset()
}

// SetMaxRead changes [PipeConfig].MaxRead for the Reads of this end.
func (c *Conn) SetMaxRead(n int) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.cfg.MaxRead = n
}

// LocalAddr returns the name of this end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the name of the other end.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline sets the time after which Reads, also those that wait now, give
// [os.ErrDeadlineExceeded]. The zero time removes it.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.opError("set", c.in.setReadDeadline(t))
}

// SetWriteDeadline does for Writes what SetReadDeadline does for Reads.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.opError("set", c.out.setWriteDeadline(t))
}

// opError wraps err as package net does; io.EOF and io.ErrShortWrite stay bare.
func (c *Conn) opError(op string, err error) error {
	if err == nil || err == io.EOF || err == io.ErrShortWrite { //nolint:errorlint // bare by contract
		return err
	}
	return &net.OpError{Op: op, Net: "pipe", Source: c.local, Addr: c.remote, Err: err}
}

// half is one direction of a Pipe.
type half struct {
	cfg PipeConfig

	mu   sync.Mutex
	cond sync.Cond // anything below has changed

	arrived []piece // for the reader
	flying  []piece // on their way, with Delay
	octets  int     // in arrived and flying

	fin      bool // the writer has sent its FIN, or closed
	finHere  bool // the FIN has come to the reader
	isReset  bool
	writing  bool // a Write is under way: the octets of two do not mix
	noReader bool // the reading end is closed
	noWriter bool // the writing end is closed

	readDeadline, writeDeadline deadline
}

// piece is what travels: octets of one Write, or the FIN.
type piece struct {
	octets []byte
	fin    bool
}

func newHalf(cfg PipeConfig) *half {
	h := &half{cfg: cfg}
	h.cond.L = &h.mu
	h.readDeadline.cond, h.writeDeadline.cond = &h.cond, &h.cond
	return h
}

func (h *half) read(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.noReader:
			return 0, net.ErrClosed
		case h.readDeadline.expired:
			return 0, os.ErrDeadlineExceeded
		case h.isReset:
			return 0, syscall.ECONNRESET
		case len(b) == 0:
			return 0, nil
		case len(h.arrived) > 0:
			return h.take(b), nil
		case h.finHere:
			return 0, io.EOF
		}
		h.cond.Wait()
	}
}

// take moves arrived octets to b.
func (h *half) take(b []byte) int {
	if h.cfg.MaxRead > 0 && len(b) > h.cfg.MaxRead {
		b = b[:h.cfg.MaxRead]
	}
	n := 0
	for len(h.arrived) > 0 && n < len(b) {
		p := &h.arrived[0]
		m := copy(b[n:], p.octets)
		n += m
		if p.octets = p.octets[m:]; len(p.octets) > 0 {
			break
		}
		h.arrived[0] = piece{}
		h.arrived = h.arrived[1:]
		if h.cfg.KeepWrites {
			break
		}
	}
	h.octets -= n
	h.cond.Broadcast()
	return n
}

// write returns lost if the octets went to an end that is closed.
func (h *half) write(b []byte) (n int, lost bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.writing && h.mayWrite() == nil {
		h.cond.Wait()
	}
	if err := h.mayWrite(); err != nil {
		return 0, false, err
	}
	h.writing = true
	defer func() {
		h.writing = false
		h.cond.Broadcast()
	}()
	whole := len(b)
	if h.cfg.MaxWrite > 0 && len(b) > h.cfg.MaxWrite {
		b = b[:h.cfg.MaxWrite]
	}
	for n < len(b) {
		if err := h.mayWrite(); err != nil {
			return n, false, err
		}
		if h.noReader {
			return whole, true, nil
		}
		if room := h.cfg.Window - h.octets; room > 0 {
			m := min(room, len(b)-n)
			h.send(piece{octets: append([]byte(nil), b[n:n+m]...)})
			n += m
			continue
		}
		h.cond.Wait()
	}
	if n < whole {
		return n, false, io.ErrShortWrite
	}
	return n, false, nil
}

// mayWrite tells why there can be no Write now.
func (h *half) mayWrite() error {
	switch {
	case h.noWriter:
		return net.ErrClosed
	case h.writeDeadline.expired:
		return os.ErrDeadlineExceeded
	case h.isReset:
		return syscall.ECONNRESET
	case h.fin:
		return syscall.EPIPE
	}
	return nil
}

// send puts a piece on its way.
func (h *half) send(p piece) {
	h.octets += len(p.octets)
	if h.cfg.Delay <= 0 {
		h.arrive(p)
		return
	}
	h.flying = append(h.flying, p)
	// Whichever timer runs first delivers the first piece: order does not depend
	// on the timers'.
	time.AfterFunc(h.cfg.Delay, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.flying) > 0 {
			first := h.flying[0]
			h.flying = h.flying[1:]
			h.arrive(first)
		}
	})
}

func (h *half) arrive(p piece) {
	if p.fin {
		h.finHere = true
	} else {
		h.arrived = append(h.arrived, p)
	}
	h.cond.Broadcast()
}

// finish sends the FIN, once.
func (h *half) finish() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.noWriter:
		return net.ErrClosed
	case h.isReset:
		return syscall.ENOTCONN
	case !h.fin:
		h.fin = true
		h.send(piece{fin: true})
	}
	return nil
}

func (h *half) closeWrite() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noWriter = true
	h.writeDeadline.stop()
	h.cond.Broadcast()
}

// closeRead reports whether there were octets that nobody will read now.
func (h *half) closeRead() (unread bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.noReader {
		return false, net.ErrClosed
	}
	unread = h.octets > 0
	h.noReader = true
	h.readDeadline.stop()
	h.drop()
	return unread, nil
}

func (h *half) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isReset = true
	h.drop()
}

func (h *half) drop() {
	h.arrived, h.flying, h.octets = nil, nil, 0
	h.cond.Broadcast()
}

func (h *half) setReadDeadline(t time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.noReader {
		return net.ErrClosed
	}
	h.readDeadline.setTo(t)
	return nil
}

func (h *half) setWriteDeadline(t time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.noWriter {
		return net.ErrClosed
	}
	h.writeDeadline.setTo(t)
	return nil
}
