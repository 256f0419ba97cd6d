package rdmap_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Shows: RDMAP-5.3-08, RDMAP-5.5-01, RDMAP-5.5-04, EXT-6.3-04
func TestUnorderedDelivery(t *testing.T) {
	e := newEnd(t, responder, unordered)
	e.postRecv(8, 8, 8, 8)
	mem := guarded(t, 4)
	region := e.register(mem, allRights)
	inv := e.register(guarded(t, 1), allRights)
	segs := [][]byte{
		iwarptest.Write(uint32(region.STag()), 0, []byte("data")),
		iwarptest.Immediate(1, [8]byte{7: 1}),
		iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 2}, []byte("ab")),
		iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: 2, MO: 2}, []byte("c")),
		iwarptest.Immediate(3, [8]byte{7: 2}),
		iwarptest.SendInvalidate(4, uint32(inv.STag()), []byte("bye")),
	}
	for i := len(segs) - 1; i > 0; i-- {
		e.deliverAt(uint64(i), segs[i])
		e.deliverAt(uint64(i), segs[i]) // again: ignored
	}
	e.wantDelivered("nothing before the first")
	if !inv.Valid() {
		t.Error("invalidated at placement")
	}
	e.deliverAt(0, segs[0])
	e.wantDelivered("in the order of sending", "Immediate Data 0000000000000001", `Send "abc"`,
		"Immediate Data 0000000000000002",
		`Send with Invalidate "bye" invalidated `+inv.STag().String())
	if inv.Valid() || string(mem) != "data" {
		t.Error("not invalidated, or not placed")
	}
}

// Shows: RDMAP-5.2.1-04, RDMAP-5.2.2-04, EXT-5.2.1-12
func TestUnorderedRequests(t *testing.T) {
	e := newEnd(t, responder, unordered)
	mem := wordMemory(t, 5)
	stag := uint32(e.register(mem, allRights).STag())
	e.deliverAt(2, iwarptest.FetchAdd(3, 3, stag, 0, 3, 0))
	e.deliverAt(1, iwarptest.ReadRequest(2, 0xa2, 0, 8, stag, 0))
	e.wantIdle("the first is missing")
	e.deliverAt(0, iwarptest.FetchAdd(1, 1, stag, 0, 1, 0))
	e.wantSegment("in the order of MSNs", iwarptest.AtomicResponse(1, 1, 5))
	e.wantSegment("in the order of MSNs", iwarptest.ReadResponse(0xa2, 0, nativeWord(6)))
	e.wantSegment("in the order of MSNs", iwarptest.AtomicResponse(2, 3, 6))
	e.deliverAt(4, iwarptest.ReadRequest(5, 0xa5, 0, 0, stag, 0))
	e.deliverAt(3, iwarptest.ReadRequest(4, 0xa4, 0, 0, stag, 0))
	e.wantSegment("and so on", iwarptest.ReadResponse(0xa4, 0, nil))
	e.wantSegment("and so on", iwarptest.ReadResponse(0xa5, 0, nil))
	if err := e.s.Receive(6, iwarptest.ReadRequest(10, 1, 0, 0, 0, 0)); err == nil ||
		err.Code != protocol.DDPUntaggedNoBuffer {
		t.Errorf("beyond IRD: %v", err)
	}
}

// Shows: EXT-5-05, EXT-5.2.2-02, RDMAP-5.5-05, RDMAP-5.5-13
func TestUnorderedResponses(t *testing.T) {
	e := newEnd(t, unordered)
	bufs := [][]byte{guarded(t, 4), guarded(t, 4)}
	atomic := func(id uint64) rdmap.SendWR {
		return rdmap.SendWR{ID: id, Op: rdmap.OpFetchAdd, Remote: rdmap.RemoteBuffer{STag: 7}}
	}
	e.post(atomic(1))
	e.post(read(2, bufs[0]))
	e.post(atomic(3))
	e.post(read(4, bufs[1]))
	e.next("FetchAdd")
	a := e.wantRead("Read", 2, 4, 0x11223344, 0x1000)
	e.next("FetchAdd")
	b := e.wantRead("Read", 4, 4, 0x11223344, 0x1000)
	segs := [][]byte{
		iwarptest.AtomicResponse(1, 1, 101),
		iwarptest.Tagged(2, false, a, 0, []byte("ab")), iwarptest.ReadResponse(a, 2, []byte("cd")),
		iwarptest.AtomicResponse(2, 2, 102),
		iwarptest.Tagged(2, false, b, 0, []byte("wx")), iwarptest.ReadResponse(b, 2, []byte("yz")),
	}
	for _, i := range []uint64{5, 3, 2, 4} {
		e.deliverAt(i, segs[i])
	}
	e.wantDone("the first Response is missing", "")
	e.deliverAt(0, segs[0])
	e.wantDone("the second is not whole", "1")
	// A new atomic takes the slot of the first one while the Response of the
	// third lies there, placed and not delivered.
	e.post(atomic(5))
	e.wantSegment("another", iwarptest.FetchAdd(5, 3, 7, 0, 0, 0))
	e.deliverAt(6, iwarptest.AtomicResponse(3, 3, 103))
	e.deliverAt(1, segs[1])
	if e.done[1].Original != 102 || e.done[3].Original != 103 {
		t.Errorf("%+v", e.done)
	}
	e.wantDone("all", "2 3 4 5")
	if string(bufs[0])+string(bufs[1]) != "abcdwxyz" {
		t.Errorf("read %q", bufs)
	}
}

// Shows: RDMAP-5.5-01, RDMAP-5.5-06, RDMAP-5.5-10
// The segments of one stream in many random orders give what they give in order.
func TestUnorderedShuffled(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		a, b := newEnd(t, unordered), newEnd(t, unordered, responder)
		a.llp.mulpdu, b.llp.mulpdu = 128, 128
		target, source := guarded(t, 400), wordMemory(t, 1, 2, 3)
		tgt, src := b.register(target, allRights).STag(), b.register(source, allRights).STag()
		got := guarded(t, 24)
		b.postRecv(300, 300, 300)
		// Fenced, because a later Write may be placed before an earlier Read.
		for i, r := range []rdmap.SendWR{
			{Op: rdmap.OpSend, SG: [][]byte{octets(300)}},
			{Op: rdmap.OpWrite, Remote: rdmap.RemoteBuffer{STag: tgt}, SG: [][]byte{octets(400)}},
			{Op: rdmap.OpFetchAdd, Remote: rdmap.RemoteBuffer{STag: src, TO: 8}, Operand: 40},
			{Op: rdmap.OpRead, Remote: rdmap.RemoteBuffer{STag: src}, SG: [][]byte{got}},
			{Op: rdmap.OpImmediate, Immediate: 7},
			{
				Op: rdmap.OpCompareSwap, Remote: rdmap.RemoteBuffer{STag: src, TO: 16}, Compare: 3, CompareMask: 7,
				Operand: 9, OperandMask: 15,
			},
			{Op: rdmap.OpSend, SG: [][]byte{octets(3)}, Fence: true},
		} {
			r.ID = uint64(i)
			a.post(r)
		}
		shufflePump(t, rnd, a, b)
		a.wantDone("in order", "0 1 2 3 4 5 6")
		b.wantDelivered("in order", `Send `+quote(octets(300)), "Immediate Data 0000000000000007",
			`Send `+quote(octets(3)))
		if !bytes.Equal(target, octets(400)) || !bytes.Equal(got,
			append(append(nativeWord(1), nativeWord(42)...), nativeWord(3)...)) {
			t.Fatalf("seed %d: memory is wrong: %x", seed, got)
		}
		if !bytes.Equal(source[16:], nativeWord(9)) {
			t.Fatalf("seed %d: the CmpSwap gave %x", seed, source[16:])
		}
	}
}

// shufflePump is pump with the segments of each round in random order.
func shufflePump(t *testing.T, rnd *rand.Rand, ends ...*end) {
	t.Helper()
	for range 100 {
		for i, from := range ends {
			to := ends[1-i]
			from.transmit()
			segs := from.llp.sent
			from.llp.sent = nil
			for _, at := range rnd.Perm(len(segs)) {
				if err := to.s.Receive(to.order+uint64(at), segs[at]); err != nil {
					t.Fatal(err)
				}
			}
			to.order += uint64(len(segs))
		}
	}
}
