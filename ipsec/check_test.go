package ipsec_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/ipsec"
)

// fake is a kernel that says what it is told to.
type fake struct {
	policies  []ipsec.Policy
	states    []ipsec.State
	exempt    string
	err       [3]error // of the three calls
	from, to  netip.Addr
	wasCalled bool
}

func (k *fake) Policies() ([]ipsec.Policy, error) { k.wasCalled = true; return k.policies, k.err[0] }
func (k *fake) States() ([]ipsec.State, error)    { return k.states, k.err[1] }
func (k *fake) Exempt(l, r netip.Addr) (string, error) {
	k.from, k.to = l, r
	return k.exempt, k.err[2]
}

const (
	tcp, esp, ah, ipcomp = 6, 50, 51, 108
	localPort            = 40000
	remotePort           = 4420
)

// family is the two ends of a flow.
type family struct{ local, remote, gateway string }

var (
	v4 = family{"192.0.2.1", "192.0.2.2", "198.51.100.1"}
	v6 = family{"2001:db8::1", "2001:db8::2", "2001:db8:1::1"}
)

func (f family) flow() ipsec.Flow {
	return ipsec.Flow{
		Local:  netip.AddrPortFrom(netip.MustParseAddr(f.local), localPort),
		Remote: netip.AddrPortFrom(netip.MustParseAddr(f.remote), remotePort),
	}
}

func whole(addr string) netip.Prefix {
	a := netip.MustParseAddr(addr)
	return netip.PrefixFrom(a, a.BitLen())
}

// transport returns the policies of both directions with one template each.
func (f family) transport(change ...func(*ipsec.Policy)) []ipsec.Policy {
	out := ipsec.Policy{
		Dir: ipsec.Out, Priority: 1000, Index: 9, Selector: ipsec.Selector{Src: whole(f.local), Dst: whole(f.remote)},
		Templates: []ipsec.Template{{Proto: esp, Mode: ipsec.Transport, ReqID: 1}},
	}
	in := ipsec.Policy{
		Dir: ipsec.In, Priority: 1000, Index: 8, Selector: ipsec.Selector{Src: whole(f.remote), Dst: whole(f.local)},
		Templates: []ipsec.Template{{Proto: esp, Mode: ipsec.Transport, ReqID: 1}},
	}
	for _, c := range change {
		c(&out)
		c(&in)
	}
	return []ipsec.Policy{out, in}
}

// tunnel returns policies for a tunnel between two outer addresses.
func (f family) tunnel(here, there string) []ipsec.Policy {
	h, t := netip.MustParseAddr(here), netip.MustParseAddr(there)
	return f.transport(func(p *ipsec.Policy) {
		p.Templates[0] = ipsec.Template{Proto: esp, Mode: ipsec.Tunnel, Src: h, Dst: t, ReqID: 1}
		if p.Dir == ipsec.In {
			p.Templates[0].Src, p.Templates[0].Dst = t, h
		}
	})
}

// states returns the associations of both directions between two addresses.
func states(here, there string, mode ipsec.Mode) []ipsec.State {
	h, t := netip.MustParseAddr(here), netip.MustParseAddr(there)
	return []ipsec.State{
		{Src: h, Dst: t, Proto: esp, Mode: mode, SPI: 0x1001, ReqID: 1, Integrity: "rfc4106(gcm(aes))"},
		{Src: t, Dst: h, Proto: esp, Mode: mode, SPI: 0x1002, ReqID: 1, Integrity: "rfc4106(gcm(aes))"},
	}
}

// in and out limit a change to one direction.
func in(f func(*ipsec.Policy)) func(*ipsec.Policy) {
	return func(p *ipsec.Policy) {
		if p.Dir == ipsec.In {
			f(p)
		}
	}
}

func out(f func(*ipsec.Policy)) func(*ipsec.Policy) {
	return func(p *ipsec.Policy) {
		if p.Dir == ipsec.Out {
			f(p)
		}
	}
}

func pass(p *ipsec.Policy)     { p.Templates = nil }
func block(p *ipsec.Policy)    { p.Block, p.Templates = true, nil }
func optional(p *ipsec.Policy) { p.Templates[0].Optional = true }
func anywhere(p *ipsec.Policy) {
	zero := netip.PrefixFrom(p.Selector.Src.Addr(), 0).Masked()
	p.Selector.Src, p.Selector.Dst = zero, zero
}

func priority(n uint32) func(*ipsec.Policy) {
	return func(p *ipsec.Policy) { p.Priority = n }
}

// port limits the policies to the port of the remote end.
func port(value, mask uint16) func(*ipsec.Policy) {
	return func(p *ipsec.Policy) {
		if p.Dir == ipsec.Out {
			p.Selector.DstPort, p.Selector.DstPortMask = value, mask
		} else {
			p.Selector.SrcPort, p.Selector.SrcPortMask = value, mask
		}
	}
}

func proto(n uint8) func(*ipsec.Policy) {
	return func(p *ipsec.Policy) { p.Templates[0].Proto = n }
}

func prefix(bits int) func(*ipsec.Policy) {
	return func(p *ipsec.Policy) {
		p.Selector.Src = netip.PrefixFrom(p.Selector.Src.Addr(), bits).Masked()
		p.Selector.Dst = netip.PrefixFrom(p.Selector.Dst.Addr(), bits).Masked()
	}
}

func join(lists ...[]ipsec.Policy) (all []ipsec.Policy) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// Which policies and associations cover a flow.
// Shows: MPA-4.4-05
func TestCheck(t *testing.T) {
	for name, f := range map[string]family{"IPv4": v4, "IPv6": v6} {
		other := v6
		if f == v6 {
			other = v4
		}
		here := states(f.local, f.remote, ipsec.Transport)
		tunnels := states(f.local, f.remote, ipsec.Tunnel)
		change := func(s []ipsec.State, change func(*ipsec.State)) []ipsec.State {
			s = append([]ipsec.State(nil), s...)
			change(&s[1])
			return s
		}
		for _, c := range []struct {
			name     string
			policies []ipsec.Policy
			states   []ipsec.State
			gateways bool
			exempt   string
			want     string // "" : covered; else part of the reason
		}{
			{name: "nothing", want: "no policy"},
			{name: "associations without policy", states: here, want: "no policy"},
			{name: "transport", policies: f.transport(), states: here},
			{name: "tunnel", policies: f.tunnel(f.local, f.remote), states: tunnels},
			{
				name: "integrity without encryption", policies: f.transport(),
				states: change(here, func(s *ipsec.State) { s.Integrity = "hmac(sha1)" }),
			},

			{name: "block", policies: f.transport(block), states: here, want: "blocks"},
			{name: "pass", policies: f.transport(pass), states: here, want: "as they are"},
			{name: "AH only", policies: f.transport(proto(ah)), states: here, want: "no ESP"},
			{name: "compression only", policies: f.transport(proto(ipcomp)), states: here, want: "no ESP"},
			{name: "any protocol", policies: f.transport(proto(255)), states: here, want: "no ESP"},
			{name: "level use", policies: f.transport(optional), states: here, want: "optional"},
			{name: "level use, inbound", policies: f.transport(in(optional)), states: here, want: "optional"},
			{name: "level use, outbound", policies: f.transport(out(optional)), states: here, want: "optional"},
			{name: "compression optional, ESP required", policies: f.transport(func(p *ipsec.Policy) {
				p.Templates = append([]ipsec.Template{{Proto: ipcomp, Optional: true}}, p.Templates...)
			}), states: here},
			{name: "ESP and AH", policies: f.transport(func(p *ipsec.Policy) {
				p.Templates = append(p.Templates, ipsec.Template{Proto: ah})
			}), states: here},
			{
				name: "mode beet", policies: f.transport(func(p *ipsec.Policy) { p.Templates[0].Mode = 4 }),
				states: here, want: "mode 4",
			},

			{name: "out only", policies: f.transport()[:1], states: here, want: "in: no policy"},
			{name: "in only", policies: f.transport()[1:], states: here, want: "out: no policy"},
			{name: "in passes", policies: f.transport(in(pass)), states: here, want: "policy 8"},
			{name: "out passes", policies: f.transport(out(pass)), states: here, want: "policy 9"},
			{
				name:     "both for the other direction",
				policies: f.transport(func(p *ipsec.Policy) { p.Dir = 1 - p.Dir }), states: here, want: "no policy",
			},
			{
				name: "forwarding only", policies: f.transport(in(func(p *ipsec.Policy) { p.Dir = 2 })), states: here,
				want: "in: no policy",
			},

			{name: "all addresses", policies: f.transport(anywhere), states: here},
			{
				name: "all addresses of the other family", policies: other.transport(anywhere), states: here,
				want: "no policy",
			},
			{name: "prefix", policies: f.transport(prefix(24)), states: here},
			{
				name:     "prefix elsewhere",
				policies: f.transport(func(p *ipsec.Policy) { p.Selector.Dst = whole(f.gateway) }), states: here,
				want: "no policy",
			},
			{name: "TCP", policies: f.transport(func(p *ipsec.Policy) { p.Selector.Proto = tcp }), states: here},
			{
				name: "UDP", policies: f.transport(func(p *ipsec.Policy) { p.Selector.Proto = 17 }), states: here,
				want: "no policy",
			},
			{name: "port", policies: f.transport(port(remotePort, 0xffff)), states: here},
			{name: "another port", policies: f.transport(port(remotePort+1, 0xffff)), states: here, want: "no policy"},
			{name: "port range", policies: f.transport(port(remotePort&0xff00, 0xff00)), states: here},
			{name: "another port range", policies: f.transport(port(0x8000, 0xff00)), states: here, want: "no policy"},
			{
				name: "the local port where the remote one is meant", policies: f.transport(port(localPort, 0xffff)),
				states: here, want: "no policy",
			},

			{
				name: "bypass goes before", policies: join(f.transport(), f.transport(priority(999), pass)),
				states: here, want: "as they are",
			},
			{name: "bypass goes after", policies: join(f.transport(priority(1001), pass), f.transport()), states: here},
			{
				name:     "bypass of a port range goes before",
				policies: join(f.transport(), f.transport(priority(1), pass, port(remotePort&0xff00, 0xff00))),
				states:   here, want: "as they are",
			},
			{
				name:     "bypass of another port goes before",
				policies: join(f.transport(), f.transport(priority(1), pass, port(22, 0xffff))), states: here,
			},
			{
				name:     "a narrower selector does not go before",
				policies: join(f.transport(pass, anywhere, priority(1)), f.transport()), states: here,
				want: "as they are",
			},
			{
				name: "bypass of the same priority", policies: join(f.transport(), f.transport(pass)), states: here,
				want: "as they are",
			},
			{
				name: "bypass of the same priority, listed first", policies: join(f.transport(pass), f.transport()),
				states: here, want: "as they are",
			},
			{
				name: "block goes before", policies: join(f.transport(), f.transport(priority(1), block)), states: here,
				want: "blocks",
			},
			{
				name:     "priority 0 goes first",
				policies: join(f.transport(), f.transport(priority(0), pass, in(priority(2000)))), states: here,
				want: "policy 9",
			},
			{
				name:     "high priority numbers are unsigned",
				policies: join(f.transport(), f.transport(priority(0xffffffff), pass)), states: here,
			},

			{
				name: "only with a mark", policies: f.transport(func(p *ipsec.Policy) { p.Mark, p.MarkMask = 1, 0xff }),
				states: here, want: "certain",
			},
			{
				name: "only by an interface", policies: f.transport(func(p *ipsec.Policy) { p.Selector.Ifindex = 3 }),
				states: here, want: "certain",
			},
			{
				name: "only by an XFRM interface", policies: f.transport(func(p *ipsec.Policy) { p.IfID = 3 }),
				states: here, want: "certain",
			},
			{
				name: "only a sub policy", policies: f.transport(func(p *ipsec.Policy) { p.Sub = true }), states: here,
				want: "certain",
			},
			{
				name:     "bypass with a mark may go before",
				policies: join(f.transport(), f.transport(priority(1), pass, func(p *ipsec.Policy) { p.MarkMask = 1 })),
				states:   here, want: "as they are",
			},
			{
				name: "bypass with a mark goes after",
				policies: join(f.transport(),
					f.transport(priority(2000), pass, func(p *ipsec.Policy) { p.MarkMask = 1 })),
				states: here,
			},
			{
				name: "bypass by sub policy",
				policies: join(f.transport(),
					f.transport(priority(2000), pass, func(p *ipsec.Policy) { p.Sub = true })),
				states: here, want: "as they are",
			},
			{
				name:     "ESP with a mark before ESP without",
				policies: join(f.transport(), f.transport(priority(1), func(p *ipsec.Policy) { p.MarkMask = 1 })),
				states:   here,
			},

			{name: "no association", policies: f.transport(), want: "no association"},
			{name: "association of one direction", policies: f.transport(), states: here[:1], want: "no association"},
			{
				name: "no integrity", policies: f.transport(),
				states: change(here, func(s *ipsec.State) { s.Integrity = "" }), want: "does not check integrity",
			},
			{
				name: "one of two without integrity", policies: f.transport(),
				states: append(change(here, func(s *ipsec.State) { s.Integrity = "" }), here...),
				want:   "does not check integrity",
			},
			{
				name: "association of AH", policies: f.transport(),
				states: change(here, func(s *ipsec.State) { s.Proto = ah }), want: "no association",
			},
			{
				name: "association of another request", policies: f.transport(),
				states: change(here, func(s *ipsec.State) { s.ReqID = 2 }), want: "no association",
			},
			{
				name: "any request", policies: f.transport(func(p *ipsec.Policy) { p.Templates[0].ReqID = 0 }),
				states: change(here, func(s *ipsec.State) { s.ReqID = 2 }),
			},
			{
				name: "another SPI", policies: f.transport(func(p *ipsec.Policy) { p.Templates[0].SPI = 0x1001 }),
				states: here, want: "no association",
			},
			{name: "association of tunnel mode", policies: f.transport(), states: tunnels, want: "no association"},
			{name: "association for UDP", policies: f.transport(), states: change(here, func(s *ipsec.State) {
				s.Selector = ipsec.Selector{Src: whole(f.remote), Dst: whole(f.local), Proto: 17}
			}), want: "no association"},
			{name: "association for the flow", policies: f.transport(), states: change(here, func(s *ipsec.State) {
				s.Selector = ipsec.Selector{
					Src: whole(f.remote), Dst: whole(f.local), Proto: tcp, SrcPort: remotePort, SrcPortMask: 0xffff,
				}
			})},

			{
				name: "tunnel to a gateway", policies: f.tunnel(f.local, f.gateway),
				states: states(f.local, f.gateway, ipsec.Tunnel), want: "does not end where",
			},
			{
				name: "tunnel to a gateway that is trusted", policies: f.tunnel(f.local, f.gateway),
				states: states(f.local, f.gateway, ipsec.Tunnel), gateways: true,
			},
			{
				name: "tunnel to a trusted gateway without association", policies: f.tunnel(f.local, f.gateway),
				states: tunnels, gateways: true, want: "no association",
			},
			{
				name: "tunnel in the other family", policies: f.tunnel(other.local, other.remote),
				states: states(other.local, other.remote, ipsec.Tunnel), gateways: true,
			},

			{
				name: "interface without IPsec", policies: f.transport(), states: here, exempt: "lo has none",
				want: "lo has none",
			},
		} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				k := &fake{policies: c.policies, states: c.states, exempt: c.exempt}
				checker := &ipsec.Checker{Kernel: k, Gateways: c.gateways}
				a, err := checker.Check(f.flow())
				if err != nil {
					t.Fatal(err)
				}
				if a.Covered != (c.want == "") || !strings.Contains(a.Reason, c.want) || a.Reason == "" {
					t.Errorf("answer is %v (%s), want %q", a.Covered, a.Reason, c.want)
				}
			})
		}
	}
}

// Each error of the kernel's is told, and is no cover.
func TestCheckErrors(t *testing.T) {
	for i, what := range []string{"policies", "associations", "route"} {
		denied := errors.New("denied")
		k := &fake{policies: v4.transport(), states: states(v4.local, v4.remote, ipsec.Transport)}
		k.err[i] = denied
		a, err := (&ipsec.Checker{Kernel: k}).Check(v4.flow())
		if a.Covered || !errors.Is(err, denied) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v, %v", what, a, err)
		}
	}
}

// What is no flow is not covered, whatever the policies.
func TestCheckNoFlow(t *testing.T) {
	a4, a6 := v4.flow().Local, v6.flow().Remote
	for _, f := range []ipsec.Flow{{}, {Local: a4}, {Remote: a6}, {Local: a4, Remote: a6}} {
		k := &fake{policies: append(v4.transport(anywhere), v6.transport(anywhere)...)}
		if a, err := (&ipsec.Checker{Kernel: k}).Check(f); a.Covered || err != nil {
			t.Errorf("%v: %v, %v", f, a, err)
		}
	}
}

type otherAddr struct{}

func (otherAddr) Network() string { return "pipe" }
func (otherAddr) String() string  { return "pipe" }

// Covers takes addresses as package net gives them.
func TestCovers(t *testing.T) {
	addr := func(s string, port int) *net.TCPAddr { return &net.TCPAddr{IP: net.ParseIP(s), Port: port} }
	for _, c := range []struct {
		name          string
		local, remote net.Addr
		want          bool
	}{
		{"IPv4", addr(v4.local, localPort), addr(v4.remote, remotePort), true}, // 16 octets, mapped
		{"IPv6", addr(v6.local, localPort), addr(v6.remote, remotePort), true},
		{
			"IPv6 with zone", &net.TCPAddr{IP: net.ParseIP(v6.local), Zone: "eth0"},
			&net.TCPAddr{IP: net.ParseIP(v6.remote), Zone: "eth0"}, true,
		},
		{"turned round", addr(v4.remote, remotePort), addr(v4.local, localPort), false},
		{"UDP", &net.UDPAddr{IP: net.ParseIP(v4.local)}, &net.UDPAddr{IP: net.ParseIP(v4.remote)}, false},
		{"nil", nil, nil, false},
		{"nil of TCP", (*net.TCPAddr)(nil), (*net.TCPAddr)(nil), false},
		{"without IP", &net.TCPAddr{}, &net.TCPAddr{}, false},
		{"no TCP at all", otherAddr{}, otherAddr{}, false},
	} {
		k := &fake{
			policies: append(v4.transport(), v6.transport()...),
			states: append(states(v4.local, v4.remote, ipsec.Transport),
				states(v6.local, v6.remote, ipsec.Transport)...),
		}
		ok, err := (&ipsec.Checker{Kernel: k}).Covers(t.Context(), c.local, c.remote)
		if ok != c.want || err != nil {
			t.Errorf("%s: %v, %v", c.name, ok, err)
		}
		if strings.Contains(c.name, "zone") && (k.from.Zone() != "eth0" || k.to.Zone() != "eth0") {
			t.Errorf("the route was asked for without the zone: %v to %v", k.from, k.to)
		}
	}
}

// A context that has ended ends the question.
func TestCoversContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k := &fake{}
	if ok, err := (&ipsec.Checker{Kernel: k}).Covers(ctx, nil, nil); ok || !errors.Is(err, context.Canceled) ||
		k.wasCalled {
		t.Errorf("%v, %v, called %v", ok, err, k.wasCalled)
	}
}
