package protocol

import "fmt"

// Layer is the layer that found an error: the Layer field of a Terminate
// message (RFC 5040 section 4.8, https://www.rfc-editor.org/rfc/rfc5040#section-4.8).
type Layer uint8

// The layers of figure 9 of RFC 5040.
const (
	LayerRDMAP Layer = 0
	LayerDDP   Layer = 1
	LayerLLP   Layer = 2 // MPA here; the registry of RFC 6580 calls it so too
)

// String returns the layer's name.
func (l Layer) String() string {
	switch l {
	case LayerRDMAP:
		return "RDMAP"
	case LayerDDP:
		return "DDP"
	case LayerLLP:
		return "MPA"
	}
	return fmt.Sprintf("layer %d", uint8(l))
}

// Code is the error triple of a Terminate message, packed as the first 16 bits
// of its header are:
//
//	 0                   1
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5
//	+-------+-------+---------------+
//	| Layer | EType |  Error Code   |
//	+-------+-------+---------------+
//
// See https://www.rfc-editor.org/rfc/rfc5040#section-4.8 and, for the numbers,
// https://www.rfc-editor.org/rfc/rfc6580#section-3. Code is deliberately not an
// error: an error also says who found it. That is [Error].
type Code uint16

// RDMAP errors (RFC 5040 figure 9, RFC 7306 section 8.2). For the local
// catastrophic type any error code is legal on receipt.
const (
	// Rule: IANA-3.1-01, RDMAP-4.8-02
	RDMAPLocalCatastrophic     Code = 0x0000
	RDMAPInvalidSTag           Code = 0x0100
	RDMAPBounds                Code = 0x0101
	RDMAPAccess                Code = 0x0102
	RDMAPSTagNotAssociated     Code = 0x0103
	RDMAPTOWrap                Code = 0x0104
	RDMAPCannotInvalidate      Code = 0x0109
	RDMAPProtectionUnspecified Code = 0x01ff
	RDMAPVersion               Code = 0x0205
	RDMAPOpcode                Code = 0x0206
	RDMAPStreamCatastrophic    Code = 0x0207 // also an unaligned atomic (RFC 7306 section 8.2)
	RDMAPGlobalCatastrophic    Code = 0x0208
	RDMAPOpCannotInvalidate    Code = 0x0209 // the same error as 0x0109, filed under the other type
	RDMAPOperationUnspecified  Code = 0x02ff
	// Rule: IANA-3.2-01, DDP-7.2-01
	DDPLocalCatastrophic       Code = 0x1000
	DDPTaggedInvalidSTag       Code = 0x1100
	DDPTaggedBounds            Code = 0x1101
	DDPTaggedSTagNotAssociated Code = 0x1102
	DDPTaggedTOWrap            Code = 0x1103
	DDPTaggedVersion           Code = 0x1104
	DDPUntaggedQN              Code = 0x1201 // the numbering starts at 1: there is no 0x1200
	DDPUntaggedNoBuffer        Code = 0x1202
	DDPUntaggedMSN             Code = 0x1203
	DDPUntaggedMO              Code = 0x1204
	DDPUntaggedTooLong         Code = 0x1205
	DDPUntaggedVersion         Code = 0x1206
	// Rule: IANA-3.3-01
	MPAConnectionLost Code = 0x2001 // TCP closed, reset or lost
	MPACRC            Code = 0x2002
	MPAMarker         Code = 0x2003 // Marker and ULPDU_Length disagree on where an FPDU starts
	MPAStartup        Code = 0x2004 // invalid Request or Reply frame
	// Rule: MPA2-8-01
	MPALocalCatastrophic Code = 0x2005 // RFC 6581 section 8
	MPAInsufficientIRD   Code = 0x2006
	MPANoMatchingRTR     Code = 0x2007
)

// NewCode packs a triple. Only the low four bits of layer and etype are used.
func NewCode(layer Layer, etype, code uint8) Code {
	return Code(uint16(layer&0xf)<<12 | uint16(etype&0xf)<<8 | uint16(code))
}

// Layer is the layer of the triple.
func (c Code) Layer() Layer { return Layer(c >> 12) }

// Type is the error type of the triple, 0 to 15; its meaning depends on the layer.
func (c Code) Type() uint8 { return uint8(c>>8) & 0xf }

// Number is the error code of the triple; its meaning depends on layer and type.
func (c Code) Number() uint8 { return uint8(c) }

// Defined reports whether the RFCs define the triple.
func (c Code) Defined() bool {
	_, ok := c.meaning()
	return ok
}

// String returns the triple and its meaning, e.g.
// "DDP tagged buffer: base or bounds violation (1/1/01)".
func (c Code) String() string {
	m, ok := c.meaning()
	if !ok {
		m = c.Layer().String() + ": unassigned error"
	}
	return fmt.Sprintf("%s (%d/%d/%02x)", m, c.Layer(), c.Type(), c.Number())
}

func (c Code) meaning() (string, bool) {
	// Rule: RDMAP-4.8-10
	if c.Layer() == LayerRDMAP && c.Type() == 0 {
		return "RDMAP local catastrophic error", true
	}
	m, ok := meanings[c]
	return m, ok
}

var meanings = map[Code]string{
	RDMAPInvalidSTag:           "RDMAP remote protection: invalid STag",
	RDMAPBounds:                "RDMAP remote protection: base or bounds violation",
	RDMAPAccess:                "RDMAP remote protection: access rights violation",
	RDMAPSTagNotAssociated:     "RDMAP remote protection: STag not associated with the stream",
	RDMAPTOWrap:                "RDMAP remote protection: TO wrap",
	RDMAPCannotInvalidate:      "RDMAP remote protection: STag cannot be invalidated",
	RDMAPProtectionUnspecified: "RDMAP remote protection: unspecified error",
	RDMAPVersion:               "RDMAP remote operation: invalid RDMAP version",
	RDMAPOpcode:                "RDMAP remote operation: unexpected opcode",
	RDMAPStreamCatastrophic:    "RDMAP remote operation: catastrophic error of the stream",
	RDMAPGlobalCatastrophic:    "RDMAP remote operation: catastrophic error of all streams",
	RDMAPOpCannotInvalidate:    "RDMAP remote operation: STag cannot be invalidated",
	RDMAPOperationUnspecified:  "RDMAP remote operation: unspecified error",
	DDPLocalCatastrophic:       "DDP local catastrophic error",
	DDPTaggedInvalidSTag:       "DDP tagged buffer: invalid STag",
	DDPTaggedBounds:            "DDP tagged buffer: base or bounds violation",
	DDPTaggedSTagNotAssociated: "DDP tagged buffer: STag not associated with the stream",
	DDPTaggedTOWrap:            "DDP tagged buffer: TO wrap",
	DDPTaggedVersion:           "DDP tagged buffer: invalid DDP version",
	DDPUntaggedQN:              "DDP untagged buffer: invalid QN",
	DDPUntaggedNoBuffer:        "DDP untagged buffer: invalid MSN, no buffer available",
	DDPUntaggedMSN:             "DDP untagged buffer: invalid MSN, range is not valid",
	DDPUntaggedMO:              "DDP untagged buffer: invalid MO",
	DDPUntaggedTooLong:         "DDP untagged buffer: message too long for the buffer",
	DDPUntaggedVersion:         "DDP untagged buffer: invalid DDP version",
	MPAConnectionLost:          "MPA: TCP connection closed, terminated or lost",
	MPACRC:                     "MPA: CRC mismatch",
	MPAMarker:                  "MPA: Marker and ULPDU_Length mismatch",
	MPAStartup:                 "MPA: invalid Request or Reply frame",
	MPALocalCatastrophic:       "MPA: local catastrophic error",
	MPAInsufficientIRD:         "MPA: insufficient IRD resources",
	MPANoMatchingRTR:           "MPA: no matching RTR option",
}
