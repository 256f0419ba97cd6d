package ddp

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Version is the DDP version (DV field) of RFC 5041
// (https://www.rfc-editor.org/rfc/rfc5041#section-4.1).
const Version = 1

// Sizes of the two headers in octets.
const (
	TaggedHeaderLen   = 14
	UntaggedHeaderLen = 18
)

// Bits of the first octet of both headers.
const (
	// Rule: DDP-4.1-02
	bitTagged = 0x80
	// Rule: DDP-4.1-01
	bitLast      = 0x40
	maskReserved = 0x3c
	// Rule: DDP-4.1-01
	maskVersion = 0x03
)

// STag names a Tagged Buffer: the handle that a peer puts into a segment to say
// which memory it is for (https://www.rfc-editor.org/rfc/rfc5041#section-4.2).
// In this package the upper 24 bits are an index into a [Table] and the low
// eight bits a key that changes while the index stays. STag 0 names nothing.
type STag uint32

// String gives the STag as 0x and eight hexadecimal digits.
func (s STag) String() string { return fmt.Sprintf("0x%08x", uint32(s)) }

// Header is the DDP header of a segment, of either kind.
//
// A segment for a Tagged Buffer has 14 octets
// (https://www.rfc-editor.org/rfc/rfc5041#section-4.2):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	                                +-+-+-------+---+---------------+
//	                                |T|L| Rsvd  |DV |    RsvdULP    |
//	+-------------------------------+-+-+-------+---+---------------+
//	|                             STag                              |
//	+---------------------------------------------------------------+
//	|                                                               |
//	+                              TO                               +
//	|                                                               |
//	+---------------------------------------------------------------+
//
// and one for an Untagged Buffer has 18
// (https://www.rfc-editor.org/rfc/rfc5041#section-4.3):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	                                +-+-+-------+---+---------------+
//	                                |T|L| Rsvd  |DV | RsvdULP (0-7) |
//	+-------------------------------+-+-+-------+---+---------------+
//	|                        RsvdULP (8-39)                         |
//	+---------------------------------------------------------------+
//	|                              QN                               |
//	+---------------------------------------------------------------+
//	|                              MSN                              |
//	+---------------------------------------------------------------+
//	|                              MO                               |
//	+---------------------------------------------------------------+
//
// It holds no pointers and can be copied and compared.
type Header struct {
	// Tagged is T: the payload belongs to a Tagged Buffer.
	Tagged bool
	// Last is L: this is the last segment of its message.
	Last bool
	// Reserved is Rsvd, four bits. Senders leave it 0 and receivers do not look
	// at it; it is kept so that a segment can be printed as it came.
	Reserved uint8
	// Version is DV, 0 to 3.
	Version uint8
	// Control is the first octet of RsvdULP, the ULP's own (RDMAP's control
	// field).
	Control uint8
	// ULP32 is the rest of RsvdULP, in the untagged header only (RDMAP's
	// Invalidate STag).
	ULP32 uint32

	// STag is the tagged buffer, tagged header only.
	STag STag
	// TO is the offset of the payload's first octet in the tagged buffer, tagged
	// header only. A buffer's first octet need not be at 0: see
	// [RegionConfig].Base.
	TO uint64

	// QN is the queue that the buffer comes from, untagged header only.
	QN uint32
	// MSN is the message's number in its queue, from 1, untagged header only.
	MSN uint32
	// MO is the payload's offset in the message in octets, untagged header only.
	MO uint32
}

// Len is the size of the header in octets: 14 or 18.
func (h *Header) Len() int {
	if h.Tagged {
		return TaggedHeaderLen
	}
	return UntaggedHeaderLen
}

// AppendTo appends the header's 14 or 18 octets to b. Fields of the other kind
// are not written; Reserved and Version are cut to four and two bits.
func (h *Header) AppendTo(b []byte) []byte {
	// Rule: DDP-4.1-01, DDP-4.1-02, DDP-4.2-02, DDP-4.4-01, DDP-4.1-07
	first := h.Reserved<<2&maskReserved | h.Version&maskVersion
	if h.Last {
		first |= bitLast
	}
	if h.Tagged {
		// Rule: DDP-4.2-01
		b = append(b, first|bitTagged, h.Control)
		b = binary.BigEndian.AppendUint32(b, uint32(h.STag))
		return binary.BigEndian.AppendUint64(b, h.TO)
	}
	// Rule: DDP-4.3-01, DDP-4.3-02, DDP-4.3-05
	b = append(b, first, h.Control)
	b = binary.BigEndian.AppendUint32(b, h.ULP32)
	b = binary.BigEndian.AppendUint32(b, h.QN)
	b = binary.BigEndian.AppendUint32(b, h.MSN)
	return binary.BigEndian.AppendUint32(b, h.MO)
}

// putTO and putMO write the one field of b, an encoded header, in which the
// segments of a message differ.
func (h *Header) putTO(b []byte) { binary.BigEndian.PutUint64(b[6:], h.TO) }
func (h *Header) putMO(b []byte) { binary.BigEndian.PutUint32(b[14:], h.MO) }

// Parse reads the header at the start of b and gives the octets that it takes.
// The payload is what follows: DDP has no length field, the LLP tells where a
// segment ends. A b shorter than its header gives [io.ErrUnexpectedEOF].
// Parse takes any version; whether it is the stream's is for the [Receiver].
func Parse(b []byte) (Header, int, error) {
	var h Header
	n, ok := h.parse(b)
	if !ok {
		return Header{}, 0, io.ErrUnexpectedEOF
	}
	return h, n, nil
}

// parse fills h in place, so that the receive path need not copy it.
func (h *Header) parse(b []byte) (int, bool) {
	if len(b) < TaggedHeaderLen {
		return 0, false
	}
	// One by one: as a literal they would be put together in other memory, and
	// copied from there before these stores have reached the cache.
	// Rule: DDP-4.1-01, DDP-4.1-02
	first := b[0]
	h.Tagged = first&bitTagged != 0
	h.Last = first&bitLast != 0
	h.Reserved = first & maskReserved >> 2
	h.Version = first & maskVersion
	h.Control = b[1]
	h.ULP32, h.STag, h.TO, h.QN, h.MSN, h.MO = 0, 0, 0, 0, 0, 0
	if h.Tagged {
		// Rule: DDP-4.2-01
		h.STag = STag(binary.BigEndian.Uint32(b[2:]))
		h.TO = binary.BigEndian.Uint64(b[6:])
		return TaggedHeaderLen, true
	}
	if len(b) < UntaggedHeaderLen {
		return 0, false
	}
	// Rule: DDP-4.3-01
	h.ULP32 = binary.BigEndian.Uint32(b[2:])
	h.QN = binary.BigEndian.Uint32(b[6:])
	h.MSN = binary.BigEndian.Uint32(b[10:])
	h.MO = binary.BigEndian.Uint32(b[14:])
	return UntaggedHeaderLen, true
}
