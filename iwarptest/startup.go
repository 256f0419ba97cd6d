package iwarptest

import "encoding/binary"

// The flags of a startup frame
// (https://www.rfc-editor.org/rfc/rfc5044#section-7.1.1,
// https://www.rfc-editor.org/rfc/rfc6581#section-6).
const (
	FlagM = 0x80 // the sender wants to receive Markers
	FlagC = 0x40 // the sender wants CRC, in both directions
	FlagR = 0x20 // reject, in a Reply only
	FlagS = 0x10 // enhanced, with revision 2
)

const (
	requestKey = "MPA ID Req Frame"
	replyKey   = "MPA ID Rep Frame"
	startupLen = 20 // without Private Data
)

// Request returns an MPA Request frame:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|           Key, 16 octets: "MPA ID Req Frame"                  |
//	+-+-+-+-+-------+---------------+-------------------------------+
//	|M|C|R|S|  Res  |      Rev      |           PD_Length           |
//	+-+-+-+-+-------+---------------+-------------------------------+
//	|                     Private Data, 0 to 512 octets             |
//	+---------------------------------------------------------------+
//
// privateData is not looked at. PD_Length has 16 bits, the low ones of a length
// above 65535.
func Request(flags, rev byte, privateData []byte) []byte {
	return startup(requestKey, flags, rev, privateData)
}

// Reply returns an MPA Reply frame, laid out as the [Request].
func Reply(flags, rev byte, privateData []byte) []byte {
	return startup(replyKey, flags, rev, privateData)
}

func startup(key string, flags, rev byte, privateData []byte) []byte {
	b := append([]byte(key), flags, rev)
	b = binary.BigEndian.AppendUint16(b, uint16(len(privateData)))
	return append(b, privateData...)
}

// Enhanced returns Private Data that starts with the block of RFC 6581 section 9:
// ird and ord are its two halves with their flags, 0x8000 A and 0x4000 B in ird,
// 0x8000 C and 0x4000 D in ord.
func Enhanced(ird, ord uint16, ulpData []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, ird)
	b = binary.BigEndian.AppendUint16(b, ord)
	return append(b, ulpData...)
}

// flagsOf returns the flags of a startup frame, none if it is cut before them.
func flagsOf(frame []byte) byte {
	const at = len(requestKey)
	if len(frame) <= at {
		return 0
	}
	return frame[at]
}
