package rdmap_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Shows: RDMAP-3.1-02, RDMAP-3.1-03, RDMAP-3.1-04, RDMAP-3.2-01, RDMAP-4.1-01, RDMAP-4.1-02, RDMAP-4.1-03, RDMAP-4.1-07
// Shows: RDMAP-4.4-01, RDMAP-4.4-03, RDMAP-5.1-01, RDMAP-5.1-04, RDMAP-5.1-05, RDMAP-5.2.1-01, RDMAP-5.2.1-03
// Shows: RDMAP-5.2.1-06
// Shows: RDMAP-5.3-01, RDMAP-5.3-02, RDMAP-5.3-05, RDMAP-5.3-10, RDMAP-5.5-08, RDMAP-6.1-01
// Shows: EXT-4.1-01, EXT-4.1-02, EXT-4.1-03, EXT-4.2-01, EXT-5.2.1-01, EXT-5.2.1-02, EXT-5.2.1-03, EXT-5.2.1-06
// Shows: EXT-5.2.1-11
// Shows: EXT-6.2-01, EXT-6.3-01, EXT-6.3-02, EXT-6.3-05, EXT-6.3-06
func TestSentOctets(t *testing.T) {
	e := newEnd(t)
	const stag = 0x11223344
	for _, r := range []rdmap.SendWR{
		{Op: rdmap.OpSend, SG: cut([]byte("hello"), 2)},
		{Op: rdmap.OpWrite, Remote: rdmap.RemoteBuffer{STag: stag, TO: 0x1000}, SG: [][]byte{[]byte("direct data!!")}},
		{Op: rdmap.OpSend},
		{Op: rdmap.OpWrite, Remote: rdmap.RemoteBuffer{STag: 1}},
		{Op: rdmap.OpSendInvalidate, Invalidate: stag, SG: [][]byte{[]byte("bye")}},
		{Op: rdmap.OpSend, Solicited: true, SG: [][]byte{[]byte("ding")}, Inline: true},
		{Op: rdmap.OpSendInvalidate, Solicited: true, Invalidate: 0x55667788, SG: [][]byte{[]byte("dong")}},
		{Op: rdmap.OpImmediate, Immediate: 0x0102030405060708},
		{Op: rdmap.OpImmediate, Immediate: 0x1112131415161718, Solicited: true},
		{Op: rdmap.OpRead, Remote: rdmap.RemoteBuffer{STag: stag, TO: 0x1000}, SG: [][]byte{make([]byte, 0x40)}},
		{Op: rdmap.OpFetchAdd, Remote: rdmap.RemoteBuffer{STag: stag, TO: 0x1008}, Operand: 5},
		{
			Op: rdmap.OpCompareSwap, Remote: rdmap.RemoteBuffer{STag: stag, TO: 0x1008}, Operand: 9,
			OperandMask: ^uint64(0), Compare: 42, CompareMask: ^uint64(0),
		},
	} {
		e.post(r)
	}
	for _, want := range []struct{ why, hex string }{
		{why: "Send", hex: "414300000000000000000000000100000000 68656c6c6f"},
		{why: "Write", hex: "c140112233440000000000001000 646972656374206461746121 21"},
		{why: "empty Send", hex: "414300000000000000000000000200000000"},
		{why: "empty Write", hex: "c140000000010000000000000000"},
		{why: "Send with Invalidate", hex: "414411223344000000000000000300000000 627965"},
		{why: "Send SE", hex: "414500000000000000000000000400000000 64696e67"},
		{why: "Send SE with Invalidate", hex: "414655667788000000000000000500000000 646f6e67"},
		{why: "Immediate", hex: "414800000000000000000000000600000000 0102030405060708"},
		{why: "Immediate SE", hex: "414900000000000000000000000700000000 1112131415161718"},
	} {
		e.wantSegment(want.why, unhex(t, want.hex))
	}
	if sink := e.wantRead("Read Request", 1, 0x40, stag, 0x1000); sink == 0 {
		t.Error("the sink STag is 0")
	}
	e.wantSegment("FetchAdd",
		unhex(t, "414a00000000000000010000000200000000 00000000 00000001 11223344 0000000000001008"+
			"0000000000000005 0000000000000000 0000000000000000 ffffffffffffffff"))
	e.wantSegment("CmpSwap",
		unhex(t, "414a00000000000000010000000300000000 00000002 00000002 11223344 0000000000001008"+
			"0000000000000009 ffffffffffffffff 000000000000002a ffffffffffffffff"))
	e.wantIdle("all has been sent")
	st := e.s.Stats()
	if st.MessagesSent != 12 || st.PayloadSent != 5+13+3+4+4+8+8 {
		t.Errorf("stats are %+v", st)
	}
}

// Shows: RDMAP-3.2-01, RDMAP-3.2-02, RDMAP-5.1-02, RDMAP-5.1-03, RDMAP-5.1-07, RDMAP-5.3-03, RDMAP-5.3-04
// Shows: RDMAP-5.3-06, RDMAP-5.3-08, RDMAP-5.3-09
// Shows: RDMAP-5.5-04, EXT-6.3-03, EXT-6.3-04, EXT-6.4-01
func TestReceivedMessages(t *testing.T) {
	e := newEnd(t, responder)
	mem := guarded(t, 64)
	region, gone, gone2 := e.register(mem, allRights), e.register(guarded(t, 8), allRights), e.register(guarded(t, 8),
		allRights)
	e.postRecv(16, 4, 0, 4, 8, 0, 16)
	stag := uint32(region.STag())
	e.deliver(
		iwarptest.Write(stag, 10, []byte("written")),
		iwarptest.Send(1, []byte("hello")),
		iwarptest.Write(stag, 0, nil),
		iwarptest.SendInvalidate(2, uint32(gone.STag()), []byte("bye")),
		iwarptest.Send(3, nil),
		iwarptest.SendSolicited(4, []byte("ding")),
		iwarptest.SendSolicitedInvalidate(5, uint32(gone2.STag()), []byte("dong")),
		iwarptest.Immediate(6, [8]byte{1, 2, 3, 4, 5, 6, 7, 8}),
		iwarptest.ImmediateSolicited(7, [8]byte{0x11}),
	)
	if got := string(mem[10:17]); got != "written" {
		t.Errorf("the Write placed %q", got)
	}
	e.wantDelivered("in the order sent, and no Write",
		`Send "hello"`, `Send with Invalidate "bye" invalidated `+
			gone.STag().String(), `Send ""`, `Send with SE "ding"`,
		`Send with SE and Invalidate "dong" invalidated `+gone2.STag().String(),
		`Immediate Data 0102030405060708`, `Immediate Data with SE 1100000000000000`)
	if gone.Valid() || gone2.Valid() || !region.Valid() {
		t.Error("the wrong regions were invalidated")
	}
	st := e.s.Stats()
	if st.MessagesReceived != 9 || st.PayloadReceived != 7+5+3+4+4 {
		t.Errorf("stats are %+v", st)
	}
}

// Shows: RDMAP-3.1-03, RDMAP-5.3-06, RDMAP-5.3-07, DDP-7.1-05, DDP-7.1-11, DDP-7.1-13
func TestSegmentedMessages(t *testing.T) {
	a, b := newEnd(t), newEnd(t, responder)
	a.llp.mulpdu, a.llp.limit = 128, 3
	mem := guarded(t, 1000)
	region := b.register(mem, allRights)
	b.postRecv(600, 500)
	a.post(rdmap.SendWR{
		ID: 1, Op: rdmap.OpWrite, Remote: rdmap.RemoteBuffer{STag: region.STag(), TO: 7}, SG: cut(octets(900), 333),
	})
	a.post(rdmap.SendWR{ID: 2, Op: rdmap.OpSend, SG: cut(octets(600), 1)})
	pump(a, b)
	if !bytes.Equal(mem[7:907], octets(900)) {
		t.Error("the Write was not placed right")
	}
	if len(b.delivered) != 1 || b.delivered[0].data != string(octets(600)) {
		t.Fatal("the Send was not placed right")
	}
	a.wantDone("both have gone", "1 2")
	a.post(rdmap.SendWR{ID: 3, Op: rdmap.OpSend, SG: [][]byte{bytes.Repeat([]byte{1}, 501)}})
	pump(a, b)
	b.wantDelivered("nothing more", `Send `+quote(octets(600)))
	if code, _ := protocol.CodeOf(b.s.Err()); code != protocol.DDPUntaggedTooLong {
		t.Errorf("one octet too long: %v", b.s.Err())
	}
	if code, _ := protocol.CodeOf(a.s.Err()); code != protocol.DDPUntaggedTooLong {
		t.Errorf("the Terminate says %v", a.s.Err())
	}
	if b.buffers[1][0][499] != 0 {
		t.Error("the segment that was too long was placed")
	}
}

// Shows: DDP-7.1-07, DDP-7.1-08, DDP-7.1-09, DDP-7.1-10, DDP-7.1-11, RDMAP-8.1.1-01, RDMAP-8.1.1-02
// Shows: RDMAP-8.1.1-03, RDMAP-8.1.1-05
func TestWriteErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		code protocol.Code
		stag func(e *end, stag uint32) uint32
		to   uint64
		n    int
	}{
		{
			name: "unknown STag", code: protocol.DDPTaggedInvalidSTag,
			stag: func(_ *end, s uint32) uint32 { return s ^ 1 }, to: 0, n: 1,
		},
		{
			name: "STag 0", code: protocol.DDPTaggedInvalidSTag, stag: func(*end, uint32) uint32 { return 0 }, to: 0,
			n: 1,
		},
		{
			name: "read-only", code: protocol.DDPTaggedInvalidSTag,
			stag: func(e *end, _ uint32) uint32 { return uint32(e.register(make([]byte, 8), 1).STag()) }, to: 0, n: 1,
		},
		{name: "of another stream", code: protocol.DDPTaggedSTagNotAssociated, stag: func(e *end, _ uint32) uint32 {
			e.peer.Stream += 100
			return uint32(e.register(make([]byte, 8), allRights).STag())
		}, to: 0, n: 1},
		{name: "of another domain", code: protocol.DDPTaggedSTagNotAssociated, stag: func(e *end, _ uint32) uint32 {
			e.peer.PD++
			return uint32(e.register(make([]byte, 8), allRights).STag())
		}, to: 0, n: 1},
		{name: "wrap", code: protocol.DDPTaggedTOWrap, to: ^uint64(0), n: 2},
		{name: "one beyond", code: protocol.DDPTaggedBounds, to: 1, n: 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnd(t, responder)
			mem := guarded(t, 32)
			stag := uint32(e.register(mem, allRights).STag())
			if c.stag != nil {
				stag = c.stag(e, stag)
			}
			seg := iwarptest.Write(stag, c.to, bytes.Repeat([]byte{0xee}, c.n))
			err := e.wantError(c.name, seg, c.code)
			if err.Offender == nil || int(err.Offender.SegmentLength) != len(seg) ||
				!bytes.Equal(err.Offender.DDPHeader, seg[:14]) {
				t.Errorf("the error blames %+v", err.Offender)
			}
			if bytes.Contains(mem, []byte{0xee}) {
				t.Error("octets were placed")
			}
			e.deliver(iwarptest.Send(1, []byte("dropped")))
			e.wantDelivered("input after the error is dropped")
			e.wantTerminate("the error", c.code, seg)
		})
	}
}

// A message whose segments disagree about what it is must not have a receive
// buffer handed up as filled that was not.
func TestOpcodeChangesWithinMessage(t *testing.T) {
	imm := func(last bool, op uint8, mo uint32, p string) []byte {
		return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: op, Last: last, MSN: 1, MO: mo}, []byte(p))
	}
	for _, c := range []struct{ name, first, last string }{
		{name: "begins as Immediate Data", first: "8", last: "3"}, {name: "begins as a Send", first: "3", last: "8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnd(t, responder)
			e.postRecv(8)
			e.deliver(imm(false, c.first[0]-'0', 0, "abcd"))
			e.wantError(c.name, imm(true, c.last[0]-'0', 4, "efgh"), protocol.RDMAPOpcode)
			e.wantDelivered("nothing")
		})
	}
}

// Shows: RDMAP-5.2.1-02, RDMAP-5.3-03, EXT-5.2.1-07, DDP-4.3-09
func TestSendMSNs(t *testing.T) {
	e := newEnd(t, func(c *rdmap.Config) { c.ORD = 8 })
	for qn := range 4 {
		e.s.SetSendMSN(qn, 0xffffffff)
	}
	e.s.SetAtomics(0xfffffffe)
	for range 2 {
		e.post(rdmap.SendWR{Op: rdmap.OpSend})
		e.post(rdmap.SendWR{Op: rdmap.OpRead})
	}
	e.post(rdmap.SendWR{Op: rdmap.OpFetchAdd})
	e.post(rdmap.SendWR{Op: rdmap.OpFetchAdd})
	for _, want := range []struct{ qn, msn uint32 }{
		{qn: 0, msn: 0xffffffff},
		{qn: 1, msn: 0xffffffff},
		{qn: 0, msn: 0},
		{qn: 1, msn: 0},
		{qn: 1, msn: 1},
		{qn: 1, msn: 2},
	} {
		got := e.next("MSN wraps from 2^32-1 to 0")
		if qn, msn := binary.BigEndian.Uint32(got[6:]), binary.BigEndian.Uint32(got[10:]); qn != want.qn ||
			msn != want.msn {
			t.Errorf("sent %s, want QN %d MSN %d", iwarptest.Describe(got), want.qn, want.msn)
		}
	}
	// The Responses of the atomics have the MSNs that their count says.
	for _, msn := range []uint32{0, 0xffffffff} {
		if id, ok := e.s.TakeResponse(msn); !ok || id != msn {
			t.Errorf("Response %d is for the atomic %d, %v", msn, id, ok)
		}
	}
	if _, ok := e.s.TakeResponse(1); ok {
		t.Error("there is a buffer for a Response that is not due")
	}
}

// Shows: RDMAP-6.1-02, RDMAP-6.1-05
func TestRequestSlots(t *testing.T) {
	for _, c := range []struct {
		name               string
		delivered, waiting uint64
		msn                uint32
		slot               uint64
		ok                 bool
	}{
		{name: "first", delivered: 0, waiting: 0, msn: 1, slot: 0, ok: true},
		{name: "second first", delivered: 0, waiting: 0, msn: 2, slot: 1, ok: true},
		{name: "beyond IRD", delivered: 0, waiting: 0, msn: 5, slot: 0, ok: false},
		{name: "all waiting", delivered: 4, waiting: 4, msn: 5, slot: 0, ok: false},
		{name: "one free", delivered: 4, waiting: 3, msn: 5, slot: 0, ok: true},
		{name: "last MSN", delivered: 1<<32 - 2, waiting: 0, msn: 0xffffffff, slot: (1<<32 - 2) % 4, ok: true},
		{name: "after it", delivered: 1<<32 - 1, waiting: 1, msn: 0, slot: (1<<32 - 1) % 4, ok: true},
		{name: "before it", delivered: 1<<32 - 2, waiting: 0, msn: 0, slot: (1<<32 - 1) % 4, ok: true},
		{name: "an old one", delivered: 5, waiting: 1, msn: 5, slot: 0, ok: false},
	} {
		e := newEnd(t)
		if slot, ok := e.s.TakeRequest(c.delivered, c.waiting, c.msn); ok != c.ok || slot != c.slot {
			t.Errorf("%s: slot %d, %v, want %d, %v", c.name, slot, ok, c.slot, c.ok)
		}
	}
}
