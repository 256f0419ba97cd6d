package iwarp_test

import (
	"errors"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// Without a word from the program, connections share neither a domain nor a
// completion queue, and an STag is of the one connection.
// Shows: SEC-6.1.1-01, DDP-8.2-03, SEC-7.1-01, RDMAP-8.1.1-09
func TestNothingIsSharedByDefault(t *testing.T) {
	d := newDevice(t, nil)
	a1, b1 := tcpPair(t, nil, &iwarp.Config{Device: d})
	_, b2 := tcpPair(t, nil, &iwarp.Config{Device: d})
	if b1.PD() == b2.PD() {
		t.Error("two connections are in one domain")
	}
	queues := map[*iwarp.CQ]bool{}
	for _, c := range []*iwarp.Conn{b1, b2} {
		queues[c.QP().SendCQ()], queues[c.QP().RecvCQ()] = true, true
	}
	pd := must(d.NewPD())(t)
	for range 2 {
		qp := must(pd.NewQP(nil))(t)
		queues[qp.SendCQ()], queues[qp.RecvCQ()] = true, true
	}
	if len(queues) != 8 {
		t.Errorf("%d completion queues for 4 QPs", len(queues))
	}
	// Even the STag of the other connection's whole domain.
	mr := must(b2.PD().NewMR(make([]byte, 8), iwarp.RemoteRead, nil))(t)
	defer mr.Close()
	wantCode(t, a1.RDMARead(testContext(t), make([]byte, 8), mr.Remote()), protocol.RDMAPSTagNotAssociated, true)
	if _, err := ddp.NewTable(0).Register(ddp.RegionConfig{Buf: make([]byte, 8)}); !errors.Is(err, ddp.ErrNoPD) {
		t.Errorf("an STag of no domain: %v", err)
	}
}

// The device's manager is the only way to scarce resources: each kind is counted
// for the tenant that has it, its end for one is not the end for another, and
// tenants reach nothing of each other's.
// Shows: DDP-8.3-05, DDP-8.3.2-03, RDMAP-8.1.2-01, RDMAP-8.1.2-02, SEC-3-01
func TestTenantsApart(t *testing.T) {
	d := newDevice(t,
		&iwarp.DeviceConfig{MaxPD: 20, MaxQP: 20, MaxCQ: 40, MaxMR: 20, MaxEntries: 10_000, MaxOctets: 10_000})
	reserve := iwarp.Quota{PDs: 2, QPs: 2, CQs: 4, MRs: 2, Entries: 2000, Octets: 1000}
	greedy := must(d.NewTenant(iwarp.TenantConfig{Name: "greedy"}))(t)
	modest := must(d.NewTenant(iwarp.TenantConfig{Name: "modest", Reserve: reserve}))(t)
	pd := must(greedy.NewPD())(t)
	theirs := must(greedy.NewCQ(10))(t)
	for name, take := range map[string]func() error{
		"PD": func() error { _, err := greedy.NewPD(); return err },
		"QP": func() error { _, err := pd.NewQP(&iwarp.QPConfig{SendDepth: 1, RecvDepth: 1}); return err },
		"CQ": func() error { _, err := greedy.NewCQ(1); return err },
		"MR": func() error { _, err := pd.NewMR(make([]byte, 1), 0, nil); return err },
		"octets": func() error {
			mr, err := pd.NewMR(make([]byte, 9500), 0, nil)
			if err == nil {
				mr.Close()
			}
			return err
		},
		"entries": func() error { _, err := greedy.NewCQ(9000); return err },
	} {
		var err error
		for range 100 {
			if err = take(); err != nil {
				break
			}
		}
		var limit *iwarp.LimitError
		if !errors.As(err, &limit) || !errors.Is(err, iwarp.ErrLimit) {
			t.Errorf("%s: no end: %v", name, err)
		}
	}
	// All that the other was promised is there still.
	mine := must(modest.NewPD())(t)
	must(modest.NewPD())(t)
	qp := must(mine.NewQP(&iwarp.QPConfig{SendDepth: 100, RecvDepth: 100}))(t)
	must(mine.NewQP(&iwarp.QPConfig{SendDepth: 100, RecvDepth: 100}))(t)
	must(mine.NewMR(make([]byte, 1000), iwarp.RemoteRead, &iwarp.MROptions{QP: qp}))(t)
	// And nothing of it is for others to use.
	if _, err := pd.NewMR(nil, 0, &iwarp.MROptions{QP: qp}); err == nil {
		t.Error("a region bound to a QP of another tenant")
	}
	if _, err := mine.NewQP(&iwarp.QPConfig{SendCQ: theirs}); !errors.Is(err, iwarp.ErrInvalidWR) && err == nil {
		t.Error("a QP with a completion queue of another tenant")
	}
	if u := modest.Use(); u.QPs != 2 || u.PDs != 2 || u.MRs != 1 || u.Octets != 1000 {
		t.Errorf("in use: %+v", u)
	}
}
