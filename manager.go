package iwarp

import (
	"fmt"
	"net"
	"slices"
	"sync"
)

// This file is the privileged resource manager of RFC 5041 section 8.2 and RFC
// 5042 section 3: it alone hands out the scarce resources of a device, counts
// them for each tenant and protection domain, and keeps one tenant from taking
// what was promised to another.

// resource is a kind of thing that the manager counts.
type resource int

const (
	resPD resource = iota
	resQP
	resCQ
	resMR
	resEntries
	resOctets
	numResources
)

var resourceNames = [numResources]string{
	"protection domains", "queue pairs", "completion queues", "memory regions and windows", "queue entries",
	"registered octets",
}

// Quota is an amount of each resource. Zero means no bound in Tenant and PD
// maxima, and nothing in reserves.
type Quota struct {
	PDs     int64 // protection domains
	QPs     int64 // queue pairs, and so connections
	CQs     int64 // completion queues
	MRs     int64 // memory regions and windows
	Entries int64 // entries of send, receive, shared receive and completion queues
	Octets  int64 // registered octets, as often as they are registered
}

type amounts [numResources]int64

func (q Quota) amounts() amounts {
	return amounts{q.PDs, q.QPs, q.CQs, q.MRs, q.Entries, q.Octets}
}

func (a amounts) quota() Quota {
	return Quota{
		PDs: a[resPD], QPs: a[resQP], CQs: a[resCQ], MRs: a[resMR], Entries: a[resEntries], Octets: a[resOctets],
	}
}

// LimitError says which limit refused a resource. It matches [ErrLimit].
type LimitError struct {
	Resource string // e.g. "memory regions"
	Holder   string // whose limit it is: "device", "tenant NAME", "protection domain"
	Limit    int64  // the limit; for the device, what is not reserved for others
	Used     int64  // of it, before the request
	Asked    int64
}

// Error names resource, holder and numbers.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%v: %s of the %s: %d of %d in use, %d asked for", ErrLimit, e.Resource, e.Holder, e.Used,
		e.Limit, e.Asked)
}

// Unwrap returns [ErrLimit].
func (e *LimitError) Unwrap() error { return ErrLimit }

// account counts what one holder uses.
type account struct {
	holder  string
	used    amounts
	max     amounts // 0: none
	reserve amounts
	closed  bool
}

func (a *account) check(r resource, n int64) error {
	if a.closed {
		return fmt.Errorf("iwarp: %s: %w", a.holder, net.ErrClosed)
	}
	// Rule: DDP-8.3.2-02
	if limit := a.max[r]; limit > 0 && n > limit-a.used[r] {
		return &LimitError{Resource: resourceNames[r], Holder: a.holder, Limit: limit, Used: a.used[r], Asked: n}
	}
	return nil
}

// manager counts the resources of a device.
type manager struct {
	mu      sync.Mutex
	device  account
	tenants []*account
}

// take counts n of r for all accounts, or for none.
func (m *manager) take(r resource, n int64, tenant, pd *account) error {
	// Rule: DDP-8.3-05, DDP-8.3.2-01, RDMAP-8.1.2-01, SEC-3-01, SEC-6.4.1-01
	m.mu.Lock()
	defer m.mu.Unlock()
	if pd != nil {
		if err := pd.check(r, n); err != nil {
			return err
		}
	}
	if err := tenant.check(r, n); err != nil {
		return err
	}
	if limit := m.device.max[r]; limit > 0 {
		// What the others were promised and do not use yet is not to be had.
		// Rule: RDMAP-8.1.2-05
		for _, t := range m.tenants {
			if t != tenant {
				limit -= max(0, t.reserve[r]-t.used[r])
			}
		}
		if n > limit-m.device.used[r] {
			return &LimitError{
				Resource: resourceNames[r], Holder: m.device.holder, Limit: limit, Used: m.device.used[r], Asked: n,
			}
		}
	}
	m.add(r, n, tenant, pd)
	return nil
}

// end refuses everything that is asked for on an account from now on.
func (m *manager) end(a *account) {
	m.mu.Lock()
	a.closed = true
	m.mu.Unlock()
}

func (m *manager) give(r resource, n int64, tenant, pd *account) {
	m.mu.Lock()
	m.add(r, -n, tenant, pd)
	m.mu.Unlock()
}

func (m *manager) add(r resource, n int64, tenant, pd *account) {
	m.device.used[r] += n
	tenant.used[r] += n
	if pd != nil {
		pd.used[r] += n
	}
}

func (m *manager) use(a *account) Quota {
	m.mu.Lock()
	defer m.mu.Unlock()
	return a.used.quota()
}

// setMax changes an account's maxima. What is used already stays.
func (m *manager) setMax(a *account, q Quota) {
	m.mu.Lock()
	a.max = q.amounts()
	m.mu.Unlock()
}

// TenantConfig configures a [Tenant].
type TenantConfig struct {
	Name string // for errors and logs
	// Max bounds what the tenant may use; zero fields are unbounded.
	Max Quota
	// Reserve is kept for the tenant: others cannot use it, even while it does not.
	// It is how a device is shared fairly: reserve for each what it must always be
	// able to get, and leave the rest to whoever comes first.
	Reserve Quota
}

// Tenant is one of several users of a device that do not trust each other. Its
// protection domains and completion queues, and all that is made in them, count
// against its quota. Device.NewPD and Device.NewCQ belong to a tenant without
// quota, which the device has from the start.
type Tenant struct {
	dev  *Device
	acct account
}

// NewTenant makes a tenant. It fails with a *[LimitError] when the device cannot
// keep the reserve, because it is in use or reserved for others.
func (d *Device) NewTenant(cfg TenantConfig) (*Tenant, error) {
	if err := d.made(); err != nil {
		return nil, err
	}
	t := &Tenant{
		dev: d, acct: account{holder: "tenant " + cfg.Name, max: cfg.Max.amounts(), reserve: cfg.Reserve.amounts()},
	}
	m := &d.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	for r := range numResources {
		limit := m.device.max[r]
		if limit == 0 {
			continue
		}
		for _, other := range m.tenants {
			limit -= max(0, other.reserve[r]-other.used[r])
		}
		if t.acct.reserve[r] > limit-m.device.used[r] {
			return nil, &LimitError{
				Resource: resourceNames[r], Holder: m.device.holder, Limit: limit, Used: m.device.used[r],
				Asked: t.acct.reserve[r],
			}
		}
	}
	m.tenants = append(m.tenants, &t.acct)
	return t, nil
}

// Close gives the reserve back. It fails with [ErrInUse] while the tenant has
// anything. The tenant gets nothing more afterwards: the error is [net.ErrClosed].
func (t *Tenant) Close() error {
	if err := t.made(); err != nil {
		return err
	}
	m := &t.dev.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.acct.used != (amounts{}) {
		return fmt.Errorf("%w: %s has %+v", ErrInUse, t.acct.holder, t.acct.used.quota())
	}
	t.acct.closed = true
	m.tenants = slices.DeleteFunc(m.tenants, func(a *account) bool { return a == &t.acct })
	return nil
}

// Use tells what the tenant uses.
func (t *Tenant) Use() Quota { return t.dev.manager.use(&t.acct) }

// NewPD makes a protection domain of the tenant's.
func (t *Tenant) NewPD() (*PD, error) {
	if err := t.made(); err != nil {
		return nil, err
	}
	return t.dev.newPD(t)
}

// NewCQ makes a completion queue of the tenant's: see [Device.NewCQ].
func (t *Tenant) NewCQ(depth int) (*CQ, error) {
	if err := t.made(); err != nil {
		return nil, err
	}
	return t.dev.newCQ(t, depth)
}

// SetQuota bounds what the domain may use from now on, whatever its tenant may:
// QPs, MRs, Entries and Octets count; zero fields are unbounded. What is in use
// stays.
func (p *PD) SetQuota(q Quota) { p.dev.manager.setMax(&p.acct, q) }

// Use tells what the domain uses.
func (p *PD) Use() Quota { return p.dev.manager.use(&p.acct) }

// take counts a resource for the domain.
func (p *PD) take(r resource, n int64) error {
	return p.dev.manager.take(r, n, &p.tenant.acct, &p.acct)
}

func (p *PD) give(r resource, n int64) { p.dev.manager.give(r, n, &p.tenant.acct, &p.acct) }
