package ipsec

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
)

// Flow is a TCP connection as this host sees it.
type Flow struct{ Local, Remote netip.AddrPort }

// Answer is what [Checker.Check] found.
type Answer struct {
	Covered bool
	Reason  string // why, for a log
}

// Checker decides about flows. Its methods may be called from any goroutine.
type Checker struct {
	// Kernel is asked each time; nothing is kept.
	Kernel Kernel
	// Gateways accepts tunnels that end at other addresses than the connection.
	// Between the gateway and the host nothing protects the data then, unless the
	// administrator knows of something, such as that both are one machine.
	Gateways bool
	// Logger gets each answer at Debug. Nil: none.
	Logger *slog.Logger
}

// New returns a checker that asks this host's kernel. Where there is no XFRM the
// error wraps [errors.ErrUnsupported].
func New() (*Checker, error) {
	k, err := System()
	if err != nil {
		return nil, err
	}
	return &Checker{Kernel: k}, nil
}

// Covers is [Checker.Check] in the form of iwarp.CRCSuppression.Covers. Addresses
// that are not of TCP are not covered. The error is the kernel's.
func (c *Checker) Covers(ctx context.Context, local, remote net.Addr) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, context.Cause(ctx)
	}
	l, lok := local.(*net.TCPAddr)
	r, rok := remote.(*net.TCPAddr)
	if !lok || !rok || l == nil || r == nil {
		return false, nil
	}
	flow := Flow{Local: l.AddrPort(), Remote: r.AddrPort()}
	// Rule: MPA-9.4-02, IPSEC-3-02, DDP-8.4.2-04
	a, err := c.Check(flow)
	if c.Logger != nil {
		c.Logger.DebugContext(ctx, "ipsec", "local", flow.Local, "remote", flow.Remote, "covered", a.Covered, "reason",
			a.Reason, "error", err)
	}
	return a.Covered, err
}

// Check says whether IPsec protects the integrity of a flow, in both directions,
// from one end to the other. It takes a few netlink requests. Errors are the
// kernel's, and the answer with one is no.
func (c *Checker) Check(f Flow) (Answer, error) {
	local, remote := f.Local.Addr().Unmap(), f.Remote.Addr().Unmap() // with zones
	f = Flow{Local: plain(f.Local), Remote: plain(f.Remote)}
	if !f.Local.IsValid() || !f.Remote.IsValid() || f.Local.Addr().Is4() != f.Remote.Addr().Is4() {
		return no("%v to %v is not a flow", f.Local, f.Remote), nil
	}
	policies, err := c.Kernel.Policies()
	if err != nil {
		return Answer{}, fmt.Errorf("ipsec: policies: %w", err)
	}
	states, err := c.Kernel.States()
	if err != nil {
		return Answer{}, fmt.Errorf("ipsec: security associations: %w", err)
	}
	why, err := c.Kernel.Exempt(local, remote)
	if err != nil {
		return Answer{}, fmt.Errorf("ipsec: route: %w", err)
	}
	if why != "" {
		return no("%s", why), nil
	}
	// Rule: MPA-4.4-05
	out := c.direction(Out, f.Local, f.Remote, policies, states)
	if !out.Covered {
		return out, nil
	}
	in := c.direction(In, f.Remote, f.Local, policies, states)
	if in.Covered {
		in.Reason = out.Reason + "; " + in.Reason
	}
	return in, nil
}

func no(format string, args ...any) Answer { return Answer{Reason: fmt.Sprintf(format, args...)} }

// plain makes an address comparable with the kernel's.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// direction goes through the policies that may apply to packets from src to dst,
// as the kernel does: the lowest priority number first. Which of several with the
// same number applies depends on their ages; all of them have to protect.
func (c *Checker) direction(dir Direction, src, dst netip.AddrPort, policies []Policy, states []State) Answer {
	var found []Policy
	for _, p := range policies {
		if p.Dir == dir && p.Selector.matches(src, dst) {
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, func(a, b Policy) int {
		switch {
		case a.Sub != b.Sub && a.Sub:
			return -1
		case a.Sub != b.Sub:
			return 1
		case a.Priority < b.Priority:
			return -1
		case a.Priority > b.Priority:
			return 1
		}
		return 0
	})
	var yes Answer
	var priority uint32
	for i := range found {
		p := &found[i]
		if yes.Covered && p.Priority != priority {
			break
		}
		a := c.policy(p, src, dst, states)
		switch {
		case !a.Covered:
			return a
		case p.certain():
			yes, priority = a, p.Priority
		}
	}
	if !yes.Covered {
		return no("%v: no policy is certain to apply to packets from %v to %v", dir, src, dst)
	}
	return yes
}

// policy reports whether packets from src to dst are protected if p applies.
func (c *Checker) policy(p *Policy, src, dst netip.AddrPort, states []State) Answer {
	switch {
	case p.Block:
		return no("%v blocks", p)
	case len(p.Templates) == 0:
		return no("%v lets packets pass as they are", p)
	}
	reason := fmt.Sprintf("%v has no ESP", p)
	for i := range p.Templates {
		t := &p.Templates[i]
		if t.Proto != protoESP {
			continue
		}
		a := c.template(t, src, dst, states)
		if a.Covered {
			return Answer{Covered: true, Reason: fmt.Sprintf("%v: %s", p, a.Reason)}
		}
		reason = fmt.Sprintf("%v: %s", p, a.Reason)
	}
	return no("%s", reason)
}

// template reports whether a template for ESP protects packets from src to dst.
func (c *Checker) template(t *Template, src, dst netip.AddrPort, states []State) Answer {
	from, to := end(t.Src, src), end(t.Dst, dst)
	switch {
	case t.Optional:
		return no("ESP is optional (level use)")
	case t.Mode != Transport && t.Mode != Tunnel:
		return no("ESP has mode %d: neither transport nor tunnel", t.Mode)
	case t.Mode == Transport:
		from, to = src.Addr(), dst.Addr()
	case !c.Gateways && (from != src.Addr() || to != dst.Addr()):
		return no("the tunnel from %v to %v does not end where the connection does", from, to)
	}
	integrity := ""
	for i := range states {
		s := &states[i]
		if !s.serves(t, from, to) || s.Selector.Src.IsValid() && !s.Selector.matches(src, dst) {
			continue
		}
		if s.Integrity == "" {
			return no("the association with SPI 0x%08x does not check integrity", s.SPI)
		}
		integrity = s.Integrity
	}
	if integrity == "" {
		return no("no association yet from %v to %v", from, to)
	}
	return Answer{Covered: true, Reason: "ESP with " + integrity}
}

// serves reports whether the kernel may use the association for the template.
func (s *State) serves(t *Template, from, to netip.Addr) bool {
	return s.Proto == protoESP && s.Mode == t.Mode && s.Src == from && s.Dst == to &&
		(t.ReqID == 0 || s.ReqID == t.ReqID) && (t.SPI == 0 || s.SPI == t.SPI)
}

// end returns the end of a tunnel.
func end(a netip.Addr, packet netip.AddrPort) netip.Addr {
	if !a.IsValid() || a.IsUnspecified() {
		return packet.Addr()
	}
	return a
}
