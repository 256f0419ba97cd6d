package rdmap_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// wordMemory is memory for words of this machine, aligned, with these values.
func wordMemory(t tb, words ...uint64) []byte {
	t.Helper()
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
	return b
}

func nativeWord(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }

// Shows: EXT-1.1-02, EXT-5-02, EXT-5.1.1-01, EXT-5.1.1-03, EXT-5.1.2-01, EXT-5.2.1-04, EXT-5.2.1-08, EXT-5.2.1-13
// Shows: EXT-5.2.2-01, EXT-5.2.2-02, EXT-5.2.2-05, EXT-5.4-02, EXT-5.4-05, EXT-5-05
func TestAtomics(t *testing.T) {
	a, b := newEnd(t), newEnd(t, responder)
	all := ^uint64(0)
	for _, c := range []struct {
		name      string
		r         rdmap.SendWR
		old, want uint64
	}{
		{name: "add", r: rdmap.SendWR{Op: rdmap.OpFetchAdd, Operand: 1}, old: 5, want: 6},
		{name: "probe", r: rdmap.SendWR{Op: rdmap.OpFetchAdd}, old: 5, want: 5},
		{name: "add wraps", r: rdmap.SendWR{Op: rdmap.OpFetchAdd, Operand: 1}, old: all, want: 0},
		{
			name: "add in fields",
			r:    rdmap.SendWR{Op: rdmap.OpFetchAdd, Operand: 0x0001000100010001, OperandMask: 0x0080008000800080},
			old:  0x00ff00ff00ff00ff, want: 0,
		},
		{
			name: "swap",
			r:    rdmap.SendWR{Op: rdmap.OpCompareSwap, Operand: 9, OperandMask: all, Compare: 42, CompareMask: all},
			old:  42, want: 9,
		},
		{
			name: "no swap",
			r:    rdmap.SendWR{Op: rdmap.OpCompareSwap, Operand: 9, OperandMask: all, Compare: 41, CompareMask: all},
			old:  42, want: 42,
		},
		{
			name: "swap under masks",
			r: rdmap.SendWR{
				Op: rdmap.OpCompareSwap, Operand: 0xff00, OperandMask: 0xff00, Compare: 0x34, CompareMask: 0xff,
			},
			old: 0x1234, want: 0xff34,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := wordMemory(t, 0xa5a5, c.old, 0xa5a5)
			c.r.Remote.STag, c.r.Remote.TO, c.r.ID = b.register(mem, ddp.RemoteAtomic).STag(), 8, 1
			a.post(c.r)
			a.transmit()
			a.wantDone("not before the Response", "")
			pump(a, b)
			if got := a.done[0]; got.Original != c.old || got.Length != 8 {
				t.Errorf("completed %+v, want original %#x", got, c.old)
			}
			a.wantDone("the Response has come", "1")
			want := append(append(nativeWord(0xa5a5), nativeWord(c.want)...), nativeWord(0xa5a5)...)
			if string(mem) != string(want) {
				t.Errorf("memory is %x, want %x", mem, want)
			}
		})
	}
	b.wantDelivered("atomics are not delivered to the ULP")
}

// Shows: EXT-5.1.1-02, EXT-5.1.2-02, EXT-5.2.1-05, EXT-5.2.1-10, EXT-8.1-01, EXT-8.2-04, EXT-8.2-05, RDMAP-4.8-09
func TestAtomicErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		code protocol.Code
		op   uint8
		to   uint64
		off  int // of the region within aligned memory
		stag func(e *end, s uint32) uint32
	}{
		{name: "TO not aligned", code: protocol.RDMAPStreamCatastrophic, to: 1},
		{name: "CmpSwap, TO not aligned", code: protocol.RDMAPStreamCatastrophic, op: 2, to: 4},
		{name: "address not aligned", code: protocol.RDMAPStreamCatastrophic, off: 4},
		{name: "beyond the end", code: protocol.RDMAPBounds, to: 24},
		{name: "wrap", code: protocol.RDMAPTOWrap, to: ^uint64(7)},
		{name: "unknown STag", code: protocol.RDMAPInvalidSTag, stag: func(_ *end, s uint32) uint32 { return s ^ 1 }},
		{name: "no right", code: protocol.RDMAPAccess, stag: func(e *end, s uint32) uint32 {
			e.table.Lookup(ddp.STag(s)).SetAccess(ddp.RemoteRead | ddp.RemoteWrite)
			return s
		}},
		{name: "reserved operation", code: protocol.RDMAPOpcode, op: 1},
		{name: "unknown operation", code: protocol.RDMAPOpcode, op: 15},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnd(t, responder)
			mem := wordMemory(t, 1, 2, 3, 4)
			before := string(mem)
			stag := uint32(e.register(mem[c.off:24+c.off:24+c.off], allRights).STag())
			if c.stag != nil {
				stag = c.stag(e, stag)
			}
			seg := iwarptest.AtomicRequest(1, c.op, 7, stag, c.to, 1, 0, 0, 0)
			if err := e.receive(seg); err != nil && err.Code != c.code {
				t.Fatalf("%v, want %v", err, c.code)
			}
			// The header of an Atomic Request is never echoed: R is 0.
			e.wantTerminate(c.name, c.code, seg)
			if string(mem) != before {
				t.Error("memory has changed")
			}
		})
	}
}

// It is the address in the target's memory that must be aligned, and not the TO.
// Shows: EXT-5.1.1-02, EXT-5.1.2-02, EXT-5.2.1-05, EXT-8.2-04
func TestAtomicAlignment(t *testing.T) {
	for _, op := range []uint8{0, 2} {
		for off := range 8 {
			for to := range uint64(8) {
				e := newEnd(t, responder)
				mem := wordMemory(t, 1, 2, 3)
				stag := uint32(e.register(mem[off:16+off:16+off], allRights).STag())
				// FetchAdd of 1, or CmpSwap of 1 for whatever is there.
				seg := iwarptest.AtomicRequest(1, op, 7, stag, to, 1, ^uint64(0), 0, 0)
				if op == 0 {
					seg = iwarptest.AtomicRequest(1, op, 7, stag, to, 1, 0, 0, 0)
				}
				e.deliver(seg)
				what := fmt.Sprintf("operation %d, region at an address of %d more, TO %d", op, off, to)
				if (off+int(to))%8 != 0 {
					e.wantTerminate(what, protocol.RDMAPStreamCatastrophic, seg)
					continue
				}
				e.wantSegment(what, iwarptest.AtomicResponse(1, 7, uint64(1+(off+int(to))/8)))
			}
		}
	}
}

// Shows: EXT-5.2.2-02, EXT-5.2.2-04, EXT-5.2.2-06, EXT-5-05
func TestAtomicResponseErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		code protocol.Code
		seg  []byte
		with func(e *end)
	}{
		{name: "wrong identifier", code: protocol.RDMAPOperationUnspecified, seg: iwarptest.AtomicResponse(1, 2, 0)},
		{name: "11 octets", code: protocol.RDMAPOperationUnspecified, seg: iwarptest.AtomicResponse(1, 1, 0)[:29]},
		{name: "13 octets", code: protocol.DDPUntaggedTooLong, seg: append(iwarptest.AtomicResponse(1, 1, 0), 0)},
		{name: "wrong MSN", code: protocol.DDPUntaggedMSN, seg: iwarptest.AtomicResponse(2, 1, 0)},
		{
			name: "a Read is due first", code: protocol.RDMAPOpcode, seg: iwarptest.AtomicResponse(1, 1, 0),
			with: func(e *end) { e.post(read(9, nil)) },
		},
		{name: "a Read Response instead", code: protocol.DDPTaggedInvalidSTag, seg: iwarptest.ReadResponse(1, 0, nil)},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnd(t)
			if c.with != nil {
				c.with(e)
			}
			e.post(rdmap.SendWR{ID: 1, Op: rdmap.OpFetchAdd, Remote: rdmap.RemoteBuffer{STag: 7}})
			e.transmit()
			e.llp.sent = nil
			e.wantError(c.name, c.seg, c.code)
			e.wantTerminate(c.name, c.code, c.seg)
			if len(e.done) == 0 || e.done[0].Err == nil {
				t.Error("the atomic is complete without an error")
			}
		})
	}
	e := newEnd(t)
	e.post(rdmap.SendWR{ID: 1, Op: rdmap.OpFetchAdd, Remote: rdmap.RemoteBuffer{STag: 7}})
	e.transmit()
	e.deliver(iwarptest.AtomicResponse(1, 1, 5))
	err := e.wantError("one more than requested", iwarptest.AtomicResponse(2, 2, 5), protocol.DDPUntaggedNoBuffer)
	if !strings.Contains(err.Detail, "QN 3") {
		t.Errorf("%v", err)
	}
}

// Shows: EXT-5-01, EXT-5.3-01
// Streams that share a region add to one word, and so does this process.
func TestAtomicsOfManyStreams(t *testing.T) {
	const streams, times = 4, 200
	table := ddp.NewTable(0)
	mem := wordMemory(t, 0)
	region, err := table.Register(ddp.RegionConfig{Buf: mem, Access: ddp.RemoteAtomic, PD: 1})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range streams {
		e := newEnd(t, responder, ird(times), func(c *rdmap.Config) { c.Table = table })
		wg.Go(func() {
			for i := range uint32(times) {
				if err := e.receive(iwarptest.FetchAdd(i+1, i, uint32(region.STag()), 0, 3, 0)); err != nil {
					t.Error(err)
				}
				if _, err := e.s.Transmit(e.llp, true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := binary.NativeEndian.Uint64(mem); got != 3*streams*times {
		t.Errorf("the sum is %d, want %d", got, 3*streams*times)
	}
}

// The Request Identifier is the requester's choice: any value comes back as it is,
// whatever the reserved bits beside the operation code are.
//
// Shows: EXT-5.2.1-02, EXT-5.2.2-01
func TestRequestIdentifierIsReflected(t *testing.T) {
	e := newEnd(t, responder)
	stag := uint32(e.register(wordMemory(t, 0), allRights).STag())
	for i, id := range []uint32{0, 1, 1, 0x80000000, 0xffffffff, 7} { // also twice the same
		msn := uint32(i + 1)
		request := iwarptest.FetchAdd(msn, id, stag, 0, 1, 0)
		copy(request[ddp.UntaggedHeaderLen:], []byte{0xff, 0xff, 0xff, 0xf0}) // reserved, and AOpCode 0
		e.deliver(request)
		e.wantSegment("the identifier comes back", iwarptest.AtomicResponse(msn, id, uint64(i)))
	}
}
