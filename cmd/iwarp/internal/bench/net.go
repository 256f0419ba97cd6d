package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"syscall"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/internal/netpair"
	"github.com/go-iwarp/iwarp/internal/tcpsock"
)

// benchNetwork is what lies between two ends on this machine: loopback, or a network made for the run, on which this
// process is host A and the other end is host B. A nil one stands for the way to another machine.
type benchNetwork struct {
	pair *netpair.Pair // nil: loopback
}

// newNetwork makes the network that the flags ask for.
func (c *Command) newNetwork() (*benchNetwork, error) {
	if c.Net == nil {
		return &benchNetwork{}, nil
	}
	pair, err := netpair.New(&netpair.Config{
		MTU: *c.Net, NoOffloads: !c.Offloads, KernelSteering: c.Steering == steeringKernel,
	})
	if err != nil {
		return nil, fmt.Errorf("--net: %w", err)
	}
	return &benchNetwork{pair}, nil
}

func (n *benchNetwork) close() {
	if n.pair != nil {
		_ = n.pair.Close()
	}
}

// host is the other end's.
func (n *benchNetwork) host() string {
	if n.pair == nil {
		return "127.0.0.1"
	}
	return n.pair.B.Addr.String()
}

// start starts a program at the other end.
func (n *benchNetwork) start(cmd *exec.Cmd) error {
	if n.pair == nil {
		return cmd.Start()
	}
	return n.pair.B.Start(cmd)
}

// listen listens at the other end.
func (n *benchNetwork) listen() (net.Listener, error) {
	if n.pair == nil {
		return net.Listen("tcp", n.host()+":0")
	}
	return n.pair.B.Listen()
}

// dial connects to the other end.
func (n *benchNetwork) dial(ctx context.Context, addr string) (nc net.Conn, err error) {
	d := net.Dialer{Control: func(_, address string, c syscall.RawConn) error {
		_ = tcpsock.FourfoldSegments(c, address) // as iwarp.Dial does
		return nil
	}}
	if n == nil || n.pair == nil {
		return d.DialContext(ctx, "tcp", addr)
	}
	err = n.pair.A.Do(func() error {
		nc, err = d.DialContext(ctx, "tcp", addr)
		return err
	})
	return nc, err
}

// retransmissions counts the segments sent again so far, where there is a network of ours.
func (n *benchNetwork) retransmissions() (uint64, error) {
	if n == nil || n.pair == nil {
		return 0, nil
	}
	return n.pair.Retransmissions()
}

// netResult is what a result says of the network.
type netResult struct {
	MTU             int           `json:"mtu"`
	Offloads        bool          `json:"offloads"`
	Steering        benchSteering `json:"steering"`
	Retransmissions uint64        `json:"retransmissions"`
	Void            int           `json:"void_samples"`
}

// result begins what is told of the network; nil where there is nothing to tell.
func (n *benchNetwork) result() *netResult {
	if n == nil || n.pair == nil {
		return nil
	}
	c := &n.pair.Config
	r := &netResult{MTU: c.MTU, Offloads: !c.NoOffloads, Steering: steeringFixed}
	if c.KernelSteering {
		r.Steering = steeringKernel
	}
	return r
}

// maxVoid is how many samples may be void for each that is wanted.
const maxVoid = 3

// counts reports whether a sample counts in which so many segments were sent again. Where packets cannot be reordered
// none is, unless the machine lost some: that says nothing of either protocol.
func (r *benchResult) counts(again uint64, wanted int) (bool, error) {
	n := r.network
	if n == nil {
		return true, nil
	}
	if again == 0 || n.Steering == steeringKernel {
		n.Retransmissions += again
		return true, nil
	}
	n.Void++
	if n.Void > maxVoid*wanted {
		return false,
			errors.New("void: segments are sent again in nearly every sample, though packets cannot be reordered: " +
				"the machine loses some")
	}
	return false, nil
}

// Text describes the network in a line.
func (n *netResult) Text() string {
	offloads := "offloads on"
	if !n.Offloads {
		offloads = "offloads off"
	}
	s := fmt.Sprintf("network: MTU %d, %s, steering %s", n.MTU, offloads, n.Steering)
	if n.Retransmissions > 0 {
		s += fmt.Sprintf("; %s sent again", ui.Plural(n.Retransmissions, "segment"))
	}
	if n.Void > 0 {
		s += fmt.Sprintf("; %s void and taken again, since segments were sent again",
			ui.Plural(uint64(n.Void), "sample"))
	}
	return s
}
