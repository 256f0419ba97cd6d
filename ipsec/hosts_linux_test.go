package ipsec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/ipsec"
)

// These tests ask a real kernel, in two network namespaces of their own with a
// link between them, and change nothing outside of these. guest-test.sh runs them
// in a guest.

// patience bounds what a test waits for when something has gone wrong.
const patience = 60 * time.Second

// host is a network namespace that plays a host.
type host struct {
	ns     netns.NsHandle
	v4, v6 netip.Addr
}

// do runs f on a thread in the namespace. The thread ends with it.
func (h *host) do(f func() error) error {
	ch := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := netns.Set(h.ns); err != nil {
			ch <- err
			return
		}
		ch <- f()
	}()
	return <-ch
}

// Policies, States and Exempt make the host a kernel for a checker.
func (h *host) Policies() (list []ipsec.Policy, err error) {
	err = h.do(func() (err error) { list, err = system().Policies(); return err })
	return list, err
}

func (h *host) States() (list []ipsec.State, err error) {
	err = h.do(func() (err error) { list, err = system().States(); return err })
	return list, err
}

func (h *host) Exempt(l, r netip.Addr) (why string, err error) {
	err = h.do(func() (err error) { why, err = system().Exempt(l, r); return err })
	return why, err
}

func system() ipsec.Kernel {
	k, err := ipsec.System()
	if err != nil {
		panic(err) // not on Linux
	}
	return k
}

// newNamespace makes a network namespace with its loopback interface up.
func newNamespace(t *testing.T) *host {
	t.Helper()
	h := &host{}
	ch := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		var err error
		if h.ns, err = netns.New(); err == nil {
			var lo netlink.Link
			if lo, err = netlink.LinkByName("lo"); err == nil {
				err = netlink.LinkSetUp(lo)
			}
		}
		ch <- err
	}()
	if err := <-ch; err != nil {
		if errors.Is(err, unix.EPERM) {
			t.Skip("no network namespace can be made: ", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.ns.Close() })
	return h
}

const link = "iw0"

// hosts makes two hosts with a link between them, or skips the test.
func hosts(t *testing.T) (a, b *host) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to make network namespaces and IPsec policies")
	}
	a, b = newNamespace(t), newNamespace(t)
	a.v4, b.v4 = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	a.v6, b.v6 = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	if err := connect(t, a, b); err != nil {
		t.Skip("no link between two namespaces can be made: ", err)
	}
	for _, h := range []*host{a, b} {
		if err := h.do(h.configure); err != nil {
			t.Fatal(err)
		}
	}
	err := a.do(func() error { return netlink.XfrmStateAdd(gcm(esp4(a, b), 0x1000)) })
	if err != nil {
		t.Skip("the kernel has no ESP: ", err)
	}
	return a, b
}

// connect links the hosts by veth, or else by GRE over the loopback interface of
// a third namespace.
func connect(t *testing.T, a, b *host) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = link
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: link, PeerNamespace: netlink.NsFd(int(b.ns))}
	verr := a.do(func() error { return netlink.LinkAdd(veth) })
	if verr == nil {
		return nil
	}
	middle := newNamespace(t)
	return middle.do(func() error {
		x, y := net.IPv4(127, 0, 0, 1).To4(), net.IPv4(127, 0, 0, 2).To4()
		for _, e := range []struct {
			h             *host
			local, remote net.IP
		}{{a, x, y}, {b, y, x}} {
			gre := &netlink.Gretun{LinkAttrs: attrs, Local: e.local, Remote: e.remote}
			if err := netlink.LinkAdd(gre); err != nil {
				return fmt.Errorf("veth: %w; GRE: %w", verr, err)
			}
			l, err := netlink.LinkByName(link)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetNsFd(l, int(e.h.ns)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (h *host) configure() error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetMTU(l, 1400); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return err
	}
	for _, ip := range []netip.Addr{h.v4, h.v6} {
		n := &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen()-8, ip.BitLen())}
		if err := netlink.AddrAdd(l, &netlink.Addr{IPNet: n, Flags: unix.IFA_F_NODAD}); err != nil {
			return err
		}
	}
	return nil
}

// ends are the addresses of the two hosts in one family.
type ends struct {
	local, remote netip.Addr
	mode          netlink.Mode
}

func esp4(a, b *host) ends { return ends{a.v4, b.v4, netlink.XFRM_MODE_TRANSPORT} }

func (e ends) turned() ends { return ends{e.remote, e.local, e.mode} }

// state returns an association without algorithms.
func state(e ends, spi int) *netlink.XfrmState {
	return &netlink.XfrmState{
		Src: e.local.AsSlice(), Dst: e.remote.AsSlice(), Proto: netlink.XFRM_PROTO_ESP, Mode: e.mode,
		Spi: spi, Reqid: 1, ReplayWindow: 32,
	}
}

var key = bytes.Repeat([]byte{7}, 36)

func gcm(e ends, spi int) *netlink.XfrmState {
	s := state(e, spi)
	s.Aead = &netlink.XfrmStateAlgo{Name: "rfc4106(gcm(aes))", Key: key[:20], ICVLen: 128}
	return s
}

func gcmESN(e ends, spi int) *netlink.XfrmState {
	s := gcm(e, spi)
	s.ESN = true
	return s
}

func cbc(e ends, spi int) *netlink.XfrmState {
	s := encryptOnly(e, spi)
	s.Auth = &netlink.XfrmStateAlgo{Name: "hmac(sha256)", Key: key[:32], TruncateLen: 128}
	return s
}

func integrityOnly(e ends, spi int) *netlink.XfrmState {
	s := state(e, spi)
	s.Crypt = &netlink.XfrmStateAlgo{Name: "ecb(cipher_null)"}
	s.Auth = &netlink.XfrmStateAlgo{Name: "hmac(sha1)", Key: key[:20], TruncateLen: 96}
	return s
}

func encryptOnly(e ends, spi int) *netlink.XfrmState {
	s := state(e, spi)
	s.Crypt = &netlink.XfrmStateAlgo{Name: "cbc(aes)", Key: key[:16]}
	return s
}

// policy returns the policy for packets from e.local to e.remote.
func policy(e ends, dir netlink.Dir) *netlink.XfrmPolicy {
	one := func(a netip.Addr) *net.IPNet {
		return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
	}
	return &netlink.XfrmPolicy{
		Src: one(e.local), Dst: one(e.remote), Dir: dir, Priority: 1000,
		Tmpls: []netlink.XfrmPolicyTmpl{{
			Src: e.local.AsSlice(), Dst: e.remote.AsSlice(), Proto: netlink.XFRM_PROTO_ESP, Mode: e.mode, Reqid: 1,
		}},
	}
}

// flush takes all policies and associations away.
func (h *host) flush() error {
	return h.do(func() error {
		return errors.Join(netlink.XfrmPolicyFlush(), netlink.XfrmStateFlush(0))
	})
}

// install puts the policies and associations of one host: e is as it sees it, and
// spi those of what it sends and receives. change is applied to each policy.
func (h *host) install(e ends, out, in int, assoc func(ends, int) *netlink.XfrmState,
	change func(*netlink.XfrmPolicy),
) error {
	return h.do(func() error {
		if err := netlink.XfrmStateAdd(assoc(e, out)); err != nil {
			return fmt.Errorf("association out: %w", err)
		}
		if err := netlink.XfrmStateAdd(assoc(e.turned(), in)); err != nil {
			return fmt.Errorf("association in: %w", err)
		}
		for _, p := range []*netlink.XfrmPolicy{
			policy(e, netlink.XFRM_DIR_OUT), policy(e.turned(), netlink.XFRM_DIR_IN),
		} {
			if change != nil {
				change(p)
			}
			if err := netlink.XfrmPolicyAdd(p); err != nil {
				return fmt.Errorf("policy %v: %w", p.Dir, err)
			}
		}
		return nil
	})
}

// packets counts what the associations of a host have carried.
func (h *host) packets() (n uint64, err error) {
	err = h.do(func() error {
		list, err := netlink.XfrmStateList(netlink.FAMILY_ALL)
		for i := range list {
			n += list[i].Statistics.Packets
		}
		return err
	})
	return n, err
}

// bypass lets packets of one port of the server's, or of all that agree with it in
// the bits of mask, pass as they are, before all other policies. The netlink
// library cannot write masks: it is put together here.
func (h *host) bypass(e ends, dir netlink.Dir, port, mask uint16) error {
	return h.do(func() error {
		u := nl.XfrmUserpolicyInfo{Priority: 1, Dir: uint8(dir)}
		u.Lft = nl.XfrmLifetimeCfg{
			SoftByteLimit: nl.XFRM_INF, HardByteLimit: nl.XFRM_INF, SoftPacketLimit: nl.XFRM_INF,
			HardPacketLimit: nl.XFRM_INF,
		}
		u.Sel.Family, u.Sel.PrefixlenS, u.Sel.PrefixlenD = unix.AF_INET, 32, 32
		u.Sel.Saddr.FromIP(e.local.AsSlice())
		u.Sel.Daddr.FromIP(e.remote.AsSlice())
		u.Sel.Dport, u.Sel.DportMask = nl.Swap16(port&mask), nl.Swap16(mask)
		req := nl.NewNetlinkRequest(nl.XFRM_MSG_NEWPOLICY, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
		req.AddData(&u)
		_, err := req.Execute(unix.NETLINK_XFRM, 0)
		return err
	})
}

func device(t *testing.T, h *host) *iwarp.Device {
	t.Helper()
	checker := &ipsec.Checker{Kernel: h}
	d, err := iwarp.NewDevice(&iwarp.DeviceConfig{CRCSuppression: &iwarp.CRCSuppression{
		Protection: "ESP between the hosts",
		Covers: func(ctx context.Context, l, r net.Addr) (bool, error) {
			ok, err := checker.Covers(ctx, l, r)
			a, _ := checker.Check(ipsec.Flow{Local: l.(*net.TCPAddr).AddrPort(), Remote: r.(*net.TCPAddr).AddrPort()})
			t.Logf("%v to %v: %v, %s, error %v", l, r, ok, a.Reason, err)
			return ok, err
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// dial connects two hosts by iWARP; the server's port is given, so that policies
// can name it.
func dial(t *testing.T, a, b *host, e ends, ad, bd *iwarp.Device) (client, server *iwarp.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	address := netip.AddrPortFrom(e.remote, serverPort).String()
	var tl net.Listener
	err := b.do(func() (err error) { tl, err = net.Listen("tcp", address); return err })
	if err != nil {
		t.Fatal(err)
	}
	ln, err := iwarp.NewListener(tl, &iwarp.Config{Device: bd})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var nc net.Conn
	err = a.do(func() (err error) { nc, err = (&net.Dialer{}).DialContext(ctx, "tcp", address); return err })
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		c   *iwarp.Conn
		err error
	}
	ch := make(chan result, 1)
	go func() {
		c, err := ln.Accept(ctx)
		ch <- result{c, err}
	}()
	client, err = iwarp.Client(ctx, nc, &iwarp.Config{Device: ad})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Abort)
	r := <-ch
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(r.c.Abort)
	return client, r.c
}

const serverPort = 4420

// exercise moves data both ways.
func exercise(t *testing.T, client, server *iwarp.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	data := bytes.Repeat([]byte("iWARP under ESP "), 1<<14) // 256 KiB
	target := make([]byte, len(data))
	mr, err := server.NewMR(target, iwarp.RemoteWrite|iwarp.RemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	defer mr.Close()
	if err := client.RDMAWrite(ctx, data, mr.Remote()); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(data))
	if err := client.RDMARead(ctx, got, mr.Remote()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data) {
		t.Error("what was read is not what was written")
	}
	message(t, client, server, "done")
}

func message(t *testing.T, from, to *iwarp.Conn, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := from.Send(ctx, []byte(text)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	m, err := to.Recv(ctx, buf)
	if err != nil || string(buf[:m.Length]) != text {
		t.Fatalf("received %q, %v", buf[:m.Length], err)
	}
}
