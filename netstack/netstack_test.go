package netstack_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/netstack"
)

const (
	firstAddr  = "10.0.0.1"
	secondAddr = "10.0.0.2"
)

// pair is two connected hosts.
type pair struct {
	dialer, listener *netstack.Host
	// c is the dialer's end of a connection, p the listener's.
	c, p *iwarp.Conn
}

type options struct {
	pipe             netstack.PipeConfig
	dialer, listener netstack.Config
	cfg, peer        *iwarp.Config
}

func newPair(t testing.TB, o options) *pair {
	t.Helper()
	a, b := netstack.Pipe(o.pipe)
	o.dialer.Link, o.dialer.Addresses = a, []netip.Prefix{netip.MustParsePrefix(firstAddr + "/24")}
	o.listener.Link, o.listener.Addresses = b, []netip.Prefix{netip.MustParsePrefix(secondAddr + "/24")}
	x := new(pair)
	var err error
	if x.dialer, err = netstack.NewHost(o.dialer); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.dialer.Close)
	if x.listener, err = netstack.NewHost(o.listener); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.listener.Close)
	x.connect(t, secondAddr+":7174", o.cfg, o.peer)
	return x
}

// connect connects the hosts.
func (x *pair) connect(t testing.TB, address string, cfg, peer *iwarp.Config) {
	t.Helper()
	l, err := x.listener.Listen(address, peer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	accepted := make(chan error, 1)
	go func() {
		var err error
		x.p, err = l.Accept(ctx)
		accepted <- err
	}()
	if x.c, err = x.dialer.Dial(ctx, address, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.c.Abort)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.p.Abort)
}

// write writes data into a region of the listener's end and waits until that has it.
func (x *pair) write(t testing.TB, data []byte) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	memory := make([]byte, len(data))
	mr, err := x.p.NewMR(memory, iwarp.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mr.Close() }()
	if err := x.c.RDMAWrite(ctx, data, mr.Remote()); err != nil {
		t.Fatal(err)
	}
	if err := x.c.Send(ctx, []byte("done")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 16)
	if m, err := x.p.Recv(ctx, b); err != nil || string(b[:m.Length]) != "done" {
		t.Fatalf("received %q, %v", b, err)
	}
	return memory
}

func random(n int, seed uint64) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed)})
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b
}

// amount is how many octets a test moves: less where the race detector takes its time.
func amount(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

// lossy loses every nth packet with payload that goes to the listener.
func lossy(nth uint64) func(to int, packet []byte) netstack.Fate {
	var n atomic.Uint64
	return func(to int, packet []byte) netstack.Fate {
		if to != 1 || len(packet) < 200 {
			return netstack.Fate{}
		}
		return netstack.Fate{Drop: n.Add(1)%nth == nth-1}
	}
}

var withMarkers = &iwarp.Config{MPA: iwarp.MPAConfig{Markers: true}}

// Shows: MPA-3-08, MPA-4.3-08, MPA-6-02
func TestPlacedBehindAHole(t *testing.T) {
	for _, tt := range []struct {
		name  string
		o     options
		early bool
	}{
		{name: "Markers", early: true, o: options{peer: withMarkers}},
		{name: "Markers, in order", o: options{peer: withMarkers, listener: netstack.Config{InOrder: true}}},
		{name: "no Markers"},
		{name: "alignment", early: true, o: options{listener: netstack.Config{Alignment: true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.pipe.Fate = lossy(97)
			x := newPair(t, tt.o)
			data := random(amount(4<<20), 1)
			if !bytes.Equal(x.write(t, data), data) {
				t.Error("the region is not what was written")
			}
			st := x.p.Stats()
			s, ok := netstack.StatsOf(x.p)
			t.Logf("%v\n%+v\n%+v", ok, s, st.DDP)
			if early := st.DDP.OctetsEarly > 20<<10; early != tt.early {
				t.Errorf("%d octets placed early", st.DDP.OctetsEarly)
			}
		})
	}
}
