package rdmap_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

const allOnes = math.MaxUint64

// everyPrefix checks that each truncation of a header is io.ErrUnexpectedEOF
// and that octets behind it are not touched.
func everyPrefix(t *testing.T, whole []byte, parse func(b []byte) (int, error)) {
	t.Helper()
	for i := range whole {
		if n, err := parse(whole[:i:i]); n != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d of %d octets give %d, %v, want io.ErrUnexpectedEOF", i, len(whole), n, err)
		}
	}
	if n, err := parse(append(bytes.Clone(whole), 0xee, 0xee)); err != nil || n != len(whole) {
		t.Errorf("with octets behind: %d, %v, want %d", n, err, len(whole))
	}
}

var readRequests = []struct {
	name, hex string
	req       rdmap.ReadRequest
}{
	{
		name: "64 octets", hex: "aabbcc01 0000000000002000 00000040 11223344 0000000000001000",
		req: rdmap.ReadRequest{SinkSTag: 0xaabbcc01, SinkTO: 0x2000, Size: 64, SrcSTag: 0x11223344, SrcTO: 0x1000},
	},
	{
		name: "zero-length", hex: "00000001 0000000000000000 00000000 00000001 0000000000000000",
		req: rdmap.ReadRequest{SinkSTag: 1, SrcSTag: 1},
	},
	{
		name: "the largest", hex: "ffffffff fffffffffffffffe ffffffff fffffffd fffffffffffffffc",
		req: rdmap.ReadRequest{
			SinkSTag: math.MaxUint32, SinkTO: allOnes - 1, Size: math.MaxUint32, SrcSTag: math.MaxUint32 - 2,
			SrcTO: allOnes - 3,
		},
	},
}

// Shows: RDMAP-4.4-01, RDMAP-4.4-03, RDMAP-4.4-04
func TestReadRequestBothWays(t *testing.T) {
	for _, tt := range readRequests {
		t.Run(tt.name, func(t *testing.T) {
			want := wire(t, tt.hex)
			if len(want) != rdmap.ReadRequestLen || rdmap.ReadRequestLen != 28 {
				t.Fatalf("%d octets, want 28", len(want))
			}
			if got := tt.req.AppendTo([]byte{9}); !bytes.Equal(got[1:], want) || got[0] != 9 {
				t.Errorf("AppendTo gives %x, want %x", got, want)
			}
			if got, n, err := rdmap.ParseReadRequest(want); err != nil || n != 28 || got != tt.req {
				t.Errorf("reads %+v, %d, %v, want %+v", got, n, err, tt.req)
			}
			everyPrefix(t, want, func(b []byte) (int, error) {
				_, n, err := rdmap.ParseReadRequest(b)
				return n, err
			})
		})
	}
}

// Shows: RDMAP-4.8-08
func TestReadRequestAdvance(t *testing.T) {
	start := rdmap.ReadRequest{SinkSTag: 1, SinkTO: 100, Size: 4096, SrcSTag: 2, SrcTO: allOnes}
	for _, tt := range []struct {
		n    uint32
		want rdmap.ReadRequest
	}{
		{n: 0, want: start},
		{n: 2048, want: rdmap.ReadRequest{SinkSTag: 1, SinkTO: 2148, Size: 2048, SrcSTag: 2, SrcTO: 2047}},
		{n: 4096, want: rdmap.ReadRequest{SinkSTag: 1, SinkTO: 4196, Size: 0, SrcSTag: 2, SrcTO: 4095}},
		{n: 5000, want: rdmap.ReadRequest{SinkSTag: 1, SinkTO: 4196, Size: 0, SrcSTag: 2, SrcTO: 4095}},
	} {
		if got := start.Advance(tt.n); got != tt.want {
			t.Errorf("after %d octets %+v, want %+v", tt.n, got, tt.want)
		}
	}
}

// Shows: EXT-4.2-01, EXT-6.2-01, EXT-6.3-06
func TestImmediateDataBothWays(t *testing.T) {
	want := wire(t, "0102030405060708")
	d := rdmap.ImmediateUint64(0x0102030405060708)
	if got := d.AppendTo([]byte{9}); !bytes.Equal(got[1:], want) || got[0] != 9 || rdmap.ImmediateDataLen != 8 {
		t.Errorf("AppendTo gives %x, want %x", got, want)
	}
	got, n, err := rdmap.ParseImmediateData(want)
	if err != nil || n != 8 || got != d || got.Uint64() != 0x0102030405060708 {
		t.Errorf("reads %x, %d, %v, want %x", got, n, err, d)
	}
	everyPrefix(t, want, func(b []byte) (int, error) {
		_, n, err := rdmap.ParseImmediateData(b)
		return n, err
	})
}

var atomicRequests = []struct {
	name, hex string
	req       rdmap.AtomicRequest
	made      rdmap.AtomicRequest
}{
	{
		name: "FetchAdd",
		hex: "00000000 00000077 11223344 0000000000001008 0000000000000005 0000000000000000 0000000000000000 " +
			"ffffffffffffffff",
		req: rdmap.AtomicRequest{
			Op: rdmap.AtomicFetchAdd, ID: 0x77, STag: 0x11223344, TO: 0x1008, Data: 5, CompareMask: allOnes,
		},
		made: rdmap.NewFetchAdd(0x77, 0x11223344, 0x1008, 5, 0),
	},
	{
		name: "CmpSwap",
		hex: "00000002 00000078 11223344 0000000000001008 0000000000000009 ffffffffffffffff 000000000000002a " +
			"ffffffffffffffff",
		req: rdmap.AtomicRequest{
			Op: rdmap.AtomicCmpSwap, ID: 0x78, STag: 0x11223344, TO: 0x1008, Data: 9, Mask: allOnes, Compare: 0x2a,
			CompareMask: allOnes,
		},
		made: rdmap.NewCmpSwap(0x78, 0x11223344, 0x1008, 0x2a, allOnes, 9, allOnes),
	},
	{
		name: "CmpSwap, every field its own",
		hex: "00000002 01020304 05060708 1112131415161718 2122232425262728 3132333435363738 4142434445464748 " +
			"5152535455565758",
		req: rdmap.AtomicRequest{
			Op: rdmap.AtomicCmpSwap, ID: 0x01020304, STag: 0x05060708, TO: 0x1112131415161718, Data: 0x2122232425262728,
			Mask: 0x3132333435363738, Compare: 0x4142434445464748, CompareMask: 0x5152535455565758,
		},
		made: rdmap.NewCmpSwap(0x01020304, 0x05060708, 0x1112131415161718, 0x4142434445464748, 0x5152535455565758,
			0x2122232425262728, 0x3132333435363738),
	},
}

// Shows: EXT-4.2-01, EXT-5.2.1-01, EXT-5.2.1-03, EXT-5.2.1-04, EXT-5.1.1-03
func TestAtomicRequestBothWays(t *testing.T) {
	for _, tt := range atomicRequests {
		t.Run(tt.name, func(t *testing.T) {
			want := wire(t, tt.hex)
			if len(want) != rdmap.AtomicRequestLen || rdmap.AtomicRequestLen != 52 {
				t.Fatalf("%d octets, want 52", len(want))
			}
			if tt.made != tt.req {
				t.Errorf("made as %+v, want %+v", tt.made, tt.req)
			}
			if got := tt.req.AppendTo([]byte{9}); !bytes.Equal(got[1:], want) || got[0] != 9 {
				t.Errorf("AppendTo gives %x, want %x", got, want)
			}
			if got, n, err := rdmap.ParseAtomicRequest(want); err != nil || n != 52 || got != tt.req {
				t.Errorf("reads %+v, %d, %v, want %+v", got, n, err, tt.req)
			}
			everyPrefix(t, want, func(b []byte) (int, error) {
				_, n, err := rdmap.ParseAtomicRequest(b)
				return n, err
			})
		})
	}
}

// Shows: EXT-5.2.1-02
func TestAtomicRequestReservedBits(t *testing.T) {
	b := wire(t, atomicRequests[1].hex)
	copy(b, []byte{0xff, 0xff, 0xff, 0xf2})
	got, _, err := rdmap.ParseAtomicRequest(b)
	if err != nil || got != atomicRequests[1].req {
		t.Errorf("reserved bits set: %+v, %v, want them ignored", got, err)
	}
	if sent := got.AppendTo(nil); !bytes.Equal(sent[:4], []byte{0, 0, 0, 2}) {
		t.Errorf("sent as %x, want reserved bits zero", sent[:4])
	}
}

var atomicResponses = []struct {
	hex string
	rsp rdmap.AtomicResponse
}{
	{hex: "00000077 0000000000000025", rsp: rdmap.AtomicResponse{ID: 0x77, Original: 0x25}},
	{hex: "ffffffff fffffffffffffffe", rsp: rdmap.AtomicResponse{ID: math.MaxUint32, Original: allOnes - 1}},
}

// Shows: EXT-4.2-01, EXT-5.2.1-02, EXT-5.2.2-01, EXT-5.1.1-03
func TestAtomicResponseBothWays(t *testing.T) {
	for _, tt := range atomicResponses {
		want := wire(t, tt.hex)
		if len(want) != rdmap.AtomicResponseLen || rdmap.AtomicResponseLen != 12 {
			t.Fatalf("%d octets, want 12", len(want))
		}
		if got := tt.rsp.AppendTo([]byte{9}); !bytes.Equal(got[1:], want) || got[0] != 9 {
			t.Errorf("AppendTo gives %x, want %x", got, want)
		}
		if got, n, err := rdmap.ParseAtomicResponse(want); err != nil || n != 12 || got != tt.rsp {
			t.Errorf("reads %+v, %d, %v, want %+v", got, n, err, tt.rsp)
		}
		everyPrefix(t, want, func(b []byte) (int, error) {
			_, n, err := rdmap.ParseAtomicResponse(b)
			return n, err
		})
	}
}

// The hand-made messages of iwarptest know nothing of this package's codecs.
//
// Shows: RDMAP-4.4-01, RDMAP-4.8-01, EXT-4.2-01, EXT-5.2.1-01, EXT-5.2.1-06, EXT-5.2.2-01, EXT-6.2-01
func TestHeadersAgreeWithHandMadeMessages(t *testing.T) {
	read := rdmap.ReadRequest{SinkSTag: 1, SinkTO: 2, Size: 3, SrcSTag: 4, SrcTO: 5}
	add := rdmap.NewFetchAdd(2, 3, 8, 5, 6)
	swap := rdmap.NewCmpSwap(2, 3, 8, 5, allOnes, 6, allOnes)
	rsp := rdmap.AtomicResponse{ID: 2, Original: 3}
	immediate := rdmap.ImmediateUint64(0x0102030405060708)
	handMadeRead := iwarptest.ReadRequest(9, 1, 2, 3, 4, 5)
	term := rdmap.Terminate{Code: protocol.RDMAPTOWrap, Offender: &protocol.Offender{
		SegmentLength: uint16(len(handMadeRead)), DDPHeader: handMadeRead[:18], RDMAPHeader: handMadeRead[18:],
	}}
	for _, tt := range []struct {
		op       rdmap.Opcode
		msn      uint32
		body     []byte
		handMade []byte
	}{
		{op: rdmap.OpcodeReadRequest, msn: 9, body: read.AppendTo(nil), handMade: handMadeRead},
		{
			op: rdmap.OpcodeAtomicRequest, msn: 9, body: add.AppendTo(nil),
			handMade: iwarptest.FetchAdd(9, 2, 3, 8, 5, 6),
		},
		{
			op: rdmap.OpcodeAtomicRequest, msn: 9, body: swap.AppendTo(nil),
			handMade: iwarptest.CmpSwap(9, 2, 3, 8, 5, 6),
		},
		{op: rdmap.OpcodeAtomicResponse, msn: 9, body: rsp.AppendTo(nil), handMade: iwarptest.AtomicResponse(9, 2, 3)},
		{op: rdmap.OpcodeImmediate, msn: 9, body: immediate.AppendTo(nil), handMade: iwarptest.Immediate(9, immediate)},
		{
			op: rdmap.OpcodeImmediateSolicited, msn: 9, body: immediate.AppendTo(nil),
			handMade: iwarptest.ImmediateSolicited(9, immediate),
		},
		{
			op: rdmap.OpcodeTerminate, msn: 1, body: term.AppendTo(nil),
			handMade: iwarptest.Terminate(0x0104, handMadeRead),
		},
	} {
		h := ddp.Header{
			Last: true, Version: ddp.Version, Control: uint8(rdmap.NewControl(tt.op)), QN: tt.op.QN(), MSN: tt.msn,
		}
		if got := append(h.AppendTo(nil), tt.body...); !bytes.Equal(got, tt.handMade) {
			t.Errorf("%v:\ngot  %s\nwant %s", tt.op, iwarptest.Describe(got), iwarptest.Describe(tt.handMade))
		}
	}
}

func TestHeadersDoNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() {
		b := readRequests[0].req.AppendTo(buf)
		_, _, _ = rdmap.ParseReadRequest(b)
		b = atomicRequests[0].req.AppendTo(buf)
		_, _, _ = rdmap.ParseAtomicRequest(b)
		b = atomicResponses[0].rsp.AppendTo(buf)
		_, _, _ = rdmap.ParseAtomicResponse(b)
		b = rdmap.ImmediateUint64(1).AppendTo(buf)
		_, _, _ = rdmap.ParseImmediateData(b)
		_ = rdmap.NewControl(rdmap.OpcodeSend).Check(rdmap.Version, false, 0)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// FuzzParseHeaders: each header either is too short, or writes back the octets
// that it was read from (the reserved bits of an Atomic Request as zero).
func FuzzParseHeaders(f *testing.F) {
	for _, tt := range readRequests {
		f.Add(wire(f, tt.hex))
	}
	for _, tt := range atomicRequests {
		f.Add(wire(f, tt.hex))
	}
	for _, tt := range atomicResponses {
		f.Add(wire(f, tt.hex))
	}
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		same := func(name string, size, n int, err error, again []byte) {
			t.Helper()
			if len(b) < size {
				if n != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("%s of %d octets: %d, %v", name, len(b), n, err)
				}
				return
			}
			if err != nil || n != size || !bytes.Equal(again, b[:size]) {
				t.Fatalf("%s %x: %d, %v, written again as %x", name, b, n, err, again)
			}
		}
		rr, n, err := rdmap.ParseReadRequest(b)
		same("Read Request", 28, n, err, rr.AppendTo(nil))
		d, n, err := rdmap.ParseImmediateData(b)
		same("Immediate Data", 8, n, err, d.AppendTo(nil))
		rsp, n, err := rdmap.ParseAtomicResponse(b)
		same("Atomic Response", 12, n, err, rsp.AppendTo(nil))
		req, n, err := rdmap.ParseAtomicRequest(b)
		if len(b) >= 52 {
			b = bytes.Clone(b)
			copy(b, []byte{0, 0, 0, b[3] & 0xf})
		}
		same("Atomic Request", 52, n, err, req.AppendTo(nil))
	})
}
