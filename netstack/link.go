package netstack

import (
	"net/netip"
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/nested"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/go-iwarp/iwarp/netstack/ooo"
)

// link is the link endpoint of a host, with an eye on what passes: segments that come
// in, and the acknowledgements that netstack sends for them.
type link struct {
	nested.Endpoint

	mu    sync.RWMutex
	conns map[flowKey]*eye
	syns  map[flowKey]uint32 // sequence numbers of SYNs, of connections not known yet
	order []flowKey          // in which syns came
}

type flowKey struct{ local, remote netip.AddrPort }

// maxSYNs bounds what is remembered of SYNs. A connection whose SYN was forgotten, in a
// flood of them, has nothing placed before its turn.
const maxSYNs = 4096

func newLink(below stack.LinkEndpoint) *link {
	l := &link{conns: make(map[flowKey]*eye), syns: make(map[flowKey]uint32)}
	l.Init(below, l)
	return l
}

// DeliverNetworkPacket implements stack.NetworkDispatcher: a packet has come in.
func (l *link) DeliverNetworkPacket(protocol tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) {
	if b, ok := pkt.Data().PullUp(pkt.Data().Size()); ok {
		l.received(b)
	}
	l.Endpoint.DeliverNetworkPacket(protocol, pkt)
}

// received looks at a packet that has come in.
func (l *link) received(b []byte) {
	src, dst, tcp, ok := parse(b)
	if !ok {
		return
	}
	key := flowKey{netip.AddrPortFrom(dst, tcp.DestinationPort()), netip.AddrPortFrom(src, tcp.SourcePort())}
	if tcp.Flags()&header.TCPFlagSyn != 0 {
		l.synReceived(key, tcp.SequenceNumber())
		return
	}
	payload := tcp.Payload()
	if len(payload) == 0 {
		return
	}
	l.mu.RLock()
	e := l.conns[key]
	l.mu.RUnlock()
	if e == nil {
		return
	}
	if !tcp.IsChecksumValid(addressOf(src), addressOf(dst), checksum.Checksum(payload, 0), uint16(len(payload))) {
		return
	}
	e.received(tcp.SequenceNumber(), payload)
}

func (l *link) synReceived(key flowKey, seq uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[key] != nil {
		return
	}
	if _, known := l.syns[key]; !known {
		if len(l.order) == maxSYNs {
			delete(l.syns, l.order[0])
			l.order = l.order[1:]
		}
		l.order = append(l.order, key)
	}
	l.syns[key] = seq
}

// WritePackets implements stack.LinkEndpoint: packets go out.
func (l *link) WritePackets(pkts stack.PacketBufferList) (int, tcpip.Error) {
	for _, pkt := range pkts.AsSlice() {
		l.sent(pkt)
	}
	return l.Endpoint.WritePackets(pkts)
}

func (l *link) sent(pkt *stack.PacketBuffer) {
	if pkt.TransportProtocolNumber != header.TCPProtocolNumber {
		return
	}
	tcp := header.TCP(pkt.TransportHeader().Slice())
	if len(tcp) < header.TCPMinimumSize || tcp.Flags()&header.TCPFlagAck == 0 {
		return
	}
	net := pkt.Network()
	from, to := net.SourceAddress(), net.DestinationAddress()
	src, _ := netip.AddrFromSlice(from.AsSlice())
	dst, _ := netip.AddrFromSlice(to.AsSlice())
	l.mu.RLock()
	e := l.conns[flowKey{netip.AddrPortFrom(src, tcp.SourcePort()), netip.AddrPortFrom(dst, tcp.DestinationPort())}]
	l.mu.RUnlock()
	if e == nil {
		return
	}
	var blocks []ooo.Block
	if len(tcp) > header.TCPMinimumSize {
		for _, b := range tcp.ParsedOptions().SACKBlocks {
			blocks = append(blocks, ooo.Block{Start: uint32(b.Start), End: uint32(b.End)})
		}
	}
	e.sent(tcp.AckNumber(), blocks)
}

// watch begins to look at a connection on which octets of the stream have been read so
// far, all of which were startup's. It is false if its SYN is not known.
func (l *link) watch(key flowKey, octets uint32, e *eye) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	syn, ok := l.syns[key]
	if !ok {
		return false
	}
	// Rule: MPA-4.3-08
	e.flow = ooo.NewFlow(syn+1+octets, e.flow.Engine)
	l.conns[key] = e
	return true
}

func (l *link) forget(key flowKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, key)
}

// parse finds the TCP segment in an IP packet; false if there is none, or it is a
// fragment, which nobody takes before its turn.
func parse(b []byte) (src, dst netip.Addr, tcp header.TCP, ok bool) {
	var t []byte
	switch header.IPVersion(b) {
	case header.IPv4Version:
		ip := header.IPv4(b)
		if !ip.IsValid(len(b)) || ip.Protocol() != uint8(header.TCPProtocolNumber) || ip.More() ||
			ip.FragmentOffset() != 0 {
			return
		}
		src, dst = netip.AddrFrom4(ip.SourceAddress().As4()), netip.AddrFrom4(ip.DestinationAddress().As4())
		t = b[ip.HeaderLength():ip.TotalLength()]
	case header.IPv6Version:
		ip := header.IPv6(b)
		if !ip.IsValid(len(b)) || ip.TransportProtocol() != header.TCPProtocolNumber {
			return
		}
		src, dst = netip.AddrFrom16(ip.SourceAddress().As16()), netip.AddrFrom16(ip.DestinationAddress().As16())
		t = b[header.IPv6MinimumSize : header.IPv6MinimumSize+int(ip.PayloadLength())]
	default:
		return
	}
	tcp = header.TCP(t)
	if len(t) < header.TCPMinimumSize || int(tcp.DataOffset()) < header.TCPMinimumSize ||
		int(tcp.DataOffset()) > len(t) {
		return
	}
	return src, dst, tcp, true
}
