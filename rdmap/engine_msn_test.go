package rdmap_test

import (
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Each queue counts its own messages, from 1: Sends and Immediate Data on one,
// Reads and atomics on another, the responses to atomics on a third.
// Shows: DDP-4.3-07, DDP-4.3-08, DDP-4.3-10, EXT-5.2-01, DDP-4.3-06
func TestMSNOfEachQueue(t *testing.T) {
	a, b := newEnd(t), newEnd(t, responder)
	a.llp.mulpdu, b.llp.mulpdu = 64, 64
	r := b.register(guarded(t, 64), allRights)
	b.postRecv(100, 0, 100)
	for i, req := range []rdmap.SendWR{
		{Op: rdmap.OpSend, SG: [][]byte{octets(100)}}, // of three segments
		{Op: rdmap.OpRead, SG: [][]byte{guarded(t, 4)}, Remote: rdmap.RemoteBuffer{STag: r.STag()}},
		{Op: rdmap.OpImmediate},
		{Op: rdmap.OpFetchAdd, Remote: rdmap.RemoteBuffer{STag: r.STag()}},
		{Op: rdmap.OpSend, SG: [][]byte{octets(100)}},
		{Op: rdmap.OpFetchAdd, Remote: rdmap.RemoteBuffer{STag: r.STag()}},
		{Op: rdmap.OpWrite, SG: [][]byte{octets(1)}, Remote: rdmap.RemoteBuffer{STag: r.STag()}},
		{Op: rdmap.OpRead, SG: [][]byte{guarded(t, 4)}, Remote: rdmap.RemoteBuffer{STag: r.STag()}},
	} {
		req.ID = uint64(i)
		a.post(req)
	}
	count := func(segments [][]byte) map[uint32]uint32 {
		next := map[uint32]uint32{}
		for _, seg := range segments {
			h, _, err := ddp.Parse(seg)
			if err != nil || h.Tagged {
				continue
			}
			if want := next[h.QN] + 1; h.MSN != want {
				t.Fatalf("QN %d has MSN %d, want %d", h.QN, h.MSN, want)
			}
			if h.Last {
				next[h.QN]++
			}
		}
		return next
	}
	a.transmit()
	if got := count(a.llp.sent); got[rdmap.QNSend] != 3 || got[rdmap.QNReadRequest] != 4 {
		t.Errorf("messages by queue: %v", got)
	}
	b.deliver(a.llp.sent...)
	a.llp.sent = nil
	b.transmit()
	if got := count(b.llp.sent); got[rdmap.QNAtomicResponse] != 2 {
		t.Errorf("responses by queue: %v", got)
	}
	pump(a, b)
	a.wantDone("all", "0 1 2 3 4 5 6 7")
}
