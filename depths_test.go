package iwarp_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// An RTR Read raises the initiator's ORD and the responder's IRD to 1 where they
// were 0, and nothing else: the initiator still serves no Read, the responder still
// issues none.
// Shows: RDMAP-6.1-02, RDMAP-6.1-05, MPA2-9.1-04
func TestRTRReadRaisesOneDirection(t *testing.T) {
	none := func() *iwarp.Config {
		return &iwarp.Config{MPA: iwarp.MPAConfig{RTR: iwarp.RTRRead}, IRD: iwarp.NoReads, ORD: iwarp.NoReads}
	}
	t.Run("initiator", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x, y := pipe(nil)
			p := iwarptest.NewPeer(t, y)
			got := make(chan accepted, 1)
			go func() { c, err := iwarp.Client(testContext(t), x, none()); got <- accepted{c, err} }()
			p.Respond("startup",
				iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(0x8000|1, 0x4000, nil)))
			a := <-got
			check(t, "Client", a.err)
			defer endBoth(a.c)
			rtr := p.Frame("the RTR Read goes out in spite of ORD 0")
			p.Send(iwarptest.ReadResponse(uint32(rtr[18])<<24|uint32(rtr[19])<<16|uint32(rtr[20])<<8|uint32(rtr[21]), 0,
				nil))
			if st := a.c.ConnectionState(); st.IRD != 0 || st.ORD != 0 {
				t.Errorf("IRD %d and ORD %d, want 0 and 0", st.IRD, st.ORD)
			}
			if err := a.c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpRead}); !errors.Is(err, iwarp.ErrInvalidWR) {
				t.Errorf("a Read of the program with ORD 0: %v", err)
			}
			p.Send(iwarptest.ReadRequest(1, 5, 0, 0, 0, 0))
			p.WantTerminate("the initiator's IRD is 0", uint16(protocol.DDPUntaggedNoBuffer))
		})
	})
	t.Run("responder", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x, y := pipe(nil)
			p := iwarptest.NewPeer(t, y)
			got := make(chan accepted, 1)
			go func() { c, err := iwarp.Server(testContext(t), x, none()); got <- accepted{c, err} }()
			reply := p.Initiate("startup",
				iwarptest.Request(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(0x8000, 0x4000, nil)))
			if want := iwarptest.Enhanced(0x8000|1, 0x4000, nil); string(reply[20:]) != string(want) {
				t.Errorf("the Reply's block is %x, want %x", reply[20:], want)
			}
			b := <-got
			check(t, "Server", b.err)
			defer endBoth(b.c)
			p.Send(iwarptest.ReadRequest(1, 5, 0, 0, 0, 0))
			p.WantFrame("the RTR Read is answered", iwarptest.ReadResponse(5, 0, nil))
			if err := b.c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpRead}); !errors.Is(err, iwarp.ErrInvalidWR) {
				t.Errorf("a Read of the program with ORD 0: %v", err)
			}
			if st := b.c.ConnectionState(); st.IRD != 1 || st.ORD != 0 {
				t.Errorf("IRD %d and ORD %d, want 1 and 0", st.IRD, st.ORD)
			}
		})
	})
}
