package rdmap

import (
	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// Support is what is known of whether the peer knows an operation of RFC 7306.
// Nothing negotiates it (section 1.1): a ULP knows, or finds out.
type Support uint8

// What can be known.
const (
	SupportUnknown Support = iota
	Supported              // the peer has used it, or answered it
	NotSupported           // the peer ended the stream with "unexpected opcode" for it
)

// String returns the answer in a word.
func (s Support) String() string {
	switch s {
	case Supported:
		return "supported"
	case NotSupported:
		return "not supported"
	}
	return "unknown"
}

// noteOpcode remembers that the peer has used an opcode. The caller holds mu.
func (s *Stream) noteOpcode(op Opcode) { s.peerUsed |= 1 << op }

// PeerSupports tells what this connection has shown of the peer: whether it takes
// the operation. RFC 5040's operations are always supported.
func (s *Stream) PeerSupports(op Op) Support {
	var proofs, asked uint16
	switch op {
	case OpImmediate:
		proofs = 1<<OpcodeImmediate | 1<<OpcodeImmediateSolicited
		asked = proofs
	case OpFetchAdd, OpCompareSwap:
		proofs = 1<<OpcodeAtomicRequest | 1<<OpcodeAtomicResponse
		asked = 1 << OpcodeAtomicRequest
	default:
		return Supported
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Rule: EXT-1.1-02
	if s.err != nil && s.err.Remote && s.err.Code == protocol.RDMAPOpcode && s.err.Offender != nil {
		h, _, err := ddp.Parse(s.err.Offender.DDPHeader)
		if err == nil && asked&(1<<Control(h.Control).Opcode()) != 0 {
			return NotSupported
		}
	}
	if s.peerUsed&proofs != 0 {
		return Supported
	}
	return SupportUnknown
}
