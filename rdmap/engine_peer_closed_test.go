package rdmap_test

import (
	"errors"
	"io"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// A FIN between two segments of a message is no graceful end, whatever the message
// is and whoever receives it. This half is open, so a Terminate says so.
//
// Shows: DDP-2.3-02, DDP-6.2.2-01, RDMAP-6.2.1-01
func TestPeerClosedWithinAMessage(t *testing.T) {
	for _, c := range []struct {
		name    string
		segment []byte
	}{
		{name: "Send", segment: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 1}, []byte("abc"))},
		{
			name:    "empty first segment of a Send",
			segment: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 1}, nil),
		},
		{
			name:    "Send with Invalidate",
			segment: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 4, Invalidate: 7, MSN: 1}, []byte("abc")),
		},
		{name: "Send with SE", segment: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 5, MSN: 1}, []byte("abc"))},
		{
			name:    "Send with SE and Invalidate",
			segment: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 6, Invalidate: 7, MSN: 1}, []byte("abc")),
		},
		{
			name:    "Immediate Data",
			segment: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 8, MSN: 1}, make([]byte, 4)),
		},
		{
			name:    "Immediate Data with SE",
			segment: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 9, MSN: 1}, make([]byte, 4)),
		},
		{name: "Write", segment: iwarptest.Tagged(0, false, 7, 0, nil)},
		{
			name:    "Read Request",
			segment: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 1, QN: 1, MSN: 1}, make([]byte, 14)),
		},
		{
			name:    "Atomic Request",
			segment: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 10, QN: 1, MSN: 1}, make([]byte, 14)),
		},
		{
			name:    "Terminate",
			segment: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 7, QN: 2, MSN: 1}, make([]byte, 2)),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for role, initiator := range map[string]bool{"initiator": true, "responder": false} {
				e := newEnd(t, func(cfg *rdmap.Config) { cfg.Initiator = initiator })
				e.postRecv(8, 8)
				e.deliver(c.segment)
				err := e.s.PeerClosed()
				if !errors.Is(err, &protocol.Error{Code: protocol.MPAConnectionLost}) ||
					!errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("%s: PeerClosed returns %v", role, err)
				}
				e.wantTerminate(role, protocol.MPAConnectionLost, nil)
			}
		})
	}
}

// Out of order too: a message that waits for an earlier one is lost as well.
//
// Shows: DDP-6.2.2-01
func TestPeerClosedWithAGap(t *testing.T) {
	e := newEnd(t, unordered)
	e.postRecv(8, 8)
	e.deliverAt(1, iwarptest.Write(7, 0, nil))
	if err := e.s.PeerClosed(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("PeerClosed returns %v", err)
	}
}

// Between messages a FIN is graceful, after whatever message.
//
// Shows: DDP-6.2.1-04
func TestPeerClosedBetweenMessages(t *testing.T) {
	e := newEnd(t)
	e.postRecv(8, 8)
	e.deliver(
		iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 1},
			[]byte("ab")), iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: 1, MO: 2},
			[]byte("cd")),
		iwarptest.Tagged(0, false, 7, 0, nil), iwarptest.Tagged(0, true, 7, 0, nil),
		iwarptest.ReadRequest(1, 7, 0, 0, 0, 0),
	)
	if err := e.s.PeerClosed(); err != nil {
		t.Errorf("PeerClosed returns %v", err)
	}
}
