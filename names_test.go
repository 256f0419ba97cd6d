package iwarp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
)

var names = map[string]error{
	"startup timeout": iwarp.ErrStartupTimeout, "peer silent": iwarp.ErrPeerSilent,
	"startup closed": iwarp.ErrStartupClosed,
	"client first":   iwarp.ErrClientFirst, "os deadline": os.ErrDeadlineExceeded, "deadline": context.DeadlineExceeded,
	"canceled": context.Canceled,
}

// wantNames checks by which names an error goes, whether package net takes it for a
// timeout, and how its text begins.
func wantNames(t *testing.T, err error, begins, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that begins with %q", begins)
	}
	if s := strings.TrimPrefix(err.Error(), "iwarp: "); !strings.HasPrefix(s, begins) {
		t.Errorf("%q\ndoes not begin with %q", s, begins)
	}
	for name, target := range names {
		if wanted := strings.Contains(","+want+",", ","+name+","); errors.Is(err, target) != wanted {
			t.Errorf("%v: is %q: %t, want %t", err, name, !wanted, wanted)
		}
	}
	var ne net.Error
	if timeout := errors.As(err, &ne) && ne.Timeout(); timeout != strings.Contains(want, "deadline") {
		t.Errorf("%v: a timeout of package net: %t", err, timeout)
	}
}

const timedOut = "startup timeout,os deadline,deadline"

// What keeps startup from succeeding has a name, and comes first in the text.
// Shows: MPA-7.1.2-20, MPA-7.1.2-25
func TestStartupNames(t *testing.T) {
	half := func(p *iwarptest.Peer) { p.SendRaw([]byte("MPA ID Re")) }
	fin := func(p *iwarptest.Peer) { p.CloseWrite() }
	for _, c := range []struct {
		name   string
		server bool
		peer   func(*iwarptest.Peer)
		begins string
		names  string
	}{
		{
			name: "silent responder", begins: "the peer sent nothing in answer to the Request: ",
			names: timedOut + ",peer silent",
		},
		{
			name: "silent initiator", server: true,
			begins: "the peer sent nothing, and the initiator has to speak first: ", names: timedOut + ",peer silent",
		},
		{
			name: "half a Reply", peer: half, begins: "the peer sent 9 octets, which are no whole Reply: ",
			names: timedOut,
		},
		{
			name: "half a Request", server: true, peer: half,
			begins: "the peer sent 9 octets, which are no whole Request: ", names: timedOut,
		},
		{
			name: "responder closes", peer: fin, begins: "the peer ended the connection before its Reply: EOF",
			names: "startup closed",
		},
		{
			name: "initiator closes", server: true, peer: fin,
			begins: "the peer ended the connection before its Request: EOF", names: "startup closed",
		},
		{
			name: "responder resets", peer: func(p *iwarptest.Peer) { p.Abort() },
			begins: "the peer ended the connection before its Reply: ", names: "startup closed",
		},
		{
			name: "initiator closes within", server: true, peer: func(p *iwarptest.Peer) { half(p); fin(p) },
			begins: "the peer ended the connection in the middle of its Request, after 9 octets: ",
			names:  "startup closed",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, y := pipe(nil)
				p := iwarptest.NewPeer(t, y)
				got := make(chan error, 1)
				go func() {
					var err error
					if c.server {
						_, err = iwarp.Server(t.Context(), x, nil)
					} else {
						_, err = iwarp.Client(t.Context(), x, &iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}})
					}
					got <- err
				}()
				if !c.server {
					p.WantStartup("the Request", "MPA ID Req Frame")
				}
				if c.peer != nil {
					c.peer(p)
				}
				wantNames(t, <-got, c.begins, c.names)
			})
		})
	}
	t.Run("the program changes its mind", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x, _ := pipe(nil)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err := iwarp.Client(ctx, x, nil)
			wantNames(t, err, "startup was given up; the peer sent nothing in answer to the Request: context canceled",
				"canceled")
		})
	})
	t.Run("the program closes the conn below", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x, y := net.Pipe()
			time.AfterFunc(time.Second, func() { x.Close() })
			_, err := iwarp.Server(t.Context(), x, nil)
			wantNames(t, err, "the connection failed before its Request: io: read/write on closed pipe", "")
			y.Close()
		})
	})
}

// A blocking call whose context ends says why first, and then what became of it.
func TestGivenUpNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := clientOfPeer(t, nil)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the user is impatient"))
		defer cancel()
		err := c.RDMARead(ctx, make([]byte, 1), iwarp.RemoteBuffer{})
		wantNames(t, err, "RDMA Read: the user is impatient; the connection was aborted", "os deadline,deadline")
		if !errors.Is(err, iwarp.ErrFlushed) || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v: what became of the request", err)
		}
		// Others hear of it, and not that their own time is over.
		wantNames(t, c.Err(),
			"aborted by this end, since the context of a call ended (RDMA Read: the user is impatient)", "")
	})
	synctest.Test(t, func(t *testing.T) {
		c, _ := clientOfPeer(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := c.FetchAdd(ctx, iwarp.RemoteBuffer{}, 1)
		wantNames(t, err, "FetchAdd: context canceled; the connection was aborted", "canceled")
	})
}

// A responder whose client does not speak is told so, in each way that it can end.
// Shows: MPA-7.1.2-14
func TestClientFirstNames(t *testing.T) {
	const first = "the client has to speak first on a client-server connection, and has not: "
	synctest.Test(t, func(t *testing.T) {
		c, _ := serverOfPeer(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantNames(t, c.Send(ctx, nil), "Send: "+first+"context deadline exceeded", "client first,os deadline,deadline")
		if c.Err() != nil {
			t.Errorf("the Send was withdrawn, and yet: %v", c.Err())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, _ := serverOfPeer(t, &iwarp.Config{SendDepth: 1})
		check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpSend}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.Send(ctx, nil)
		wantNames(t, err, "Send: "+first+"context deadline exceeded", "client first,os deadline,deadline")
		if c.Err() != nil || strings.Contains(err.Error(), "aborted") {
			t.Errorf("nothing of the call was in use, and yet: %v, %v", err, c.Err())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, p := serverOfPeer(t, nil)
		check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpSend}))
		p.CloseWrite()
		err := collect(t, c.QP().SendCQ(), 1)[0].Err
		if !errors.Is(err, iwarp.ErrClientFirst) || !errors.Is(err, io.ErrUnexpectedEOF) ||
			!errors.Is(err, iwarp.ErrFlushed) {
			t.Errorf("completion: %v", err)
		}
		wantNames(t, c.Err(), "the peer closed its half before its first message, ", "client first")
	})
}
