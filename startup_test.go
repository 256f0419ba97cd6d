package iwarp_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

// A rejection carries Private Data and leaves the connection below open, which
// the two programs can go on with.
// Shows: MPA-7.1.2-06, MPA-7.1.2-07, MPA-7.1.2-12, MPA-7.1.2-17, MPA-7.1.1-12, MPA2-9.1-08
func TestReject(t *testing.T) {
	for _, c := range []struct{ rev, n int }{
		{rev: 1, n: 0}, {rev: 1, n: 512}, {rev: 2, n: 0}, {rev: 2, n: 1}, {rev: 2, n: 508},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			a, b := netPair(t, "tcp")
			defer a.Close()
			defer b.Close()
			ctx := testContext(t)
			pd := pattern(c.n)
			open := make(chan net.Conn, 1)
			go func() {
				r, err := iwarp.ServerRequest(ctx, b, &iwarp.Config{IRD: 11, ORD: 12})
				if err == nil && string(r.PrivateData()) != "who are you" {
					err = fmt.Errorf("Private Data %q", r.PrivateData())
				}
				if err == nil && (r.RemoteAddr() != b.RemoteAddr() || r.LocalAddr() != b.LocalAddr() ||
					int(r.Request().Revision) != c.rev) {
					err = errors.New("the request does not show where it came from")
				}
				var nc net.Conn
				if err == nil {
					nc, err = r.Reject(ctx, pd)
				}
				if err == nil {
					_, err = nc.Write([]byte("let us talk")) // at once, behind the Reply
				}
				if err == nil {
					if _, err2 := r.Accept(ctx, nil); !errors.Is(err2, mpa.ErrAnswered) {
						err = fmt.Errorf("Accept after Reject: %w", err2)
					}
				}
				if err != nil {
					t.Error(err)
				}
				open <- nc
			}()
			_, err := iwarp.Client(ctx, a,
				&iwarp.Config{MPA: iwarp.MPAConfig{Revision: c.rev}, PrivateData: []byte("who are you")})
			var rej *iwarp.RejectError
			if !errors.As(err, &rej) || !bytes.Equal(rej.PrivateData, pd) {
				t.Fatalf("Client: %v (%+v)", err, rej)
			}
			if c.rev == 2 && (rej.PeerIRD != 11 || rej.PeerORD != 12) {
				t.Errorf("depths %+v", rej)
			}
			nc := <-open
			if nc != b {
				t.Fatal("Reject gave another conn")
			}
			talk := make([]byte, 11)
			if _, err := io.ReadFull(a, talk); err != nil || string(talk) != "let us talk" {
				t.Fatalf("after the rejection: %q, %v", talk, err)
			}
			if _, err := a.Write([]byte("yes")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(b, talk[:3]); err != nil || string(talk[:3]) != "yes" {
				t.Fatalf("after the rejection: %q, %v", talk[:3], err)
			}
		})
	}
}

// Too much Private Data is a mistake of the program, not the end of the request.
func TestRejectTooLong(t *testing.T) {
	a, b := pipe(nil)
	defer a.Close()
	ctx := testContext(t)
	got := make(chan error, 1)
	go func() { _, err := iwarp.Client(ctx, a, nil); got <- err }()
	r := must(iwarp.ServerRequest(ctx, b, nil))(t)
	_, err := r.Reject(ctx, make([]byte, 509))
	wantWords(t, err, "509", "508")
	nc := must(r.Reject(ctx, []byte("no")))(t)
	defer nc.Close()
	var rej *iwarp.RejectError
	if err := <-got; !errors.As(err, &rej) || string(rej.PrivateData) != "no" {
		t.Errorf("%v", err)
	}
}

// R09: accept and reject race; each request has one outcome.
func TestAcceptRejectRace(t *testing.T) {
	const n = 100
	ln := must(iwarp.Listen("tcp", "127.0.0.1:0", nil))(t)
	defer ln.Close()
	ctx := testContext(t)
	var wg sync.WaitGroup
	var acceptedHere, rejectedHere, acceptedThere, rejectedThere, other atomic.Int32
	for range n {
		wg.Go(func() {
			r, err := ln.AcceptRequest(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			var both sync.WaitGroup
			both.Go(func() {
				if c, err := r.Accept(ctx, nil); err == nil {
					acceptedHere.Add(1)
					_ = c.Close()
				} else if !errors.Is(err, mpa.ErrAnswered) {
					t.Error(err)
				}
			})
			both.Go(func() {
				if nc, err := r.Reject(ctx, nil); err == nil {
					rejectedHere.Add(1)
					_ = nc.Close()
				} else if !errors.Is(err, mpa.ErrAnswered) {
					t.Error(err)
				}
			})
			both.Wait()
		})
		wg.Go(func() {
			c, err := iwarp.Dial(ctx, "tcp", ln.Addr().String(), nil)
			var rej *iwarp.RejectError
			switch {
			case err == nil:
				acceptedThere.Add(1)
				_ = c.Close()
			case errors.As(err, &rej):
				rejectedThere.Add(1)
			default:
				other.Add(1)
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if acceptedHere.Load() != acceptedThere.Load() || rejectedHere.Load() != rejectedThere.Load() ||
		acceptedHere.Load()+rejectedHere.Load() != n {
		t.Errorf("accepted %d and %d, rejected %d and %d", acceptedHere.Load(), acceptedThere.Load(),
			rejectedHere.Load(), rejectedThere.Load())
	}
}

// R11: a peer that never answers ends startup after StartupTimeout, or with ctx;
// so does one that answers an octet at a time.
// Shows: MPA-7.1.2-20, MPA-7.1.2-25
func TestStartupTimeout(t *testing.T) {
	drip := func(frame []byte) func(net.Conn) {
		return func(c net.Conn) {
			for _, b := range frame {
				time.Sleep(3 * time.Second)
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
			}
		}
	}
	silent := func(net.Conn) {}
	for _, c := range []struct {
		name   string
		server bool
		peer   func(net.Conn)
		cfg    iwarp.Config
		ctx    time.Duration
		want   time.Duration
	}{
		{name: "client, silent peer", peer: silent, cfg: iwarp.Config{}, ctx: 0, want: 10 * time.Second},
		{
			name: "server, silent peer", server: true, peer: silent, cfg: iwarp.Config{StartupTimeout: time.Minute},
			ctx: 0, want: time.Minute,
		},
		{
			name: "client, slow peer", peer: drip(iwarptest.Reply(iwarptest.FlagC, 1, nil)), cfg: iwarp.Config{},
			ctx: 0, want: 10 * time.Second,
		},
		{
			name: "server, slow peer", server: true, peer: drip(iwarptest.Request(iwarptest.FlagC, 1, nil)),
			cfg: iwarp.Config{}, ctx: 0, want: 10 * time.Second,
		},
		{name: "client, context", peer: silent, cfg: iwarp.Config{StartupTimeout: -1}, ctx: time.Hour, want: time.Hour},
		{name: "server, context", server: true, peer: silent, cfg: iwarp.Config{}, ctx: time.Second, want: time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, y := pipe(nil)
				var wg sync.WaitGroup
				wg.Go(func() { c.peer(y) })
				defer wg.Wait()
				ctx := t.Context()
				if c.ctx > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.ctx)
					defer cancel()
				}
				start := time.Now()
				var err error
				if c.server {
					_, err = iwarp.Server(ctx, x, &c.cfg)
				} else {
					_, err = iwarp.Client(ctx, x, &c.cfg)
				}
				if d := time.Since(start); d != c.want {
					t.Errorf("ended after %v, want %v", d, c.want)
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v is not context.DeadlineExceeded", err)
				}
				wantCode(t, err, protocol.MPAStartup, false)
				if _, err := y.Write([]byte("x")); err == nil {
					if _, err = io.Copy(io.Discard, y); errors.Is(err, os.ErrDeadlineExceeded) {
						t.Error("the conn below is open")
					}
				}
				y.Close()
			})
		})
	}
}

// R77: a responder that is merely slow is waited for.
func TestSlowResponder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := pipe(nil)
		got := make(chan accepted, 1)
		go func() { c, err := iwarp.Client(t.Context(), x, nil); got <- accepted{c, err} }()
		r := must(iwarp.ServerRequest(t.Context(), y, nil))(t)
		time.Sleep(5 * time.Second)
		b := must(r.Accept(t.Context(), nil))(t)
		a := <-got
		check(t, "Client", a.err)
		exercise(t, a.c, b)
	})
}

// A request that could not be accepted with one configuration can be with
// another.
func TestAcceptAgain(t *testing.T) {
	used, _ := qpPair(t, nil, nil)
	a, b := pipe(nil)
	got := make(chan accepted, 1)
	go func() { c, err := iwarp.Client(testContext(t), a, nil); got <- accepted{c, err} }()
	r := must(iwarp.ServerRequest(testContext(t), b, nil))(t)
	for _, c := range []struct {
		cfg  iwarp.Config
		word string
	}{
		{cfg: iwarp.Config{QP: used}, word: "in use"},
		{cfg: iwarp.Config{MPA: iwarp.MPAConfig{Revision: 7}}, word: "Config.MPA.Revision"},
		// the Request is of revision 2
		{cfg: iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}, PrivateData: make([]byte, 512)}, word: "512"},
	} {
		_, err := r.Accept(testContext(t), &c.cfg)
		wantWords(t, err, c.word)
	}
	server := must(r.Accept(testContext(t), &iwarp.Config{PrivateData: []byte("at last")}))(t)
	client := <-got
	check(t, "Client", client.err)
	if pd := client.c.ConnectionState().PrivateData; string(pd) != "at last" {
		t.Errorf("Private Data %q", pd)
	}
	exercise(t, client.c, server)
}

// R18: a responder may post before the initiator has sent anything. On a
// client-server connection its messages wait for the first FPDU; on a
// peer-to-peer one the initiator sends one by itself.
// Shows: MPA-7.1.2-14, MPA2-5-02
func TestResponderFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := serverOfPeer(t, nil)
		check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{ID: 1, Op: iwarp.OpSend, SG: [][]byte{[]byte("first")}}))
		p.WantIdle("the responder holds its FPDUs")
		time.Sleep(time.Minute)
		p.WantIdle("the responder holds its FPDUs, whatever time passes")
		p.Send(iwarptest.Write(0, 0, nil))
		p.WantFrame("held until now", iwarptest.Send(1, []byte("first")))
		check(t, "completion", collect(t, c.QP().SendCQ(), 1)[0].Err)
	})
	for _, rtr := range []iwarp.RTR{iwarp.RTRWrite, iwarp.RTRRead, iwarp.RTRSend} {
		synctest.Test(t, func(t *testing.T) {
			x, y := pipe(nil)
			all := iwarp.RTRWrite | iwarp.RTRRead | iwarp.RTRSend
			a, b := startOn(t, x, y, &iwarp.Config{MPA: iwarp.MPAConfig{RTR: rtr}},
				&iwarp.Config{MPA: iwarp.MPAConfig{RTR: all}, RecvDepth: 1})
			check(t, "Send", b.Send(testContext(t), []byte("first")))
			wantRecv(t, a, "first")
			// An RTR Send takes none of the receives.
			check(t, "Send", a.Send(testContext(t), []byte("second")))
			wantRecv(t, b, "second")
		})
	}
}

// A held responder ends with its peer: it can never send then.
func TestResponderNeverOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := serverOfPeer(t, nil)
		check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{ID: 1, Op: iwarp.OpSend}))
		p.CloseWrite()
		if err := collect(t, c.QP().SendCQ(), 1)[0].Err; !errors.Is(err, iwarp.ErrFlushed) {
			t.Errorf("completion %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, p := serverOfPeer(t, nil)
		p.CloseWrite()
		if _, err := c.Recv(testContext(t), nil); err != io.EOF {
			t.Errorf("Recv: %v", err)
		}
		check(t, "Close", c.Close())
		p.WantEOF("a graceful end, with no message either way")
	})
}

// Shows: MPA2-9.1-07, MPA2-9.2-09, MPA2-8-01
func TestEnhancedErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   iwarp.Config
		block []byte
		code  protocol.Code
	}{
		{
			name: "responder ORD above initiator IRD", cfg: iwarp.Config{IRD: 4},
			block: iwarptest.Enhanced(0x8000|32, 0x8000|5, nil), code: protocol.MPAInsufficientIRD,
		},
		{
			name: "no common RTR", cfg: iwarp.Config{MPA: iwarp.MPAConfig{RTR: iwarp.RTRWrite}},
			block: iwarptest.Enhanced(0x8000|0x4000|32, 4, nil), code: protocol.MPANoMatchingRTR,
		},
		{
			name: "no RTR at all", cfg: iwarp.Config{}, block: iwarptest.Enhanced(0x8000|32, 4, nil),
			code: protocol.MPANoMatchingRTR,
		},
		{
			name: "A not copied", cfg: iwarp.Config{}, block: iwarptest.Enhanced(32, 0x8000|4, nil),
			code: protocol.MPANoMatchingRTR,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, y := pipe(nil)
				p := iwarptest.NewPeer(t, y)
				got := make(chan error, 1)
				go func() { _, err := iwarp.Client(testContext(t), x, &c.cfg); got <- err }()
				p.Respond("startup", iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2, c.block))
				p.WantTerminate("the ends do not fit", uint16(c.code))
				p.WantEOF("the end")
				p.CloseWrite()
				wantCode(t, <-got, c.code, false)
			})
		})
	}
}

// A peer that does not fit and then is silent holds nobody up beyond the context,
// although it is owed a Terminate.
func TestEnhancedErrorSilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := pipe(nil)
		p := iwarptest.NewPeer(t, y)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := make(chan error, 1)
		start := time.Now()
		go func() { _, err := iwarp.Client(ctx, x, &iwarp.Config{CloseTimeout: time.Minute}); got <- err }()
		p.Respond("startup", iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(0x8000|32, 4, nil)))
		wantCode(t, <-got, protocol.MPANoMatchingRTR, false)
		if took := time.Since(start); took != time.Second {
			t.Errorf("it took %v, want the context's second", took)
		}
	})
}

// R03: what a peer insists on is a matter of the connection.
func TestRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := pipe(nil)
		p := iwarptest.NewPeer(t, y)
		got := make(chan error, 1)
		go func() {
			_, err := iwarp.Server(testContext(t), x, &iwarp.Config{MPA: iwarp.MPAConfig{RequirePeerToPeer: true}})
			got <- err
		}()
		p.SendRaw(iwarptest.Request(iwarptest.FlagC, 1, nil))
		if err := <-got; err == nil {
			t.Error("a client-server connection although peer-to-peer is required")
		} else {
			wantWords(t, err, "RequirePeerToPeer")
		}
	})
}

// R15, R13, R14: Private Data is the ULP's own octets, on both revisions.
func TestPrivateDataExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for rev := byte(1); rev <= 2; rev++ {
			x, y := pipe(nil)
			p := iwarptest.NewPeer(t, y)
			pd := make([]byte, 12)
			_, _ = rand.Read(pd)
			go func() {
				p.Conn.Write(iwarptest.Request(iwarptest.FlagC|(rev-1)*iwarptest.FlagS, rev,
					append(iwarptest.Enhanced(300, 16382, nil)[:4*(rev-1)], pd...)))
			}()
			r := must(iwarp.ServerRequest(testContext(t), x, nil))(t)
			if !bytes.Equal(r.PrivateData(), pd) {
				t.Errorf("revision %d: Private Data %x, want %x", rev, r.PrivateData(), pd)
			}
			_ = r.Close()
			if _, err := r.Accept(t.Context(), nil); !errors.Is(err, mpa.ErrAnswered) {
				t.Errorf("Accept after Close: %v", err)
			}
		}
	})
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
			_, err := iwarp.Client(testContext(t), x,
				&iwarp.Config{MPA: iwarp.MPAConfig{RDMAC: mpa.RDMACPermissive, RequirePeerToPeer: true}})
			got <- err
		}()
		p.Respond("startup", iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagM, 0, nil))
		p.Out.Markers, p.In.Markers = true, true
		seg := p.Frame("the Terminate")
		if want := versionZero(iwarptest.Terminate(uint16(protocol.MPALocalCatastrophic), nil)); !bytes.Equal(seg,
			want) {
			t.Errorf("got %x, want %x", seg, want)
		}
		p.WantEOF("the end")
		p.CloseWrite()
		wantCode(t, <-got, protocol.MPALocalCatastrophic, false)
	})
}
