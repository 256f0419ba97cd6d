package sctp

import (
	"context"
	"errors"
	"net"
	"time"

	pion "github.com/pion/sctp"
)

// lower is an SCTP association below: of pion/sctp in user space, or of the kernel.
type lower interface {
	// accept returns the next stream that the peer has begun on, until the association ends.
	accept() (lowerStream, error)
	// open makes the stream with that identifier known.
	open(id uint16) (lowerStream, error)
	// shutdown ends the association gracefully, and waits for that as long as ctx lives.
	shutdown(ctx context.Context) error
	// abort ends it at once.
	abort(why string)
	// close releases it; what blocks returns.
	close() error
	// segment is the size of the largest DDP segment that is not fragmented at the moment. It may fall,
	// and does not grow beyond what it was first.
	segment() int
	// highWater is how many octets may lie in the queue of a stream.
	highWater() int
}

// lowerStream is one stream of an association, both directions of it.
type lowerStream interface {
	id() uint16
	// read returns the next message: an error that is io.ErrShortBuffer when it was longer than b,
	// os.ErrDeadlineExceeded when the deadline has passed, and any other when the association is over.
	read(b []byte) (n int, ppid uint32, err error)
	// write queues an unordered message, which it copies.
	write(b []byte, ppid uint32) error
	// setReadDeadline ends reads: with one that has passed at once, with zero never.
	setReadDeadline(t time.Time)
	// queued is how many octets of this stream lie in this end's queue.
	queued() uint64
	// acknowledged reports whether the peer has acknowledged all that was written.
	acknowledged() bool
	// onLow has fn called whenever the queue has become short.
	onLow(low uint64, fn func())
}

// pionLower is an association in user space.
type pionLower struct {
	a   *pion.Association
	max int
}

func (p pionLower) accept() (lowerStream, error) {
	s, err := p.a.AcceptStream()
	if err != nil {
		return nil, err
	}
	return newPionStream(s), nil
}

func (p pionLower) open(id uint16) (lowerStream, error) {
	s, err := p.a.OpenStream(id, PPIDSegment)
	if err != nil {
		return nil, err
	}
	return newPionStream(s), nil
}

func (p pionLower) shutdown(ctx context.Context) error {
	err := p.a.Shutdown(ctx)
	if errors.Is(err, pion.ErrShutdownNonEstablished) {
		return nil // the peer was first
	}
	return err
}

func (p pionLower) abort(why string) { p.a.Abort(why) }
func (p pionLower) close() error     { return p.a.Close() }
func (p pionLower) segment() int     { return p.max }

// highWater: a segment chunk has 16 octets at least, so that fewer than 32768 chunks are under way.
//
// Rule: SCTP-10-03
func (p pionLower) highWater() int { return 480 << 10 }

// pionStream is a stream in user space.
type pionStream struct{ s *pion.Stream }

func newPionStream(s *pion.Stream) pionStream {
	// Rule: SCTP-10-01
	s.SetReliabilityParams(true, pion.ReliabilityTypeReliable, 0)
	return pionStream{s}
}

func (p pionStream) id() uint16 { return p.s.StreamIdentifier() }

func (p pionStream) read(b []byte) (int, uint32, error) {
	n, ppid, err := p.s.ReadSCTP(b)
	return n, uint32(ppid), err
}

func (p pionStream) write(b []byte, ppid uint32) error {
	_, err := p.s.WriteSCTP(b, pion.PayloadProtocolIdentifier(ppid))
	return err
}

func (p pionStream) setReadDeadline(t time.Time) { _ = p.s.SetReadDeadline(t) }
func (p pionStream) queued() uint64              { return p.s.BufferedAmount() }
func (p pionStream) acknowledged() bool          { return p.s.BufferedAmount() == 0 }

func (p pionStream) onLow(low uint64, fn func()) {
	p.s.SetBufferedAmountLowThreshold(low)
	p.s.OnBufferedAmountLow(fn)
}

// Addr is an address of SCTP of the kernel: of an IP address, and a port of SCTP.
type Addr struct {
	net.IPAddr
	Port int
}

// Network implements net.Addr: it is "sctp".
func (a *Addr) Network() string { return "sctp" }

// String implements net.Addr.
func (a *Addr) String() string { return (&net.TCPAddr{IP: a.IP, Port: a.Port, Zone: a.Zone}).String() }
