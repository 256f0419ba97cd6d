package rdmap_test

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// cable carries segments from one goroutine to another. It never blocks the one
// that puts, as little as a receive path may wait for a send path.
type cable struct {
	mu     sync.Mutex
	some   sync.Cond
	segs   [][]byte
	closed bool
}

func newCable() *cable {
	w := new(cable)
	w.some.L = &w.mu
	return w
}

func (w *cable) put(segs ...[]byte) {
	w.mu.Lock()
	w.segs = append(w.segs, segs...)
	w.mu.Unlock()
	w.some.Signal()
}

func (w *cable) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.some.Signal()
}

func (w *cable) take() (seg []byte, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.segs) == 0 && !w.closed {
		w.some.Wait()
	}
	if len(w.segs) == 0 {
		return nil, false
	}
	seg, w.segs = w.segs[0], w.segs[1:]
	return seg, true
}

// runEnd has one goroutine for each owner until both halves have ended.
func runEnd(wg *sync.WaitGroup, e *end, out, in *cable, kick chan struct{}) {
	wg.Go(func() {
		defer out.close()
		for range kick {
			for {
				p, err := e.s.Transmit(e.llp, true)
				out.put(e.llp.sent...)
				e.llp.sent = nil
				if p == rdmap.Finished || err != nil {
					return
				}
				if p == rdmap.Idle {
					break
				}
			}
		}
	})
	wg.Go(func() {
		for {
			seg, ok := in.take()
			if !ok {
				break
			}
			_ = e.receive(seg)
			if e.s.Wake() {
				wake(kick)
			}
		}
		_ = e.s.PeerClosed()
		e.s.StopReceive()
		wake(kick)
	})
}

func wake(kick chan struct{}) {
	select {
	case kick <- struct{}{}:
	default:
	}
}

// Shows: RDMAP-5.5-10, RDMAP-8.1.1-06, DDP-6.1-01
// Both owners of both ends run at once, with posters beside them, while a region
// is revoked again and again. The race detector looks on.
func TestOwnersAtOnce(t *testing.T) {
	for _, how := range []string{"close", "fail"} {
		t.Run(how, func(t *testing.T) {
			var ends [2]*end
			for i := range ends {
				ends[i] = newEnd(t, func(c *rdmap.Config) { c.Initiator, c.SendDepth = i == 0, 16 })
				ends[i].llp.mulpdu = 100
			}
			wires := [2]*cable{newCable(), newCable()}
			kicks := [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}
			const posts = 300
			var owners, posters sync.WaitGroup
			memory := [2][]byte{wordMemory(t, make([]uint64, 40)...), wordMemory(t, make([]uint64, 40)...)}
			for i, e := range ends {
				for range posts {
					e.postRecv(200)
				}
				runEnd(&owners, e, wires[i], wires[1-i], kicks[i])
			}
			for i, e := range ends {
				stag := ends[1-i].register(memory[1-i], allRights).STag()
				posters.Go(func() {
					data := bytes.Repeat([]byte{7}, 200)
					for n := 0; n < posts; {
						r := rdmap.SendWR{
							ID: uint64(n),
							Op: []rdmap.Op{
								rdmap.OpSend, rdmap.OpWrite, rdmap.OpRead, rdmap.OpFetchAdd, rdmap.OpImmediate,
							}[n%5],
							Remote: rdmap.RemoteBuffer{STag: stag},
						}
						switch r.Op {
						case rdmap.OpSend, rdmap.OpWrite:
							r.Remote.TO, r.SG = 16, [][]byte{data}
						case rdmap.OpRead:
							// Not what Writes reach: a later one may be placed before
							// this is answered (RFC 5040 section 5.5 rule 12).
							r.Remote.TO, r.SG = 216, [][]byte{make([]byte, 100)}
						}
						if err := e.s.Post(&r, nil); errors.Is(err, rdmap.ErrSendQueueFull) {
							runtime.Gosched()
							continue
						} else if err != nil {
							t.Error(err)
							return
						}
						wake(kicks[i])
						if n++; how == "fail" && n == posts/2 {
							e.s.Fail(&protocol.Error{Code: protocol.MPACRC}, true)
							wake(kicks[i])
						}
					}
				})
			}
			posters.Wait()
			for _, e := range ends {
				for e.s.Outstanding() > 0 && how == "close" {
					runtime.Gosched()
				}
			}
			for i, e := range ends {
				e.s.CloseSend()
				wake(kicks[i])
			}
			owners.Wait()
			for i, e := range ends {
				if len(e.done) != posts {
					t.Errorf("end %d: %d completions of %d, %v", i, len(e.done), posts, e.s.Err())
				}
				for n, c := range e.done {
					if c.ID != uint64(n) || how == "close" && c.Err != nil {
						t.Fatalf("end %d: completion %d is %+v", i, n, c)
					}
				}
			}
		})
	}
}

// Shows: RDMAP-8.1.1-06
// Invalidate is a barrier while Responses are being framed from the region.
func TestInvalidateWhileAnswering(t *testing.T) {
	e := newEnd(t, responder)
	e.llp.mulpdu, e.llp.limit = 30, 1000
	buf := bytes.Repeat([]byte{1}, 4000)
	region := e.register(buf, allRights)
	e.deliver(iwarptest.ReadRequest(1, 5, 0, 4000, uint32(region.STag()), 0))
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.transmit()
	}()
	region.Invalidate()
	for i := range buf { // the race detector sees a reader that is left
		buf[i] = 2
	}
	<-done
	for _, seg := range e.llp.sent {
		if seg[1]&0xf == 2 && bytes.IndexByte(seg[14:], 2) >= 0 {
			t.Fatal("octets were read after Invalidate")
		}
	}
}
