package ipsec

import (
	"fmt"
	"net/netip"
)

// Direction is which packets a policy is about.
type Direction uint8

// The directions. Policies for forwarded packets and for single sockets do not
// concern a connection of this host's and are ignored.
const (
	In  Direction = 0
	Out Direction = 1
)

// String returns "in", "out" or "direction N".
func (d Direction) String() string {
	switch d {
	case In:
		return "in"
	case Out:
		return "out"
	}
	return fmt.Sprintf("direction %d", uint8(d))
}

// Mode is how ESP wraps packets.
type Mode uint8

// The modes; others exist and are not accepted as protection.
const (
	Transport Mode = 0
	Tunnel    Mode = 1
)

// The numbers of IP protocols that matter here.
const (
	protoTCP = 6
	protoESP = 50
)

// Selector says which packets a policy or an association is for. The zero value
// is for all of no family: set Src and Dst.
type Selector struct {
	// Src and Dst have the family of the packets, also with zero bits.
	Src, Dst netip.Prefix
	// A port matches if it equals SrcPort (DstPort) in the bits of the mask.
	SrcPort, SrcPortMask uint16
	DstPort, DstPortMask uint16
	Proto                uint8 // of IP; 0: any
	Ifindex              int   // the interface that packets leave by; 0: any
}

// matches reports whether packets of TCP from src to dst are selected, whatever
// their interface.
func (s *Selector) matches(src, dst netip.AddrPort) bool {
	return s.Src.Contains(src.Addr()) && s.Dst.Contains(dst.Addr()) &&
		(src.Port()^s.SrcPort)&s.SrcPortMask == 0 && (dst.Port()^s.DstPort)&s.DstPortMask == 0 &&
		(s.Proto == 0 || s.Proto == protoTCP)
}

// Policy is an entry of the kernel's security policy database.
type Policy struct {
	Dir       Direction
	Selector  Selector
	Priority  uint32 // the lowest number wins
	Index     uint32 // the kernel's name for it
	Block     bool   // packets are dropped
	Templates []Template
	// Mark and MarkMask: packets whose mark equals Mark in the bits of MarkMask.
	Mark, MarkMask uint32
	IfID           uint32 // of an XFRM interface; 0: none
	Sub            bool   // of the database of sub policies, which goes before
}

// certain reports whether the policy is for every packet that its selector
// matches by addresses, ports and protocol.
func (p *Policy) certain() bool {
	return p.Selector.Ifindex == 0 && p.MarkMask == 0 && p.IfID == 0 && !p.Sub
}

// String names the policy for reasons and logs.
func (p *Policy) String() string {
	return fmt.Sprintf("policy %d (%v, priority %d, %v to %v)", p.Index, p.Dir, p.Priority, p.Selector.Src,
		p.Selector.Dst)
}

// Template is one transform that a policy asks for.
type Template struct {
	Proto    uint8 // 50: ESP
	Mode     Mode
	Src, Dst netip.Addr // the ends of a tunnel; zero or unspecified: the packet's
	SPI      uint32     // 0: any
	ReqID    uint32     // 0: any
	Optional bool       // level "use": packets without it pass as well
}

// State is a security association.
type State struct {
	Src, Dst netip.Addr
	Proto    uint8
	Mode     Mode
	SPI      uint32
	ReqID    uint32
	Selector Selector // Src without a family: none
	// Integrity is the kernel's name of the algorithm that checks integrity, an
	// AEAD or one of its own, such as "rfc4106(gcm(aes))" or "hmac(sha256)". Empty
	// if there is none.
	Integrity string
}

// Kernel is what a [Checker] asks. [System] gives this host's; tests have others.
// Its methods may be called from any goroutine.
type Kernel interface {
	// Policies lists the policies of the host's network namespace, of both
	// families.
	Policies() ([]Policy, error)
	// States lists the security associations.
	States() ([]State, error)
	// Exempt tells why the kernel leaves packets between two addresses of a
	// connection alone, whatever the policies say. Empty: it does not.
	Exempt(local, remote netip.Addr) (string, error)
}
