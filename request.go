package iwarp

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp/mpa"
)

// ConnRequest is a peer's Request that waits for its answer: the program sees the
// Private Data before it chooses PD, QP and depths.
type ConnRequest struct {
	in       LLPRequest
	lc       LLPConn
	cfg      *Config
	id       uint64
	began    time.Time
	listener *Listener // nil: ServerRequest
	answered atomic.Bool
	unable   atomic.Bool // Accept found that this end has no resources for it
}

// Server starts iWARP as the responder on nc, which the caller has accepted: it
// waits for the Request and accepts it, or rejects it if a limit of the device or
// Config.MPA.RequirePeerToPeer demands that. It blocks until then or until ctx ends.
// nc is the connection's on success and closed on error.
func Server(ctx context.Context, nc net.Conn, cfg *Config) (*Conn, error) {
	r, err := ServerRequest(ctx, nc, cfg)
	if err != nil {
		return nil, err
	}
	conn, err := r.Accept(ctx, nil)
	if err != nil {
		r.refuse(ctx)
	}
	return conn, err
}

// ServerRequest waits for the Request on nc and hands it up unanswered.
func ServerRequest(ctx context.Context, nc net.Conn, cfg *Config) (*ConnRequest, error) {
	return ServerRequestFrom(ctx, nc, nil, cfg)
}

// ServerRequestFrom is ServerRequest on a connection that has carried other
// traffic before, of which buffered has been read from nc and not been used: the
// start of the Request, often (RFC 5044 section 7.1.5). The two ULPs agree in
// their own protocol that MPA starts; the initiator then calls [Client] with
// nothing left unread. buffered is copied.
func ServerRequestFrom(ctx context.Context, nc net.Conn, buffered []byte, cfg *Config) (*ConnRequest, error) {
	c, err := cfg.over(nc)
	if err != nil {
		return nil, err
	}
	return readRequest(ctx, overNet{Conn: nc, cfg: c}, buffered, c, newID(), time.Now())
}

// readRequest waits for the Request of the startup id, and tells and counts it if none comes.
func readRequest(
	ctx context.Context, lc LLPConn, buffered []byte, cfg *Config, id uint64, began time.Time,
) (*ConnRequest, error) {
	ctx, cancel := cfg.startupContext(ctx)
	defer cancel()
	in, err := lc.ReadRequest(ctx,
		&mpa.RequestOptions{Buffered: buffered, RDMAC: cfg.MPA.RDMAC, Unenhanced: cfg.MPA.Revision == 1})
	if err != nil {
		cfg.startupEnded(StartupTrace{ID: id, Local: lc.LocalAddr(), Remote: lc.RemoteAddr(), Began: began, Err: err})
		return nil, err
	}
	return &ConnRequest{in: in, lc: lc, cfg: cfg, id: id, began: began}, nil
}

// PrivateData returns a copy of what the peer's ULP sent.
func (r *ConnRequest) PrivateData() []byte { return slices.Clone(r.in.Request().ULPData()) }

// RemoteAddr returns the peer's address.
func (r *ConnRequest) RemoteAddr() net.Addr {
	if nc := r.in.NetConn(); nc != nil {
		return nc.RemoteAddr()
	}
	return r.lc.RemoteAddr()
}

// LocalAddr returns this end's address.
func (r *ConnRequest) LocalAddr() net.Addr {
	if nc := r.in.NetConn(); nc != nil {
		return nc.LocalAddr()
	}
	return r.lc.LocalAddr()
}

// errRefused is why a startup has ended that this end rejects.
var errRefused = errors.New("iwarp: this end has rejected the request")

// ended is what is told of a startup that has failed.
func (r *ConnRequest) ended(err error) StartupTrace {
	return StartupTrace{ID: r.id, Local: r.LocalAddr(), Remote: r.RemoteAddr(), Began: r.began, Err: err}
}

// Request returns a copy of the startup frame as received.
func (r *ConnRequest) Request() *mpa.Startup { return r.in.Request() }

// Accept answers with a Reply and gives the connection. cfg may be nil for the
// listener's, and one that is not nil may have no TLS, since that is below already. After
// [Listener.Shutdown] the request is rejected, with [ErrShutdown]. Nothing is sent to the peer before its first
// message has come (RFC 5044 section 7.1.2), but work can be posted. A request is answered once:
// of several calls all but one fail. An error of cfg, or a limit of the device, leaves
// it unanswered. A Request that does not fit Config.MPA.RequirePeerToPeer is rejected, and TCP
// closed: the peer gets a *[RejectError].
func (r *ConnRequest) Accept(ctx context.Context, cfg *Config) (*Conn, error) {
	if err := r.made(); err != nil {
		return nil, err
	}
	if l := r.listener; l != nil {
		if !l.conns.enter() {
			r.unable.Store(true)
			r.refuse(ctx)
			return nil, ErrShutdown
		}
		defer l.conns.leave()
	}
	c := r.cfg
	if cfg != nil {
		var err error
		if c, err = cfg.withDefaults(); err != nil {
			return nil, err
		}
	}
	if c.QP != nil && c.QP.Conn() != nil {
		r.unable.Store(true)
		return nil, ErrInUse
	}
	ctx, cancel := c.startupContext(ctx)
	defer cancel()
	o := c.options(ctx, r.LocalAddr(), r.RemoteAddr())
	_, p, err := mpa.Answer(r.in.Request(), o)
	if err != nil {
		return nil, err
	}
	q, err := c.takeQP()
	if err != nil {
		r.unable.Store(true)
		return nil, err
	}
	if r.answered.Swap(true) {
		q.give()
		return nil, mpa.ErrAnswered
	}
	if err := c.acceptable(p); err != nil {
		q.give()
		c.startupEnded(r.ended(err))
		// Rule: MPA-7.1.2-17
		_ = r.in.Reject(ctx, o, nil) // RFC 5044 section 7.1.2 rule 2
		_ = r.in.Close()
		return nil, err
	}
	llp, p, err := r.in.Accept(ctx, o)
	if err != nil {
		q.give()
		c.startupEnded(r.ended(err))
		_ = r.in.Close()
		return nil, err
	}
	conn, err := newLLPConn(c, q, llp, p, r.id)
	if err != nil {
		c.startupEnded(r.ended(err))
		_ = llp.Close()
		return nil, err
	}
	conn.startup = r.began
	if conn.listener = r.listener; r.listener != nil {
		r.listener.conns.add(conn)
	}
	conn.start()
	return conn, nil
}

// Reject refuses the connection with a Reply that carries privateData (at most 512
// octets, 508 to a peer of RFC 6581). The connection below is open afterwards and
// the caller's (RFC 5044 section 7.1.2 rule 2): use or close it. Over another LLP than MPA
// there is none: it is nil, and nothing is left to close.
func (r *ConnRequest) Reject(ctx context.Context, privateData []byte) (net.Conn, error) {
	if err := r.made(); err != nil {
		return nil, err
	}
	ctx, cancel := r.cfg.startupContext(ctx)
	defer cancel()
	o := r.cfg.options(ctx, r.LocalAddr(), r.RemoteAddr())
	if _, err := mpa.RejectReply(r.in.Request(), o, privateData); err != nil {
		return nil, err
	}
	if r.answered.Swap(true) {
		return nil, mpa.ErrAnswered
	}
	r.cfg.startupEnded(r.ended(errRefused))
	if err := r.in.Reject(ctx, o, privateData); err != nil {
		_ = r.in.Close()
		return nil, err
	}
	return r.in.NetConn(), nil
}

// refuse ends a request that Accept could not accept. If this end lacks the
// resources, which it reports, that is a rejection, so that the peer knows and does
// not try in another way.
func (r *ConnRequest) refuse(ctx context.Context) (unable bool) {
	unable = r.unable.Load()
	if unable {
		_, _ = r.Reject(ctx, nil)
	}
	_ = r.Close()
	return unable
}

// Close drops the connection without an answer.
func (r *ConnRequest) Close() error {
	if err := r.made(); err != nil {
		return err
	}
	r.answered.Store(true)
	return r.in.Close()
}
