package iwarp_test

import (
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/internal/netpair"
	"github.com/go-iwarp/iwarp/mpa"
)

// smallSegments is two ends of a TCP connection whose segments are Ethernet's.
func smallSegments(t *testing.T) (client, server net.Conn) {
	t.Helper()
	control := func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 1460) })
	}
	ln := must((&net.ListenConfig{Control: control}).Listen(t.Context(), "tcp4", "127.0.0.1:0"))(t)
	defer ln.Close()
	client = must((&net.Dialer{Control: control}).DialContext(t.Context(), "tcp4", ln.Addr().String()))(t)
	return client, must(ln.Accept())(t)
}

// On small segments, too, many messages share a system call of the sender.
func TestFewSystemCallsOnSmallSegments(t *testing.T) {
	if raceEnabled {
		t.Skip("batched writes need a receiver that keeps up")
	}
	for _, tt := range []struct {
		align  mpa.Align
		octets int
		most   float64 // calls a message
	}{
		{align: mpa.AlignAuto, octets: 64, most: 0.1},
		{align: mpa.AlignAuto, octets: 300, most: 0.1},
		{align: mpa.AlignAuto, octets: 1000, most: 0.1},
		{align: mpa.AlignAuto, octets: 4096, most: 0.1},
		{align: mpa.AlignSegments, octets: 64, most: 0.1},
		{align: mpa.AlignSegments, octets: 1000, most: 0.1},
		{align: mpa.AlignStrict, octets: 1000, most: 0.1},
	} {
		d := newDevice(t, nil)
		a, b := newQP(t, d, nil), newQP(t, d, nil)
		x, y := smallSegments(t)
		startOn(t, x, y, &iwarp.Config{QP: a, MPA: iwarp.MPAConfig{Align: tt.align}}, &iwarp.Config{QP: b})
		stats := func() mpa.Stats { return a.Conn().Stats().MPA }
		if n := stats().EMSS; n > 1460 {
			t.Skipf("segments have %d octets here", n)
		}
		mr := must(b.PD().NewMR(make([]byte, tt.octets), iwarp.RemoteWrite, nil))(t)
		before := stats()
		const count = 6400
		wr := iwarp.SendWR{Op: iwarp.OpWrite, SG: [][]byte{make([]byte, tt.octets)}, Remote: mr.Remote()}
		for range count / 64 {
			pump(t, a, wr, 64, 64)
		}
		after := stats()
		if n := float64(after.SystemCalls-before.SystemCalls) / count; n > tt.most {
			t.Errorf("align %d: %.3f system calls for a Write of %d octets, want at most %.2f", tt.align, n, tt.octets,
				tt.most)
		}
		// The last Writes may not have arrived yet: the region is the connection's to the end.
		defer mr.Close()
	}
}

// Where the MTU is no multiple of four, Dial makes both ends use segments that FPDUs
// can fill.
//
// Shows: MPA-5.1-03
func TestDialMakesSegmentsThatFPDUsFill(t *testing.T) {
	p := netpair.Need(t, &netpair.Config{MTU: 1450})
	ln := must(p.B.Listen())(t)
	defer ln.Close()
	ch := make(chan *iwarp.Conn, 1)
	go func() {
		defer close(ch)
		if nc, err := ln.Accept(); err == nil {
			if c, err := iwarp.Server(t.Context(), nc, nil); err == nil {
				ch <- c
			}
		}
	}()
	var a *iwarp.Conn
	called := false
	d := iwarp.Dialer{
		NetDialer: &net.Dialer{Control: func(string, string, syscall.RawConn) error { called = true; return nil }},
	}
	check(t, "Dial", p.A.Do(func() (err error) { a, err = d.Dial(t.Context(), "tcp", ln.Addr().String()); return err }))
	defer a.Abort()
	b := <-ch
	if b == nil {
		t.Fatal("no connection")
	}
	defer b.Abort()
	if !called {
		t.Error("the dialer's own Control was not called")
	}
	const size = 200_000
	for _, c := range []*iwarp.Conn{a, b} {
		peer := a
		if c == a {
			peer = b
		}
		mr := must(peer.NewMR(make([]byte, size), iwarp.RemoteWrite))(t)
		for range 20 {
			check(t, "Write", c.RDMAWrite(t.Context(), make([]byte, size), mr.Remote()))
		}
		check(t, "Send", c.Send(t.Context(), []byte("all placed")))
		wantRecv(t, peer, "all placed")
		if s := c.Stats().MPA; s.EMSS != 1396 || s.FPDUsAligned < s.FPDUsSent*95/100 {
			t.Errorf("EMSS %d, %d of %d FPDUs aligned", s.EMSS, s.FPDUsAligned, s.FPDUsSent)
		}
		mr.Close()
	}
}
