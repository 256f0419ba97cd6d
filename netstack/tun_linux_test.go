package netstack_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/link/nested"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/internal/netpair"
	"github.com/go-iwarp/iwarp/netstack"
)

// lossyLink loses some of the packets that come in.
type lossyLink struct {
	nested.Endpoint
	n atomic.Uint64
}

func newLossyLink(below netstack.Link) *lossyLink {
	l := new(lossyLink)
	l.Init(below, l)
	return l
}

func (l *lossyLink) DeliverNetworkPacket(protocol tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) {
	if pkt.Size() > 1000 && l.n.Add(1)%97 == 96 {
		return
	}
	l.Endpoint.DeliverNetworkPacket(protocol, pkt)
}

// The kernel's TCP at the other end, which knows nothing of alignment with these segments:
// Markers find its FPDUs behind a hole, and everything else works as between two sockets.
//
// Shows: MPA-A.4-01, MPA-6-02
func TestKernelPeer(t *testing.T) {
	p, err := netpair.New(nil)
	if errors.Is(err, netpair.ErrUnsupported) {
		t.Skip("no network namespace for a TUN device:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	var link netstack.Link
	err = p.A.Do(func() error {
		if link, err = netstack.OpenTUN("iwarp0", 1500); err != nil {
			return err
		}
		for _, args := range [][]string{
			{"addr", "add", "10.78.0.1/24", "dev", "iwarp0"},
			{"link", "set", "iwarp0", "up", "mtu", "1500"},
		} {
			if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
				return errors.New(string(out))
			}
		}
		return nil
	})
	if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
		t.Skip("no TUN device:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	h, err := netstack.NewHost(netstack.Config{
		Link: newLossyLink(link), Addresses: []netip.Prefix{netip.MustParsePrefix("10.78.0.2/24")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	l, err := h.Listen("10.78.0.2:7174", withMarkers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	x := new(pair)
	accepted := make(chan error, 1)
	go func() {
		var err error
		x.p, err = l.Accept(ctx)
		accepted <- err
	}()
	var nc net.Conn
	if err := p.A.Do(func() error {
		nc, err = new(net.Dialer).DialContext(ctx, "tcp", "10.78.0.2:7174")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if x.c, err = iwarp.Client(ctx, nc, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.c.Abort)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.p.Abort)
	data := random(amount(8<<20), 3)
	if !bytes.Equal(x.write(t, data), data) {
		t.Error("the region is not what was written")
	}
	s, _ := netstack.StatsOf(x.p)
	if s.Early == 0 || s.Stopped != nil {
		t.Errorf("from the kernel nothing was placed early: %+v", s)
	}
	// The other way: the kernel's end reads from netstack's.
	mr, err := x.p.NewMR(data, iwarp.RemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(data))
	if err := x.c.RDMARead(ctx, got, mr.Remote()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data) {
		t.Error("read something else")
	}
	t.Logf("%d of %d octets placed early", s.Early, len(data))
}
