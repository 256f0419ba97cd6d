package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/go-iwarp/iwarp/internal/tcpsock"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

// Dial connects to the iWARP responder at address, over TCP. network is "tcp",
// "tcp4" or "tcp6"; for other transports see [Client]. cfg may be nil.
//
// If the peer closes TCP after a Request of revision 2 and before one octet of a
// Reply, as responders without RFC 6581 do, Dial tries once more with revision 1
// on a new TCP connection; never after a timeout or a rejection, by either end, and not with
// Config.MPA.RequirePeerToPeer.
//
// Errors: *[RejectError] if the peer's ULP refuses, *[DeclinedError] if
// Config.VerifyReply does, a *[ProtocolError] if startup fails, or the network's.
// With Config.TLS the connection runs over TLS: see [DialTLS].
// No error leaves TCP open: to use it further, connect TCP and call [Client]. Dial blocks until the connection
// stands or ctx ends.
func Dial(ctx context.Context, network, address string, cfg *Config) (*Conn, error) {
	return (&Dialer{Config: cfg}).Dial(ctx, network, address)
}

// Dialer dials with options for the connection below.
type Dialer struct {
	// NetDialer makes the TCP connection; nil means a zero net.Dialer.
	NetDialer *net.Dialer
	// Config of the iWARP connection; nil means the defaults.
	Config *Config
}

// Dial is like the function [Dial].
func (d *Dialer) Dial(ctx context.Context, network, address string) (*Conn, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, net.UnknownNetworkError(network)
	}
	if d == nil {
		d = &Dialer{}
	}
	cfg, err := d.Config.withDefaults()
	if err != nil {
		return nil, err
	}
	nd := d.netDialer(cfg)
	for {
		nc, err := nd.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if nc, err = cfg.clientTLS(ctx, nc, address); err != nil {
			return nil, err
		}
		nc = cfg.wrap(nc)
		// Rule: MPA-7.1-03
		c, err := client(ctx, overNet{Conn: nc}, cfg)
		if err == nil {
			return c, nil
		}
		_ = nc.Close() // a rejected connection has no other use here
		if !cfg.mayFallBack(err) {
			return nil, err
		}
		if cfg.Logger != nil {
			cfg.Logger.Info("iwarp: no reply to MPA revision 2, trying revision 1", "remote", address, "error", err)
		}
		// Rule: MPA2-10-05
		cfg.MPA.Revision = 1
	}
}

// netDialer is the dialer of the TCP connection. FPDUs cannot fill segments that hold no
// multiple of four octets, and few of them would be aligned: so both ends are made to
// use segments that do, at most 3 octets shorter.
func (d *Dialer) netDialer(cfg *Config) *net.Dialer {
	var nd net.Dialer
	if d.NetDialer != nil {
		nd = *d.NetDialer
	}
	if cfg.MPA.Align == mpa.AlignOff {
		return &nd
	}
	control, controlContext := nd.Control, nd.ControlContext
	nd.Control = nil
	nd.ControlContext = func(ctx context.Context, network, address string, c syscall.RawConn) error {
		_ = tcpsock.FourfoldSegments(c, address) // FPDUs are not aligned where it cannot be done
		switch {
		case controlContext != nil:
			return controlContext(ctx, network, address, c)
		case control != nil:
			return control(network, address, c)
		}
		return nil
	}
	return &nd
}

// mayFallBack reports whether err is how a responder that knows only RFC 5044
// answers a Request of RFC 6581.
func (c *Config) mayFallBack(err error) bool {
	code, _ := protocol.CodeOf(err)
	// Rule: MPA2-10-05
	return !leavesOpen(err) && code == protocol.MPAConnectionLost && c.MPA.Revision == 2 && !c.MPA.RequirePeerToPeer
}

// over returns the settings of a connection that the program has made itself, nc. After
// an error nc, if there is one, is closed.
func (c *Config) over(nc net.Conn) (*Config, error) {
	if err := below(nc); err != nil {
		return nil, err
	}
	d, err := c.withDefaults()
	if err == nil {
		err = d.withoutTLS()
	}
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	return d, nil
}

// Client starts iWARP as the initiator on nc, which the caller has connected: TCP
// after other traffic, TLS, a unix socket, a pipe. Nothing of other traffic may
// be left unread. It blocks until the connection stands or ctx ends.
//
// On success the connection owns nc. On a *[RejectError] or a *[DeclinedError] nc is
// open and the caller's again, with no octet lost; on any other error it is closed.
func Client(ctx context.Context, nc net.Conn, cfg *Config) (*Conn, error) {
	c, err := cfg.over(nc)
	if err != nil {
		return nil, err
	}
	return client(ctx, overNet{Conn: c.wrap(nc)}, c)
}

func client(ctx context.Context, lc LLPConn, cfg *Config) (*Conn, error) {
	s := StartupTrace{ID: newID(), Initiator: true, Local: lc.LocalAddr(), Remote: lc.RemoteAddr(), Began: time.Now()}
	c, err := initiate(ctx, lc, cfg, &s)
	if err != nil {
		s.Err = err
		cfg.startupEnded(s)
	}
	return c, err
}

func initiate(ctx context.Context, lc LLPConn, cfg *Config, s *StartupTrace) (*Conn, error) {
	ctx, cancel := cfg.startupContext(ctx)
	defer cancel()
	q, err := cfg.takeQP()
	if err != nil {
		_ = lc.Close()
		return nil, err
	}
	o := cfg.options(ctx, lc.LocalAddr(), lc.RemoteAddr())
	llp, p, err := lc.Initiate(ctx, o)
	if llp == nil {
		q.give()
		if !leavesOpen(err) {
			_ = lc.Close()
		}
		return nil, err
	}
	if err == nil {
		err = cfg.acceptable(p)
	}
	c, cerr := newLLPConn(cfg, q, llp, p, s.ID)
	if cerr != nil {
		_ = llp.Close()
		return nil, cerr
	}
	c.startup = s.Began
	if err != nil {
		// RFC 6581 section 9 owes the responder a Terminate for these.
		var perr *ProtocolError
		if errors.As(err, &perr) {
			// Rule: MPA2-9.3-01
			// Rule: MPA2-9.1-07, MPA2-9.2-09, MPA2-9.3-01
			c.stream.Fail(perr, true)
		}
		c.start()
		stop := context.AfterFunc(ctx, c.Abort)
		_ = c.Close()
		stop()
		return nil, err
	}
	if p.PeerToPeer {
		// Rule: MPA2-5-02
		if err := c.stream.PostRTR(pickRTR(p.RTR)); err != nil {
			c.start()
			c.Abort()
			return nil, err
		}
	}
	c.start()
	return c, nil
}

// leavesOpen reports whether an error of startup leaves TCP to the caller
// (RFC 5044 section 7.1.2 rule 3).
func leavesOpen(err error) bool {
	// Rule: MPA-7.1.2-12
	return errors.As(err, new(*RejectError)) || errors.As(err, new(*DeclinedError))
}

// pickRTR chooses the RTR to send among those agreed upon. A Write costs the
// responder nothing.
func pickRTR(set RTR) RTR {
	for _, k := range [...]RTR{RTRWrite, RTRRead} {
		if set.Has(k) {
			return k
		}
	}
	return RTRSend
}

// acceptable applies what the program insists on to what was agreed.
func (c *Config) acceptable(p mpa.Params) error {
	switch {
	case c.MPA.RequireCRC && !p.CRC:
		return &ProtocolError{
			Code: protocol.MPALocalCatastrophic, Section: "RFC 5044 section 4.4",
			Detail: "Config.MPA.RequireCRC is set, and neither end asked for CRCs",
		}
	case c.MPA.RequirePeerToPeer && !p.PeerToPeer:
		return &ProtocolError{
			Code: protocol.MPALocalCatastrophic, Section: "RFC 6581 section 9.2",
			Detail: "Config.MPA.RequirePeerToPeer is set, and the connection is client-server",
		}
	}
	return nil
}

func (c *Config) startupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	unbind := func() {}
	if life := c.Context; life != nil && life.Done() != nil {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		if life.Err() != nil {
			cancel(context.Cause(life))
		}
		stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
		unbind = func() { stop(); cancel(nil) }
	}
	var cancel context.CancelFunc
	if c.StartupTimeout < 0 {
		ctx, cancel = context.WithCancel(ctx)
	} else {
		ctx, cancel = context.WithTimeoutCause(ctx, c.StartupTimeout, errStartupTimeout(c))
	}
	return ctx, func() { unbind(); cancel() }
}

func errStartupTimeout(c *Config) error {
	return fmt.Errorf("iwarp: no MPA startup within %v (Config.StartupTimeout)", c.StartupTimeout)
}
