package netstack_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/netstack"
)

// Two hosts in the process, and a network between them that loses a packet: the peer's Write
// is placed on both sides of the hole while it is there, and delivered when it is filled.
func Example() {
	lose := 20 // the 20th packet with payload
	a, b := netstack.Pipe(netstack.PipeConfig{Fate: func(to int, packet []byte) (f netstack.Fate) {
		if to == 1 && len(packet) > 1000 {
			lose--
			f.Drop = lose == 0
		}
		return f
	}})
	network := netip.MustParsePrefix
	first, err := netstack.NewHost(netstack.Config{Link: a, Addresses: []netip.Prefix{network("10.0.0.1/24")}})
	if err != nil {
		log.Fatal(err)
	}
	defer first.Close()
	second, err := netstack.NewHost(netstack.Config{Link: b, Addresses: []netip.Prefix{network("10.0.0.2/24")}})
	if err != nil {
		log.Fatal(err)
	}
	defer second.Close()

	// The receiver asks for Markers: with them it finds FPDUs in any segment.
	l, err := second.Listen("10.0.0.2:7174", &iwarp.Config{MPA: iwarp.MPAConfig{Markers: true}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx := context.Background()
	go func() {
		c, err := first.Dial(ctx, "10.0.0.2:7174", nil)
		if err != nil {
			log.Fatal(err)
		}
		var to iwarp.RemoteBuffer
		m := make([]byte, 64)
		if r, err := c.Recv(ctx, m); err != nil {
			log.Fatal(err)
		} else if err := to.UnmarshalBinary(m[:r.Length]); err != nil {
			log.Fatal(err)
		}
		if err := c.RDMAWrite(ctx, make([]byte, 100_000), to); err != nil {
			log.Fatal(err)
		}
		if err := c.Send(ctx, []byte("written")); err != nil {
			log.Fatal(err)
		}
	}()
	c, err := l.Accept(ctx)
	if err != nil {
		log.Fatal(err)
	}
	mr, err := c.NewMR(make([]byte, 100_000), iwarp.RemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	where, _ := mr.Remote().MarshalBinary()
	if err := c.Send(ctx, where); err != nil {
		log.Fatal(err)
	}
	m := make([]byte, 64)
	r, err := c.Recv(ctx, m)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s; placed behind the hole: %v\n", m[:r.Length], c.Stats().DDP.OctetsEarly > 0)
	c.Abort()
	// Output: written; placed behind the hole: true
}
