package rdmap_test

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Shows: DDP-6.2.1-01, DDP-6.2.1-02, DDP-6.2.1-05, DDP-6.2.1-06, RDMAP-6.2-01
func TestCloseSend(t *testing.T) {
	e := newEnd(t)
	e.postRecv(4)
	buf := guarded(t, 1)
	e.post(read(1, buf))
	e.post(send(2, "last"))
	e.s.CloseSend()
	r := send(3, "refused")
	if err := e.s.Post(&r, nil); !errors.Is(err, rdmap.ErrClosed) {
		t.Errorf("Post: %v, want ErrClosed", err)
	}
	if err := e.s.PostRTR(protocol.RTRWrite); !errors.Is(err, rdmap.ErrClosed) {
		t.Errorf("PostRTR: %v, want ErrClosed", err)
	}
	sink := e.wantRead("what was posted goes on", 1, 1, 0x11223344, 0x1000)
	e.wantSegment("what was posted goes on", iwarptest.Send(1, []byte("last")))
	if p := e.transmit(); p != rdmap.Idle {
		t.Fatalf("progress %v while a Read is outstanding, want Idle", p)
	}
	stag := uint32(e.register([]byte("mine"), allRights).STag())
	e.deliver(iwarptest.ReadRequest(1, 7, 0, 4, stag, 0))
	e.wantSegment("the peer is still answered", iwarptest.ReadResponse(7, 0, []byte("mine")))
	e.s.Wake()
	e.deliver(iwarptest.ReadResponse(sink, 0, []byte{1}))
	if !e.s.Wake() {
		t.Error("the send owner is not woken for the end")
	}
	if p := e.transmit(); p != rdmap.Finished {
		t.Fatalf("progress %v, want Finished", p)
	}
	e.wantDone("all", "1 2")
	e.deliver(iwarptest.Send(1, []byte("late")))
	e.wantDelivered("receiving goes on", `Send "late"`)
	if err := e.s.PeerClosed(); err != nil {
		t.Errorf("PeerClosed: %v", err)
	}
	e.s.StopReceive()
	if e.s.Err() != nil || !e.s.Over() {
		t.Errorf("a graceful end gives %v", e.s.Err())
	}
	if err := e.s.Post(&r, nil); !errors.Is(err, rdmap.ErrClosed) {
		t.Errorf("Post: %v, want ErrClosed", err)
	}
}

// Shows: DDP-6.2.1-04, DDP-6.2.2-02, RDMAP-6.2.1-01
func TestPeerClosedWithReadsOutstanding(t *testing.T) {
	for _, state := range []string{"queued", "sent", "half answered"} {
		t.Run(state, func(t *testing.T) {
			e := newEnd(t)
			buf := guarded(t, 2)
			e.post(send(1, "x"))
			e.post(read(2, buf))
			e.post(send(3, "y"))
			if state != "queued" {
				e.transmit()
				sink := e.wantReadAfterSend()
				if state == "half answered" {
					e.deliver(iwarptest.Tagged(2, false, sink, 0, []byte("a")))
				}
			}
			err := e.s.PeerClosed()
			if !errors.Is(err, &protocol.Error{Code: protocol.MPAConnectionLost}) || !errors.Is(err, net.ErrClosed) {
				t.Fatalf("PeerClosed: %v", err)
			}
			e.s.StopReceive()
			e.llp.sent = nil
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("PeerClosed: %v", err)
			}
			e.wantTerminate("this half is open", protocol.MPAConnectionLost, nil)
			if state == "queued" {
				e.wantDone("flushed", "1! 2! 3!")
			} else {
				e.wantDone("the Read is flushed, and what stood behind it", "2! 3!")
			}
			if !e.s.Over() {
				t.Error("not flushed")
			}
			e.post(send(4, "after the end"))
			e.wantDone("completes at once", "4!")
			if err := e.s.PostRTR(protocol.RTRSend); err != nil || e.s.Outstanding() != 0 {
				t.Errorf("PostRTR: %v, %d outstanding", err, e.s.Outstanding())
			}
		})
	}
}

// wantReadAfterSend skips the Send before the Read, and gives the sink STag.
func (e *end) wantReadAfterSend() uint32 {
	e.t.Helper()
	e.next("the Send")
	sink := e.wantRead("the Read", 1, 2, 0x11223344, 0x1000)
	e.wantDone("the Send", "1")
	return sink
}

// Shows: DDP-6.2.1-04, DDP-6.2.1-05
func TestPeerClosedWithoutReads(t *testing.T) {
	e := newEnd(t)
	stag := uint32(e.register([]byte("mine"), allRights).STag())
	e.deliver(iwarptest.ReadRequest(1, 7, 0, 4, stag, 0))
	if err := e.s.PeerClosed(); err != nil {
		t.Fatal(err)
	}
	e.s.StopReceive()
	e.post(send(1, "still possible"))
	r := read(2, nil)
	if err := e.s.Post(&r, nil); !errors.Is(err, rdmap.ErrPeerClosed) {
		t.Errorf("Post of a Read: %v, want ErrPeerClosed", err)
	}
	e.wantSegment("what the peer had asked for", iwarptest.ReadResponse(7, 0, []byte("mine")))
	e.wantSegment("outbound goes on", iwarptest.Send(1, []byte("still possible")))
	e.s.CloseSend()
	if p := e.transmit(); p != rdmap.Finished {
		t.Errorf("progress %v, want Finished", p)
	}
	e.wantDone("all", "1")
	if e.s.Err() != nil {
		t.Error(e.s.Err())
	}
}

// Shows: MPA2-5-02, MPA2-9.2-08
func TestRTR(t *testing.T) {
	for _, kind := range []protocol.RTR{protocol.RTRSend, protocol.RTRWrite, protocol.RTRRead} {
		t.Run(kind.String(), func(t *testing.T) {
			agreed := func(c *rdmap.Config) {
				c.RTR = protocol.RTRSend | protocol.RTRWrite | protocol.RTRRead
				c.IRD, c.ORD, c.SendDepth = 0, 0, 2
			}
			a, b := newEnd(t, agreed), newEnd(t, agreed, responder)
			a.postRecv(16, 16)
			b.postRecv(8, 8)
			b.llp.held = true
			b.post(send(1, "server first"))
			b.wantIdle("a responder waits for the RTR")
			if p := b.transmit(); p != rdmap.Idle {
				t.Fatalf("progress %v: a held LLP must not be tried over and over", p)
			}
			if err := a.s.PostRTR(kind); err != nil {
				t.Fatal(err)
			}
			if err := a.s.PostRTR(kind); !errors.Is(err, rdmap.ErrSendQueueFull) {
				t.Errorf("second PostRTR: %v", err)
			}
			a.post(send(1, ""))
			a.post(send(2, "after"))
			rtr := a.next("the RTR is first")
			switch kind {
			case protocol.RTRSend:
				if string(rtr) != string(iwarptest.Send(1, nil)) {
					t.Errorf("%x", rtr)
				}
			case protocol.RTRWrite:
				if string(rtr) != string(iwarptest.Write(1, 0, nil)) {
					t.Errorf("%x", rtr)
				}
			case protocol.RTRRead:
				if string(rtr) != string(iwarptest.ReadRequest(1, 1, 0, 0, 1, 0)) {
					t.Errorf("%x", rtr)
				}
			}
			b.llp.held = false // as the LLP says when the FPDU has come
			b.deliver(rtr)
			if !b.s.Wake() {
				t.Error("the responder's send owner is not woken")
			}
			b.wantDelivered("an RTR is not the ULP's")
			pump(a, b)
			b.wantDelivered("a zero-length Send after the RTR is the ULP's", `Send ""`, `Send "after"`)
			a.wantDelivered("the server's", `Send "server first"`)
			a.wantDone("the RTR has no completion", "1 2")
			b.wantDone("the server's", "1")
			if a.s.Outstanding() != 0 {
				t.Errorf("%d outstanding", a.s.Outstanding())
			}
		})
	}
	e := newEnd(t)
	if err := e.s.PostRTR(0); !errors.Is(err, rdmap.ErrInvalidRequest) {
		t.Errorf("PostRTR(0): %v", err)
	}
}

// Shows: MPA2-9.2-08
// Only the very first message may be an RTR Send, only on a responder that
// agreed to it, and only if it is an empty Send.
func TestNotAnRTR(t *testing.T) {
	withRTR := func(c *rdmap.Config) { c.RTR = protocol.RTRSend }
	for _, c := range []struct {
		name string
		e    *end
		segs [][]byte
		want string
	}{
		{name: "not agreed", e: newEnd(t, responder), segs: [][]byte{iwarptest.Send(1, nil)}, want: `Send ""`},
		{name: "initiator", e: newEnd(t, withRTR), segs: [][]byte{iwarptest.Send(1, nil)}, want: `Send ""`},
		{
			name: "after a Write", e: newEnd(t, withRTR, responder),
			segs: [][]byte{iwarptest.Write(1, 0, nil), iwarptest.Send(1, nil)}, want: `Send ""`,
		},
		{
			name: "with octets", e: newEnd(t, withRTR, responder), segs: [][]byte{iwarptest.Send(1, []byte("x"))},
			want: `Send "x"`,
		},
		{
			name: "solicited", e: newEnd(t, withRTR, responder), segs: [][]byte{iwarptest.SendSolicited(1, nil)},
			want: `Send with SE ""`,
		},
		{name: "empty first segment", e: newEnd(t, withRTR, responder), segs: [][]byte{
			iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 1}, nil),
			iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: 1}, []byte("x")),
		}, want: `Send "x"`},
	} {
		c.e.postRecv(4)
		c.e.deliver(c.segs...)
		c.e.wantDelivered(c.name, c.want)
	}
}

// Shows: DDP-6.2.2-01, DDP-6.2.2-02, RDMAP-6.2-01
func TestLLPLost(t *testing.T) {
	reset := errors.New("connection reset")
	for _, c := range []struct {
		name string
		err  error
		code protocol.Code
	}{
		{name: "a plain error", err: reset, code: protocol.MPAConnectionLost},
		{name: "EOF", err: io.EOF, code: protocol.MPAConnectionLost},
		{
			name: "a typed one", err: &protocol.Error{Code: protocol.MPALocalCatastrophic},
			code: protocol.MPALocalCatastrophic,
		},
	} {
		for _, queue := range []bool{false, true} {
			e := newEnd(t)
			e.llp.take = 1
			e.llp.fail = c.err
			if queue {
				e.llp.fail, e.llp.refuse = nil, c.err
			}
			for i := range uint64(3) {
				e.post(send(i, "x"))
			}
			if p, err := e.s.Transmit(e.llp, true); p != rdmap.Finished || !errors.Is(err, c.err) {
				t.Fatalf("%s: progress %v, %v", c.name, p, err)
			}
			if p, err := e.s.Transmit(e.llp, true); p != rdmap.Finished || err != nil {
				t.Fatalf("%s: again: progress %v, %v", c.name, p, err)
			}
			if code, _ := protocol.CodeOf(e.s.Err()); code != c.code {
				t.Errorf("%s: %v", c.name, e.s.Err())
			}
			e.wantDone("the receive owner may still place", "")
			e.post(send(3, "accepted"))
			e.s.StopReceive()
			e.wantDone("flushed once neither owner touches the memory", "0! 1! 2! 3!")
			e.s.StopReceive()
			e.transmit()
			e.wantDone("once", "")
		}
	}
}

// Shows: RDMAP-5.4-06, DDP-6.2.2-02
func TestFlushWaitsForTheSendOwner(t *testing.T) {
	e := newEnd(t)
	e.post(read(1, make([]byte, 3)))
	e.post(send(2, "x"))
	e.s.Fail(&protocol.Error{Code: protocol.MPAConnectionLost, Err: net.ErrClosed}, false)
	e.s.StopReceive()
	e.wantDone("the send owner may still read", "")
	e.transmit()
	if len(e.done) != 2 || !errors.Is(e.done[0].Err, net.ErrClosed) || e.done[0].Op != rdmap.OpRead ||
		e.done[0].Length != 3 {
		t.Errorf("a flushed request keeps what it was: %+v", e.done)
	}
	e.wantDone("flushed", "1! 2!")
}

// Shows: DDP-6.2.1-03
func TestSegmentAfterPeerClosed(t *testing.T) {
	e := newEnd(t)
	e.postRecv(8)
	if err := e.s.PeerClosed(); err != nil {
		t.Fatal(err)
	}
	e.wantError("the stream is aborted", iwarptest.Send(1, []byte("late")), protocol.DDPLocalCatastrophic)
	e.wantDelivered("nothing")
	e.wantTerminate("the outbound half still works", protocol.DDPLocalCatastrophic, nil)
}

// The sinks of Reads take STags of the table; the end of the stream gives them
// back, whichever end it is.
func TestSinksGiveTheirSTagsBack(t *testing.T) {
	for _, graceful := range []bool{true, false} {
		table := ddp.NewTable(2)
		e := newEnd(t, func(c *rdmap.Config) { c.Table = table })
		for i := range uint64(2) {
			e.post(read(i, guarded(t, 1)))
		}
		a := e.wantRead("first", 1, 1, 0x11223344, 0x1000)
		b := e.wantRead("second", 2, 1, 0x11223344, 0x1000)
		if _, err := table.Register(ddp.RegionConfig{PD: 1}); err == nil {
			t.Fatal("the table should be full")
		}
		if graceful {
			e.deliver(iwarptest.ReadResponse(a, 0, []byte{1}), iwarptest.ReadResponse(b, 0, []byte{1}))
			e.s.CloseSend()
			if p := e.transmit(); p != rdmap.Finished {
				t.Fatalf("progress %v", p)
			}
		} else {
			e.s.Fail(&protocol.Error{Code: protocol.MPAConnectionLost}, false)
			e.transmit()
		}
		e.s.StopReceive()
		for range 2 {
			if _, err := table.Register(ddp.RegionConfig{PD: 1}); err != nil {
				t.Errorf("graceful %v: %v", graceful, err)
			}
		}
		if len(e.done) != 2 {
			t.Errorf("%d completions", len(e.done))
		}
	}
}
