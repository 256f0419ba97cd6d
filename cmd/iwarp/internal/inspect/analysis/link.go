package analysis

import (
	"encoding/binary"

	"github.com/go-iwarp/iwarp/capture"
)

// More link types (https://www.tcpdump.org/linktypes.html).
const (
	linkNull   = 0
	linkRawBSD = 12
	linkRawOBS = 14
	linkLoop   = 108
	linkSLL    = 113
	linkIPv4   = 228
	linkIPv6   = 229
	linkSLL2   = 276
)

const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
)

// network returns the IP packet in a frame, nil if there is none.
func network(link capture.LinkType, b []byte) []byte {
	switch link {
	case capture.LinkEthernet:
		return ethernet(b)
	case linkSLL:
		if len(b) >= 16 {
			return vlan(binary.BigEndian.Uint16(b[14:]), b[16:])
		}
	case linkSLL2:
		if len(b) >= 20 {
			return vlan(binary.BigEndian.Uint16(b), b[20:])
		}
	case capture.LinkRaw, linkRawBSD, linkRawOBS, linkIPv4, linkIPv6:
		return b
	case linkNull, linkLoop:
		return loopback(b)
	}
	return nil
}

// loopback has the address family before the packet, in the octet order of the
// host (null) or of the network (loop), and other numbers for IPv6 on every
// system: what counts is the version in the packet itself.
func loopback(b []byte) []byte {
	if len(b) < 5 {
		return nil
	}
	family := binary.BigEndian.Uint32(b)
	if family > 0xffff {
		family = binary.LittleEndian.Uint32(b)
	}
	switch family {
	case 2:
		if b[4]>>4 == 4 {
			return b[4:]
		}
	case 10, 24, 28, 30:
		if b[4]>>4 == 6 {
			return b[4:]
		}
	}
	return nil
}

func ethernet(b []byte) []byte {
	if len(b) < 14 {
		return nil
	}
	return vlan(binary.BigEndian.Uint16(b[12:]), b[14:])
}

// vlan takes off VLAN tags, however many.
func vlan(kind uint16, b []byte) []byte {
	for {
		switch kind {
		case etherIPv4, etherIPv6:
			return b
		case 0x8100, 0x88a8, 0x9100, 0x9200:
			if len(b) < 4 {
				return nil
			}
			kind, b = binary.BigEndian.Uint16(b[2:]), b[4:]
		default:
			return nil
		}
	}
}
