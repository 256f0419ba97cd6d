package rdmap_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

func read(id uint64, buf []byte) rdmap.SendWR {
	return rdmap.SendWR{
		ID: id, Op: rdmap.OpRead, Remote: rdmap.RemoteBuffer{STag: 0x11223344, TO: 0x1000}, SG: [][]byte{buf},
	}
}

func send(id uint64, data string) rdmap.SendWR {
	return rdmap.SendWR{ID: id, Op: rdmap.OpSend, SG: [][]byte{[]byte(data)}}
}

// Shows: RDMAP-5.5-09, RDMAP-5.5-10, RDMAP-5.5-12, RDMAP-5.2.2-03, RDMAP-5.5-08
func TestSendBehindReadCompletesAfterIt(t *testing.T) {
	e := newEnd(t)
	buf := guarded(t, 4)
	e.post(send(1, "a"))
	e.post(read(2, buf))
	e.post(send(3, "b"))
	e.post(rdmap.SendWR{ID: 4, Op: rdmap.OpWrite, Remote: rdmap.RemoteBuffer{STag: 1}, SG: [][]byte{{1}}})
	e.post(rdmap.SendWR{ID: 5, Op: rdmap.OpBarrier})
	e.wantDone("nothing before the LLP has it", "")
	e.wantSegment("in the order of posting", iwarptest.Send(1, []byte("a")))
	sink := e.wantRead("in the order of posting", 1, 4, 0x11223344, 0x1000)
	e.wantSegment("a Read does not hold up what is behind it", iwarptest.Send(2, []byte("b")))
	e.wantSegment("a Read does not hold up what is behind it", iwarptest.Write(1, 0, []byte{1}))
	e.wantDone("the Read is not complete, and holds the rest", "1")
	e.deliver(iwarptest.Tagged(2, false, sink, 0, []byte("da")))
	e.wantDone("half a Response completes nothing", "")
	e.deliver(iwarptest.ReadResponse(sink, 2, []byte("ta")))
	e.wantDone("the Response completes all", "2 3 4 5")
	if string(buf) != "data" {
		t.Errorf("read %q", buf)
	}
}

// Shows: RDMAP-5.5-09
func TestNotCompleteBeforeTheLLPHasIt(t *testing.T) {
	e := newEnd(t)
	e.llp.block, e.llp.take = true, 1
	e.post(send(1, "a"))
	e.post(send(2, "b"))
	if p := e.transmit(); p != rdmap.Blocked {
		t.Fatalf("progress %v, want Blocked", p)
	}
	e.wantDone("the batch has gone in part", "")
	if p, err := e.s.Transmit(e.llp, true); p != rdmap.Idle || err != nil {
		t.Fatalf("progress %v, %v", p, err)
	}
	e.wantDone("the batch has gone", "1 2")
}

// A peer may answer what it cannot have seen yet. The entry of the request must
// stay: the LLP still refers to its octets, and what is posted meanwhile must
// not be taken for it.
func TestResponseBeforeTheLLPHasTheRequest(t *testing.T) {
	e := newEnd(t, func(c *rdmap.Config) { c.SendDepth = 1 })
	e.llp.block = true
	e.post(rdmap.SendWR{ID: 1, Op: rdmap.OpFetchAdd, Remote: rdmap.RemoteBuffer{STag: 7}, Operand: 1})
	e.transmit()
	e.deliver(iwarptest.AtomicResponse(1, 1, 41))
	e.wantDone("the LLP has not taken the request", "")
	r := send(2, "long")
	if err := e.s.Post(&r, nil); !errors.Is(err, rdmap.ErrSendQueueFull) {
		t.Fatalf("Post: %v, want ErrSendQueueFull", err)
	}
	e.llp.block = false
	e.wantSegment("the request as it was", iwarptest.FetchAdd(1, 1, 7, 0, 1, 0))
	if e.done[0].Original != 41 {
		t.Errorf("the atomic found %d", e.done[0].Original)
	}
	e.wantDone("now", "1")
}

// Shows: RDMAP-6.1-03, RDMAP-6.1-04, RDMAP-8.1.1-11, EXT-5.2-01, RDMAP-5.5-08
func TestReadBeyondORDWaits(t *testing.T) {
	e := newEnd(t, ord(2))
	e.deliver(iwarptest.Write(1, 0, nil))
	e.s.Wake() // of the first segment
	e.post(read(1, make([]byte, 1)))
	e.post(rdmap.SendWR{ID: 2, Op: rdmap.OpFetchAdd, Remote: rdmap.RemoteBuffer{STag: 7}})
	e.post(read(3, nil))
	e.post(send(4, "held back"))
	e.post(rdmap.SendWR{ID: 5, Op: rdmap.OpCompareSwap, Remote: rdmap.RemoteBuffer{STag: 7}})
	sink := e.wantRead("first", 1, 1, 0x11223344, 0x1000)
	e.wantSegment("second", iwarptest.FetchAdd(2, 1, 7, 0, 0, 0))
	e.wantIdle("the third is beyond ORD, and the Send was posted after it")
	if e.s.Wake() {
		t.Error("woken for nothing")
	}
	e.deliver(iwarptest.ReadResponse(sink, 0, []byte{1}))
	if !e.s.Wake() {
		t.Error("the send owner is not woken for the free slot")
	}
	if sink := e.wantRead("the slot is free", 3, 0, 0x11223344, 0x1000); sink == 0 {
		t.Error("STag 0 in a zero-length Read Request: some NICs refuse it")
	}
	e.wantSegment("what was held back", iwarptest.Send(1, []byte("held back")))
	e.wantIdle("the CmpSwap is beyond ORD")
	e.wantDone("one", "1")
	e.deliver(iwarptest.AtomicResponse(1, 1, 0))
	e.wantSegment("the slot is free", iwarptest.AtomicRequest(4, 2, 2, 7, 0, 0, 0, 0, 0))
	e.deliver(iwarptest.ReadResponse(99, 5, nil), iwarptest.AtomicResponse(2, 2, 0))
	e.wantDone("all", "2 3 4 5")
}

// Shows: RDMAP-5.5-07
// A fence holds until every earlier Read is done, not only the first (a fault
// that Linux siw had).
func TestFence(t *testing.T) {
	e := newEnd(t)
	var sinks []uint32
	for i := range uint64(4) {
		e.post(read(i, make([]byte, 1)))
	}
	fenced := send(4, "fenced")
	fenced.Fence = true
	e.post(fenced)
	e.post(send(5, "behind"))
	for i := range uint32(4) {
		sinks = append(sinks, e.wantRead("Read", i+1, 1, 0x11223344, 0x1000))
	}
	for _, s := range sinks {
		e.wantIdle("Reads are outstanding")
		e.s.Wake()
		e.deliver(iwarptest.ReadResponse(s, 0, []byte{1}))
	}
	if !e.s.Wake() {
		t.Error("the send owner is not woken for what the fence held back")
	}
	e.wantSegment("all Reads are done", iwarptest.Send(1, []byte("fenced")))
	e.wantSegment("and the rest", iwarptest.Send(2, []byte("behind")))
	e.wantDone("all", "0 1 2 3 4 5")

	fenced.ID, fenced.SG = 6, nil
	e.post(fenced)
	e.wantSegment("nothing outstanding: no wait", iwarptest.Send(3, nil))
	e.post(rdmap.SendWR{ID: 7, Op: rdmap.OpFetchAdd})
	inv := rdmap.SendWR{
		ID: 8, Op: rdmap.OpInvalidate, Fence: true, Invalidate: e.register(make([]byte, 1), allRights).STag(),
	}
	e.post(inv)
	e.wantSegment("the atomic", iwarptest.FetchAdd(5, 1, 0, 0, 0, 0))
	if !e.table.Lookup(inv.Invalidate).Valid() {
		t.Error("a fenced local Invalidate did not wait for the atomic")
	}
	e.deliver(iwarptest.AtomicResponse(1, 1, 0))
	e.wantIdle("local")
	if e.table.Lookup(inv.Invalidate).Valid() {
		t.Error("the region is still valid")
	}
	e.wantDone("all", "6 7 8")
}

// Shows: RDMAP-5.2.2-02, RDMAP-6.1-02, RDMAP-6.1-05, EXT-5.2.2-03, DDP-7.1-02
func TestInboundReadsBeyondIRD(t *testing.T) {
	e := newEnd(t, ird(2))
	region := e.register([]byte("source"), allRights)
	request := func(msn uint32) []byte { return iwarptest.ReadRequest(msn, 5, 0, 1, uint32(region.STag()), 0) }
	e.deliver(request(1), iwarptest.FetchAdd(2, 1, uint32(region.STag()), 0, 0, 0))
	bad := request(3)
	e.wantError("one more than IRD", bad, protocol.DDPUntaggedNoBuffer)
	e.wantTerminate("DDP untagged, no buffer", protocol.DDPUntaggedNoBuffer, bad)

	e = newEnd(t, ird(0))
	e.wantError("IRD 0 takes none", request(1), protocol.DDPUntaggedNoBuffer)
}

// Shows: RDMAP-5.2.2-02
// The slot of an inbound Read is free before the last segment of the Response is
// with the LLP, or a fast peer is told that it has too many.
func TestSlotFreeBeforeLastSegment(t *testing.T) {
	e := newEnd(t, ird(1))
	e.llp.mulpdu, e.llp.limit, e.llp.block = 128, 1, true
	region := e.register(octets(300), allRights)
	request := func(msn uint32) []byte { return iwarptest.ReadRequest(msn, 5, 0, 300, uint32(region.STag()), 0) }
	e.deliver(request(1))
	e.transmit() // the first segment of three is queued
	for len(e.llp.batch) == 1 && e.llp.batch[0].header[0]&0x40 == 0 {
		e.llp.take = 1
		e.transmit()
	}
	e.deliver(request(2))
	e.llp.block = false
	for i, want := range []uint64{0, 114, 228, 0, 114, 228} {
		got := e.next("a Response")
		n := min(114, 300-int(want))
		last := want == 228
		if w := iwarptest.Tagged(2, last, 5, want, octets(300)[want:int(want)+n]); !bytes.Equal(got, w) {
			t.Fatalf("segment %d: sent %x want %x", i, got, w)
		}
	}
	if st := e.s.Stats(); st.ReadsServed != 2 || st.PayloadSent != 600 || st.MessagesSent != 2 {
		t.Errorf("stats are %+v", st)
	}
}

// Shows: RDMAP-5.2.1-04, RDMAP-5.2.1-05, RDMAP-5.2.1-08, RDMAP-5.2.2-04, RDMAP-5.5-11, RDMAP-5.5-13, EXT-5.2.1-12
// Shows: EXT-5.4-03, EXT-5.4-06, EXT-7-01, EXT-5.2.1-09
func TestResponsesInRequestOrder(t *testing.T) {
	e := newEnd(t, ird(6))
	e.postRecv(8)
	words := wordMemory(t, 10, 20)
	stag := uint32(e.register(words, allRights).STag())
	e.deliver(
		iwarptest.ReadRequest(1, 0xa1, 0x100, 2, stag, 0),
		iwarptest.FetchAdd(2, 77, stag, 8, 5, 0),
		iwarptest.ReadRequest(3, 0xa3, 0x300, 0, 0, 0),
		iwarptest.CmpSwap(4, 78, stag, 8, 25, 30),
		iwarptest.ReadRequest(5, 0xa5, 0x500, 8, stag, 8),
		iwarptest.Send(1, []byte("early")),
	)
	e.wantDelivered("the Send may be delivered before the Reads are answered; requests never are", `Send "early"`)
	e.wantSegment("first", iwarptest.ReadResponse(0xa1, 0x100, words[:2]))
	e.wantSegment("second", iwarptest.AtomicResponse(1, 77, 20))
	e.wantSegment("third: zero-length, STag and TO as asked", iwarptest.ReadResponse(0xa3, 0x300, nil))
	e.wantSegment("fourth: sees what the second did", iwarptest.AtomicResponse(2, 78, 25))
	e.wantSegment("fifth: sees what the fourth did", iwarptest.ReadResponse(0xa5, 0x500, nativeWord(30)))
	e.wantIdle("all answered")
	if st := e.s.Stats(); st.ReadsServed != 3 || st.AtomicsServed != 2 || st.MessagesSent != 5 || st.PayloadSent != 10 {
		t.Errorf("stats are %+v", st)
	}
}

// Requests of this end and Responses to the peer take turns, so that neither
// starves the other.
func TestRequestsAndResponsesTakeTurns(t *testing.T) {
	e := newEnd(t)
	for i := range uint64(3) {
		e.post(send(i, "mine"))
		e.deliver(iwarptest.ReadRequest(uint32(i)+1, 1, 0, 0, 0, 0))
	}
	var kinds []byte
	for range 6 {
		kinds = append(kinds, e.next("a message")[1]&0xf)
	}
	if string(kinds) != "\x02\x03\x02\x03\x02\x03" {
		t.Errorf("opcodes %x", kinds)
	}
}

// Shows: RDMAP-5.5-06
func TestReadSeesEarlierWrite(t *testing.T) {
	a, b := newEnd(t), newEnd(t, responder)
	a.llp.mulpdu = 130
	region := b.register(guarded(t, 500), allRights)
	got := guarded(t, 500)
	a.post(rdmap.SendWR{
		ID: 1, Op: rdmap.OpWrite, Remote: rdmap.RemoteBuffer{STag: region.STag()}, SG: [][]byte{octets(500)},
	})
	a.post(rdmap.SendWR{
		ID: 2, Op: rdmap.OpRead, Remote: rdmap.RemoteBuffer{STag: region.STag()}, SG: [][]byte{got[:1], nil, got[1:]},
	})
	pump(a, b)
	if !bytes.Equal(got, octets(500)) {
		t.Error("the Read did not see the Write before it")
	}
	a.wantDone("both", "1 2")
	if st := a.s.Stats(); st.PayloadReceived != 500 || st.PayloadSent != 500 {
		t.Errorf("stats are %+v", st)
	}
}

// Shows: RDMAP-7.1-01
func TestPostErrors(t *testing.T) {
	e := newEnd(t, func(c *rdmap.Config) { c.SendDepth, c.MaxSGE, c.MaxInline = 2, 2, 4 })
	noORD := newEnd(t, ord(-1))
	for _, c := range []struct {
		name string
		e    *end
		r    rdmap.SendWR
		want error
	}{
		{name: "no operation", e: e, r: rdmap.SendWR{}, want: rdmap.ErrInvalidRequest},
		{name: "unknown operation", e: e, r: rdmap.SendWR{Op: 99}, want: rdmap.ErrInvalidRequest},
		{
			name: "too many elements", e: e, r: rdmap.SendWR{Op: rdmap.OpSend, SG: make([][]byte, 3)},
			want: rdmap.ErrInvalidRequest,
		},
		{
			name: "Write, wrap", e: e,
			r: rdmap.SendWR{
				Op: rdmap.OpWrite, Remote: rdmap.RemoteBuffer{TO: ^uint64(0) - 1}, SG: [][]byte{make([]byte, 3)},
			},
			want: rdmap.ErrInvalidRequest,
		},
		{
			name: "Write, last octet", e: e,
			r: rdmap.SendWR{
				Op: rdmap.OpWrite, Remote: rdmap.RemoteBuffer{TO: ^uint64(0)}, SG: [][]byte{make([]byte, 1)},
			},
			want: rdmap.ErrInvalidRequest,
		},
		{
			name: "Read, wrap", e: e,
			r: rdmap.SendWR{
				Op: rdmap.OpRead, Remote: rdmap.RemoteBuffer{TO: ^uint64(0) - 1}, SG: [][]byte{make([]byte, 3)},
			},
			want: rdmap.ErrInvalidRequest,
		},
		{
			name: "Read, last octet", e: e,
			r: rdmap.SendWR{
				Op: rdmap.OpRead, Remote: rdmap.RemoteBuffer{TO: ^uint64(0) - 2},
				SG: [][]byte{make([]byte, 1), make([]byte, 2)},
			},
			want: rdmap.ErrInvalidRequest,
		},
		{
			name: "FetchAdd, last octet", e: e,
			r:    rdmap.SendWR{Op: rdmap.OpFetchAdd, Remote: rdmap.RemoteBuffer{TO: ^uint64(0) - 7}},
			want: rdmap.ErrInvalidRequest,
		},
		{
			name: "CmpSwap, wrap", e: e,
			r:    rdmap.SendWR{Op: rdmap.OpCompareSwap, Remote: rdmap.RemoteBuffer{TO: ^uint64(0)}},
			want: rdmap.ErrInvalidRequest,
		},
		{
			name: "long inline", e: e, r: rdmap.SendWR{Op: rdmap.OpSend, Inline: true, SG: [][]byte{make([]byte, 5)}},
			want: rdmap.ErrInvalidRequest,
		},
		{name: "inline Read", e: e, r: rdmap.SendWR{Op: rdmap.OpRead, Inline: true}, want: rdmap.ErrInvalidRequest},
		{
			name: "atomic with data", e: e, r: rdmap.SendWR{Op: rdmap.OpFetchAdd, SG: [][]byte{{1}}},
			want: rdmap.ErrInvalidRequest,
		},
		{name: "Read without ORD", e: noORD, r: rdmap.SendWR{Op: rdmap.OpRead}, want: rdmap.ErrInvalidRequest},
		{name: "atomic without ORD", e: noORD, r: rdmap.SendWR{Op: rdmap.OpCompareSwap}, want: rdmap.ErrInvalidRequest},
		{name: "first", e: e, r: rdmap.SendWR{Op: rdmap.OpSend}, want: nil},
		{name: "second", e: e, r: rdmap.SendWR{Op: rdmap.OpSend}, want: nil},
		{name: "beyond the depth", e: e, r: rdmap.SendWR{Op: rdmap.OpSend}, want: rdmap.ErrSendQueueFull},
	} {
		if err := c.e.s.Post(&c.r, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if e.s.Outstanding() != 2 {
		t.Errorf("%d outstanding", e.s.Outstanding())
	}
	e.transmit()
	e.post(send(3, "room again"))
	if s := rdmap.Op(99).String(); s != "operation 99" {
		t.Error(s)
	}
}

// Shows: RDMAP-7.1-01
func TestLocalOperations(t *testing.T) {
	e := newEnd(t, func(c *rdmap.Config) { c.Table = ddp.NewTable(1) })
	broken := errors.New("broken")
	var order []int
	local := func(id uint64, err error) rdmap.SendWR {
		return rdmap.SendWR{
			ID: id, Op: rdmap.OpBind, Bind: binding(func() error { order = append(order, int(id)); return err }),
		}
	}
	e.post(local(1, nil))
	e.post(local(2, broken))
	e.post(rdmap.SendWR{ID: 3, Op: rdmap.OpInvalidate, Invalidate: 0x123})
	e.post(read(4, make([]byte, 1))) // takes the table's only STag
	e.post(read(5, make([]byte, 1)))
	e.post(send(6, "the stream goes on"))
	sink := e.wantRead("the first Read", 1, 1, 0x11223344, 0x1000)
	e.wantSegment("the Send", iwarptest.Send(1, []byte("the stream goes on")))
	if len(order) != 2 || order[0] != 1 || !errors.Is(e.done[1].Err, broken) {
		t.Errorf("local operations ran as %v, %v", order, e.done)
	}
	e.deliver(iwarptest.ReadResponse(sink, 0, []byte{1}))
	e.wantDone("failures are the requests' own", "1 2? 3? 4 5? 6")
	if e.s.Err() != nil {
		t.Error(e.s.Err())
	}
}

func TestNewStreamNeedsItsParts(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("NewStream without a Table")
		}
	}()
	rdmap.NewStream(rdmap.Config{})
}

// A Send tells its receiver that the Writes before it are there: when it is
// delivered all their octets are placed, in whatever order the segments come. With
// an LLP in order that is so by itself; without, the Send waits.
//
// Shows: RDMAP-5.1-07, RDMAP-5.5-04
func TestSendSignalsEarlierWrites(t *testing.T) {
	sends := map[string]func(msn uint32) []byte{
		"Send":           func(msn uint32) []byte { return iwarptest.Send(msn, []byte("there")) },
		"empty Send":     func(msn uint32) []byte { return iwarptest.Send(msn, nil) },
		"Send with SE":   func(msn uint32) []byte { return iwarptest.SendSolicited(msn, []byte("there")) },
		"Immediate Data": func(msn uint32) []byte { return iwarptest.Immediate(msn, [8]byte{1}) },
	}
	orders := [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {3, 0, 1, 2}, {1, 3, 0, 2}, {0, 3, 2, 1}, {2, 3, 1, 0}}
	for name, signal := range sends {
		for i, order := range orders {
			changes := []func(*rdmap.Config){responder, unordered}
			if i == 0 {
				changes = changes[:1] // in order
			}
			e := newEnd(t, changes...)
			e.postRecv(8)
			mem := guarded(t, 6)
			stag := uint32(e.register(mem, allRights).STag())
			segments := [][]byte{
				iwarptest.Tagged(0, false, stag, 0, []byte("ab")), iwarptest.Tagged(0, true, stag, 2, []byte("cd")),
				iwarptest.Write(stag, 4, []byte("ef")), signal(1),
			}
			var seen []string
			e.onDelivered = func() { seen = append(seen, string(mem)) }
			for _, at := range order {
				e.deliverAt(uint64(at), segments[at])
			}
			if len(seen) != 1 || seen[0] != "abcdef" {
				t.Errorf("%s, segments come as %v: delivered with %q in the region", name, order, seen)
			}
		}
	}
}

// binding is a function as a rdmap.Binding.
type binding func() error

func (b binding) Activate() error { return b() }
