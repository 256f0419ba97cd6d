package main

import (
	"errors"
	"fmt"
	"os/exec"

	"github.com/go-iwarp/iwarp/internal/netpair"
)

// place is where both ends run.
type place struct {
	name string
	net  *netpair.Config // nil: loopback
}

var (
	loopback   = place{name: "loopback"}
	veth       = place{name: "MTU 1500", net: &netpair.Config{MTU: 1500}}
	vethBare   = place{name: "MTU 1500 without offloads", net: &netpair.Config{MTU: 1500, NoOffloads: true}}
	vethKernel = place{name: "MTU 1500, steering of the kernel", net: &netpair.Config{MTU: 1500, KernelSteering: true}}
	jumbo      = place{name: "MTU 9000", net: &netpair.Config{MTU: 9000}}
	jumboBare  = place{name: "MTU 9000 without offloads", net: &netpair.Config{MTU: 9000, NoOffloads: true}}
)

// args are the flags of "iwarp bench" for the place.
func (p *place) args() []string {
	if p.net == nil {
		return nil
	}
	args := []string{fmt.Sprintf("--net=%d", p.net.MTU)}
	if p.net.NoOffloads {
		args = append(args, "--no-offloads")
	}
	if p.net.KernelSteering {
		args = append(args, "--steering=kernel")
	}
	return args
}

// pairs are the networks made so far, by the name of the place: programs other than "iwarp bench" run there.
type pairs map[string]*netpair.Pair

func (p *pairs) close() {
	for _, pair := range *p {
		_ = pair.Close()
	}
	*p = nil
}

// of returns the network of a place, nil for loopback.
func (p *pairs) of(where *place) (*netpair.Pair, error) {
	if where.net == nil {
		return nil, nil
	}
	if pair := (*p)[where.name]; pair != nil {
		return pair, nil
	}
	pair, err := netpair.New(where.net)
	if err != nil {
		return nil, err
	}
	if *p == nil {
		*p = pairs{}
	}
	(*p)[where.name] = pair
	return pair, nil
}

// missing says why nothing can be measured at a place, if so.
func (c *checker) missing(p *place) error {
	_, err := c.pairs.of(p)
	if errors.Is(err, netpair.ErrUnsupported) {
		return err
	}
	return nil // any other error will be seen
}

// start starts a program at the end of a place where servers are.
func (c *checker) start(p *place, cmd *exec.Cmd) error {
	pair, err := c.pairs.of(p)
	if err != nil {
		return err
	}
	if pair == nil {
		return cmd.Start()
	}
	return pair.B.Start(cmd)
}

// client runs a program at the other end of a place and returns what it prints.
func (c *checker) client(p *place, cmd *exec.Cmd) ([]byte, error) {
	pair, err := c.pairs.of(p)
	if err != nil {
		return nil, err
	}
	if pair == nil {
		return cmd.Output()
	}
	return pair.A.Output(cmd)
}

// serverAddr is where servers listen at a place.
func (c *checker) serverAddr(p *place) (string, error) {
	pair, err := c.pairs.of(p)
	if err != nil || pair == nil {
		return "127.0.0.1", err
	}
	return pair.B.Addr.String(), nil
}
