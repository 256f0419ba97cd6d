package mpa

import (
	"errors"
	"io"

	"github.com/go-iwarp/iwarp/internal/tcpsock"
)

// receiver is the receiving side of a Conn: a linear buffer, filled by large
// reads, from which whole FPDUs are taken. buf[rd:wr] is not used up yet.
type receiver struct {
	deframer Deframer
	buf      []byte
	large    *recvArray // borrowed, or nil
	small    *parkArray // borrowed, or nil; a conn that blocks in Read keeps it
	brief    bool       // the last read brought little: the next one may go to own
	rd, wr   int
	need     int  // octets of buf[rd:] that the Deframer asks for
	size     int  // octets of the longest FPDU that the last read brought
	more     bool // buf[rd:] may hold a whole FPDU
	order    uint64
	swallow  bool // after an error of MPA: read and discard

	try  func(fd uintptr) bool
	poll bool // do not wait
	none bool // a poll has found nothing
	n    int
	err  error
	seen uint64 // markers counted so far

	calls uint64 // of the operating system's read

	own [ownRecvLen]byte // for short messages that come alone: nothing need be borrowed
}

func (r *receiver) init() { r.try = r.tryRead }

// Receive blocks until octets arrive, reads them once, and calls fn for each
// ULPDU that is now whole and valid, in order; perhaps for none. order counts them
// from 0. segment is valid during the call only. An error of fn ends Receive,
// which returns it; the next call goes on behind that ULPDU.
//
// Between two FPDUs, the peer's FIN gives [io.EOF]. All other errors of the
// connection are *protocol.Error: MPAConnectionLost for a FIN inside an FPDU and
// for any other end; MPACRC or MPAMarker for input that cannot be trusted. After
// these two no ULPDU is given any more, TCP stays open and the other direction
// usable, and every later call reads and discards until the peer closes
// (https://www.rfc-editor.org/rfc/rfc5044#section-8). A passed read deadline is
// returned as it is, and Receive can be called again.
func (c *Conn) Receive(fn func(order uint64, segment []byte) error) error {
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

// TryReceive is [Conn.Receive] that does not wait: it reports false if there is
// nothing to read. It is for a goroutine that spins on the connection for the
// sake of latency, and belongs to the goroutine that owns Receive. Conns that
// cannot tell give [errors.ErrUnsupported].
func (c *Conn) TryReceive(fn func(order uint64, segment []byte) error) (bool, error) {
	if !tcpsock.CanRead || c.sock == nil {
		return false, &tcpsock.UnsupportedError{Feature: "a read that does not wait on this connection"}
	}
	r := &c.in
	r.poll = true
	err := c.Receive(fn)
	r.poll = false
	if err == errNothing { //nolint:errorlint // never wrapped, and compared at every poll
		return false, nil
	}
	return true, err
}

// errNothing is how a poll that has found nothing gets back to TryReceive.
var errNothing = errors.New("nothing to read")

// deliver takes all whole FPDUs from the buffer.
func (c *Conn) deliver(fn func(order uint64, segment []byte) error) error {
	r := &c.in
	var fpdus, octets uint64
	var result error
	longest := 0
	for {
		ulpdu, n, need, perr := r.deframer.Next(r.buf[r.rd:r.wr])
		if perr != nil {
			c.stats.refused(perr.Code)
			r.swallow, r.more, r.rd, r.wr = true, false, 0, 0
			r.giveBack()
			result = perr
			break
		}
		if n == 0 {
			r.need, r.more = need, false
			r.settle()
			break
		}
		r.rd += n
		longest = max(longest, n)
		if fpdus == 0 && !c.maySend.Load() {
			c.maySend.Store(true)
		}
		fpdus++
		octets += uint64(n)
		order := r.order
		r.order++
		if result = fn(order, ulpdu); result != nil {
			r.more = true
			break
		}
	}
	if longest > 0 {
		r.size = longest
	}
	c.stats.fpdusReceived.Add(fpdus)
	c.stats.octetsReceived.Add(octets)
	if m := r.deframer.markers; m != r.seen {
		c.stats.markersReceived.Add(m - r.seen)
		r.seen = m
	}
	return result
}

// fill reads once.
func (c *Conn) fill() error {
	n, err := c.read()
	c.in.wr += n
	if n > 0 {
		return nil // an error comes again with the next read
	}
	if err == errNothing { //nolint:errorlint // never wrapped, and compared at every poll
		return err
	}
	if err == nil || errors.Is(err, io.EOF) {
		if c.in.wr > c.in.rd {
			return connError("FIN inside an FPDU", io.ErrUnexpectedEOF)
		}
		return io.EOF
	}
	return connError("reading FPDUs", err)
}

// discard reads once and throws away.
func (c *Conn) discard() error {
	n, err := c.read()
	c.in.rd, c.in.wr = 0, 0
	c.in.giveBack()
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

// read reads once behind buf[:wr]; 0 octets without an error are the end.
func (c *Conn) read() (int, error) {
	r := &c.in
	if tcpsock.CanRead && c.sock != nil {
		r.n, r.err, r.none = 0, nil, false
		err := c.sock.Recv(r.try)
		c.stats.recvCalls.Store(r.calls)
		r.giveBackIfEmpty()
		if err != nil {
			return 0, err
		}
		if r.none {
			return 0, errNothing
		}
		return r.n, r.err
	}
	r.makeRoom()
	for range 100 {
		n, err := c.nc.Read(r.room())
		if n > 0 || err != nil {
			return max(n, 0), err
		}
	}
	return 0, io.ErrNoProgress
}

// tryRead borrows a buffer only for as long as there is something to read.
func (r *receiver) tryRead(fd uintptr) bool {
	switch {
	case r.large != nil:
	case r.brief && r.rd == r.wr:
		r.buf, r.rd, r.wr = r.own[:], 0, 0
		r.dropSmall()
	default:
		r.borrow()
		r.dropSmall()
	}
	r.calls++
	n, again, err := tcpsock.TryRead(fd, r.room())
	if again && r.poll {
		r.none = true
		return true
	}
	if again {
		r.park()
		return false
	}
	r.n, r.err = n, err
	r.brief = n < ownRecvLen
	return true
}

// room is where to read to. Where FPDUs are long it ends where one is likely to
// end, if they go on as they are: what is read of the next would have to be moved.
func (r *receiver) room() []byte {
	room := r.buf[r.wr:]
	if r.size < longFPDU {
		return room
	}
	rest := r.size - (r.wr - r.rd)
	if r.need >= longFPDU {
		rest = r.need - (r.wr - r.rd) // its length is known
	}
	if rest <= 0 || rest > len(room) {
		return room
	}
	return room[:rest+(len(room)-rest)/r.size*r.size]
}

// park gives up the large buffer for the time of a wait: nothing or little is in
// it, and peers that stop within an FPDU should not be able to pin it down.
func (r *receiver) park() {
	switch left := r.wr - r.rd; {
	case left == 0:
		r.giveBack()
	case left <= smallRecvLen:
		if r.small == nil {
			r.small = parkPool.Get().(*parkArray)
		}
		r.rd, r.wr = 0, copy(r.small[:], r.buf[r.rd:r.wr])
		r.giveBackLarge()
		r.buf = r.small[:]
	}
}

// makeRoom chooses a buffer for a conn that blocks in Read: a small one that it
// keeps, a large one while an FPDU needs it.
func (r *receiver) makeRoom() {
	if r.small == nil {
		r.small = parkPool.Get().(*parkArray)
	}
	if r.large == nil {
		r.buf = r.small[:]
		if r.need > len(r.buf) {
			r.borrow()
		}
	}
}

// borrow takes a large buffer and moves what is left into it.
func (r *receiver) borrow() {
	p := recvPool.Get().(*recvArray)
	r.wr = copy(p[:], r.buf[r.rd:r.wr])
	r.rd, r.buf, r.large = 0, p[:], p
}

// settle moves the octets of an unfinished FPDU to the front, or gives the buffer
// back if there are none.
func (r *receiver) settle() {
	if r.rd == r.wr {
		r.rd, r.wr = 0, 0
		r.giveBack()
		return
	}
	if r.rd > 0 {
		r.wr = copy(r.buf, r.buf[r.rd:r.wr])
		r.rd = 0
	}
}

func (r *receiver) giveBackIfEmpty() {
	if r.n == 0 && r.rd == r.wr {
		r.giveBack()
	}
}

func (r *receiver) giveBack() {
	r.need, r.buf = 0, nil
	r.giveBackLarge()
}

func (r *receiver) giveBackLarge() {
	if r.large != nil {
		recvPool.Put(r.large)
		r.large = nil
	}
}

func (r *receiver) dropSmall() {
	if r.small != nil {
		parkPool.Put(r.small)
		r.small = nil
	}
}
