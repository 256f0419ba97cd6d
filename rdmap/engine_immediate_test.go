package rdmap_test

import (
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Shows: EXT-6.2-01, EXT-6.3-07, EXT-6.3-03
func TestImmediateLength(t *testing.T) {
	for n := range 12 {
		e := newEnd(t, responder)
		e.postRecv(16)
		seg := iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 8, Last: true, MSN: 1}, octets(n))
		switch {
		case n == rdmap.ImmediateDataLen:
			e.deliver(seg)
			e.wantDelivered("eight octets", "Immediate Data 0001020304050607")
			continue
		case n < rdmap.ImmediateDataLen:
			e.wantError("too short", seg, protocol.RDMAPOperationUnspecified)
			e.wantTerminate("too short", protocol.RDMAPOperationUnspecified, seg)
		default:
			e.wantError("too long", seg, protocol.DDPUntaggedTooLong)
			e.wantTerminate("too long", protocol.DDPUntaggedTooLong, seg)
		}
		e.wantDelivered("nothing")
	}
}

// Shows: EXT-6.3-03, EXT-6.3-04, EXT-6.4-01
func TestImmediateTakesABuffer(t *testing.T) {
	e := newEnd(t, responder)
	e.postRecv(0, 4, 2)
	e.buffers[0] = nil // a buffer without memory is enough
	e.deliver(
		iwarptest.Immediate(1, [8]byte{7: 1}),
		iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 2}, []byte("ab")),
		iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: 2, MO: 2}, []byte("cd")),
		iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 9, MSN: 3}, make([]byte, 7)), // in two segments
		iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 9, Last: true, MSN: 3, MO: 7}, []byte{2}),
	)
	e.wantDelivered("in order with Sends", "Immediate Data 0000000000000001", `Send "abcd"`,
		"Immediate Data with SE 0000000000000002")
	if tok := e.delivered; len(tok) != 0 {
		t.Error(tok)
	}
	if string(e.buffers[2][0]) != "\x00\x00" {
		t.Error("Immediate Data was placed in the ULP's buffer")
	}
	e.wantError("no buffer for a third", iwarptest.Immediate(4, [8]byte{}), protocol.DDPUntaggedNoBuffer)
}

// Shows: EXT-6.3-04, EXT-6.3-05
func TestImmediateAfterWrite(t *testing.T) {
	a, b := newEnd(t), newEnd(t, responder)
	mem := guarded(t, 4)
	b.postRecv(0, 0)
	a.post(rdmap.SendWR{
		ID: 1, Op: rdmap.OpWrite, Remote: rdmap.RemoteBuffer{STag: b.register(mem, allRights).STag()},
		SG: [][]byte{[]byte("data")},
	})
	a.post(rdmap.SendWR{ID: 2, Op: rdmap.OpImmediate, Immediate: 0xfeed, Solicited: true})
	a.post(rdmap.SendWR{ID: 3, Op: rdmap.OpImmediate, Immediate: 1, Unsignaled: true})
	pump(a, b)
	b.wantDelivered("tells of the Write", "Immediate Data with SE 000000000000feed", "Immediate Data 0000000000000001")
	if string(mem) != "data" {
		t.Errorf("memory is %q", mem)
	}
	if a.done[1].Length != 8 || a.done[1].Unsignaled || !a.done[2].Unsignaled {
		t.Errorf("completed %+v", a.done)
	}
	a.wantDone("all", "1 2 3")
}
