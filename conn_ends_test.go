package iwarp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// A FIN within a message or within an FPDU is no graceful end, in every setting and
// role; this half is open, and a Terminate says so.
//
// Shows: DDP-2.3-02, DDP-6.2.2-01, RDMAP-6.2.1-01
func TestFINWithinAMessage(t *testing.T) {
	for name, octets := range map[string][]byte{
		"first segment of a Send": iwarptest.FPDU(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 1},
			[]byte("abc"))),
		"empty first segment of a Write": iwarptest.FPDU(iwarptest.Tagged(0, false, 1, 0, nil)),
		"first segment of a Read Request": iwarptest.FPDU(iwarptest.Untagged(iwarptest.UntaggedHeader{
			Opcode: 1, QN: 1, MSN: 1,
		},
			make([]byte, 14))),
		"first segment of Immediate Data": iwarptest.FPDU(iwarptest.Untagged(iwarptest.UntaggedHeader{
			Opcode: 8, MSN: 1,
		},
			make([]byte, 4))),
		"half of an FPDU":                  iwarptest.FPDU(iwarptest.Send(1, []byte("abc")))[:9],
		"an FPDU without its last octet":   iwarptest.FPDU(iwarptest.Send(1, nil))[:23],
		"half of an FPDU behind a message": append(iwarptest.FPDU(iwarptest.Send(1, []byte("abc"))), 0, 20),
	} {
		t.Run(name, func(t *testing.T) {
			inEachSetting(t, func(t *testing.T, s setting) {
				for _, start := range []func(*testing.T, *iwarp.Config) (*iwarp.Conn, *iwarptest.Peer){
					s.client, s.server,
				} {
					c, p := start(t, nil)
					p.Send(iwarptest.Write(1, 0, nil)) // a responder may send now
					p.SendRaw(octets)
					p.CloseWrite()
					p.WantTerminate("this half is open", uint16(protocol.MPAConnectionLost))
					p.WantEOF("and then closed")
					buf := make([]byte, 10)
					var err error
					for err == nil {
						_, err = c.Recv(testContext(t), buf)
					}
					wantCode(t, err, protocol.MPAConnectionLost, false)
					if !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Errorf("Recv: %v", err)
					}
					wantDone(t, c)
					check(t, "Close", c.Close())
				}
			})
		})
	}
}

// Close waits for a Read whose Response comes in slowly, as long as it comes at
// all, and no longer.
//
// Shows: DDP-2.3-01, DDP-6.2.1-01
func TestCloseWaitsForASlowResponse(t *testing.T) {
	for _, stops := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, p := clientOfPeer(t, &iwarp.Config{CloseTimeout: 5 * time.Second})
			mem := make([]byte, 100)
			check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{mem}}))
			sink := binary.BigEndian.Uint32(p.Frame("the Read Request")[18:])
			check(t, "SetDeadline", p.Conn.SetDeadline(time.Time{}))
			go func() {
				octets := p.Out.Frame(iwarptest.ReadResponse(sink, 0, pattern(100)))
				for i := range octets {
					if stops && i == 50 {
						return
					}
					time.Sleep(4 * time.Second)
					if _, err := p.Conn.Write(octets[i : i+1]); err != nil {
						return
					}
				}
				p.CloseWrite()
			}()
			start := time.Now()
			err := c.Close()
			took := time.Since(start)
			done := collect(t, c.QP().SendCQ(), 1)[0]
			switch {
			case !stops && (err != nil || done.Err != nil || !bytes.Equal(mem, pattern(100))):
				t.Errorf("Close: %v after %v, the Read: %v", err, took, done.Err)
			case stops && (!errors.Is(err, os.ErrDeadlineExceeded) || took < 200*time.Second || took > 215*time.Second):
				t.Errorf("a Response that stops: Close: %v after %v", err, took)
			}
		})
	}
}

// slowConn takes octets at a steady rate, and its Write returns when all are gone.
type slowConn struct {
	net.Conn
	perOctet time.Duration
}

func (c *slowConn) Write(p []byte) (n int, err error) {
	time.Sleep(time.Duration(len(p)) * c.perOctet)
	return c.Conn.Write(p)
}

// Close waits for a Send that a slow conn takes, though it is not seen how far a Write of
// that conn has come.
// Shows: DDP-6.2.1-01
func TestCloseOverSlowConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		x, y := pipe(nil)
		slow := &slowConn{x, 50 * time.Microsecond} // 20 KB/s
		a, b := startOn(t, slow, y, nil, &iwarp.Config{RecvSize: size})
		check(t, "PostSend", a.QP().PostSend(iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{pattern(size)}}))
		got := make(chan error, 1)
		go func() {
			p := make([]byte, size)
			_, err := b.Recv(context.Background(), p)
			if err == nil && !bytes.Equal(p, pattern(size)) {
				err = errors.New("other octets")
			}
			_ = b.Close()
			got <- err
		}()
		check(t, "Close", a.Close())
		check(t, "Recv", <-got)
	})
}

// What the peer still wants does not hold Close: one CloseTimeout is for all of it.
//
// Shows: RDMAP-6.2-01
func TestCloseIsNotHeldByThePeer(t *testing.T) {
	for name, behave := range map[string]func(c *iwarp.Conn, p *iwarptest.Peer, stag uint32){
		"one large Read, drained slowly": func(_ *iwarp.Conn, p *iwarptest.Peer, stag uint32) {
			_, _ = p.Conn.Write(p.Out.Frame(iwarptest.ReadRequest(1, 7, 0, 64<<20, stag, 0)))
			go func() {
				for buf := make([]byte, 10_000); ; time.Sleep(time.Second) {
					if _, err := p.Conn.Read(buf); err != nil {
						return
					}
				}
			}()
		},
		"Reads without end": func(_ *iwarp.Conn, p *iwarptest.Peer, stag uint32) {
			go io.Copy(io.Discard, p.Conn)
			go func() {
				for msn := uint32(1); ; msn++ {
					if _, err := p.Conn.Write(p.Out.Frame(iwarptest.ReadRequest(msn, 7, 0, 1000, stag,
						0))); err != nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			}()
		},
		"Sends without end": func(_ *iwarp.Conn, p *iwarptest.Peer, _ uint32) {
			go func() {
				for {
					if _, err := p.Conn.Write(p.Out.Frame(iwarptest.Write(1, 0, nil))); err != nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			}()
		},
		"a Read of ours, and Writes without end": func(c *iwarp.Conn, p *iwarptest.Peer, _ uint32) {
			_ = c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{make([]byte, 10)}})
			go func() {
				for {
					if _, err := p.Conn.Write(p.Out.Frame(iwarptest.Write(1, 0, nil))); err != nil {
						return
					}
					time.Sleep(3 * time.Second)
				}
			}()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := serverOfPeer(t, &iwarp.Config{CloseTimeout: 5 * time.Second})
				mr := must(c.NewMR(make([]byte, 64<<20), iwarp.RemoteRead))(t)
				defer mr.Close()
				p.Send(iwarptest.Write(1, 0, nil))
				check(t, "SetDeadline", p.Conn.SetDeadline(time.Time{}))
				behave(c, p, uint32(mr.STag()))
				time.Sleep(time.Second)
				start := time.Now()
				err := c.Close()
				if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took > 10*time.Second {
					t.Errorf("Close: %v after %v", err, took)
				}
				p.Conn.Close()
				time.Sleep(10 * time.Second) // whoever still writes sees it
			})
		})
	}
}

// A context bounds Close as a whole, and a negative CloseTimeout means none.
func TestCloseContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := clientOfPeer(t, &iwarp.Config{CloseTimeout: -1})
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		start := time.Now()
		if err := c.CloseContext(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 24*time.Hour {
			t.Errorf("CloseContext: %v after %v", err, time.Since(start))
		}
		wantDone(t, c)
		if err := c.Close(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close again: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a, b := startOn2(t)
		go b.Close()
		ctx, cancel := context.WithCancel(t.Context())
		check(t, "CloseContext", a.CloseContext(ctx))
		cancel()
		synctest.Wait()
		if a.Err() != nil {
			t.Errorf("after the end: %v", a.Err())
		}
	})
}

// QP.Close and Abort leave a connection that has ended gracefully as it is.
func TestAbortAfterTheEnd(t *testing.T) {
	log := new(eventCounter)
	d := newDevice(t, &iwarp.DeviceConfig{Logger: slog.New(log)})
	x, y := netPair(t, "tcp")
	qp := newQP(t, d, nil)
	a, b := startOn(t, x, y, &iwarp.Config{QP: qp}, nil)
	closeBoth(t, a, b)
	a.Abort()
	check(t, "QP.Close", qp.Close())
	if a.Err() != nil || log.count("iwarp connection failed") != 0 {
		t.Errorf("Err is %v", a.Err())
	}
}

// eventCounter is a log handler that counts messages, and calls do at each.
type eventCounter struct {
	mu sync.Mutex
	n  map[string]int
	do func(msg string)
}

func (h *eventCounter) Enabled(context.Context, slog.Level) bool { return true }
func (h *eventCounter) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *eventCounter) WithGroup(string) slog.Handler            { return h }

func (h *eventCounter) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	if h.n == nil {
		h.n = make(map[string]int)
	}
	h.n[r.Message]++
	do := h.do
	h.mu.Unlock()
	if do != nil {
		do(r.Message)
	}
	return nil
}

func (h *eventCounter) count(msg string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n[msg]
}

// A log handler may post, close and abort at every event: none is logged with a
// lock held, or by a goroutine that the connection waits for.
func TestLogHandlerUsesTheConnection(t *testing.T) {
	for _, kind := range []string{"tcp", "net.Pipe"} {
		for name, end := range map[string]func(a, b *iwarp.Conn){
			"graceful":        func(a, b *iwarp.Conn) { go b.Close(); _ = a.Close() },
			"half closed":     func(a, b *iwarp.Conn) { a.CloseWrite(); b.CloseWrite() },
			"the peer aborts": func(_, b *iwarp.Conn) { b.Abort() },
			"aborted":         func(a, _ *iwarp.Conn) { a.Abort() },
			"QP closed":       func(a, _ *iwarp.Conn) { _ = a.QP().Close() },
			"the peer breaks a rule": func(_, b *iwarp.Conn) {
				_ = b.QP().PostSend(iwarp.SendWR{
					Op: iwarp.OpWrite, SG: [][]byte{{1}}, Remote: iwarp.RemoteBuffer{STag: 99},
				})
			},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				x, y := netPair(t, kind)
				conns := make(chan *iwarp.Conn, 1)
				var events sync.WaitGroup
				events.Add(2) // made and closed, at least
				log := &eventCounter{}
				log.do = func(msg string) {
					c := <-conns
					conns <- c
					_ = c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpSend})
					if msg != "iwarp connection" {
						_ = c.Send(t.Context(), nil)
						_ = c.Close()
						c.Abort()
					}
					if msg == "iwarp connection" || msg == "iwarp connection closed" {
						events.Done()
					}
				}
				a, b := startOn(t, x, y, &iwarp.Config{Logger: slog.New(log)}, nil)
				conns <- a
				end(a, b)
				if name != "half closed" {
					wantDone(t, a)
				} else {
					a.Abort()
				}
				b.Abort()
				events.Wait()
			})
		}
	}
}

// The request that the peer refuses has the peer's error; what stands before it
// without an answer, and behind it, is flushed. Over TCP, as verbs programs see it.
//
// Shows: RDMAP-6.2.1-02
func TestCulprit(t *testing.T) {
	a, b := qpPair(t, nil, nil)
	mr := must(b.PD().NewMR(make([]byte, 100), iwarp.RemoteRead, nil))(t)
	defer mr.Close()
	check(t, "PostRecv", b.PostRecv(iwarp.RecvWR{ID: 1, SG: [][]byte{make([]byte, 10)}}, iwarp.RecvWR{ID: 2}))
	good, bad := iwarp.SendWR{
		Op: iwarp.OpRead, SG: [][]byte{make([]byte, 10)}, Remote: mr.Remote(),
	}, iwarp.SendWR{ID: 2, Op: iwarp.OpRead, SG: [][]byte{make([]byte, 10)}, Remote: remoteAt(mr, 95)}
	check(t, "PostSend", a.PostSend(good, bad, good, iwarp.SendWR{ID: 4, Op: iwarp.OpSend}))
	var got []iwarp.Status
	for _, c := range collect(t, a.SendCQ(), 4) {
		got = append(got, c.Status())
	}
	if got[0] != iwarp.StatusSuccess && got[0] != iwarp.StatusFlushed || got[1] != iwarp.StatusRemoteAccess ||
		got[2] != iwarp.StatusFlushed || got[3] != iwarp.StatusFlushed {
		t.Errorf("statuses %v", got)
	}
	for _, c := range collect(t, b.RecvCQ(), 2) {
		if c.Status() != iwarp.StatusFlushed {
			t.Errorf("receive %d: %v", c.ID, c.Status())
		}
	}
}

// A message longer than its receive gives that receive a length error, whatever
// kind of queue it comes from, and flushes the others.
//
// Shows: RDMAP-5.3-07
func TestLengthError(t *testing.T) {
	for _, shared := range []bool{false, true} {
		d := newDevice(t, nil)
		pd := must(d.NewPD())(t)
		cfg, post := &iwarp.QPConfig{}, func(...iwarp.RecvWR) error { return nil }
		if shared {
			srq := must(pd.NewSRQ(nil))(t)
			cfg.SRQ, post = srq, srq.PostRecv
		}
		qp := must(pd.NewQP(cfg))(t)
		if !shared {
			post = qp.PostRecv
		}
		check(t, "PostRecv", post(
			iwarp.RecvWR{ID: 1, SG: [][]byte{make([]byte, 10)}}, iwarp.RecvWR{ID: 2, SG: [][]byte{
				make([]byte, 10),
			}}, iwarp.RecvWR{ID: 3}))
		a, _ := tcpPair(t, nil, &iwarp.Config{QP: qp})
		check(t, "Send", a.Send(testContext(t), make([]byte, 10)))
		check(t, "Send", a.Send(testContext(t), make([]byte, 20)))
		want := []iwarp.Status{iwarp.StatusSuccess, iwarp.StatusLength, iwarp.StatusFlushed}
		if shared {
			want = want[:2] // the third stays in the SRQ
		}
		for i, c := range collect(t, qp.RecvCQ(), len(want)) {
			if c.ID != uint64(i+1) || c.Status() != want[i] {
				t.Errorf("shared %v: receive %d is %v, want %v", shared, c.ID, c.Status(), want[i])
			}
		}
		_, err := a.Recv(testContext(t), nil)
		wantCode(t, err, protocol.DDPUntaggedTooLong, true)
	}
}

// A log handler may close the listener at each of its events.
func TestLogHandlerClosesTheListener(t *testing.T) {
	log := &eventCounter{}
	listeners := make(chan *iwarp.Listener, 1)
	closed := make(chan struct{}, 10)
	log.do = func(string) {
		l := <-listeners
		listeners <- l
		_ = l.Close()
		closed <- struct{}{}
	}
	l := must(iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{Logger: slog.New(log)}))(t)
	listeners <- l
	nc := must(net.Dial("tcp", l.Addr().String()))(t)
	defer nc.Close()
	must(nc.Write(make([]byte, 20)))(t) // no Request
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatalf("the handler hangs\n%s", stacks())
	}
	_ = l.Close() // again
}
