package netstack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/netstack/ooo"
)

// Dial connects to the iWARP responder at address, an IP address with a port, as
// [iwarp.Dial] does. Set MPA.Markers in cfg, so that the peer's FPDUs can be found before
// their turn; cfg may be nil. The errors are those of [iwarp.Client]; there is no second
// attempt with an older revision.
func (h *Host) Dial(ctx context.Context, address string, cfg *iwarp.Config) (*iwarp.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("iwarp/netstack: %w", err)
	}
	c, err := h.connect(ctx, to)
	if err != nil {
		return nil, err
	}
	return iwarp.ClientLLP(ctx, &llpConn{c}, h.config(cfg, to.Addr()))
}

// Listen accepts iWARP connections at address, an IP address with a port; a port of 0 means any. The
// unspecified address, as in "0.0.0.0:7174", means all of the host's. cfg is as in
// [iwarp.Listen].
func (h *Host) Listen(address string, cfg *iwarp.Config) (*iwarp.Listener, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("iwarp/netstack: %w", err)
	}
	l, err := h.listen(at)
	if err != nil {
		return nil, err
	}
	il, err := (&iwarp.ListenConfig{Config: h.config(cfg, at.Addr())}).NewLLPListener(l)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return il, nil
}

// config has FPDUs fit into netstack's segments.
func (h *Host) config(cfg *iwarp.Config, a netip.Addr) *iwarp.Config {
	var c iwarp.Config
	if cfg != nil {
		c = *cfg
	}
	if c.MPA.FPDUMax == 0 {
		c.MPA.FPDUMax = h.segment(a)
	}
	return &c
}

// engine is what may be found on a connection.
func (h *Host) engine(p mpa.Params) ooo.Config {
	return ooo.Config{Markers: p.RecvMarkers, CRC: p.CRC, Alignment: h.cfg.Alignment}
}

func fullAddress(a netip.AddrPort) tcpip.FullAddress {
	f := tcpip.FullAddress{NIC: nicID, Port: a.Port()}
	if !a.Addr().IsUnspecified() {
		f.Addr = addressOf(a.Addr())
	}
	return f
}

func (h *Host) connect(ctx context.Context, to netip.AddrPort) (*conn, error) {
	var wq waiter.Queue
	ep, terr := h.stack.NewEndpoint(tcp.ProtocolNumber, protocolOf(to.Addr()), &wq)
	if terr != nil {
		return nil, opError("dial", to, terr)
	}
	entry, ready := waiter.NewChannelEntry(waiter.WritableEvents | waiter.EventHUp | waiter.EventErr)
	wq.EventRegister(&entry)
	defer wq.EventUnregister(&entry)
	terr = ep.Connect(fullAddress(to))
	if _, started := terr.(*tcpip.ErrConnectStarted); started {
		select {
		case <-ctx.Done():
			ep.Close()
			return nil, context.Cause(ctx)
		case <-ready:
		}
		terr = ep.LastError()
	}
	if terr != nil {
		ep.Close()
		return nil, opError("dial", to, terr)
	}
	return newConn(h, &wq, ep), nil
}

func opError(op string, a netip.AddrPort, err tcpip.Error) error {
	return &net.OpError{Op: op, Net: "tcp", Addr: net.TCPAddrFromAddrPort(a), Err: errors.New(err.String())}
}

// listener is a listening endpoint, as an iwarp.LLPListener.
type listener struct {
	host *Host
	ep   tcpip.Endpoint
	wq   *waiter.Queue
	addr net.Addr
	done chan struct{}
	over atomic.Bool
}

const backlog = 4096

func (h *Host) listen(at netip.AddrPort) (*listener, error) {
	l := &listener{host: h, wq: new(waiter.Queue), done: make(chan struct{})}
	ep, terr := h.stack.NewEndpoint(tcp.ProtocolNumber, protocolOf(at.Addr()), l.wq)
	if terr != nil {
		return nil, opError("listen", at, terr)
	}
	l.ep = ep
	if terr = ep.Bind(fullAddress(at)); terr == nil {
		terr = ep.Listen(backlog)
	}
	if terr != nil {
		ep.Close()
		return nil, opError("listen", at, terr)
	}
	local, terr := ep.GetLocalAddress()
	if terr != nil {
		ep.Close()
		return nil, opError("listen", at, terr)
	}
	l.addr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(at.Addr(), local.Port))
	return l, nil
}

// Accept implements iwarp.LLPListener.
func (l *listener) Accept() (iwarp.LLPConn, error) {
	entry, ready := waiter.NewChannelEntry(waiter.ReadableEvents)
	l.wq.EventRegister(&entry)
	defer l.wq.EventUnregister(&entry)
	for {
		if l.over.Load() {
			return nil, net.ErrClosed
		}
		ep, wq, err := l.ep.Accept(nil)
		if err == nil {
			return &llpConn{newConn(l.host, wq, ep)}, nil
		}
		if _, block := err.(*tcpip.ErrWouldBlock); !block {
			return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: errors.New(err.String())}
		}
		select {
		case <-l.done:
		case <-ready:
		}
	}
}

// Addr implements iwarp.LLPListener.
func (l *listener) Addr() net.Addr { return l.addr }

// Close implements iwarp.LLPListener.
func (l *listener) Close() error {
	if !l.over.Swap(true) {
		close(l.done)
		l.ep.Close()
	}
	return nil
}

// llpConn is a connection on which startup is to come.
type llpConn struct{ *conn }

// Initiate implements iwarp.LLPConn.
func (c *llpConn) Initiate(ctx context.Context, o *mpa.Options) (ddp.LLP, mpa.Params, error) {
	m, err := mpa.Initiate(ctx, c.conn, o)
	if m == nil {
		return nil, mpa.Params{}, err
	}
	return c.llp(m), m.Params(), err
}

// ReadRequest implements iwarp.LLPConn.
func (c *llpConn) ReadRequest(ctx context.Context, o *mpa.RequestOptions) (iwarp.LLPRequest, error) {
	in, err := mpa.ReadRequest(ctx, c.conn, o)
	if err != nil {
		return nil, err
	}
	return &request{in, c.conn}, nil
}

type request struct {
	*mpa.Incoming
	conn *conn
}

// Accept implements iwarp.LLPRequest.
func (r *request) Accept(ctx context.Context, o *mpa.Options) (ddp.LLP, mpa.Params, error) {
	m, err := r.Incoming.Accept(ctx, o)
	if err != nil {
		return nil, mpa.Params{}, err
	}
	return r.conn.llp(m), m.Params(), nil
}

// llp is MPA that hands up FPDUs before their turn.
type llp struct {
	*mpa.Conn
	eye *eye
}

func (c *conn) llp(m *mpa.Conn) ddp.LLP {
	e := c.operate(m.Params())
	if e == nil {
		return m
	}
	return &llp{m, e}
}

// Receive implements ddp.LLP.
func (l *llp) Receive(fn func(order uint64, segment []byte) error) error {
	err := l.Conn.Receive(fn)
	if errors.Is(err, errWoken) {
		return nil
	}
	return err
}

// ReceiveEarly implements ddp.Early.
func (l *llp) ReceiveEarly(fn func(segment []byte) (placed int)) {
	for {
		f, ok := l.eye.next()
		if !ok {
			return
		}
		if n := fn(f.ULPDU); n > 0 {
			l.eye.placed(f, n)
		}
	}
}

// Ahead implements ddp.Early.
func (l *llp) Ahead() (sum, longest time.Duration) {
	s := l.eye.stats()
	return s.LeadSum, s.LeadMax
}

// StatsOf returns what was found before its turn on a connection that [Host.Dial] or a listener of
// [Host.Listen] has made. It is false for others, and where nothing is looked for.
func StatsOf(c *iwarp.Conn) (s ooo.Stats, ok bool) {
	nc, is := c.NetConn().(*conn)
	if !is {
		return s, false
	}
	e := nc.eye.Load()
	if e == nil {
		return s, false
	}
	return e.stats(), true
}
