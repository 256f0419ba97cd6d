package rdmap

import (
	"fmt"

	"github.com/go-iwarp/iwarp/protocol"
)

// Version is the RDMAP version of RFC 5040 (01b) that senders put into the RV
// field. Version 0 is that of the RDMA Consortium
// (https://www.rfc-editor.org/rfc/rfc5040#section-4.1).
const Version = 1

// The DDP queues that RDMAP uses for untagged messages
// (https://www.rfc-editor.org/rfc/rfc7306#section-10.2).
const (
	QNSend           = 0 // Sends and Immediate Data
	QNReadRequest    = 1 // RDMA Read and Atomic Requests, which share its MSN
	QNTerminate      = 2
	QNAtomicResponse = 3
)

// Opcode is the kind of an RDMA Message, the low four bits of the RDMAP control
// octet (https://www.rfc-editor.org/rfc/rfc5040#section-4.1 figure 4,
// https://www.rfc-editor.org/rfc/rfc7306#section-4.1 figure 2).
type Opcode uint8

// The opcodes. 12 to 14 are unassigned and 15 is reserved for experiments
// (https://www.rfc-editor.org/rfc/rfc6580#section-3.4).
const (
	OpcodeWrite        Opcode = 0
	OpcodeReadRequest  Opcode = 1
	OpcodeReadResponse Opcode = 2
	OpcodeSend         Opcode = 3
	// Rule: RDMAP-4.1-05
	OpcodeSendInvalidate          Opcode = 4
	OpcodeSendSolicited           Opcode = 5
	OpcodeSendSolicitedInvalidate Opcode = 6
	OpcodeTerminate               Opcode = 7
	OpcodeImmediate               Opcode = 8
	OpcodeImmediateSolicited      Opcode = 9
	OpcodeAtomicRequest           Opcode = 10
	OpcodeAtomicResponse          Opcode = 11
)

// traits is all that the RFCs fix about one opcode.
type traits struct {
	name       string
	tagged     bool
	qn         uint32 // of untagged messages
	header     int    // exact octets of the RDMAP header, -1: not exact
	payload    bool   // ULP payload follows the DDP header
	solicited  bool   // asks for a solicited event at the receiver
	invalidate bool   // the DDP header's RsvdULP field is an Invalidate STag
	response   bool   // answers a request of the receiver
}

// opcodes has one line per opcode; an empty name is an opcode that does not exist.
var opcodes = [16]traits{
	// Rule: RDMAP-3.1-02, RDMAP-4.1-04, RDMAP-4.1-05, RDMAP-4.1-08, RDMAP-4.2-01, RDMAP-5.1-01, RDMAP-5.2.1-01
	// Rule: RDMAP-5.2.1-03, RDMAP-5.2.2-01, RDMAP-5.3-01, RDMAP-5.3-02, RDMAP-5.4-01, EXT-4.1-01, EXT-4.1-03
	// Rule: EXT-4.2-01, EXT-5.2-01, EXT-5.2.1-06, EXT-5.2.2-02, EXT-6.3-01, EXT-6.3-02, EXT-10.2-01, IANA-3.4-01
	OpcodeWrite:       {name: "RDMA Write", tagged: true, header: -1, payload: true},
	OpcodeReadRequest: {name: "RDMA Read Request", qn: QNReadRequest, header: ReadRequestLen},
	OpcodeReadResponse: {
		name: "RDMA Read Response", tagged: true, header: -1, payload: true, response: true,
	},
	OpcodeSend: {name: "Send", qn: QNSend, header: -1, payload: true},
	OpcodeSendInvalidate: {
		name: "Send with Invalidate", qn: QNSend, header: -1, payload: true, invalidate: true,
	},
	OpcodeSendSolicited: {name: "Send with SE", qn: QNSend, header: -1, payload: true, solicited: true},
	OpcodeSendSolicitedInvalidate: {
		name: "Send with SE and Invalidate", qn: QNSend, header: -1, payload: true, solicited: true, invalidate: true,
	},
	OpcodeTerminate:          {name: "Terminate", qn: QNTerminate, header: -1},
	OpcodeImmediate:          {name: "Immediate Data", qn: QNSend, header: ImmediateDataLen},
	OpcodeImmediateSolicited: {name: "Immediate Data with SE", qn: QNSend, header: ImmediateDataLen, solicited: true},
	OpcodeAtomicRequest:      {name: "Atomic Request", qn: QNReadRequest, header: AtomicRequestLen},
	OpcodeAtomicResponse: {
		name: "Atomic Response", qn: QNAtomicResponse, header: AtomicResponseLen, response: true,
	},
}

// none is what an Opcode that does not fit its four bits has.
var none = traits{header: -1}

func (op Opcode) traits() *traits {
	if int(op) < len(opcodes) && opcodes[op].name != "" {
		return &opcodes[op]
	}
	return &none
}

// Known reports whether RFC 5040 or RFC 7306 define the opcode.
func (op Opcode) Known() bool { return op.traits().name != "" }

// String returns the name that the RFCs use, "opcode 12" for one without.
func (op Opcode) String() string {
	if t := op.traits(); t.name != "" {
		return t.name
	}
	return fmt.Sprintf("opcode %d", uint8(op))
}

// Tagged reports whether the message uses the tagged buffer model.
func (op Opcode) Tagged() bool { return op.traits().tagged }

// QN is the queue number of an untagged message; 0 for tagged and unknown ones.
func (op Opcode) QN() uint32 { return op.traits().qn }

// HeaderLen is the exact length in octets of the RDMAP header, which is the
// whole of what follows the DDP header. It is -1 for messages that carry ULP
// payload instead, for the Terminate, whose header varies from
// [MinTerminateLen] to 52 octets, and for unknown opcodes.
func (op Opcode) HeaderLen() int { return op.traits().header }

// Payload reports whether ULP payload, of any length, follows the DDP header
// (https://www.rfc-editor.org/rfc/rfc5040#section-4.2 figure 5).
func (op Opcode) Payload() bool { return op.traits().payload }

// Solicited reports whether the message asks for a solicited event.
func (op Opcode) Solicited() bool { return op.traits().solicited }

// Invalidates reports whether the message carries an Invalidate STag in octets
// 2 to 5 of its DDP header. In all other untagged messages that field is zero
// on send and ignored on receipt.
func (op Opcode) Invalidates() bool { return op.traits().invalidate }

// Response reports whether the message answers a request of its receiver.
func (op Opcode) Response() bool { return op.traits().response }

// Control is the RDMAP control octet, the first of the RsvdULP octets of a DDP
// header (https://www.rfc-editor.org/rfc/rfc5040#section-4.1 figure 3):
//
//	 0 1 2 3 4 5 6 7
//	+---+---+-------+
//	| RV|Rsv| Opcode|
//	+---+---+-------+
type Control uint8

// Version is the RV field, 0 to 3.
func (c Control) Version() uint8 { return uint8(c >> 6) }

// Reserved is the Rsv field, 0 to 3. Receivers ignore it.
func (c Control) Reserved() uint8 { return uint8(c>>4) & 3 }

// Opcode is the Opcode field; it may be unknown.
func (c Control) Opcode() Opcode { return Opcode(c & 0xf) }

// String returns opcode and, where they are unusual, version and reserved bits.
func (c Control) String() string {
	s := c.Opcode().String()
	if c.Version() != Version {
		s += fmt.Sprintf(" RV=%d", c.Version())
	}
	if c.Reserved() != 0 {
		s += fmt.Sprintf(" Rsv=%d", c.Reserved())
	}
	return s
}

// Check makes the checks of an incoming control octet in the order of the RFC:
// the RDMAP version against the one of this connection ([Version], or 0 where
// MPA startup agreed on the RDMA Consortium's protocol), then that the opcode
// exists, uses the tagged or untagged model as the DDP header says and, if
// untagged, came on its own queue. qn is ignored for a tagged segment.
// See https://www.rfc-editor.org/rfc/rfc5040#section-7.2 and
// https://www.rfc-editor.org/rfc/rfc7306#section-8.2.
func (c Control) Check(version uint8, tagged bool, qn uint32) *protocol.Error {
	op := c.Opcode()
	switch {
	// Rule: RDMAP-4.1-06, RDMAP-7.2-03, EXT-8.2-03, RDMAP-4.1-07
	case c.Version() != version:
		return &protocol.Error{
			Code:    protocol.RDMAPVersion,
			Section: "RFC 5040 section 4.1",
			Detail:  fmt.Sprintf("RV %d: must be %d", c.Version(), version),
		}
	// Rule: RDMAP-7.2-02, EXT-8.2-02, IANA-3.4-01
	case !op.Known():
		return unexpectedOpcode("%v: not assigned", op)
	// Rule: RDMAP-4.1-04
	case op.Tagged() && !tagged:
		return unexpectedOpcode("%v in an untagged segment: must be tagged", op)
	case !op.Tagged() && tagged:
		return unexpectedOpcode("%v in a tagged segment: must be untagged", op)
	// Rule: RDMAP-4.1-08, EXT-10.2-01
	case !tagged && op.QN() != qn:
		return unexpectedOpcode("%v on QN %d: must be on QN %d", op, qn, op.QN())
	}
	return nil
}

func unexpectedOpcode(format string, args ...any) *protocol.Error {
	return &protocol.Error{
		Code:    protocol.RDMAPOpcode,
		Section: "RFC 5040 section 4.1",
		Detail:  fmt.Sprintf(format, args...),
	}
}
