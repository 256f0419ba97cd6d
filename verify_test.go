package iwarp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

// The dialing program sees the Reply before Full Operation and may turn it down:
// nothing has been sent then, no octet behind the Reply has been read, and TCP is
// open, for the two programs to go on with.
// Shows: MPA-7.1.2-12, MPA-7.1.2-13, MPA-7.1.2-16, MPA2-9.1-02
func TestVerifyReply(t *testing.T) {
	unwelcome := &iwarp.ProtocolError{Code: protocol.MPAConnectionLost} // an error that startup knows too
	for _, rev := range []int{1, 2} {
		for _, verdict := range []error{nil, unwelcome} {
			synctest.Test(t, func(t *testing.T) {
				x, y := pipe(nil)
				p := iwarptest.NewPeer(t, y)
				var seen []iwarp.ConnectionState
				cfg := &iwarp.Config{
					MPA: iwarp.MPAConfig{Revision: rev}, IRD: 7, ORD: 9,
					VerifyReply: func(st iwarp.ConnectionState) error {
						seen = append(seen, st)
						return verdict
					},
				}
				got := make(chan accepted, 1)
				go func() { c, err := iwarp.Client(testContext(t), x, cfg); got <- accepted{c, err} }()
				reply := iwarptest.Reply(iwarptest.FlagC, 1, []byte("pd"))
				if rev == 2 {
					reply = iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2,
						iwarptest.Enhanced(0x8000|5, 0x8000|6, []byte("pd")))
				}
				p.Respond("startup", append(bytes.Clone(reply), "and more"...)) // what is behind it is not MPA's
				a := <-got
				if len(seen) != 1 || string(seen[0].PrivateData) != "pd" || !seen[0].Initiator ||
					int(seen[0].Revision) != rev {
					t.Fatalf("asked about %+v", seen)
				}
				if rev == 2 && (seen[0].ORD != 5 || seen[0].PeerORD != 6 || !seen[0].PeerToPeer) {
					t.Errorf("what was agreed: %+v", seen[0])
				}
				if verdict == nil {
					check(t, "Client", a.err)
					seen[0].PrivateData[0] = 'X' // the function's own
					if pd := a.c.ConnectionState().PrivateData; string(pd) != "pd" {
						t.Errorf("Private Data %q", pd)
					}
					a.c.Abort()
					return
				}
				var declined *iwarp.DeclinedError
				if !errors.As(a.err, &declined) || !errors.Is(a.err, unwelcome) {
					t.Fatalf("Client: %v", a.err)
				}
				p.WantIdle("nothing goes out after the Reply")
				b := make([]byte, 8)
				if _, err := io.ReadFull(x, b); err != nil || string(b) != "and more" {
					t.Errorf("behind the Reply: %q, %v", b, err)
				}
				if _, err := x.Write([]byte("bye")); err != nil {
					t.Errorf("TCP is not open: %v", err)
				}
				p.WantRaw("TCP is the program's", []byte("bye"))
				_ = x.Close()
			})
		}
	}
}

// A Reply that is a rejection, or that the library itself refuses, is not put to the
// program.
func TestVerifyReplyNotAsked(t *testing.T) {
	for name, reply := range map[string][]byte{
		"rejected": iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagR|iwarptest.FlagS, 2,
			iwarptest.Enhanced(1, 1, nil)),
		"no RTR":      iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(0x8000|32, 4, nil)),
		"wrong frame": iwarptest.Reply(iwarptest.FlagC, 1, nil),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, y := pipe(nil)
				p := iwarptest.NewPeer(t, y)
				got := make(chan error, 1)
				go func() {
					_, err := iwarp.Client(testContext(t), x,
						&iwarp.Config{VerifyReply: func(iwarp.ConnectionState) error {
							t.Error("asked")
							return nil
						}})
					got <- err
				}()
				p.Respond("startup", reply)
				p.CloseWrite()
				if err := <-got; err == nil {
					t.Error("no error")
				}
				_ = x.Close()
			})
		})
	}
}

// A program that thinks for longer than startup may take gets no connection; Dial
// tries once only, and leaves nothing open.
func TestVerifyReplyLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := pipe(nil)
		p := iwarptest.NewPeer(t, y)
		got := make(chan error, 1)
		go func() {
			_, err := iwarp.Client(t.Context(), x,
				&iwarp.Config{StartupTimeout: time.Second, VerifyReply: func(iwarp.ConnectionState) error {
					time.Sleep(time.Minute)
					return nil
				}})
			got <- err
		}()
		p.Respond("startup",
			iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(0x8000|32, 0x8000|4, nil)))
		if err := <-got; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		p.WantEOF("the connection below is closed")
	})
}

// Shows: MPA-7.1.2-16, MPA2-10-05
func TestVerifyReplyDial(t *testing.T) {
	address, count := script(t, func(_ int, c net.Conn) {
		_, _ = iwarp.Server(testContext(t), c, nil)
		_, _ = io.Copy(io.Discard, c)
	})
	lost := &iwarp.ProtocolError{Code: protocol.MPAConnectionLost}
	_, err := iwarp.Dial(testContext(t), "tcp", address,
		&iwarp.Config{VerifyReply: func(iwarp.ConnectionState) error { return lost }})
	var declined *iwarp.DeclinedError
	if !errors.As(err, &declined) || count.Load() != 1 {
		t.Errorf("%v after %d connections", err, count.Load())
	}
}

// A Request that RequirePeerToPeer does not admit gets a Reply with R=1, of either
// revision, and the dialing end knows then: it does not try revision 1 in vain.
// Shows: MPA-7.1.2-06, MPA-7.1.2-17
func TestRequirePeerToPeerRejects(t *testing.T) {
	for name, cfg := range map[string]*iwarp.Config{
		"revision 1":    {MPA: iwarp.MPAConfig{Revision: 1}},
		"client-server": {MPA: iwarp.MPAConfig{RTR: iwarp.RTRNone}},
	} {
		t.Run(name, func(t *testing.T) {
			served := make(chan error, 10)
			address, count := script(t, func(_ int, c net.Conn) {
				_, err := iwarp.Server(testContext(t), c, &iwarp.Config{MPA: iwarp.MPAConfig{RequirePeerToPeer: true}})
				served <- err
			})
			_, err := iwarp.Dial(testContext(t), "tcp", address, cfg)
			var rej *iwarp.RejectError
			if !errors.As(err, &rej) || count.Load() != 1 {
				t.Errorf("%v after %d connections", err, count.Load())
			}
			wantWords(t, <-served, "RequirePeerToPeer")
		})
	}
}

// A device that has no room for a connection says so to the peer, from Server too.
// Shows: MPA-7.1.2-06
func TestServerRejectsAtLimit(t *testing.T) {
	dev := newDevice(t, &iwarp.DeviceConfig{MaxQP: 1})
	_ = newQP(t, dev, nil)
	served := make(chan error, 10)
	address, count := script(t, func(_ int, c net.Conn) {
		_, err := iwarp.Server(testContext(t), c, &iwarp.Config{Device: dev})
		served <- err
	})
	_, err := iwarp.Dial(testContext(t), "tcp", address, nil)
	var rej *iwarp.RejectError
	if !errors.As(err, &rej) || count.Load() != 1 {
		t.Errorf("%v after %d connections", err, count.Load())
	}
	if err := <-served; !errors.Is(err, iwarp.ErrLimit) {
		t.Errorf("Server: %v", err)
	}
}

// What a program gets of the startup frames is its own: changing it changes neither
// the answer nor what anybody else sees.
func TestStartupOctetsAreCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := pipe(nil)
		got := make(chan accepted, 1)
		go func() {
			c, err := iwarp.Client(testContext(t), x, &iwarp.Config{PrivateData: []byte("who")})
			got <- accepted{c, err}
		}()
		r := must(iwarp.ServerRequest(testContext(t), y, nil))(t)
		for range 2 {
			if pd := r.PrivateData(); string(pd) != "who" {
				t.Errorf("Private Data %q", pd)
			} else {
				pd[0] = 'X'
			}
			req := r.Request()
			if req.Revision != mpa.Revision2 || !bytes.HasSuffix(req.PrivateData, []byte("who")) {
				t.Errorf("Request %+v", req)
			}
			req.Revision, req.Enhanced = 1, false
			clear(req.PrivateData)
		}
		b := must(r.Accept(testContext(t), &iwarp.Config{PrivateData: []byte("me")}))(t)
		a := <-got
		check(t, "Client", a.err)
		for c, want := range map[*iwarp.Conn]string{a.c: "me", b: "who"} {
			for range 2 {
				st := c.ConnectionState()
				if string(st.PrivateData) != want || st.Revision != 2 {
					t.Errorf("%+v, want Private Data %q", st, want)
				}
				clear(st.PrivateData)
			}
		}
		endBoth(a.c, b)
	})
}
