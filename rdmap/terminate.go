package rdmap

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// MinTerminateLen is the size in octets of a Terminate header that is its control word
// alone. With length, untagged DDP header and Read Request header it has 52.
const MinTerminateLen = 4

// The header control bits, as they stand in the first 32-bit word.
const (
	// Rule: RDMAP-4.8-03
	termM = 0x8000 // DDP Segment Length valid
	// Rule: RDMAP-4.8-03
	termD = 0x4000 // DDP header included
	termR = 0x2000 // RDMAP header included

	mirroredBits = 0x0700 // R, D and M at the other end of their octet
)

// Terminate is the header, and all the content, of a Terminate message
// (https://www.rfc-editor.org/rfc/rfc5040#section-4.8):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------+-------+---------------+-+-+-+-------------------------+
//	| Layer | EType |   Error Code  |M|D|R|         Reserved        |
//	+-------+-------+---------------+-+-+-+-------------------------+
//	|  DDP Segment Length  (if any) |                               |
//	+-------------------------------+                               +
//	|              Terminated DDP Header (if any), 14 or 18 octets  |
//	+---------------------------------------------------------------+
//	|             Terminated RDMA Header (if any), 28 octets        |
//	+---------------------------------------------------------------+
//
// A field whose bit is 0 is absent, and nothing is aligned.
type Terminate struct {
	// Code is layer, error type and error code.
	Code protocol.Code
	// Offender is the echo of the segment that caused the error, nil if there is
	// none. M is set when it is there, D when it has a DDP header and R when it
	// has an RDMAP header.
	Offender *protocol.Offender
	// Mirrored is true of a received Terminate whose bit fields stand at the wrong ends
	// of their octets, as Linux siw sends them: M, D and R where the Reserved bits are,
	// and layer and error type in each other's place. Code is as on the wire; Err tells
	// what it means.
	Mirrored bool
}

// FromError returns the Terminate that reports e, with as much of e's Offender as
// RFC 5040 figure 10 lets that kind of error carry:
//
//	layer and error type       M D  R
//	RDMA local catastrophic    no   no
//	RDMA remote protection     yes  if a Read Request caused it
//	RDMA remote operation      yes  no
//	DDP local catastrophic     no   no
//	DDP, others                yes  no
//	LLP (MPA)                  no   no
//
// "yes" is "if possible": an error without an Offender has none to echo. An
// Atomic Request's header is never included
// (https://www.rfc-editor.org/rfc/rfc7306#section-8.1). FromError shares e's
// octets. Whether a Terminate may be sent at all (one that was received must not
// be answered) is for the caller to know.
func FromError(e *protocol.Error) Terminate {
	t := Terminate{Code: e.Code}
	// Rule: RDMAP-7.1-02, RDMAP-4.8-09
	if e.Offender == nil || !echoes(e.Code) {
		return t
	}
	o := *e.Offender
	if !validDDPHeader(o.DDPHeader) {
		return t
	}
	// Rule: RDMAP-4.8-07, RDMAP-4.8-09, RDMAP-7.1-04, EXT-8.1-01
	protection := e.Code.Layer() == protocol.LayerRDMAP && e.Code.Type() == 1
	if !protection || len(o.RDMAPHeader) != ReadRequestLen || Control(o.DDPHeader[1]).Opcode() != OpcodeReadRequest {
		o.RDMAPHeader = nil
	}
	// Rule: RDMAP-7.1-03
	t.Offender = &o
	return t
}

// echoes reports whether errors of this kind carry the length and the DDP header
// of the segment that caused them (RFC 5040 figure 10).
func echoes(c protocol.Code) bool {
	// Rule: RDMAP-4.8-09, RDMAP-4.8-06
	switch c.Layer() {
	case protocol.LayerRDMAP:
		return c.Type() == 1 || c.Type() == 2
	case protocol.LayerDDP:
		return c.Type() != 0
	}
	return false
}

// Err returns the error that a received Terminate reports, with Remote set. RDMA
// local catastrophic errors have no code of their own, so that any is legal
// there: Err gives [protocol.RDMAPLocalCatastrophic] for all of them, and the
// number is in Detail. Detail also describes the segment of ours that the peer
// echoes. The error shares t's octets.
func (t *Terminate) Err() *protocol.Error {
	return t.err(false)
}

// err is Err, for a Terminate that came when startup was over or before.
func (t *Terminate) err(started bool) *protocol.Error {
	e := &protocol.Error{Code: t.meaning(started), Remote: true, Offender: t.Offender}
	var detail []string
	if c := t.Code; e.Code != c {
		detail = append(detail,
			fmt.Sprintf("sent as %d/%d/%02x, with layer and error type in each other's place as Linux siw does",
				c.Layer(), c.Type(), c.Number()))
	}
	if e.Code.Layer() == protocol.LayerRDMAP && e.Code.Type() == 0 {
		if n := e.Code.Number(); n != 0 {
			detail = append(detail, fmt.Sprintf("code %#02x", n))
		}
		e.Code = protocol.RDMAPLocalCatastrophic
	}
	if t.Offender != nil {
		if s := describe(t.Offender); s != "" {
			detail = append(detail, s)
		}
	}
	e.Detail = strings.Join(detail, ", ")
	return e
}

// meaning undoes an exchange of layer and error type: where the bits behind them are
// mirrored too, where the triple means nothing as it stands, or where it is an error of
// startup, that is over, and nothing is echoed, as siw does. What is left in doubt is taken as it stands.
func (t *Terminate) meaning(started bool) protocol.Code {
	exchanged := protocol.NewCode(protocol.Layer(t.Code.Type()), uint8(t.Code.Layer()), t.Code.Number())
	late := started && t.Offender == nil && (t.Code == protocol.MPAInsufficientIRD ||
		t.Code == protocol.MPANoMatchingRTR)
	// Rule: RDMAP-4.8-10
	if exchanged.Defined() && (t.Mirrored || late || !t.Code.Defined()) {
		return exchanged
	}
	return t.Code
}

// describe returns an echoed segment in words, "" if there is no header.
func describe(o *protocol.Offender) string {
	h, _, err := ddp.Parse(o.DDPHeader)
	if err != nil {
		return ""
	}
	s := fmt.Sprintf("caused by %v, ", Control(h.Control))
	if h.Tagged {
		s += fmt.Sprintf("STag %v TO %#x", h.STag, h.TO)
	} else {
		s += fmt.Sprintf("QN %d MSN %d MO %d", h.QN, h.MSN, h.MO)
	}
	if r, _, err := ParseReadRequest(o.RDMAPHeader); err == nil {
		s += fmt.Sprintf(", source STag %v TO %#x size %d", r.SrcSTag, r.SrcTO, r.Size)
	}
	return s + fmt.Sprintf(", DDP segment length %d", o.SegmentLength)
}

// AppendTo appends the header to b, at most 52 octets. A DDP
// header that is not 14 octets with T set or 18 with T clear, and an RDMAP header
// that is not [ReadRequestLen] octets, cannot be sent and are left out.
func (t *Terminate) AppendTo(b []byte) []byte {
	// Rule: RDMAP-4.8-01, RDMAP-4.8-04
	word := uint32(t.Code) << 16
	o := t.Offender
	if o == nil {
		return binary.BigEndian.AppendUint32(b, word)
	}
	word |= termM
	withDDP, withRDMAP := validDDPHeader(o.DDPHeader), len(o.RDMAPHeader) == ReadRequestLen
	// Rule: RDMAP-4.8-06
	if withDDP {
		word |= termD
	}
	// Rule: RDMAP-4.8-07
	if withRDMAP {
		word |= termR
	}
	if t.Mirrored {
		word = word&^0xffff | uint32(bits.Reverse8(uint8(word>>8)))<<8
	}
	b = binary.BigEndian.AppendUint32(b, word)
	// Rule: RDMAP-4.8-05
	b = binary.BigEndian.AppendUint16(b, o.SegmentLength)
	if withDDP {
		b = append(b, o.DDPHeader...)
	}
	if withRDMAP {
		b = append(b, o.RDMAPHeader...)
	}
	return b
}

// ParseTerminate reads a Terminate header from the start of b, all of the
// message, and gives the octets used. Fewer than [MinTerminateLen] octets give
// [io.ErrUnexpectedEOF].
//
// It is tolerant, as the message is the last that will come and its triple is
// worth more than its form: a field that a bit announces and that is not there,
// or not whole, is taken as absent (Linux siw sets R for a Send with Invalidate,
// with no header behind it). Combinations of M, D and R that figure 10 does not
// have are read as their bits say; the length is there if M or D is set. Where the
// three are 0 and stand mirrored in the reserved bits, alone, they are read there:
// see [Terminate.Mirrored]. Octets behind the last field and other reserved bits are
// ignored. The result shares nothing with b.
func ParseTerminate(b []byte) (Terminate, int, error) {
	if len(b) < MinTerminateLen {
		return Terminate{}, 0, io.ErrUnexpectedEOF
	}
	word := binary.BigEndian.Uint32(b)
	// Rule: RDMAP-4.8-01, RDMAP-4.8-04
	t := Terminate{Code: protocol.Code(word >> 16)}
	if low := word & 0xffff; low != 0 && low&^mirroredBits == 0 {
		t.Mirrored = true
		word |= uint32(bits.Reverse8(uint8(low>>8))) << 8
	}
	n := MinTerminateLen
	var o protocol.Offender
	// Rule: RDMAP-4.8-05
	if word&(termM|termD) != 0 {
		if len(b) < n+2 {
			return t, n, nil
		}
		o.SegmentLength = binary.BigEndian.Uint16(b[n:])
		t.Offender = &o
		n += 2
	}
	// Rule: RDMAP-4.8-06
	if word&termD != 0 {
		size := ddpHeaderLen(b[n:])
		if size == 0 || len(b) < n+size {
			return t, n, nil
		}
		o.DDPHeader = slices.Clone(b[n : n+size])
		n += size
	}
	// Rule: RDMAP-4.8-07
	if word&termR != 0 && len(b) >= n+ReadRequestLen {
		o.RDMAPHeader = slices.Clone(b[n : n+ReadRequestLen])
		t.Offender = &o
		n += ReadRequestLen
	}
	return t, n, nil
}

// ddpHeaderLen is the length that the first octet of a DDP header tells, 0 if
// there is none.
func ddpHeaderLen(b []byte) int {
	switch {
	case len(b) == 0:
		return 0
	case b[0]&0x80 != 0:
		return ddp.TaggedHeaderLen
	}
	return ddp.UntaggedHeaderLen
}

func validDDPHeader(h []byte) bool { return len(h) > 0 && len(h) == ddpHeaderLen(h) }
