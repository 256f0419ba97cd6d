package iwarp_test

import (
	"bytes"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// attack is one way to misbehave, on a connection that has had one good message.
type attack struct {
	name string
	// One of these is set: the segment that breaks a rule; segments, of which the last
	// one does; or the octets of an FPDU that is none.
	segment  func(v *victim) []byte
	segments func(v *victim) [][]byte
	raw      func(v *victim) []byte

	code   protocol.Code
	bare   bool // the Terminate echoes nothing of the segment
	silent bool // it is about a Terminate: none answers it
	remote bool // the peer's Terminate names the error
}

// send does it, and returns the length of the segment that the Terminate echoes; 0:
// none.
func (a *attack) send(v *victim) (echo int) {
	var all [][]byte
	switch {
	case a.raw != nil:
		v.p.SendRaw(a.raw(v))
		return 0
	case a.segments != nil:
		all = a.segments(v)
	default:
		all = [][]byte{a.segment(v)}
	}
	v.p.Send(all...)
	if a.bare {
		return 0
	}
	return len(all[len(all)-1])
}

func attacks() []attack {
	ee := bytes.Repeat([]byte{0xee}, 10)
	return []attack{
		// STag, bounds, wrap
		{
			name: "Write to STag 0", code: protocol.DDPTaggedInvalidSTag,
			segment: func(*victim) []byte { return iwarptest.Write(0, 1000, ee) },
		},
		{
			name: "Write to a wrong STag", code: protocol.DDPTaggedInvalidSTag,
			segment: func(v *victim) []byte { return iwarptest.Write(v.stag()^0x100, 1000, ee) },
		},
		{
			name: "Write with a wrong key", code: protocol.DDPTaggedInvalidSTag,
			segment: func(v *victim) []byte { return iwarptest.Write(v.stag()^1, 1000, ee) },
		},
		{
			name: "Write to an STag that was", code: protocol.DDPTaggedInvalidSTag,
			segment: func(v *victim) []byte { return iwarptest.Write(v.gone, 0, ee) },
		},
		{
			name: "Write without the right", code: protocol.DDPTaggedInvalidSTag,
			segment: func(v *victim) []byte { return iwarptest.Write(uint32(v.ro.STag()), 0, ee) },
		},
		{
			name: "Write before the region", code: protocol.DDPTaggedBounds,
			segment: func(v *victim) []byte { return iwarptest.Write(v.stag(), 999, ee) },
		},
		{
			name: "Write from 0", code: protocol.DDPTaggedBounds,
			segment: func(v *victim) []byte { return iwarptest.Write(v.stag(), 0, ee) },
		},
		{
			name: "Write across the end", code: protocol.DDPTaggedBounds,
			segment: func(v *victim) []byte { return iwarptest.Write(v.stag(), 1091, ee) },
		},
		{
			name: "Write behind the end", code: protocol.DDPTaggedBounds,
			segment: func(v *victim) []byte { return iwarptest.Write(v.stag(), 1100, ee) },
		},
		{
			name: "Write that wraps", code: protocol.DDPTaggedTOWrap,
			segment: func(v *victim) []byte { return iwarptest.Write(v.stag(), ^uint64(0)-8, ee) },
		},
		{
			name: "second segment out of bounds", code: protocol.DDPTaggedBounds, // R38
			segments: func(v *victim) [][]byte {
				return [][]byte{
					iwarptest.Tagged(0, false, v.stag(), 1000, make([]byte, 10)),
					iwarptest.Tagged(0, true, v.stag(), 1095, ee),
				}
			},
		},
		{
			name: "Read of a wrong STag", code: protocol.RDMAPInvalidSTag,
			segment: func(v *victim) []byte { return iwarptest.ReadRequest(1, 1, 0, 10, v.stag()^0x100, 1000) },
		},
		{
			name: "Read of an STag that was", code: protocol.RDMAPInvalidSTag,
			segment: func(v *victim) []byte { return iwarptest.ReadRequest(1, 1, 0, 10, v.gone, 0) },
		},
		{
			name: "Read without the right", code: protocol.RDMAPAccess,
			segment: func(v *victim) []byte { return iwarptest.ReadRequest(1, 1, 0, 10, uint32(v.wo.STag()), 0) },
		},
		{
			name: "Read across the end", code: protocol.RDMAPBounds,
			segment: func(v *victim) []byte { return iwarptest.ReadRequest(1, 1, 0, 101, v.stag(), 1000) },
		},
		{
			name: "Read before the region", code: protocol.RDMAPBounds,
			segment: func(v *victim) []byte { return iwarptest.ReadRequest(1, 1, 0, 1, v.stag(), 999) },
		},
		{
			name: "Read of 4 GiB", code: protocol.RDMAPBounds,
			segment: func(v *victim) []byte { return iwarptest.ReadRequest(1, 1, 0, 1<<32-1, v.stag(), 1000) },
		},
		{
			name: "Read that wraps", code: protocol.RDMAPTOWrap,
			segment: func(v *victim) []byte { return iwarptest.ReadRequest(1, 1, 0, 10, v.stag(), ^uint64(0)-8) },
		},
		{
			name: "atomic on a wrong STag", code: protocol.RDMAPInvalidSTag,
			segment: func(v *victim) []byte { return iwarptest.FetchAdd(1, 1, v.stag()^0x100, 1000, 1, 0) },
		},
		{
			name: "atomic without the right", code: protocol.RDMAPAccess,
			segment: func(v *victim) []byte { return iwarptest.FetchAdd(1, 1, uint32(v.wo.STag()), 0, 1, 0) },
		},
		{
			name: "atomic across the end", code: protocol.RDMAPBounds,
			segment: func(v *victim) []byte { return iwarptest.FetchAdd(1, 1, v.stag(), 1096, 1, 0) },
		},
		{
			name: "atomic not aligned", code: protocol.RDMAPStreamCatastrophic,
			segment: func(v *victim) []byte { return iwarptest.CmpSwap(1, 1, v.stag(), 1001, 0, 1) },
		},
		{
			name: "atomic operation 1", code: protocol.RDMAPOpcode,
			segment: func(v *victim) []byte { return iwarptest.AtomicRequest(1, 1, 1, v.stag(), 1000, 1, 0, 0, 0) },
		},
		{
			name: "Invalidate of a wrong STag", code: protocol.RDMAPCannotInvalidate,
			segment: func(v *victim) []byte { return iwarptest.SendInvalidate(2, v.stag()^0x100, nil) },
		},

		// QN, MSN, MO, buffers
		{
			name: "QN 4", code: protocol.DDPUntaggedQN,
			segment: func(*victim) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, QN: 4, MSN: 1},
					ee)
			},
		},
		{
			name: "QN 2^32-1", code: protocol.DDPUntaggedQN,
			segment: func(*victim) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, QN: 1<<32 - 1, MSN: 1}, ee)
			},
		},
		{
			name: "MSN 0", code: protocol.DDPUntaggedMSN,
			segment: func(*victim) []byte { return iwarptest.Send(0, ee) },
		},
		{
			name: "MSN again", code: protocol.DDPUntaggedMSN,
			segment: func(*victim) []byte { return iwarptest.Send(1, ee) },
		},
		{
			name: "MSN skipped", code: protocol.DDPUntaggedMSN,
			segment: func(*victim) []byte { return iwarptest.Send(3, ee) },
		},
		{
			name: "MO not 0", code: protocol.DDPUntaggedMO,
			segment: func(*victim) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: 2, MO: 4}, ee)
			},
		},
		{
			name: "MO with a gap", code: protocol.DDPUntaggedMO,
			segments: func(v *victim) [][]byte {
				return [][]byte{
					iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 2}, ee),
					iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: 2, MO: 11}, ee),
				}
			},
		},
		{
			name: "Send longer than the buffer", code: protocol.DDPUntaggedTooLong,
			segment: func(*victim) []byte { return iwarptest.Send(2, make([]byte, 101)) },
		},
		{
			name: "Send longer than the buffer in its second segment", code: protocol.DDPUntaggedTooLong,
			segments: func(v *victim) [][]byte {
				return [][]byte{
					iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 2}, make([]byte, 100)),
					iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: 2, MO: 100}, []byte{1}),
				}
			},
		},
		{
			name: "no buffer", code: protocol.DDPUntaggedNoBuffer,
			segments: func(v *victim) [][]byte {
				return [][]byte{
					iwarptest.Send(2, nil),
					iwarptest.Send(3, nil),
					iwarptest.Send(4, nil),
					iwarptest.Send(5, nil),
					iwarptest.Send(6, ee),
				}
			},
		},
		{
			name: "Read Request of 27 octets", code: protocol.RDMAPOperationUnspecified,
			segment: func(*victim) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 1, Last: true, QN: 1, MSN: 1},
					make([]byte, 27))
			},
		},
		{
			name: "Read Request of 29 octets", code: protocol.DDPUntaggedTooLong,
			segment: func(*victim) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 1, Last: true, QN: 1, MSN: 1},
					make([]byte, 53))
			},
		},

		// versions and opcodes
		{
			name: "DDP version 0, tagged", code: protocol.DDPTaggedVersion,
			segment: func(v *victim) []byte { return control(iwarptest.Write(v.stag(), 1000, ee), 0, 0xc0) },
		},
		{
			name: "DDP version 2, untagged", code: protocol.DDPUntaggedVersion,
			segment: func(*victim) []byte { return control(iwarptest.Send(2, ee), 0, 0x42) },
		},
		{
			name: "RDMAP version 0", code: protocol.RDMAPVersion,
			segment: func(v *victim) []byte { return control(iwarptest.Write(v.stag(), 1000, ee), 1, 0x00) },
		},
		{
			name: "RDMAP version 2", code: protocol.RDMAPVersion,
			segment: func(*victim) []byte { return control(iwarptest.Send(2, ee), 1, 0x83) },
		},
		{
			name: "opcode 12", code: protocol.RDMAPOpcode,
			segment: func(*victim) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 12, Last: true, MSN: 2}, ee)
			},
		},
		{
			name: "opcode 15, tagged", code: protocol.RDMAPOpcode,
			segment: func(v *victim) []byte { return iwarptest.Tagged(15, true, v.stag(), 1000, ee) },
		},
		{
			name: "Send as tagged", code: protocol.RDMAPOpcode,
			segment: func(v *victim) []byte { return iwarptest.Tagged(3, true, v.stag(), 1000, ee) },
		},
		{
			name: "Write as untagged", code: protocol.RDMAPOpcode,
			segment: func(*victim) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 0, Last: true, MSN: 2}, ee)
			},
		},
		{
			name: "Read Request on QN 0", code: protocol.RDMAPOpcode,
			segment: func(*victim) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 1, Last: true, MSN: 2}, make([]byte, 28))
			},
		},
		{
			name: "Send on QN 1", code: protocol.RDMAPOpcode,
			segment: func(*victim) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, QN: 1, MSN: 1}, ee)
			},
		},
		{
			name: "Read Response that nobody asked for", code: protocol.DDPTaggedInvalidSTag,
			segment: func(v *victim) []byte { return iwarptest.ReadResponse(v.stag(), 1000, ee) },
		},
		{
			name: "empty Read Response that nobody asked for", code: protocol.DDPTaggedInvalidSTag,
			segment: func(v *victim) []byte { return iwarptest.ReadResponse(v.stag(), 1000, nil) },
		},
		{
			name: "Immediate of 7 octets", code: protocol.RDMAPOperationUnspecified,
			segment: func(*victim) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 8, Last: true, MSN: 2}, make([]byte, 7))
			},
		},

		// MPA
		{
			name: "CRC", code: protocol.MPACRC,
			raw: func(v *victim) []byte {
				f := v.p.Out.Frame(iwarptest.Write(v.stag(), 1000, untouchedWrites(v)))
				f[len(f)-1] ^= 1
				return f
			},
		},
		{
			name: "CRC of a payload octet", code: protocol.MPACRC,
			raw: func(v *victim) []byte {
				f := v.p.Out.Frame(iwarptest.Send(2, untouchedWrites(v)))
				f[22] ^= 0x80
				return f
			},
		},
		{
			name: "segment of 0 octets", code: protocol.DDPLocalCatastrophic,
			raw: func(v *victim) []byte { return v.p.Out.Frame(nil) },
		},
		{
			name: "tagged segment of 13 octets", code: protocol.DDPLocalCatastrophic, bare: true, // R21
			segment: func(v *victim) []byte { return iwarptest.Write(v.stag(), 1000, nil)[:13] },
		},
		{
			name: "untagged segment of 17 octets", code: protocol.DDPLocalCatastrophic, bare: true,
			segment: func(*victim) []byte { return iwarptest.Send(2, nil)[:17] },
		},

		// Terminates of its own
		{
			name: "a Terminate", code: protocol.DDPUntaggedMSN, silent: true, remote: true,
			segment: func(*victim) []byte { return iwarptest.Terminate(0x1203, iwarptest.Send(7, ee)) },
		},
		{
			name: "a Terminate that cannot be read", code: protocol.RDMAPOperationUnspecified, silent: true,
			segment: func(*victim) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 7, Last: true, QN: 2, MSN: 1}, []byte{1})
			},
		},
	}
}
