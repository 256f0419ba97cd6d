// Package netpair makes a network on this machine to measure and test on: two hosts, each a network namespace of
// Linux, joined by a veth. TCP segments are what the MTU allows there, unlike on loopback, whose segments hold 64 KiB.
// It needs Linux, the rights of root, and the program "ip" of iproute2.
//
// The namespaces have no name: they, the veth and the addresses are gone as soon as nothing refers to them any more,
// which is after [Pair.Close] and the end of the programs that run there, or after the end of this process, also when
// it is killed. So nothing is ever left behind, and any number of pairs can exist at once.
package netpair

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
)

// Config says what a [Pair] is like. Its zero value is an Ethernet with offloads whose packets stay in order.
type Config struct {
	// MTU is that of the veth in octets, from [MinMTU] to [MaxMTU]; 0 means [DefaultMTU].
	MTU int
	// NoOffloads turns segmentation and receive offloads off: each TCP segment is a packet of its own. With offloads a
	// packet has up to 64 KiB, and is never cut, since no wire asks for that.
	NoOffloads bool
	// KernelSteering leaves receive packet steering as the kernel has it. A veth then handles a packet on the processor
	// that sent it, and two processors that send on one connection reorder its packets, as on hosts of containers. By
	// default the last processor receives all packets, in order.
	KernelSteering bool
}

// The MTU of a [Config], in octets.
const (
	DefaultMTU = 1500  // Ethernet: TCP segments have 1448 octets, with timestamps
	MinMTU     = 1280  // the least of IPv6
	MaxMTU     = 65535 // the most of a veth
)

// device is the name of the veth's end on either host.
const device = "net0"

// check returns the configuration with its defaults.
func (c *Config) check() (Config, error) {
	var v Config
	if c != nil {
		v = *c
	}
	if v.MTU == 0 {
		v.MTU = DefaultMTU
	}
	if v.MTU < MinMTU || v.MTU > MaxMTU {
		return v, fmt.Errorf("netpair: MTU %d: from %d, the least of IPv6, to %d, the most of a veth", v.MTU, MinMTU,
			MaxMTU)
	}
	return v, nil
}

// ErrUnsupported is wrapped by the error of [New] where no pair can be made: not Linux, no rights, no iproute2.
var ErrUnsupported = errors.New("no network namespaces can be made here")

// Pair is two hosts and the network between them.
type Pair struct {
	A, B *Host
	// Config is what the pair was made of, with the defaults filled in.
	Config Config
}

// Host is one end of a [Pair].
type Host struct {
	// Addr and Addr6 are the host's addresses on the network.
	Addr, Addr6 netip.Addr

	space space
}

// Close gives the two hosts up. Programs and connections there go on until they end by themselves. A second Close does
// nothing.
func (p *Pair) Close() error { return errors.Join(p.A.space.close(), p.B.space.close()) }

// Do calls f on a thread of the host: sockets that f makes, and programs that it starts, belong to the host. What f
// leaves to other goroutines happens outside. Do returns f's error, or why the host cannot be entered.
func (h *Host) Do(f func() error) error { return h.space.do(f) }

// Listen makes a TCP listener at a free port of the host's IPv4 address.
func (h *Host) Listen() (ln net.Listener, err error) {
	err = h.Do(func() error {
		ln, err = net.Listen("tcp", net.JoinHostPort(h.Addr.String(), "0"))
		return err
	})
	return ln, err
}

// Start starts a program on the host.
func (h *Host) Start(cmd *exec.Cmd) error { return h.Do(cmd.Start) }

// Output runs a program on the host and returns what it prints, as [exec.Cmd.Output] does.
func (h *Host) Output(cmd *exec.Cmd) (out []byte, err error) {
	err = h.Do(func() error {
		out, err = cmd.Output()
		return err
	})
	return out, err
}

// TB is the part of testing.TB that [Need] needs.
type TB interface {
	Helper()
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// Need makes a pair for a test and closes it when the test ends. Where none can be made the test is skipped, with the
// reason.
func Need(t TB, cfg *Config) *Pair {
	t.Helper()
	p, err := New(cfg)
	if errors.Is(err, ErrUnsupported) {
		t.Skipf("%v", err)
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}
