package mpa

import (
	"errors"
	"io"
	"sync"

	"github.com/go-iwarp/iwarp/internal/tcpsock"
)

// receiver is the receiving side of a Conn: a buffer, filled by large reads, from
// which whole FPDUs are taken.
type receiver struct {
	deframer Deframer
	inbuf
	brief   bool // the last read brought little: so may the next one
	need    int  // octets that the Deframer asks for
	longest int  // octets of the longest FPDU that the last read brought
	more    bool // a whole FPDU may be there
	order   uint64
	swallow bool // after an error of MPA: read and discard

	try    func(fd uintptr) bool
	once   func(fd uintptr)
	poll   bool        // do not wait
	shared *sync.Mutex // held but for the time of a wait; nil: nobody else receives
	waits  bool        // shared is not held
	tries  uint64      // calls of TryReceive that have done something
	before uint64      // of tries, when the wait began
	none   bool        // nothing was read: a poll has found nothing, or others were here during a wait
	n      int
	err    error
	seen   uint64 // markers counted so far

	calls uint64 // of the operating system's read
}

func (r *receiver) init(m *memory) { r.pool, r.try, r.once = m, r.tryRead, r.tryOnce }

// Receive blocks until octets arrive, reads them once, and calls fn for each
// ULPDU that is now whole and valid, in order; perhaps for none. order counts them
// from 0. segment is valid during the call only. An error of fn ends Receive,
// which returns it; the next call goes on behind that ULPDU.
//
// Between two FPDUs, the peer's FIN gives [io.EOF]. All other errors of the
// connection are *protocol.Error: MPAConnectionLost for a FIN inside an FPDU, for
// one that TLS has not announced (see [BelowTLS]) and for any other end; MPACRC or MPAMarker for input that cannot
// be trusted. After these two no ULPDU is given any more, TCP stays open and the other direction
// usable, and every later call reads and discards until the peer closes
// (https://www.rfc-editor.org/rfc/rfc5044#section-8). A passed read deadline is
// returned as it is, and Receive can be called again.
//
// Receive can be called again after a panic of fn that the caller has recovered from.
func (c *Conn) Receive(fn func(order uint64, segment []byte) error) error {
	c.in.poll = false
	return c.receive(fn)
}

func (c *Conn) receive(fn func(order uint64, segment []byte) error) error {
	r := &c.in
	if r.swallow {
		return c.discard()
	}
	if !r.more {
		if err := c.fill(); err != nil {
			return err
		}
	}
	return c.deliver(fn)
}

// ReceiveShared is [Conn.Receive] on a connection on which others call TryReceive. l
// is what these hold too: it is held when ReceiveShared is called and when it
// returns, and free while it waits for octets. If others have been at the connection
// meanwhile, it may return without having read anything. The conn is one of those
// that CanTryReceive.
func (c *Conn) ReceiveShared(l *sync.Mutex, fn func(order uint64, segment []byte) error) error {
	r := &c.in
	r.poll, r.shared = false, l
	err := c.receive(fn)
	r.shared = nil
	if err == errNothing { //nolint:errorlint // never wrapped
		return nil
	}
	return err
}

// CanTryReceive reports whether TryReceive and ReceiveShared work on this
// connection: it is a socket of the kernel, and the operating system can tell.
func (c *Conn) CanTryReceive() bool { return tcpsock.CanRead && c.sock != nil }

// TryReceive is [Conn.Receive] that does not wait: it reports false if there is
// nothing to read. It is for a goroutine that spins on the connection for the
// sake of latency, and belongs to the goroutine that owns Receive; beside
// [Conn.ReceiveShared] to whoever holds its lock. A passed read deadline does not
// matter to it. Conns that cannot tell give [errors.ErrUnsupported].
func (c *Conn) TryReceive(fn func(order uint64, segment []byte) error) (bool, error) {
	if !c.CanTryReceive() {
		return false, &tcpsock.UnsupportedError{Feature: "a read that does not wait on this connection"}
	}
	c.in.poll = true
	err := c.receive(fn)
	if err == errNothing { //nolint:errorlint // never wrapped, and compared at every poll
		return false, nil
	}
	c.in.tries++
	return true, err
}

// errNothing is how a poll that has found nothing gets back to TryReceive, and a wait
// in which others have received to ReceiveShared.
var errNothing = errors.New("nothing to read")

// deliver takes all whole FPDUs from the buffer.
func (c *Conn) deliver(fn func(order uint64, segment []byte) error) error {
	r := &c.in
	var t tally
	defer c.count(&t)
	r.more = true // as it is when fn ends this, in whatever way
	for {
		// Rule: MPA-A.4-01
		ulpdu, n, need, perr := r.deframer.Next(r.octets())
		if perr != nil {
			c.stats.refused(perr.Code)
			// Rule: MPA-8-09, MPA-8-10
			r.swallow, r.more, r.need = true, false, 0
			r.drop()
			return perr
		}
		if n == 0 {
			r.need, r.more = need, false
			r.settle()
			return nil
		}
		r.use(n)
		t.longest = max(t.longest, n)
		if t.fpdus == 0 && !c.maySend.Load() {
			// Rule: MPA-7.1.2-14
			c.maySend.Store(true)
		}
		t.fpdus++
		t.octets += uint64(n)
		order := r.order
		r.order++
		if err := fn(order, ulpdu); err != nil {
			return err
		}
	}
}

// tally is what one call of deliver has taken.
type tally struct {
	fpdus, octets uint64
	longest       int // octets
}

func (c *Conn) count(t *tally) {
	r := &c.in
	if t.longest > 0 {
		r.longest = t.longest
	}
	c.stats.fpdusReceived.Add(t.fpdus)
	c.stats.octetsReceived.Add(t.octets)
	if m := r.deframer.markers; m != r.seen {
		c.stats.markersReceived.Add(m - r.seen)
		r.seen = m
	}
}

// fill reads once.
func (c *Conn) fill() error {
	n, err := c.read()
	c.in.took(n)
	if n > 0 {
		c.stats.octetsRead.Add(uint64(n))
		return nil // an error comes again with the next read
	}
	if err == errNothing { //nolint:errorlint // never wrapped, and compared at every poll
		return err
	}
	// Rule: MPA-3-09, MPA-7.2-02, DDP-3-09
	if err == nil || errors.Is(err, io.EOF) {
		// Rule: MPA-8-01
		if c.in.len() > 0 {
			return connError("FIN inside an FPDU", io.ErrUnexpectedEOF)
		}
		if c.below.cut() {
			return connError("FIN without the close_notify of TLS", io.ErrUnexpectedEOF)
		}
		return io.EOF
	}
	return connError("reading FPDUs", err)
}

// discard reads once and throws away.
func (c *Conn) discard() error {
	n, err := c.read()
	c.in.drop()
	switch {
	case n > 0:
		return nil
	case err == errNothing: //nolint:errorlint // never wrapped, and compared at every poll
		return err
	case err == nil || errors.Is(err, io.EOF):
		return io.EOF
	}
	return connError("waiting for the end of the connection", err)
}

// read reads once, behind what is there; 0 octets without an error are the end.
func (c *Conn) read() (int, error) {
	r := &c.in
	if c.CanTryReceive() {
		r.n, r.err, r.none = 0, nil, false
		var err error
		if r.poll {
			err = c.sock.TryRecv(r.once)
		} else {
			err = c.sock.Recv(r.try)
			if r.waits { // the wait has failed, or somebody else was at it when it ended
				r.shared.Lock()
				r.waits, r.n, r.err, r.none = false, 0, nil, err == nil
			}
		}
		c.stats.recvCalls.Store(r.calls)
		if r.n == 0 {
			r.settle()
		}
		if err != nil {
			return 0, err
		}
		if r.none {
			return 0, errNothing
		}
		return r.n, r.err
	}
	// What blocks in Read has to hold memory while it waits: little at first, and more
	// as an FPDU that needs it comes in.
	want, have := smallRecvLen, r.len()
	switch {
	case r.need <= want:
	case have >= longFPDU, have >= smallRecvLen && r.longest >= longFPDU:
		want = r.need
	default:
		want = max(want, 2*have)
	}
	r.hold(want)
	for range 100 {
		n, err := c.nc.Read(r.target())
		if n > 0 || err != nil {
			return max(n, 0), err
		}
	}
	return 0, io.ErrNoProgress
}

// tryRead is a read that is going to wait if there is nothing.
func (r *receiver) tryRead(fd uintptr) bool {
	if r.waits {
		// Whoever has the lock may be closing the conn, which waits for the end of this call:
		// so do not wait for the lock here.
		if !r.shared.TryLock() {
			return true
		}
		r.waits = false
		if r.tries != r.before {
			// What there was to read may have been read, and have changed all.
			r.n, r.err, r.none = 0, nil, true
			return true
		}
	}
	if r.readOnce(fd) {
		return true
	}
	r.hold(0) // no more than what is there, for the time of a wait
	if r.shared != nil {
		r.waits, r.before = true, r.tries
		r.shared.Unlock()
	}
	return false
}

// tryOnce is a read that does not wait.
func (r *receiver) tryOnce(fd uintptr) { r.none = !r.readOnce(fd) }

// readOnce reads, and reports false if there is nothing yet. It borrows a large
// buffer only for as long as there is something to read.
func (r *receiver) readOnce(fd uintptr) bool {
	if r.brief && r.len() == 0 {
		r.hold(ownRecvLen)
	} else {
		r.hold(recvBufLen)
	}
	r.calls++
	n, again, err := tcpsock.TryRead(fd, r.target())
	if again {
		return false
	}
	r.n, r.err, r.none = n, err, false
	r.brief = n < ownRecvLen
	return true
}

// target is where to read to. Where FPDUs are long it ends where one is likely to
// end, if they go on as they are: what is read of the next would have to be moved.
func (r *receiver) target() []byte {
	room := r.room()
	if r.longest < longFPDU {
		return room
	}
	rest := r.longest - r.len()
	if r.need >= longFPDU {
		rest = r.need - r.len() // its length is known
	}
	if rest <= 0 || rest > len(room) {
		return room
	}
	return room[:rest+(len(room)-rest)/r.longest*r.longest]
}

// settle moves the octets of an unfinished FPDU to the front, or gives the buffer
// back if there are none.
func (r *receiver) settle() {
	if r.len() == 0 {
		r.need = 0
		r.drop()
		return
	}
	r.front()
}
