package netstack_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/netstack"
	"github.com/go-iwarp/iwarp/protocol"
)

// Nothing of a host runs when it is closed.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// All operations at once, in both directions, over a network that loses and reorders:
// as over a socket.
func TestOperations(t *testing.T) {
	fates := [2]*rand.Rand{rand.New(rand.NewPCG(1, 1)), rand.New(rand.NewPCG(2, 2))}
	x := newPair(t, options{
		pipe: netstack.PipeConfig{Fate: func(to int, _ []byte) (f netstack.Fate) {
			switch r := fates[to]; r.IntN(60) {
			case 0:
				f.Drop = true
			case 1, 2:
				f.Behind = 1 + r.IntN(9)
			}
			return f
		}},
		cfg: withMarkers, peer: withMarkers,
	})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	const n = 300 << 10
	rounds := amount(10)
	type half struct{ mine, theirs []byte }
	memory := map[*iwarp.Conn]*half{x.c: {random(n, 1), make([]byte, n)}, x.p: {random(n, 2), make([]byte, n)}}
	var remote [2]iwarp.RemoteBuffer
	for i, c := range []*iwarp.Conn{x.c, x.p} {
		mr, err := c.NewMR(memory[c].theirs, iwarp.RemoteRead|iwarp.RemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		remote[1-i] = mr.Remote()
	}
	work := func(c *iwarp.Conn, to iwarp.RemoteBuffer) error {
		m := memory[c]
		for i := range rounds {
			if err := c.RDMAWrite(ctx, m.mine, to); err != nil {
				return err
			}
			if err := c.Send(ctx, m.mine[i*1000:i*4000+1]); err != nil {
				return err
			}
			got := make([]byte, n)
			if err := c.RDMARead(ctx, got, to); err != nil {
				return err
			}
			if !bytes.Equal(got, m.mine) {
				return errors.New("read something else than was written")
			}
		}
		return nil
	}
	receive := func(c, from *iwarp.Conn) error {
		b := make([]byte, 64<<10)
		for i := range rounds {
			m, err := c.Recv(ctx, b)
			if err != nil {
				return err
			}
			if !bytes.Equal(b[:m.Length], memory[from].mine[i*1000:i*4000+1]) {
				return errors.New("received something else than was sent")
			}
		}
		return nil
	}
	done := make(chan error, 4)
	go func() { done <- work(x.c, remote[0]) }()
	go func() { done <- work(x.p, remote[1]) }()
	go func() { done <- receive(x.c, x.p) }()
	go func() { done <- receive(x.p, x.c) }()
	for range 4 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(memory[x.p].theirs, memory[x.c].mine) || !bytes.Equal(memory[x.c].theirs, memory[x.p].mine) {
		t.Error("the regions are not what was written")
	}
	for _, c := range []*iwarp.Conn{x.c, x.p} {
		if s, _ := netstack.StatsOf(c); s.Placed == 0 || s.Stopped != nil || s.Behind != 0 {
			t.Errorf("%+v", s)
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- x.p.Close() }()
	if err := errors.Join(x.c.Close(), <-closed); err != nil {
		t.Error(err)
	}
}

// A segment behind a hole whose octets were changed on the way, in spite of TCP's
// checksum: nothing of its FPDU is placed, early or ever, and the connection fails at its turn.
//
// Shows: MPA-6-01, MPA-8-02
func TestBadCRCBehindAHole(t *testing.T) {
	count, marked := 0, []byte("here")
	x := newPair(t,
		options{peer: withMarkers, pipe: netstack.PipeConfig{Fate: func(to int, p []byte) (f netstack.Fate) {
			if to != 1 || len(p) < 1000 {
				return f
			}
			switch count++; {
			case count == 3:
				f.Drop = true
			case count > 3:
				if at := bytes.Index(p, marked); at >= 0 {
					p[at]++
					fixChecksum(p)
				}
			}
			return f
		}}})
	data := make([]byte, 40_000)
	for i := range data {
		data[i] = 0xbb
	}
	const at = 9_000
	copy(data[at:], marked)
	memory := make([]byte, len(data))
	mr, err := x.p.NewMR(memory, iwarp.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	// The peer's Terminate may come before the Write has gone or after.
	if err := x.c.RDMAWrite(ctx, data, mr.Remote()); err == nil {
		_, err = x.c.Recv(ctx, make([]byte, 16))
		wantCode(t, err, protocol.MPACRC)
	}
	_, err = x.p.Recv(ctx, make([]byte, 16))
	wantCode(t, err, protocol.MPACRC)
	if around := memory[at-8 : at+12]; !bytes.Equal(around, make([]byte, len(around))) {
		t.Errorf("placed %x", around)
	}
	// Whether the hole was still there when it came is the network's matter: the engine's
	// own tests decide that.
	s, _ := netstack.StatsOf(x.p)
	t.Logf("%+v", s)
}

func wantCode(t *testing.T, err error, want protocol.Code) {
	t.Helper()
	if got, ok := protocol.CodeOf(err); !ok || got != want {
		t.Errorf("%v, want %v", err, want)
	}
}

// fixChecksum makes the checksum of an IPv4 TCP segment right again.
func fixChecksum(p []byte) {
	ip := header.IPv4(p)
	tcp := header.TCP(ip.Payload())
	tcp.SetChecksum(0)
	from, to := ip.SourceAddress(), ip.DestinationAddress()
	sum := header.PseudoHeaderChecksum(header.TCPProtocolNumber, from, to, uint16(len(tcp)))
	sum = checksum.Checksum(tcp.Payload(), sum)
	tcp.SetChecksum(^tcp.CalculateChecksum(sum))
}

// IPv6, and FPDUs that are longer than segments: they are found all the same.
func TestLongFPDUsOverIPv6(t *testing.T) {
	a, b := netstack.Pipe(netstack.PipeConfig{MTU: 1280, Fate: lossy(97)})
	x := new(pair)
	var err error
	if x.dialer, err = netstack.NewHost(netstack.Config{Link: a, Addresses: prefixes("fd00::1/64")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.dialer.Close)
	if x.listener, err = netstack.NewHost(netstack.Config{Link: b, Addresses: prefixes("fd00::2/64")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.listener.Close)
	x.connect(t, "[fd00::2]:7174", &iwarp.Config{MPA: iwarp.MPAConfig{FPDUMax: 8000}}, withMarkers)
	data := random(amount(4<<20), 5)
	if !bytes.Equal(x.write(t, data), data) {
		t.Error("the region is not what was written")
	}
	if s, _ := netstack.StatsOf(x.p); s.Early == 0 || s.Stopped != nil {
		t.Errorf("%+v", s)
	}
}

func prefixes(s string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(s)} }

func TestErrors(t *testing.T) {
	if _, err := netstack.NewHost(netstack.Config{}); err == nil {
		t.Error("a host without a link")
	}
	a, b := netstack.Pipe(netstack.PipeConfig{})
	h, err := netstack.NewHost(netstack.Config{Link: a, Addresses: prefixes("10.0.0.1/24")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	other, err := netstack.NewHost(netstack.Config{Link: b, Addresses: prefixes("10.0.0.2/24")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	ctx := t.Context()
	for _, address := range []string{"", "host:1", "10.0.0.2", "10.0.0.2:99999"} {
		if _, err := h.Dial(ctx, address, nil); err == nil {
			t.Errorf("dialed %q", address)
		}
		if _, err := h.Listen(address, nil); err == nil {
			t.Errorf("listens at %q", address)
		}
	}
	var op *net.OpError
	if _, err := h.Dial(ctx, "10.0.0.2:1", nil); !errors.As(err, &op) || op.Op != "dial" {
		t.Errorf("a closed port: %v", err)
	}
	gone, cancel := context.WithCancelCause(ctx)
	cancel(io.ErrNoProgress)
	if _, err := h.Dial(gone, "10.0.0.9:1", nil); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a context that has ended: %v", err)
	}
	l, err := h.Listen("0.0.0.0:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := l.Addr().(*net.TCPAddr); !ok || a.Port == 0 {
		t.Errorf("listens at %v", l.Addr())
	}
	if _, err := l.Accept(gone); !errors.Is(err, context.Canceled) && !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("Accept: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, ok := netstack.StatsOf(new(iwarp.Conn)); ok {
		t.Error("counts of a connection of nobody's")
	}
}

// A peer that goes away without a word, and a host that is closed, end connections.
func TestEnds(t *testing.T) {
	x := newPair(t, options{})
	x.dialer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := x.c.Recv(ctx, make([]byte, 1)); err == nil || ctx.Err() != nil {
		t.Errorf("at the end that was closed: %v", err)
	}
	x.p.Abort()
	if _, err := x.p.Recv(ctx, make([]byte, 1)); err == nil || ctx.Err() != nil {
		t.Errorf("at the end that was aborted: %v", err)
	}
}
