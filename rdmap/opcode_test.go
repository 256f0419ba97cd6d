package rdmap_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// wire reads hexadecimal digits, spaces allowed.
func wire(t testing.TB, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// figure4 is figure 4 and 5 of RFC 5040 and figures 2 and 3 of RFC 7306, typed
// from the RFCs and not from the package.
var figure4 = []struct {
	op         rdmap.Opcode
	number     uint8
	name       string
	tagged     bool
	qn         uint32
	header     int
	payload    bool
	solicited  bool
	invalidate bool
	response   bool
}{
	{op: rdmap.OpcodeWrite, number: 0, name: "RDMA Write", tagged: true, qn: 0, header: -1, payload: true},
	{op: rdmap.OpcodeReadRequest, number: 1, name: "RDMA Read Request", qn: 1, header: 28},
	{
		op: rdmap.OpcodeReadResponse, number: 2, name: "RDMA Read Response", tagged: true, qn: 0, header: -1,
		payload: true, response: true,
	},
	{op: rdmap.OpcodeSend, number: 3, name: "Send", qn: 0, header: -1, payload: true},
	{
		op: rdmap.OpcodeSendInvalidate, number: 4, name: "Send with Invalidate", qn: 0, header: -1, payload: true,
		invalidate: true,
	},
	{op: rdmap.OpcodeSendSolicited, number: 5, name: "Send with SE", qn: 0, header: -1, payload: true, solicited: true},
	{
		op: rdmap.OpcodeSendSolicitedInvalidate, number: 6, name: "Send with SE and Invalidate", qn: 0, header: -1,
		payload: true, solicited: true, invalidate: true,
	},
	{op: rdmap.OpcodeTerminate, number: 7, name: "Terminate", qn: 2, header: -1},
	{op: rdmap.OpcodeImmediate, number: 8, name: "Immediate Data", qn: 0, header: 8},
	{op: rdmap.OpcodeImmediateSolicited, number: 9, name: "Immediate Data with SE", qn: 0, header: 8, solicited: true},
	{op: rdmap.OpcodeAtomicRequest, number: 10, name: "Atomic Request", qn: 1, header: 52},
	{op: rdmap.OpcodeAtomicResponse, number: 11, name: "Atomic Response", qn: 3, header: 12, response: true},
}

// Shows: RDMAP-4.1-04, RDMAP-4.1-05, RDMAP-4.1-08, RDMAP-4.2-01
// Shows: EXT-4.1-01, EXT-4.1-03, EXT-4.2-01, EXT-6.3-01, EXT-6.3-02, EXT-10.2-01
func TestOpcodeTable(t *testing.T) {
	for _, row := range figure4 {
		op := row.op
		if uint8(op) != row.number || !op.Known() {
			t.Errorf("%v is %d (known %v), want %d", op, uint8(op), op.Known(), row.number)
		}
		if got := op.String(); got != row.name {
			t.Errorf("opcode %d is %q, want %q", row.number, got, row.name)
		}
		if got := op.Tagged(); got != row.tagged {
			t.Errorf("%v: Tagged %v, want %v", op, got, row.tagged)
		}
		if got := op.QN(); got != row.qn {
			t.Errorf("%v: QN %d, want %d", op, got, row.qn)
		}
		if got := op.HeaderLen(); got != row.header {
			t.Errorf("%v: HeaderLen %d, want %d", op, got, row.header)
		}
		if got := op.Payload(); got != row.payload {
			t.Errorf("%v: Payload %v, want %v", op, got, row.payload)
		}
		if got := op.Solicited(); got != row.solicited {
			t.Errorf("%v: Solicited %v, want %v", op, got, row.solicited)
		}
		if got := op.Invalidates(); got != row.invalidate {
			t.Errorf("%v: Invalidates %v, want %v", op, got, row.invalidate)
		}
		if got := op.Response(); got != row.response {
			t.Errorf("%v: Response %v, want %v", op, got, row.response)
		}
	}
}

// Shows: RDMAP-4.1-05, EXT-4.1-01, IANA-3.4-01
func TestOtherOpcodesAreUnknown(t *testing.T) {
	for _, op := range []rdmap.Opcode{12, 13, 14, 15, 16, 255} {
		if op.Known() || op.Tagged() || op.Payload() || op.HeaderLen() != -1 || op.QN() != 0 {
			t.Errorf("%v has traits", op)
		}
	}
	if got := rdmap.Opcode(15).String(); got != "opcode 15" {
		t.Errorf("opcode 15 is %q", got)
	}
}

// Shows: RDMAP-4.1-01, RDMAP-4.1-06, RDMAP-4.1-07, EXT-4.1-01
func TestControl(t *testing.T) {
	for _, row := range figure4 {
		c := rdmap.NewControl(row.op)
		if want := rdmap.Control(0x40 | row.number); c != want {
			t.Errorf("%v is sent as %#02x, want %#02x: RV 1, Rsv 0", row.op, uint8(c), uint8(want))
		}
	}
	for i := range 256 {
		c := rdmap.Control(i)
		v, r, op := c.Version(), c.Reserved(), c.Opcode()
		if got := v<<6 | r<<4 | uint8(op); got != uint8(i) || v > 3 || r > 3 || op > 15 {
			t.Errorf("%#02x: RV %d, Rsv %d, opcode %d", i, v, r, op)
		}
	}
	for c, want := range map[rdmap.Control]string{
		0x43: "Send", 0x73: "Send Rsv=3", 0x83: "Send RV=2", 0x1f: "opcode 15 RV=0 Rsv=1",
	} {
		if got := c.String(); got != want {
			t.Errorf("%#02x is %q, want %q", uint8(c), got, want)
		}
	}
}

// Every control octet, in both buffer models, on every queue that exists and one
// that does not.
//
// Shows: RDMAP-4.1-04, RDMAP-4.1-05, RDMAP-4.1-06, RDMAP-4.1-07, RDMAP-4.1-08
// Shows: EXT-4.1-03, EXT-8.2-02, EXT-8.2-03, IANA-3.4-01
func TestControlCheck(t *testing.T) {
	for i := range 256 {
		for _, tagged := range []bool{false, true} {
			for qn := range uint32(5) {
				c := rdmap.Control(i)
				var want protocol.Code // 0: accepted
				switch op := i & 0xf; {
				case i>>6 != 1:
					want = protocol.RDMAPVersion
				case op >= len(figure4), figure4[op].tagged != tagged, !tagged && figure4[op].qn != qn:
					want = protocol.RDMAPOpcode
				}
				var got protocol.Code
				if err := c.Check(rdmap.Version, tagged, qn); err != nil {
					got = err.Code
					if err.Remote || err.Detail == "" || err.Section == "" {
						t.Errorf("error %+v does not explain itself", err)
					}
				}
				if got != want {
					t.Fatalf("control %#02x, tagged %v, QN %d: %v, want %v", i, tagged, qn, got, want)
				}
			}
		}
	}
}

// Shows: RDMAP-4.1-06
func TestControlCheckOfTheConsortiumsVersion(t *testing.T) {
	if err := rdmap.Control(0x03).Check(0, false, 0); err != nil {
		t.Errorf("RV 0 on a connection that agreed on it: %v", err)
	}
	err := rdmap.NewControl(rdmap.OpcodeSend).Check(0, false, 0)
	if err == nil || err.Code != protocol.RDMAPVersion {
		t.Errorf("RV 1 on a connection that agreed on 0: %v, want %v", err, protocol.RDMAPVersion)
	}
}

// segments are whole DDP segments whose header RDMAP filled in.
var segments = []struct {
	name   string
	hex    string
	header ddp.Header
	op     rdmap.Opcode
	body   string
}{
	{
		name: "write", hex: "c140 11223344 0000000000001000 646972656374206461746120 21",
		header: ddp.Header{Tagged: true, Last: true, Version: 1, STag: 0x11223344, TO: 0x1000},
		op:     rdmap.OpcodeWrite, body: "direct data !",
	},
	{
		name: "zero-length write", hex: "c140 00000001 0000000000000000",
		header: ddp.Header{Tagged: true, Last: true, Version: 1, STag: 1},
		op:     rdmap.OpcodeWrite, body: "",
	},
	{
		name: "read response", hex: "c142 aabbcc01 0000000000002000 000102",
		header: ddp.Header{Tagged: true, Last: true, Version: 1, STag: 0xaabbcc01, TO: 0x2000},
		op:     rdmap.OpcodeReadResponse, body: "\x00\x01\x02",
	},
	{
		name: "send", hex: "4143 00000000 00000000 00000001 00000000 68656c6c6f",
		header: ddp.Header{Last: true, Version: 1, MSN: 1},
		op:     rdmap.OpcodeSend, body: "hello",
	},
	{
		name: "send with invalidate", hex: "4144 11223344 00000000 00000003 00000000 627965",
		header: ddp.Header{Last: true, Version: 1, ULP32: 0x11223344, MSN: 3},
		op:     rdmap.OpcodeSendInvalidate, body: "bye",
	},
	{
		name: "send with SE", hex: "4145 00000000 00000000 00000004 00000000 64696e67",
		header: ddp.Header{Last: true, Version: 1, MSN: 4},
		op:     rdmap.OpcodeSendSolicited, body: "ding",
	},
	{
		name: "send with SE and invalidate", hex: "4146 55667788 00000000 00000005 00000000 646f6e67",
		header: ddp.Header{Last: true, Version: 1, ULP32: 0x55667788, MSN: 5},
		op:     rdmap.OpcodeSendSolicitedInvalidate, body: "dong",
	},
	{
		name: "immediate", hex: "4148 00000000 00000000 00000006 00000000 0102030405060708",
		header: ddp.Header{Last: true, Version: 1, MSN: 6},
		op:     rdmap.OpcodeImmediate, body: "\x01\x02\x03\x04\x05\x06\x07\x08",
	},
	{
		name: "immediate with SE", hex: "4149 00000000 00000000 00000007 00000000 1112131415161718",
		header: ddp.Header{Last: true, Version: 1, MSN: 7},
		op:     rdmap.OpcodeImmediateSolicited, body: "\x11\x12\x13\x14\x15\x16\x17\x18",
	},
}

// Shows: RDMAP-4.1-01, RDMAP-4.1-02, RDMAP-4.1-03, RDMAP-4.1-05
// Shows: EXT-4.1-02, EXT-6.3-01, EXT-6.3-02, EXT-6.3-06
func TestSegmentsBothWays(t *testing.T) {
	for _, tt := range segments {
		t.Run(tt.name, func(t *testing.T) {
			want := wire(t, tt.hex)
			h := tt.header
			h.Control = uint8(rdmap.NewControl(tt.op))
			if got := append(h.AppendTo(nil), tt.body...); !bytes.Equal(got, want) {
				t.Errorf("sent as %x, want %x", got, want)
			}
			got, n, err := ddp.Parse(want)
			if err != nil || got != h || string(want[n:]) != tt.body {
				t.Errorf("reads %+v, %d, %v, want %+v", got, n, err, h)
			}
			if perr := rdmap.Control(got.Control).Check(rdmap.Version, got.Tagged, got.QN); perr != nil {
				t.Error(perr)
			}
			if carries := got.ULP32 != 0; carries != tt.op.Invalidates() {
				t.Errorf("Invalidate STag %#08x in a %v", got.ULP32, tt.op)
			}
		})
	}
}

// A Send with something in the Invalidate STag field is as good as one without.
//
// Shows: RDMAP-4.1-03, RDMAP-4.1-07
func TestIgnoredFieldsPass(t *testing.T) {
	for _, digits := range []string{
		"4143 ffffffff 00000000 00000001 00000000 68656c6c6f",
		"4173 00000000 00000000 00000001 00000000 68656c6c6f",
		"7d43 00000000 00000000 00000001 00000000 68656c6c6f",
	} {
		h, _, err := ddp.Parse(wire(t, digits))
		if err != nil {
			t.Fatal(err)
		}
		c := rdmap.Control(h.Control)
		if perr := c.Check(rdmap.Version, h.Tagged, h.QN); perr != nil || c.Opcode() != rdmap.OpcodeSend ||
			c.Opcode().Invalidates() {
			t.Errorf("%s: %v, %v, want a plain Send", digits, c, perr)
		}
	}
}
