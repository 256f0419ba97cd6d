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

// Shows: RDMAP-5.2.2-01, RDMAP-5.2.2-05, RDMAP-5.2.2-06, RDMAP-5.5-05, RDMAP-5.5-12, RDMAP-7.1-03, RDMAP-8.1.1-03
func TestReadResponseErrors(t *testing.T) {
	const size = 8
	data := bytes.Repeat([]byte{0xee}, 2*size)
	type dialogue struct {
		good [][]byte
		bad  []byte
	}
	for _, c := range []struct {
		name string
		code protocol.Code
		talk func(first, second uint32) dialogue
	}{
		{name: "unknown STag", code: protocol.DDPTaggedInvalidSTag, talk: func(a, _ uint32) dialogue {
			return dialogue{good: nil, bad: iwarptest.ReadResponse(a^0x55, 0, data[:size])}
		}},
		{name: "sink of the second Read first", code: protocol.DDPTaggedInvalidSTag, talk: func(_, b uint32) dialogue {
			return dialogue{good: nil, bad: iwarptest.ReadResponse(b, 0, data[:size])}
		}},
		{name: "too long in one", code: protocol.DDPTaggedBounds, talk: func(a, _ uint32) dialogue {
			return dialogue{good: nil, bad: iwarptest.ReadResponse(a, 0, data[:size+1])}
		}},
		{name: "too long in two", code: protocol.DDPTaggedBounds, talk: func(a, _ uint32) dialogue {
			return dialogue{
				[][]byte{iwarptest.Tagged(2, false, a, 0, data[:size])}, iwarptest.ReadResponse(a, size, data[:1]),
			}
		}},
		{name: "too short", code: protocol.RDMAPOperationUnspecified, talk: func(a, _ uint32) dialogue {
			return dialogue{good: nil, bad: iwarptest.ReadResponse(a, 0, data[:size-1])}
		}},
		{name: "empty", code: protocol.RDMAPOperationUnspecified, talk: func(a, _ uint32) dialogue {
			return dialogue{good: nil, bad: iwarptest.ReadResponse(a, 0, nil)}
		}},
		{name: "TO not 0", code: protocol.RDMAPOperationUnspecified, talk: func(a, _ uint32) dialogue {
			return dialogue{good: nil, bad: iwarptest.ReadResponse(a, 1, data[:size-1])}
		}},
		{name: "a gap", code: protocol.RDMAPOperationUnspecified, talk: func(a, _ uint32) dialogue {
			return dialogue{
				[][]byte{iwarptest.Tagged(2, false, a, 0, data[:2])}, iwarptest.ReadResponse(a, 4, data[:4]),
			}
		}},
		{name: "an octet twice and one left out", code: protocol.DDPTaggedBounds, talk: func(a, _ uint32) dialogue {
			return dialogue{
				[][]byte{iwarptest.Tagged(2, false, a, 0, data[:2])}, iwarptest.ReadResponse(a, 1, data[:size-2]),
			}
		}},
		{name: "octets not in order and one twice", code: protocol.DDPTaggedBounds, talk: func(a, _ uint32) dialogue {
			return dialogue{
				[][]byte{iwarptest.Tagged(2, false, a, 4, data[:2])}, iwarptest.Tagged(2, false, a, 3, data[:2]),
			}
		}},
		{name: "an octet twice", code: protocol.DDPTaggedBounds, talk: func(a, _ uint32) dialogue {
			return dialogue{
				[][]byte{iwarptest.Tagged(2, false, a, 0, data[:2])}, iwarptest.ReadResponse(a, 1, data[:7]),
			}
		}},
		{name: "wrap", code: protocol.DDPTaggedTOWrap, talk: func(a, _ uint32) dialogue {
			return dialogue{good: nil, bad: iwarptest.ReadResponse(a, ^uint64(0), data[:2])}
		}},
		{name: "after its completion", code: protocol.DDPTaggedInvalidSTag, talk: func(a, _ uint32) dialogue {
			return dialogue{
				[][]byte{iwarptest.ReadResponse(a, 0, data[:size])}, iwarptest.ReadResponse(a, 0, data[:size]),
			}
		}},
		{name: "a Write to the sink", code: protocol.DDPTaggedInvalidSTag, talk: func(a, _ uint32) dialogue {
			return dialogue{good: nil, bad: iwarptest.Write(a, 0, data[:size])}
		}},
		{name: "an Atomic Response", code: protocol.DDPUntaggedNoBuffer, talk: func(uint32, uint32) dialogue {
			return dialogue{good: nil, bad: iwarptest.AtomicResponse(1, 1, 1)}
		}},
		{name: "a third, empty", code: protocol.DDPTaggedInvalidSTag, talk: func(a, b uint32) dialogue {
			return dialogue{
				[][]byte{iwarptest.ReadResponse(a, 0, data[:size]), iwarptest.ReadResponse(b, 0, data[:size])},
				iwarptest.ReadResponse(a, 0, nil),
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnd(t)
			bufs := [2][]byte{guarded(t, size), guarded(t, size)}
			e.post(read(1, bufs[0]))
			e.post(read(2, bufs[1]))
			a := e.wantRead("first", 1, size, 0x11223344, 0x1000)
			b := e.wantRead("second", 2, size, 0x11223344, 0x1000)
			if a == b {
				t.Fatal("two Reads have one sink STag")
			}
			if e.table.Lookup(ddp.STag(a)) != nil {
				t.Error("the sink can be looked up")
			}
			talk := c.talk(a, b)
			e.deliver(talk.good...)
			completed := len(e.done)
			for _, done := range e.done {
				clear(bufs[done.ID-1]) // the caller's again
			}
			before := [2]string{string(bufs[0]), string(bufs[1])}
			err := e.wantError(c.name, talk.bad, c.code)
			if c.code != protocol.RDMAPOperationUnspecified &&
				(string(bufs[0]) != before[0] || string(bufs[1]) != before[1]) {
				t.Error("a bad segment was placed")
			}
			if err.Offender == nil || err.Offender.RDMAPHeader != nil {
				t.Errorf("the error blames %+v", err.Offender)
			}
			if len(e.done) != completed {
				t.Error("a bad Response completed a Read")
			}
			e.wantTerminate(c.name, c.code, talk.bad)
			if len(e.done) != 2 {
				t.Errorf("%d completions, want 2", len(e.done))
			}
		})
	}
}

// Shows: RDMAP-5.2-01, RDMAP-5.2.1-10, RDMAP-5.2.1-12, RDMAP-5.2.1-13
func TestZeroLengthRead(t *testing.T) {
	a, b := newEnd(t), newEnd(t, responder)
	a.post(rdmap.SendWR{ID: 1, Op: rdmap.OpRead, Remote: rdmap.RemoteBuffer{STag: 0xdeadbeef, TO: ^uint64(0)}})
	pump(a, b)
	a.wantDone("nothing is checked", "1")
	if a.s.Err() != nil || b.s.Err() != nil {
		t.Error(a.s.Err(), b.s.Err())
	}
	a.post(rdmap.SendWR{ID: 2, Op: rdmap.OpRead, Remote: rdmap.RemoteBuffer{STag: 0xdeadbeef}})
	a.transmit()
	// The STag of the empty Response does not matter, but octets do.
	a.wantError("octets in answer to a zero-length Read", iwarptest.ReadResponse(1, 0, []byte{1}),
		protocol.DDPTaggedInvalidSTag)
}

// Shows: RDMAP-4.8-06, RDMAP-4.8-07, RDMAP-4.8-09, RDMAP-5.2.1-11, RDMAP-7.1-04
// Shows: RDMAP-7.2-06, RDMAP-7.2-07, RDMAP-7.2-08, RDMAP-7.2-09, RDMAP-7.2-10, RDMAP-7.2-11, RDMAP-8.1.1-01
// Shows: RDMAP-8.1.1-02, RDMAP-8.1.1-05
func TestReadSourceErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		code protocol.Code
		stag func(e *end, s uint32) uint32
		to   uint64
		size uint32
	}{
		{
			name: "unknown STag", code: protocol.RDMAPInvalidSTag, stag: func(_ *end, s uint32) uint32 { return s ^ 1 },
			to: 0, size: 1,
		},
		{name: "STag 0", code: protocol.RDMAPInvalidSTag, stag: func(*end, uint32) uint32 { return 0 }, to: 0, size: 1},
		{name: "invalidated", code: protocol.RDMAPInvalidSTag, stag: func(e *end, s uint32) uint32 {
			e.table.Lookup(ddp.STag(s)).Invalidate()
			return s
		}, to: 0, size: 1},
		{name: "one beyond", code: protocol.RDMAPBounds, to: 1, size: 32},
		{name: "TO beyond", code: protocol.RDMAPBounds, to: 33, size: 1},
		{name: "write-only", code: protocol.RDMAPAccess, stag: func(e *end, _ uint32) uint32 {
			return uint32(e.register(make([]byte, 8), ddp.RemoteWrite).STag())
		}, to: 0, size: 1},
		{name: "of another stream", code: protocol.RDMAPSTagNotAssociated, stag: func(e *end, _ uint32) uint32 {
			e.peer.Stream += 100
			return uint32(e.register(make([]byte, 8), allRights).STag())
		}, to: 0, size: 1},
		{name: "of another domain", code: protocol.RDMAPSTagNotAssociated, stag: func(e *end, _ uint32) uint32 {
			e.peer.PD++
			return uint32(e.register(make([]byte, 8), allRights).STag())
		}, to: 0, size: 1},
		{name: "wrap", code: protocol.RDMAPTOWrap, to: ^uint64(0) - 5, size: 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnd(t, responder)
			stag := uint32(e.register(guarded(t, 32), allRights).STag())
			if c.stag != nil {
				stag = c.stag(e, stag)
			}
			seg := iwarptest.ReadRequest(1, 0xaabbcc01, 0x2000, c.size, stag, c.to)
			e.wantError(c.name, seg, c.code)
			e.wantTerminate("M, D and R", c.code, seg)
		})
	}
}

// Shows: RDMAP-4.4-02, RDMAP-4.4-03
func TestReadResponseSinkWraps(t *testing.T) {
	e := newEnd(t, responder)
	stag := uint32(e.register([]byte("12345678"), allRights).STag())
	seg := iwarptest.ReadRequest(1, 0xaabbcc01, ^uint64(0)-3, 8, stag, 0)
	e.deliver(seg)
	e.wantTerminate("a Response cannot say such TOs", protocol.RDMAPTOWrap, seg)
}

// Shows: RDMAP-4.8-08, RDMAP-8.1.1-04, RDMAP-8.1.1-06, RDMAP-5.4-07, RDMAP-7.1-04
func TestReadSourceInvalidatedMidway(t *testing.T) {
	for _, after := range []int{0, 1, 2} {
		e := newEnd(t, responder, ird(2))
		e.llp.mulpdu, e.llp.limit = 128, 1
		region := e.register(octets(300), allRights)
		stag := uint32(region.STag())
		e.deliver(iwarptest.ReadRequest(1, 0xaabbcc01, 0x2000, 300, stag, 0),
			iwarptest.ReadRequest(2, 9, 0, 1, stag, 0))
		for range after {
			if p, err := e.s.Transmit(e.llp, false); p != rdmap.More || err != nil {
				t.Fatal(p, err)
			}
		}
		region.Invalidate()
		sent := uint64(after * 114)
		for i := range after {
			to := uint64(i * 114)
			e.wantSegment("sent before", iwarptest.Tagged(2, false, 0xaabbcc01, 0x2000+to, octets(300)[to:to+114]))
		}
		left := iwarptest.ReadRequest(1, 0xaabbcc01, 0x2000+sent, uint32(300-sent), stag, sent)
		e.wantTerminate("the Request with what is left", protocol.RDMAPInvalidSTag, left)
		if st := e.s.Stats(); st.ReadsServed != 0 {
			t.Errorf("a Read that failed counts as served: %+v", st)
		}
	}
}

// Shows: RDMAP-5.2.1-09
// The source of a Response may change while it lies in the LLP's batch.
func TestReadResponseIsCopied(t *testing.T) {
	e := newEnd(t, responder)
	e.llp.block = true
	source := []byte("before")
	stag := uint32(e.register(source, allRights).STag())
	e.deliver(iwarptest.ReadRequest(1, 5, 0, 6, stag, 0))
	e.transmit()
	copy(source, "after!")
	e.llp.block = false
	e.wantSegment("as it was when it was framed", iwarptest.ReadResponse(5, 0, []byte("before")))
}

func TestResponseQueueFails(t *testing.T) {
	refused := errors.New("refused")
	e := newEnd(t, responder)
	stag := uint32(e.register([]byte("source"), allRights).STag())
	e.deliver(iwarptest.ReadRequest(1, 5, 0, 6, stag, 0))
	e.llp.refuse = refused
	if p, err := e.s.Transmit(e.llp, true); p != rdmap.Finished || !errors.Is(err, refused) {
		t.Errorf("progress %v, %v", p, err)
	}
	e.table.Lookup(ddp.STag(stag)).Invalidate() // hangs if the region is still held
}
