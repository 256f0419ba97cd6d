package rdmap_test

import (
	"fmt"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// An empty Send is the ULP's wherever it is no RTR: it opens the stream only on a
// responder, only where RTR Send is among the kinds agreed on, and only as the very
// first message, which is what decides whether it takes a receive buffer.
//
// Shows: MPA2-9.2-08, RDMAP-5.3-04
func TestEmptySendAsFirstMessage(t *testing.T) {
	const all = protocol.RTRSend | protocol.RTRWrite | protocol.RTRRead
	first := map[string]func(stag uint32) []byte{
		"nothing":      nil,
		"empty Write":  func(uint32) []byte { return iwarptest.Write(1, 0, nil) },
		"empty Read":   func(uint32) []byte { return iwarptest.ReadRequest(1, 1, 0, 0, 1, 0) },
		"Write":        func(stag uint32) []byte { return iwarptest.Write(stag, 0, []byte("x")) },
		"half a Write": func(stag uint32) []byte { return iwarptest.Tagged(0, false, stag, 0, []byte("x")) },
	}
	for set := range all + 1 {
		for _, initiator := range []bool{false, true} {
			for name, segment := range first {
				t.Run(fmt.Sprintf("agreed %v, initiator %t, after %s", set, initiator, name), func(t *testing.T) {
					e := newEnd(t, func(c *rdmap.Config) { c.RTR, c.Initiator = set, initiator })
					e.postRecv(4)
					if segment != nil {
						e.deliver(segment(uint32(e.register(make([]byte, 1), allRights).STag())))
					}
					e.deliver(iwarptest.Send(1, nil))
					if set.Has(protocol.RTRSend) && !initiator && segment == nil {
						e.wantDelivered("an RTR is not the ULP's")
						if e.taken != 0 {
							t.Error("an RTR took a receive buffer")
						}
						return
					}
					e.wantDelivered("the ULP's", `Send ""`)
					if e.taken != 1 {
						t.Errorf("it took %d receive buffers", e.taken)
					}
				})
			}
		}
	}
}
