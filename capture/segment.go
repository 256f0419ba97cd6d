package capture

import (
	"encoding/binary"
	"net/netip"
)

// Flags of a TCP header.
const (
	flagFIN = 1 << iota
	flagSYN
	flagRST
	flagPSH
	flagACK
)

const (
	ipv4Len = 20
	ipv6Len = 40
	tcpLen  = 20

	protocolTCP = 6
	hopLimit    = 64
	ipDF        = 0x4000 // do not fragment

	// windowShift makes the window so large that no sender fills it.
	windowShift = 14
)

// segment is one TCP segment, without its payload.
type segment struct {
	src, dst netip.AddrPort // both of one IP version
	id       uint16         // IPv4 identification
	seq, ack uint32
	flags    uint8
	mss      uint16 // option of a SYN
}

// append appends the IP packet of the segment
// (https://www.rfc-editor.org/rfc/rfc791#section-3.1,
// https://www.rfc-editor.org/rfc/rfc8200#section-3,
// https://www.rfc-editor.org/rfc/rfc9293#section-3.1). payload has at most
// maxSegment octets, less 4 with SYN's options counted.
func (s *segment) append(b, payload []byte) []byte {
	head := tcpLen
	if s.flags&flagSYN != 0 {
		head += 8
	}
	length := head + len(payload)
	if s.src.Addr().Is4() {
		b = s.appendIPv4(b, length)
	} else {
		b = s.appendIPv6(b, length)
	}
	at := len(b)
	b = s.appendTCP(b, head)
	b = append(b, payload...)

	sum := sumOf(0, s.src.Addr().AsSlice())
	sum = sumOf(sum, s.dst.Addr().AsSlice())
	sum += protocolTCP + uint64(length)
	binary.BigEndian.PutUint16(b[at+16:], fold(sumOf(sum, b[at:])))
	return b
}

func (s *segment) appendIPv4(b []byte, length int) []byte {
	at := len(b)
	b = append(b, 0x45, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(ipv4Len+length))
	b = binary.BigEndian.AppendUint16(b, s.id)
	b = binary.BigEndian.AppendUint16(b, ipDF)
	b = append(b, hopLimit, protocolTCP, 0, 0)
	b = append(b, s.src.Addr().AsSlice()...)
	b = append(b, s.dst.Addr().AsSlice()...)
	binary.BigEndian.PutUint16(b[at+10:], fold(sumOf(0, b[at:])))
	return b
}

func (s *segment) appendIPv6(b []byte, length int) []byte {
	b = append(b, 0x60, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(length))
	b = append(b, protocolTCP, hopLimit)
	b = append(b, s.src.Addr().AsSlice()...)
	return append(b, s.dst.Addr().AsSlice()...)
}

func (s *segment) appendTCP(b []byte, head int) []byte {
	b = binary.BigEndian.AppendUint16(b, s.src.Port())
	b = binary.BigEndian.AppendUint16(b, s.dst.Port())
	b = binary.BigEndian.AppendUint32(b, s.seq)
	b = binary.BigEndian.AppendUint32(b, s.ack)
	b = append(b, byte(head/4)<<4, s.flags, 0xff, 0xff, 0, 0, 0, 0) // window, checksum, urgent
	if s.flags&flagSYN != 0 {
		b = append(b, 2, 4, byte(s.mss>>8), byte(s.mss)) // maximum segment size
		b = append(b, 3, 3, windowShift, 1)              // window scale, no-operation
	}
	return b
}

// sumOf adds the 16-bit words of b to a sum for the Internet checksum
// (https://www.rfc-editor.org/rfc/rfc1071#section-2); an odd last octet is
// followed by a zero one. Words of 32 bits do, since 2^16 is 1 modulo 2^16-1.
func sumOf(sum uint64, b []byte) uint64 {
	for ; len(b) >= 16; b = b[16:] {
		sum += uint64(binary.BigEndian.Uint32(b)) + uint64(binary.BigEndian.Uint32(b[4:])) +
			uint64(binary.BigEndian.Uint32(b[8:])) + uint64(binary.BigEndian.Uint32(b[12:]))
	}
	for ; len(b) >= 2; b = b[2:] {
		sum += uint64(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	return sum
}

// fold returns the Internet checksum of a sum.
func fold(sum uint64) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
