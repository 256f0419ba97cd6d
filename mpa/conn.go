package mpa

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp/internal/tcpsock"
	"github.com/go-iwarp/iwarp/protocol"
)

// ErrHeld says that a Responder may not send yet: it has not had one valid FPDU
// (https://www.rfc-editor.org/rfc/rfc5044#section-7.1.2 rule 4).
var ErrHeld = errors.New("iwarp: responder may not send before its first valid FPDU [RFC 5044 section 7.1.2]")

// Conn is a connection in Full Operation: ULPDUs go in and come out as FPDUs of a
// [net.Conn]. It starts no goroutine.
//
// The two directions are independent. MULPDU, Queue, QueueMessage, Full, Buffered,
// Flush and CloseWrite belong to one goroutine at a time, Receive to one (possibly
// another). All other methods may be called from any goroutine at any time; Close
// and Abort end what blocks.
type Conn struct {
	nc     net.Conn
	sock   *tcpsock.Socket // nil if nc is not a socket of the kernel
	tcp    bool
	below  *belowTLS // nil if nc is not TLS on a conn of BelowTLS
	params Params

	// send side
	out       sender
	nb        net.Buffers // scratch
	emss      int
	likely    int           // where TCP does not tell
	mulpdu    int           // for that EMSS
	knobs     atomic.Uint64 // generation of fpduMax and alignment wishes
	seenKnobs uint64
	fpduMax   atomic.Int64
	wishAlign atomic.Uint32
	gone      uint64 // octets sent since EMSS was read
	every     uint64 // octets after which it is read again
	found     bool   // findSegment has looked since the last write
	werr      error

	maySend atomic.Bool

	in receiver

	stats counters
}

const (
	emssEvery    = 64 << 10 // the kernel's view changes as traffic flows
	emssEveryMax = 4 << 20
)

// NewConn puts nc, on which both startup frames have gone over, into Full
// Operation with p; o gives FPDUMax and Align, and may be nil. [Initiate] and
// [Incoming.Accept] call it; call it yourself where the frames were exchanged by
// other means. nc belongs to the Conn from then on.
func NewConn(nc net.Conn, p Params, o *Options) *Conn {
	o = o.orDefault()
	c := &Conn{
		nc: nc, params: p, every: emssEvery, likely: likelyEMSS(nc),
	}
	// Rule: MPA-4.4-06, MPA-4.4-07, MPA-7.1.1-06
	c.out.framer = framer{marked: p.SendMarkers, crc: p.CRC}
	c.out.batch.mem = commonMemory
	c.in.deframer = Deframer{Markers: p.RecvMarkers, CRC: p.CRC}
	c.in.init(commonMemory)
	// Rule: MPA-7.1.2-14
	c.maySend.Store(p.Initiator)
	c.fpduMax.Store(int64(o.FPDUMax))
	c.wishAlign.Store(uint32(o.Align))
	// Only the very types of package net: a type around one of them may change what
	// Read and Write do.
	switch s := nc.(type) {
	case *net.TCPConn:
		c.tcp = true
		// Rule: MPA-5.1-03
		_ = s.SetNoDelay(true) // Nagle would hold back the end of a batch
		c.sock, _ = tcpsock.NewSocket(s)
	case *net.UnixConn:
		c.sock, _ = tcpsock.NewSocket(s)
	default:
		// Whatever this is, it is not the kernel: it would come upon memory that is not
		// there in the middle of its Write, and need not stand that.
		c.out.copyAll = true
	}
	c.below = findBelowTLS(nc)
	c.readEMSS()
	return c
}

// NetConn returns the conn below. Use it to look, not to read or write.
func (c *Conn) NetConn() net.Conn { return c.nc }

// Params returns what the two ends have agreed on.
func (c *Conn) Params() Params { return c.params }

// SetFPDUMax sets the bound of an FPDU in octets, in place of the EMSS that TCP
// reports; 0 goes back to the EMSS. A bound above the EMSS gives up the alignment
// of FPDUs and segments, and is for those who know that the peer does not mind.
// MULPDU follows from the start of the next batch.
func (c *Conn) SetFPDUMax(octets int) {
	c.fpduMax.Store(int64(octets))
	c.knobs.Add(1)
}

// SetAlign sets how hard to work for alignment, from the start of the next batch.
func (c *Conn) SetAlign(a Align) {
	c.wishAlign.Store(uint32(a))
	c.knobs.Add(1)
}

// SetDeadline sets the deadline of reads and writes, as [net.Conn] does. After a
// deadline has passed no octet is lost: Receive and Flush can be called again.
func (c *Conn) SetDeadline(t time.Time) error { return c.nc.SetDeadline(t) }

// SetReadDeadline sets the deadline of Receive.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.nc.SetReadDeadline(t) }

// SetWriteDeadline sets the deadline of Flush with wait.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.nc.SetWriteDeadline(t) }

// CloseWrite writes what is queued and ends this direction with a FIN; the other
// stays open. A conn below that cannot do so gives [errors.ErrUnsupported].
func (c *Conn) CloseWrite() error {
	if _, err := c.Flush(true); err != nil {
		return err
	}
	cw, ok := c.nc.(interface{ CloseWrite() error })
	if !ok {
		return fmt.Errorf("iwarp: closing one direction of a %T: %w", c.nc, errors.ErrUnsupported)
	}
	// Rule: MPA-7.2-01
	return cw.CloseWrite()
}

// Close closes the conn below. What is queued and not written is lost, and input
// that nobody has read may turn the close into a reset.
func (c *Conn) Close() error { return c.nc.Close() }

// Abort closes the conn below with a reset where it can.
func (c *Conn) Abort() error {
	nc := c.nc
	for {
		switch a := nc.(type) {
		case interface{ Abort() error }:
			return a.Abort()
		case interface{ SetLinger(sec int) error }:
			_ = a.SetLinger(0)
		case interface{ NetConn() net.Conn }:
			// TLS: what it says when it closes would look like a graceful end.
			if nc = a.NetConn(); nc != nil {
				continue
			}
		}
		if nc != c.nc && nc != nil {
			_ = nc.Close()
		}
		return c.nc.Close()
	}
}

// MaySend reports whether FPDUs may be sent. A Responder may not until it has
// received a valid one, so that the Initiator has had the time to get ready.
func (c *Conn) MaySend() bool { return c.maySend.Load() }

func isFinal(err error) bool {
	_, ok := protocol.CodeOf(err)
	return ok
}

// connError wraps an error of the conn below. A passed deadline is not the end of
// the connection and stays as it is.
func connError(detail string, err error) error {
	// Rule: MPA-7.1.2-26
	if errors.Is(err, os.ErrDeadlineExceeded) { // not ETIMEDOUT: TCP has given up then
		return err
	}
	// Rule: MPA-8-06, DDP-3-03, DDP-7-01
	return &protocol.Error{Code: protocol.MPAConnectionLost, Section: "RFC 5044 section 8", Detail: detail, Err: err}
}
