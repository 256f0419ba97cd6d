package kit

import (
	"net"
	"sync"
	"time"

	"github.com/go-iwarp/iwarp/iwarptest"
)

// gentlePause is how long a gentle initiator waits after the Reply, and again after
// its first FPDU. Linux siw is not ready for the first FPDU when its Reply is out,
// and looks at it when more arrives. A mistake, or an end, that it finds together
// with the first FPDU, or before the first one, stops the kernel in a BUG of iwcm.c.
// Where it can be asked, it is asked too: see settle. A gentle responder waits after
// the peer's first FPDU: siw answers a Read of no octets with those of its own Send, if
// that is still under way.
const gentlePause = 60 * time.Millisecond

// settle waits until the peer of a gentle initiator has taken the first FPDU, which
// it shows by answering a Read of no octets. A pause alone would not do: who knows
// how long the peer's processor was somewhere else.
func (s *session) settle() {
	if _, ok := s.p.Conn.(*gentleConn); !ok || s.k.o.Role != Initiator || s.maxReads == 0 || !s.mine.block ||
		!s.their.block {
		return
	}
	r := s.readZero()
	o, ok := s.pump(4*gentlePause, func() bool { return r.complete })
	if !ok && o.kind == silent {
		s.send(iwarptest.Write(0, 0, nil)) // so that it looks
		o, ok = s.pump(s.timeout(), func() bool { return r.complete })
	}
	if !ok {
		s.fail("after a good startup and the first FPDU: the peer %v, where the answer to an RDMA Read of no octets "+
			"is due (RFC 5040 section 5.2.1)",
			s.close2(o))
	}
}

// gentleConn is a connection that keeps these pauses.
type gentleConn struct {
	net.Conn
	mu      sync.Mutex
	until   time.Time // nothing is sent before
	opening bool      // the Reply is there, and no FPDU was sent
}

// replied tells that the peer has accepted.
func (c *gentleConn) replied() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until, c.opening = time.Now().Add(gentlePause), true
}

// opened tells that the peer's first FPDU has come.
func (c *gentleConn) opened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Now().Add(gentlePause)
}

// mustOpen reports whether the peer waits for the first FPDU.
func (c *gentleConn) mustOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opening
}

// rest waits until something may be sent.
func (c *gentleConn) rest() {
	time.Sleep(time.Until(c.until))
	c.until = time.Time{}
}

// Write waits for the pause to be over.
func (c *gentleConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest()
	n, err := c.Conn.Write(b)
	if c.opening {
		c.opening, c.until = false, time.Now().Add(gentlePause)
	}
	return n, err
}

// CloseWrite sends a FIN after the pause.
func (c *gentleConn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest()
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return c.Conn.Close()
}

// SetLinger is that of the connection below.
func (c *gentleConn) SetLinger(sec int) error {
	if l, ok := c.Conn.(interface{ SetLinger(sec int) error }); ok {
		return l.SetLinger(sec)
	}
	return nil
}

// Close ends the connection after the pause.
func (c *gentleConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest()
	return c.Conn.Close()
}

// replied tells a gentle connection that its peer has accepted.
func (s *session) replied() {
	if g, ok := s.p.Conn.(*gentleConn); ok {
		g.replied()
	}
}

// opened tells a gentle connection that its peer's first FPDU has come.
func (s *session) opened() {
	if g, ok := s.p.Conn.(*gentleConn); ok && s.k.o.Role == Responder {
		g.opened()
	}
}

// leave sends a gentle connection's first FPDU, if none was sent, so that it can be
// closed.
func (s *session) leave() {
	if g, ok := s.p.Conn.(*gentleConn); ok && g.mustOpen() {
		s.push(iwarptest.Write(0, 0, nil))
	}
}
