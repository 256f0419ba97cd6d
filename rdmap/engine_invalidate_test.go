package rdmap_test

import (
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Shows: RDMAP-5.3-10, RDMAP-5.3-11, RDMAP-5.3-12, RDMAP-3.2-01
func TestSendWithInvalidate(t *testing.T) {
	for _, op := range []uint8{4, 6} {
		e := newEnd(t, responder)
		e.postRecv(16)
		mem := guarded(t, 4)
		region := e.register(mem, allRights)
		stag := uint32(region.STag())
		e.deliver(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: op, Invalidate: stag, MSN: 1}, []byte("by")))
		if !region.Valid() {
			t.Error("invalidated at placement, before delivery")
		}
		e.deliver(iwarptest.Write(stag, 0, []byte("late")))
		e.deliver(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: op, Last: true, Invalidate: stag, MSN: 1, MO: 2},
			[]byte("e")))
		if region.Valid() {
			t.Error("not invalidated at delivery")
		}
		e.wantDelivered("with the STag", rdmap.Opcode(op).String()+` "bye" invalidated `+region.STag().String())
		seg := iwarptest.Write(stag, 0, []byte("evil"))
		e.wantError("a Write after it", seg, protocol.DDPTaggedInvalidSTag)
		if string(mem) != "late" {
			t.Errorf("memory is %q", mem)
		}
		e.wantTerminate("a Write after it", protocol.DDPTaggedInvalidSTag, seg)
	}
}

// Shows: RDMAP-5.3-11, RDMAP-5.3-13, RDMAP-7.2-04, RDMAP-7.2-05, RDMAP-8.1.1-07, RDMAP-7.1-03
func TestCannotInvalidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		region func(e *end) *ddp.Region
		stag   func(s ddp.STag) ddp.STag
	}{
		{name: "unknown STag"},
		{
			name: "another key", region: func(e *end) *ddp.Region { return e.register(make([]byte, 1), allRights) },
			stag: func(s ddp.STag) ddp.STag { return s ^ 1 },
		},
		{name: "shared by the domain", region: func(e *end) *ddp.Region {
			e.peer.Stream = 0
			return e.register(make([]byte, 1), allRights)
		}},
		{name: "of another stream", region: func(e *end) *ddp.Region {
			e.peer.Stream++
			return e.register(make([]byte, 1), allRights)
		}},
		{name: "of another domain", region: func(e *end) *ddp.Region {
			e.peer.PD++
			return e.register(make([]byte, 1), allRights)
		}},
	} {
		for _, op := range []uint8{4, 6} {
			t.Run(c.name+", "+rdmap.Opcode(op).String(), func(t *testing.T) {
				e := newEnd(t, responder)
				e.postRecv(8)
				var stag ddp.STag
				var region *ddp.Region
				if c.region != nil {
					region = c.region(e)
					stag = region.STag()
				}
				if c.stag != nil {
					stag = c.stag(stag)
				}
				seg := iwarptest.Untagged(iwarptest.UntaggedHeader{
					Opcode: op, Last: true, Invalidate: uint32(stag), MSN: 1,
				},
					[]byte("bye"))
				e.wantError(c.name, seg, protocol.RDMAPCannotInvalidate)
				if region != nil && !region.Valid() {
					t.Error("the region was invalidated")
				}
				e.wantDelivered("nothing")
				e.wantTerminate("M and D, no R", protocol.RDMAPCannotInvalidate, seg)
			})
		}
	}
}

// Shows: RDMAP-8.1.1-04, RDMAP-8.1.1-06
func TestLocalInvalidate(t *testing.T) {
	e := newEnd(t)
	mem := guarded(t, 4)
	region := e.register(mem, allRights)
	e.post(send(1, "x"))
	e.post(rdmap.SendWR{ID: 2, Op: rdmap.OpInvalidate, Invalidate: region.STag()})
	e.llp.held = true
	e.wantIdle("not its turn yet")
	if !region.Valid() {
		t.Error("invalidated before its turn")
	}
	e.llp.held = false
	e.wantSegment("nothing but the Send", iwarptest.Send(1, []byte("x")))
	e.wantIdle("a local operation sends nothing")
	e.wantDone("both", "1 2")
	e.wantError("a Write after it", iwarptest.Write(uint32(region.STag()), 0, []byte("evil")),
		protocol.DDPTaggedInvalidSTag)
}
