package iwarp

import (
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"

	"github.com/go-iwarp/iwarp/ddp"
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
}

func (p *CRCSuppression) covers(peer netip.Addr) bool {
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
}

const maxInline = 1024

// Device is a software RNIC: the table of STags, the limits and the policies
// that its connections share. It has no goroutine and needs no closing. A
// program has as many as it likes; regions and domains of one are unknown to
// the others. All methods may be called from any goroutine.
type Device struct {
	limits   DeviceLimits
	policy   *CRCSuppression
	logger   *slog.Logger
	table    *ddp.Table
	pds      counter
	qps      counter
	cqs      counter
	mrs      counter
	lastPD   atomic.Uint32
	lastQP   atomic.Uint64
	connects atomic.Uint64
}

// NewDevice makes a device. The error names a field of cfg that is out of range.
func NewDevice(cfg *DeviceConfig) (*Device, error) {
	var c DeviceConfig
	if cfg != nil {
		c = *cfg
	}
	if c.CRCSuppression != nil {
		if c.CRCSuppression.Protection == "" {
			return nil, fmt.Errorf("iwarp: CRCSuppression.Protection is empty: name what protects the data instead (RFC 5044 section 4.4)")
		}
		policy := *c.CRCSuppression
		policy.Peers = append([]netip.Prefix(nil), policy.Peers...)
		c.CRCSuppression = &policy
	}
	l := DeviceLimits{MaxInline: maxInline, MaxMessage: 1<<32 - 1}
	for _, f := range [...]struct {
		name          string
		value         int
		def, min, max int
		to            *int
	}{
		{"MaxPD", c.MaxPD, 65536, 1, 1<<31 - 1, &l.MaxPD},
		{"MaxQP", c.MaxQP, 65536, 1, 1<<31 - 1, &l.MaxQP},
		{"MaxCQ", c.MaxCQ, 131072, 1, 1<<31 - 1, &l.MaxCQ},
		{"MaxMR", c.MaxMR, 1 << 20, 1, 1<<24 - 1, &l.MaxMR},
		{"MaxCQE", c.MaxCQE, 1 << 20, 1, 1<<31 - 1, &l.MaxCQE},
		{"MaxWR", c.MaxWR, 65536, 1, 1<<24 - 1, &l.MaxWR},
		{"MaxSGE", c.MaxSGE, 256, 1, 1 << 16, &l.MaxSGE},
		{"MaxRead", c.MaxRead, 1024, 0, 16382, &l.MaxRead},
	} {
		v := f.value
		if v == 0 {
			v = f.def
		}
		if v < f.min || v > f.max {
			return nil, fmt.Errorf("iwarp: DeviceConfig.%s is %d: between %d and %d", f.name, f.value, f.min, f.max)
		}
		*f.to = v
	}
	// Each outstanding Read takes an STag for its sink, beside the regions.
	return &Device{limits: l, policy: c.CRCSuppression, logger: c.Logger, table: ddp.NewTable(0)}, nil
}

// Limits gives the device's limits.
func (d *Device) Limits() DeviceLimits { return d.limits }

// DeviceUse counts what is allocated.
type DeviceUse struct {
	PDs, QPs, CQs, MRs int
	Connections        uint64 // ever made
}

// Use tells how much of the device is in use.
func (d *Device) Use() DeviceUse {
	return DeviceUse{PDs: d.pds.value(), QPs: d.qps.value(), CQs: d.cqs.value(), MRs: d.mrs.value(), Connections: d.connects.Load()}
}

// counter counts a kind of resource against its limit.
type counter struct{ n atomic.Int64 }

func (c *counter) take(what string, limit int) error {
	if c.n.Add(1) > int64(limit) {
		c.n.Add(-1)
		return fmt.Errorf("%w: %s: the device has %d", ErrLimit, what, limit)
	}
	return nil
}

func (c *counter) give()      { c.n.Add(-1) }
func (c *counter) value() int { return int(c.n.Load()) }

// PD is a protection domain: a set of queue pairs and memory regions that belong
// together. A peer reaches a region only through a connection of the same domain
// (https://www.rfc-editor.org/rfc/rfc5041#section-8.2).
type PD struct {
	dev  *Device
	id   ddp.PD
	used atomic.Int64 // QPs and regions
	done atomic.Bool
}

// AllocPD makes a protection domain.
func (d *Device) AllocPD() (*PD, error) {
	if err := d.pds.take("protection domains", d.limits.MaxPD); err != nil {
		return nil, err
	}
	return &PD{dev: d, id: ddp.PD(d.lastPD.Add(1))}, nil
}

// Device gives the device that the domain belongs to.
func (p *PD) Device() *Device { return p.dev }

// Close gives the domain back. It fails with [ErrInUse] while it has queue pairs
// or regions.
func (p *PD) Close() error {
	if n := p.used.Load(); n > 0 {
		return fmt.Errorf("%w: the protection domain has %d QPs and regions", ErrInUse, n)
	}
	if p.done.CompareAndSwap(false, true) {
		p.dev.pds.give()
	}
	return nil
}
