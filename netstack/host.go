package netstack

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// Link is a link endpoint of gVisor that carries IP packets.
type Link = stack.LinkEndpoint

// Config describes a [Host].
type Config struct {
	// Link is what packets come and go by: see [Pipe] and [OpenTUN], or any of gVisor's
	// that carries IP packets. The Host attaches it, and closes it.
	Link Link
	// Addresses are the host's own, with the length of their network's prefix. All other
	// addresses are reached over the link too.
	Addresses []netip.Prefix
	// ReceiveBuffer is the largest window of TCP in octets; 0 means 4 MiB. SendBuffer
	// bounds what is written and not acknowledged; 0 means 4 MiB.
	ReceiveBuffer, SendBuffer int
	// InOrder leaves every segment to its turn, as a socket does: to compare.
	InOrder bool
	// Alignment takes the first octet of a segment for that of an FPDU on connections
	// without Markers. Somebody who can neither dial nor be dialed, but whose octets a peer
	// sends as payload, can make use of that to write into memory: read Alignment of
	// [github.com/go-iwarp/iwarp/netstack/ooo.Config] first.
	Alignment bool
}

// Host is an IP host in the process, on one link. Its methods may be called from any
// goroutine.
type Host struct {
	cfg   Config
	stack *stack.Stack
	link  *link
	mtu   int
	once  sync.Once
}

const (
	nicID         = 1
	defaultBuffer = 4 << 20
)

// NewHost attaches a host to its link.
func NewHost(cfg Config) (*Host, error) {
	if cfg.Link == nil || len(cfg.Addresses) == 0 {
		return nil, errors.New("iwarp/netstack: a Host needs a Link and one address at least")
	}
	if cfg.ReceiveBuffer <= 0 {
		cfg.ReceiveBuffer = defaultBuffer
	}
	if cfg.SendBuffer <= 0 {
		cfg.SendBuffer = defaultBuffer
	}
	h := &Host{cfg: cfg, mtu: int(cfg.Link.MTU()), link: newLink(cfg.Link)}
	h.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	if err := h.setUp(); err != nil {
		h.Close()
		return nil, fmt.Errorf("iwarp/netstack: %w", err)
	}
	return h, nil
}

func (h *Host) setUp() error {
	sack := tcpip.TCPSACKEnabled(true)
	moderate := tcpip.TCPModerateReceiveBufferOption(false)
	recv := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4096, Default: h.cfg.ReceiveBuffer, Max: h.cfg.ReceiveBuffer}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4096, Default: h.cfg.SendBuffer, Max: h.cfg.SendBuffer}
	for _, o := range []tcpip.SettableTransportProtocolOption{&sack, &moderate, &recv, &send} {
		if err := h.stack.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("setting %T: %v", o, err)
		}
	}
	if err := h.stack.CreateNIC(nicID, h.link); err != nil {
		return fmt.Errorf("attaching the link: %v", err)
	}
	for _, a := range h.cfg.Addresses {
		pa := tcpip.ProtocolAddress{Protocol: protocolOf(a.Addr()), AddressWithPrefix: tcpip.AddressWithPrefix{
			Address: addressOf(a.Addr()), PrefixLen: a.Bits(),
		}}
		if err := h.stack.AddProtocolAddress(nicID, pa, stack.AddressProperties{}); err != nil {
			return fmt.Errorf("address %v: %v", a, err)
		}
	}
	h.stack.SetRouteTable([]tcpip.Route{
		{Destination: header.IPv4EmptySubnet, NIC: nicID},
		{Destination: header.IPv6EmptySubnet, NIC: nicID},
	})
	return nil
}

// Close ends all connections of the host with a reset and closes the link. It waits
// until nothing of the host runs any more.
func (h *Host) Close() {
	h.once.Do(func() {
		h.stack.Close()
		_ = h.stack.RemoveNIC(nicID) // which detaches the link, and is not there if it could not be made
		h.link.Close()
		h.stack.Wait()
	})
}

// segment is how many octets of payload a TCP segment surely holds, a multiple of four:
// netstack leaves room for all options in each, SACK included.
func (h *Host) segment(remote netip.Addr) int {
	ip := header.IPv4MinimumSize
	if protocolOf(remote) == ipv6.ProtocolNumber {
		ip = header.IPv6MinimumSize
	}
	return max(h.mtu-ip-header.TCPMinimumSize-header.TCPOptionsMaximumSize, 128) &^ 3
}

func protocolOf(a netip.Addr) tcpip.NetworkProtocolNumber {
	if a.Unmap().Is4() {
		return ipv4.ProtocolNumber
	}
	return ipv6.ProtocolNumber
}

func addressOf(a netip.Addr) tcpip.Address { return tcpip.AddrFromSlice(a.Unmap().AsSlice()) }
