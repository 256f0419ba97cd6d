package iwarp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// ownQueues are queues of a program's own. Every event is noted in words.
type ownQueues struct {
	mu     sync.Mutex
	recvs  [][]byte
	taken  uint64
	events []string
	more   chan struct{}
}

func newOwnQueues(recvs ...[]byte) *ownQueues {
	return &ownQueues{recvs: recvs, more: make(chan struct{}, 1)}
}

func (q *ownQueues) note(format string, args ...any) {
	q.mu.Lock()
	q.events = append(q.events, fmt.Sprintf(format, args...))
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *ownQueues) Take(*ddp.Header) (ddp.Buffer, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taken == uint64(len(q.recvs)) {
		return ddp.Buffer{}, false
	}
	b := ddp.Buffer{SG: [][]byte{q.recvs[q.taken]}, Token: q.taken}
	q.taken++
	return b, true
}

func (q *ownQueues) Ready() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.taken < uint64(len(q.recvs))
}

func (q *ownQueues) Completed(c *rdmap.Completion) {
	q.note("sent %d unsignaled %v error %v", c.ID, c.Unsignaled, c.Err != nil)
}

func (q *ownQueues) Delivered(d *rdmap.Delivery) *protocol.Error {
	q.note("received %d with %q", d.Buffer.Token, d.Buffer.SG[0][:d.Length])
	return nil
}

func (q *ownQueues) Ended(err error) { q.note("ended %v", err) }

// wait waits for n events and returns them.
func (q *ownQueues) wait(t *testing.T, n int) []string {
	t.Helper()
	ctx := testContext(t)
	for {
		q.mu.Lock()
		got := slices.Clone(q.events)
		q.mu.Unlock()
		if len(got) >= n {
			return got
		}
		select {
		case <-q.more:
		case <-ctx.Done():
			t.Fatalf("after %q, %d events: nothing more", got, n)
		}
	}
}

// A QP whose queues are the program's tells them all: each send, unsignaled ones too,
// each message, and the end of the peer's half.
func TestQueues(t *testing.T) {
	d := newDevice(t, nil)
	a, b := newOwnQueues(), newOwnQueues(make([]byte, 8), make([]byte, 8), make([]byte, 8))
	qa := newQP(t, d, &iwarp.QPConfig{Queues: a})
	qb := newQP(t, d, &iwarp.QPConfig{Queues: b})
	ca, cb := tcpPair(t, &iwarp.Config{QP: qa}, &iwarp.Config{QP: qb})
	check(t, "PostSend", qa.PostSend(
		iwarp.SendWR{ID: 1, Op: iwarp.OpSend, SG: [][]byte{[]byte("one")}, Unsignaled: true},
		iwarp.SendWR{ID: 2, Op: iwarp.OpSend, SG: [][]byte{[]byte("two")}},
	))
	ca.CloseWrite()
	if got, want := b.wait(t, 3), []string{
		`received 0 with "one"`, `received 1 with "two"`, "ended EOF",
	}; !slices.Equal(got, want) {
		t.Errorf("the receiving end saw %q, want %q", got, want)
	}
	if got, want := a.wait(t, 2), []string{
		"sent 1 unsignaled true error false", "sent 2 unsignaled false error false",
	}; !slices.Equal(got, want) {
		t.Errorf("the sending end saw %q, want %q", got, want)
	}
	if cb.Err() != nil {
		t.Errorf("the peer's FIN is an error: %v", cb.Err())
	}
	closeBoth(t, ca, cb)
}

// A message that finds no receive in such queues is refused as any other, and both ends'
// queues hear of the end once.
func TestQueuesWithoutReceive(t *testing.T) {
	d := newDevice(t, nil)
	a, b := newOwnQueues(), newOwnQueues()
	qa, qb := newQP(t, d, &iwarp.QPConfig{Queues: a}), newQP(t, d, &iwarp.QPConfig{Queues: b})
	ca, cb := tcpPair(t, &iwarp.Config{QP: qa}, &iwarp.Config{QP: qb})
	check(t, "PostSend", qa.PostSend(iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{[]byte("x")}}))
	wantDone(t, ca)
	wantDone(t, cb)
	wantCode(t, ca.Err(), protocol.DDPUntaggedNoBuffer, true)
	wantCode(t, cb.Err(), protocol.DDPUntaggedNoBuffer, false)
	if got := b.wait(t, 1); len(got) != 1 {
		t.Errorf("the end came as %q, want one event", got)
	}
}

// With RecvWait a message waits for its receive, and what follows waits behind it; beyond
// it the message is refused.
func TestRecvWait(t *testing.T) {
	for _, kind := range []string{"tcp", "Pipe"} {
		for _, p := range []iwarp.Progress{iwarp.ProgressAdaptive, iwarp.ProgressParked, iwarp.ProgressPolling} {
			t.Run(fmt.Sprintf("%s/%v", kind, p), func(t *testing.T) {
				d := newDevice(t, nil)
				qp := newQP(t, d, &iwarp.QPConfig{RecvWait: patience})
				a, b := netPair(t, kind)
				peer, c := startOn(t, a, b, nil, &iwarp.Config{QP: qp, Progress: p})
				region := newGuarded(8)
				mr := must(qp.PD().NewMR(region.mem, iwarp.RemoteWrite, nil))(t)
				const messages = 50
				go func() {
					for i := range messages {
						if err := peer.Send(testContext(t), []byte{byte(i)}); err != nil {
							t.Errorf("Send %d: %v", i, err)
						}
					}
					if err := peer.RDMAWrite(testContext(t), []byte("after it"), mr.Remote()); err != nil {
						t.Errorf("Write: %v", err)
					}
					peer.CloseWrite()
				}()
				for i := range messages {
					got := make([]byte, 1)
					check(t, "PostRecv", qp.PostRecv(iwarp.RecvWR{ID: uint64(i), SG: [][]byte{got}}))
					if w := collect(t, qp.RecvCQ(), 1)[0]; w.Err != nil || w.ID != uint64(i) || got[0] != byte(i) {
						t.Fatalf("message %d: %+v, %v", i, w, got)
					}
				}
				check(t, "Close", c.Close())
				if string(region.mem) != "after it" {
					t.Errorf("the Write behind the messages brought %q", region.mem)
				}
			})
		}
	}
}

// A caller of Poll that comes upon a message without a receive need not come again.
func TestRecvWaitAfterPoll(t *testing.T) {
	d := newDevice(t, nil)
	for range 30 {
		own := newOwnQueues()
		qp := newQP(t, d, &iwarp.QPConfig{Queues: own, RecvWait: patience})
		peer, c := tcpPair(t, nil, &iwarp.Config{QP: qp})
		check(t, "Send", peer.Send(testContext(t), []byte("x")))
		for range 1000 {
			if c.Poll() > 0 {
				break // and not the receive goroutine
			}
		}
		own.mu.Lock()
		own.recvs = append(own.recvs, make([]byte, 8))
		own.mu.Unlock()
		if got := own.wait(t, 1); got[0] != `received 0 with "x"` {
			t.Fatalf("the message came as %q", got)
		}
		closeBoth(t, peer, c)
	}
}

func TestRecvWaitEnds(t *testing.T) {
	qp := newQP(t, newDevice(t, nil), &iwarp.QPConfig{RecvWait: 1})
	peer, c := tcpPair(t, nil, &iwarp.Config{QP: qp})
	check(t, "Send", peer.Send(testContext(t), []byte("x")))
	wantDone(t, c)
	wantCode(t, c.Err(), protocol.DDPUntaggedNoBuffer, false)
}

func TestQueuesAlone(t *testing.T) {
	d := newDevice(t, nil)
	cq := must(d.NewCQ(1))(t)
	pd := must(d.NewPD())(t)
	if _, err := pd.NewQP(&iwarp.QPConfig{Queues: newOwnQueues(), RecvCQ: cq}); !errors.Is(err, iwarp.ErrInvalidWR) {
		t.Errorf("Queues beside a CQ: %v, want ErrInvalidWR", err)
	}
	own := newOwnQueues()
	qp := must(pd.NewQP(&iwarp.QPConfig{Queues: own}))(t)
	if err := qp.PostRecv(iwarp.RecvWR{}); !errors.Is(err, iwarp.ErrInvalidWR) {
		t.Errorf("PostRecv beside Queues: %v, want ErrInvalidWR", err)
	}
	check(t, "Close", qp.Close())
	check(t, "Close again", qp.Close())
	if got := own.wait(t, 1); len(got) != 1 {
		t.Errorf("a QP without a connection ended with %q, want one event", got)
	}
	check(t, "PD.Close", pd.Close())
}

// Release gives the memory back while the peer goes on sending, and what this end has
// sent arrives whole with a FIN behind it.
func TestRelease(t *testing.T) {
	for _, kind := range []string{"tcp", "unix", "TLS", "Pipe"} {
		for _, p := range []iwarp.Progress{iwarp.ProgressAdaptive, iwarp.ProgressParked, iwarp.ProgressPolling} {
			t.Run(fmt.Sprintf("%s/%v", kind, p), func(t *testing.T) {
				d := newDevice(t, nil)
				mem := newGuarded(1000)
				own := newOwnQueues(mem.mem)
				qp := newQP(t, d, &iwarp.QPConfig{Queues: own})
				a, b := netPair(t, kind)
				peer, c := startOn(t, a, b, nil, &iwarp.Config{QP: qp, Progress: p})
				check(t, "the peer's Send", peer.Send(testContext(t), nil)) // this end may send now
				own.wait(t, 1)
				data := pattern(1 << 20)
				go func() {
					for from := 0; from < len(data); from += 1 << 16 {
						if err := qp.PostSend(iwarp.SendWR{
							Op: iwarp.OpSend, SG: [][]byte{data[from : from+1<<16]},
						}); err != nil {
							t.Errorf("PostSend: %v", err)
						}
					}
					if err := c.Release(testContext(t)); err != nil {
						t.Errorf("Release: %v", err)
					}
					own.note("released")
				}()
				for from := 0; from < len(data); from += 1 << 16 {
					wantRecv(t, peer, string(data[from:from+1<<16]))
				}
				if _, err := peer.Recv(testContext(t), nil); !errors.Is(err, io.EOF) {
					t.Fatalf("behind the data: %v, want EOF", err)
				}
				own.wait(t, 1+16+2)
				check(t, "QP.Close", qp.Close())
				check(t, "Release again", c.Release(testContext(t)))
				for range 100 { // nobody has a receive for these
					check(t, "Send after Release", peer.Send(testContext(t), data[:1<<16]))
				}
				check(t, "the peer's Close", peer.Close())
				wantDone(t, c)
				if c.Err() != nil {
					t.Errorf("the connection ended with %v", c.Err())
				}
				mem.checkUntouched(t)
			})
		}
	}
}

// A peer that takes nothing holds Release up as long as the context lets it.
func TestReleaseEndsWithContext(t *testing.T) {
	client, _ := clientOfPeer(t, nil)
	data := make([]byte, 64<<20)
	check(t, "PostSend", client.QP().PostSend(iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{data}}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := client.Release(ctx); !errors.Is(err, ctx.Err()) {
		t.Errorf("Release with a context that has ended: %v", err)
	}
	wantDone(t, client)
}
