package rdmap_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Shows: RDMAP-3.2-03, RDMAP-4.8-02, RDMAP-4.8-10, RDMAP-5.4-01, RDMAP-5.4-02, RDMAP-5.4-03, RDMAP-5.4-04
// Shows: RDMAP-5.4-05, RDMAP-5.4-06
// Shows: RDMAP-5.4-07, RDMAP-5.4-08, RDMAP-6.2-01, RDMAP-6.2.1-01, RDMAP-6.2.1-02, RDMAP-7.1-02, RDMAP-7.1-01
// Shows: DDP-7.2-01
func TestEveryCodeBothWays(t *testing.T) {
	codes := definedCodes()
	for _, code := range codes {
		t.Run(code.String(), func(t *testing.T) {
			a, b := newEnd(t), newEnd(t, responder)
			a.llp.sent = nil
			a.post(send(1, "never sent"))
			a.s.Fail(&protocol.Error{Code: code, Detail: "found by a test"}, true)
			if !a.s.Wake() || a.s.Wake() {
				t.Error("the send owner must be woken once")
			}
			a.wantDone("the receive owner has not seen the error", "")
			b.post(read(1, guarded(t, 4)))
			b.post(send(2, "x"))
			b.transmit()
			seg := a.next("the Terminate")
			if want := iwarptest.Terminate(uint16(code), nil); !bytes.Equal(seg, want) {
				t.Fatalf("sent %x want %x", seg, want)
			}
			a.wantIdle("nothing after it")
			if p, _ := a.s.Transmit(a.llp, true); p != rdmap.Finished {
				t.Errorf("progress %v", p)
			}
			err := b.receive(seg)
			if err == nil || err.Code != code || !err.Remote || err.Offender != nil {
				t.Fatalf("received %+v", err)
			}
			b.llp.sent = nil
			b.wantIdle("a Terminate is never answered")
			b.wantDone("what is outstanding fails, and what stands behind it", "1! 2!")
			if !b.s.Over() || !errors.Is(b.s.Err(), &protocol.Error{Code: code, Remote: true}) {
				t.Errorf("error %v", b.s.Err())
			}
			a.deliver(iwarptest.Send(1, nil)) // dropped; the receive owner has seen the end
			a.wantDone("flushed", "1!")
			a.wantDelivered("nothing")
		})
	}
}

// Shows: RDMAP-4.8-04, RDMAP-4.8-05, RDMAP-4.8-09, RDMAP-5.4-05
func TestTerminateEcho(t *testing.T) {
	request := iwarptest.ReadRequest(1, 0xaabbcc01, 0x2000, 0x40, 0x11223344, 0x1000)
	write := iwarptest.Write(0x11223344, 0x1000, []byte("abc"))
	for _, c := range []struct {
		name        string
		seg         []byte
		code        protocol.Code
		length      uint16
		ddp, header []byte // nil: none
	}{
		{
			name: "Read Request", seg: iwarptest.Terminate(0x0100, request), code: 0x0100, length: 46,
			ddp: request[:18], header: request[18:],
		},
		{name: "Write", seg: iwarptest.Terminate(0x1101, write), code: 0x1101, length: 17, ddp: write[:14]},
		{
			name: "length alone",
			seg: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 7, Last: true, QN: 2, MSN: 1},
				unhex(t, "1100 8000 0011")),
			code: 0x1100, length: 17,
		},
		{
			name: "siw: R and no header behind",
			seg: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 7, Last: true, QN: 2, MSN: 1},
				unhex(t, "0109e000 0003"+hexOf(iwarptest.SendInvalidate(3, 0x11223344, nil)))),
			code: 0x0109, length: 3, ddp: iwarptest.SendInvalidate(3, 0x11223344, nil),
		},
		{name: "nothing", seg: iwarptest.Terminate(0x2002, nil), code: 0x2002, length: 0},
		{
			name: "reserved bits",
			seg: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 7, Last: true, QN: 2, MSN: 1},
				unhex(t, "20021fff")),
			code:   0x2002,
			length: 0,
		},
		{
			name: "local catastrophic, any code",
			seg: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 7, Last: true, QN: 2, MSN: 1},
				unhex(t, "005a0000")),
			code: 0x0000, length: 0,
		},
		{
			name: "long",
			seg: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 7, Last: true, QN: 2, MSN: 1},
				append(unhex(t, "20020000"), make([]byte, 100)...)),
			code: 0x2002, length: 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnd(t)
			err := e.receive(c.seg)
			if err == nil || err.Code != c.code || !err.Remote {
				t.Fatalf("%v, want %v", err, c.code)
			}
			var got protocol.Offender
			if err.Offender != nil {
				got = *err.Offender
			} else if c.length != 0 {
				t.Fatal("no echo")
			}
			if got.SegmentLength != c.length || !bytes.Equal(got.DDPHeader, c.ddp) ||
				!bytes.Equal(got.RDMAPHeader, c.header) {
				t.Errorf("echo %+v", got)
			}
			if e.s.Err() != error(err) {
				t.Errorf("the stream's error is %v", e.s.Err())
			}
			e.wantIdle("never answered")
		})
	}
}

// Shows: RDMAP-7.1-05, RDMAP-5.4-07, RDMAP-5.4-08
func TestTerminatesCross(t *testing.T) {
	a, b := newEnd(t), newEnd(t, responder)
	b.deliver(iwarptest.Write(1, 0, nil))
	a.s.Fail(&protocol.Error{Code: protocol.MPACRC}, true)
	b.s.Fail(&protocol.Error{Code: protocol.MPAMarker}, true)
	b.s.Fail(&protocol.Error{Code: protocol.MPACRC}, true) // the second does not count
	fromA, fromB := a.next("a's Terminate"), b.next("b's Terminate")
	a.deliver(fromB)
	b.deliver(fromA)
	a.wantIdle("nothing more")
	b.wantIdle("nothing more")
	for e, code := range map[*end]protocol.Code{a: protocol.MPACRC, b: protocol.MPAMarker} {
		if !errors.Is(e.s.Err(), &protocol.Error{Code: code}) {
			t.Errorf("%v, want the first error, %v", e.s.Err(), code)
		}
	}
}

// Shows: MPA-8-10, RDMAP-6.2.1-01
func TestResponderIsSilentBeforeTheFirstSegment(t *testing.T) {
	e := newEnd(t, responder)
	e.llp.held = true
	e.post(send(1, "never"))
	e.wantIdle("held")
	e.s.Fail(&protocol.Error{Code: protocol.MPACRC}, true)
	e.wantIdle("no Terminate from a responder that has had no valid FPDU")
	if p, err := e.s.Transmit(e.llp, true); p != rdmap.Finished || err != nil {
		t.Errorf("progress %v, %v", p, err)
	}
	e.s.StopReceive()
	e.wantDone("flushed", "1!")

	e = newEnd(t)
	e.s.Fail(&protocol.Error{Code: protocol.MPACRC}, true)
	e.wantTerminate("an initiator may always send", protocol.MPACRC, nil)

	e = newEnd(t, responder)
	e.deliver(iwarptest.Write(1, 0, nil))
	e.s.Fail(&protocol.Error{Code: protocol.MPACRC}, true)
	e.wantTerminate("so may a responder that has had an FPDU", protocol.MPACRC, nil)
}

// An untagged message that has begun is finished before the Terminate, since a peer
// such as siw takes no other opcode within one; a tagged one ends in the middle, and
// so does any if no Terminate is due or nobody is left to read.
//
// Shows: RDMAP-5.4-06, RDMAP-5.4-07, DDP-5.2-03
func TestTerminateWithinAMessage(t *testing.T) {
	const size = 1000
	bad := iwarptest.Write(5, 0, []byte("x"))
	unknownSTag := func(e *end) {
		e.wantError("meanwhile", bad, protocol.DDPTaggedInvalidSTag)
	}
	for _, c := range []struct {
		name     string
		request  rdmap.SendWR
		fail     func(e *end)
		finished bool
	}{
		{name: "Send", request: rdmap.SendWR{Op: rdmap.OpSend}, fail: unknownSTag, finished: true},
		{
			name: "Send with Invalidate", request: rdmap.SendWR{Op: rdmap.OpSendInvalidate, Invalidate: 7},
			fail: unknownSTag, finished: true,
		},
		{name: "Send, CRC error", request: rdmap.SendWR{Op: rdmap.OpSend}, fail: func(e *end) {
			e.s.Fail(&protocol.Error{Code: protocol.MPACRC}, true)
		}, finished: true},
		{
			name: "Write", request: rdmap.SendWR{Op: rdmap.OpWrite, Remote: rdmap.RemoteBuffer{STag: 7}},
			fail: unknownSTag,
		},
		{name: "Send, LLP lost", request: rdmap.SendWR{Op: rdmap.OpSend}, fail: func(e *end) {
			e.s.Fail(&protocol.Error{Code: protocol.MPAConnectionLost}, false)
		}},
		{name: "Send, the peer terminates", request: rdmap.SendWR{Op: rdmap.OpSend}, fail: func(e *end) {
			if err := e.receive(iwarptest.Terminate(uint16(protocol.DDPUntaggedMSN), nil)); err == nil || !err.Remote {
				e.t.Fatalf("told: %v", err)
			}
		}},
		{name: "Send, the peer has closed", request: rdmap.SendWR{Op: rdmap.OpSend}, fail: func(e *end) {
			e.deliver(iwarptest.Tagged(0, false, 5, 0, nil))
			if err := e.s.PeerClosed(); err == nil {
				e.t.Fatal("a cut message is a graceful end")
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnd(t)
			e.llp.mulpdu, e.llp.limit = 128, 2
			c.request.ID, c.request.SG = 1, [][]byte{make([]byte, size)}
			e.post(c.request)
			e.post(send(2, "never"))
			if p, err := e.s.Transmit(e.llp, false); p != rdmap.More || err != nil {
				t.Fatal(p, err)
			}
			c.fail(e)
			e.transmit()
			octets, last, terminates := 0, false, 0
			for _, seg := range e.llp.sent {
				if seg[1]&0xf == byte(rdmap.OpcodeTerminate) {
					terminates++
					continue
				}
				octets += len(seg) - 14
				if seg[0]&0x80 == 0 {
					octets -= 4
				}
				last = seg[0]&0x40 != 0
			}
			due := e.s.Err() != nil && c.name != "Send, LLP lost" && c.name != "Send, the peer terminates"
			if last != c.finished || c.finished != (octets == size) || (terminates == 1) != due {
				t.Errorf("%d octets sent, last segment %v, %d Terminates", octets, last, terminates)
			}
			e.s.StopReceive()
			if c.finished {
				e.wantDone("the message was sent whole", "1 2!")
			} else {
				e.wantDone("nothing was sent whole", "1! 2!")
			}
		})
	}
}

// A Terminate that is longer than a batch or a segment still goes out whole.
func TestTerminateInTightLLP(t *testing.T) {
	e := newEnd(t)
	e.llp.mulpdu, e.llp.limit = 40, 1
	seg := iwarptest.ReadRequest(1, 1, 0, 4, 99, 0)
	e.wantError("bad source", seg, protocol.RDMAPInvalidSTag)
	got := []byte{}
	for e.transmit(); len(e.llp.sent) > 0; e.llp.sent = e.llp.sent[1:] {
		got = append(got, e.llp.sent[0][18:]...)
	}
	if want := iwarptest.Terminate(0x0100, seg)[18:]; !bytes.Equal(got, want) {
		t.Errorf("sent %x want %x", got, want)
	}
}

// The slot of a request is given back once, however small the segments are.
func TestResponsesInTightLLP(t *testing.T) {
	e := newEnd(t, ird(2))
	e.llp.mulpdu = 10 // less than a header: one octet each
	mem := wordMemory(t, 7)
	stag := uint32(e.register(mem, allRights).STag())
	e.deliver(iwarptest.ReadRequest(1, 5, 0, 8, stag, 0), iwarptest.FetchAdd(2, 9, stag, 0, 1, 0))
	e.transmit()
	if n := len(e.llp.sent); n != 8+12 {
		t.Fatalf("%d segments", n)
	}
	e.llp.sent = nil
	e.deliver(iwarptest.ReadRequest(3, 5, 0, 0, 0, 0), iwarptest.ReadRequest(4, 5, 0, 0, 0, 0))
	e.wantError("IRD counts right", iwarptest.ReadRequest(5, 5, 0, 0, 0, 0), protocol.DDPUntaggedNoBuffer)
}
