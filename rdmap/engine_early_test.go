package rdmap_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

func (e *end) early(why string, want int, seg []byte) {
	e.t.Helper()
	if got := e.s.ReceiveEarly(seg); got != want {
		e.t.Fatalf("%s: %d octets placed early, want %d: %s", why, got, want, iwarptest.Describe(seg))
	}
	e.wantIdle(why)
}

// What comes before its turn is placed, and everything else happens at its turn.
//
// Shows: MPA-3-08
func TestEarlyIsPlacedAndNotDelivered(t *testing.T) {
	e := newEnd(t, responder)
	e.postRecv(8, 8)
	mem := guarded(t, 8)
	region := e.register(mem, allRights)
	stag := uint32(region.STag())
	first := iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 1}, []byte("ab"))
	e.deliver(first)
	// invalidates
	last := iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 4, Last: true, Invalidate: stag, MSN: 1, MO: 2},
		[]byte("cd"))
	write := iwarptest.Write(stag, 2, []byte("data"))
	e.early("a Write", 4, write)
	if string(mem) != "\x00\x00data\x00\x00" {
		t.Errorf("region %q", mem)
	}
	e.early("the last segment of a Send", 2, last)
	if b := e.buffers[0][0]; string(b[:4]) != "abcd" {
		t.Errorf("buffer %q", b)
	}
	e.early("again", 2, last)
	e.wantDelivered("nothing before its turn")
	if !region.Valid() {
		t.Fatal("invalidated before its turn")
	}
	if st := e.s.PlacementStats(); st.OutOfOrder != 3 || st.OctetsEarly != 8 {
		t.Errorf("%+v", st)
	}
	clear(mem) // the stream in order is the authority
	e.deliver(write, last)
	e.wantDelivered("at its turn", `Send with Invalidate "abcd" invalidated `+region.STag().String())
	if string(mem) != "\x00\x00data\x00\x00" || region.Valid() {
		t.Errorf("region %q, valid %v", mem, region.Valid())
	}
}

// Overlapping Writes leave what they leave in order, whichever is placed first.
func TestEarlyOverlap(t *testing.T) {
	e := newEnd(t, responder)
	mem := guarded(t, 4)
	stag := uint32(e.register(mem, allRights).STag())
	older, newer := iwarptest.Write(stag, 0, []byte("aaaa")), iwarptest.Write(stag, 1, []byte("bb"))
	e.early("the newer one", 2, newer)
	e.deliver(older, newer)
	if string(mem) != "abba" {
		t.Errorf("region %q", mem)
	}
}

// Early placement of Responses fills the sinks of the Reads that are outstanding, and
// completes none.
func TestEarlyResponses(t *testing.T) {
	e := newEnd(t)
	bufs := [][]byte{guarded(t, 4), guarded(t, 4)}
	e.post(read(1, bufs[0]))
	e.post(read(2, bufs[1]))
	a := e.wantRead("Read", 1, 4, 0x11223344, 0x1000)
	b := e.wantRead("Read", 2, 4, 0x11223344, 0x1000)
	e.deliver(iwarptest.Tagged(2, false, a, 0, []byte("ab")))
	e.early("of the second Read", 4, iwarptest.ReadResponse(b, 0, []byte("wxyz")))
	e.early("an octet that has come", 0, iwarptest.Tagged(2, false, a, 1, []byte("X")))
	e.early("beyond the sink", 0, iwarptest.ReadResponse(b, 1, []byte("wxyz")))
	e.early("of no Read", 0, iwarptest.ReadResponse(b^1, 0, []byte("wxyz")))
	e.early("as a Write", 0, iwarptest.Write(b, 0, []byte("wxyz")))
	e.wantDone("nothing has had its turn", "")
	if string(bufs[0])+string(bufs[1]) != "ab\x00\x00wxyz" {
		t.Errorf("read %q", bufs)
	}
	e.deliver(iwarptest.ReadResponse(a, 2, []byte("cd")), iwarptest.ReadResponse(b, 0, []byte("wxyz")))
	e.wantDone("all", "1 2")
	if string(bufs[0])+string(bufs[1]) != "abcdwxyz" {
		t.Errorf("read %q", bufs)
	}
	e.early("of a Read that has completed", 0, iwarptest.ReadResponse(b, 0, []byte("late")))
	if string(bufs[1]) != "wxyz" {
		t.Errorf("read %q", bufs)
	}
}

// What breaks a rule is not placed, and its consequences wait for its turn.
//
// Shows: DDP-7.1-06, DDP-7.1-07, DDP-7.1-08, DDP-7.1-09, DDP-7.1-10
func TestEarlyHostile(t *testing.T) {
	// own, foreign and readOnly are STags of regions of 8 octets.
	const own, foreign, readOnly = 1, 2, 3
	write := func(region uint32, to uint64, data string) []byte { return iwarptest.Write(region, to, []byte(data)) }
	send := func(qn, msn, mo uint32, data string) []byte {
		return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, QN: qn, MSN: msn, MO: mo},
			[]byte(data))
	}
	clearBits := func(b []byte, at int, bits byte) []byte {
		b[at] &^= bits
		return b
	}
	tests := []struct {
		name string
		seg  []byte
		code protocol.Code // at its turn
	}{
		{name: "no header", seg: []byte{0xc1, 0x40, 0}, code: protocol.DDPLocalCatastrophic},
		{name: "no such STag", seg: write(0xffffff, 0, "x"), code: protocol.DDPTaggedInvalidSTag},
		{name: "STag 0", seg: write(0, 0, "x"), code: protocol.DDPTaggedInvalidSTag},
		{name: "another stream's", seg: write(foreign, 0, "x"), code: protocol.DDPTaggedSTagNotAssociated},
		{name: "no right", seg: write(readOnly, 0, "x"), code: protocol.DDPTaggedInvalidSTag},
		{name: "one octet too far", seg: write(own, 7, "xy"), code: protocol.DDPTaggedBounds},
		{name: "TO wraps", seg: write(own, ^uint64(0), "xy"), code: protocol.DDPTaggedTOWrap},
		{name: "opcode unknown", seg: iwarptest.Tagged(14, true, own, 0, []byte("x")), code: protocol.RDMAPOpcode},
		{
			name: "Send on a tagged buffer", seg: iwarptest.Tagged(3, true, own, 0, []byte("x")),
			code: protocol.RDMAPOpcode,
		},
		{name: "DV 0", seg: clearBits(write(own, 0, "x"), 0, 3), code: protocol.DDPTaggedVersion},
		{name: "RV 0", seg: clearBits(write(own, 0, "x"), 1, 0xc0), code: protocol.RDMAPVersion},
		{name: "beyond the receive buffer", seg: send(0, 1, 7, "xy"), code: protocol.DDPUntaggedTooLong},
		{name: "MO beyond it", seg: send(0, 1, ^uint32(0), "xy"), code: protocol.DDPUntaggedMO},
		{name: "MSN of a later message", seg: send(0, 2, 0, "x"), code: protocol.DDPUntaggedMSN},
		{name: "no such queue", seg: send(9, 1, 2, "x"), code: protocol.DDPUntaggedQN},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newEnd(t, responder)
			e.postRecv(8, 8)
			mem, others, source := guarded(t, 8), guarded(t, 8), guarded(t, 8)
			other, err := e.table.Register(ddp.RegionConfig{
				Buf: others, Access: allRights, PD: e.peer.PD, Stream: e.peer.Stream + 1<<20,
			})
			if err != nil {
				t.Fatal(err)
			}
			stags := map[uint32]*ddp.Region{
				own: e.register(mem, allRights), foreign: other, readOnly: e.register(source, ddp.RemoteRead),
			}
			e.deliver(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 1}, []byte("ab")))
			seg := bytes.Clone(tt.seg)
			if len(seg) > 6 && seg[0]&0x80 != 0 {
				if r := stags[binary.BigEndian.Uint32(seg[2:])]; r != nil {
					binary.BigEndian.PutUint32(seg[2:], uint32(r.STag()))
				}
			}
			e.early(tt.name, 0, seg)
			all := bytes.Join([][]byte{mem, others, source, e.buffers[0][0][2:], e.buffers[1][0]}, nil)
			if len(bytes.Trim(all, "\x00")) > 0 {
				t.Errorf("memory has changed: %q", all)
			}
			if e.s.Failed() {
				t.Fatal("failed before its turn")
			}
			e.wantError("at its turn", seg, tt.code)
		})
	}
}

// Requests, Immediate Data and Terminates do nothing early, nor does anything once the
// stream has failed or the peer has closed its half.
func TestEarlyOnlyPayload(t *testing.T) {
	e := newEnd(t, responder)
	e.postRecv(8)
	mem := guarded(t, 8)
	stag := uint32(e.register(mem, allRights).STag())
	e.early("Read Request", 0, iwarptest.ReadRequest(1, 1, 0, 4, stag, 0))
	e.early("atomic", 0, iwarptest.FetchAdd(1, 1, stag, 0, 1, 0))
	e.early("Immediate Data", 0, iwarptest.Immediate(1, [8]byte{1}))
	e.early("Terminate", 0, iwarptest.Terminate(0x0100, nil))
	e.early("no payload", 0, iwarptest.Write(stag, 0, nil))
	e.early("a Send whose message has not begun", 0, iwarptest.Send(1, []byte("x")))
	if e.taken != 0 {
		t.Error("a buffer was taken early")
	}
	write := iwarptest.Write(stag, 0, []byte("x"))
	e.deliver(write)
	e.s.Fail(&protocol.Error{Code: rdmapFailure}, true)
	if n := e.s.ReceiveEarly(iwarptest.Write(stag, 4, []byte("x"))); n != 0 {
		t.Error("placed after the stream has failed")
	}
	e = newEnd(t, responder, unordered)
	mem = guarded(t, 8)
	stag = uint32(e.register(mem, allRights).STag())
	e.early("over an LLP that numbers its segments", 0, iwarptest.Write(stag, 0, []byte("x")))
}

const rdmapFailure = protocol.RDMAPStreamCatastrophic
