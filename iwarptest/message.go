package iwarptest

import (
	"encoding/binary"
	"fmt"
)

// Control octets that the builders write: the DDP octet with version 1, and RV 1
// in the upper half of the RDMAP octet.
const (
	bitTagged = 0x80
	bitLast   = 0x40
	ddpV1     = 0x01
	rdmapV1   = 0x40
)

// Tagged returns a segment of a tagged message, not cut: DDP header of 14 octets
// with the RDMAP opcode in it, and payload
// (https://www.rfc-editor.org/rfc/rfc5041#section-4.2). last is the L bit.
func Tagged(opcode uint8, last bool, stag uint32, to uint64, payload []byte) []byte {
	b := []byte{bitTagged | lastBit(last) | ddpV1, rdmapV1 | opcode}
	b = binary.BigEndian.AppendUint32(b, stag)
	b = binary.BigEndian.AppendUint64(b, to)
	return append(b, payload...)
}

// UntaggedHeader is the header of a segment of an untagged message, without its
// constants: DDP's (https://www.rfc-editor.org/rfc/rfc5041#section-4.3) with the RDMAP
// opcode and the Invalidate STag in it.
type UntaggedHeader struct {
	Opcode     uint8 // of RDMAP, 0 to 15
	Last       bool  // the L bit: the message ends with this segment
	Invalidate uint32
	QN         uint32
	MSN        uint32
	MO         uint32
}

// Untagged returns a segment of an untagged message, not cut: h, of 18 octets, and
// payload.
func Untagged(h UntaggedHeader, payload []byte) []byte {
	b := []byte{lastBit(h.Last) | ddpV1, rdmapV1 | h.Opcode}
	for _, v := range [...]uint32{h.Invalidate, h.QN, h.MSN, h.MO} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return append(b, payload...)
}

func lastBit(last bool) byte {
	if last {
		return bitLast
	}
	return 0
}

// Write returns a whole RDMA Write.
func Write(stag uint32, to uint64, data []byte) []byte { return Tagged(0, true, stag, to, data) }

// ReadRequest returns an RDMA Read Request on QN 1.
func ReadRequest(msn, sinkSTag uint32, sinkTO uint64, size, srcSTag uint32, srcTO uint64) []byte {
	b := binary.BigEndian.AppendUint32(nil, sinkSTag)
	b = binary.BigEndian.AppendUint64(b, sinkTO)
	b = binary.BigEndian.AppendUint32(b, size)
	b = binary.BigEndian.AppendUint32(b, srcSTag)
	b = binary.BigEndian.AppendUint64(b, srcTO)
	return Untagged(UntaggedHeader{Opcode: 1, Last: true, QN: 1, MSN: msn}, b)
}

// ReadResponse returns a whole RDMA Read Response.
func ReadResponse(stag uint32, to uint64, data []byte) []byte { return Tagged(2, true, stag, to, data) }

// Send returns a whole Send on QN 0.
func Send(msn uint32, data []byte) []byte {
	return Untagged(UntaggedHeader{Opcode: 3, Last: true, MSN: msn}, data)
}

// SendInvalidate returns a whole Send with Invalidate.
func SendInvalidate(msn, stag uint32, data []byte) []byte {
	return Untagged(UntaggedHeader{Opcode: 4, Last: true, Invalidate: stag, MSN: msn}, data)
}

// SendSolicited returns a whole Send with Solicited Event.
func SendSolicited(msn uint32, data []byte) []byte {
	return Untagged(UntaggedHeader{Opcode: 5, Last: true, MSN: msn},
		data)
}

// SendSolicitedInvalidate returns a whole Send with Solicited Event and Invalidate.
func SendSolicitedInvalidate(msn, stag uint32, data []byte) []byte {
	return Untagged(UntaggedHeader{Opcode: 6, Last: true, Invalidate: stag, MSN: msn}, data)
}

// Terminate returns a Terminate, MSN 1 on QN 2. code is layer, error type and error
// code as the first 16 bits have them (0x1203: DDP, untagged, 3). Without an
// offending segment, nil or empty, there are no headers. With one, M and D are set,
// its length and its DDP header are there, and for a Read Request with an RDMAP
// remote protection error (0x01..) R and the request are too. Of a segment that is
// shorter than its DDP header there is the length alone, with M, and of a request
// that is cut no more than its DDP header. The length has 16 bits, the low ones of
// a segment's that is longer
// (https://www.rfc-editor.org/rfc/rfc5040#section-4.8).
func Terminate(code uint16, offender []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, code)
	if len(offender) == 0 {
		return Untagged(UntaggedHeader{Opcode: 7, Last: true, QN: 2, MSN: 1}, append(b, 0, 0))
	}
	header := 18
	if offender[0]&bitTagged != 0 {
		header = 14
	}
	end, bits := header, byte(0xc0)
	switch {
	case len(offender) < header:
		end, bits = 0, 0x80
	case code>>8 == 0x01 && offender[1]&0xf == 1 && len(offender) >= header+28:
		end, bits = header+28, 0xe0
	}
	b = append(b, bits, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(offender)))
	return Untagged(UntaggedHeader{Opcode: 7, Last: true, QN: 2, MSN: 1}, append(b, offender[:end]...))
}

// Immediate returns an Immediate Data message
// (https://www.rfc-editor.org/rfc/rfc7306#section-6).
func Immediate(msn uint32, data [8]byte) []byte {
	return Untagged(UntaggedHeader{Opcode: 8, Last: true, MSN: msn}, data[:])
}

// ImmediateSolicited returns an Immediate Data message with Solicited Event.
func ImmediateSolicited(msn uint32, data [8]byte) []byte {
	return Untagged(UntaggedHeader{Opcode: 9, Last: true, MSN: msn}, data[:])
}

// AtomicRequest returns an Atomic Request on QN 1 with every field as given
// (https://www.rfc-editor.org/rfc/rfc7306#section-5.2.1).
func AtomicRequest(msn uint32, op uint8, id, stag uint32, to, data, mask, compare, compareMask uint64) []byte {
	b := []byte{0, 0, 0, op}
	b = binary.BigEndian.AppendUint32(b, id)
	b = binary.BigEndian.AppendUint32(b, stag)
	for _, v := range [...]uint64{to, data, mask, compare, compareMask} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return Untagged(UntaggedHeader{Opcode: 10, Last: true, QN: 1, MSN: msn}, b)
}

// FetchAdd returns the Atomic Request that adds data, in fields that end at the
// bits of mask.
func FetchAdd(msn, id, stag uint32, to, data, mask uint64) []byte {
	return AtomicRequest(msn, 0, id, stag, to, data, mask, 0, ^uint64(0))
}

// CmpSwap returns the Atomic Request that swaps in all 64 bits of swap if the word
// is compare.
func CmpSwap(msn, id, stag uint32, to, compare, swap uint64) []byte {
	return AtomicRequest(msn, 2, id, stag, to, swap, ^uint64(0), compare, ^uint64(0))
}

// AtomicResponse returns an Atomic Response on QN 3.
func AtomicResponse(msn, id uint32, original uint64) []byte {
	b := binary.BigEndian.AppendUint32(nil, id)
	b = binary.BigEndian.AppendUint64(b, original)
	return Untagged(UntaggedHeader{Opcode: 11, Last: true, QN: 3, MSN: msn}, b)
}

// opcodeNames are for people who read a failed test.
var opcodeNames = [16]string{
	"Write", "Read Request", "Read Response", "Send", "Send Inv", "Send SE", "Send SE Inv", "Terminate",
	"Immediate", "Immediate SE", "Atomic Request", "Atomic Response", "opcode 12", "opcode 13", "opcode 14",
	"opcode 15",
}

// Describe puts a segment into one line of words and hexadecimal digits. It makes
// the best of segments that are wrong.
func Describe(segment []byte) string {
	const shown = 64
	tagged := len(segment) > 0 && segment[0]&bitTagged != 0
	header := 18
	if tagged {
		header = 14
	}
	if len(segment) < header {
		return fmt.Sprintf("short segment %x", segment)
	}
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(segment[at:]) }
	s := opcodeNames[segment[1]&0xf]
	if rv := segment[1] >> 6; rv != 1 {
		s += fmt.Sprintf(" RV=%d", rv)
	}
	if dv := segment[0] & 3; dv != ddpV1 {
		s += fmt.Sprintf(" DV=%d", dv)
	}
	if tagged {
		s += fmt.Sprintf(" STag %08x TO %#x", u32(2), binary.BigEndian.Uint64(segment[6:]))
	} else {
		if stag := u32(2); stag != 0 {
			s += fmt.Sprintf(" invalidate %08x", stag)
		}
		s += fmt.Sprintf(" QN %d MSN %d MO %d", u32(6), u32(10), u32(14))
	}
	if segment[0]&bitLast != 0 {
		s += " L"
	}
	rest := segment[header:]
	s += fmt.Sprintf(" +%d", len(rest))
	switch {
	case len(rest) > shown:
		s += fmt.Sprintf(" %x...", rest[:shown])
	case len(rest) > 0:
		s += fmt.Sprintf(" %x", rest)
	}
	return s
}
