package iwarp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// exercise uses every operation in both directions and ends gracefully.
func exercise(t *testing.T, a, b *iwarp.Conn) {
	t.Helper()
	exerciseFrom(t, a, b)
	exerciseFrom(t, b, a)
	closeBoth(t, a, b)
	if a.Err() != nil || b.Err() != nil {
		t.Fatalf("errors after a graceful end: %v, %v", a.Err(), b.Err())
	}
	if _, err := a.Recv(t.Context(), nil); err != io.EOF {
		t.Fatalf("Recv after the peer's end: %v, want io.EOF", err)
	}
}

func exerciseFrom(t *testing.T, a, b *iwarp.Conn) {
	t.Helper()
	ctx := testContext(t)
	check(t, "Send", a.Send(ctx, []byte("hello")))
	wantRecv(t, b, "hello")
	check(t, "empty Send", a.Send(ctx, nil))
	wantRecv(t, b, "")

	const size = 20_000
	g := newGuarded(size)
	mr := must(b.NewMR(g.mem, iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic))(t)
	defer mr.Close()
	data := pattern(size)
	check(t, "Write", a.RDMAWrite(ctx, data, mr.Remote()))
	check(t, "empty Write", a.RDMAWrite(ctx, nil, iwarp.RemoteBuffer{}))
	back := make([]byte, size)
	check(t, "Read", a.RDMARead(ctx, back, mr.Remote()))
	check(t, "empty Read", a.RDMARead(ctx, nil, iwarp.RemoteBuffer{}))
	if !bytes.Equal(back, data) {
		t.Fatal("the octets read are not the octets written")
	}
	exerciseAtomics(t, a, mr, binary.NativeEndian.Uint64(data[16:]))

	check(t, "SendImmediate", a.SendImmediate(ctx, 0x0102030405060708))
	if _, m := recv(t, b); m.Op != iwarp.OpRecvImmediate || m.Immediate != 0x0102030405060708 || m.Length != 0 {
		t.Fatalf("immediate: %+v", m)
	}
	check(t, "SendInvalidate", a.SendInvalidate(ctx, []byte("over"), mr.STag()))
	if m := wantRecv(t, b, "over"); m.Invalidated != mr.STag() || mr.Valid() {
		t.Fatalf("invalidated %v, region valid %v", m.Invalidated, mr.Valid())
	}
	g.check(t)
	if a.Stats().RDMAP.MessagesSent == 0 {
		t.Error("no message was counted")
	}
}

func exerciseAtomics(t *testing.T, a *iwarp.Conn, mr *iwarp.MR, before uint64) {
	t.Helper()
	ctx := testContext(t)
	if v, err := a.FetchAdd(ctx, remoteAt(mr, 16), 5); err != nil || v != before {
		t.Fatalf("FetchAdd gives 0x%x, %v, want 0x%x", v, err, before)
	}
	if v, err := a.CompareSwap(ctx, remoteAt(mr, 16), before, 1); err != nil || v != before+5 {
		t.Fatalf("CompareSwap of another value gives 0x%x, %v, want 0x%x", v, err, before+5)
	}
	if v, err := a.CompareSwap(ctx, remoteAt(mr, 16), before+5, 1); err != nil || v != before+5 {
		t.Fatalf("CompareSwap gives 0x%x, %v, want 0x%x", v, err, before+5)
	}
	if v, err := a.FetchAdd(ctx, remoteAt(mr, 16), 0); err != nil || v != 1 {
		t.Fatalf("FetchAdd of 0 gives 0x%x, %v, want 1", v, err)
	}
}

// Shows: MPA-7.1-03, RDMAP-5.1-07, RDMAP-5.2-01, RDMAP-5.2.1-09, RDMAP-5.3-04, RDMAP-5.3-06
// Shows: RDMAP-5.3-12, EXT-5-02, EXT-5.2.1-13, EXT-6.4-01, DDP-6.2.1-01
func TestTransports(t *testing.T) {
	for _, kind := range []string{"tcp", "unix", "TLS", "Pipe", "net.Pipe"} {
		t.Run(kind, func(t *testing.T) {
			a, b := netPair(t, kind)
			ca, cb := startOn(t, a, b, nil, nil)
			if ca.NetConn() != a || ca.LocalAddr() != a.LocalAddr() || ca.RemoteAddr() != a.RemoteAddr() {
				t.Error("the connection does not show the conn below")
			}
			exercise(t, ca, cb)
		})
	}
}

// A peer whose octets come in any pieces makes no difference.
// Shows: MPA-5.1-05, MPA-A.4-01, MPA-4.3-12
func TestSplits(t *testing.T) {
	for _, sizes := range [][]int{{1}, {2}, {3}, {1, 2, 3, 5, 7, 11}, {19, 1}, {512}, {1459, 1}, {1 << 20}} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := pipe(nil)
				cfg := &iwarp.Config{MPA: iwarp.MPAConfig{Markers: sizes[0]%2 == 1}}
				ca, cb := startOn(t, iwarptest.Split(a, sizes...), iwarptest.Split(b, sizes...), cfg, cfg)
				exercise(t, ca, cb)
			})
		})
	}
}

// Writes that take only part of what they are given are carried on.
func TestShortWrites(t *testing.T) {
	for _, n := range []int{1, 7, 1000} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pipe(&iwarptest.PipeConfig{Window: n})
			ca, cb := startOn(t, a, b, nil, nil)
			exercise(t, ca, cb)
		})
	}
}

// Shows: MPA-7.1.1-06, MPA-7.1.1-07, MPA-4.3-03, MPA2-6-04, MPA2-9.2-08, MPA2-10-01, MPA2-10-02
func TestStartupMatrix(t *testing.T) {
	for rev := 1; rev <= 2; rev++ {
		for markers := range 4 {
			for _, rtr := range []iwarp.RTR{
				iwarp.RTRNone, iwarp.RTRWrite, iwarp.RTRRead, iwarp.RTRSend,
				iwarp.RTRWrite | iwarp.RTRRead | iwarp.RTRSend,
			} {
				if rev == 1 && rtr != iwarp.RTRNone {
					continue
				}
				name := fmt.Sprintf("rev%d/markers%d/%v", rev, markers, rtr)
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { startupMatrix(t, rev, markers, rtr) })
				})
			}
		}
	}
}

func startupMatrix(t *testing.T, rev, markers int, rtr iwarp.RTR) {
	a, b := pipe(nil)
	cc := &iwarp.Config{MPA: iwarp.MPAConfig{Revision: rev, Markers: markers&1 != 0, RTR: rtr}, ORD: 4}
	sc := &iwarp.Config{
		MPA: iwarp.MPAConfig{Markers: markers&2 != 0, RTR: iwarp.RTRWrite | iwarp.RTRRead | iwarp.RTRSend}, ORD: 4,
	}
	ca, cb := startOn(t, a, b, cc, sc)
	sa, sb := ca.ConnectionState(), cb.ConnectionState()
	p2p := rev == 2 && rtr != iwarp.RTRNone
	if int(sa.Revision) != rev || sa.PeerToPeer != p2p || sb.PeerToPeer != p2p || !sa.Initiator || sb.Initiator {
		t.Errorf("states %+v\n%+v", sa, sb)
	}
	if sa.RecvMarkers != cc.MPA.Markers || sb.SendMarkers != cc.MPA.Markers || sa.SendMarkers != sc.MPA.Markers ||
		sb.RecvMarkers != sc.MPA.Markers {
		t.Errorf("markers: %+v\n%+v", sa, sb)
	}
	if p2p && (sa.RTR != rtr || sb.RTR != rtr) {
		t.Errorf("RTR %v and %v, want %v", sa.RTR, sb.RTR, rtr)
	}
	exercise(t, ca, cb)
	for _, c := range []*iwarp.Conn{ca, cb} {
		st, n := c.ConnectionState(), c.Stats().MPA
		if (n.MarkersSent > 0) != st.SendMarkers || (n.MarkersReceived > 0) != st.RecvMarkers {
			t.Errorf("markers sent %d, received %d with %+v", n.MarkersSent, n.MarkersReceived, st)
		}
	}
}

// The CRC is left out only if both ends' administrators say so for this peer.
// Shows: MPA-4.4-02, MPA-4.4-03, MPA-4.4-04, MPA-4.4-07, MPA-7.1.1-08, MPA-7.1.1-09, MPA-1.2-01
func TestCRCPolicy(t *testing.T) {
	off := newDevice(t,
		&iwarp.DeviceConfig{
			CRCSuppression: &iwarp.CRCSuppression{
				Protection: "a test on loopback", Peers: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			},
		})
	elsewhere := newDevice(t,
		&iwarp.DeviceConfig{
			CRCSuppression: &iwarp.CRCSuppression{
				Protection: "ESP", Peers: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
			},
		})
	for _, c := range []struct {
		name           string
		client, server *iwarp.Device
		want           bool
	}{
		{name: "on on", want: true},
		{name: "on off", server: off, want: true},
		{name: "off on", client: off, want: true},
		{name: "off off", client: off, server: off, want: false},
		{name: "off, policy for other peers", client: off, server: elsewhere, want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := tcpPair(t, &iwarp.Config{Device: c.client}, &iwarp.Config{Device: c.server})
			if a.ConnectionState().CRC != c.want || b.ConnectionState().CRC != c.want {
				t.Errorf("CRC is %v and %v, want %v", a.ConnectionState().CRC, b.ConnectionState().CRC, c.want)
			}
			exercise(t, a, b)
		})
	}
	t.Run("required", func(t *testing.T) {
		a, b := tcpPair(t, &iwarp.Config{Device: off, MPA: iwarp.MPAConfig{RequireCRC: true}},
			&iwarp.Config{Device: off})
		if !a.ConnectionState().CRC || !b.ConnectionState().CRC {
			t.Error("RequireCRC did not turn the CRC on")
		}
	})
}

// Shows: MPA2-9.1-01, MPA2-9.1-02, MPA2-9.1-03, MPA2-9.1-06, MPA2-9.1-09, MPA2-9.1-10, MPA2-9.1-12
func TestDepths(t *testing.T) {
	const open = iwarp.NotNegotiated
	for _, c := range []struct {
		cIRD, cORD, sIRD, sORD int
		want                   [4]int // in force: client IRD, ORD, server IRD, ORD
	}{
		{cIRD: 0, cORD: 0, sIRD: 0, sORD: 0, want: [4]int{128, 128, 128, 128}},
		{cIRD: 4, cORD: 8, sIRD: 16, sORD: 2, want: [4]int{4, 8, 8, 2}},
		{cIRD: 2, cORD: 8, sIRD: 3, sORD: 16, want: [4]int{2, 3, 3, 2}},
		{cIRD: 300, cORD: 300, sIRD: 300, sORD: 300, want: [4]int{300, 300, 300, 300}},
		{cIRD: 1, cORD: -1, sIRD: 1, sORD: -1, want: [4]int{1, 0, 1, 0}}, // RTR Read needs an IRD of 1
		{cIRD: open, cORD: open, sIRD: 5, sORD: 7, want: [4]int{128, 1, 5, 7}},
		{cIRD: 5, cORD: 7, sIRD: open, sORD: open, want: [4]int{5, 7, 128, 1}},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, y := pipe(nil)
				a, b := startOn(t, x, y, &iwarp.Config{IRD: c.cIRD, ORD: c.cORD},
					&iwarp.Config{IRD: c.sIRD, ORD: c.sORD})
				sa, sb := a.ConnectionState(), b.ConnectionState()
				if got := [4]int{sa.IRD, sa.ORD, sb.IRD, sb.ORD}; got != c.want {
					t.Errorf("depths %v, want %v (client %+v, server %+v)", got, c.want, sa, sb)
				}
				if sa.ORD == 0 {
					if err := a.RDMARead(testContext(t), make([]byte, 1), iwarp.RemoteBuffer{}); !errors.Is(err,
						iwarp.ErrInvalidWR) {
						t.Errorf("Read with ORD 0: %v", err)
					}
					return
				}
				exercise(t, a, b)
			})
		})
	}
	t.Run("revision 1", func(t *testing.T) {
		for _, c := range []struct{ set, want int }{{set: 0, want: 1}, {set: 9, want: 9}} {
			a, b := tcpPair(t, &iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}, ORD: c.set}, nil)
			if got := a.ConnectionState().ORD; got != c.want {
				t.Errorf("ORD %d set: %d in force, want %d", c.set, got, c.want)
			}
			exercise(t, a, b)
		}
	})
}

// Shows: MPA-7.1.2-02, MPA-7.1.2-03, MPA-7.1.1-17, MPA-7.1.1-19, MPA-7.1.1-20, MPA2-6-05, MPA2-9-02
func TestPrivateData(t *testing.T) {
	for _, c := range []struct {
		n, rev int
		bad    bool
	}{
		{n: 0, rev: 2},
		{n: 1, rev: 2},
		{n: 508, rev: 2},
		{n: 509, rev: 2, bad: true},
		{n: 0, rev: 1},
		{n: 512, rev: 1},
		{n: 513, rev: 1, bad: true},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			x, y := pipe(nil)
			pd := pattern(c.n)
			if c.bad {
				_, err := iwarp.Client(t.Context(), x,
					&iwarp.Config{PrivateData: pd, MPA: iwarp.MPAConfig{Revision: c.rev}})
				wantWords(t, err, "PrivateData", fmt.Sprint(c.n), "RFC 5044")
				if _, err := y.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("the conn below is not closed: %v", err)
				}
				return
			}
			a, b := startOn(t, x, y, &iwarp.Config{PrivateData: pd, MPA: iwarp.MPAConfig{Revision: c.rev}},
				&iwarp.Config{PrivateData: pd, MPA: iwarp.MPAConfig{Revision: c.rev}})
			if got := a.ConnectionState().PrivateData; !bytes.Equal(got, pd) {
				t.Errorf("client got %d octets, want %d", len(got), c.n)
			}
			if got := b.ConnectionState().PrivateData; !bytes.Equal(got, pd) {
				t.Errorf("server got %d octets, want %d", len(got), c.n)
			}
		})
	}
}

func wantWords(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// An error in a configuration names the field, the value and the rule.
func TestConfigErrors(t *testing.T) {
	for _, c := range []struct {
		cfg   iwarp.Config
		words []string
	}{
		{
			cfg:   iwarp.Config{MPA: iwarp.MPAConfig{Revision: 3}},
			words: []string{"Config.MPA.Revision", "3", "1 (RFC 5044) or 2 (RFC 6581)"},
		},
		{cfg: iwarp.Config{IRD: 2000}, words: []string{"Config.IRD", "2000", "1024"}},
		{cfg: iwarp.Config{ORD: 2000}, words: []string{"Config.ORD", "2000", "1024"}},
		{cfg: iwarp.Config{RecvDepth: -1}, words: []string{"Config.RecvDepth", "-1", "between 1 and"}},
		{cfg: iwarp.Config{SendDepth: 1 << 20}, words: []string{"Config.SendDepth", "1048576", "65536"}},
		{cfg: iwarp.Config{RecvSize: -5}, words: []string{"Config.RecvSize", "-5"}},
		{cfg: iwarp.Config{IRD: -2}, words: []string{"Config.IRD", "-2", "NoReads"}},
		{cfg: iwarp.Config{ORD: -2}, words: []string{"Config.ORD", "-2", "NoReads"}},
		{cfg: iwarp.Config{MPA: iwarp.MPAConfig{FPDUMax: 1 << 20}}, words: []string{"Config.MPA.FPDUMax", "1048576"}},
		{
			cfg:   iwarp.Config{MPA: iwarp.MPAConfig{RequirePeerToPeer: true, RTR: iwarp.RTRNone}},
			words: []string{"RequirePeerToPeer", "RTR"},
		},
		{
			cfg:   iwarp.Config{MPA: iwarp.MPAConfig{RequirePeerToPeer: true, Revision: 1}},
			words: []string{"RequirePeerToPeer", "revision 2"},
		},
	} {
		_, err := iwarp.Listen("tcp", "127.0.0.1:0", &c.cfg)
		wantWords(t, err, c.words...)
		_, err = iwarp.Dial(t.Context(), "tcp", "127.0.0.1:1", &c.cfg)
		wantWords(t, err, c.words...)
	}
	_, err := iwarp.Listen("udp", "127.0.0.1:0", nil)
	wantWords(t, err, "udp")
	_, err = iwarp.Dial(t.Context(), "unix", "x", nil)
	wantWords(t, err, "unix")
	for _, c := range []struct {
		cfg   iwarp.ListenConfig
		words []string
	}{
		{cfg: iwarp.ListenConfig{MaxPending: -1}, words: []string{"ListenConfig.MaxPending", "-1"}},
		{
			cfg:   iwarp.ListenConfig{MaxPending: 4, MaxPendingPerPeer: 5},
			words: []string{"ListenConfig.MaxPendingPerPeer", "5", "between 1 and 4"},
		},
		{cfg: iwarp.ListenConfig{Config: &iwarp.Config{RecvSize: -5}}, words: []string{"Config.RecvSize", "-5"}},
	} {
		_, err := c.cfg.Listen(t.Context(), "tcp", "127.0.0.1:0")
		wantWords(t, err, c.words...)
		_, err = c.cfg.NewListener(nil)
		wantWords(t, err, c.words...)
	}
	_, err = iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{QP: newQP(t, newDevice(t, nil), nil)})
	wantWords(t, err, "Config.QP", "ConnRequest.Accept")
	for _, c := range []struct {
		cfg   iwarp.DeviceConfig
		words []string
	}{
		{cfg: iwarp.DeviceConfig{MaxPD: -1}, words: []string{"DeviceConfig.MaxPD", "-1"}},
		{cfg: iwarp.DeviceConfig{MaxMR: 1 << 24}, words: []string{"DeviceConfig.MaxMR", "16777216", "16777215"}},
		{cfg: iwarp.DeviceConfig{MaxRead: 16383}, words: []string{"DeviceConfig.MaxRead", "16383", "16382"}},
		{cfg: iwarp.DeviceConfig{MaxEntries: -1}, words: []string{"DeviceConfig.MaxEntries", "-1"}},
		{cfg: iwarp.DeviceConfig{MaxOctets: -1}, words: []string{"DeviceConfig.MaxOctets", "-1"}},
		{
			cfg:   iwarp.DeviceConfig{CRCSuppression: &iwarp.CRCSuppression{}},
			words: []string{"CRCSuppression.Protection", "RFC 5044 section 4.4"},
		},
	} {
		_, err := iwarp.NewDevice(&c.cfg)
		wantWords(t, err, c.words...)
	}
}

// A conn that is handed over is closed when its configuration is bad, as the
// documentation says of every error but a rejection.
func TestBadConfigClosesConn(t *testing.T) {
	bad := &iwarp.Config{MPA: iwarp.MPAConfig{Revision: 9}}
	for name, start := range map[string]func(net.Conn) error{
		"Client":        func(c net.Conn) error { _, err := iwarp.Client(t.Context(), c, bad); return err },
		"Server":        func(c net.Conn) error { _, err := iwarp.Server(t.Context(), c, bad); return err },
		"ServerRequest": func(c net.Conn) error { _, err := iwarp.ServerRequest(t.Context(), c, bad); return err },
	} {
		a, b := pipe(nil)
		if start(a) == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := b.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%s: the conn is not closed: %v", name, err)
		}
	}
}

func TestConfigClone(t *testing.T) {
	if (*iwarp.Config)(nil).Clone() != nil {
		t.Error("clone of nil")
	}
	c := &iwarp.Config{PrivateData: []byte("x"), IRD: 4}
	n := c.Clone()
	n.PrivateData[0] = 'y'
	if c.PrivateData[0] != 'x' || n.IRD != 4 {
		t.Error("the clone shares Private Data")
	}
}

// Shows: DDP-5.2-02
func TestFPDUMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, size := range []int{0, 132, 1000, 64776} {
			x, y := pipe(nil)
			a, b := startOn(t, x, y, &iwarp.Config{MPA: iwarp.MPAConfig{FPDUMax: size}}, nil)
			mr := must(b.NewMR(make([]byte, 1<<17), iwarp.RemoteWrite|iwarp.RemoteRead))(t)
			data := pattern(1 << 17)
			check(t, "Write", a.RDMAWrite(testContext(t), data, mr.Remote()))
			check(t, "Read", a.RDMARead(testContext(t), make([]byte, 1<<17), mr.Remote()))
			if !bytes.Equal(mr.Bytes(), data) {
				t.Fatalf("FPDUMax %d: octets differ", size)
			}
			st := a.Stats()
			payload := st.MULPDU - 14
			if want := uint64((1<<17 + payload - 1) / payload); st.MPA.FPDUsSent < want || st.MPA.FPDUsSent > want+2 {
				t.Errorf("FPDUMax %d: %d FPDUs with MULPDU %d, want about %d", size, st.MPA.FPDUsSent, st.MULPDU, want)
			}
			endBoth(a, b)
		}
	})
}

// Shows: RDMAP-5.3-07, RDMAP-7.1-01
func TestRecvErrors(t *testing.T) {
	a, b := tcpPair(t, nil, &iwarp.Config{RecvSize: 100, RecvDepth: 2})
	ctx := testContext(t)
	check(t, "Send", a.Send(ctx, []byte("0123456789")))
	if m, err := b.Recv(ctx, make([]byte, 9)); !errors.Is(err, iwarp.ErrShortBuffer) || m.Length != 10 {
		t.Fatalf("short buffer: %+v, %v", m, err)
	}
	wantRecv(t, b, "0123456789")
	check(t, "Send", a.Send(ctx, make([]byte, 101)))
	_, err := b.Recv(ctx, make([]byte, 200))
	wantCode(t, err, protocol.DDPUntaggedTooLong, false)
	_, err = a.Recv(ctx, nil)
	wantCode(t, err, protocol.DDPUntaggedTooLong, true)
	wantDone(t, a)
	wantDone(t, b)
}

// A Send without a receive for it ends the connection with one Terminate, which
// both ULPs see.
// Shows: DDP-7.1-02, RDMAP-3.2-03, RDMAP-5.4-05
func TestNoReceiveLeft(t *testing.T) {
	a, b := tcpPair(t, nil, &iwarp.Config{RecvDepth: 2})
	ctx := testContext(t)
	for i := range 3 {
		check(t, "Send", a.Send(ctx, []byte{byte(i)}))
	}
	wantDone(t, a)
	perr := wantCode(t, a.Err(), protocol.DDPUntaggedNoBuffer, true)
	if perr.Offender == nil || len(perr.Offender.DDPHeader) != 18 {
		t.Errorf("the Terminate echoes %+v", perr.Offender)
	}
	wantDone(t, b)
	wantCode(t, b.Err(), protocol.DDPUntaggedNoBuffer, false)
	for i := range 2 {
		wantRecv(t, b, string([]byte{byte(i)}))
	}
	_, err := b.Recv(ctx, nil)
	wantCode(t, err, protocol.DDPUntaggedNoBuffer, false)
	_, err = b.Recv(ctx, nil)
	wantCode(t, err, protocol.DDPUntaggedNoBuffer, false)
}
