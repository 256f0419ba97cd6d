package ipsec

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// System returns the kernel of this host, as the network namespace of the calling
// thread sees it. It asks nothing yet.
func System() (Kernel, error) { return system{}, nil }

// system decodes the kernel's messages itself: the netlink library's own lists
// leave out the masks of ports and the kinds of policies.
type system struct{}

// dumpTries is how often a list is asked for that changes while it is read.
const dumpTries = 5

// dump sends each message of a list to f.
func dump(request, reply int, f func(m []byte) error) error {
	var msgs [][]byte
	var err error
	for range dumpTries {
		req := nl.NewNetlinkRequest(request, unix.NLM_F_DUMP)
		if msgs, err = req.Execute(unix.NETLINK_XFRM, uint16(reply)); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return fmt.Errorf("the kernel has no XFRM: %w", errors.Join(err, errors.ErrUnsupported))
	}
	if err != nil {
		return err
	}
	for _, m := range msgs {
		if err := f(m); err != nil {
			return err
		}
	}
	return nil
}

// Policies implements [Kernel].
func (system) Policies() (list []Policy, err error) {
	err = dump(nl.XFRM_MSG_GETPOLICY, nl.XFRM_MSG_NEWPOLICY, func(m []byte) error {
		p, err := parsePolicy(m)
		if err == nil && (p.Dir == In || p.Dir == Out) {
			list = append(list, p)
		}
		return err
	})
	return list, err
}

// States implements [Kernel].
func (system) States() (list []State, err error) {
	err = dump(nl.XFRM_MSG_GETSA, nl.XFRM_MSG_NEWSA, func(m []byte) error {
		s, keyed, err := parseState(m)
		if err == nil && keyed {
			list = append(list, s)
		}
		return err
	})
	return list, err
}

var errShort = errors.New("the kernel's message is too short")

// attributes calls f for each attribute behind the header of a message. (The
// library's function for this panics at a last one without its padding.)
func attributes(m []byte, f func(kind uint16, value []byte) error) error {
	for len(m) >= unix.SizeofRtAttr {
		n := int(nl.NativeEndian().Uint16(m))
		if n < unix.SizeofRtAttr || n > len(m) {
			return errShort
		}
		if err := f(nl.NativeEndian().Uint16(m[2:])&nl.NLA_TYPE_MASK, m[unix.SizeofRtAttr:n]); err != nil {
			return err
		}
		aligned := (n + unix.RTA_ALIGNTO - 1) &^ (unix.RTA_ALIGNTO - 1)
		m = m[min(aligned, len(m)):]
	}
	return nil
}

func parsePolicy(m []byte) (Policy, error) {
	if len(m) < nl.SizeofXfrmUserpolicyInfo {
		return Policy{}, errShort
	}
	u := nl.DeserializeXfrmUserpolicyInfo(m)
	sel, err := selector(&u.Sel)
	p := Policy{
		Dir: Direction(u.Dir), Selector: sel, Priority: u.Priority, Index: u.Index,
		Block: u.Action != uint8(netlink.XFRM_POLICY_ALLOW),
	}
	if err != nil {
		return p, fmt.Errorf("policy %d: %w", u.Index, err)
	}
	return p, attributes(m[nl.SizeofXfrmUserpolicyInfo:], func(kind uint16, v []byte) error {
		switch {
		case kind == nl.XFRMA_TMPL:
			for ; len(v) >= nl.SizeofXfrmUserTmpl; v = v[nl.SizeofXfrmUserTmpl:] {
				p.Templates = append(p.Templates, template(nl.DeserializeXfrmUserTmpl(v)))
			}
		case kind == nl.XFRMA_MARK && len(v) >= nl.SizeofXfrmMark:
			mark := nl.DeserializeXfrmMark(v)
			p.Mark, p.MarkMask = mark.Value, mark.Mask
		case kind == nl.XFRMA_IF_ID && len(v) >= 4:
			p.IfID = nl.NativeEndian().Uint32(v)
		case kind == nl.XFRMA_POLICY_TYPE && len(v) >= 1:
			p.Sub = v[0] != 0 // XFRM_POLICY_TYPE_MAIN is 0
		}
		return nil
	})
}

func template(u *nl.XfrmUserTmpl) Template {
	t := Template{
		Proto: u.XfrmId.Proto, Mode: Mode(u.Mode), SPI: bigEndian32(u.XfrmId.Spi), ReqID: u.Reqid,
		Optional: u.Optional != 0,
	}
	t.Src, _ = address(&u.Saddr, u.Family) // of an unknown family: left out, as if unspecified
	t.Dst, _ = address(&u.XfrmId.Daddr, u.Family)
	return t
}

// parseState also reports whether the association has its keys. One that IKE has
// only taken a number for is not in use yet.
func parseState(m []byte) (s State, keyed bool, err error) {
	if len(m) < nl.SizeofXfrmUsersaInfo {
		return s, false, errShort
	}
	u := nl.DeserializeXfrmUsersaInfo(m)
	s = State{Proto: u.Id.Proto, Mode: Mode(u.Mode), SPI: bigEndian32(u.Id.Spi), ReqID: u.Reqid}
	if s.Src, err = address(&u.Saddr, u.Family); err != nil {
		return s, false, fmt.Errorf("association 0x%08x: %w", s.SPI, err)
	}
	s.Dst, _ = address(&u.Id.Daddr, u.Family)
	if u.Sel.Family != unix.AF_UNSPEC {
		if s.Selector, err = selector(&u.Sel); err != nil {
			return s, false, fmt.Errorf("association 0x%08x: %w", s.SPI, err)
		}
	}
	err = attributes(m[nl.SizeofXfrmUsersaInfo:], func(kind uint16, v []byte) error {
		switch kind {
		case nl.XFRMA_ALG_CRYPT:
			keyed = true
		case nl.XFRMA_ALG_AEAD, nl.XFRMA_ALG_AUTH, nl.XFRMA_ALG_AUTH_TRUNC:
			keyed = true
			if name := algorithm(v); name != "digest_null" && name != "null" {
				s.Integrity = name
			}
		}
		return nil
	})
	return s, keyed, err
}

// algorithm returns the name in front of a struct xfrm_algo; the keys behind it are
// not looked at.
func algorithm(v []byte) string {
	const nameLen = 64
	name, _, _ := bytes.Cut(v[:min(nameLen, len(v))], []byte{0})
	return string(name)
}

func selector(u *nl.XfrmSelector) (Selector, error) {
	src, err := address(&u.Saddr, u.Family)
	if err != nil {
		return Selector{}, err
	}
	dst, _ := address(&u.Daddr, u.Family)
	s := Selector{
		SrcPort: bigEndian16(u.Sport), SrcPortMask: bigEndian16(u.SportMask),
		DstPort: bigEndian16(u.Dport), DstPortMask: bigEndian16(u.DportMask),
		Proto: u.Proto, Ifindex: int(u.Ifindex),
	}
	if s.Src, err = src.Prefix(int(u.PrefixlenS)); err != nil {
		return s, err
	}
	s.Dst, err = dst.Prefix(int(u.PrefixlenD))
	return s, err
}

func address(a *nl.XfrmAddress, family uint16) (netip.Addr, error) {
	switch family {
	case unix.AF_INET:
		return netip.AddrFrom4([4]byte(a[:4])), nil
	case unix.AF_INET6:
		return netip.AddrFrom16(*a), nil
	}
	return netip.Addr{}, fmt.Errorf("address family %d is neither IPv4 nor IPv6", family)
}

// The kernel's fields in network order were read as if in the host's.
func bigEndian16(v uint16) uint16 {
	if nl.NativeEndian().Uint16([]byte{0, 1}) == 1 {
		return v
	}
	return bits.ReverseBytes16(v)
}

func bigEndian32(v uint32) uint32 {
	if nl.NativeEndian().Uint16([]byte{0, 1}) == 1 {
		return v
	}
	return bits.ReverseBytes32(v)
}

// Exempt implements [Kernel]: by its settings an interface may leave packets out
// of IPsec, as the loopback interface does by default.
func (system) Exempt(local, remote netip.Addr) (string, error) {
	o := netlink.RouteGetOptions{SrcAddr: local.AsSlice(), Oif: remote.Zone()}
	routes, err := netlink.RouteGetWithOptions(remote.AsSlice(), &o)
	if err != nil {
		return "", err
	}
	if len(routes) == 0 {
		return "", fmt.Errorf("none from %v to %v", local, remote)
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return "", err
	}
	dir, settings := "/proc/sys/net/ipv4/conf", []string{"disable_xfrm", "disable_policy"}
	if remote.Is6() {
		dir, settings = "/proc/sys/net/ipv6/conf", []string{"disable_policy"}
	}
	for _, iface := range []string{"all", link.Attrs().Name} {
		for _, setting := range settings {
			value, err := os.ReadFile(filepath.Join(dir, iface, setting))
			if err != nil {
				return "", err
			}
			if strings.TrimSpace(string(value)) != "0" {
				return fmt.Sprintf("the setting %s of interface %s takes packets to %v out of IPsec", setting, iface,
					remote), nil
			}
		}
	}
	return "", nil
}
