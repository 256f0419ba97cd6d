package rdmap_test

import (
	"bytes"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Shows: DDP-7.1-09, DDP-7.1-11, RDMAP-8.1.1-03
// Every segment is checked, not only the first (a fault that another stack had).
func TestLaterSegmentsAreChecked(t *testing.T) {
	for _, c := range []struct {
		name string
		code protocol.Code
		next func(stag uint32) []byte
	}{
		{
			name: "out of bounds", code: protocol.DDPTaggedBounds,
			next: func(s uint32) []byte { return iwarptest.Write(s, 8, []byte("beyond")) },
		},
		{
			name: "another STag", code: protocol.DDPTaggedInvalidSTag,
			next: func(s uint32) []byte { return iwarptest.Write(s^1, 4, []byte("x")) },
		},
		{name: "another version", code: protocol.RDMAPVersion, next: func(s uint32) []byte {
			b := iwarptest.Write(s, 4, []byte("x"))
			b[1] = 0x80
			return b
		}},
	} {
		e := newEnd(t, responder)
		mem := guarded(t, 8)
		stag := uint32(e.register(mem, allRights).STag())
		e.deliver(iwarptest.Tagged(0, false, stag, 0, []byte("good")))
		e.wantError(c.name, c.next(stag), c.code)
		if string(mem) != "good\x00\x00\x00\x00" {
			t.Errorf("%s: memory is %q", c.name, mem)
		}
	}
}

// Shows: DDP-7.1-12, RDMAP-7.2-01
// Every opcode with its header short by one octet, and with nothing behind it.
func TestHeaderLengths(t *testing.T) {
	for op := range rdmap.Opcode(12) {
		whole := iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: uint8(op), Last: true, QN: op.QN(), MSN: 1}, nil)
		if op.Tagged() {
			whole = iwarptest.Tagged(uint8(op), true, 0, 0, nil)
		}
		e := newEnd(t, responder)
		e.postRecv(8)
		err := e.wantError("short by one", whole[:len(whole)-1], protocol.DDPLocalCatastrophic)
		if err.Offender != nil {
			t.Errorf("%v: a header that is not whole is echoed: %+v", op, err.Offender)
		}
		e.wantTerminate("short by one", protocol.DDPLocalCatastrophic, nil)

		e = newEnd(t, responder)
		inv := e.register(make([]byte, 1), allRights)
		if op.Invalidates() {
			whole = iwarptest.Untagged(iwarptest.UntaggedHeader{
				Opcode: uint8(op), Last: true, Invalidate: uint32(inv.STag()), MSN: 1,
			},
				nil)
		}
		e.postRecv(8)
		got := e.receive(whole)
		if ok := op.Payload() && op != rdmap.OpcodeReadResponse; ok != (got == nil) {
			t.Errorf("%v with nothing behind its header: %v", op, got)
		}
	}
}

// hookLLP does something while it is asked whether it may send.
type hookLLP struct {
	*memLLP
	hook func()
}

func (l *hookLLP) MaySend() bool {
	may := l.memLLP.MaySend()
	if f := l.hook; f != nil {
		l.hook = nil
		f()
	}
	return may
}

// Shows: MPA-8-10, RDMAP-6.2.1-01
// The first FPDU of the peer, a bad one, comes while the send owner is about to
// find that it may not send. Its Terminate must not be lost.
func TestFirstSegmentWhileHeld(t *testing.T) {
	e := newEnd(t, responder)
	e.llp.held = true
	bad := iwarptest.Write(9, 0, []byte("x"))
	llp := &hookLLP{e.llp, func() {
		e.llp.held = false
		e.wantError("just now", bad, protocol.DDPTaggedInvalidSTag)
	}}
	if p, err := e.s.Transmit(llp, false); p != rdmap.More || err != nil {
		t.Fatalf("progress %v, %v, want More", p, err)
	}
	e.wantTerminate("not lost", protocol.DDPTaggedInvalidSTag, bad)
}

// Shows: RDMAP-4.1-06
// A peer of the RDMA Consortium has version 0 in both fields, if startup said so.
func TestVersionZero(t *testing.T) {
	rdmac := func(c *rdmap.Config) { c.RDMAC = true }
	a, b := newEnd(t, rdmac), newEnd(t, rdmac, responder)
	b.postRecv(8)
	mem := guarded(t, 8)
	stag := b.register(mem, allRights).STag()
	a.post(rdmap.SendWR{ID: 1, Op: rdmap.OpWrite, Remote: rdmap.RemoteBuffer{STag: stag}, SG: [][]byte{[]byte("data")}})
	a.post(send(2, "x"))
	for _, want := range [][]byte{iwarptest.Write(uint32(stag), 0, []byte("data")), iwarptest.Send(1, []byte("x"))} {
		want[0] &^= 3
		want[1] &^= 0xc0
		a.wantSegment("DV 0 and RV 0", want)
		b.deliver(want)
	}
	b.wantDelivered("the Send", `Send "x"`)
	one := iwarptest.Send(2, nil)
	b.wantError("DV 1", one, protocol.DDPUntaggedVersion)
	term := iwarptest.Terminate(0x1206, one)
	term[0] &^= 3
	term[1] &^= 0xc0
	b.wantSegment("in version 0 too", term)
	if err := a.receive(term); err == nil || !err.Remote || err.Code != protocol.DDPUntaggedVersion {
		t.Errorf("received %v", err)
	}
	a.wantIdle("never answered")

	e := newEnd(t, rdmac)
	mixed := iwarptest.Send(1, nil)
	mixed[0] &^= 3
	e.postRecv(8)
	e.wantError("DV 0 and RV 1", mixed, protocol.RDMAPVersion)

	e = newEnd(t, rdmac)
	broken := iwarptest.Terminate(0x1206, nil)[:18]
	broken[0] &^= 3
	broken[1] &^= 0xc0
	e.wantError("broken", broken, protocol.RDMAPOperationUnspecified)
	e.wantIdle("never answered, in version 0 either")
}

// Shows: EXT-1.1-02
func TestPeerSupports(t *testing.T) {
	want := func(e *end, op rdmap.Op, s rdmap.Support) {
		t.Helper()
		if got := e.s.PeerSupports(op); got != s {
			t.Errorf("%v: %v, want %v", op, got, s)
		}
	}
	e := newEnd(t)
	want(e, rdmap.OpSend, rdmap.Supported)
	want(e, rdmap.OpImmediate, rdmap.SupportUnknown)
	want(e, rdmap.OpFetchAdd, rdmap.SupportUnknown)
	e.postRecv(0)
	e.deliver(iwarptest.Immediate(1, [8]byte{}))
	want(e, rdmap.OpImmediate, rdmap.Supported)
	want(e, rdmap.OpFetchAdd, rdmap.SupportUnknown)
	e.post(rdmap.SendWR{Op: rdmap.OpFetchAdd})
	atomic := e.next("FetchAdd")
	if err := e.receive(iwarptest.Terminate(0x0206, atomic)); err == nil {
		t.Fatal("no error")
	}
	want(e, rdmap.OpCompareSwap, rdmap.NotSupported)
	want(e, rdmap.OpImmediate, rdmap.Supported)

	e = newEnd(t)
	e.post(rdmap.SendWR{Op: rdmap.OpFetchAdd})
	e.transmit()
	e.deliver(iwarptest.AtomicResponse(1, 1, 0))
	want(e, rdmap.OpCompareSwap, rdmap.Supported)
	for s, name := range map[rdmap.Support]string{
		rdmap.SupportUnknown: "unknown", rdmap.Supported: "supported", rdmap.NotSupported: "not supported",
	} {
		if s.String() != name {
			t.Errorf("%v, want %v", s, name)
		}
	}
}

// The ring of requests grows while messages of its old entries lie in the LLP's
// batch or are being cut.
func TestSendQueueGrowsUnderWay(t *testing.T) {
	e := newEnd(t, ord(64))
	e.llp.mulpdu, e.llp.limit, e.llp.block = 100, 3, true
	want := func(i uint64) []byte { return bytes.Repeat([]byte{byte(i + 1)}, 150) }
	for i := range uint64(100) {
		r := rdmap.SendWR{ID: i, Op: rdmap.OpSend, SG: cut(want(i), 75)}
		switch i % 3 {
		case 1:
			r.Inline = true
		case 2:
			r = rdmap.SendWR{ID: i, Op: rdmap.OpFetchAdd, Remote: rdmap.RemoteBuffer{STag: ddp.STag(i)}, Operand: i}
		}
		e.post(r)
		clearInline(&r)
		if _, err := e.s.Transmit(e.llp, false); err != nil {
			t.Fatal(err)
		}
	}
	e.llp.block = false
	msn, atomics := uint32(0), uint32(0)
	for i := range uint64(100) {
		if i%3 == 2 && atomics < 64 {
			atomics++
			e.wantSegment("an atomic", iwarptest.FetchAdd(atomics, atomics, uint32(i), 0, i, 0))
			e.deliver(iwarptest.AtomicResponse(atomics, atomics, 0))
			continue
		}
		msn++
		e.wantSegment("a Send", iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: msn}, want(i)[:82]))
		e.wantSegment("a Send",
			iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: msn, MO: 82}, want(i)[82:]))
	}
	if len(e.done) != 100 {
		t.Errorf("%d completions", len(e.done))
	}
}

// clearInline overwrites inline data, which is the caller's again after Post.
func clearInline(r *rdmap.SendWR) {
	for _, b := range r.SG {
		if r.Inline {
			clear(b)
		}
	}
}
