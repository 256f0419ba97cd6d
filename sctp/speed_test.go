package sctp_test

import (
	"bytes"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	pion "github.com/pion/sctp"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/sctp"
)

// Speed over SCTP, beside what the SCTP below moves by itself, and beside MPA on TCP, in turn,
// within one process on loopback. Ours has to be 0.8 of the SCTP's.
//
//	IWARP_SPEED=1 go test -run '^TestSpeed$' -v .
func TestSpeed(t *testing.T) {
	if os.Getenv("IWARP_SPEED") == "" {
		t.Skip("a measurement: IWARP_SPEED=1 runs it")
	}
	const rounds, size = 5, 64 << 20
	for _, mtu := range []int{1452, 8192} {
		var ours, below []float64
		for range rounds {
			below = append(below, rate(size, func() time.Duration { return pionTime(t, mtu, size) }))
			ours = append(ours, rate(size, func() time.Duration { return iwarpTime(t, mtu, size) }))
		}
		t.Logf("MTU %d: RDMA Writes over SCTP %.1f MB/s (%.1f to %.1f), SCTP alone %.1f MB/s (%.1f to %.1f): %.2f", mtu,
			median(ours), slices.Min(ours), slices.Max(ours), median(below), slices.Min(below), slices.Max(below),
			median(ours)/median(below))
		if median(ours) < 0.8*median(below) {
			t.Errorf("MTU %d: %.1f of %.1f MB/s", mtu, median(ours), median(below))
		}
	}
	var tcp []float64
	for range rounds {
		tcp = append(tcp, rate(size, func() time.Duration { return tcpTime(t, size) }))
	}
	t.Logf("RDMA Writes over MPA and TCP: %.1f MB/s (%.1f to %.1f)", median(tcp), slices.Min(tcp), slices.Max(tcp))
	a, b := connect(t, nil, nil)
	t.Logf("a message of 16 octets and its answer: SCTP %v", latency(t, a, b))
	closeBoth(t, a, b)
	x, y := overTCP(t)
	t.Logf("a message of 16 octets and its answer: MPA and TCP %v", latency(t, x, y))
	closeBoth(t, x, y)
}

func rate(size int, f func() time.Duration) float64 { return float64(size) / 1e6 / f().Seconds() }

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// write writes so many octets in Writes of 1 MiB, four of them outstanding, and waits for the peer to
// say that it has seen the last one.
func write(t testing.TB, a, b *iwarp.Conn, size int) time.Duration {
	t.Helper()
	ctx := testContext(t)
	const each = 1 << 20
	mr, err := b.NewMR(make([]byte, each), iwarp.RemoteWrite)
	check(t, "NewMR", err)
	defer mr.Close()
	data := make([]byte, each)
	go func() {
		if _, err := b.Recv(ctx, nil); err == nil {
			_ = b.Send(ctx, nil)
		}
	}()
	began := time.Now()
	for range size / each {
		check(t, "Write", a.RDMAWrite(ctx, data, mr.Remote()))
	}
	check(t, "Send", a.Send(ctx, nil))
	_, err = a.Recv(ctx, nil)
	check(t, "Recv", err)
	return time.Since(began)
}

func iwarpTime(t *testing.T, mtu, size int) time.Duration {
	client, server := udp(t), udp(t)
	assoc, l := associate(t, client, server, &sctp.Config{MTU: mtu}, nil)
	ch := accept(testContext(t), l)
	a, err := assoc.Dial(testContext(t), nil)
	check(t, "Dial", err)
	b := <-ch
	check(t, "Accept", b.err)
	took := write(t, a, b.c, size)
	closeBoth(t, a, b.c)
	check(t, "Close", assoc.Close())
	check(t, "Close", l.Close())
	return took
}

func udp(t *testing.T) net.PacketConn {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	check(t, "ListenPacket", err)
	return pc
}

// pionTime moves the same octets in messages as long as our segments with the SCTP below, unordered.
func pionTime(t *testing.T, mtu, size int) time.Duration {
	x, y := udp(t), udp(t)
	_ = y.(*net.UDPConn).SetReadBuffer(4 << 20)
	done := make(chan time.Duration, 1)
	began := make(chan time.Time, 1)
	go func() {
		s, err := pion.ServerWithOptions(pion.WithNetConn(connected{y, x.LocalAddr()}), pion.WithMTU(uint32(mtu)),
			pion.WithEnableInterleaving(false))
		if err != nil {
			t.Error(err)
			return
		}
		st, err := s.AcceptStream()
		if err != nil {
			t.Error(err)
			return
		}
		memory, buf := make([]byte, 1<<20), make([]byte, 16<<10)
		for left := size; left > 0; {
			n, _, err := st.ReadSCTP(buf)
			if err != nil {
				t.Error(err)
				return
			}
			copy(memory, buf[:n]) // as a program needs it somewhere
			left -= n
		}
		done <- time.Since(<-began)
		_ = s.Close()
	}()
	c, err := pion.ClientWithOptions(pion.WithNetConn(connected{x, y.LocalAddr()}), pion.WithMTU(uint32(mtu)),
		pion.WithEnableInterleaving(false))
	check(t, "pion", err)
	st, err := c.OpenStream(1, 16)
	check(t, "pion", err)
	st.SetReliabilityParams(true, pion.ReliabilityTypeReliable, 0)
	room := make(chan struct{}, 1)
	st.SetBufferedAmountLowThreshold(240 << 10)
	st.OnBufferedAmountLow(func() {
		select {
		case room <- struct{}{}:
		default:
		}
	})
	message := make([]byte, (mtu-48)&^3)
	began <- time.Now()
	for left := size; left > 0; {
		for st.BufferedAmount() >= 480<<10 {
			<-room
		}
		n, err := st.WriteSCTP(message[:min(left, len(message))], 16)
		check(t, "pion", err)
		left -= n
	}
	took := <-done
	_ = c.Close()
	return took
}

func overTCP(t *testing.T) (a, b *iwarp.Conn) {
	ctx := testContext(t)
	l, err := iwarp.Listen("tcp", "127.0.0.1:0", nil)
	check(t, "Listen", err)
	defer l.Close()
	ch := accept(ctx, l)
	a, err = iwarp.Dial(ctx, "tcp", l.Addr().String(), nil)
	check(t, "Dial", err)
	got := <-ch
	check(t, "Accept", got.err)
	return a, got.c
}

func tcpTime(t *testing.T, size int) time.Duration {
	a, b := overTCP(t)
	took := write(t, a, b, size)
	closeBoth(t, a, b)
	return took
}

// latency is the median time of a message and its answer.
func latency(t *testing.T, a, b *iwarp.Conn) time.Duration {
	const times = 2000
	ctx := testContext(t)
	go func() {
		buf := make([]byte, 16)
		for range times {
			if _, err := b.Recv(ctx, buf); err != nil {
				return
			}
			if err := b.Send(ctx, buf); err != nil {
				return
			}
		}
	}()
	took := make([]time.Duration, times)
	buf := bytes.Repeat([]byte{1}, 16)
	for i := range took {
		began := time.Now()
		check(t, "Send", a.Send(ctx, buf))
		_, err := a.Recv(ctx, buf)
		check(t, "Recv", err)
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[times/2]
}
