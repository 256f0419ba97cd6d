package rdmap

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/go-iwarp/iwarp/ddp"
)

// RemoteBuffer names memory of the peer, or, before it is sent, memory of this end
// that the peer is to reach.
//
// RFC 5040 leaves to the ULPs how they advertise memory
// (https://www.rfc-editor.org/rfc/rfc5040#section-2.1). Programs that have no format of
// their own use AppendBinary and UnmarshalBinary.
type RemoteBuffer struct {
	// STag is the one that the memory's owner advertised.
	STag ddp.STag
	// TO is the Tagged Offset of the first octet.
	TO uint64
	// Length is the number of octets. A work request that reaches beyond it is refused
	// with ErrInvalidRequest when it is posted. 0 means that the length is not known here:
	// only the peer checks it then.
	Length uint64
}

// RemoteBufferLen is the number of octets of an encoded RemoteBuffer.
const RemoteBufferLen = 20

// Slice returns the part of b that begins at octet off and has n octets. If b's Length
// is known and that part does not lie within, or if TO would pass 2^64, the result is a
// buffer that no work request accepts, so that the error comes from the call that uses it.
func (b RemoteBuffer) Slice(off, n uint64) RemoteBuffer {
	if b.Length != 0 && (off > b.Length || n > b.Length-off) || off > math.MaxUint64-b.TO || b.invalid() {
		return RemoteBuffer{TO: math.MaxUint64, Length: math.MaxUint64}
	}
	return RemoteBuffer{STag: b.STag, TO: b.TO + off, Length: n}
}

// invalid reports whether b is no memory, as what Slice returns for a bad part.
func (b RemoteBuffer) invalid() bool { return b.Length != 0 && ddp.Wraps(b.TO, b.Length) }

// fits reports why n octets at b cannot be.
func (b RemoteBuffer) fits(n uint64) error {
	switch {
	case b.invalid():
		return fmt.Errorf("%w: Remote has TO 0x%016x and Length %d, which wraps 2^64 (a Slice that was not within "+
			"its buffer?)",
			ErrInvalidRequest, b.TO, b.Length)
	case b.Length != 0 && n > b.Length:
		return fmt.Errorf("%w: %d octets do not fit in Remote.Length of %d", ErrInvalidRequest, n, b.Length)
	case n > 0 && ddp.Wraps(b.TO, n):
		return fmt.Errorf("%w: TO 0x%016x plus %d octets wraps 2^64 (RFC 5041 section 7.1)", ErrInvalidRequest, b.TO, n)
	}
	return nil
}

// AppendBinary implements [encoding.BinaryAppender]. It appends 20 octets, each field
// with its most significant octet first:
//
//	octets  0 to  3  STag
//	octets  4 to 11  TO
//	octets 12 to 19  Length
//
// The error is always nil.
func (b RemoteBuffer) AppendBinary(p []byte) ([]byte, error) {
	p = binary.BigEndian.AppendUint32(p, uint32(b.STag))
	p = binary.BigEndian.AppendUint64(p, b.TO)
	return binary.BigEndian.AppendUint64(p, b.Length), nil
}

// MarshalBinary implements [encoding.BinaryMarshaler]: see AppendBinary.
func (b RemoteBuffer) MarshalBinary() ([]byte, error) {
	return b.AppendBinary(make([]byte, 0, RemoteBufferLen))
}

// UnmarshalBinary implements [encoding.BinaryUnmarshaler]. It fails unless p has exactly 20
// octets and the buffer that they name ends at or below 2^64. On error b stays as it was.
func (b *RemoteBuffer) UnmarshalBinary(p []byte) error {
	if len(p) != RemoteBufferLen {
		return fmt.Errorf("iwarp: RemoteBuffer of %d octets: it has %d", len(p), RemoteBufferLen)
	}
	r := RemoteBuffer{
		STag: ddp.STag(binary.BigEndian.Uint32(p)), TO: binary.BigEndian.Uint64(p[4:]),
		Length: binary.BigEndian.Uint64(p[12:]),
	}
	if r.invalid() {
		return fmt.Errorf("iwarp: RemoteBuffer with TO 0x%016x and Length %d: it wraps 2^64", r.TO, r.Length)
	}
	*b = r
	return nil
}
