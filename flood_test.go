package iwarp_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// Floods of segments without payload, of every kind that is valid: they cost the
// receiver time and no memory, and what comes behind them gets through.
//
// Shows: DDP-5.2-08, RDMAP-5.1-04, RDMAP-5.2.1-10, RDMAP-5.3-04
func TestFloodOfEmptySegments(t *testing.T) {
	const turns = 200
	kinds := map[string]struct {
		segments func(v *victim, msn, read *uint32) [][]byte // of one turn
		answers  int
		messages int
	}{
		"Writes": {segments: func(*victim, *uint32, *uint32) [][]byte {
			return slicesOf(100, func() []byte { return iwarptest.Write(0xffffffff, ^uint64(0), nil) })
		}},
		"parts of a Write": {segments: func(v *victim, _, _ *uint32) [][]byte {
			return slicesOf(100, func() []byte { return iwarptest.Tagged(0, false, v.stag(), 1000, nil) })
		}},
		"parts of a Send": {segments: func(_ *victim, msn, _ *uint32) [][]byte {
			return slicesOf(100,
				func() []byte { return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: *msn}, nil) })
		}},
		"Sends": {messages: 4, segments: func(_ *victim, msn, _ *uint32) [][]byte {
			return slicesOf(4, func() []byte { *msn++; return iwarptest.Send(*msn-1, nil) })
		}},
		"Sends with SE": {messages: 4, segments: func(_ *victim, msn, _ *uint32) [][]byte {
			return slicesOf(4, func() []byte { *msn++; return iwarptest.SendSolicited(*msn-1, nil) })
		}},
		"Reads": {answers: 8, segments: func(_ *victim, _, read *uint32) [][]byte {
			return slicesOf(8, func() []byte { *read++; return iwarptest.ReadRequest(*read, 7, 0, 0, 0xffffffff, 9) })
		}},
	}
	for name, kind := range kinds {
		for _, server := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, server %t", name, server), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					v := settings[0].connect(t, server)
					wantRecv(t, v.c, "a good message")
					msn, read, ctx := uint32(2), uint32(0), testContext(t)
					turn := func() {
						v.p.Send(kind.segments(v, &msn, &read)...)
						for range kind.answers {
							if s := v.p.Frame("an answer"); len(s) != 14 {
								t.Fatalf("the answer is %s", iwarptest.Describe(s))
							}
						}
						for range kind.messages {
							if m, err := v.c.Recv(ctx, nil); err != nil || m.Length != 0 {
								t.Fatalf("Recv: %+v, %v", m, err)
							}
						}
						synctest.Wait()
					}
					turn()
					before := footprintNow()
					for range turns {
						turn()
					}
					if after := footprintNow(); after.heap > before.heap+256<<10 && !raceEnabled {
						t.Errorf("they have left %d octets of heap", after.heap-before.heap)
					}
					v.p.Send(iwarptest.Send(msn, []byte("still here")))
					wantRecv(t, v.c, "still here")
					v.g.checkUntouched(t)
				})
			})
		}
	}
}

func slicesOf(n int, f func() []byte) (all [][]byte) {
	for range n {
		all = append(all, f())
	}
	return all
}

// Storms of revocations: while a peer writes into a window as fast as it can, the
// window loses it in each way there is. What the buffer holds then stays, and the
// peer's next Write ends its connection.
//
// Shows: DDP-8.3.1-05, RDMAP-8.1.1-06, SEC-6.2.2-02
func TestStormOfRevocations(t *testing.T) {
	const rounds = 8
	for name, revoke := range map[string]func(t *testing.T, qp *iwarp.QP, mw *iwarp.MW, mr *iwarp.MR){
		"MW.Close":      func(_ *testing.T, _ *iwarp.QP, mw *iwarp.MW, _ *iwarp.MR) { mw.Close() },
		"MR.Invalidate": func(_ *testing.T, _ *iwarp.QP, _ *iwarp.MW, mr *iwarp.MR) { mr.Invalidate() },
		"MR.Close":      func(_ *testing.T, _ *iwarp.QP, _ *iwarp.MW, mr *iwarp.MR) { mr.Close() },
		"MR.SetAccess":  func(_ *testing.T, _ *iwarp.QP, _ *iwarp.MW, mr *iwarp.MR) { _ = mr.SetAccess(0) },
		"OpInvalidate of the window": func(t *testing.T, qp *iwarp.QP, mw *iwarp.MW, _ *iwarp.MR) {
			post(t, qp, iwarp.SendWR{Op: iwarp.OpInvalidate, Invalidate: mw.STag()})
		},
		"OpInvalidate of the region": func(t *testing.T, qp *iwarp.QP, _ *iwarp.MW, mr *iwarp.MR) {
			post(t, qp, iwarp.SendWR{Op: iwarp.OpInvalidate, Invalidate: mr.STag()})
		},
		"OpBind to nothing of it": func(t *testing.T, qp *iwarp.QP, mw *iwarp.MW, mr *iwarp.MR) {
			post(t, qp, iwarp.SendWR{Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Access: iwarp.RemoteRead}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range rounds {
				client, qp, mr, g := windowPair(t)
				check(t, "SetAccess", mr.SetAccess(iwarp.RemoteWrite))
				mw := must(qp.NewMW())(t)
				post(t, qp,
					iwarp.SendWR{
						Op: iwarp.OpBind, Bind: &iwarp.Bind{MW: mw, MR: mr, Length: 4096, Access: iwarp.RemoteWrite},
					})
				at := mw.Remote()
				check(t, "Write", client.RDMAWrite(testContext(t), pattern(4096), at))
				var writer sync.WaitGroup
				writer.Go(func() {
					data := make([]byte, 4096)
					for i := 0; ; i++ {
						for j := range data {
							data[j] = byte(i)
						}
						if client.RDMAWrite(t.Context(), data, at) != nil {
							return
						}
					}
				})
				for range 50 {
					runtime.Gosched()
				}
				revoke(t, qp, mw, mr)
				then := bytes.Clone(g.mem) // the race detector looks on
				wantDone(t, client)
				wantCode(t, client.Err(), protocol.DDPTaggedInvalidSTag, true)
				writer.Wait()
				if !bytes.Equal(g.mem, then) {
					t.Error("the buffer has changed after the right was taken away")
				}
				g.check(t)
				mw.Close()
				client.Abort()
			}
		})
	}
}

// A relay that inverts bits, anywhere and in either direction, startup included:
// every octet that is delivered is right, and both ends come to their end in time.
//
// Shows: MPA-4.4-14, MPA-8-02, DDP-3-06
func TestCorruptingRelay(t *testing.T) {
	const rounds, message = 40, 3000
	for seed := range uint64(rounds) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		fault := iwarptest.RelayFault{
			Kind: iwarptest.RelayCorrupt, Unit: iwarptest.UnitOctet, At: rnd.Uint64N(24_000),
			Count: 1 + rnd.IntN(8), Mask: byte(1 << rnd.IntN(8)), Back: rnd.IntN(2) == 0,
		}
		if seed%4 == 0 {
			fault.At %= 100 // the startup and the first FPDUs
		}
		t.Run(fault.String(), func(t *testing.T) {
			relay := must(iwarptest.NewRelay(&iwarptest.RelayConfig{Faults: []iwarptest.RelayFault{fault}}))(t)
			x, a := netPair(t, "tcp")
			b, y := netPair(t, "tcp")
			ctx := testContext(t)
			joined := make(chan error, 1)
			go func() { joined <- relay.Join(ctx, a, b) }()
			started := make(chan accepted, 1)
			go func() { c, err := iwarp.Server(ctx, y, nil); started <- accepted{c, err} }()
			client, cerr := iwarp.Client(ctx, x, nil)
			if cerr != nil {
				_ = x.Close()
			}
			server := <-started
			if server.err != nil && cerr == nil {
				client.Abort()
			}
			if cerr == nil && server.err == nil {
				var both sync.WaitGroup
				for _, ends := range [][2]*iwarp.Conn{{client, server.c}, {server.c, client}} {
					both.Go(func() {
						for i := range 8 {
							if ends[0].Send(ctx, pattern(message+i)) != nil {
								return
							}
						}
					})
					both.Go(func() {
						buf := make([]byte, 64<<10)
						for i := range 8 {
							m, err := ends[1].Recv(ctx, buf)
							if err != nil {
								return
							}
							if !bytes.Equal(buf[:m.Length], pattern(message+i)) {
								t.Errorf("message %d arrived with other octets", i)
							}
						}
					})
				}
				both.Wait()
			}
			for _, c := range []*iwarp.Conn{client, server.c} {
				if c != nil {
					c.Abort()
					wantDone(t, c)
				}
			}
			<-joined
		})
	}
}
