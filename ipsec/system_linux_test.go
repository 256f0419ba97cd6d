package ipsec

import (
	"errors"
	"net"
	"net/netip"
	"reflect"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// policyMessage is a policy as the kernel sends it: a range of ports, a mark, an
// interface number, and two templates.
func policyMessage() []byte {
	u := nl.XfrmUserpolicyInfo{Priority: 0xfffffff0, Index: 17, Dir: 1, Action: 1}
	u.Sel = nl.XfrmSelector{
		Sport: nl.Swap16(1024), SportMask: nl.Swap16(0xfc00), Dport: nl.Swap16(4420), DportMask: 0xffff,
		Family: unix.AF_INET, PrefixlenS: 24, PrefixlenD: 32, Proto: 6, Ifindex: 3,
	}
	u.Sel.Saddr.FromIP(net.ParseIP("192.0.2.0"))
	u.Sel.Daddr.FromIP(net.ParseIP("198.51.100.7"))
	var tunnel, transport nl.XfrmUserTmpl
	tunnel.XfrmId.Proto, tunnel.XfrmId.Spi, tunnel.Mode, tunnel.Family, tunnel.Reqid = 50, nl.Swap32(0x1234), 1,
		unix.AF_INET6, 9
	tunnel.Saddr.FromIP(net.ParseIP("2001:db8::1"))
	tunnel.XfrmId.Daddr.FromIP(net.ParseIP("2001:db8::2"))
	transport.XfrmId.Proto, transport.Family, transport.Optional = 51, unix.AF_INET, 1
	m := append([]byte(nil), u.Serialize()...)
	m = append(m,
		nl.NewRtAttr(nl.XFRMA_TMPL,
			append(append([]byte(nil), tunnel.Serialize()...), transport.Serialize()...)).Serialize()...)
	mark := nl.XfrmMark{Value: 5, Mask: 7}
	m = append(m, nl.NewRtAttr(nl.XFRMA_MARK, mark.Serialize()).Serialize()...)
	m = append(m, nl.NewRtAttr(nl.XFRMA_IF_ID, nl.Uint32Attr(21)).Serialize()...)
	return append(m, nl.NewRtAttr(nl.XFRMA_POLICY_TYPE, []byte{1, 0, 0, 0, 0, 0}).Serialize()...)
}

func TestParsePolicy(t *testing.T) {
	got, err := parsePolicy(policyMessage())
	want := Policy{
		Dir: Out, Priority: 0xfffffff0, Index: 17, Block: true, Mark: 5, MarkMask: 7, IfID: 21, Sub: true,
		Selector: Selector{
			Src: netip.MustParsePrefix("192.0.2.0/24"), Dst: netip.MustParsePrefix("198.51.100.7/32"),
			SrcPort: 1024, SrcPortMask: 0xfc00, DstPort: 4420, DstPortMask: 0xffff, Proto: 6, Ifindex: 3,
		},
		Templates: []Template{
			{
				Proto: 50, Mode: Tunnel, Src: netip.MustParseAddr("2001:db8::1"),
				Dst: netip.MustParseAddr("2001:db8::2"), SPI: 0x1234, ReqID: 9,
			},
			{Proto: 51, Src: netip.IPv4Unspecified(), Dst: netip.IPv4Unspecified(), Optional: true},
		},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("policy is %+v, %v; want %+v", got, err, want)
	}
}

// stateMessage is an association as the kernel sends it.
func stateMessage(selector bool, algorithms map[int]string) []byte {
	u := nl.XfrmUsersaInfo{Reqid: 9, Family: unix.AF_INET6, Mode: 1}
	u.Id.Proto, u.Id.Spi = 50, nl.Swap32(0xabcd)
	u.Saddr.FromIP(net.ParseIP("2001:db8::1"))
	u.Id.Daddr.FromIP(net.ParseIP("2001:db8::2"))
	if selector {
		u.Sel.Family, u.Sel.Proto = unix.AF_INET, 6
	}
	m := append([]byte(nil), u.Serialize()...)
	for kind, name := range algorithms {
		value := make([]byte, 68+16)
		copy(value, name)
		m = append(m, nl.NewRtAttr(kind, value).Serialize()...)
	}
	return m
}

func TestParseState(t *testing.T) {
	for _, c := range []struct {
		algorithms map[int]string
		integrity  string
	}{
		{nil, ""},
		{map[int]string{nl.XFRMA_ALG_CRYPT: "cbc(aes)"}, ""},
		{
			map[int]string{
				nl.XFRMA_ALG_CRYPT: "cbc(aes)", nl.XFRMA_ALG_AUTH: "digest_null",
				nl.XFRMA_ALG_AUTH_TRUNC: "digest_null",
			},
			"",
		},
		{
			map[int]string{
				nl.XFRMA_ALG_CRYPT: "ecb(cipher_null)", nl.XFRMA_ALG_AUTH: "hmac(sha1)",
				nl.XFRMA_ALG_AUTH_TRUNC: "hmac(sha1)",
			},
			"hmac(sha1)",
		},
		{map[int]string{nl.XFRMA_ALG_AUTH_TRUNC: "hmac(sha256)"}, "hmac(sha256)"},
		{map[int]string{nl.XFRMA_ALG_AEAD: "rfc4543(gcm(aes))"}, "rfc4543(gcm(aes))"},
	} {
		got, keyed, err := parseState(stateMessage(true, c.algorithms))
		want := State{
			Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2"), Proto: 50, Mode: Tunnel,
			SPI: 0xabcd, ReqID: 9, Integrity: c.integrity,
			Selector: Selector{
				Src: netip.MustParsePrefix("0.0.0.0/0"), Dst: netip.MustParsePrefix("0.0.0.0/0"), Proto: 6,
			},
		}
		if err != nil || got != want || keyed != (c.algorithms != nil) {
			t.Errorf("%v: association is %+v, keyed %v, %v; want %+v", c.algorithms, got, keyed, err, want)
		}
	}
	if got, _, err := parseState(stateMessage(false, nil)); err != nil || got.Selector != (Selector{}) {
		t.Errorf("without a selector: %+v, %v", got, err)
	}
}

// A message that is cut anywhere gives an error or less, and no panic.
func TestParseTruncated(t *testing.T) {
	p, s := policyMessage(), stateMessage(true, map[int]string{nl.XFRMA_ALG_AEAD: "rfc4106(gcm(aes))"})
	for n := range len(p) {
		if _, err := parsePolicy(p[:n:n]); n < nl.SizeofXfrmUserpolicyInfo && !errors.Is(err, errShort) {
			t.Errorf("%d octets of a policy: %v", n, err)
		}
	}
	for n := range len(s) {
		if _, _, err := parseState(s[:n:n]); n < nl.SizeofXfrmUsersaInfo && !errors.Is(err, errShort) {
			t.Errorf("%d octets of an association: %v", n, err)
		}
	}
}

// A family, or a number of bits, that cannot be is an error: such a policy might
// be the one that applies.
func TestParseBadSelector(t *testing.T) {
	for _, u := range []nl.XfrmSelector{
		{Family: 77},
		{Family: unix.AF_INET, PrefixlenS: 33},
		{Family: unix.AF_INET, PrefixlenD: 33},
		{Family: unix.AF_INET6, PrefixlenD: 129},
	} {
		if s, err := selector(&u); err == nil {
			t.Errorf("%+v is %+v", u, s)
		}
	}
}

// This host's lists can be read, or the kernel says why not.
func TestSystem(t *testing.T) {
	k, err := System()
	if err != nil {
		t.Fatal(err)
	}
	policies, perr := k.Policies()
	states, serr := k.States()
	for _, err := range []error{perr, serr} {
		if err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	}
	t.Logf("%d policies, %v; %d associations, %v", len(policies), perr, len(states), serr)
}

// The loopback interface has no IPsec unless its settings are changed.
func TestExemptLoopback(t *testing.T) {
	lo := netip.MustParseAddr("127.0.0.1")
	why, err := system{}.Exempt(lo, lo)
	if err != nil {
		t.Skip("no route over loopback, or no /proc:", err)
	}
	if why == "" {
		t.Skip("this host has IPsec on its loopback interface")
	}
	t.Log(why)
}

func FuzzParse(f *testing.F) {
	f.Add(policyMessage())
	f.Add(stateMessage(true, map[int]string{nl.XFRMA_ALG_AEAD: "rfc4106(gcm(aes))"}))
	f.Fuzz(func(_ *testing.T, m []byte) {
		if p, err := parsePolicy(m); err == nil {
			_ = p.String()
			_ = p.Selector.matches(netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("192.0.2.2:2"))
		}
		_, _, _ = parseState(m)
	})
}
