package mpa

import (
	"fmt"
	"io"

	"github.com/go-iwarp/iwarp/internal/fault"
	"github.com/go-iwarp/iwarp/internal/tcpsock"
	"github.com/go-iwarp/iwarp/protocol"
)

// MULPDU is the largest ULPDU in octets that should be queued now. It changes as
// TCP learns about the path; ask before each ULPDU
// (https://www.rfc-editor.org/rfc/rfc5044#section-4.5).
func (c *Conn) MULPDU() int {
	// Rule: MPA-3-02
	c.refresh()
	return c.mulpdu
}

// NextULPDU is how long in octets the next ULPDU of a message should be: MULPDU, or
// less where it then ends with a TCP segment. rest is how long it would be with all
// that is left of the message.
func (c *Conn) NextULPDU(rest uint64) int {
	c.refresh()
	return c.out.cut.ulpdu(c.mulpdu, rest)
}

// Queue makes an FPDU of the ULPDU that header and payload form and adds it to
// the batch; nothing is written before Flush. header and the slice payload are
// not kept. With stable true, payload memory may be referenced until Flush
// reports that all has gone and must not change; with stable false it is copied
// before the CRC is taken.
//
// Queue does not block. A ULPDU may have 1 to [MaxULPDU] octets, also more than
// MULPDU (TCP then cuts its FPDU), else the error is a *[SizeError]. [ErrHeld]
// and [ErrBatchFull] tell that it is too early; an error of an earlier Flush is
// repeated.
func (c *Conn) Queue(header []byte, payload [][]byte, stable bool) error {
	if err := c.mayQueue(); err != nil {
		return err
	}
	return c.out.add(header, payload, stable)
}

// QueueMessage is Queue in a loop: for each ULPDU that m cuts off when it is told
// NextULPDU, until one is the last, or the batch is full. It queues one at least.
// Rest of m is how long the next ULPDU would be with all that is left.
func (c *Conn) QueueMessage(m interface {
	Rest() uint64
	Next(mulpdu int) (header []byte, payload [][]byte, last bool)
}, stable bool,
) (last bool, err error) {
	if err := c.mayQueue(); err != nil {
		return false, err
	}
	for {
		n := c.mulpdu
		if c.out.cut.fill > 0 {
			n = c.out.cut.ulpdu(n, m.Rest())
		}
		header, payload, last := m.Next(n)
		if err := c.out.add(header, payload, stable); err != nil {
			return false, err
		}
		if last || c.out.full() {
			return last, nil
		}
	}
}

// mayQueue looks at what does not change while a batch is built.
func (c *Conn) mayQueue() error {
	if c.werr != nil {
		return c.werr
	}
	// Rule: MPA-7.1.2-14
	if !c.maySend.Load() {
		return ErrHeld
	}
	c.refresh()
	return nil
}

// Full reports whether the batch should be flushed before more is queued. A batch
// is about 1 MiB, and not above a whole number of TCP segments, unless its last FPDU
// is longer than all before.
func (c *Conn) Full() bool { return c.out.full() }

// Buffered reports whether something is queued or partly written.
func (c *Conn) Buffered() bool { return c.out.batch.left > 0 }

// Flush writes the batch. With wait false it writes what TCP takes without
// blocking and reports whether that was all; conns that cannot tell write nothing
// and report false. With wait true it blocks until all has gone, the write
// deadline passes, or the conn is closed.
//
// An error other than a passed deadline is a *protocol.Error and is final, with code
// MPAConnectionLost, or MPALocalCatastrophic when octets to send are not there any more.
func (c *Conn) Flush(wait bool) (done bool, err error) {
	if c.werr != nil {
		return false, c.werr
	}
	for c.Buffered() {
		if !wait && !c.canTry() {
			return false, nil
		}
		n, err := c.write(wait)
		c.wrote(n)
		if err != nil {
			err = c.sendError(err)
			if isFinal(err) {
				c.out.advance(c.out.batch.left) // refers to nobody's memory any more
				// Rule: DDP-3-03
				c.werr = err
			}
			return false, err
		}
		if n == 0 {
			return false, nil
		}
	}
	return true, nil
}

// sendError wraps an error of a write. If the kernel did not find the octets to send,
// part of an FPDU may have gone: the peer must not be sent anything else, or it would
// take that for the rest.
func (c *Conn) sendError(err error) error {
	if fault.IsFault(err) {
		pieces, _, _, _ := c.out.pending()
		if gone := fault.Find(pieces); gone != nil {
			err = gone
		}
		return &protocol.Error{
			Code: protocol.MPALocalCatastrophic, Section: "RFC 6581 section 8", Detail: "writing FPDUs", Err: err,
		}
	}
	return connError("writing FPDUs", err)
}

func (c *Conn) wrote(n int) {
	if n <= 0 {
		return
	}
	c.out.advance(n)
	c.found = false
	c.gone += uint64(n)
	c.stats.octetsSent.Add(uint64(n))
	c.stats.writes.Add(1)
	c.stats.fpdusSent.Store(c.out.cut.fpdus)
	c.stats.fpdusAligned.Store(c.out.cut.aligned)
	c.stats.markersSent.Store(c.out.framer.markers)
}

func (c *Conn) canTry() bool { return tcpsock.CanSend && c.sock != nil }

// write hands the batch to the conn below and returns how many octets it took, also
// when there is an error.
func (c *Conn) write(wait bool) (n int, err error) {
	pieces, cuts, start, end := c.out.pending()
	if c.canTry() {
		if len(cuts) > 0 {
			// Rule: MPA-5.1-03
			n, err = c.sock.SendSegments(pieces, cuts, start, end, wait)
		} else {
			// Rule: MPA-5.1-03
			n, err = c.sock.Send(pieces, end, wait)
		}
		c.stats.sendCalls.Store(c.sock.SendCalls())
		return n, err
	}
	if c.tcp {
		c.nb = append(c.nb[:0], pieces...)
		scratch := c.nb
		n, err := c.nb.WriteTo(c.nc)
		c.nb = scratch[:0]
		clear(scratch[:cap(scratch)])
		return int(n), err
	}
	// Any other conn gets piece by piece: joining them would copy large payload,
	// and small ones are joined already. A large one goes in parts, since nobody can
	// tell how far a Write has come: on a slow network it would look as if nothing moved.
	p := pieces[0]
	return writeEach(c.nc, [][]byte{p[:min(len(p), writeMax)]})
}

// writeMax is how many octets another conn than the kernel's gets at once. TLS makes two
// records of them.
const writeMax = 32 << 10

func writeEach(w io.Writer, pieces [][]byte) (total int, err error) {
	for _, p := range pieces {
		idle := 0
		for len(p) > 0 {
			n, err := w.Write(p)
			if n < 0 || n > len(p) {
				return total, fmt.Errorf("iwarp: Write of %d octets says that it wrote %d", len(p), n)
			}
			total += n
			p = p[n:]
			if err != nil {
				return total, err
			}
			// A short count without an error breaks the rules of io.Writer, but it
			// is still known how many octets have gone.
			if n > 0 {
				idle = 0
			} else if idle++; idle == 100 {
				return total, io.ErrNoProgress
			}
		}
	}
	return total, nil
}

// refresh looks at what is for a whole batch, which is laid out for one EMSS: only
// between batches. The EMSS is read again if enough octets have gone, or someone has
// turned a knob.
func (c *Conn) refresh() {
	if c.Buffered() {
		return
	}
	// Rule: MPA-4.5-05
	if c.gone >= c.every || c.knobs.Load() != c.seenKnobs {
		c.readEMSS()
	}
	if c.out.cut.fill > 0 && c.out.cut.how != AlignOff && !c.found {
		c.findSegment()
	}
}

// findSegment finds out whether the next octet begins a TCP segment: it does if TCP
// has sent all. After less than a segment that is likely, and not worth a system call.
func (c *Conn) findSegment() {
	c.found = true
	cut := &c.out.cut
	if cut.run > cut.emss {
		n, err := c.sock.Unsent()
		c.stats.sendCalls.Store(c.sock.SendCalls())
		if err != nil || n > 0 {
			return
		}
	}
	cut.begin()
}

func (c *Conn) readEMSS() {
	c.seenKnobs = c.knobs.Load()
	emss := c.likely
	if c.tcp && c.sock != nil {
		// Rule: MPA-5.1-01
		if n, err := c.sock.MSS(); err == nil && n > 0 {
			emss = n
		}
	}
	segment := emss
	if n := int(c.fpduMax.Load()); n > 0 {
		emss = n // alignment is about the segments that TCP makes, whatever this bound
	}
	c.out.setSegments(segment, c.align(segment, emss))
	// A steady EMSS is asked for less and less often.
	if emss == c.emss {
		c.every = min(2*c.every, emssEveryMax)
	} else {
		c.every = emssEvery
	}
	// Rule: MPA-4.5-05
	c.emss, c.mulpdu, c.gone = emss, MULPDU(emss, c.params.SendMarkers), 0
	c.stats.emss.Store(int64(emss))
}

// align is what is done for alignment with TCP segments of so many octets, and FPDUs
// of at most so many.
func (c *Conn) align(segment, fpdu int) Align {
	a := Align(c.wishAlign.Load())
	switch {
	case !c.tcp || c.sock == nil || fpdu > segment:
		return AlignOff
	case a == AlignAuto && (segment > alignAutoMax || segment%4 != 0 || c.params.SendMarkers):
		return AlignOff
	}
	return a
}
