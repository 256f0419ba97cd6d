package iwarptest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// FaultKind is what goes wrong.
type FaultKind uint8

// The kinds of [Fault].
const (
	// Flip inverts the bits of Mask in the octet at At; Mask 0 is 0x01.
	Flip FaultKind = iota + 1
	// Cut ends the stream after At octets as a FIN does: Reads give io.EOF; a Write
	// that comes so far closes the write side, and gives syscall.EPIPE.
	Cut
	// Reset resets the connection after At octets: Reads and Writes give
	// syscall.ECONNRESET, and the wrapped connection is aborted.
	Reset
	// Stall lets no octet through after At octets until [FaultConn.Resume], Close
	// or a deadline.
	Stall
)

// Fault is one thing that goes wrong in one direction.
type Fault struct {
	Kind FaultKind
	// Write is the direction: the octets that the wrapped end writes. False: those
	// that it reads.
	Write bool
	// At is an offset in the octets of that direction, from 0 when the connection
	// was wrapped.
	At uint64
	// Mask has the bits to invert.
	Mask byte
}

// Inject wraps nc so that it goes wrong as the faults say. Octets before a fault
// go through. Only one Read and one Write may be under way at a time.
func Inject(nc net.Conn, faults ...Fault) *FaultConn {
	c := &FaultConn{nc: nc}
	c.in.init(faults, false)
	c.out.init(faults, true)
	return c
}

// FaultConn is a connection that goes wrong; see [Inject]. It is no
// syscall.Conn, so nothing goes past it.
type FaultConn struct {
	nc      net.Conn
	in, out faultSide
}

var _ net.Conn = (*FaultConn)(nil)

// faultSide is one direction.
type faultSide struct {
	mu       sync.Mutex
	cond     sync.Cond
	faults   []Fault // those of this direction
	pos      uint64
	err      error  // the stream has ended for good
	resumed  uint64 // stalls at or before this offset are over
	anyOver  bool   // resumed counts
	deadline deadline
}

func (s *faultSide) init(faults []Fault, write bool) {
	s.cond.L = &s.mu
	s.deadline.cond = &s.cond
	for _, f := range faults {
		if f.Write != write {
			continue
		}
		if f.Kind == Flip && f.Mask == 0 {
			f.Mask = 1
		}
		s.faults = append(s.faults, f)
	}
}

// admit waits out a stall and tells how many of n octets can go before something
// ends or stalls the stream. With 0 octets it gives the fault that is due.
func (s *faultSide) admit(n int) (int, FaultKind, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.err != nil {
			return 0, 0, s.err
		}
		room, kind := s.room(n)
		if room > 0 || kind != Stall {
			return room, kind, nil
		}
		if s.deadline.expired {
			return 0, 0, os.ErrDeadlineExceeded
		}
		s.cond.Wait()
	}
}

// room finds the first fault, other than a flip, in the next n octets.
func (s *faultSide) room(n int) (int, FaultKind) {
	room, kind := uint64(n), FaultKind(0)
	for _, f := range s.faults {
		over := f.Kind == Stall && s.anyOver && f.At <= s.resumed
		if f.Kind == Flip || over || f.At < s.pos || f.At-s.pos > room || f.At-s.pos == room && kind != 0 {
			continue
		}
		room, kind = f.At-s.pos, f.Kind
	}
	return int(room), kind
}

// passed moves the position on after the octets of b, and flips what is in them.
func (s *faultSide) passed(b []byte, flip bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if flip {
		s.flip(b)
	}
	s.pos += uint64(len(b))
}

func (s *faultSide) flip(b []byte) {
	for _, f := range s.faults {
		if f.Kind == Flip && f.At >= s.pos && f.At-s.pos < uint64(len(b)) {
			b[f.At-s.pos] ^= f.Mask
		}
	}
}

func (s *faultSide) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.cond.Broadcast()
}

func (s *faultSide) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resumed, s.anyOver = s.pos, true
	s.cond.Broadcast()
}

func (s *faultSide) setDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline.setTo(t)
}

// Read reads from the wrapped connection what the faults let through.
func (c *FaultConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return c.nc.Read(b)
	}
	room, kind, err := c.in.admit(len(b))
	if err != nil {
		return 0, err
	}
	if room == 0 {
		if kind == Reset {
			return 0, c.reset()
		}
		c.in.end(io.EOF)
		return 0, io.EOF
	}
	n, err := c.nc.Read(b[:room])
	c.in.passed(b[:n], true)
	return n, err
}

// Write writes to the wrapped connection what the faults let through. b is not
// changed.
func (c *FaultConn) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return c.nc.Write(b)
	}
	written := 0
	for {
		rest := b[written:]
		room, kind, err := c.out.admit(len(rest))
		if err != nil {
			return written, err
		}
		if room == 0 {
			if kind == Reset {
				return written, c.reset()
			}
			c.out.end(syscall.EPIPE)
			return written, errors.Join(syscall.EPIPE, closeWrite(c.nc))
		}
		part := bytes.Clone(rest[:room])
		c.out.mu.Lock()
		c.out.flip(part)
		c.out.mu.Unlock()
		n, err := c.nc.Write(part)
		c.out.passed(part[:n], false)
		written += n
		if err != nil || written == len(b) {
			return written, err
		}
	}
}

func (c *FaultConn) reset() error {
	_ = setLinger(c.nc, 0) // one that cannot reset is closed
	_ = c.nc.Close()
	c.in.end(syscall.ECONNRESET)
	c.out.end(syscall.ECONNRESET)
	return syscall.ECONNRESET
}

// Resume ends the stalls that have been reached, in both directions.
func (c *FaultConn) Resume() {
	c.in.resume()
	c.out.resume()
}

// Close closes the wrapped connection and wakes what is stalled.
func (c *FaultConn) Close() error {
	c.in.setDeadline(time.Time{})
	c.out.setDeadline(time.Time{})
	c.in.end(net.ErrClosed)
	c.out.end(net.ErrClosed)
	return c.nc.Close()
}

// CloseWrite closes the write side of the wrapped connection.
func (c *FaultConn) CloseWrite() error { return closeWrite(c.nc) }

// SetLinger sets that of the wrapped connection.
func (c *FaultConn) SetLinger(sec int) error { return setLinger(c.nc, sec) }

// LocalAddr is that of the wrapped connection.
func (c *FaultConn) LocalAddr() net.Addr { return c.nc.LocalAddr() }

// RemoteAddr is that of the wrapped connection.
func (c *FaultConn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// SetDeadline sets both deadlines, of stalls too.
func (c *FaultConn) SetDeadline(t time.Time) error {
	c.in.setDeadline(t)
	c.out.setDeadline(t)
	return c.nc.SetDeadline(t)
}

// SetReadDeadline sets the deadline of Reads, of stalled ones too.
func (c *FaultConn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(t)
	return c.nc.SetReadDeadline(t)
}

// SetWriteDeadline sets the deadline of Writes, of stalled ones too.
func (c *FaultConn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(t)
	return c.nc.SetWriteDeadline(t)
}

// closeWrite sends a FIN where nc can do that, and closes it where not.
func closeWrite(nc net.Conn) error {
	if cw, ok := nc.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return nc.Close()
}

func setLinger(nc net.Conn, sec int) error {
	if l, ok := nc.(interface{ SetLinger(sec int) error }); ok {
		return l.SetLinger(sec)
	}
	return errors.ErrUnsupported
}
