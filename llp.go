package iwarp

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/mpa"
)

// This file is the seam below a connection: what it needs of the layer that carries its
// DDP segments (package ddp has the interfaces), and of the exchange that comes before.

// LLPConn is a connection of a Lower Layer Protocol other than MPA on a [net.Conn], on
// which startup is still to come: SCTP, for one, or MPA that takes TCP segments out of
// order. [ClientLLP] and [ServerRequestLLP] start it.
//
// What startup says is the same over each LLP, since RFC 6581 defines it for MPA's
// frames and for SCTP's in the same words
// (https://www.rfc-editor.org/rfc/rfc6581#section-7): so it is told in those of package
// mpa. An LLP translates them; those that have no meaning in it, such as Markers, it
// ignores. [mpa.NewRequest], [mpa.Answer], [mpa.RejectReply] and [mpa.Conclude] do the
// negotiation, without any I/O.
//
// Exactly one of Initiate and ReadRequest is called, once. Close may be called at any
// time, from any goroutine, and ends what blocks.
type LLPConn interface {
	// LocalAddr and RemoteAddr are the addresses of the two ends, nil if there are none.
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
	// Initiate asks the peer for a session and waits for its answer, as long as ctx lives.
	// Its results are those of [mpa.Initiate]: what carries the segments and what was
	// agreed; or a *[RejectError], a *[DeclinedError] (o.VerifyReply is to be asked) or
	// another error; and both with [protocol.MPAInsufficientIRD] and
	// [protocol.MPANoMatchingRTR], so that a Terminate can be sent. Without an LLP in the
	// results the caller closes the LLPConn; with one, that is closed in its place.
	Initiate(ctx context.Context, o *mpa.Options) (ddp.LLP, mpa.Params, error)
	// ReadRequest waits for the peer's request, as long as ctx lives. After an error the
	// caller closes the LLPConn.
	ReadRequest(ctx context.Context, o *mpa.RequestOptions) (LLPRequest, error)
	// Close gives the connection up.
	Close() error
}

// LLPRequest is a request for a session that has come over an [LLPConn] and waits for its
// answer. Accept and Reject are not called at the same time, and Accept at most once; Close
// may be called at any time.
type LLPRequest interface {
	// Request returns a copy of the request, in the words of MPA.
	Request() *mpa.Startup
	// NetConn returns the connection below, nil where there is none.
	NetConn() net.Conn
	// Accept answers with what [mpa.Answer] makes of o. After an error nothing is used any
	// more.
	Accept(ctx context.Context, o *mpa.Options) (ddp.LLP, mpa.Params, error)
	// Reject refuses with what [mpa.RejectReply] makes of o and pd.
	Reject(ctx context.Context, o *mpa.Options, pd []byte) error
	// Close gives the connection up.
	Close() error
}

// LLPListener is where a [Listener] takes its connections from if not from a
// [net.Listener]: see [ListenConfig.NewLLPListener]. The methods are as there, and so are
// the errors.
type LLPListener interface {
	Accept() (LLPConn, error)
	Addr() net.Addr
	Close() error
}

// ClientLLP starts iWARP as the initiator on an LLP of anybody's: it is [Client] for what
// is not MPA on a [net.Conn]. Of cfg, Wrap is not used. It owns lc, and closes it on every
// error.
func ClientLLP(ctx context.Context, lc LLPConn, cfg *Config) (*Conn, error) {
	if lc == nil {
		return nil, errNoLLP
	}
	c, err := cfg.overLLP()
	if err != nil {
		_ = lc.Close()
		return nil, err
	}
	conn, err := client(ctx, lc, c)
	if leavesOpen(err) {
		_ = lc.Close()
	}
	return conn, err
}

// ServerRequestLLP waits for the request on an LLP of anybody's and hands it up
// unanswered: it is [ServerRequest] for what is not MPA on a [net.Conn]. It owns lc, and
// closes it on every error.
func ServerRequestLLP(ctx context.Context, lc LLPConn, cfg *Config) (*ConnRequest, error) {
	if lc == nil {
		return nil, errNoLLP
	}
	c, err := cfg.overLLP()
	if err != nil {
		_ = lc.Close()
		return nil, err
	}
	r, err := readRequest(ctx, lc, nil, c, newID(), time.Now())
	if err != nil {
		_ = lc.Close()
	}
	return r, err
}

// NewLLPListener accepts iWARP connections over an LLP of anybody's. The Listener owns ll,
// unless there is an error. c may be nil; NetListenConfig, and Wrap of c.Config, are not
// used.
func (c *ListenConfig) NewLLPListener(ll LLPListener) (*Listener, error) {
	n, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := n.Config.withoutTLS(); err != nil {
		return nil, err
	}
	if ll == nil {
		return nil, fmt.Errorf("iwarp: the LLPListener is nil: %w", os.ErrInvalid)
	}
	return newListener(ll, n), nil
}

// overLLP is withDefaults for an LLP that has no TLS below it.
func (c *Config) overLLP() (*Config, error) {
	n, err := c.withDefaults()
	if err == nil {
		err = n.withoutTLS()
	}
	return n, err
}

var errNoLLP = fmt.Errorf("iwarp: the LLP is nil: %w", os.ErrInvalid)

// NewConn makes a connection over an LLP of anybody's whose startup is over: the seam for
// a transport that brings its own agreement. st says what was agreed, and nothing of it is
// sent; PrivateData is kept. [ClientLLP] and [ServerRequestLLP] do the startup too.
//
// What the LLP has to do is said at [ddp.LLP]. Beyond that it may have the methods of
//
//   - [ddp.Unordered], if it hands up segments that have come before earlier ones: they are
//     placed at once, and their messages delivered in the order of sending
//     (https://www.rfc-editor.org/rfc/rfc5041#section-5.3);
//   - [ddp.Early], if it finds segments before their turn and cannot number them;
//   - [ddp.Carrier], if it counts: [Stats] has the counts, and CloseTimeout then begins anew
//     whenever octets have gone;
//   - LocalAddr and RemoteAddr, or NetConn, as [net.Conn] and [crypto/tls.Conn] have them.
//
// The connection owns the LLP, which it closes at its end; on error the caller does. The
// caller sends and receives nothing over it any more.
func NewConn(llp ddp.LLP, st ConnectionState, cfg *Config) (*Conn, error) {
	if llp == nil {
		return nil, errNoLLP
	}
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	q, err := c.takeQP()
	if err != nil {
		return nil, err
	}
	conn, err := newConn(c, q, llp, st, st.Initiator, newID())
	if err != nil {
		return nil, err
	}
	conn.start()
	return conn, nil
}

// newLLPConn makes a connection of what startup has given.
func newLLPConn(cfg *Config, q lease, llp ddp.LLP, p mpa.Params, id uint64) (*Conn, error) {
	// *mpa.Conn has these, and whatever embeds one.
	if m, ok := llp.(interface {
		SetFPDUMax(n int)
		SetAlign(a mpa.Align)
	}); ok {
		m.SetFPDUMax(cfg.MPA.FPDUMax)
		m.SetAlign(cfg.MPA.Align)
	}
	return newConn(cfg, q, llp, stateOf(p, cfg), p.Initiator, id)
}

// under is what a connection knows of its LLP beside its duty.
type under struct {
	local, remote func() net.Addr    // nil if there are none
	nc            net.Conn           // nil if there is none
	mpa           func() mpa.Stats   // nil if it is not MPA
	carried       func() ddp.Carried // nil if it does not count
	window        int                // in segments; 0: the LLP keeps the order
	early         ddp.Early          // nil if it finds no segments before their turn
}

func lookUnder(llp ddp.LLP) (u under) {
	if x, ok := llp.(interface{ NetConn() net.Conn }); ok {
		if u.nc = x.NetConn(); u.nc != nil {
			u.local, u.remote = u.nc.LocalAddr, u.nc.RemoteAddr
		}
	}
	if x, ok := llp.(interface {
		LocalAddr() net.Addr
		RemoteAddr() net.Addr
	}); ok {
		u.local, u.remote = x.LocalAddr, x.RemoteAddr
	}
	if x, ok := llp.(interface{ Stats() mpa.Stats }); ok {
		u.mpa = x.Stats
	}
	if x, ok := llp.(ddp.Carrier); ok {
		u.carried = x.Carried
	}
	if x, ok := llp.(ddp.Unordered); ok {
		u.window = min(max(x.Window(), 0), ddp.MaxWindow)
	}
	u.early, _ = llp.(ddp.Early)
	return u
}

// overNet is MPA on a net.Conn, as an LLPConn. The conn of an initiator is wrapped already.
type overNet struct {
	net.Conn
	cfg *Config // of a responder
	tls bool    // which makes the handshake of TLS before
}

// Initiate implements LLPConn.
func (n overNet) Initiate(ctx context.Context, o *mpa.Options) (ddp.LLP, mpa.Params, error) {
	m, err := mpa.Initiate(ctx, n.Conn, o)
	if m == nil {
		return nil, mpa.Params{}, err
	}
	return m, m.Params(), err
}

// ReadRequest implements LLPConn.
func (n overNet) ReadRequest(ctx context.Context, o *mpa.RequestOptions) (LLPRequest, error) {
	if n.tls {
		nc, err := n.cfg.serverTLS(ctx, n.Conn)
		if err != nil {
			return nil, err
		}
		n.Conn = nc
	}
	in, err := mpa.ReadRequest(ctx, n.cfg.wrap(n.Conn), o)
	if err != nil {
		return nil, err
	}
	return overNetRequest{in}, nil
}

// overNetRequest is a Request over MPA, as an LLPRequest.
type overNetRequest struct{ *mpa.Incoming }

// Accept implements LLPRequest.
func (r overNetRequest) Accept(ctx context.Context, o *mpa.Options) (ddp.LLP, mpa.Params, error) {
	m, err := r.Incoming.Accept(ctx, o)
	if err != nil {
		return nil, mpa.Params{}, err
	}
	return m, m.Params(), nil
}

// netListener is a net.Listener, as an LLPListener.
type netListener struct {
	net.Listener
	cfg *Config
}

// Accept implements LLPListener.
func (l netListener) Accept() (LLPConn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return overNet{nc, l.cfg, true}, nil
}
