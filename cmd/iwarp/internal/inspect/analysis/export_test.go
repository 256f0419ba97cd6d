package analysis

import "net/netip"

// Memory returns what the reader accounts for, in octets, and for how many connections.
func Memory(r *Reader) (octets, conns int) { return r.memory, len(r.conns) }

// Segment is a TCP segment as the reader sees it.
type Segment struct {
	Src, Dst netip.AddrPort
	Seq      uint32
	SYN      bool
	Payload  []byte
}

// ParseSegment reads an IP packet with a TCP segment, all of it.
func ParseSegment(packet []byte) (Segment, bool) {
	var s tcpSegment
	ok := parseIP(packet, 0, &s) == isTCP
	return Segment{s.src.addrPort(), s.dst.addrPort(), s.seq, s.flags&flagSYN != 0, s.payload}, ok
}
