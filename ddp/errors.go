package ddp

import (
	"fmt"
	"math"

	"github.com/go-iwarp/iwarp/protocol"
)

// codes are the numbers under which one layer reports a bad access to a Tagged
// Buffer: DDP for what it places, RDMAP for what it fetches.
type codes struct {
	stag, association, right, wrap, bounds protocol.Code
	section                                string
}

var placeCodes = codes{
	stag:        protocol.DDPTaggedInvalidSTag,
	association: protocol.DDPTaggedSTagNotAssociated,
	right:       protocol.DDPTaggedInvalidSTag, // DDP has no number for a missing right; Linux siw uses this one
	wrap:        protocol.DDPTaggedTOWrap,
	bounds:      protocol.DDPTaggedBounds,
	section:     "RFC 5041 section 7.1",
}

var fetchCodes = codes{
	stag:        protocol.RDMAPInvalidSTag,
	association: protocol.RDMAPSTagNotAssociated,
	right:       protocol.RDMAPAccess,
	wrap:        protocol.RDMAPTOWrap,
	bounds:      protocol.RDMAPBounds,
	section:     "RFC 5040 section 7.2",
}

// fail makes the error of a rule that a segment broke.
func fail(c protocol.Code, section, format string, args ...any) *protocol.Error {
	return &protocol.Error{Code: c, Section: section, Detail: fmt.Sprintf(format, args...)}
}

func unknownSTag(c *codes, s STag) *protocol.Error {
	return fail(c.stag, c.section, "STag %v: no such STag", s)
}

func invalidSTag(c *codes, s STag) *protocol.Error {
	return fail(c.stag, c.section, "STag %v: it has been invalidated", s)
}

func (r *Region) notAssociated(c *codes, who Peer) *protocol.Error {
	if r.pd != who.PD {
		return fail(c.association, c.section, "STag %v: it is of another Protection Domain than the stream", r.STag())
	}
	return fail(c.association, c.section, "STag %v: it is bound to another stream", r.STag())
}

func (r *Region) noRight(c *codes, need Access) *protocol.Error {
	return fail(c.right, c.section, "STag %v: it gives access %v, which does not allow %v", r.STag(), r.access, need)
}

func wrapped(c *codes, s STag, to, n uint64) *protocol.Error {
	return fail(c.wrap, c.section, "STag %v, TO 0x%016x: plus length %d it wraps 2^64", s, to, n)
}

func outOfBounds(c *codes, s STag, to, n, base, size uint64) *protocol.Error {
	return fail(c.bounds, c.section, "STag %v, TO 0x%016x: %d octets from there are not within base 0x%016x, length %d",
		s, to, n, base, size)
}

// again is the error for octets of a message that have come before.
func again(s STag, to, n, missing uint64) *protocol.Error {
	return fail(placeCodes.bounds, placeCodes.section,
		"STag %v, TO 0x%016x: some of %d octets from there have come already; the first that is missing is "+
			"0x%016x", s, to, n, missing)
}

func unaligned(s STag, to uint64, off uintptr) *protocol.Error {
	return fail(protocol.RDMAPStreamCatastrophic, "RFC 7306 section 8.2",
		"STag %v, TO 0x%016x: an atomic needs an address in memory that is a multiple of 8, and this is %d "+
			"more", s, to, off)
}

func cannotInvalidate(s STag, why string) *protocol.Error {
	return fail(protocol.RDMAPCannotInvalidate, "RFC 5040 section 5.3", "STag %v: cannot be invalidated: %s", s, why)
}

const section71 = "RFC 5041 section 7.1"

func shortSegment(n, want int) *protocol.Error {
	return fail(protocol.DDPLocalCatastrophic, "RFC 5041 section 4.4", "segment of %d octets: its header has %d", n,
		want)
}

func beyondWindow(order, next uint64, window int) *protocol.Error {
	return fail(protocol.DDPLocalCatastrophic, "RFC 5041 section 3",
		"segment %d in the order of sending: %d is missing still, and the window has %d", order, next, window)
}

func badVersion(h *Header, want uint8) *protocol.Error {
	code := protocol.DDPUntaggedVersion
	if h.Tagged {
		code = protocol.DDPTaggedVersion
	}
	return fail(code, "RFC 5041 section 4.1", "DV %d: the stream's version is %d", h.Version, want)
}

func badQN(h *Header) *protocol.Error {
	return fail(protocol.DDPUntaggedQN, section71, "QN %d: the stream has no such queue", h.QN)
}

func noBuffer(h *Header) *protocol.Error {
	return fail(protocol.DDPUntaggedNoBuffer, section71, "QN %d, MSN %d: no buffer is available", h.QN, h.MSN)
}

func badMSN(h *Header, next uint32, window int) *protocol.Error {
	if window == 1 {
		return fail(protocol.DDPUntaggedMSN, section71, "QN %d, MSN %d: the next message is %d", h.QN, h.MSN, next)
	}
	return fail(protocol.DDPUntaggedMSN, section71, "QN %d, MSN %d: the range is %d messages from %d", h.QN, h.MSN,
		window, next)
}

func badMO(h *Header, next uint64) *protocol.Error {
	return fail(protocol.DDPUntaggedMO, section71,
		"QN %d, MSN %d, MO %d: octets from there have come already; the first that is missing is %d", h.QN, h.MSN, h.MO,
		next)
}

func badLast(h *Header, next uint64) *protocol.Error {
	return fail(protocol.DDPUntaggedMO, "RFC 5041 section 4.1",
		"QN %d, MSN %d, MO %d: the last segment begins there, and the first octet that is missing is %d", h.QN, h.MSN,
		h.MO, next)
}

func beyondBuffer(h *Header, size uint64) *protocol.Error {
	return fail(protocol.DDPUntaggedMO, section71, "QN %d, MSN %d, MO %d: the buffer has %d octets", h.QN, h.MSN, h.MO,
		size)
}

func tooLong(h *Header, n int, size uint64) *protocol.Error {
	return fail(protocol.DDPUntaggedTooLong, section71,
		"QN %d, MSN %d, MO %d: %d octets from there do not fit the buffer of %d", h.QN, h.MSN, h.MO, n, size)
}

// blame returns e with the segment that caused it, as far as e does not say so
// (https://www.rfc-editor.org/rfc/rfc5041#section-7.1: header and length). e
// itself may be the ULP's own and is left alone.
func blame(e *protocol.Error, h *Header, segment int) *protocol.Error {
	// Rule: DDP-7.1-12, DDP-6.2.2-01
	blamed := *e
	var offender protocol.Offender
	if e.Offender != nil {
		offender = *e.Offender
	}
	if offender.SegmentLength == 0 {
		offender.SegmentLength = uint16(min(segment, math.MaxUint16))
	}
	if offender.DDPHeader == nil {
		offender.DDPHeader = h.AppendTo(make([]byte, 0, h.Len()))
	}
	blamed.Offender = &offender
	return &blamed
}
