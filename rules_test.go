package iwarp_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

// Rules that only whole endpoints can keep.

// With and without CRC, a program sees the same: each call, completion and
// message.
// Shows: MPA-4.4-06
func TestCRCIsInvisible(t *testing.T) {
	var seen [2][]iwarp.Completion
	for i, crc := range []bool{true, false} {
		cfg := &iwarp.DeviceConfig{}
		if !crc {
			cfg.CRCSuppression = &iwarp.CRCSuppression{Protection: "a test", Peers: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
		}
		d := newDevice(t, cfg)
		a, b := newQP(t, d, nil), newQP(t, d, nil)
		tcpPair(t, &iwarp.Config{QP: a}, &iwarp.Config{QP: b})
		if st := a.Conn().ConnectionState(); st.CRC != crc {
			t.Fatalf("the CRC is %t, want %t", st.CRC, crc)
		}
		mr := must(b.PD().RegisterMR(make([]byte, 100_000), iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic, &iwarp.MROptions{QP: b}))(t)
		window := mr.Remote(0)
		check(t, "PostRecv", b.PostRecv(iwarp.RecvWR{ID: 1, SG: [][]byte{make([]byte, 100)}}, iwarp.RecvWR{ID: 2}, iwarp.RecvWR{ID: 3}))
		sink := make([]byte, 70_000)
		check(t, "PostSend", a.PostSend(
			iwarp.SendWR{ID: 10, Op: iwarp.OpWrite, SG: [][]byte{pattern(70_000)}, Remote: window},
			iwarp.SendWR{ID: 11, Op: iwarp.OpRead, SG: [][]byte{sink}, Remote: window},
			iwarp.SendWR{ID: 12, Op: iwarp.OpFetchAdd, Remote: mr.Remote(80_000), Operand: 3},
			iwarp.SendWR{ID: 13, Op: iwarp.OpSend, SG: [][]byte{[]byte("hello")}, Solicited: true},
			iwarp.SendWR{ID: 14, Op: iwarp.OpImmediate, Immediate: 99},
			iwarp.SendWR{ID: 15, Op: iwarp.OpSendInvalidate, Invalidate: mr.STag(), Fence: true},
		))
		all := append(collect(t, a.SendCQ(), 6), collect(t, b.RecvCQ(), 3)...)
		for j := range all {
			if all[j].Invalidated == mr.STag() {
				all[j].Invalidated = 1 // random
			}
			all[j].QP = nil
		}
		seen[i] = all
		if !bytes.Equal(sink, pattern(70_000)) {
			t.Errorf("CRC %t: the Read gave other octets", crc)
		}
	}
	for i := range seen[0] {
		if seen[0][i] != seen[1][i] {
			t.Errorf("completion %d with a CRC is %+v, without %+v", i, seen[0][i], seen[1][i])
		}
	}
}

// A Write or Send is complete when the network has taken it: the peer has not
// read an octet yet, and may never do so.
// Shows: DDP-5.4-01, RDMAP-5.5-03, RDMAP-5.5-09
func TestCompleteIsNotReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := clientOfPeer(t, nil)
		check(t, "PostSend", c.QP().PostSend(
			iwarp.SendWR{ID: 1, Op: iwarp.OpWrite, SG: [][]byte{make([]byte, 1000)}},
			iwarp.SendWR{ID: 2, Op: iwarp.OpSend, SG: [][]byte{make([]byte, 1000)}}))
		for i, got := range collect(t, c.QP().SendCQ(), 2) {
			if got.ID != uint64(i+1) || got.Err != nil {
				t.Errorf("%+v", got)
			}
		}
		// More than the network takes.
		check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{ID: 3, Op: iwarp.OpWrite, SG: [][]byte{make([]byte, 1<<20)}}))
		synctest.Wait()
		if n := c.QP().SendCQ().Poll(make([]iwarp.Completion, 1)); n != 0 {
			t.Error("a Write that the network has not taken is complete")
		}
		p.Abort()
		if got := collect(t, c.QP().SendCQ(), 1)[0]; got.ID != 3 || !errors.Is(got.Err, iwarp.ErrFlushed) {
			t.Errorf("%+v", got)
		}
	})
}

// What happens below comes up as an error that says what: a reset, an end inside
// an FPDU, a bad CRC. A FIN between FPDUs is no error.
// Shows: DDP-7-01, DDP-3-09, MPA-3-09, DDP-6.2.2-01, MPA-8-06
func TestLowerLayerEnds(t *testing.T) {
	frame := iwarptest.FPDU(iwarptest.Send(1, []byte("hello")))
	bad := bytes.Clone(frame)
	bad[len(bad)-1] ^= 1
	for name, c := range map[string]struct {
		end  func(p *iwarptest.Peer)
		code protocol.Code // 0: none
	}{
		"FIN":         {func(p *iwarptest.Peer) { p.CloseWrite() }, 0},
		"reset":       {func(p *iwarptest.Peer) { p.Abort() }, protocol.MPAConnectionLost},
		"FIN inside":  {func(p *iwarptest.Peer) { p.SendRaw(frame[:9]); p.CloseWrite() }, protocol.MPAConnectionLost},
		"CRC":         {func(p *iwarptest.Peer) { p.SendRaw(bad); p.CloseWrite() }, protocol.MPACRC},
		"empty ULPDU": {func(p *iwarptest.Peer) { p.SendRaw(iwarptest.FPDU(nil)); p.CloseWrite() }, protocol.DDPLocalCatastrophic},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, p := clientOfPeer(t, nil)
				c.end(p)
				_, err := v.Recv(testContext(t), make([]byte, 10))
				if c.code == 0 {
					if !errors.Is(err, io.EOF) || v.Err() != nil {
						t.Errorf("Recv: %v, connection: %v", err, v.Err())
					}
					check(t, "Close", v.Close())
					return
				}
				wantCode(t, err, c.code, false)
				wantDone(t, v)
				wantCode(t, v.Err(), c.code, false)
			})
		})
	}
}

// When its one stream has ended, gracefully or not, so has the connection below.
// Shows: DDP-3-10, DDP-6.2-02, RDMAP-6.2.1-03, RDMAP-7-01
func TestStreamEndsConnection(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *iwarp.Conn, p *iwarptest.Peer){
		"graceful": func(t *testing.T, c *iwarp.Conn, p *iwarptest.Peer) {
			c.CloseWrite()
			p.WantEOF("FIN")
			p.CloseWrite()
		},
		"error here": func(t *testing.T, c *iwarp.Conn, p *iwarptest.Peer) {
			p.Send(iwarptest.Send(9, nil))
			p.WantTerminate("MSN", uint16(protocol.DDPUntaggedMSN))
			p.WantEOF("FIN")
			p.CloseWrite()
		},
		"error here, and the peer stays": func(t *testing.T, c *iwarp.Conn, p *iwarptest.Peer) {
			p.Send(iwarptest.Send(9, nil))
			p.WantTerminate("MSN", uint16(protocol.DDPUntaggedMSN))
			p.WantEOF("FIN")
		},
		"Terminate, and the peer stays": func(t *testing.T, c *iwarp.Conn, p *iwarptest.Peer) {
			p.Send(iwarptest.Terminate(0x1203, nil))
			p.WantEOF("FIN")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := clientOfPeer(t, &iwarp.Config{CloseTimeout: time.Second})
				end(t, c, p)
				wantDone(t, c)
				if _, err := c.NetConn().Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
					t.Errorf("the connection below is still open here: %v", err)
				}
				if _, err := p.Conn.Write(make([]byte, 100_000)); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
					// An octet to an end that has gone: the second Write at the latest fails.
					if _, err = p.Conn.Write(make([]byte, 100_000)); err == nil {
						t.Errorf("the connection below is still open for the peer")
					}
				}
			})
		})
	}
}

// Without a word from the program, connections share neither a domain nor a
// completion queue, and an STag is of the one connection.
// Shows: SEC-6.1.1-01, DDP-8.2-03, SEC-7.1-01, RDMAP-8.1.1-09
func TestNothingIsSharedByDefault(t *testing.T) {
	d := newDevice(t, nil)
	a1, b1 := tcpPair(t, nil, &iwarp.Config{Device: d})
	_, b2 := tcpPair(t, nil, &iwarp.Config{Device: d})
	if b1.PD() == b2.PD() {
		t.Error("two connections are in one domain")
	}
	queues := map[*iwarp.CQ]bool{}
	for _, c := range []*iwarp.Conn{b1, b2} {
		queues[c.QP().SendCQ()], queues[c.QP().RecvCQ()] = true, true
	}
	pd := must(d.AllocPD())(t)
	for range 2 {
		qp := must(pd.NewQP(nil))(t)
		queues[qp.SendCQ()], queues[qp.RecvCQ()] = true, true
	}
	if len(queues) != 8 {
		t.Errorf("%d completion queues for 4 QPs", len(queues))
	}
	// Even the STag of the other connection's whole domain.
	mr := must(b2.PD().RegisterMR(make([]byte, 8), iwarp.RemoteRead, nil))(t)
	defer mr.Close()
	wantCode(t, a1.Read(testContext(t), make([]byte, 8), mr.Remote(0)), protocol.RDMAPSTagNotAssociated, true)
	if _, err := ddp.NewTable(0).Register(ddp.RegionConfig{Buf: make([]byte, 8)}); !errors.Is(err, ddp.ErrNoPD) {
		t.Errorf("an STag of no domain: %v", err)
	}
}

// The device's manager is the only way to scarce resources: each kind is counted
// for the tenant that has it, its end for one is not the end for another, and
// tenants reach nothing of each other's.
// Shows: DDP-8.3-05, DDP-8.3.2-03, RDMAP-8.1.2-01, RDMAP-8.1.2-02, SEC-3-01
func TestTenantsApart(t *testing.T) {
	d := newDevice(t, &iwarp.DeviceConfig{MaxPD: 20, MaxQP: 20, MaxCQ: 40, MaxMR: 20, MaxEntries: 10_000, MaxOctets: 10_000})
	reserve := iwarp.Quota{PDs: 2, QPs: 2, CQs: 4, MRs: 2, Entries: 2000, Octets: 1000}
	greedy := must(d.NewTenant(iwarp.TenantConfig{Name: "greedy"}))(t)
	modest := must(d.NewTenant(iwarp.TenantConfig{Name: "modest", Reserve: reserve}))(t)
	pd := must(greedy.AllocPD())(t)
	theirs := must(greedy.NewCQ(10))(t)
	for name, take := range map[string]func() error{
		"PD": func() error { _, err := greedy.AllocPD(); return err },
		"QP": func() error { _, err := pd.NewQP(&iwarp.QPConfig{SendDepth: 1, RecvDepth: 1}); return err },
		"CQ": func() error { _, err := greedy.NewCQ(1); return err },
		"MR": func() error { _, err := pd.RegisterMR(make([]byte, 1), 0, nil); return err },
		"octets": func() error {
			mr, err := pd.RegisterMR(make([]byte, 9500), 0, nil)
			if err == nil {
				mr.Close()
			}
			return err
		},
		"entries": func() error { _, err := greedy.NewCQ(9000); return err },
	} {
		var err error
		for range 100 {
			if err = take(); err != nil {
				break
			}
		}
		var limit *iwarp.LimitError
		if !errors.As(err, &limit) || !errors.Is(err, iwarp.ErrLimit) {
			t.Errorf("%s: no end: %v", name, err)
		}
	}
	// All that the other was promised is there still.
	mine := must(modest.AllocPD())(t)
	must(modest.AllocPD())(t)
	qp := must(mine.NewQP(&iwarp.QPConfig{SendDepth: 100, RecvDepth: 100}))(t)
	must(mine.NewQP(&iwarp.QPConfig{SendDepth: 100, RecvDepth: 100}))(t)
	must(mine.RegisterMR(make([]byte, 1000), iwarp.RemoteRead, &iwarp.MROptions{QP: qp}))(t)
	// And nothing of it is for others to use.
	if _, err := pd.RegisterMR(nil, 0, &iwarp.MROptions{QP: qp}); err == nil {
		t.Error("a region bound to a QP of another tenant")
	}
	if _, err := mine.NewQP(&iwarp.QPConfig{SendCQ: theirs}); !errors.Is(err, iwarp.ErrInvalidWR) && err == nil {
		t.Error("a QP with a completion queue of another tenant")
	}
	if u := modest.Use(); u.QPs != 2 || u.PDs != 2 || u.MRs != 1 || u.Octets != 1000 {
		t.Errorf("in use: %+v", u)
	}
}

// Reads of one connection take no place of another's: while one peer has all its
// Reads under way and takes no data, another's are answered.
// Shows: SEC-6.4.3.3-01, RDMAP-8.1.2-06, RDMAP-5.5-02, DDP-5.3-03
func TestReadsOfOneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, nil)
		x, y := pipe(&iwarptest.PipeConfig{Window: 1 << 10})
		v, p := serverOn(t, x, y, &iwarp.Config{Device: d, IRD: 2})
		mr := must(v.RegisterMR(make([]byte, 100_000), iwarp.RemoteRead))(t)
		defer mr.Close()
		p.Send(iwarptest.ReadRequest(1, 1, 0, 100_000, uint32(mr.STag()), 0), iwarptest.ReadRequest(2, 1, 0, 100_000, uint32(mr.STag()), 0))
		synctest.Wait()
		a, b := bystanders(t, d)
		other := must(b.RegisterMR(pattern(1000), iwarp.RemoteRead))(t)
		defer other.Close()
		got := make([]byte, 1000)
		for range 10 {
			check(t, "Read of the bystander", a.Read(testContext(t), got, other.Remote(0)))
		}
		if !bytes.Equal(got, pattern(1000)) {
			t.Error("other octets")
		}
		closeBoth(t, a, b)
	})
}

// The depths of Reads have a cap, which neither the program nor the peer gets
// above.
// Shows: SEC-6.4.3.3-02, RDMAP-8.1.1-11
func TestReadCap(t *testing.T) {
	d := newDevice(t, &iwarp.DeviceConfig{MaxRead: 3})
	for _, cfg := range []*iwarp.Config{{Device: d, IRD: 4}, {Device: d, ORD: 4}} {
		x, y := pipe(nil)
		if _, err := iwarp.Client(testContext(t), x, cfg); !errors.Is(err, iwarp.ErrLimit) {
			t.Errorf("IRD %d, ORD %d: %v", cfg.IRD, cfg.ORD, err)
		}
		_ = y.Close()
	}
	x, y := pipe(nil)
	a, b := startOn(t, x, y, &iwarp.Config{IRD: 1000, ORD: 1000}, &iwarp.Config{Device: d})
	if st := b.ConnectionState(); st.IRD > 3 || st.ORD > 3 {
		t.Errorf("the capped end has IRD %d, ORD %d", st.IRD, st.ORD)
	}
	if st := a.ConnectionState(); st.ORD > 3 {
		t.Errorf("its peer has ORD %d", st.ORD)
	}
}

// A completion queue that two QPs share cannot overflow: a post without room for
// its completion is refused, whoever makes it, every completion comes, and a QP
// with another queue notices nothing.
// Shows: SEC-6.4.3.2-01, SEC-6.4.6-01
func TestSharedCQ(t *testing.T) {
	d := newDevice(t, nil)
	cq := must(d.NewCQ(4))(t)
	defer cq.Close()
	var clients []*iwarp.QP
	for _, c := range []*iwarp.CQ{cq, cq, nil} {
		qp := newQP(t, d, &iwarp.QPConfig{SendCQ: c, SendDepth: 10})
		tcpPair(t, &iwarp.Config{QP: qp}, nil)
		clients = append(clients, qp)
	}
	post := func(qp *iwarp.QP, id uint64) error { return qp.PostSend(iwarp.SendWR{ID: id, Op: iwarp.OpWrite}) }
	for i := range uint64(4) {
		check(t, "PostSend", post(clients[i%2], i))
	}
	for _, qp := range clients[:2] { // also when all four have completed
		if err := post(qp, 9); !errors.Is(err, iwarp.ErrCQFull) {
			t.Errorf("a fifth: %v", err)
		}
	}
	for i := range uint64(10) {
		check(t, "PostSend with another queue", post(clients[2], i))
	}
	collect(t, clients[2].SendCQ(), 10)
	seen := map[uint64]bool{}
	for _, c := range collect(t, cq, 4) {
		if c.Err != nil || c.ID > 3 || seen[c.ID] {
			t.Errorf("%+v", c)
		}
		seen[c.ID] = true
	}
	check(t, "after polling", post(clients[0], 5))
	collect(t, cq, 1)
	// Also while nothing has completed: what is posted has its entry.
	recvs := must(d.NewCQ(3))(t)
	defer recvs.Close()
	x, y := newQP(t, d, &iwarp.QPConfig{RecvCQ: recvs}), newQP(t, d, &iwarp.QPConfig{RecvCQ: recvs})
	check(t, "PostRecv", x.PostRecv(iwarp.RecvWR{ID: 1}, iwarp.RecvWR{ID: 2}))
	check(t, "PostRecv", y.PostRecv(iwarp.RecvWR{ID: 3}))
	for _, qp := range []*iwarp.QP{x, y} {
		if err := qp.PostRecv(iwarp.RecvWR{ID: 4}); !errors.Is(err, iwarp.ErrCQFull) {
			t.Errorf("a fourth: %v", err)
		}
	}
	check(t, "Close", x.Close())
	check(t, "Close", y.Close())
	if got := collect(t, recvs, 3); got[0].ID != 1 || got[1].ID != 2 || got[2].ID != 3 {
		t.Errorf("flushed: %+v", got)
	}
}

// An initiator that finds the agreement unacceptable, for a reason that has no
// number of its own, says 2/0/05 before it goes: here a responder of revision 0,
// which knows no peer-to-peer.
// Shows: MPA2-9.3-01, MPA2-8-01
func TestLocalErrorOfStartup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := pipe(nil)
		p := iwarptest.NewPeer(t, y)
		got := make(chan error, 1)
		go func() {
			_, err := iwarp.Client(testContext(t), x, &iwarp.Config{RDMAC: mpa.RDMACPermissive, RequirePeerToPeer: true})
			got <- err
		}()
		p.Respond("startup", iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagM, 0, nil))
		p.Out.Markers, p.In.Markers = true, true
		seg := p.Frame("the Terminate")
		if want := versionZero(iwarptest.Terminate(uint16(protocol.MPALocalCatastrophic), nil)); !bytes.Equal(seg, want) {
			t.Errorf("got %x, want %x", seg, want)
		}
		p.WantEOF("the end")
		p.CloseWrite()
		wantCode(t, <-got, protocol.MPALocalCatastrophic, false)
	})
}

// A window's STag is known when its bind is posted, and works from the bind's turn
// on: not while a Read that the bind waits for has no Response.
// Shows: RDMAP-8.1.1-04
func TestWindowBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, p := clientOfPeer(t, nil)
		g := newGuarded(100)
		mr := must(v.RegisterMR(g.mem, 0))(t)
		defer mr.Close()
		mw := must(v.QP().AllocMW())(t)
		defer mw.Close()
		check(t, "PostSend", v.QP().PostSend(
			iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{make([]byte, 1)}},
			iwarp.SendWR{Op: iwarp.OpBind, Fence: true, Bind: &iwarp.Bind{MW: mw, MR: mr, Length: 100, Access: iwarp.RemoteWrite}}))
		p.Frame("the Read Request")
		if mw.STag() == 0 || mw.Valid() {
			t.Errorf("STag %v, valid %t", mw.STag(), mw.Valid())
		}
		p.Send(iwarptest.Write(uint32(mw.STag()), 0, []byte("early")))
		p.WantTerminate("before the bind's turn", uint16(protocol.DDPTaggedInvalidSTag))
		p.WantEOF("the end")
		p.CloseWrite()
		wantDone(t, v)
		g.checkUntouched(t)
	})
}
