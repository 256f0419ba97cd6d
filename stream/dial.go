package stream

import (
	"context"
	"net"

	"github.com/go-iwarp/iwarp"
)

// Dial connects to the stream listener at address, over TCP. network is "tcp", "tcp4" or "tcp6". cfg may be nil. It
// blocks until the connection stands or ctx ends. Errors are those of [iwarp.Dial]; a peer that is no stream is refused
// with an [iwarp.DeclinedError].
func Dial(ctx context.Context, network, address string, cfg *Config) (*Conn, error) {
	return start(cfg, func(c *iwarp.Config) (*iwarp.Conn, error) { return iwarp.Dial(ctx, network, address, c) })
}

// Client starts a stream on nc, which the caller has connected: TLS, a unix socket, a pipe. See [iwarp.Client] for who
// owns nc after an error.
func Client(ctx context.Context, nc net.Conn, cfg *Config) (*Conn, error) {
	return start(cfg, func(c *iwarp.Config) (*iwarp.Conn, error) { return iwarp.Client(ctx, nc, c) })
}

// Dialer has the methods that programs look for in a dialer. Its zero value is ready.
type Dialer struct {
	Config *Config // may be nil
}

// DialContext is [Dial].
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := Dial(ctx, network, address, d.Config)
	if err != nil {
		return nil, err // not a nil *Conn, which is no nil net.Conn
	}
	return c, nil
}

// Dial is DialContext without a context.
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// start makes the initiator's end.
func start(cfg *Config, dial func(*iwarp.Config) (*iwarp.Conn, error)) (*Conn, error) {
	n, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	e, err := newEndpoint(&n)
	if err != nil {
		return nil, err
	}
	var peer privateData
	ic := n.Conn.Clone()
	ic.QP, ic.PrivateData = e.qp, e.privateData()
	verify := ic.VerifyReply
	ic.VerifyReply = func(st iwarp.ConnectionState) (err error) {
		if peer, err = parsePrivateData(st.PrivateData); err == nil && verify != nil {
			err = verify(st)
		}
		return err
	}
	conn, err := dial(ic)
	if err != nil {
		e.release()
		e.free()
		return nil, err
	}
	return newConn(e, conn, peer), nil
}
