package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/go-iwarp/iwarp"
)

// Conn is a stream over an iWARP connection. It is a [net.Conn], and all its methods may be called from any
// goroutine.
//
// It has no goroutine of its own until Close: what the peer grants and announces is handled by the calls of Read and
// Write that wait.
type Conn struct {
	*endpoint
	conn *iwarp.Conn
	peer privateData

	closing   sync.Once
	closed    chan struct{} // Close was called
	ended     chan struct{} // after Close: the device has its own back
	readable  chan struct{} // holds a token when a Read that waits should look again
	writable  chan struct{} // likewise a Write
	leading   chan struct{} // who has put a token in may process messages
	lead      lead
	readUntil deadline
	sendUntil deadline

	granting sync.Mutex // taken before mu: grants go out in order
	notice   notice
	mu       sync.Mutex
	in       inbound
	out      outbound
	err      error // why the connection has ended

	reading sync.Mutex // serializes Reads
	writing sync.Mutex // serializes Writes
	writer  writer
}

// lead is what whoever leads has.
type lead struct {
	comps [16]iwarp.Completion
	wrs   []iwarp.RecvWR
}

// inbound is the ring, the peer's data in it, and what this end has told the peer.
type inbound struct {
	part      int    // the least octets that are granted at a time: no more grants than the peer's list has entries
	offset    int    // of the oldest octet that is not read
	unread    int    // octets from there on
	promised  int    // octets granted that are not announced yet
	freed     int    // octets read that are not granted again
	next      int    // offset of the next grant
	seq       uint16 // data messages received
	limit     uint16 // the first that may not come
	entry     uint32 // of the peer's list that the next grant of memory is written to
	shutdown  bool   // the peer sends no more data
	gone      bool   // the peer has disconnected
	forgotten bool   // this end has said that it disconnects
}

// outbound is what the peer has granted.
type outbound struct {
	grants   [grantEntries]sge // the memory, in order
	count    int
	entry    int    // of this end's list where the next grant appears
	seq      uint16 // data messages sent
	limit    uint16 // the first that may not be sent
	reserve  uint16 // so many sequence numbers stay unused: see newConn
	shutdown bool   // CloseWrite was called
}

// newConn starts a stream on a connection that stands.
func newConn(e *endpoint, conn *iwarp.Conn, peer privateData) *Conn {
	c := newState(e, conn, peer)
	c.grant() // the other half; this is the initiator's first message as well
	return c
}

func newState(e *endpoint, conn *iwarp.Conn, peer privateData) *Conn {
	c := &Conn{
		endpoint: e, conn: conn, peer: peer,
		closed: make(chan struct{}), ended: make(chan struct{}),
		readable: make(chan struct{}, 1), writable: make(chan struct{}, 1), leading: make(chan struct{}, 1),
		readUntil: newDeadline(), sendUntil: newDeadline(),
	}
	c.in = inbound{
		part: len(e.ring) / parts(peer.grants.length), promised: e.half(), freed: e.half(), next: e.half(),
		entry: 1, limit: uint16(e.cfg.Credits),
	}
	c.out = outbound{count: 1, entry: 1, limit: peer.credits}
	c.out.grants[0] = peer.first
	// Messages that are no data use the peer's receives too, and rsockets count on a network that repeats what finds
	// no receive, which iWARP does not.
	c.out.reserve = min(8, peer.credits/4)
	c.writer.init()
	return c
}

// parts is in how many parts a ring is granted to a peer whose list of grants has so many entries: none of them is
// written before what it has is used up. A ring can be halved as often.
func parts(entries uint32) int { return 1 << (bits.Len32(min(entries, grantEntries)) - 1) }

// process handles the messages that have come, and reports whether there were any or the connection has ended. The
// caller leads.
func (c *Conn) process(poll func(*iwarp.CQ, []iwarp.Completion) int) bool {
	l := &c.lead
	n := poll(c.qp.RecvCQ(), l.comps[:])
	if n == 0 {
		return false
	}
	var err error
	l.wrs = l.wrs[:0]
	c.mu.Lock()
	had, limit := c.out.count, c.out.limit
	for i := range l.comps[:n] {
		if err = c.received(&l.comps[i]); err != nil {
			break
		}
		l.wrs = append(l.wrs, c.wrs[l.comps[i].ID])
	}
	if err == nil {
		err = c.qp.PostRecv(l.wrs...)
	}
	if err != nil {
		c.fail(err)
	}
	due, gone := c.due(), c.in.gone
	more := c.out.count > had || c.out.limit != limit
	c.mu.Unlock()
	if due {
		c.grant()
	}
	if gone {
		c.conn.CloseWrite() // the peer reads no more
	}
	signal(c.readable)
	if more || gone {
		signal(c.writable)
	}
	return true
}

// received handles one completion. The caller has the lock.
func (c *Conn) received(comp *iwarp.Completion) error {
	switch {
	case comp.Err != nil:
		return comp.Err
	case comp.Op != iwarp.OpRecv || comp.Length != msgLen:
		return fmt.Errorf("%w: %v of %d octets: a message is a Send of %d", ErrProtocol, comp.Op, comp.Length, msgLen)
	case c.in.gone:
		return nil
	}
	kind, value := parseMessage(c.recvs[comp.ID*msgLen:])
	switch kind {
	case kindData:
		return c.in.data(value)
	case kindGrant:
		return c.out.granted(value, c.peer.credits, c.list)
	case kindState:
		switch value {
		case stateDisconnect:
			c.in.gone = true
			return nil
		case stateShutdown:
			c.in.shutdown = true
			return nil
		case stateKeepalive:
			return nil
		}
		return fmt.Errorf("%w: state %d is not known", ErrProtocol, value)
	}
	return fmt.Errorf("%w: message of kind %d with value %d: not known, or not offered", ErrProtocol, kind, value)
}

// data notes that the peer has written n octets.
func (in *inbound) data(n uint32) error {
	if in.shutdown {
		return fmt.Errorf("%w: data after shutdown", ErrProtocol)
	}
	if int64(n) > int64(in.promised) {
		return fmt.Errorf("%w: %d octets of data: %d are granted", ErrProtocol, n, in.promised)
	}
	if in.seq == in.limit {
		return fmt.Errorf("%w: a data message with sequence number %d: it is not granted", ErrProtocol, in.seq)
	}
	in.promised -= int(n)
	in.unread += int(n)
	in.seq++
	return nil
}

// granted notes what the peer has granted: sequence numbers up to value, and memory if an entry of the list says so.
func (out *outbound) granted(value uint32, credits uint16, list []byte) error {
	// This package says which messages follow a grant of memory. rsockets do not, so every message may.
	flags := value & (grantMarked | grantMemory)
	value &^= flags
	limit := uint16(value)
	if flags == grantMemory || value > 1<<17-1 || limit-out.seq > credits || limit-out.seq < out.limit-out.seq {
		return fmt.Errorf("%w: sequence numbers up to %d granted: %d are used, %d granted before, and %d can be at a "+
			"time",
			ErrProtocol, value, out.seq, out.limit, credits)
	}
	out.limit = limit
	if flags == grantMarked {
		return nil
	}
	for out.count < len(out.grants) {
		s, ok := takeGrant(list[out.entry*sgeLen:])
		if !ok {
			break
		}
		if err := s.check(); err != nil {
			return fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		out.grants[out.count] = s
		out.count++
		out.entry = (out.entry + 1) % (len(list) / sgeLen)
		if flags != 0 {
			return nil
		}
	}
	if flags != 0 {
		return fmt.Errorf("%w: a grant of memory that is not in the list, or beyond %d that are not used up",
			ErrProtocol, len(out.grants))
	}
	return nil
}

// fail notes why the connection has ended. The caller has the lock.
func (c *Conn) fail(err error) {
	switch {
	case c.in.gone: // the peer has said so before
		return
	case c.conn.Err() != nil:
		c.err = c.conn.Err()
	case errors.Is(err, iwarp.ErrFlushed):
		c.err = io.ErrUnexpectedEOF // a FIN, with no word of it before
	default:
		c.err = err
		go c.conn.Abort()
	}
	c.in.gone = true
}

// due reports whether a grant should be sent. The caller has the lock.
func (c *Conn) due() bool { return !c.in.gone && !c.in.forgotten && c.in.due(c.cfg.Credits) }

// due reports whether there is enough to grant: a part of the ring, or half of the sequence numbers.
func (in *inbound) due(credits int) bool {
	return in.freed >= in.part || int(in.limit-in.seq) <= credits/2
}

// grant grants all sequence numbers that there are and, in one piece of a ring of so many octets, the parts that are
// free: n octets from offset on, which may be none.
func (in *inbound) grant(ring, credits int) (offset, n int, limit uint16) {
	in.limit = in.seq + uint16(credits)
	offset, n = in.next, min(in.freed-in.freed%in.part, ring-in.next)
	in.next = (in.next + n) % ring
	in.freed -= n
	in.promised += n
	return offset, n, in.limit
}

// grant tells the peer of memory that has become free and of receives.
func (c *Conn) grant() {
	c.granting.Lock()
	defer c.granting.Unlock()
	for {
		c.mu.Lock()
		if !c.due() {
			c.mu.Unlock()
			return
		}
		in := &c.in
		offset, n, limit := in.grant(len(c.ring), c.cfg.Credits)
		var at iwarp.RemoteBuffer
		s := sge{c.mr.Remote().TO + ringOffset + uint64(offset), uint32(c.mr.STag()), uint32(n)}
		if n > 0 {
			at = remote(&c.peer.grants, uint64(in.entry)*sgeLen)
			in.entry = (in.entry + 1) % c.peer.grants.length
		}
		c.mu.Unlock()
		c.sendGrant(s, at, limit)
	}
}

// notice is what this end posts beside data; Conn.granting guards it. The octets are copied when they are posted.
type notice struct {
	entry [sgeLen]byte
	msg   [msgLen]byte
	sg    [2][1][]byte
	wrs   [2]iwarp.SendWR
}

// sendGrant writes a grant of memory, if there is one, and says that there is one.
func (c *Conn) sendGrant(s sge, at iwarp.RemoteBuffer, limit uint16) {
	n := &c.notice
	list, value := n.wrs[:0], uint32(limit)|grantMarked
	if s.length > 0 {
		value |= grantMemory
		n.sg[0][0] = s.appendGrant(n.entry[:0])
		list = append(list, iwarp.SendWR{Op: iwarp.OpWrite, SG: n.sg[0][:], Remote: at, Inline: true, Unsignaled: true})
	}
	c.say(list, message(kindGrant, value))
}

// say posts a message behind other requests. The send queue has room for the few that there can be at a time; a peer
// that makes this end say more than it takes loses the connection.
func (c *Conn) say(list []iwarp.SendWR, m uint32) {
	n := &c.notice
	binary.LittleEndian.PutUint32(n.msg[:], m)
	n.sg[1][0] = n.msg[:]
	list = append(list, iwarp.SendWR{Op: iwarp.OpSend, SG: n.sg[1][:], Inline: true, Unsignaled: true})
	err := c.qp.PostSend(list...)
	if errors.Is(err, iwarp.ErrSendQueueFull) || errors.Is(err, iwarp.ErrCQFull) {
		go c.conn.Abort()
	}
}

// remote is the address of an octet of the peer's memory.
func remote(s *sge, offset uint64) iwarp.RemoteBuffer {
	return iwarp.RemoteBuffer{STag: iwarp.STag(s.stag), TO: s.addr + offset}
}

// signal puts a token into a channel of capacity one, unless it has one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ErrProtocol is in the error of a connection whose peer broke the rules of docs/stream.md.
var ErrProtocol = errors.New("stream: the peer broke the protocol")

// await sleeps until there may be something to do. One of the calls that sleep leads: it processes the messages,
// for the others too, whom it tells by their wake. The error is that the deadline has passed or that this end has
// closed the connection.
func (c *Conn) await(wake <-chan struct{}, until *deadline) error {
	select {
	case c.leading <- struct{}{}:
		c.sleep(wake, until)
		<-c.leading
	case <-wake:
	case <-until.wait():
	case <-c.closed:
	}
	return c.stopped(until)
}

// sleep processes messages, waiting for some. The caller leads.
func (c *Conn) sleep(wake <-chan struct{}, until *deadline) {
	select {
	case <-wake: // from who led before
		return
	default:
	}
	cq := c.qp.RecvCQ()
	for !c.process((*iwarp.CQ).Spin) {
		if cq.Arm(false); c.process((*iwarp.CQ).Poll) {
			break
		}
		select {
		case <-cq.Events():
			continue
		case <-until.wait():
		case <-c.closed:
		}
		return
	}
	select {
	case <-wake: // its own
	default:
	}
}

// stopped is the error of a call that this end forbids.
func (c *Conn) stopped(until *deadline) error {
	select {
	case <-c.closed:
		return net.ErrClosed
	case <-until.wait():
		return os.ErrDeadlineExceeded
	default:
		return nil
	}
}

// CloseWrite tells the peer that no more data comes: its Read returns [io.EOF] behind what has been sent. Reading goes
// on.
func (c *Conn) CloseWrite() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	select {
	case <-c.closed:
		return c.opError("close", net.ErrClosed)
	default:
	}
	c.mu.Lock()
	was, gone := c.out.shutdown, c.in.gone
	c.out.shutdown = true
	c.mu.Unlock()
	if !was && !gone {
		c.granting.Lock()
		defer c.granting.Unlock()
		c.say(c.notice.wrs[:0], message(kindState, stateShutdown))
	}
	return nil
}

// Close tells the peer that this end neither sends nor reads any more, and ends the connection. Calls of Read and Write
// that wait return. It waits until the network has taken what was written, and no longer than the CloseTimeout of
// [iwarp.Config] without progress; the rest of the end goes on in the background, for as long as the peer keeps
// its half open and CloseTimeout allows.
func (c *Conn) Close() error {
	err := c.opError("close", net.ErrClosed)
	c.closing.Do(func() {
		err = nil
		close(c.closed)
		c.granting.Lock() // so that no grant follows
		c.mu.Lock()
		gone := c.in.gone
		c.in.forgotten = true
		c.mu.Unlock()
		if !gone {
			c.say(c.notice.wrs[:0], message(kindState, stateDisconnect))
		}
		c.granting.Unlock()
		go c.finish()
		<-c.conn.Drained()
		c.readUntil.stop()
		c.sendUntil.stop()
	})
	return err
}

// Abort ends the connection at once, with a TCP reset where possible, so that the peer does not take it for an end in
// good order: its Read returns an error. Calls of Read and Write that wait return. What the network has not taken is
// lost.
func (c *Conn) Abort() {
	c.conn.Abort()
	_ = c.Close()
}

// finish waits for the end of the connection and gives the memory back.
func (c *Conn) finish() {
	_ = c.conn.Close()
	c.release()
	defer close(c.ended)
	if c.reading.TryLock() { // otherwise somebody still has part of it
		c.free()
		c.reading.Unlock()
	}
}

// LocalAddr returns this end's address.
func (c *Conn) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// IWARP returns the iWARP connection below, for its counters and what was agreed at startup. Nothing may be posted to
// its QP, and it must not be closed.
func (c *Conn) IWARP() *iwarp.Conn { return c.conn }

// SetDeadline sets both deadlines. They are as [net.Conn] says: a call that runs into one returns an error that wraps
// [os.ErrDeadlineExceeded], and the connection goes on with the next deadline.
func (c *Conn) SetDeadline(t time.Time) error {
	err := c.SetReadDeadline(t)
	if err == nil {
		c.sendUntil.set(t)
	}
	return err
}

// SetReadDeadline sets the deadline of Reads, also of those that wait.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.readUntil, t) }

// SetWriteDeadline sets the deadline of Writes. A Write that has begun without a deadline lends its memory to the
// network; a deadline set during that call interrupts its wait for the peer to read, and otherwise takes effect when
// TCP has taken those octets.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.sendUntil, t) }

func (c *Conn) setDeadline(d *deadline, t time.Time) error {
	select {
	case <-c.closed:
		return c.opError("set", net.ErrClosed)
	default:
		d.set(t)
		return nil
	}
}

// SyscallConn returns the TCP socket below, to set its options: Control works, Read and Write fail.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	sc, ok := c.conn.NetConn().(syscall.Conn)
	if !ok {
		return nil, c.opError("raw-control", errors.ErrUnsupported)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	return controlConn{raw}, nil
}

type controlConn struct{ syscall.RawConn }

// Read fails: the octets of the socket are the iWARP connection's.
func (controlConn) Read(func(uintptr) bool) error { return errors.ErrUnsupported }

// Write fails likewise.
func (controlConn) Write(func(uintptr) bool) error { return errors.ErrUnsupported }

func (c *Conn) opError(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: "iwarp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}
