package sctp

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/pion/logging"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/protocol"
)

// Dial connects to the iWARP responder at address, on an SCTP association of its own, which ends with the
// connection. cfg may be nil; what of it is MPA's alone has no effect: Markers, FPDUMax, Align, NoCRC.
//
// With network "udp", "udp4" or "udp6" SCTP runs in user space, over UDP (RFC 6951), and address has
// UDP's port. With "sctp", "sctp4" or "sctp6" the kernel has it, on IP itself, and address has SCTP's
// port: on Linux, where the kernel has the module sctp. Elsewhere the error says so, and is
// [errors.ErrUnsupported].
//
// A peer that answers an Enhanced Initiate (RFC 6581) with Terminate is asked once more in
// the way of RFC 5043, unless cfg insists on RFC 6581.
//
// Errors are as those of [iwarp.Dial]. Dial blocks until the connection stands or ctx ends.
func Dial(ctx context.Context, network, address string, cfg *iwarp.Config) (*iwarp.Conn, error) {
	return (&Dialer{Config: cfg}).Dial(ctx, network, address)
}

// Dialer dials with options for what is below.
type Dialer struct {
	// NetDialer makes the UDP socket; nil means a zero net.Dialer. SCTP of the kernel has no use for it.
	NetDialer *net.Dialer
	// SCTP configures the association; nil means the defaults.
	SCTP *Config
	// Config of the iWARP connection; nil means the defaults.
	Config *iwarp.Config
}

// Dial is like the function [Dial].
func (d *Dialer) Dial(ctx context.Context, network, address string) (*iwarp.Conn, error) {
	if d == nil {
		d = &Dialer{}
	}
	c, err := d.dial(ctx, network, address, d.Config)
	if retry := unenhanced(d.Config, err); retry != nil {
		return d.dial(ctx, network, address, retry)
	}
	return c, err
}

func (d *Dialer) dial(ctx context.Context, network, address string, cfg *iwarp.Config) (*iwarp.Conn, error) {
	nd := d.NetDialer
	if nd == nil {
		nd = &net.Dialer{}
	}
	sc, err := d.SCTP.withDefaults()
	if err != nil {
		return nil, err
	}
	a, err := associateOnce(ctx, nd, network, address, sc)
	if err != nil {
		return nil, err
	}
	c, err := a.dial(ctx, cfg)
	if err != nil {
		_ = a.Close()
	}
	return c, err
}

// associateOnce makes an association for one session.
func associateOnce(ctx context.Context, nd *net.Dialer, network, address string, sc *Config) (*Association, error) {
	if ofKernel(network) {
		return associateKernel(ctx, network, address, sc, true)
	}
	nc, err := dialUDP(ctx, nd, network, address)
	if err != nil {
		return nil, err
	}
	return associate(ctx, nc, sc, true)
}

// ofKernel reports whether a network is that of SCTP in the kernel.
func ofKernel(network string) bool {
	return network == "sctp" || network == "sctp4" || network == "sctp6"
}

// unenhanced returns the configuration for a second try, nil if there is none to be made.
func unenhanced(cfg *iwarp.Config, err error) *iwarp.Config {
	var perr *protocol.Error
	if !errors.As(err, &perr) || perr.Section != "RFC 5043 section 6.4" || !strings.HasPrefix(perr.Detail, "SCTP: ") {
		return nil
	}
	n := cfg.Clone()
	if n == nil {
		n = &iwarp.Config{}
	}
	if n.MPA.Revision == 1 || n.MPA.RequirePeerToPeer {
		return nil
	}
	n.MPA.Revision = 1
	if len(n.PrivateData) > MaxPrivateData {
		return nil
	}
	return n
}

// silent is no log: what happens is told by errors.
type silent struct{}

// NewLogger implements logging.LoggerFactory.
func (silent) NewLogger(string) logging.LeveledLogger { return noLog{} }

type noLog struct{}

func (noLog) Trace(string)          {}
func (noLog) Tracef(string, ...any) {}
func (noLog) Debug(string)          {}
func (noLog) Debugf(string, ...any) {}
func (noLog) Info(string)           {}
func (noLog) Infof(string, ...any)  {}
func (noLog) Warn(string)           {}
func (noLog) Warnf(string, ...any)  {}
func (noLog) Error(string)          {}
func (noLog) Errorf(string, ...any) {}
