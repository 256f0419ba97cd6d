package capture

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// flow is one TCP connection in the recording. The recorder's mu guards it.
type flow struct {
	addr    pair // as the end that was wrapped first sees them
	ends    int  // how many ends are wrapped
	closed  int  // how many of these are closed
	started bool // the handshake is recorded
	reset   bool // a RST is recorded: nothing comes after it
	dir     [2]direction
}

// direction is what one end sends; 0 is the end that was wrapped first.
type direction struct {
	next uint32 // sequence number of the next octet; of the SYN at first
	fin  bool
	id   uint16 // of the last IPv4 packet
}

// conn is one wrapped end. It is no syscall.Conn, so that nothing goes past it.
type conn struct {
	net.Conn
	rec  *Recorder
	flow *flow
	out  int // index in flow.dir of what this end sends

	readMu, writeMu sync.Mutex // the order of calls is that of the recording
	linger0         atomic.Bool
	closeOnce       sync.Once
}

// NetConn returns the connection below.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Read reads from the connection below and records what came.
func (c *conn) Read(b []byte) (int, error) {
	c.readMu.Lock()
	defer c.readMu.Unlock()
	n, err := c.Conn.Read(b)
	if n <= 0 && (err == nil || !isEnd(err)) || n > len(b) {
		return n, err
	}
	r, in := c.rec, 1-c.out
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.flow.ends == 1 && n > 0 {
		r.data(c.flow, in, b[:n], maxMSS, Inbound)
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		if c.flow.ends == 1 {
			r.end(c.flow, in, flagFIN, Inbound)
		}
	case isReset(err):
		r.end(c.flow, in, flagRST, c.side(Inbound))
	}
	return n, err
}

// Write records b and writes it to the connection below.
func (c *conn) Write(b []byte) (int, error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	r := c.rec
	r.mu.Lock()
	seq, recorded := r.data(c.flow, c.out, b, r.opt.MSS, c.side(Outbound))
	r.mu.Unlock()
	n, err := c.Conn.Write(b)
	short := n >= 0 && n < len(b)
	if !short && !isReset(err) {
		return n, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := &c.flow.dir[c.out]; short && recorded && !d.fin {
		d.next = seq + uint32(n)
	}
	if isReset(err) {
		r.end(c.flow, 1-c.out, flagRST, c.side(Inbound))
	}
	return n, err
}

// CloseWrite ends this direction.
func (c *conn) CloseWrite() error {
	cw, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errUnsupported("CloseWrite", c.Conn)
	}
	c.finish(flagFIN)
	return cw.CloseWrite()
}

// Close closes the connection below. The recording has a FIN then, or a RST after
// SetLinger(0).
func (c *conn) Close() error {
	if c.linger0.Load() {
		c.finish(flagRST)
	} else {
		c.finish(flagFIN)
	}
	defer c.detach()
	return c.Conn.Close()
}

// SetLinger sets that of the connection below.
func (c *conn) SetLinger(sec int) error {
	l, ok := c.Conn.(interface{ SetLinger(sec int) error })
	if !ok {
		return errUnsupported("SetLinger", c.Conn)
	}
	err := l.SetLinger(sec)
	c.linger0.Store(sec == 0 && err == nil)
	return err
}

// Abort resets the connection below where it can, and closes it.
func (c *conn) Abort() error {
	if a, ok := c.Conn.(interface{ Abort() error }); ok {
		c.finish(flagRST)
		defer c.detach()
		return a.Abort()
	}
	_ = c.SetLinger(0)
	return c.Close()
}

func (c *conn) finish(flag uint8) {
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	c.rec.end(c.flow, c.out, flag, c.side(Outbound))
}

// detach forgets the flow when its last end is closed.
func (c *conn) detach() {
	c.closeOnce.Do(func() {
		c.rec.mu.Lock()
		defer c.rec.mu.Unlock()
		if c.flow.closed++; c.flow.closed == c.flow.ends {
			c.rec.forget(c.flow)
		}
	})
}

// side returns d, if there is a side. The caller holds the recorder's mu.
func (c *conn) side(d Direction) Direction {
	if c.flow.ends == 2 {
		return DirectionUnknown
	}
	return d
}

// data records octets of direction i in segments of at most size octets. It gives
// the sequence number of the first one, and false if nothing was recorded since
// the direction has ended. The caller holds mu.
func (r *Recorder) data(f *flow, i int, b []byte, size int, dir Direction) (seq uint32, ok bool) {
	r.wait(len(b))
	if len(b) == 0 || f.reset || f.dir[i].fin {
		return 0, false
	}
	r.handshake(f, i, dir)
	seq = f.dir[i].next
	for len(b) > 0 {
		n := min(size, len(b))
		flags := uint8(flagACK)
		if n == len(b) {
			flags |= flagPSH
		}
		r.emit(r.segment(f, i, flags), b[:n], dir)
		f.dir[i].next += uint32(n)
		b = b[n:]
	}
	return seq, true
}

// end records a FIN or a RST of direction i, once. The caller holds mu.
func (r *Recorder) end(f *flow, i int, flag uint8, dir Direction) {
	r.wait(0)
	if f.reset || f.dir[i].fin && flag == flagFIN {
		return
	}
	r.handshake(f, i, dir)
	r.emit(r.segment(f, i, flag|flagACK), nil, dir)
	if flag == flagRST {
		f.reset = true
		return
	}
	f.dir[i].fin = true
	f.dir[i].next++
}

// handshake records the start of a connection that direction i's end opened, if
// that is still to be done. The caller holds mu.
func (r *Recorder) handshake(f *flow, i int, dir Direction) {
	if f.started {
		return
	}
	f.started = true
	other := dir
	switch dir {
	case Inbound:
		other = Outbound
	case Outbound:
		other = Inbound
	}
	syn := r.segment(f, i, flagSYN)
	syn.ack = 0
	r.emit(syn, nil, dir)
	f.dir[i].next++
	r.emit(r.segment(f, 1-i, flagSYN|flagACK), nil, other)
	f.dir[1-i].next++
	r.emit(r.segment(f, i, flagACK), nil, dir)
}

// segment makes the header of the next segment of direction i.
func (r *Recorder) segment(f *flow, i int, flags uint8) *segment {
	d := &f.dir[i]
	d.id++
	s := &segment{
		src: f.addr.local, dst: f.addr.remote,
		id: d.id, seq: d.next, ack: f.dir[1-i].next, flags: flags, mss: uint16(r.opt.MSS),
	}
	if i == 1 {
		s.src, s.dst = s.dst, s.src
	}
	return s
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || isReset(err) }

// wsaECONNRESET is what a reset is on Windows, where syscall.ECONNRESET is a
// number that no call returns.
const wsaECONNRESET = syscall.Errno(10054)

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, wsaECONNRESET)
}
