package ipsec_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/go-iwarp/iwarp/ipsec"
)

// The CRC is left out under IPsec, and only there. Data flows either way.
// Shows: MPA-4.4-05, MPA-4.4-04
func TestKernelCRC(t *testing.T) {
	a, b := hosts(t)
	v4 := esp4(a, b)
	v6 := ends{a.v6, b.v6, netlink.XFRM_MODE_TRANSPORT}
	tunnel := func(e ends) ends { e.mode = netlink.XFRM_MODE_TUNNEL; return e }
	both := func(e ends, assoc func(ends, int) *netlink.XfrmState, change func(*netlink.XfrmPolicy)) func() error {
		return func() error {
			return errors.Join(a.install(e, 0x1001, 0x1002, assoc, change),
				b.install(e.turned(), 0x1002, 0x1001, assoc, change))
		}
	}
	exempt := func(mask uint16) func() error {
		return func() error {
			return errors.Join(
				both(v4, gcm, nil)(),
				a.bypass(v4, netlink.XFRM_DIR_OUT, serverPort, mask), b.bypass(v4, netlink.XFRM_DIR_IN, serverPort,
					mask))
		}
	}
	use := func(p *netlink.XfrmPolicy) { p.Tmpls[0].Optional = 1 }
	for _, c := range []struct {
		name  string
		e     ends
		setup func() error
		crc   bool
		esp   bool // the packets are in ESP
	}{
		{"no IPsec", v4, func() error { return nil }, true, false},
		{"transport, AES-GCM", v4, both(v4, gcm, nil), false, true},
		{"transport, AES-GCM, ESN", v4, both(v4, gcmESN, nil), false, true},
		{"transport, AES-CBC, HMAC-SHA-256", v4, both(v4, cbc, nil), false, true},
		{"transport, NULL, HMAC-SHA-1", v4, both(v4, integrityOnly, nil), false, true},
		{"tunnel, AES-GCM", v4, both(tunnel(v4), gcm, nil), false, true},
		{"IPv6 transport, AES-GCM", v6, both(v6, gcm, nil), false, true},
		{"IPv6 tunnel, AES-CBC, HMAC-SHA-256", v6, both(tunnel(v6), cbc, nil), false, true},
		{"encryption without integrity", v4, both(v4, encryptOnly, nil), true, true},
		{"level use", v4, both(v4, gcm, use), true, true},
		{"bypass of the port", v4, exempt(0xffff), true, true}, // one way
		{"bypass of a range of ports", v4, exempt(0xff00), true, true},
		{"IPv4 under IPsec, IPv6 not", v6, both(v4, gcm, nil), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := errors.Join(a.flush(), b.flush(), c.setup()); err != nil {
				t.Fatal(err)
			}
			client, server := dial(t, a, b, c.e, device(t, a), device(t, b))
			if client.ConnectionState().CRC != c.crc || server.ConnectionState().CRC != c.crc {
				t.Errorf("CRC is %v, want %v", client.ConnectionState().CRC, c.crc)
			}
			exercise(t, client, server)
			n, err := a.packets()
			if err != nil || (n > 0) != c.esp {
				t.Errorf("%d packets in ESP, %v; want some: %v", n, err, c.esp)
			}
		})
	}
	t.Run("only one end has the policy", func(t *testing.T) {
		if err := errors.Join(a.flush(), b.flush(), both(v4, gcm, nil)()); err != nil {
			t.Fatal(err)
		}
		client, server := dial(t, a, b, v4, device(t, a), nil)
		if !client.ConnectionState().CRC {
			t.Error("the CRC is off although one end wants it")
		}
		exercise(t, client, server)
	})
}

// What needs no connection.
func TestKernelCheck(t *testing.T) {
	a, b := hosts(t)
	e := esp4(a, b)
	for _, c := range []struct {
		name  string
		setup func() error
		want  string // part of the reason; empty: covered
	}{
		{"covered", func() error { return a.install(e, 1<<12, 2<<12, gcm, nil) }, ""},
		{"AH only", func() error {
			return a.install(e, 1<<12, 2<<12, gcm,
				func(p *netlink.XfrmPolicy) { p.Tmpls[0].Proto = netlink.XFRM_PROTO_AH })
		}, "no ESP"},
		{"block", func() error {
			return a.install(e, 1<<12, 2<<12, gcm,
				func(p *netlink.XfrmPolicy) { p.Action, p.Tmpls = netlink.XFRM_POLICY_BLOCK, nil })
		}, "blocks"},
		{"mark", func() error {
			return a.install(e, 1<<12, 2<<12, gcm,
				func(p *netlink.XfrmPolicy) { p.Mark = &netlink.XfrmMark{Value: 1, Mask: 1} })
		}, "certain"},
		{"one direction", func() error {
			return a.do(func() error {
				return errors.Join(netlink.XfrmStateAdd(gcm(e, 1<<12)),
					netlink.XfrmPolicyAdd(policy(e, netlink.XFRM_DIR_OUT)))
			})
		}, "in: no policy"},
		{"policy without associations", func() error {
			return a.do(func() error {
				return errors.Join(netlink.XfrmPolicyAdd(policy(e, netlink.XFRM_DIR_OUT)),
					netlink.XfrmPolicyAdd(policy(e.turned(), netlink.XFRM_DIR_IN)))
			})
		}, "no association"},
		{"settings of the interface", func() error {
			return errors.Join(a.install(e, 1<<12, 2<<12, gcm, nil), a.do(func() error {
				return os.WriteFile("/proc/sys/net/ipv4/conf/"+link+"/disable_policy", []byte("1"), 0)
			}))
		}, "disable_policy of interface " + link},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := errors.Join(a.flush(), c.setup()); err != nil {
				t.Fatal(err)
			}
			answer, err := (&ipsec.Checker{Kernel: a}).Check(ipsec.Flow{
				Local: netip.AddrPortFrom(e.local, 40000), Remote: netip.AddrPortFrom(e.remote, serverPort),
			})
			t.Logf("%+v, %v", answer, err)
			if err != nil || answer.Covered != (c.want == "") || !strings.Contains(answer.Reason, c.want) {
				t.Errorf("want %q", c.want)
			}
		})
	}
}

// The loopback interface: policies do not reach it.
func TestKernelLoopback(t *testing.T) {
	a, _ := hosts(t)
	self := ends{a.v4, a.v4, netlink.XFRM_MODE_TRANSPORT}
	if err := errors.Join(a.flush(), a.do(func() error {
		return errors.Join(netlink.XfrmStateAdd(gcm(self, 0x1001)),
			netlink.XfrmPolicyAdd(policy(self, netlink.XFRM_DIR_OUT)), netlink.XfrmPolicyAdd(policy(self,
				netlink.XFRM_DIR_IN)))
	})); err != nil {
		t.Fatal(err)
	}
	client, server := dial(t, a, a, self, device(t, a), device(t, a))
	if !client.ConnectionState().CRC {
		t.Error("the CRC is off on the loopback interface")
	}
	exercise(t, client, server)
	if n, err := a.packets(); n > 0 || err != nil {
		t.Errorf("%d packets in ESP, %v: then loopback has IPsec", n, err)
	}
}

// Associations that go away are no reason to drop a connection: it waits, and
// goes on with new ones.
// Shows: IPSEC-3-02, MPA-9.4-02, DDP-8.4.2-04
func TestKernelAssociationsReplaced(t *testing.T) {
	a, b := hosts(t)
	e := esp4(a, b)
	if err := errors.Join(a.flush(), a.install(e, 0x1001, 0x1002, gcm, nil),
		b.install(e.turned(), 0x1002, 0x1001, gcm, nil)); err != nil {
		t.Fatal(err)
	}
	client, server := dial(t, a, b, e, device(t, a), device(t, b))
	message(t, client, server, "before")
	deleteAll := func() error { return netlink.XfrmStateFlush(0) }
	if err := errors.Join(a.do(deleteAll), b.do(deleteAll)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := client.Send(ctx, []byte("meanwhile")); err != nil { // the kernel takes it
		t.Fatal(err)
	}
	add := func(e ends, out, in int) func() error {
		return func() error {
			return errors.Join(netlink.XfrmStateAdd(gcm(e, out)), netlink.XfrmStateAdd(gcm(e.turned(), in)))
		}
	}
	if err := errors.Join(a.do(add(e, 0x2001, 0x2002)), b.do(add(e.turned(), 0x2002, 0x2001))); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	m, err := server.Recv(ctx, buf)
	if err != nil || string(buf[:m.Length]) != "meanwhile" {
		t.Fatalf("received %q, %v", buf[:m.Length], err)
	}
	exercise(t, client, server)
}
