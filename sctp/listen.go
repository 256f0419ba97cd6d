package sctp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	pion "github.com/pion/sctp"

	"github.com/go-iwarp/iwarp"
)

// Listen listens on address for SCTP associations, and accepts iWARP connections on all of them.
// network is "udp", "udp4" or "udp6" for SCTP in user space, "sctp", "sctp4" or "sctp6" for SCTP of the
// kernel: see [Dial]. cfg may be nil. The Listener is that of package iwarp, and so are its requests
// and connections.
func Listen(network, address string, cfg *iwarp.Config) (*iwarp.Listener, error) {
	return ListenWith(network, address, &iwarp.ListenConfig{Config: cfg}, nil)
}

// ListenWith is [Listen] with all that can be configured. Both configurations may be nil.
// lc.MaxPending also bounds the requests of peers that wait for the program: one more is answered with
// Terminate.
func ListenWith(network, address string, lc *iwarp.ListenConfig, sc *Config) (*iwarp.Listener, error) {
	switch network {
	case "sctp", "sctp4", "sctp6":
		c, err := sc.withDefaults()
		if err != nil {
			return nil, err
		}
		return listenKernel(network, address, lc, c)
	case "udp", "udp4", "udp6":
	default:
		return nil, net.UnknownNetworkError(network)
	}
	pc, err := (&net.ListenConfig{}).ListenPacket(context.Background(), network, address)
	if err != nil {
		return nil, err
	}
	l, err := NewListener(pc, lc, sc)
	if err != nil {
		_ = pc.Close()
	}
	return l, err
}

// NewListener is [ListenWith] for SCTP in user space on any [net.PacketConn], which the Listener owns
// unless there is an error.
func NewListener(pc net.PacketConn, lc *iwarp.ListenConfig, sc *Config) (*iwarp.Listener, error) {
	c, err := sc.withDefaults()
	if err != nil {
		return nil, err
	}
	if pc == nil {
		return nil, fmt.Errorf("iwarp: sctp: the net.PacketConn is nil: %w", os.ErrInvalid)
	}
	if lc == nil {
		lc = &iwarp.ListenConfig{}
	}
	l := &listener{pc: pc, cfg: c, requests: newRequests(lc), peers: make(map[peerKey]*peer)}
	l.udp, _ = pc.(*net.UDPConn)
	il, err := lc.NewLLPListener(l)
	if err != nil {
		return nil, err
	}
	if l.udp != nil {
		_ = l.udp.SetReadBuffer(socketBuffer)
	}
	go l.readLoop()
	return il, nil
}

// listener is one packet conn with all its associations. It implements iwarp.LLPListener.
type listener struct {
	*requests
	pc  net.PacketConn
	udp *net.UDPConn // pc, if it is one
	cfg *Config

	mu       sync.Mutex
	shut     bool
	peers    map[peerKey]*peer
	halfOpen []*peer // the oldest first
}

// peerKey is where packets come from: of UDP, or of anything else.
type peerKey struct {
	udp   netip.AddrPort
	other string
}

// Addr implements iwarp.LLPListener.
func (l *listener) Addr() net.Addr { return l.pc.LocalAddr() }

// Close implements iwarp.LLPListener. Associations with sessions live on, and the packet conn
// with them.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.shut {
		l.mu.Unlock()
		return net.ErrClosed
	}
	l.shut = true
	var idle []*peer
	for _, p := range l.peers {
		if p.assoc == nil || p.assoc.unused() {
			idle = append(idle, p)
		}
	}
	last := len(l.peers) == 0
	l.mu.Unlock()
	l.requests.close()
	var wg sync.WaitGroup
	for _, p := range idle {
		wg.Go(p.end)
	}
	wg.Wait()
	if last {
		return l.pc.Close()
	}
	return nil
}

// unused reports whether the association has no session.
func (a *Association) unused() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.sessions) == 0
}

// readLoop gives each packet to its association, and lets an INIT begin one.
func (l *listener) readLoop() {
	buf := make([]byte, 64<<10)
	for {
		var k peerKey
		var from net.Addr
		var n int
		var err error
		if l.udp != nil {
			n, k.udp, err = l.udp.ReadFromUDPAddrPort(buf)
		} else if n, from, err = l.pc.ReadFrom(buf); err == nil {
			k.other = from.String()
		}
		if err != nil {
			if temporary, ok := err.(interface{ Timeout() bool }); ok && temporary.Timeout() {
				continue
			}
			l.fail()
			return
		}
		l.packet(k, from, buf[:n])
	}
}

// fail ends what there is, since the packet conn is gone.
func (l *listener) fail() {
	_ = l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.peers {
		_ = p.Close()
	}
}

func (l *listener) packet(k peerKey, from net.Addr, b []byte) {
	l.mu.Lock()
	p := l.peers[k]
	if p == nil {
		p = l.begin(k, from, b)
	}
	l.mu.Unlock()
	if p != nil {
		p.put(b)
	}
}

// begin makes a peer of one whose INIT is what it should be; anything else costs nothing
// but the answer. The listener is locked.
func (l *listener) begin(k peerKey, from net.Addr, b []byte) *peer {
	chunk := startup(b)
	if chunk == nil || chunk[0] != chunkINIT || !whole(b) || l.shut {
		return nil
	}
	if from == nil {
		from = net.UDPAddrFromAddrPort(k.udp)
	}
	// Rule: SCTP-7.1-02, SCTP-11.1-02, SCTP-11.1-03
	if code, ok := indication(chunk); !ok || code != l.cfg.Indication {
		_, _ = l.pc.WriteTo(abort(b), from)
		return nil
	}
	if len(l.peers) >= l.cfg.MaxAssociations && len(l.halfOpen) == 0 {
		return nil
	}
	if len(l.halfOpen) >= l.cfg.MaxHalfOpen || len(l.peers) >= l.cfg.MaxAssociations {
		oldest := l.halfOpen[0]
		l.halfOpen = l.halfOpen[1:]
		delete(l.peers, oldest.key)
		_ = oldest.Close()
	}
	p := &peer{l: l, key: k, remote: from, in: make(chan []byte, 1024), closed: make(chan struct{})}
	l.peers[k] = p
	l.halfOpen = append(l.halfOpen, p)
	go p.serve()
	return p
}

// established notes that the handshake of a peer is over, or has failed.
func (l *listener) established(p *peer, a *Association) (ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, q := range l.halfOpen {
		if q == p {
			l.halfOpen = append(l.halfOpen[:i:i], l.halfOpen[i+1:]...)
			break
		}
	}
	if a == nil || l.shut || l.peers[p.key] != p {
		l.remove(p)
		return false
	}
	p.assoc = a
	return true
}

// ended notes that an association is over.
func (l *listener) ended(a *Association) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.peers {
		if p.assoc == a {
			l.remove(p)
			return
		}
	}
}

// remove forgets a peer. The last one that goes after Close takes the packet conn with it.
// The listener is locked.
func (l *listener) remove(p *peer) {
	if l.peers[p.key] == p {
		delete(l.peers, p.key)
	}
	if l.shut && len(l.peers) == 0 {
		_ = l.pc.Close()
	}
}

// peer is one remote address: the conn of its association.
type peer struct {
	l      *listener
	key    peerKey
	remote net.Addr
	in     chan []byte
	once   sync.Once
	closed chan struct{}
	assoc  *Association // under the listener's lock; nil: half open
}

// handshakePatience is how long a handshake may take.
const handshakePatience = 10 * time.Second

// serve makes the association with the peer.
func (p *peer) serve() {
	nc := newAdapted(p, p.l.cfg.Indication, uint16(p.l.cfg.Streams), nil)
	a := newAssociation(p, p.l.cfg)
	a.listener = p.l
	opts := a.options(nc)
	server := make([]pion.ServerOption, len(opts))
	for i, o := range opts {
		server[i] = o
	}
	timer := time.AfterFunc(handshakePatience, func() { _ = p.Close() })
	below, err := pion.ServerWithOptions(server...)
	timer.Stop()
	if err != nil {
		_ = p.Close()
		p.l.established(p, nil)
		return
	}
	a.stands(nc, below)
	if !p.l.established(p, a) {
		_ = below.Close()
		return
	}
	a.mu.Lock()
	a.waitIdle()
	a.mu.Unlock()
	go a.acceptStreams()
}

func (p *peer) end() {
	p.l.mu.Lock()
	a := p.assoc
	p.l.mu.Unlock()
	if a == nil {
		_ = p.Close()
		return
	}
	_ = a.Close()
}

// put queues a packet; what finds no room is lost, as it may be anywhere on its way.
func (p *peer) put(b []byte) {
	select {
	case p.in <- append([]byte(nil), b...):
	default:
	}
}

// Read implements net.Conn.
func (p *peer) Read(b []byte) (int, error) {
	select {
	case m := <-p.in:
		return copy(b, m), nil
	case <-p.closed:
		return 0, net.ErrClosed
	}
}

// Write implements net.Conn.
func (p *peer) Write(b []byte) (int, error) {
	if p.l.udp != nil {
		return p.l.udp.WriteToUDPAddrPort(b, p.key.udp)
	}
	return p.l.pc.WriteTo(b, p.remote)
}

// Close implements net.Conn.
func (p *peer) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// LocalAddr implements net.Conn.
func (p *peer) LocalAddr() net.Addr { return p.l.pc.LocalAddr() }

// RemoteAddr implements net.Conn.
func (p *peer) RemoteAddr() net.Addr { return p.remote }

// SetDeadline implements net.Conn. A deadline that has passed ends the conn, which is what SCTP
// uses it for; there is no other.
func (p *peer) SetDeadline(t time.Time) error { return p.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (p *peer) SetReadDeadline(t time.Time) error {
	if !t.IsZero() && !t.After(time.Now()) {
		return p.Close()
	}
	return nil
}

// SetWriteDeadline implements net.Conn.
func (p *peer) SetWriteDeadline(time.Time) error { return nil }
