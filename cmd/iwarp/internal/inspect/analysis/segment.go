package analysis

import (
	"encoding/binary"
	"net/netip"
)

// Flags of a TCP header.
const (
	flagFIN = 1 << iota
	flagSYN
	flagRST
	_
	flagACK
)

const (
	ipv4Len = 20
	ipv6Len = 40
	tcpLen  = 20

	protocolTCP = 6
)

// endpoint is an address and a port, in a form that is quick to compare.
type endpoint struct {
	ip   [16]byte
	port uint16
	v6   bool
}

func (e endpoint) addrPort() netip.AddrPort {
	if e.v6 {
		return netip.AddrPortFrom(netip.AddrFrom16(e.ip), e.port)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(e.ip[:4])), e.port)
}

// tcpSegment is one TCP segment as captured.
type tcpSegment struct {
	src, dst endpoint
	seq, ack uint32
	flags    uint8
	payload  []byte // what the capture has of it
	length   int    // octets of payload on the wire
	fragment bool   // of an IP fragment: payload and length are not usable
}

// What became of a frame.
type outcome uint8

const (
	isTCP outcome = iota
	notIP
	notTCP
	isFragment // and not the first one: there are no ports
	isCut      // within the headers
)

// parseIP reads IP and TCP headers (https://www.rfc-editor.org/rfc/rfc791#section-3.1,
// https://www.rfc-editor.org/rfc/rfc8200#section-3). missing is how many octets at
// the end of the frame the capture does not have.
func parseIP(b []byte, missing int, s *tcpSegment) outcome {
	if len(b) == 0 {
		return notIP
	}
	switch b[0] >> 4 {
	case 4:
		return parseIPv4(b, missing, s)
	case 6:
		return parseIPv6(b, missing, s)
	}
	return notIP
}

func parseIPv4(b []byte, missing int, s *tcpSegment) outcome {
	if len(b) < ipv4Len {
		return isCut
	}
	head := int(b[0]&0xf) * 4
	total := int(binary.BigEndian.Uint16(b[2:]))
	if total == 0 { // segmentation offload on the capturing host
		total = len(b) + missing
	}
	if head < ipv4Len || total < head {
		return notIP
	}
	if b[9] != protocolTCP {
		return notTCP
	}
	frag := binary.BigEndian.Uint16(b[6:])
	if frag&0x1fff != 0 {
		return isFragment
	}
	if len(b) < head {
		return isCut
	}
	s.fragment = frag&0x2000 != 0
	s.src, s.dst = endpoint{}, endpoint{}
	copy(s.src.ip[:], b[12:16])
	copy(s.dst.ip[:], b[16:20])
	return parseTCP(b[head:min(total, len(b))], total-head, s)
}

func parseIPv6(b []byte, missing int, s *tcpSegment) outcome {
	if len(b) < ipv6Len {
		return isCut
	}
	total := int(binary.BigEndian.Uint16(b[4:])) + ipv6Len
	if total == ipv6Len { // offload, or a jumbogram
		total = len(b) + missing
	}
	s.fragment = false
	s.src, s.dst = endpoint{v6: true}, endpoint{v6: true}
	copy(s.src.ip[:], b[8:24])
	copy(s.dst.ip[:], b[24:40])
	next, at := b[6], ipv6Len
	for range 16 { // extension headers; more than a few are nonsense
		n := 0
		switch next {
		case protocolTCP:
			if at > total || at > len(b) {
				return isCut
			}
			return parseTCP(b[at:min(max(total, at), len(b))], total-at, s)
		case 0, 43, 60, 135: // hop-by-hop, routing, destination, mobility
			if len(b) < at+8 {
				return isCut
			}
			n = int(b[at+1])*8 + 8
		case 51: // authentication
			if len(b) < at+8 {
				return isCut
			}
			n = int(b[at+1])*4 + 8
		case 44: // fragment
			if len(b) < at+8 {
				return isCut
			}
			frag := binary.BigEndian.Uint16(b[at+2:])
			if frag&^7 != 0 {
				return isFragment
			}
			s.fragment = frag&1 != 0
			n = 8
		default:
			return notTCP
		}
		next, at = b[at], at+n
	}
	return notTCP
}

// parseTCP reads a TCP header (https://www.rfc-editor.org/rfc/rfc9293#section-3.1).
// total is what IP says that the segment has.
func parseTCP(b []byte, total int, s *tcpSegment) outcome {
	if len(b) < tcpLen {
		return isCut
	}
	head := int(b[12]>>4) * 4
	if head < tcpLen || total < head || total > longestSegment {
		return notTCP
	}
	s.src.port, s.dst.port = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	s.seq, s.ack = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	s.flags = b[13]
	s.length = total - head
	s.payload = nil
	if len(b) > head {
		s.payload = b[head:]
	}
	if s.fragment {
		s.payload, s.length = nil, 0
	}
	return isTCP
}
