package iwarp_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// The attacks that RFC 5042 analyses and RFC 5044 section 9 names, carried out by
// a peer that keeps to no rule. docs/security.md has the list with the defences.

// Guessing STags: they are spread over all that 32 bits can say, neighbours tell
// nothing of each other, and the first wrong guess ends the connection.
// Shows: RDMAP-8.1.1-08, RDMAP-8.1.1-03
func TestAttackGuessedSTags(t *testing.T) {
	const n = 20_000
	d := newDevice(t, nil)
	pd := must(d.NewPD())(t)
	seen := make(map[iwarp.STag]bool, n)
	var ones [32]int
	var last iwarp.STag
	near, flips := 0, 0
	for range n {
		mr := must(pd.NewMR(nil, 0, nil))(t)
		s := mr.STag()
		if s == 0 || seen[s] {
			t.Fatalf("STag %v: zero, or given twice", s)
		}
		seen[s] = true
		for i := range ones {
			ones[i] += int(s >> i & 1)
		}
		if diff := int64(s) - int64(last); -1<<16 < diff && diff < 1<<16 {
			near++
		}
		flips += bits.OnesCount32(uint32(s ^ last))
		last = s
	}
	for i, k := range ones { // six standard deviations
		if k < n/2-6*71 || k > n/2+6*71 {
			t.Errorf("bit %d is set in %d of %d STags", i, k, n)
		}
	}
	if near > 10 { // 0.6 are to be expected
		t.Errorf("%d of %d STags are near the one before", near, n)
	}
	if mean := float64(flips) / n; mean < 15.8 || mean > 16.2 {
		t.Errorf("an STag differs from the one before in %.2f bits", mean)
	}

	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		inEachSetting(t, func(t *testing.T, s setting) {
			v := s.connect(t, true)
			guess := r.Uint32()
			v.p.Send(iwarptest.Write(guess, 1000, []byte("gotcha")), iwarptest.Write(v.stag(), 1000, []byte("gotcha")))
			v.p.WantTerminate("the first guess", uint16(protocol.DDPTaggedInvalidSTag))
			v.p.WantEOF("there is no second")
			v.p.CloseWrite()
			wantDone(t, v.c)
			v.g.checkUntouched(t)
		})
	}
}

// Use after the right has been taken away: while a peer writes as fast as it can,
// what the buffer holds when Invalidate, SetAccess or Close has returned stays.
// Shows: SEC-6.2.2-02, DDP-8.3.1-05, RDMAP-8.1.1-06
func TestAttackAfterRevocation(t *testing.T) {
	for name, revoke := range map[string]func(mr *iwarp.MR){
		"Invalidate": func(mr *iwarp.MR) { mr.Invalidate() },
		"Close":      func(mr *iwarp.MR) { mr.Close() },
		"SetAccess":  func(mr *iwarp.MR) { _ = mr.SetAccess(iwarp.RemoteRead) },
		"Rekey":      func(mr *iwarp.MR) { mr.Rekey(uint8(mr.STag()) + 1) },
	} {
		t.Run(name, func(t *testing.T) { overTCP(t, func(t *testing.T, s setting) { attackAfter(t, s, revoke) }) })
	}
}

func attackAfter(t *testing.T, s setting, revoke func(mr *iwarp.MR)) {
	a, b := tcpPair(t, s.config(nil), s.config(nil))
	s.watch(t, b)
	mem := make([]byte, 64<<10)
	mr := must(b.NewMR(mem, iwarp.RemoteWrite|iwarp.RemoteRead))(t)
	defer mr.Close()
	to := mr.Remote()
	check(t, "Write", a.RDMAWrite(testContext(t), pattern(len(mem)), to))
	check(t, "Read", a.RDMARead(testContext(t), make([]byte, 1), to))
	var wg sync.WaitGroup
	wg.Go(func() {
		data := make([]byte, len(mem))
		for i := 0; ; i++ {
			for j := range data {
				data[j] = byte(i)
			}
			if a.RDMAWrite(t.Context(), data, to) != nil {
				return
			}
		}
	})
	for range 100 {
		runtime.Gosched()
	}
	revoke(mr)
	then := bytes.Clone(mem) // the race detector looks on
	wantDone(t, b)
	if !bytes.Equal(mem, then) {
		t.Error("the buffer has changed after the right was taken away")
	}
	wantCode(t, b.Err(), protocol.DDPTaggedInvalidSTag, false)
	wg.Wait()
}

// An STag of somebody else, learned from wherever: no operation reaches it, and
// its owner notices nothing.
// Shows: SEC-6.1.1-01, SEC-6.1.1-02, RDMAP-8.1.1-01, RDMAP-8.1.1-07, RDMAP-7.2-07
func TestAttackForeignSTag(t *testing.T) {
	ee := []byte("01234567")
	for name, c := range map[string]struct {
		segment func(stag uint32) []byte
		code    protocol.Code
	}{
		"Write": {
			segment: func(s uint32) []byte { return iwarptest.Write(s, 0, ee) },
			code:    protocol.DDPTaggedSTagNotAssociated,
		},
		"Read": {
			segment: func(s uint32) []byte { return iwarptest.ReadRequest(1, 1, 0, 8, s, 0) },
			code:    protocol.RDMAPSTagNotAssociated,
		},
		"atomic": {
			segment: func(s uint32) []byte { return iwarptest.FetchAdd(1, 1, s, 0, 1, 0) },
			code:    protocol.RDMAPSTagNotAssociated,
		},
		"Invalidate": {
			segment: func(s uint32) []byte { return iwarptest.SendInvalidate(2, s, nil) },
			code:    protocol.RDMAPCannotInvalidate,
		},
	} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/shared %t", name, shared), func(t *testing.T) {
				inEachSetting(t, func(t *testing.T, s setting) {
					v := s.connect(t, true)
					a, b := bystanders(t, v.c.PD().Device())
					g := newGuarded(8)
					access := iwarp.RemoteRead | iwarp.RemoteWrite | iwarp.RemoteAtomic
					mr, err := b.NewMR(g.mem, access)
					if shared { // by all streams of its domain, which the attacker is not in
						mr, err = b.PD().NewMR(g.mem, access, nil)
					}
					check(t, "NewMR", err)
					defer mr.Close()
					v.p.Send(c.segment(uint32(mr.STag())))
					v.p.WantTerminate(name, uint16(c.code))
					v.p.WantEOF("the end")
					v.p.CloseWrite()
					wantDone(t, v.c)
					g.checkUntouched(t)
					check(t, "the owner's peer writes", a.RDMAWrite(testContext(t), ee, mr.Remote()))
					check(t, "and reads", a.RDMARead(testContext(t), make([]byte, 8), mr.Remote()))
					if string(g.mem) != string(ee) || !mr.Valid() {
						t.Error("the owner's region does not work any more")
					}
					closeBoth(t, a, b)
				})
			})
		}
	}
}

// A region that all streams of a domain use cannot be invalidated by the peer of
// one of them, who uses it rightly otherwise.
// Shows: RDMAP-8.1.1-07, RDMAP-5.3-13
func TestAttackInvalidateShared(t *testing.T) {
	inEachSetting(t, func(t *testing.T, s setting) {
		d := newDevice(t, nil)
		pd := must(d.NewPD())(t)
		mr := must(pd.NewMR(make([]byte, 8), iwarp.RemoteWrite, nil))(t)
		defer mr.Close()
		v, p := s.server(t, &iwarp.Config{PD: pd})
		x, y := pipe(nil)
		a, b := startOn(t, x, y, nil, &iwarp.Config{PD: pd})
		p.Send(iwarptest.Write(uint32(mr.STag()), 0, []byte("fine")),
			iwarptest.SendInvalidate(1, uint32(mr.STag()), nil))
		p.WantTerminate("not his to invalidate", uint16(protocol.RDMAPCannotInvalidate))
		p.WantEOF("the end")
		p.CloseWrite()
		wantDone(t, v)
		check(t, "Write of the other stream", a.RDMAWrite(testContext(t), []byte("mine"), mr.Remote()))
		check(t, "and what is behind it", a.Send(testContext(t), nil))
		recv(t, b)
		if !mr.Valid() || string(mr.Bytes()[:4]) != "mine" {
			t.Error("the region does not work any more")
		}
		closeBoth(t, a, b)
	})
}

// A Read Response that does not end, for one octet that was asked for.
// Shows: RDMAP-5.2.2-05, DDP-7.1-09
func TestAttackEndlessResponse(t *testing.T) {
	inEachSetting(t, func(t *testing.T, s setting) {
		v, p := s.client(t, nil)
		g := newGuarded(1)
		check(t, "PostSend", v.QP().PostSend(iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{g.mem}}))
		req := p.Frame("the Request")
		sink := uint32(req[18])<<24 | uint32(req[19])<<16 | uint32(req[20])<<8 | uint32(req[21])
		for i := range uint64(20) {
			p.Send(iwarptest.Tagged(2, false, sink, i, []byte{1}))
		}
		p.WantTerminate("the second octet", uint16(protocol.DDPTaggedBounds))
		p.WantEOF("the end")
		p.CloseWrite()
		wantDone(t, v)
		g.check(t)
	})
}

// Messages that do not end: a Send fills its buffer and no more; a Write without
// a last segment, and empty Writes without end, take time and nothing else.
// Shows: DDP-7.1-05, RDMAP-5.1-04
func TestAttackEndlessMessages(t *testing.T) {
	inEachSetting(t, func(t *testing.T, s setting) {
		v := s.connect(t, true)
		for i := range uint32(12) {
			v.p.Send(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 2, MO: 10 * i}, make([]byte, 10)))
		}
		v.p.WantTerminate("beyond the buffer", uint16(protocol.DDPUntaggedTooLong))
		v.p.WantEOF("the end")
		v.p.CloseWrite()
		wantDone(t, v.c)
	})
	synctest.Test(t, func(t *testing.T) {
		v := settings[0].connect(t, true)
		wantRecv(t, v.c, "a good message")
		var batch [][]byte
		for range 500 {
			batch = append(batch, iwarptest.Tagged(0, false, v.stag(), 1000, make([]byte, 10)),
				iwarptest.Write(0, 0, nil))
		}
		v.p.Send(batch...)
		synctest.Wait()
		before := footprintNow()
		for range 40 {
			v.p.Send(batch...)
			synctest.Wait()
		}
		if after := footprintNow(); after.heap > before.heap+256<<10 && !raceEnabled {
			t.Errorf("40000 segments have left %d octets of heap", after.heap-before.heap)
		}
		v.p.Send(iwarptest.Send(2, []byte("still here")))
		wantRecv(t, v.c, "still here")
	})
}

// Octets that somebody else puts into the stream, or changes in it: the CRC finds
// them, nothing of them is placed or delivered, the connection ends.
// Shows: MPA-4.4-14, MPA-8-02, DDP-3-06
func TestAttackInjectedOctets(t *testing.T) {
	for seed := range uint64(60) {
		inEachSetting(t, func(t *testing.T, s setting) {
			r := rand.New(rand.NewPCG(seed, 1))
			v := s.connect(t, seed%2 == 0)
			wantRecv(t, v.c, "a good message")
			var stream []byte
			for i := range uint32(4) {
				stream = append(stream, v.p.Out.Frame(iwarptest.Write(v.stag(), 1000, bytes.Repeat([]byte{1}, 100)))...)
				stream = append(stream, v.p.Out.Frame(iwarptest.Send(2+i, []byte("good")))...)
			}
			at, n := r.IntN(len(stream)), 1+r.IntN(60)
			forged := make([]byte, n)
			for i := range forged {
				forged[i] = byte(r.Uint32())
			}
			rest := stream[at:]
			if seed%3 == 0 { // in place of what was there
				rest = rest[min(n, len(rest)):]
				if bytes.HasPrefix(stream[at:], forged) {
					return
				}
			}
			// Behind it enough of anything that what a forged length waits for has come.
			if _, err := v.p.Conn.Write(bytes.Join([][]byte{stream[:at], forged, rest, make([]byte, 1<<10)},
				nil)); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = v.p.Conn.Write(make([]byte, 66<<10)); v.p.CloseWrite() }()
			for {
				buf := make([]byte, 100)
				m, err := v.c.Recv(testContext(t), buf)
				if err != nil {
					var perr *iwarp.ProtocolError
					if !errors.As(err, &perr) || perr.Code.Layer() != protocol.LayerLLP {
						t.Errorf("seed %d: %v", seed, err)
					}
					break
				}
				if string(buf[:m.Length]) != "good" {
					t.Errorf("seed %d: %q was delivered", seed, buf[:m.Length])
				}
			}
			for range 100 { // swallow our Terminate
				if _, err := v.p.Conn.Read(make([]byte, 1000)); err != nil {
					break
				}
			}
			wantDone(t, v.c)
			for i, c := range v.g.mem {
				if c != 1 && c != 0 {
					t.Errorf("seed %d: octet %d of the region is 0x%02x", seed, i, c)
				}
			}
			v.g.check(t)
		})
	}
}

// Stale data: a peer with the right to write cannot read what is there, a message
// brings its receiver no octet of an earlier one, and a Read gets what was asked
// for and nothing around it.
// Shows: SEC-6.3.5-01, RDMAP-8.1.1-03, MPA-4.1-03
func TestAttackStaleData(t *testing.T) {
	secret := bytes.Repeat([]byte("secret!!"), 8<<10)
	a, b := tcpPair(t, nil, nil) // of default buffers, which all connections share
	check(t, "Send", a.Send(testContext(t), secret[:64<<10]))
	recv(t, b)
	x, y := tcpPair(t, nil, nil)
	for _, n := range []int{0, 1, 5, 100} {
		check(t, "Send", x.Send(testContext(t), make([]byte, n)))
		buf := bytes.Repeat([]byte{'.'}, 1000)
		m, err := y.Recv(testContext(t), buf)
		check(t, "Recv", err)
		if m.Length != n || !bytes.Equal(buf[n:], bytes.Repeat([]byte{'.'}, 1000-n)) ||
			!bytes.Equal(buf[:n], make([]byte, n)) {
			t.Errorf("a message of %d octets brought %q", n, buf[:n+10])
		}
	}
	inEachSetting(t, func(t *testing.T, s setting) {
		v := s.connect(t, true)
		copy(v.g.mem, secret)
		// 3 octets of it, whose FPDU is padded: the peer reads strictly.
		v.p.Send(iwarptest.ReadRequest(1, 7, 0, 3, v.stag(), 1000))
		v.p.WantFrame("three octets", iwarptest.ReadResponse(7, 0, secret[:3]))
		v.p.Send(iwarptest.ReadRequest(2, 7, 0, 10, uint32(v.wo.STag()), 0))
		v.p.WantTerminate("write only", uint16(protocol.RDMAPAccess))
		v.p.WantEOF("the end")
		v.p.CloseWrite()
		wantDone(t, v.c)
	})
}

// A shared receive queue: a peer that sends while the program is slow takes its
// share and then loses its own connection; another peer's messages get through.
// Shows: SEC-6.4.3.1-01, RDMAP-8.1.2-07
func TestAttackSRQStarvation(t *testing.T) {
	srq, cq, clients, _ := srqServer(t, 2, &iwarp.SRQConfig{Depth: 16, MaxShare: 4})
	postSRQ(t, srq, 16, 100)
	for i := range 20 {
		if err := clients[0].Send(testContext(t), []byte{byte(i)}); err != nil {
			break
		}
	}
	wantDone(t, clients[0])
	wantCode(t, clients[0].Err(), protocol.DDPUntaggedNoBuffer, true)
	for i := range 4 {
		check(t, "the other's Send", clients[1].Send(testContext(t), []byte{byte(i)}))
	}
	good := 0
	for _, c := range collect(t, cq, 8) {
		if c.Err == nil {
			good++
		}
	}
	if good != 8 {
		t.Errorf("%d good messages, want 4 of each", good)
	}
	check(t, "and lives", clients[1].Send(testContext(t), nil))
	collect(t, cq, 1)
}

// heapPer makes n of something and gives what each costs of heap and goroutines.
func heapPer(t *testing.T, n int, make1 func(i int)) (octets int64, goroutines float64) {
	t.Helper()
	make1(-1) // pools, caches
	before := footprintNow()
	for i := range n {
		make1(i)
	}
	after := footprintNow()
	octets = (int64(after.heap) - int64(before.heap)) / int64(n)
	goroutines = float64(after.goroutines-before.goroutines) / float64(n)
	t.Logf("%d octets of heap and %.2f goroutines each", octets, goroutines)
	return octets, goroutines
}

// What a connection costs that has not proved anything yet, in whatever state a
// peer leaves it.
// Shows: SEC-6.4.1-01
func TestAttackUnprovenConnections(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's own memory would be measured")
	}
	request := iwarptest.Request(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(4, 4, make([]byte, 508)))
	big := iwarptest.FPDU(iwarptest.Send(1, make([]byte, 64_000)))
	for _, c := range []struct {
		name    string
		started bool   // the startup is over
		octets  []byte // what the peer sends, and then no more
		limit   int64  // octets of heap
	}{
		{name: "half-open", limit: 8 << 10},
		{name: "half a key", octets: request[:8], limit: 8 << 10},
		{name: "a huge PD_Length", octets: append(bytes.Clone(request[:18]), 0xff, 0xff), limit: 8 << 10},
		{name: "all but the last octet", octets: request[:len(request)-1], limit: 8 << 10},
		{name: "started and silent", started: true, limit: 16 << 10},
		{name: "one octet of an FPDU", started: true, octets: big[:1], limit: 24 << 10},
		{name: "4 KiB of a large FPDU", started: true, octets: big[:4<<10], limit: 24 << 10},
		{name: "most of a large FPDU", started: true, octets: big[:60<<10], limit: 320 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			const n = 50
			ln := must((&iwarp.ListenConfig{
				MaxPending: 2 * n, Config: &iwarp.Config{Device: newDevice(t, nil)},
			}).Listen(t.Context(),
				"tcp", "127.0.0.1:0"))(t)
			defer ln.Close()
			var ends []interface{ Close() error }
			perConn, goroutines := heapPer(t, n, func(int) {
				nc := must(net.Dial("tcp", ln.Addr().String()))(t)
				ends = append(ends, nc)
				if c.started {
					_, _ = nc.Write(request)
					r := must(ln.Accept(testContext(t)))(t)
					ends = append(ends, r)
					_, _ = nc.Read(make([]byte, 1000))
				}
				_, _ = nc.Write(c.octets)
				settleReads()
			})
			for _, e := range ends {
				_ = e.Close()
			}
			if perConn > c.limit {
				t.Errorf("%d octets of heap each, want at most %d", perConn, c.limit)
			}
			if goroutines > 2.1 {
				t.Errorf("%.2f goroutines each", goroutines)
			}
		})
	}
}

// settleReads lets receivers that have something to read do so.
func settleReads() {
	for range 20 {
		runtime.Gosched()
	}
}

// A peer that asks for as much as it may and takes nothing of it, and one whose
// messages nobody fetches: memory is bounded by what was agreed.
// Shows: SEC-6.4.3.3-02, RDMAP-6.1-02
func TestAttackUnreadAnswers(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's own memory would be measured")
	}
	v, p := serverOfPeer(t, &iwarp.Config{IRD: 32, RecvDepth: 16, RecvSize: 1000})
	mr := must(v.NewMR(make([]byte, 64<<20), iwarp.RemoteRead))(t)
	defer mr.Close()
	p.Send(iwarptest.Send(1, nil))
	recv(t, v)
	before := footprintNow()
	for i := range uint32(32) {
		p.Send(iwarptest.ReadRequest(i+1, 1, 0, 64<<20, uint32(mr.STag()), 0))
	}
	for i := range uint32(16) {
		p.Send(iwarptest.Send(2+i, make([]byte, 1000)))
	}
	settleReads()
	if after := footprintNow(); after.heap > before.heap+4<<20 {
		t.Errorf("2 GiB asked for, 16 messages unread: %d octets of heap", after.heap-before.heap)
	}
	p.Abort()
	wantDone(t, v)
}
