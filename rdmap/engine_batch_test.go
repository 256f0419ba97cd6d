package rdmap_test

import (
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

func batched(c *rdmap.Config) { c.Batched = true }

// part is a segment of a Write that goes on.
func part(stag uint32, to uint64, data string) []byte {
	seg := iwarptest.Write(stag, to, []byte(data))
	seg[0] &^= 0x40 // L
	return seg
}

// Between the segments of a Write the region is locked in a batch. Whoever waits
// for it comes through all the same, and the octets are counted. A lock kept for
// too long shows as a test that hangs.
func TestBatches(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(e *end, stag uint32)
	}{
		{name: "the batch ends", then: func(e *end, _ uint32) { e.s.EndBatch() }},
		{
			name: "the message ends",
			then: func(e *end, stag uint32) { e.deliver(iwarptest.Write(stag, 8, []byte("last"))) },
		},
		{name: "the peer invalidates the region", then: func(e *end, stag uint32) {
			e.deliver(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 4, Last: true, Invalidate: stag, MSN: 1},
				[]byte("bye")))
			e.wantError("a Write after it", part(stag, 0, "evil"), protocol.DDPTaggedInvalidSTag)
		}},
		{name: "the stream fails", then: func(e *end, stag uint32) {
			e.s.Fail(&protocol.Error{Code: protocol.MPAConnectionLost, Section: "x", Detail: "y"}, false)
			e.deliver(part(stag, 0, "lost"))
		}},
		{name: "the peer breaks a rule", then: func(e *end, _ uint32) {
			e.wantError("unknown STag", part(0xdead, 0, "evil"), protocol.DDPTaggedInvalidSTag)
		}},
		{name: "the peer has closed", then: func(e *end, stag uint32) {
			if err := e.s.PeerClosed(); err == nil {
				t.Error("a message is in progress, and the end graceful")
			}
			_ = e.receive(part(stag, 0, "late"))
		}},
	} {
		e := newEnd(t, responder, batched)
		e.postRecv(16)
		mem := guarded(t, 12)
		region := e.register(mem, allRights)
		stag := uint32(region.STag())
		e.deliver(part(stag, 0, "abcd")) // the first segment opens the stream
		e.s.EndBatch()
		region.SetAccess(allRights)
		e.deliver(part(stag, 4, "efgh"))
		c.then(e, stag)
		region.Invalidate()
		if got := string(mem[:8]); got != "abcdefgh" {
			t.Errorf("%s: memory is %q", c.name, got)
		}
		e.s.EndBatch()
		if n := e.s.Stats().PayloadReceived; n < 8 {
			t.Errorf("%s: %d octets counted", c.name, n)
		}
	}
}
