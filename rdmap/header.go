package rdmap

import (
	"encoding/binary"
	"io"

	"github.com/go-iwarp/iwarp/ddp"
)

// Sizes in octets of the headers that follow the DDP header.
const (
	ReadRequestLen    = 28
	ImmediateDataLen  = 8
	AtomicRequestLen  = 52
	AtomicResponseLen = 12
)

// ReadRequest is the header of an RDMA Read Request
// (https://www.rfc-editor.org/rfc/rfc5040#section-4.4):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                     Data Sink STag (SinkSTag)                 |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                  Data Sink Tagged Offset (SinkTO)             |
//	+                                                               +
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                  RDMA Read Message Size (Size)                |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                    Data Source STag (SrcSTag)                 |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                  Data Source Tagged Offset (SrcTO)            |
//	+                                                               +
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type ReadRequest struct {
	// SinkSTag and SinkTO say where the requester wants the data. The responder
	// copies them into its Read Response and does not look at them.
	SinkSTag ddp.STag
	SinkTO   uint64
	// Size is the number of octets to read; 0 is legal.
	Size uint32
	// SrcSTag and SrcTO are the responder's memory to read.
	SrcSTag ddp.STag
	SrcTO   uint64
}

// AppendTo appends the [ReadRequestLen] octets of the header to b.
func (r *ReadRequest) AppendTo(b []byte) []byte {
	// Rule: RDMAP-4.4-01, RDMAP-4.4-03, RDMAP-4.4-04
	b = binary.BigEndian.AppendUint32(b, uint32(r.SinkSTag))
	b = binary.BigEndian.AppendUint64(b, r.SinkTO)
	b = binary.BigEndian.AppendUint32(b, r.Size)
	b = binary.BigEndian.AppendUint32(b, uint32(r.SrcSTag))
	return binary.BigEndian.AppendUint64(b, r.SrcTO)
}

// Advance returns the request for what is left after n octets: both offsets
// advanced (modulo 2^64) and the size reduced. n above Size counts as Size. A
// Terminate for a Read that failed midway carries it
// (https://www.rfc-editor.org/rfc/rfc5040#section-4.8).
func (r ReadRequest) Advance(n uint32) ReadRequest {
	n = min(n, r.Size)
	// Rule: RDMAP-4.8-08
	r.SinkTO += uint64(n)
	r.SrcTO += uint64(n)
	r.Size -= n
	return r
}

// ParseReadRequest reads a header from the start of b and gives the octets used.
// Fewer than [ReadRequestLen] octets give [io.ErrUnexpectedEOF]; octets behind
// the header, which no Read Request has, are the caller's to refuse.
func ParseReadRequest(b []byte) (ReadRequest, int, error) {
	if len(b) < ReadRequestLen {
		return ReadRequest{}, 0, io.ErrUnexpectedEOF
	}
	// Rule: RDMAP-4.4-01, RDMAP-4.4-03, RDMAP-4.4-04
	return ReadRequest{
		SinkSTag: ddp.STag(binary.BigEndian.Uint32(b)),
		SinkTO:   binary.BigEndian.Uint64(b[4:]),
		Size:     binary.BigEndian.Uint32(b[12:]),
		SrcSTag:  ddp.STag(binary.BigEndian.Uint32(b[16:])),
		SrcTO:    binary.BigEndian.Uint64(b[20:]),
	}, ReadRequestLen, nil
}

// ImmediateData is the header, and all the content, of an Immediate Data message
// (https://www.rfc-editor.org/rfc/rfc7306#section-6.2). To RDMAP it is eight
// octets without a meaning; [ImmediateData.Uint64] is for ULPs that see a number:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        Immediate Data                         |
//	+                                                               +
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type ImmediateData [ImmediateDataLen]byte

// ImmediateUint64 returns the eight octets of v, most significant first.
func ImmediateUint64(v uint64) (d ImmediateData) {
	// Rule: EXT-6.2-01
	binary.BigEndian.PutUint64(d[:], v)
	return d
}

// Uint64 reads the eight octets as a number, most significant first.
func (d ImmediateData) Uint64() uint64 { return binary.BigEndian.Uint64(d[:]) }

// AppendTo appends the eight octets to b.
func (d ImmediateData) AppendTo(b []byte) []byte { return append(b, d[:]...) }

// ParseImmediateData reads eight octets from the start of b and gives the octets
// used. Fewer give [io.ErrUnexpectedEOF]; that there are no more, the caller
// must check (https://www.rfc-editor.org/rfc/rfc7306#section-6.3).
func ParseImmediateData(b []byte) (ImmediateData, int, error) {
	if len(b) < ImmediateDataLen {
		return ImmediateData{}, 0, io.ErrUnexpectedEOF
	}
	return ImmediateData(b[:ImmediateDataLen]), ImmediateDataLen, nil
}

// AtomicRequest is the header of an Atomic Request
// (https://www.rfc-editor.org/rfc/rfc7306#section-5.2.1):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                      Reserved (Not Used)              |AOpCode|
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                       Request Identifier (ID)                 |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                          Remote STag                          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                      Remote Tagged Offset (TO)                |
//	+                                                               +
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                       Add or Swap Data                        |
//	+                                                               +
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                       Add or Swap Mask                        |
//	+                                                               +
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                         Compare Data                          |
//	+                                                               +
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                         Compare Mask                          |
//	+                                                               +
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// [NewFetchAdd] and [NewCmpSwap] make requests as a sender must.
type AtomicRequest struct {
	// Op is the atomic operation; a parsed one may be unknown.
	Op AtomicOp
	// ID is chosen by the requester; the response has the same.
	ID uint32
	// STag and TO are the responder's 64-bit word.
	STag ddp.STag
	TO   uint64
	// Data and Mask are what to add or to swap in.
	Data, Mask uint64
	// Compare and CompareMask are used by CmpSwap only.
	Compare, CompareMask uint64
}

// NewFetchAdd returns the request to add data to a word, in the fields of mask (see
// [FetchAdd]). Compare Data is zero and Compare Mask all ones, as RFC 7306
// section 5.2.1 wants them where they are not used.
func NewFetchAdd(id uint32, stag ddp.STag, to, data, mask uint64) AtomicRequest {
	// Rule: EXT-5.2.1-03
	return AtomicRequest{
		Op: AtomicFetchAdd, ID: id, STag: stag, TO: to, Data: data, Mask: mask, CompareMask: ^uint64(0),
	}
}

// NewCmpSwap returns the request to swap the masked bits of a word if its masked
// bits equal compare (see [CmpSwap]).
func NewCmpSwap(id uint32, stag ddp.STag, to, compare, compareMask, swap, swapMask uint64) AtomicRequest {
	return AtomicRequest{
		Op: AtomicCmpSwap, ID: id, STag: stag, TO: to, Data: swap, Mask: swapMask, Compare: compare,
		CompareMask: compareMask,
	}
}

// Apply returns what the request makes of a word whose value is old. ok is false
// if the operation is unknown; then the word stays as it is.
func (r *AtomicRequest) Apply(old uint64) (word uint64, ok bool) {
	switch r.Op {
	// Rule: EXT-5-02, EXT-5.2.1-03, EXT-5.2.1-04
	case AtomicFetchAdd:
		return FetchAdd(old, r.Data, r.Mask), true
	case AtomicCmpSwap:
		return CmpSwap(old, r.Compare, r.CompareMask, r.Data, r.Mask), true
	}
	return old, false
}

// AppendTo appends the [AtomicRequestLen] octets of the header to b, with the
// reserved bits zero. Only the low four bits of Op are used.
func (r *AtomicRequest) AppendTo(b []byte) []byte {
	// Rule: EXT-5.2.1-01, EXT-5.2.1-02, EXT-5.1.1-03
	b = binary.BigEndian.AppendUint32(b, uint32(r.Op&0xf))
	b = binary.BigEndian.AppendUint32(b, r.ID)
	b = binary.BigEndian.AppendUint32(b, uint32(r.STag))
	for _, v := range [...]uint64{r.TO, r.Data, r.Mask, r.Compare, r.CompareMask} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// ParseAtomicRequest reads a header from the start of b and gives the octets
// used; the reserved bits are ignored. Fewer than [AtomicRequestLen] octets give
// [io.ErrUnexpectedEOF]; octets behind the header are the caller's to refuse.
func ParseAtomicRequest(b []byte) (AtomicRequest, int, error) {
	if len(b) < AtomicRequestLen {
		return AtomicRequest{}, 0, io.ErrUnexpectedEOF
	}
	// Rule: EXT-5.2.1-01, EXT-5.2.1-02
	return AtomicRequest{
		Op:          AtomicOp(b[3] & 0xf),
		ID:          binary.BigEndian.Uint32(b[4:]),
		STag:        ddp.STag(binary.BigEndian.Uint32(b[8:])),
		TO:          binary.BigEndian.Uint64(b[12:]),
		Data:        binary.BigEndian.Uint64(b[20:]),
		Mask:        binary.BigEndian.Uint64(b[28:]),
		Compare:     binary.BigEndian.Uint64(b[36:]),
		CompareMask: binary.BigEndian.Uint64(b[44:]),
	}, AtomicRequestLen, nil
}

// AtomicResponse is the header of an Atomic Response, 12 octets as figure 6 has
// them and not the 32 of the text
// (https://www.rfc-editor.org/rfc/rfc7306#section-5.2.2):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                 Original Request Identifier (ID)              |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                    Original Remote Data Value                 |
//	+                                                               +
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type AtomicResponse struct {
	ID       uint32 // as in the request
	Original uint64 // the word's value before the operation
}

// AppendTo appends the [AtomicResponseLen] octets of the header to b.
func (r *AtomicResponse) AppendTo(b []byte) []byte {
	// Rule: EXT-5.2.2-01
	b = binary.BigEndian.AppendUint32(b, r.ID)
	return binary.BigEndian.AppendUint64(b, r.Original)
}

// ParseAtomicResponse reads a header from the start of b and gives the octets
// used. Fewer than [AtomicResponseLen] octets give [io.ErrUnexpectedEOF]; octets
// behind the header are the caller's to refuse.
func ParseAtomicResponse(b []byte) (AtomicResponse, int, error) {
	if len(b) < AtomicResponseLen {
		return AtomicResponse{}, 0, io.ErrUnexpectedEOF
	}
	// Rule: EXT-5.2.2-01
	return AtomicResponse{
		ID:       binary.BigEndian.Uint32(b),
		Original: binary.BigEndian.Uint64(b[4:]),
	}, AtomicResponseLen, nil
}
