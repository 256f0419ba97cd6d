package iwarp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// Config.MPA.Revision 1 is an end without RFC 6581. As responder it takes a Request of
// revision 2 as badly formed and closes TCP without an answer, in every way to be a
// responder; a Request of revision 1 it takes.
//
// Shows: MPA2-10-04, MPA-7.1.1-15, MPA-7.1.2-05
func TestRevision1Responder(t *testing.T) {
	ways := map[string]func(ctx context.Context, nc net.Conn, cfg *iwarp.Config) (*iwarp.Conn, error){
		"Server": iwarp.Server,
		"ServerRequest": func(ctx context.Context, nc net.Conn, cfg *iwarp.Config) (*iwarp.Conn, error) {
			r, err := iwarp.ServerRequest(ctx, nc, cfg)
			if err != nil {
				return nil, err
			}
			return r.Accept(ctx, nil)
		},
	}
	for name, serve := range ways {
		for _, c := range []struct {
			request []byte
			good    bool
		}{
			{request: iwarptest.Request(iwarptest.FlagC, 1, nil), good: true},
			{request: iwarptest.Request(iwarptest.FlagC, 2, nil)},
			{request: iwarptest.Request(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(4, 4, nil))},
			{request: iwarptest.Request(iwarptest.FlagC, 3, nil)},
		} {
			t.Run(fmt.Sprintf("%s, Rev %d, flags %02x", name, c.request[17], c.request[16]), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x, y := pipe(nil)
					got := make(chan accepted, 1)
					go func() {
						conn, err := serve(testContext(t), x, &iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}})
						got <- accepted{conn, err}
					}()
					if _, err := y.Write(c.request); err != nil {
						t.Fatal(err)
					}
					r := <-got
					if c.good {
						check(t, "revision 1", r.err)
						r.c.Abort()
						return
					}
					wantCode(t, r.err, protocol.MPAStartup, false)
					if n, err := y.Read(make([]byte, 1)); n != 0 || err == nil {
						t.Error("there was an answer")
					}
				})
			})
		}
	}
}

// A listener of revision 1 serves on after a Request of revision 2.
//
// Shows: MPA2-10-04
func TestRevision1Listener(t *testing.T) {
	ln := must(iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}}))(t)
	defer ln.Close()
	nc := must(net.Dial("tcp", ln.Addr().String()))(t)
	defer nc.Close()
	must(nc.Write(iwarptest.Request(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(4, 4, nil))))(t)
	if n, err := nc.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error("there was an answer")
	}
	serveOne(t, ln) // Dial tries revision 2 first, and then 1
}

// As initiator it takes no Reply of another revision, with or without the block of
// RFC 6581, and one that refuses in any.
//
// Shows: MPA-7.1.2-10, MPA-7.1.2-11, MPA2-10-02, MPA-7.1.2-12
func TestRevision1Initiator(t *testing.T) {
	block := iwarptest.Enhanced(4, 4, nil)
	for _, c := range []struct {
		name         string
		reply        []byte
		good, reject bool
	}{
		{name: "revision 1", reply: iwarptest.Reply(iwarptest.FlagC, 1, nil), good: true},
		{name: "revision 2", reply: iwarptest.Reply(iwarptest.FlagC, 2, nil)},
		{name: "revision 2 with S", reply: iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2, block)},
		{name: "revision 3", reply: iwarptest.Reply(iwarptest.FlagC, 3, nil)},
		{name: "R", reply: iwarptest.Reply(iwarptest.FlagR, 1, nil), reject: true},
		{name: "R and M", reply: iwarptest.Reply(iwarptest.FlagR|iwarptest.FlagM, 1, nil), reject: true},
		{name: "R and C", reply: iwarptest.Reply(iwarptest.FlagR|iwarptest.FlagC, 1, nil), reject: true},
		{name: "R of revision 2", reply: iwarptest.Reply(iwarptest.FlagR|iwarptest.FlagS, 2, block), reject: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, y := pipe(nil)
				defer y.Close()
				got := make(chan accepted, 1)
				go func() {
					conn, err := iwarp.Client(testContext(t), x, &iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}})
					got <- accepted{conn, err}
				}()
				must(y.Read(make([]byte, 100)))(t)
				must(y.Write(c.reply))(t)
				r := <-got
				var rejected *iwarp.RejectError
				switch {
				case c.good:
					check(t, "Client", r.err)
					r.c.Abort()
				case c.reject:
					if !errors.As(r.err, &rejected) {
						t.Errorf("%v, want a RejectError", r.err)
					}
					must(x.Write([]byte("TCP is open")))(t)
					_ = x.Close()
				default:
					wantCode(t, r.err, protocol.MPAStartup, false)
				}
			})
		})
	}
}

// What the peer has asked for before Close goes out before the FIN, all of it, in
// every setting.
//
// Shows: DDP-6.2.1-01, RDMAP-5.2.1-09
func TestCloseAnswersFirst(t *testing.T) {
	for _, size := range []uint32{0, 1, 100_000} {
		inEachSetting(t, func(t *testing.T, s setting) {
			c, p := s.server(t, nil)
			mr := must(c.NewMR(make([]byte, size), iwarp.RemoteRead))(t)
			defer mr.Close()
			const reads = 8
			var batch [][]byte
			for msn := range uint32(reads) {
				batch = append(batch, iwarptest.ReadRequest(msn+1, 7, 0, size, uint32(mr.STag()), 0))
			}
			p.Send(append(batch, iwarptest.Send(1, nil))...)
			recv(t, c) // all Requests are here
			closed := make(chan error, 1)
			go func() { closed <- c.Close() }()
			for range reads {
				for last := false; !last; {
					segment := p.Frame("a Read Response")
					if segment[1]&0xf != 2 {
						t.Fatalf("%s", iwarptest.Describe(segment))
					}
					last = segment[0]&0x40 != 0
				}
			}
			p.WantEOF("and then the FIN")
			p.CloseWrite()
			check(t, "Close", <-closed)
		})
	}
}

// An end of RFC 6581 that meets one without it: TCP is closed, and both report that
// to their program.
//
// Shows: MPA2-10-06, MPA2-10-04
func TestBothEndsReportAnUnenhancedResponder(t *testing.T) {
	for _, kind := range []string{"tcp", "Pipe", "TLS"} {
		t.Run(kind, func(t *testing.T) {
			x, y := netPair(t, kind)
			ctx := testContext(t)
			served := make(chan error, 1)
			go func() {
				_, err := iwarp.Server(ctx, y, &iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}})
				served <- err
			}()
			_, err := iwarp.Client(ctx, x, nil)
			wantCode(t, err, protocol.MPAConnectionLost, false)
			wantCode(t, <-served, protocol.MPAStartup, false)
		})
	}
}

// An invalid startup frame is the end of the connection, as if TCP were lost: this
// end reports it, closes TCP at once, and sends nothing more, no Terminate either.
//
// Shows: MPA-8-11, MPA-8-05
func TestInvalidStartupFrameIsTheEnd(t *testing.T) {
	flip := func(frame []byte, at int) []byte {
		frame[at] ^= 0x80
		return frame
	}
	good := func(frame func(flags, rev byte, pd []byte) []byte) []byte {
		return frame(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(4, 4, nil))
	}
	for _, c := range []struct {
		name   string
		server bool
		frame  []byte
	}{
		{name: "key of the Reply", frame: flip(good(iwarptest.Reply), 15)},
		{name: "revision of the Reply", frame: flip(good(iwarptest.Reply), 17)},
		{name: "PD_Length of the Reply", frame: flip(good(iwarptest.Reply), 18)},
		{name: "a Request for a Reply", frame: good(iwarptest.Request)},
		{name: "revision 1 in the Reply to revision 2", frame: iwarptest.Reply(iwarptest.FlagC, 1, nil)},
		{name: "no S in the Reply to one", frame: iwarptest.Reply(iwarptest.FlagC, 2, nil)},
		{name: "key of the Request", server: true, frame: flip(good(iwarptest.Request), 0)},
		{name: "revision of the Request", server: true, frame: flip(good(iwarptest.Request), 17)},
		{name: "PD_Length of the Request", server: true, frame: flip(good(iwarptest.Request), 18)},
		{name: "a Reply for a Request", server: true, frame: good(iwarptest.Reply)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, y := pipe(nil)
				got := make(chan error, 1)
				go func() {
					start := iwarp.Client
					if c.server {
						start = iwarp.Server
					}
					_, err := start(testContext(t), x, nil)
					got <- err
				}()
				if !c.server {
					must(io.ReadFull(y, make([]byte, 24)))(t)
				}
				must(y.Write(c.frame))(t)
				wantCode(t, <-got, protocol.MPAStartup, false)
				if more, _ := io.ReadAll(y); len(more) > 0 {
					t.Errorf("it sent %x", more)
				}
				if _, err := x.Write(nil); !errors.Is(err, net.ErrClosed) {
					t.Errorf("TCP is open: %v", err)
				}
			})
		})
	}
}

// A responder that finds the agreement unacceptable has no FPDU to say so in, since
// it may not send one before it has had one: it answers with R=1, and that is all.
//
// Shows: MPA2-9.3-01, MPA-7.1.2-14
func TestLocalErrorOfResponder(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  *iwarp.Config
	}{
		{name: "peer-to-peer is required", cfg: &iwarp.Config{MPA: iwarp.MPAConfig{RequirePeerToPeer: true}}},
		{name: "a closed domain", cfg: &iwarp.Config{PD: closedPD(t)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, y := pipe(nil)
				got := make(chan error, 1)
				go func() {
					_, err := iwarp.Server(testContext(t), x, c.cfg)
					got <- err
				}()
				must(y.Write(iwarptest.Request(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(4, 4, nil))))(t)
				if err := <-got; err == nil {
					t.Error("Server returns no error")
				}
				sent, _ := io.ReadAll(y)
				if len(sent) != 0 && (len(sent) != 24 || sent[16]&iwarptest.FlagR == 0) {
					t.Errorf("it sent %x, want a rejection at most", sent)
				}
			})
		})
	}
}

// closedPD is a domain that no QP can be made in any more.
func closedPD(t *testing.T) *iwarp.PD {
	pd := must(newDevice(t, nil).NewPD())(t)
	check(t, "Close", pd.Close())
	return pd
}
