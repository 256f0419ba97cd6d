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

	mu     sync.RWMutex
	conns  map[flowKey]*eye
	starts map[flowKey]start // of connections that are not looked at yet
	order  []flowKey         // in which starts came
}

type flowKey struct{ local, remote netip.AddrPort }

// start is where the peer's stream of a connection begins. It is learned from what netstack
// acknowledges first, and not from the peer's SYN: somebody else might have sent one in its name.
type start struct {
	seq   uint32 // of the first octet
	known bool   // it is; else this end has sent a SYN
}

// maxStarts bounds what is remembered of connections. One that was forgotten, in a flood of
// SYNs, has nothing placed before its turn.
const maxStarts = 4096

func newLink(below stack.LinkEndpoint) *link {
	l := &link{conns: make(map[flowKey]*eye), starts: make(map[flowKey]start)}
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
	if l.Capabilities()&stack.CapabilityRXChecksumOffload == 0 && !tcp.IsChecksumValid(addressOf(src), addressOf(dst),
		checksum.Checksum(payload, 0), uint16(len(payload))) {
		return
	}
	e.received(tcp.SequenceNumber(), payload)
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
	if len(tcp) < header.TCPMinimumSize {
		return
	}
	net := pkt.Network()
	from, to := net.SourceAddress(), net.DestinationAddress()
	src, _ := netip.AddrFromSlice(from.AsSlice())
	dst, _ := netip.AddrFromSlice(to.AsSlice())
	key := flowKey{netip.AddrPortFrom(src, tcp.SourcePort()), netip.AddrPortFrom(dst, tcp.DestinationPort())}
	l.mu.RLock()
	e := l.conns[key]
	begun, connecting := l.starts[key]
	l.mu.RUnlock()
	if e == nil {
		l.learn(key, connecting && !begun.known, tcp)
		return
	}
	if tcp.Flags()&header.TCPFlagAck == 0 {
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

// learn finds the start of a connection in the first that netstack acknowledges: the peer's
// SYN, which takes one sequence number. connecting says that this end has sent a SYN, and
// acknowledged nothing.
func (l *link) learn(key flowKey, connecting bool, tcp header.TCP) {
	const syn, ack, rst = header.TCPFlagSyn, header.TCPFlagAck, header.TCPFlagRst
	switch tcp.Flags() & (syn | ack | rst) {
	case syn: // this end connects
		l.remember(key, start{})
	case syn | ack: // the peer does
		l.remember(key, start{tcp.AckNumber(), true})
	case ack:
		if connecting {
			l.remember(key, start{tcp.AckNumber(), true})
		}
	}
}

func (l *link) remember(key flowKey, s start) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, is := l.starts[key]; !is {
		if len(l.order) == maxStarts {
			delete(l.starts, l.order[0])
			l.order = l.order[1:]
		}
		l.order = append(l.order, key)
	}
	l.starts[key] = s
}

// watch begins to look at a connection on which octets of the stream have been read so
// far, all of which were startup's. It is false if its start is not known.
func (l *link) watch(key flowKey, octets uint32, e *eye) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.starts[key]
	if !s.known {
		return false
	}
	// Rule: MPA-4.3-08
	e.flow = ooo.NewFlow(s.seq+octets, e.flow.Engine)
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
