package iwarp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// DeviceConfig configures a [Device]. Nil, and zero in a field, mean the
// documented default.
type DeviceConfig struct {
	// Limits of the device's resources.
	MaxPD   int // protection domains; default 65536
	MaxQP   int // queue pairs; default 65536
	MaxCQ   int // completion queues; default 131072
	MaxMR   int // memory regions; default 2^20, at most 2^24-1
	MaxCQE  int // completions per queue; default 2^20
	MaxWR   int // work requests per queue; default 65536
	MaxSGE  int // elements of a gather list; default 256
	MaxRead int // IRD and ORD of a connection; default 1024, at most 16382
	// MaxEntries and MaxOctets bound the entries of all queues together and the
	// octets registered; 0: no bound.
	MaxEntries, MaxOctets int64

	// MaxHeld bounds the octets that peers make the device hold: messages that Recv
	// has yet to take, Read Responses that the network has yet to take. Each
	// connection may always have 64 KiB of either, which do not count; beyond the
	// bound a message finds no buffer and ends its connection (1/2/02, [ErrLimit]), and
	// Responses go out in pieces of 64 KiB. Default 1 GiB. docs/security.md says what a
	// connection costs beside that. Receives that the program posts are its own.
	MaxHeld int64

	// Authorize, if not nil, is asked before a region is made whether the domain's
	// program may give a peer these rights on this memory (RFC 5041 section 8.3.2).
	// In Go, whoever has a slice may use it; this is for slices that come from
	// elsewhere, such as read-only mappings, on which a peer with RemoteWrite would
	// lose its connection. Its error is NewMR's.
	Authorize func(pd *PD, buf []byte, access Access) error

	// Events, if not nil, is where the device tells of what happens beside completions.
	// It never waits: an event that finds the channel full is lost, and counted in
	// DeviceUse.EventsLost. So make it with room for what may happen while the program is
	// busy: one event for each SRQ, and for each QP with an SRQ.
	Events chan<- Event

	// Logger receives the events of all connections of the device that have no
	// logger of their own. Nil: none.
	Logger *slog.Logger

	// CRCSuppression, if not nil, lets connections to the peers that it names
	// propose to leave the CRC out. Nil: CRCs are always on.
	CRCSuppression *CRCSuppression
}

// CRCSuppression is the administrator's decision to do without MPA's CRC32c,
// which RFC 5044 section 4.4 allows only on an explicit request and advises only
// where something at least as strong protects the data end to end
// (https://www.rfc-editor.org/rfc/rfc5044#section-4.4). The CRC stays on as soon
// as the peer wants it.
type CRCSuppression struct {
	// Protection says in words what protects the data instead, e.g. "TLS" or
	// "ESP between hosts". It must not be empty.
	Protection string
	// Peers are the addresses that this holds for; empty means every peer. A peer
	// whose address cannot be told is covered only then.
	Peers []netip.Prefix
	// Covers, if not nil, is asked for each connection to one of Peers, before its
	// Request or Reply is sent, whether the protection holds for it: whether IPsec
	// covers its flow, say (module github.com/go-iwarp/iwarp/ipsec). With an error
	// the CRC stays on, and the error is logged. Startup waits for it, so it must
	// heed ctx. It is called from many goroutines.
	Covers func(ctx context.Context, local, remote net.Addr) (bool, error)
}

// names reports whether the policy is about the peer.
func (p *CRCSuppression) names(peer netip.Addr) bool {
	if p == nil {
		return false
	}
	for _, prefix := range p.Peers {
		if prefix.Contains(peer) {
			return true
		}
	}
	return len(p.Peers) == 0
}

// DeviceLimits are the limits of a [Device].
type DeviceLimits struct {
	MaxPD, MaxQP, MaxCQ, MaxMR int // how many of each
	MaxCQE, MaxWR, MaxSGE      int // per CQ, per queue, per work request
	MaxRead                    int // IRD and ORD
	MaxInline                  int // octets of an inline work request
	MaxMessage                 int64
	MaxHeld                    int64 // octets held for peers
}

const maxInline = 1024

const defaultMaxHeld = 1 << 30

// Device is a software RNIC: the table of STags, the limits and the policies
// that its connections share. It has no goroutine and needs no closing. A
// program has as many as it likes; regions and domains of one are unknown to
// the others. All methods may be called from any goroutine.
type Device struct {
	limits    DeviceLimits
	policy    *CRCSuppression
	authorize func(*PD, []byte, Access) error
	logger    *slog.Logger
	table     *ddp.Table
	manager   manager
	held      heldBound
	own       *Tenant       // of what is made without one
	lastPD    atomic.Uint64 // 64 bits, as of QPs: a number that came again would open a living domain to strangers
	lastQP    atomic.Uint64
	connects  atomic.Uint64
	census    census

	events     chan<- Event
	eventsLost atomic.Uint64
}

// NewDevice makes a device. The error names a field of cfg that is out of range, and wraps
// [ErrLimit] for a limit of its resources.
func NewDevice(cfg *DeviceConfig) (*Device, error) {
	var c DeviceConfig
	if cfg != nil {
		c = *cfg
	}
	if c.CRCSuppression != nil {
		// Rule: MPA-4.4-05
		if c.CRCSuppression.Protection == "" {
			return nil,
				fmt.Errorf("iwarp: CRCSuppression.Protection is empty: name what protects the data instead (RFC 5044 " +
					"section 4.4)")
		}
		policy := *c.CRCSuppression
		policy.Peers = append([]netip.Prefix(nil), policy.Peers...)
		c.CRCSuppression = &policy
	}
	l := DeviceLimits{
		MaxPD: c.MaxPD, MaxQP: c.MaxQP, MaxCQ: c.MaxCQ, MaxMR: c.MaxMR, MaxCQE: c.MaxCQE, MaxWR: c.MaxWR,
		MaxSGE:  c.MaxSGE,
		MaxRead: c.MaxRead, MaxInline: maxInline, MaxMessage: 1<<32 - 1,
	}
	err := settle(
		limit{"DeviceConfig.MaxPD", &l.MaxPD, 65536, 1, 1<<31 - 1},
		limit{"DeviceConfig.MaxQP", &l.MaxQP, 65536, 1, 1<<31 - 1},
		limit{"DeviceConfig.MaxCQ", &l.MaxCQ, 131072, 1, 1<<31 - 1},
		limit{"DeviceConfig.MaxMR", &l.MaxMR, 1 << 20, 1, 1<<24 - 1},
		limit{"DeviceConfig.MaxCQE", &l.MaxCQE, 1 << 20, 1, 1<<31 - 1},
		limit{"DeviceConfig.MaxWR", &l.MaxWR, 65536, 1, 1<<24 - 1},
		limit{"DeviceConfig.MaxSGE", &l.MaxSGE, 256, 1, 1 << 16},
		limit{"DeviceConfig.MaxRead", &l.MaxRead, 1024, 0, protocol.MaxDepth},
	)
	if err != nil {
		return nil, err
	}
	for _, f := range [...]struct {
		name  string
		value int64
	}{{"MaxEntries", c.MaxEntries}, {"MaxOctets", c.MaxOctets}} {
		if f.value < 0 {
			return nil, fmt.Errorf("iwarp: DeviceConfig.%s is %d: 0 for no bound, or more", f.name, f.value)
		}
	}
	l.MaxHeld = cmp.Or(c.MaxHeld, defaultMaxHeld)
	if l.MaxHeld < 0 {
		return nil, fmt.Errorf("iwarp: DeviceConfig.MaxHeld is %d: 0 for the default of %d octets, or more", c.MaxHeld,
			int64(defaultMaxHeld))
	}
	// Each outstanding Read takes an STag for its sink, beside the regions.
	d := &Device{
		limits: l, policy: c.CRCSuppression, authorize: c.Authorize, logger: c.Logger, table: ddp.NewTable(0),
		events: c.Events,
	}
	d.held.max = l.MaxHeld
	d.manager.device = account{holder: "device", max: amounts{
		resPD: int64(l.MaxPD), resQP: int64(l.MaxQP), resCQ: int64(l.MaxCQ), resMR: int64(l.MaxMR),
		resEntries: c.MaxEntries, resOctets: c.MaxOctets,
	}}
	d.own, err = d.NewTenant(TenantConfig{Name: "default"})
	return d, err
}

// Limits returns the device's limits.
func (d *Device) Limits() DeviceLimits { return d.limits }

// DeviceUse counts what is allocated.
type DeviceUse struct {
	Quota
	Connections uint64 // ever made
	Held        int64  // octets of DeviceConfig.MaxHeld that connections have taken
	HeldRefused uint64 // times that MaxHeld was reached
	EventsLost  uint64 // that found DeviceConfig.Events full
}

// Use tells how much of the device is in use.
func (d *Device) Use() DeviceUse {
	return DeviceUse{
		Quota: d.manager.use(&d.manager.device), Connections: d.connects.Load(), Held: d.held.used.Load(),
		HeldRefused: d.held.refused.Load(), EventsLost: d.eventsLost.Load(),
	}
}

// PD is a protection domain: a set of queue pairs and memory regions that belong
// together. A peer reaches a region only through a connection of the same domain
// (https://www.rfc-editor.org/rfc/rfc5041#section-8.2).
type PD struct {
	dev    *Device
	tenant *Tenant
	acct   account
	id     ddp.PD
	used   atomic.Int64 // QPs, SRQs, regions and windows
	auto   atomic.Bool  // closes with the last of them: the own domain of a connection that has ended
	done   atomic.Bool
}

// NewPD makes a protection domain.
func (d *Device) NewPD() (*PD, error) {
	if err := d.made(); err != nil {
		return nil, err
	}
	return d.newPD(d.own)
}

func (d *Device) newPD(t *Tenant) (*PD, error) {
	if err := d.manager.take(resPD, 1, &t.acct, nil); err != nil {
		return nil, err
	}
	// Rule: SEC-6.1.1-01
	return &PD{dev: d, tenant: t, acct: account{holder: "protection domain"}, id: ddp.PD(d.lastPD.Add(1))}, nil
}

// Device returns the device that the domain belongs to.
func (p *PD) Device() *Device { return p.dev }

// Close gives the domain back. It fails with [ErrInUse] while it has queue pairs
// or regions. Nothing can be made in it afterwards: the error is [net.ErrClosed].
func (p *PD) Close() error {
	if err := p.made(); err != nil {
		return err
	}
	if n := p.used.Load(); n > 0 {
		return fmt.Errorf("%w: the protection domain has %d QPs and regions", ErrInUse, n)
	}
	if p.done.CompareAndSwap(false, true) {
		p.dev.manager.end(&p.acct)
		p.dev.manager.give(resPD, 1, &p.tenant.acct, nil)
	}
	return nil
}

// leave notes that a QP or region of the domain is gone.
func (p *PD) leave() {
	if p.used.Add(-1) == 0 && p.auto.Load() {
		_ = p.Close()
	}
}
