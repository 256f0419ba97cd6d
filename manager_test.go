package iwarp_test

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
)

func wantLimit(t *testing.T, err error, resource, holder string) {
	t.Helper()
	var le *iwarp.LimitError
	if !errors.As(err, &le) || !errors.Is(err, iwarp.ErrLimit) || le.Resource != resource || le.Holder != holder {
		t.Errorf("error is %v, want the limit of %s of the %s", err, resource, holder)
	}
}

// What is reserved for one tenant is not to be had by another.
// Shows: DDP-8.3.2-05, RDMAP-8.1.2-05, SEC-6.4.1-01, DDP-8.3.2-02
func TestReserve(t *testing.T) {
	d := newDevice(t, &iwarp.DeviceConfig{MaxMR: 10})
	a := must(d.NewTenant(iwarp.TenantConfig{Name: "a", Reserve: iwarp.Quota{MRs: 4}}))(t)
	b := must(d.NewTenant(iwarp.TenantConfig{Name: "b", Reserve: iwarp.Quota{MRs: 3}}))(t)
	if _, err := d.NewTenant(iwarp.TenantConfig{
		Name: "c", Reserve: iwarp.Quota{MRs: 4},
	}); !errors.Is(err, iwarp.ErrLimit) {
		t.Errorf("a reserve that the device has not: %v", err)
	}
	pa, pb := must(a.NewPD())(t), must(b.NewPD())(t)
	greedy := 0
	for {
		if _, err := pa.NewMR(make([]byte, 8), 0, nil); err != nil {
			wantLimit(t, err, "memory regions and windows", "device")
			break
		}
		greedy++
	}
	if greedy != 7 {
		t.Errorf("a got %d of 10 regions, want all but b's three", greedy)
	}
	var mrs []*iwarp.MR
	for range 3 {
		mrs = append(mrs, must(pb.NewMR(make([]byte, 8), 0, nil))(t))
	}
	if _, err := pb.NewMR(nil, 0, nil); err == nil {
		t.Error("an eleventh region of ten")
	}
	if a.Use().MRs != 7 || b.Use().MRs != 3 || d.Use().MRs != 10 || pb.Use() != (iwarp.Quota{MRs: 3, Octets: 24}) {
		t.Errorf("use: a %+v, b %+v, domain %+v, device %+v", a.Use(), b.Use(), pb.Use(), d.Use())
	}
	if err := b.Close(); !errors.Is(err, iwarp.ErrInUse) {
		t.Errorf("Close of a tenant with regions: %v", err)
	}
	for _, mr := range mrs {
		mr.Close()
	}
	check(t, "PD.Close", pb.Close())
	check(t, "Tenant.Close", b.Close())
	for range 3 { // b's reserve is free now
		must(pa.NewMR(nil, 0, nil))(t)
	}
}

// Shows: DDP-8.3.2-01, DDP-8.3.2-02, RDMAP-8.1.2-04
func TestQuota(t *testing.T) {
	d := newDevice(t, &iwarp.DeviceConfig{MaxEntries: 5000, MaxOctets: 1 << 20})
	tenant := must(d.NewTenant(iwarp.TenantConfig{
		Name: "t", Max: iwarp.Quota{PDs: 2, QPs: 3, CQs: 7, MRs: 5, Entries: 2000, Octets: 1000},
	}))(t)
	pd := must(tenant.NewPD())(t)
	must(tenant.NewPD())(t)
	_, err := tenant.NewPD()
	wantLimit(t, err, "protection domains", "tenant t")
	_, err = pd.NewMR(make([]byte, 1001), 0, nil)
	wantLimit(t, err, "registered octets", "tenant t")
	pd.SetQuota(iwarp.Quota{MRs: 1, Octets: 100})
	_, err = pd.NewMR(make([]byte, 101), 0, nil)
	wantLimit(t, err, "registered octets", "protection domain")
	mr := must(pd.NewMR(make([]byte, 100), 0, nil))(t)
	_, err = pd.NewMR(nil, 0, nil)
	wantLimit(t, err, "memory regions and windows", "protection domain")
	mr.Close()
	must(pd.NewMR(nil, 0, nil))(t)
	_, err = tenant.NewCQ(2001)
	wantLimit(t, err, "queue entries", "tenant t")
	for range 3 {
		must(pd.NewQP(&iwarp.QPConfig{SendDepth: 10, RecvDepth: 10}))(t)
	}
	_, err = pd.NewQP(&iwarp.QPConfig{SendDepth: 10, RecvDepth: 10})
	wantLimit(t, err, "queue pairs", "tenant t")
	must(tenant.NewCQ(1))(t)
	_, err = tenant.NewCQ(1)
	wantLimit(t, err, "completion queues", "tenant t")
	if use := tenant.Use(); use != (iwarp.Quota{PDs: 2, QPs: 3, CQs: 7, MRs: 1, Entries: 3*40 + 1}) {
		t.Errorf("use %+v", use)
	}
	_, err = d.NewCQ(5000)
	wantLimit(t, err, "queue entries", "device")
}

// Refused or not, what is counted adds up under contention.
func TestQuotaContention(t *testing.T) {
	d := newDevice(t, &iwarp.DeviceConfig{MaxMR: 100, MaxOctets: 900})
	var wg sync.WaitGroup
	for range 8 {
		pd := must(d.NewPD())(t)
		wg.Go(func() {
			for range 300 {
				var mrs []*iwarp.MR
				for range 30 {
					if mr, err := pd.NewMR(make([]byte, 10), 0, nil); err == nil {
						mrs = append(mrs, mr)
					}
				}
				for _, mr := range mrs {
					mr.Close()
				}
			}
			check(t, "PD.Close", pd.Close())
		})
	}
	wg.Wait()
	if use := d.Use(); use.Quota != (iwarp.Quota{}) {
		t.Errorf("left over: %+v", use)
	}
}

// Shows: DDP-8.3.2-04, RDMAP-8.1.2-03, SEC-7.3-01, DDP-8.3-06
func TestAuthorize(t *testing.T) {
	denied := errors.New("not yours")
	asked := 0
	d := newDevice(t, &iwarp.DeviceConfig{Authorize: func(_ *iwarp.PD, buf []byte, access iwarp.Access) error {
		asked++
		if access&iwarp.RemoteWrite != 0 || len(buf) != 8 {
			return denied
		}
		return nil
	}})
	pd := must(d.NewPD())(t)
	if _, err := pd.NewMR(make([]byte, 8), iwarp.RemoteWrite, nil); !errors.Is(err, denied) {
		t.Errorf("refused rights: %v", err)
	}
	mr := must(pd.NewMR(make([]byte, 8), iwarp.RemoteRead, nil))(t)
	if asked != 2 || d.Use().MRs != 1 {
		t.Errorf("asked %d times, %d regions", asked, d.Use().MRs)
	}
	// No way around it: neither by changing the rights nor by a window.
	if err := mr.SetAccess(iwarp.RemoteWrite); !errors.Is(err, denied) {
		t.Errorf("SetAccess: %v", err)
	}
	check(t, "SetAccess", mr.SetAccess(0))
	qp := must(pd.NewQP(nil))(t)
	tcpPair(t, nil, &iwarp.Config{QP: qp})
	mw := must(qp.NewMW())(t)
	defer mw.Close()
	if err := qp.PostSend(iwarp.SendWR{
		Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Length: 8, Access: iwarp.RemoteWrite},
	}); !errors.Is(err, denied) {
		t.Errorf("bind: %v", err)
	}
	mr.Close()
}

// What is closed hands out nothing more.
func TestClosedHolders(t *testing.T) {
	d := newDevice(t, nil)
	tenant := must(d.NewTenant(iwarp.TenantConfig{Name: "t"}))(t)
	pd := must(tenant.NewPD())(t)
	check(t, "PD.Close", pd.Close())
	check(t, "Tenant.Close", tenant.Close())
	_, mr := pd.NewMR(nil, 0, nil)
	_, qp := pd.NewQP(nil)
	_, srq := pd.NewSRQ(nil)
	_, alloc := tenant.NewPD()
	_, cq := tenant.NewCQ(1)
	for name, err := range map[string]error{"NewMR": mr, "NewQP": qp, "NewSRQ": srq, "NewPD": alloc, "NewCQ": cq} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if use := d.Use(); use.Quota != (iwarp.Quota{}) {
		t.Errorf("left over: %+v", use)
	}
}

// Queues are not shared between those who do not trust each other.
// Shows: SEC-7.1-01, RDMAP-8.1.1-09
func TestForeignQueues(t *testing.T) {
	d := newDevice(t, nil)
	tenant := must(d.NewTenant(iwarp.TenantConfig{Name: "t"}))(t)
	pd, other := must(d.NewPD())(t), must(tenant.NewPD())(t)
	cq := must(tenant.NewCQ(10))(t)
	srq := must(other.NewSRQ(nil))(t)
	for name, cfg := range map[string]*iwarp.QPConfig{
		"SendCQ": {SendCQ: cq}, "RecvCQ": {RecvCQ: cq}, "SRQ": {SRQ: srq},
	} {
		if _, err := pd.NewQP(cfg); !errors.Is(err, iwarp.ErrInvalidWR) {
			t.Errorf("%s of another: %v", name, err)
		}
	}
	must(other.NewQP(&iwarp.QPConfig{SendCQ: cq, RecvCQ: cq, SRQ: srq}))(t)
}

// One address cannot take all places for startups.
// Shows: SEC-6.4.1-01
func TestMaxPendingPerPeer(t *testing.T) {
	ln := must((&iwarp.ListenConfig{
		MaxPending: 100, MaxPendingPerPeer: 2, Config: &iwarp.Config{StartupTimeout: time.Minute},
	}).Listen(t.Context(),
		"tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	silent := make([]net.Conn, 0, 3)
	for range 3 {
		silent = append(silent, must(dialTCP(ln.Addr()))(t))
	}
	// The first is closed at once, long before StartupTimeout.
	check(t, "SetDeadline", silent[0].SetDeadline(deadline()))
	if n, err := silent[0].Read(make([]byte, 1)); n != 0 || isTimeout(err) {
		t.Errorf("the first of three startups of one address: %d octets, %v; want the end", n, err)
	}
	for _, c := range silent {
		_ = c.Close()
	}
}
