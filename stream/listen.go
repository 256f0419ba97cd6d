package stream

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"github.com/go-iwarp/iwarp"
)

// ListenConfig configures a [Listener]. Nil, and zero in a field, mean the documented default.
type ListenConfig struct {
	// Config is of the streams that the listener accepts; it may be nil.
	Config *Config

	// NetListenConfig makes the TCP listener; nil means a zero [net.ListenConfig].
	NetListenConfig *net.ListenConfig

	// MaxPending bounds the connections that are in startup or wait for Accept, and MaxPendingPerPeer those of one
	// peer, as in [iwarp.ListenConfig]. Default 128, and no bound for a peer.
	MaxPending, MaxPendingPerPeer int
}

// Listener accepts streams. It is a [net.Listener].
type Listener struct {
	ln  *iwarp.Listener
	cfg Config
}

// Listen listens on a TCP address. network is "tcp", "tcp4" or "tcp6". cfg may be nil. See [ListenConfig] for more.
func Listen(network, address string, cfg *Config) (*Listener, error) {
	return (&ListenConfig{Config: cfg}).Listen(context.Background(), network, address)
}

// NewListener accepts streams on connections from nl, which may be of any kind: TLS, a unix socket. The Listener owns
// nl, unless there is an error. cfg may be nil. See [ListenConfig] for more.
func NewListener(nl net.Listener, cfg *Config) (*Listener, error) {
	return (&ListenConfig{Config: cfg}).NewListener(nl)
}

// Listen is like the function [Listen]. ctx bounds the lookup of address, and does not affect the listener.
func (c *ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	return c.listen(func(lc *iwarp.ListenConfig) (*iwarp.Listener, error) { return lc.Listen(ctx, network, address) })
}

// NewListener is like the function [NewListener].
func (c *ListenConfig) NewListener(nl net.Listener) (*Listener, error) {
	return c.listen(func(lc *iwarp.ListenConfig) (*iwarp.Listener, error) { return lc.NewListener(nl) })
}

func (c *ListenConfig) listen(f func(*iwarp.ListenConfig) (*iwarp.Listener, error)) (*Listener, error) {
	var lc ListenConfig
	if c != nil {
		lc = *c
	}
	n, err := lc.Config.withDefaults()
	if err != nil {
		return nil, err
	}
	if n.Conn.Device == nil && n.Conn.PD == nil { // one for all connections, so that its limits bound them together
		if n.Conn.Device, err = iwarp.NewDevice(nil); err != nil {
			return nil, err
		}
	}
	ln, err := f(&iwarp.ListenConfig{
		Config: n.Conn, NetListenConfig: lc.NetListenConfig, MaxPending: lc.MaxPending,
		MaxPendingPerPeer: lc.MaxPendingPerPeer,
	})
	if err != nil {
		return nil, err
	}
	return &Listener{ln: ln, cfg: n}, nil
}

// Accept waits for a peer and accepts it. A peer that is no stream, that goes away, or that this end has no resources
// for is rejected and passed over; the logger of Config.Conn hears of it. The error is the listener's end.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.AcceptStream(context.Background())
	if err != nil {
		return nil, &net.OpError{Op: "accept", Net: "iwarp", Addr: l.Addr(), Err: err}
	}
	return c, nil
}

// AcceptStream is Accept until ctx ends, without the [net.Conn].
func (l *Listener) AcceptStream(ctx context.Context) (*Conn, error) {
	for {
		r, err := l.ln.AcceptRequest(ctx)
		if err != nil {
			return nil, err
		}
		c, err := accept(ctx, r, &l.cfg)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if log := l.cfg.Conn.Logger; log != nil {
			log.LogAttrs(ctx, slog.LevelWarn, "stream refused", slog.Any("remote", r.RemoteAddr()),
				slog.Any("error", err))
		}
	}
}

// Addr returns the listener's address.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Stats returns what the listener has seen so far: see [iwarp.ListenerStats].
func (l *Listener) Stats() iwarp.ListenerStats { return l.ln.Stats() }

// Close stops listening. Streams that were accepted live on.
func (l *Listener) Close() error { return l.ln.Close() }

// Server starts a stream as the responder on nc, which the caller has accepted. nc is the stream's on success and
// closed on error.
func Server(ctx context.Context, nc net.Conn, cfg *Config) (*Conn, error) {
	n, err := cfg.withDefaults()
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	r, err := iwarp.ServerRequest(ctx, nc, n.Conn)
	if err != nil {
		return nil, err
	}
	return accept(ctx, r, &n)
}

// accept answers a request, with a rejection if it is no stream's.
func accept(ctx context.Context, r *iwarp.ConnRequest, cfg *Config) (*Conn, error) {
	peer, err := parsePrivateData(r.PrivateData())
	if err != nil {
		return nil, reject(ctx, r, err)
	}
	e, err := newEndpoint(cfg)
	if err != nil {
		return nil, reject(ctx, r, err)
	}
	ic := cfg.Conn.Clone()
	ic.QP, ic.PrivateData = e.qp, e.privateData()
	conn, err := r.Accept(ctx, ic)
	if err != nil {
		e.release()
		e.free()
		return nil, reject(ctx, r, err)
	}
	return newConn(e, conn, peer), nil
}

// reject rejects a request, if it is not answered yet, and returns why with what went wrong.
func reject(ctx context.Context, r *iwarp.ConnRequest, why error) error {
	if nc, err := r.Reject(ctx, nil); err == nil {
		return errors.Join(why, nc.Close())
	}
	_ = r.Close()
	return why
}
