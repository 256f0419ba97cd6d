package protocol

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// EnhancedLen is the size of an [Enhanced] block in octets.
const EnhancedLen = 4

// NotNegotiated is the IRD or ORD value (all 14 bits set) with which an end says
// that this value is the ULP's business and is not negotiated here
// (https://www.rfc-editor.org/rfc/rfc6581#section-9.1). It is not 16383 Reads.
//
// Rule: MPA2-9.1-09
const NotNegotiated = 0x3fff

// MaxDepth is the largest IRD or ORD that can be negotiated.
const MaxDepth = NotNegotiated - 1

// RTR is a set of kinds of Ready To Receive indication: the zero-length message
// with which the initiator of a peer-to-peer connection opens the stream, so
// that the responder may send first
// (https://www.rfc-editor.org/rfc/rfc6581#section-9.2).
type RTR uint8

// The kinds of RTR.
const (
	RTRSend  RTR = 1 << iota // zero-length Send (flag B)
	RTRWrite                 // zero-length RDMA Write (flag C)
	RTRRead                  // zero-length RDMA Read (flag D)
)

// Has reports whether r holds every kind of k.
func (r RTR) Has(k RTR) bool { return r&k == k }

// String lists the kinds, "none" for the empty set.
func (r RTR) String() string {
	var names []string
	for _, k := range [...]struct {
		bit  RTR
		name string
	}{{RTRWrite, "write"}, {RTRRead, "read"}, {RTRSend, "send"}} {
		if r.Has(k.bit) {
			names = append(names, k.name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ",")
}

// Enhanced is the block that starts the Private Data of an enhanced startup
// frame (https://www.rfc-editor.org/rfc/rfc6581#section-9):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+---------------------------+-+-+---------------------------+
//	|A|B|            IRD            |C|D|            ORD            |
//	+-+-+---------------------------+-+-+---------------------------+
//
// IRD and ORD are the sender's own: how many RDMA Reads and atomics it takes
// at once, and how many it wants to have outstanding.
type Enhanced struct {
	PeerToPeer bool // A
	RTR        RTR  // B, C, D; zero on send and ignored on receipt when A is 0
	IRD        uint16
	ORD        uint16
}

// AppendTo appends the four octets of the block to b. IRD and ORD above
// [NotNegotiated] do not fit their 14 bits and are an error.
func (e Enhanced) AppendTo(b []byte) ([]byte, error) {
	for _, f := range [...]struct {
		name  string
		value uint16
	}{{"IRD", e.IRD}, {"ORD", e.ORD}} {
		if f.value > NotNegotiated {
			return b, fmt.Errorf("iwarp: %s is %d, but the field has 14 bits: at most %d (RFC 6581 section 9)", f.name,
				f.value, NotNegotiated)
		}
	}
	// Rule: MPA2-9-01, MPA2-9.2-01, MPA2-9.2-10
	first, second := e.IRD, e.ORD
	if e.PeerToPeer {
		first |= 0x8000
		if e.RTR.Has(RTRSend) {
			first |= 0x4000
		}
		if e.RTR.Has(RTRWrite) {
			second |= 0x8000
		}
		if e.RTR.Has(RTRRead) {
			second |= 0x4000
		}
	}
	b = binary.BigEndian.AppendUint16(b, first)
	return binary.BigEndian.AppendUint16(b, second), nil
}

// ParseEnhanced reads a block from the start of b and gives the octets used.
// Fewer than four octets give [io.ErrUnexpectedEOF]. RTR is empty when A is 0,
// whatever the octets say.
func ParseEnhanced(b []byte) (Enhanced, int, error) {
	// Rule: MPA2-12-01
	if len(b) < EnhancedLen {
		return Enhanced{}, 0, io.ErrUnexpectedEOF
	}
	// Rule: MPA2-9-01, MPA2-9.2-01, MPA2-9.2-10
	first, second := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	e := Enhanced{PeerToPeer: first&0x8000 != 0, IRD: first & NotNegotiated, ORD: second & NotNegotiated}
	if e.PeerToPeer {
		if first&0x4000 != 0 {
			e.RTR |= RTRSend
		}
		if second&0x8000 != 0 {
			e.RTR |= RTRWrite
		}
		if second&0x4000 != 0 {
			e.RTR |= RTRRead
		}
	}
	return e, EnhancedLen, nil
}
