package iwarp_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/protocol"
)

// R46: the rights of a region, one by one, against Write, Read and atomics.
// Shows: RDMAP-8.1.1-05, DDP-8.3.1-04, DDP-7.1-08, RDMAP-7.2-11
func TestRights(t *testing.T) {
	type op struct {
		op   iwarp.Op
		need iwarp.Access
		code protocol.Code
	}
	ops := []op{
		{op: iwarp.OpWrite, need: iwarp.RemoteWrite, code: protocol.DDPTaggedInvalidSTag},
		{op: iwarp.OpRead, need: iwarp.RemoteRead, code: protocol.RDMAPAccess},
		{op: iwarp.OpFetchAdd, need: iwarp.RemoteAtomic, code: protocol.RDMAPAccess},
	}
	for bits := range 8 {
		var access iwarp.Access
		for i, right := range []iwarp.Access{iwarp.RemoteRead, iwarp.RemoteWrite, iwarp.RemoteAtomic} {
			if bits>>i&1 != 0 {
				access |= right
			}
		}
		for _, o := range ops {
			t.Run(fmt.Sprintf("%v/%v", access, o.op), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x, y := pipe(nil)
					a, b := startOn(t, x, y, nil, nil)
					g := newGuarded(64)
					mr := must(b.NewMR(g.mem, access))(t)
					wr := iwarp.SendWR{Op: o.op, Remote: remoteAt(mr, 8), Operand: 1}
					if o.op != iwarp.OpFetchAdd {
						wr.SG = [][]byte{[]byte("12345678")}
					}
					check(t, "PostSend", a.QP().PostSend(wr, iwarp.SendWR{Op: iwarp.OpRead}))
					c := collect(t, a.QP().SendCQ(), 2)
					if access&o.need != 0 {
						check(t, "allowed", c[0].Err)
						check(t, "allowed", c[1].Err)
						return
					}
					wantCode(t, c[1].Err, o.code, true)
					if c[1].Status() == iwarp.StatusSuccess {
						t.Error("success")
					}
					wantDone(t, b)
					wantCode(t, b.Err(), o.code, false)
					g.checkUntouched(t)
				})
			})
		}
	}
}

// What the program does with a region takes effect at once.
// Shows: RDMAP-8.1.1-04, RDMAP-8.1.1-06, DDP-8.3-01, DDP-8.3-02, DDP-8.3.1-05
func TestRegionChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*iwarp.MR)
		code   protocol.Code // 0: still allowed
	}{
		"nothing":    {change: func(*iwarp.MR) {}, code: 0},
		"invalidate": {change: func(m *iwarp.MR) { m.Invalidate() }, code: protocol.DDPTaggedInvalidSTag},
		"close":      {change: func(m *iwarp.MR) { m.Close() }, code: protocol.DDPTaggedInvalidSTag},
		"rights": {
			change: func(m *iwarp.MR) { _ = m.SetAccess(iwarp.RemoteRead) }, code: protocol.DDPTaggedInvalidSTag,
		},
		"more rights": {
			change: func(m *iwarp.MR) { _ = m.SetAccess(iwarp.RemoteRead | iwarp.RemoteWrite) }, code: 0,
		},
		"another key": {
			change: func(m *iwarp.MR) { m.Rekey(uint8(m.STag()) + 1) }, code: protocol.DDPTaggedInvalidSTag,
		},
		"the key again":    {change: func(m *iwarp.MR) { m.Invalidate(); m.Rekey(uint8(m.STag())) }, code: 0},
		"two times closed": {change: func(m *iwarp.MR) { m.Close(); m.Close() }, code: protocol.DDPTaggedInvalidSTag},
	} {
		t.Run(name, func(t *testing.T) {
			x, y := pipe(nil)
			a, b := startOn(t, x, y, nil, nil)
			g := newGuarded(64)
			mr := must(b.NewMR(g.mem, iwarp.RemoteWrite))(t)
			to := mr.Remote()
			c.change(mr)
			ctx := testContext(t)
			check(t, "Write", a.RDMAWrite(ctx, []byte("octets"), to))
			err := a.RDMARead(ctx, nil, iwarp.RemoteBuffer{})
			if c.code == 0 {
				check(t, "the Read behind it", err)
				if string(g.mem[:6]) != "octets" {
					t.Errorf("region has %q", g.mem[:6])
				}
				return
			}
			wantCode(t, err, c.code, true)
			g.checkUntouched(t)
		})
	}
}

// Regions of another domain, of another stream, of another device.
// Shows: RDMAP-8.1.1-01, RDMAP-8.1.1-02, RDMAP-8.1.1-07, DDP-8.2-01, DDP-8.2-02, DDP-8.3.1-01, DDP-8.3.1-02
func TestRegionAssociation(t *testing.T) {
	for _, c := range []struct {
		name        string
		write, read protocol.Code
		region      func(t *testing.T, b *iwarp.QP) *iwarp.MR
	}{
		{name: "own stream", write: 0, read: 0, region: func(t *testing.T, b *iwarp.QP) *iwarp.MR {
			return must(b.PD().NewMR(make([]byte, 8), iwarp.RemoteRead|iwarp.RemoteWrite, &iwarp.MROptions{QP: b}))(t)
		}},
		{name: "domain", write: 0, read: 0, region: func(t *testing.T, b *iwarp.QP) *iwarp.MR {
			return must(b.PD().NewMR(make([]byte, 8), iwarp.RemoteRead|iwarp.RemoteWrite, nil))(t)
		}},
		{
			name: "another stream of the domain", write: protocol.DDPTaggedSTagNotAssociated,
			read: protocol.RDMAPSTagNotAssociated, region: func(t *testing.T, b *iwarp.QP) *iwarp.MR {
				return must(b.PD().NewMR(make([]byte, 8), iwarp.RemoteRead|iwarp.RemoteWrite,
					&iwarp.MROptions{QP: must(b.PD().NewQP(nil))(t)}))(t)
			},
		},
		{
			name: "another domain", write: protocol.DDPTaggedSTagNotAssociated, read: protocol.RDMAPSTagNotAssociated,
			region: func(t *testing.T, b *iwarp.QP) *iwarp.MR {
				return must(must(b.PD().Device().NewPD())(t).NewMR(make([]byte, 8), iwarp.RemoteRead|iwarp.RemoteWrite,
					nil))(t)
			},
		},
		{
			name: "another device", write: protocol.DDPTaggedInvalidSTag, read: protocol.RDMAPInvalidSTag,
			region: func(t *testing.T, _ *iwarp.QP) *iwarp.MR {
				return must(must(newDevice(t, nil).NewPD())(t).NewMR(make([]byte, 8),
					iwarp.RemoteRead|iwarp.RemoteWrite, nil))(t)
			},
		},
	} {
		for _, op := range []iwarp.Op{iwarp.OpWrite, iwarp.OpRead} {
			t.Run(fmt.Sprintf("%s/%v", c.name, op), func(t *testing.T) {
				a, b := qpPair(t, nil, nil)
				mr := c.region(t, b)
				defer mr.Close()
				check(t, "PostSend",
					a.PostSend(iwarp.SendWR{Op: op, SG: [][]byte{make([]byte, 4)}, Remote: mr.Remote()},
						iwarp.SendWR{Op: iwarp.OpRead}))
				err := collect(t, a.SendCQ(), 2)[1].Err
				code := c.write
				if op == iwarp.OpRead {
					code = c.read
				}
				if code == 0 {
					check(t, "the Read behind it", err)
					return
				}
				wantCode(t, err, code, true)
			})
		}
	}
	t.Run("invalidate a domain's region", func(t *testing.T) {
		a, b := qpPair(t, nil, nil)
		mr := must(b.PD().NewMR(make([]byte, 8), iwarp.RemoteRead, nil))(t)
		defer mr.Close()
		check(t, "PostRecv", b.PostRecv(iwarp.RecvWR{}))
		check(t, "PostSend", a.PostSend(iwarp.SendWR{Op: iwarp.OpSendInvalidate, Invalidate: mr.STag()}))
		wantDone(t, a.Conn())
		wantCode(t, a.Conn().Err(), protocol.RDMAPCannotInvalidate, true)
		if !mr.Valid() {
			t.Error("the region was invalidated")
		}
	})
}

// A QP ends by OpInvalidate what it may use, and learns nothing of what it may not.
// Shows: RDMAP-8.1.1-01, RDMAP-8.1.1-02, DDP-8.3.1-01, DDP-8.3.1-02, RDMAP-8.1.2-02, SEC-3-01
func TestInvalidateIsOnesOwn(t *testing.T) {
	d := newDevice(t, nil)
	q := newQP(t, d, nil)
	tcpPair(t, &iwarp.Config{QP: q}, nil)
	peer := newQP(t, d, nil)
	tenant := must(d.NewTenant(iwarp.TenantConfig{Name: "other"}))(t)
	region := func(pd *iwarp.PD, qp *iwarp.QP) *iwarp.MR {
		mr := must(pd.NewMR(make([]byte, 8), iwarp.RemoteWrite, &iwarp.MROptions{QP: qp}))(t)
		t.Cleanup(func() { _ = mr.Close() })
		return mr
	}
	unknown := post(t, q, iwarp.SendWR{Op: iwarp.OpInvalidate, Invalidate: 0}).Err.Error()
	for _, tt := range []struct {
		name string
		mr   *iwarp.MR
		want bool
	}{
		{name: "own", mr: region(q.PD(), q), want: true},
		{name: "own domain's", mr: region(q.PD(), nil), want: true},
		{name: "another QP's of the domain", mr: region(q.PD(), must(q.PD().NewQP(nil))(t)), want: false},
		{name: "another domain's", mr: region(peer.PD(), nil), want: false},
		{name: "another connection's", mr: region(peer.PD(), peer), want: false},
		{name: "another tenant's", mr: region(must(tenant.NewPD())(t), nil), want: false},
		{name: "another device's", mr: region(must(newDevice(t, nil).NewPD())(t), nil), want: false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := post(t, q, iwarp.SendWR{Op: iwarp.OpInvalidate, Invalidate: tt.mr.STag()})
			if tt.want {
				check(t, "OpInvalidate", c.Err)
			} else if c.Err == nil || strings.Replace(c.Err.Error(), tt.mr.STag().String(), iwarp.STag(0).String(),
				1) != unknown {
				t.Errorf("error %v, want as of an unknown STag: %s", c.Err, unknown)
			}
			if tt.mr.Valid() == tt.want {
				t.Errorf("the region is valid: %t", tt.mr.Valid())
			}
		})
	}
}
