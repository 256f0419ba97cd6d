package iwarp_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// deafPeer starts a client against a scripted responder that, like siw at times, looks
// at nothing that follows its Reply. rtr is the one kind that both ends have, or 0.
func deafPeer(t *testing.T, rtr iwarp.RTR, cfg iwarp.Config) (*iwarp.Conn, *iwarptest.Peer) {
	t.Helper()
	x, y := pipe(nil)
	p := iwarptest.NewPeer(t, y)
	cfg.MPA.RTR = rtr
	ird, ord := uint16(0x8000|8), uint16(8)
	switch rtr {
	case iwarp.RTRSend:
		ird |= 0x4000
	case iwarp.RTRWrite:
		ord |= 0x8000
	case iwarp.RTRRead:
		ord |= 0x4000
	default:
		cfg.MPA.RTR, ird = iwarp.RTRNone, 8
	}
	got := make(chan accepted, 1)
	go func() { c, err := iwarp.Client(t.Context(), x, &cfg); got <- accepted{c, err} }()
	p.Respond("startup", iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(ird, ord, nil)))
	a := <-got
	check(t, "Client", a.err)
	t.Cleanup(a.c.Abort)
	return a.c, p
}

// frames takes what has come until nothing more comes for a minute, and says after
// which time each FPDU came.
func frames(p *iwarptest.Peer) (all []string) {
	start := time.Now()
	for {
		ev := p.Await(time.Minute)
		if ev.Segment == nil {
			return all
		}
		all = append(all, fmt.Sprintf("%v %s", time.Since(start), iwarptest.Describe(ev.Segment)))
	}
}

// asks are ways to ask the peer for something and wait for it, on a connection whose
// receives are the library's.
var asks = map[string]func(ctx context.Context, c *iwarp.Conn) error{
	"Send and Recv": func(ctx context.Context, c *iwarp.Conn) error {
		if err := c.Send(ctx, []byte("question")); err != nil {
			return err
		}
		_, err := c.Recv(ctx, nil)
		return err
	},
	"Write and Recv": func(ctx context.Context, c *iwarp.Conn) error {
		if err := c.RDMAWrite(ctx, []byte("question"), iwarp.RemoteBuffer{STag: 7}); err != nil {
			return err
		}
		_, err := c.Recv(ctx, nil)
		return err
	},
	"Immediate Data and Recv": func(ctx context.Context, c *iwarp.Conn) error {
		if err := c.SendImmediate(ctx, 1); err != nil {
			return err
		}
		_, err := c.Recv(ctx, nil)
		return err
	},
	"Read": func(ctx context.Context, c *iwarp.Conn) error {
		return c.RDMARead(ctx, make([]byte, 8), iwarp.RemoteBuffer{STag: 7})
	},
	"more Reads than ORD": func(ctx context.Context, c *iwarp.Conn) error {
		for range 20 {
			if err := c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{make([]byte, 8)}}); err != nil {
				return err
			}
		}
		return c.Drain(ctx)
	},
	"FetchAdd": func(ctx context.Context, c *iwarp.Conn) error {
		_, err := c.FetchAdd(ctx, iwarp.RemoteBuffer{STag: 7}, 1)
		return err
	},
	"Recv, later": func(ctx context.Context, c *iwarp.Conn) error {
		if err := c.Send(ctx, []byte("question")); err != nil {
			return err
		}
		time.Sleep(10 * time.Second)
		_, err := c.Recv(ctx, nil)
		return err
	},
}

const emptyWrite = "Write STag 00000001 TO 0x0 L +0"

// An initiator that waits for an answer and has had none sends one RDMA Write of no
// octets, whatever it waits for and however the connection was opened, and no more.
func TestNudge(t *testing.T) {
	for _, rtr := range []iwarp.RTR{0, iwarp.RTRSend, iwarp.RTRWrite, iwarp.RTRRead} {
		for name, ask := range asks {
			t.Run(fmt.Sprintf("%v %s", rtr, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, p := deafPeer(t, rtr, iwarp.Config{})
					ended := make(chan error, 1)
					go func() { ended <- ask(t.Context(), c) }()
					wantOneNudge(t, frames(p), name == "Recv, later" && rtr != iwarp.RTRRead)
					c.Abort()
					<-ended
				})
			})
		}
	}
}

// wantOneNudge checks that the last FPDU of all is an empty Write after NudgeAfter and
// that no other came so late.
func wantOneNudge(t *testing.T, all []string, later bool) {
	t.Helper()
	after := "250ms "
	if later {
		after = "10.25s "
	}
	n := 0
	for _, f := range all {
		if len(f) < 3 || f[:3] != "0s " {
			n++
		}
	}
	if len(all) == 0 || n != 1 || all[len(all)-1] != after+emptyWrite {
		t.Errorf("want an empty Write after %sand nothing else:", after)
		for _, f := range all {
			t.Log(f)
		}
	}
}

// The same with a QP of the program's, by its posted receives, and where the peer is
// to speak first.
func TestNudgeQP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		qp := newQP(t, newDevice(t, nil), nil)
		check(t, "PostRecv", qp.PostRecv(iwarp.RecvWR{}))
		_, p := deafPeer(t, iwarp.RTRWrite, iwarp.Config{QP: qp})
		wantOneNudge(t, frames(p), false)
	})
	synctest.Test(t, func(t *testing.T) {
		qp := newQP(t, newDevice(t, nil), nil)
		_, p := deafPeer(t, iwarp.RTRSend, iwarp.Config{QP: qp})
		time.AfterFunc(10*time.Second, func() { check(t, "PostRecv", qp.PostRecv(iwarp.RecvWR{})) })
		wantOneNudge(t, frames(p), true)
	})
	synctest.Test(t, func(t *testing.T) {
		_, p := deafPeer(t, iwarp.RTRSend, iwarp.Config{Progress: iwarp.ProgressPolling})
		p.WantFrame("the RTR", iwarptest.Send(1, nil))
		p.WantIdle("nobody waits")
	})
}

// Nothing is sent on an idle connection, by a responder, after an answer, when later
// octets have gone anyway, or when it is switched off.
func TestNoNudge(t *testing.T) {
	late := func(t *testing.T, why string, all []string) {
		t.Helper()
		for _, f := range all {
			if f[:3] != "0s " {
				t.Errorf("%s: %s", why, f)
			}
		}
	}
	wait := func(c *iwarp.Conn) {
		go func() { _, _ = c.Recv(context.Background(), nil) }()
	}
	synctest.Test(t, func(t *testing.T) {
		_, p := deafPeer(t, iwarp.RTRWrite, iwarp.Config{})
		late(t, "idle after the RTR", frames(p))
	})
	synctest.Test(t, func(t *testing.T) {
		c, p := deafPeer(t, 0, iwarp.Config{})
		wait(c)
		late(t, "nothing was ever sent", frames(p))
	})
	synctest.Test(t, func(t *testing.T) {
		c, p := deafPeer(t, 0, iwarp.Config{})
		check(t, "Send", c.Send(t.Context(), nil))
		late(t, "nobody waits", frames(p))
	})
	synctest.Test(t, func(t *testing.T) {
		c, p := deafPeer(t, iwarp.RTRWrite, iwarp.Config{MPA: iwarp.MPAConfig{NudgeAfter: -1}})
		wait(c)
		late(t, "switched off", frames(p))
	})
	synctest.Test(t, func(t *testing.T) {
		c, p := deafPeer(t, iwarp.RTRWrite, iwarp.Config{})
		p.Send(iwarptest.Send(1, nil))
		wantRecv(t, c, "")
		check(t, "Send", c.Send(t.Context(), nil))
		wait(c)
		late(t, "the peer has spoken", frames(p))
	})
	synctest.Test(t, func(t *testing.T) {
		c, p := deafPeer(t, iwarp.RTRWrite, iwarp.Config{})
		time.Sleep(time.Second)
		check(t, "Send", c.Send(t.Context(), nil))
		time.Sleep(time.Second)
		wait(c)
		late(t, "what came later has done it", frames(p))
	})
	synctest.Test(t, func(t *testing.T) {
		c, p := serverOfPeer(t, nil)
		p.Send(iwarptest.Send(1, nil))
		wantRecv(t, c, "")
		check(t, "Send", c.Send(t.Context(), nil))
		wait(c)
		late(t, "a responder", frames(p))
	})
}
