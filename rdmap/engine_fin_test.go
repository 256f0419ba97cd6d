package rdmap_test

import (
	"fmt"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/rdmap"
)

// request is a request of the peer, and how many segments of at most 1442 octets
// its Response has.
type request struct {
	name     string
	segment  func(msn, stag uint32) []byte
	segments int
}

var requests = []request{
	{"Read", func(msn, stag uint32) []byte { return iwarptest.ReadRequest(msn, 7, 0, 3000, stag, 0) }, 3},
	{"empty Read", func(msn, _ uint32) []byte { return iwarptest.ReadRequest(msn, 7, 0, 0, 1, 0) }, 1},
	{"atomic", func(msn, stag uint32) []byte { return iwarptest.FetchAdd(msn, msn, stag, 0, 1, 0) }, 1},
}

// What the peer has asked for is answered before this end's half closes: Reads and
// atomics, one or as many as IRD, on an LLP that takes all at once or little by
// little, whether the ULP closes before they come or after, and whether the peer
// has closed its own half.
//
// Shows: DDP-6.2.1-01, RDMAP-5.2.1-09, EXT-5.2.1-13
func TestResponsesBeforeTheFIN(t *testing.T) {
	type state struct{ closeFirst, peerClosed, blocked, ownSend, initiator bool }
	for _, r := range requests {
		for _, s := range []state{
			{},
			{closeFirst: true},
			{peerClosed: true},
			{blocked: true},
			{ownSend: true},
			{initiator: true},
			{closeFirst: true, peerClosed: true, blocked: true, ownSend: true, initiator: true},
		} {
			for _, count := range []uint32{1, 4} {
				t.Run(fmt.Sprintf("%s, %+v, %d", r.name, s, count), func(t *testing.T) {
					e := newEnd(t, func(c *rdmap.Config) { c.Initiator = s.initiator })
					e.llp.limit, e.llp.block = 1, s.blocked
					stag := uint32(e.register(make([]byte, 3000), allRights).STag())
					e.deliver(iwarptest.Write(1, 0, nil)) // a responder may send now
					want := int(count) * r.segments
					if s.ownSend {
						e.post(send(1, "own"))
						want++
					}
					if s.closeFirst {
						e.s.CloseSend()
					}
					for msn := range count {
						e.deliver(r.segment(msn+1, stag))
					}
					if s.peerClosed {
						if err := e.s.PeerClosed(); err != nil {
							t.Fatal(err)
						}
						e.s.StopReceive()
					}
					e.s.CloseSend()
					e.untilFIN()
					if n := len(e.llp.sent); n != want {
						t.Errorf("%d segments before the FIN, want %d", n, want)
					}
					if e.s.Err() != nil {
						t.Error(e.s.Err())
					}
				})
			}
		}
	}
}

// untilFIN does the send owner's work until it asks for the FIN. An LLP that takes
// nothing at once takes one segment after the other.
func (e *end) untilFIN() {
	e.t.Helper()
	for range 1000 {
		p, err := e.s.Transmit(e.llp, false)
		switch {
		case err != nil:
			e.t.Fatal(err)
		case p == rdmap.Blocked:
			e.llp.take = 1
		case p == rdmap.Finished:
			return
		case p == rdmap.Idle:
			e.t.Fatal("no FIN, and nothing to send")
		}
	}
	e.t.Fatal("no end of sending")
}
