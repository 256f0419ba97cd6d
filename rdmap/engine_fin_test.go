package rdmap_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
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
	{
		name: "Read", segment: func(msn, stag uint32) []byte { return iwarptest.ReadRequest(msn, 7, 0, 3000, stag, 0) },
		segments: 3,
	},
	{
		name: "empty Read", segment: func(msn, _ uint32) []byte { return iwarptest.ReadRequest(msn, 7, 0, 0, 1, 0) },
		segments: 1,
	},
	{
		name: "atomic", segment: func(msn, stag uint32) []byte { return iwarptest.FetchAdd(msn, msn, stag, 0, 1, 0) },
		segments: 1,
	},
}

// What the peer has asked for is answered before this end's half closes: Reads and
// atomics, one or as many as IRD, on an LLP that takes all at once or little by
// little, whether the ULP closes before they come or after, and whether the peer
// has closed its own half.
//
// Shows: DDP-6.2.1-01, RDMAP-5.2.1-09, EXT-5.2.1-13, DDP-2.3-01
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

// A message of which a segment has gone when the ULP closes is sent to its end, and
// so is what stands behind it, whatever it is.
//
// Shows: DDP-2.3-01, DDP-6.2.1-01
func TestMessageInProgressBeforeTheFIN(t *testing.T) {
	long := [][]byte{octets(5000)}
	for _, c := range []struct {
		name     string
		first    rdmap.SendWR
		segments int
	}{
		{name: "Send", first: rdmap.SendWR{ID: 1, Op: rdmap.OpSend, SG: long}, segments: 4},
		{
			name:  "Send with Invalidate",
			first: rdmap.SendWR{ID: 1, Op: rdmap.OpSendInvalidate, Invalidate: 7, SG: long}, segments: 4,
		},
		{
			name: "Write", first: rdmap.SendWR{ID: 1, Op: rdmap.OpWrite, Remote: rdmap.RemoteBuffer{STag: 7}, SG: long},
			segments: 4,
		},
		{name: "empty Send", first: rdmap.SendWR{ID: 1, Op: rdmap.OpSend}, segments: 1},
		{name: "Immediate Data", first: rdmap.SendWR{ID: 1, Op: rdmap.OpImmediate}, segments: 1},
	} {
		for _, blocked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, blocked %t", c.name, blocked), func(t *testing.T) {
				e := newEnd(t)
				e.llp.limit, e.llp.block, e.llp.take = 1, blocked, 1
				e.post(c.first)
				e.post(send(2, "behind it"))
				if _, err := e.s.Transmit(e.llp, false); err != nil {
					t.Fatal(err)
				}
				e.s.CloseSend()
				e.untilFIN()
				if n := len(e.llp.sent); n != c.segments+1 {
					t.Errorf("%d segments before the FIN, want %d", n, c.segments+1)
				}
				e.wantDone("both", "1 2")
				if e.s.Err() != nil {
					t.Error(e.s.Err())
				}
			})
		}
	}
}

// After a teardown of either kind the stream is no stream any more: nothing is
// placed or delivered, and no request is taken, or it completes at once in error.
//
// Shows: DDP-6.2-03, DDP-6.2.1-02
func TestNothingAfterTeardown(t *testing.T) {
	for name, teardown := range map[string]func(e *end){
		"graceful": func(e *end) {
			if err := e.s.PeerClosed(); err != nil {
				t.Fatal(err)
			}
			e.s.StopReceive()
			e.s.CloseSend()
			e.untilFIN()
		},
		"abortive": func(e *end) {
			e.s.Fail(&protocol.Error{Code: protocol.MPAConnectionLost, Err: net.ErrClosed}, false)
			e.transmit()
			e.s.StopReceive()
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnd(t)
			e.postRecv(8)
			mem := guarded(t, 8)
			stag := uint32(e.register(mem, allRights).STag())
			teardown(e)
			for _, seg := range [][]byte{
				iwarptest.Write(stag, 0, []byte("late")), iwarptest.Send(1, []byte("late")),
				iwarptest.ReadRequest(1, 7, 0, 4, stag, 0), iwarptest.FetchAdd(1, 1, stag, 0, 1, 0),
			} {
				_ = e.receive(seg)
			}
			e.wantDelivered("nothing")
			if !bytes.Equal(mem, make([]byte, 8)) {
				t.Errorf("the region has %q", mem)
			}
			r := send(1, "late")
			if err := e.s.Post(&r, nil); err == nil {
				e.wantDone("at once", "1!")
			} else if !errors.Is(err, rdmap.ErrClosed) {
				t.Error(err)
			}
			if e.transmit(); len(e.llp.sent) > 0 {
				t.Errorf("sent %s", iwarptest.Describe(e.llp.sent[0]))
			}
		})
	}
}
