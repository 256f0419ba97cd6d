package rdmap_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Every message is a DDP message, whatever carries it: this LLP is a slice. What
// it offers as MULPDU holds from one segment to the next.
// Shows: RDMAP-3.1-01, RDMAP-3.1-03, DDP-3-01, MPA-3-03, MPA-4.5-04
func TestOverAnyLLP(t *testing.T) {
	a, b := newEnd(t), newEnd(t, responder)
	b.postRecv(3000, 0, 8)
	mem := guarded(t, 4096)
	r := b.register(mem, ddp.RemoteRead|ddp.RemoteWrite|ddp.RemoteAtomic)
	read := guarded(t, 2000)
	data := octets(3000)
	for _, req := range []rdmap.SendWR{
		{ID: 1, Op: rdmap.OpSend, SG: [][]byte{data}},
		{ID: 2, Op: rdmap.OpSend},
		{ID: 3, Op: rdmap.OpWrite, SG: [][]byte{data}, Remote: rdmap.RemoteBuffer{STag: r.STag()}},
		{ID: 4, Op: rdmap.OpImmediate, Immediate: 7},
		{ID: 5, Op: rdmap.OpRead, SG: [][]byte{read}, Remote: rdmap.RemoteBuffer{STag: r.STag()}},
		{ID: 6, Op: rdmap.OpFetchAdd, Remote: rdmap.RemoteBuffer{STag: r.STag(), TO: 4088}, Operand: 1},
	} {
		a.post(req)
	}
	for i, mulpdu := range []int{128, 1442, 600, 64768} {
		a.llp.mulpdu, b.llp.mulpdu = mulpdu, mulpdu
		a.llp.limit, b.llp.limit = 1, 1 // a segment at a time
		for _, e := range []*end{a, b} {
			other := b
			if e == b {
				other = a
			}
			e.transmit()
			for _, seg := range e.llp.sent {
				h, n, err := ddp.Parse(seg)
				if err != nil || h.Version != ddp.Version || rdmap.Control(h.Control).Version() != rdmap.Version {
					t.Fatalf("not a DDP segment: %x, %v", seg, err)
				}
				if len(seg) > mulpdu || !h.Last && len(seg) != mulpdu {
					t.Errorf("round %d: a segment of %d octets, last %v, header %d: MULPDU is %d", i, len(seg), h.Last,
						n, mulpdu)
				}
				other.deliver(seg)
			}
			e.llp.sent = nil
		}
	}
	a.llp.limit, b.llp.limit = 64, 64
	pump(a, b)
	a.wantDone("all operations", "1 2 3 4 5 6")
	if !bytes.Equal(read, data[:2000]) || !bytes.Equal(mem[:3000], data) ||
		binary.NativeEndian.Uint64(mem[4088:]) != 1 {
		t.Error("octets are not where they belong")
	}
	if len(b.delivered) != 3 || b.delivered[0].data != string(data) {
		t.Errorf("delivered %d messages", len(b.delivered))
	}
}

// A Write of many pieces has one target, a Read into many pieces is one Request
// of one source.
// Shows: RDMAP-5.1-06, RDMAP-5.2.1-07, RDMAP-5.2.2-06
func TestOneRemoteBuffer(t *testing.T) {
	a := newEnd(t)
	a.llp.mulpdu = 128
	data := octets(1000)
	a.post(rdmap.SendWR{
		ID: 1, Op: rdmap.OpWrite, SG: [][]byte{data[:1], data[1:500], data[500:]},
		Remote: rdmap.RemoteBuffer{STag: 0x1122, TO: 5000},
	})
	a.transmit()
	to := uint64(5000)
	for i, seg := range a.llp.sent {
		h, n, err := ddp.Parse(seg)
		if err != nil || !h.Tagged || h.STag != 0x1122 || h.TO != to || h.Last != (i == len(a.llp.sent)-1) {
			t.Fatalf("segment %d: %+v, want STag 0x1122 and TO %d", i, h, to)
		}
		to += uint64(len(seg) - n)
	}
	if to != 6000 {
		t.Errorf("the Write ends at TO %d", to)
	}
	a.llp.sent = nil
	x, y := guarded(t, 10), guarded(t, 90)
	a.post(rdmap.SendWR{ID: 2, Op: rdmap.OpRead, SG: [][]byte{x, y}, Remote: rdmap.RemoteBuffer{STag: 0x3344, TO: 7}})
	sink := a.wantRead("one Request", 1, 100, 0x3344, 7)
	a.wantIdle("and no other")
	a.deliver(iwarptest.ReadResponse(sink, 0, data[:100]))
	if !bytes.Equal(x, data[:10]) || !bytes.Equal(y, data[10:100]) {
		t.Error("the Response is not in the pieces of the sink")
	}
}

// What DDP finds wrong comes up with the segment's length and header.
// Shows: RDMAP-3.1-05, DDP-7.1-12, RDMAP-7.2-01
func TestErrorsCarryHeader(t *testing.T) {
	b := newEnd(t, responder)
	b.postRecv(10)
	b.register(guarded(t, 10), ddp.RemoteWrite)
	seg := iwarptest.Write(0x55667788, 9, []byte("12345"))
	err := b.wantError("unknown STag", seg, protocol.DDPTaggedInvalidSTag)
	if o := err.Offender; o == nil || int(o.SegmentLength) != len(seg) || !bytes.Equal(o.DDPHeader, seg[:14]) {
		t.Errorf("offender %+v of %x", err.Offender, seg)
	}
	if len(b.delivered) != 0 {
		t.Error("something was delivered")
	}
}

// A Response may come after what was sent behind its request was placed and
// delivered: the Send behind an atomic and a Read overtakes their Responses.
// Shows: EXT-5.4-04, RDMAP-5.5-11, RDMAP-5.5-07
func TestSendOvertakesResponse(t *testing.T) {
	a, b := newEnd(t), newEnd(t, responder)
	mem := guarded(t, 16)
	r := b.register(mem, ddp.RemoteAtomic|ddp.RemoteRead|ddp.RemoteWrite)
	b.postRecv(10)
	sink := guarded(t, 8)
	a.post(rdmap.SendWR{ID: 1, Op: rdmap.OpFetchAdd, Remote: rdmap.RemoteBuffer{STag: r.STag()}, Operand: 5})
	a.post(rdmap.SendWR{ID: 2, Op: rdmap.OpRead, Remote: rdmap.RemoteBuffer{STag: r.STag(), TO: 8}, SG: [][]byte{sink}})
	a.post(rdmap.SendWR{
		ID: 3, Op: rdmap.OpWrite, Remote: rdmap.RemoteBuffer{STag: r.STag(), TO: 8}, SG: [][]byte{[]byte("later")},
	})
	a.post(rdmap.SendWR{ID: 4, Op: rdmap.OpSend, SG: [][]byte{[]byte("hello")}})
	a.transmit()
	b.deliver(a.llp.sent...) // b has not sent anything yet
	a.llp.sent = nil
	b.wantDelivered("before any Response", `Send "hello"`)
	if string(mem[8:13]) != "later" {
		t.Error("the Write behind the Read was not placed")
	}
	a.wantDone("not the Send before the requests ahead of it", "")
	pump(a, b)
	a.wantDone("in the order of posting", "1 2 3 4")
	if string(sink[:5]) != "later" {
		t.Errorf("the Read, not fenced, gave %q", sink)
	}
}

// After an error a stream carries nothing more: not what comes in, not what was
// or is posted; only the Terminate goes out.
// Shows: DDP-3-08, RDMAP-7-01, DDP-7.1-13, RDMAP-5.4-07
func TestErroneousStreamIsSilent(t *testing.T) {
	a := newEnd(t)
	mem := guarded(t, 10)
	r := a.register(mem, ddp.RemoteWrite)
	a.postRecv(10, 10)
	a.post(rdmap.SendWR{ID: 1, Op: rdmap.OpSend, SG: [][]byte{octets(10)}})
	a.wantError("MSN 9", iwarptest.Send(9, nil), protocol.DDPUntaggedMSN)
	a.post(rdmap.SendWR{ID: 2, Op: rdmap.OpSend})
	for _, seg := range [][]byte{iwarptest.Send(1, []byte("x")), iwarptest.Write(uint32(r.STag()), 0, []byte("x"))} {
		if err := a.receive(seg); err != nil {
			t.Errorf("a segment after the error: %v", err)
		}
	}
	a.wantTerminate("the only message", protocol.DDPUntaggedMSN, iwarptest.Send(9, nil))
	if p := a.transmit(); p != rdmap.Finished || len(a.llp.sent) != 0 {
		t.Errorf("progress %v, and %d segments more", p, len(a.llp.sent))
	}
	if len(a.delivered) != 0 || mem[0] != 0 {
		t.Error("something got through")
	}
	a.wantDone("flushed", "1! 2!")
}
