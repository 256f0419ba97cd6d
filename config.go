package iwarp

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

// Config configures a connection. Nil, and zero in a field, mean the documented
// default. A Config may be used for many connections if QP is nil; it is copied
// and not changed.
type Config struct {
	// Device, PD and QP say what the connection belongs to. With a QP the other
	// two are the QP's. Without, the connection makes a QP of its own, whose
	// receive buffers are the library's: see RecvDepth. Without a PD it has one of
	// its own, so that no other connection reaches its regions. Without a Device,
	// it makes one.
	Device *Device
	PD     *PD
	QP     *QP

	// PrivateData goes to the peer's ULP with the startup frame: at most 508
	// octets, or 512 with MPA.Revision 1.
	PrivateData []byte

	// VerifyReply, if not nil, is asked by Dial and Client about a Reply that accepts the
	// connection, before anything is sent on it: st is what has been agreed, with the
	// Private Data of the peer's ULP, and is the function's to keep. An error turns the
	// connection down; Dial or Client returns it in a *[DeclinedError]
	// (https://www.rfc-editor.org/rfc/rfc5044#section-7.1.2 rule 3). It should return
	// within StartupTimeout. A responder judges a Request between
	// [Listener.AcceptRequest] and [ConnRequest.Accept] or Reject.
	VerifyReply func(st ConnectionState) error
	// IRD and ORD are how many RDMA Reads and atomics this end serves and issues
	// at once. What is agreed may be less. Default 128 each, but an ORD that the
	// peer has not agreed to (revision 1) is 1 unless it is set here. [NoReads] means
	// none at all, and [NotNegotiated] leaves the number to the ULPs.
	IRD, ORD int

	// MPA configures MPA, the layer between this protocol and TCP. Over another LLP
	// ([NewConn]) nothing of it applies.
	MPA MPAConfig

	// Context, if not nil, is for the whole life of the connection, where the context of
	// Dial or Accept is for startup: when it ends, the connection is aborted, and
	// [Conn.Err] has its cause inside ([context.Cause]).
	Context context.Context
	// TLS, if not nil, puts TLS below the connections of [Dial] and of a [Listener]: see
	// [DialTLS]. [Client], [Server] and [ServerRequest] take a conn that has TLS already,
	// and refuse a Config with TLS.
	TLS *tls.Config

	// StartupTimeout bounds the whole startup exchange, beside the context.
	// Default 10 s; negative: none.
	StartupTimeout time.Duration
	// CloseTimeout bounds what a closing or failed connection waits for: so long without
	// progress of the work requests of this end (octets that TCP takes, octets of a
	// Response that come, however slowly), and so long in all for what only the peer
	// still wants: its own Reads, and its FIN. Default 5 s; negative: none.
	CloseTimeout time.Duration

	// CloseWithPeer has this end close its half when the peer has closed its own, and
	// what is posted has completed: then the peer's Close need not wait for this end's
	// program, which hears of it by Recv (io.EOF), Done or Context. Without it the program
	// may go on sending after the peer's CloseWrite, and has to call Close; until then the
	// peer's Close waits, for CloseTimeout at most.
	CloseWithPeer bool

	// RecvDepth and RecvSize are the receive buffers of a connection without a
	// QP of the program's: so many messages of at most so many octets may arrive
	// before Recv fetches them. One more, or a larger one, ends the connection:
	// iWARP has no flow control for Sends (RFC 5041 section 7.1). Memory is used
	// only for messages that are there. Default 128 and 65536.
	RecvDepth, RecvSize int
	// SendDepth is the number of work requests at once of a connection without a
	// QP of the program's. Default 128.
	SendDepth int

	// Progress says who receives, and whether a caller that waits spins or parks.
	// Default: [ProgressAdaptive], which spins for tens of microseconds where the
	// peer answers as quickly.
	Progress Progress

	// Wrap, if not nil, is called with each connection below, from Dial, Client,
	// Listen or Server, before startup; what it gives is used in its place. It is
	// for recording (package capture), counting or limiting what goes over the
	// wire. It must not give nil, and a listener calls it from many goroutines. A
	// wrapped TCP connection is not known as TCP any more: FPDUs are cut for
	// what Ethernet's MTU leaves or by MPA.FPDUMax, and Linux's batched, aligned writes are lost.
	// LocalAddr and RemoteAddr should be passed on: a device's CRC policy goes by
	// them.
	Wrap func(net.Conn) net.Conn

	// Trace, if not nil, is told what happens on the connection.
	Trace *Trace

	// Logger receives events: connections at Info, why they ended at Warn,
	// messages of startup at Debug. Nil: the device's logger, else none.
	Logger *slog.Logger

	ordSet bool // ORD is not the default
}

// defaultDepth is the default of IRD and ORD.
const defaultDepth = 128

// defaultQueue is the default of RecvDepth and SendDepth.
const defaultQueue = 128

// defaultRecvSize is the default of RecvSize.
const defaultRecvSize = 64 << 10

// Values of [Config.IRD] and [Config.ORD] beside numbers.
const (
	// NoReads: this end serves, or issues, no RDMA Read and no atomic.
	NoReads = -1
	// NotNegotiated leaves the number out of the negotiation
	// (https://www.rfc-editor.org/rfc/rfc6581#section-9.1). In [ConnectionState] it means
	// that the peer has not said a number.
	NotNegotiated = protocol.NotNegotiated
)

// Clone copies c. The device, domain and QP are shared. A nil c gives nil.
func (c *Config) Clone() *Config {
	if c == nil {
		return nil
	}
	n := *c
	n.PrivateData = slices.Clone(c.PrivateData)
	return &n
}

// withDefaults copies c, fills in the defaults and checks the ranges.
func (c *Config) withDefaults() (*Config, error) {
	n := c.Clone()
	if n == nil {
		n = &Config{}
	}
	if err := n.findDevice(); err != nil {
		return nil, err
	}
	n.MPA.setDefaults()
	n.ordSet = n.ordSet || n.ORD != 0
	setDefault(&n.IRD, min(defaultDepth, n.Device.limits.MaxRead))
	setDefault(&n.ORD, min(defaultDepth, n.Device.limits.MaxRead))
	setDefault(&n.StartupTimeout, 10*time.Second)
	setDefault(&n.CloseTimeout, 5*time.Second)
	if n.Logger == nil {
		n.Logger = n.Device.logger
	}
	if err := n.check(); err != nil {
		return nil, err
	}
	n.IRD, n.ORD = max(n.IRD, 0), max(n.ORD, 0) // of NoReads
	return n, nil
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// findDevice settles which device the connection is of.
func (c *Config) findDevice() error {
	switch {
	case c.QP != nil:
		if err := c.QP.made(); err != nil {
			return err
		}
		c.PD, c.Device = c.QP.pd, c.QP.dev
	case c.PD != nil:
		if err := c.PD.made(); err != nil {
			return err
		}
		c.Device = c.PD.dev
	case c.Device == nil:
		d, err := NewDevice(nil)
		if err != nil {
			return err
		}
		c.Device = d
	}
	return c.Device.made()
}

func (c *Config) check() error {
	maxPrivate := mpa.MaxPrivateData
	if c.MPA.Revision == 2 {
		maxPrivate -= protocol.EnhancedLen
	}
	if len(c.PrivateData) > maxPrivate {
		return fmt.Errorf("iwarp: Config.PrivateData has %d octets: at most %d with revision %d (RFC 5044 section "+
			"7.1.1, RFC 6581 section 9)",
			len(c.PrivateData), maxPrivate, c.MPA.Revision)
	}
	if c.Progress > ProgressPolling {
		return fmt.Errorf("iwarp: Config.Progress is %d: at most %d (ProgressPolling)", c.Progress, ProgressPolling)
	}
	for _, f := range [...]struct {
		name  string
		value int
	}{{"IRD", c.IRD}, {"ORD", c.ORD}} {
		if f.value < NoReads {
			return fmt.Errorf("iwarp: Config.%s is %d: a number, 0 for the default, NoReads or NotNegotiated", f.name,
				f.value)
		}
		// Rule: SEC-6.4.3.3-02
		if f.value != NotNegotiated && f.value > c.Device.limits.MaxRead {
			return fmt.Errorf("%w: Config.%s is %d: the device allows %d", ErrLimit, f.name, f.value,
				c.Device.limits.MaxRead)
		}
	}
	err := settle(
		limit{"Config.RecvDepth", &c.RecvDepth, defaultQueue, 1, c.Device.limits.MaxWR},
		limit{"Config.SendDepth", &c.SendDepth, defaultQueue, 1, c.Device.limits.MaxWR},
		limit{"Config.RecvSize", &c.RecvSize, defaultRecvSize, 1, 1 << 30},
	)
	if err != nil {
		return err
	}
	return c.MPA.check()
}

// options returns the startup options for a connection between two addresses.
func (c *Config) options(ctx context.Context, local, remote net.Addr) *mpa.Options {
	o := &mpa.Options{
		Revision: uint8(c.MPA.Revision), RDMAC: c.MPA.RDMAC, Markers: c.MPA.Markers, RTR: c.MPA.RTR,
		IRD: c.IRD, ORD: c.ORD, PrivateData: c.PrivateData,
		NoCRC: c.mayOmitCRC(ctx, local, remote),
	}
	if c.VerifyReply != nil {
		o.VerifyReply = func(p mpa.Params) error { return c.VerifyReply(stateOf(p, c)) }
	}
	return o
}

// mayOmitCRC asks the device's policy about a connection. In doubt it is no.
func (c *Config) mayOmitCRC(ctx context.Context, local, remote net.Addr) bool {
	p := c.Device.policy
	// Rule: MPA-1.2-01, MPA-4.4-05
	if c.MPA.RequireCRC || !p.names(addrOf(remote)) {
		return false
	}
	if p.Covers == nil {
		return true
	}
	ok, err := p.Covers(ctx, local, remote)
	if err != nil && c.Logger != nil {
		c.Logger.Warn("iwarp: the CRC stays on: CRCSuppression.Covers failed", "local", local, "remote", remote,
			"error", err)
	}
	return ok && err == nil
}

// wrap returns the connection to use in place of nc.
func (c *Config) wrap(nc net.Conn) net.Conn {
	if c.Wrap == nil {
		return nc
	}
	return c.Wrap(nc)
}

func addrOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
