package iwarp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/go-iwarp/iwarp/mpa"
)

// BelowTLS wraps a conn that TLS is going to run on, so that the connection above TLS
// can tell a stream that its peer has ended from one that somebody on the network has
// cut:
//
//	iwarp.Client(ctx, tls.Client(iwarp.BelowTLS(nc), tlsConfig), nil)
//
// A TLS stream ends with an alert, close_notify. crypto/tls reports a FIN without it
// as [io.EOF] too, if it comes between two records, and a FIN can be forged. Above a
// conn of BelowTLS it ends the connection with a *[ProtocolError] that has
// [io.ErrUnexpectedEOF] inside; without BelowTLS it looks like a graceful end
// (https://www.rfc-editor.org/rfc/rfc8446#section-6.1).
//
// [Config].TLS does this by itself. The conn that BelowTLS returns has a NetConn method
// that returns nc, and reads and writes what nc does.
func BelowTLS(nc net.Conn) net.Conn { return mpa.BelowTLS(nc) }

// DialTLS is [Dial] over TLS: TCP is connected, TLS's handshake made, and iWARP started on
// it. tlsConfig may be nil; where it has no ServerName, the host in address is checked
// against the peer's certificate. cfg may be nil, and its TLS is not looked at. The
// peer's certificate is in [Conn.TLS].
//
// The server sets Config.TLS, and finds a client's certificate in [ConnRequest.TLS] before
// it accepts.
func DialTLS(ctx context.Context, network, address string, tlsConfig *tls.Config, cfg *Config) (*Conn, error) {
	n := cfg.Clone()
	if n == nil {
		n = &Config{}
	}
	if n.TLS = tlsConfig; n.TLS == nil {
		n.TLS = &tls.Config{}
	}
	return Dial(ctx, network, address, n)
}

// errHasTLS is for a conn that the program has made: whether TLS is on it already, or still
// to come, only the program knows.
var errHasTLS = errors.New("iwarp: Config.TLS is set: it is for Dial and Listen; here, put TLS on the conn first: " +
	"tls.Client(iwarp.BelowTLS(nc), ...)")

func (c *Config) withoutTLS() error {
	if c.TLS != nil {
		return errHasTLS
	}
	return nil
}

// clientTLS puts TLS on a conn to address, if the program wants that. On error the conn is closed.
func (c *Config) clientTLS(ctx context.Context, nc net.Conn, address string) (net.Conn, error) {
	if c.TLS == nil {
		return nc, nil
	}
	t := c.TLS
	if t.ServerName == "" && !t.InsecureSkipVerify {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		t = t.Clone()
		t.ServerName = host
	}
	return c.handshake(ctx, nc, tls.Client(BelowTLS(nc), t))
}

func (c *Config) serverTLS(ctx context.Context, nc net.Conn) (net.Conn, error) {
	if c.TLS == nil {
		return nc, nil
	}
	return c.handshake(ctx, nc, tls.Server(BelowTLS(nc), c.TLS))
}

func (c *Config) handshake(ctx context.Context, below net.Conn, t *tls.Conn) (net.Conn, error) {
	ctx, cancel := c.startupContext(ctx)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		_ = below.Close()
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return nil, fmt.Errorf("iwarp: TLS handshake: %w", err)
	}
	return t, nil
}

// tlsOf is the state of the TLS connection at or below nc; nil if there is none.
func tlsOf(nc net.Conn) *tls.ConnectionState {
	for nc != nil {
		if t, ok := nc.(interface{ ConnectionState() tls.ConnectionState }); ok {
			st := t.ConnectionState()
			return &st
		}
		above, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		nc = above.NetConn()
	}
	return nil
}

// TLS returns the state of the TLS connection below, with the peer's certificates; nil if
// there is none, or if it lies below a conn of [Config].Wrap that has no NetConn method.
func (c *Conn) TLS() *tls.ConnectionState { return tlsOf(c.under.nc) }

// NetConn returns the connection below, for what it can tell of the peer: a *[tls.Conn], with
// Config.TLS. Octets must not be read from it or written to it.
func (r *ConnRequest) NetConn() net.Conn { return r.in.NetConn() }

// TLS returns the state of the TLS connection below, as [Conn.TLS] does: who has asked is
// known before the request is accepted.
func (r *ConnRequest) TLS() *tls.ConnectionState { return tlsOf(r.in.NetConn()) }
