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
	{rdmap.OpcodeWrite, 0, "RDMA Write", true, 0, -1, true, false, false, false},
	{rdmap.OpcodeReadRequest, 1, "RDMA Read Request", false, 1, 28, false, false, false, false},
	{rdmap.OpcodeReadResponse, 2, "RDMA Read Response", true, 0, -1, true, false, false, true},
	{rdmap.OpcodeSend, 3, "Send", false, 0, -1, true, false, false, false},
	{rdmap.OpcodeSendInvalidate, 4, "Send with Invalidate", false, 0, -1, true, false, true, false},
	{rdmap.OpcodeSendSolicited, 5, "Send with SE", false, 0, -1, true, true, false, false},
	{rdmap.OpcodeSendSolicitedInvalidate, 6, "Send with SE and Invalidate", false, 0, -1, true, true, true, false},
	{rdmap.OpcodeTerminate, 7, "Terminate", false, 2, -1, false, false, false, false},
	{rdmap.OpcodeImmediate, 8, "Immediate Data", false, 0, 8, false, false, false, false},
	{rdmap.OpcodeImmediateSolicited, 9, "Immediate Data with SE", false, 0, 8, false, true, false, false},
	{rdmap.OpcodeAtomicRequest, 10, "Atomic Request", false, 1, 52, false, false, false, false},
	{rdmap.OpcodeAtomicResponse, 11, "Atomic Response", false, 3, 12, false, false, false, true},
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
	if got := rdmap.NewControl(0xf3); got != 0x43 {
		t.Errorf("opcode 0xf3 is sent as %#02x, want its low four bits", uint8(got))
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
		"write", "c140 11223344 0000000000001000 646972656374206461746120 21",
		ddp.Header{Tagged: true, Last: true, Version: 1, STag: 0x11223344, TO: 0x1000},
		rdmap.OpcodeWrite, "direct data !",
	},
	{
		"zero-length write", "c140 00000001 0000000000000000",
		ddp.Header{Tagged: true, Last: true, Version: 1, STag: 1},
		rdmap.OpcodeWrite, "",
	},
	{
		"read response", "c142 aabbcc01 0000000000002000 000102",
		ddp.Header{Tagged: true, Last: true, Version: 1, STag: 0xaabbcc01, TO: 0x2000},
		rdmap.OpcodeReadResponse, "\x00\x01\x02",
	},
	{
		"send", "4143 00000000 00000000 00000001 00000000 68656c6c6f",
		ddp.Header{Last: true, Version: 1, MSN: 1},
		rdmap.OpcodeSend, "hello",
	},
	{
		"send with invalidate", "4144 11223344 00000000 00000003 00000000 627965",
		ddp.Header{Last: true, Version: 1, ULP32: 0x11223344, MSN: 3},
		rdmap.OpcodeSendInvalidate, "bye",
	},
	{
		"send with SE", "4145 00000000 00000000 00000004 00000000 64696e67",
		ddp.Header{Last: true, Version: 1, MSN: 4},
		rdmap.OpcodeSendSolicited, "ding",
	},
	{
		"send with SE and invalidate", "4146 55667788 00000000 00000005 00000000 646f6e67",
		ddp.Header{Last: true, Version: 1, ULP32: 0x55667788, MSN: 5},
		rdmap.OpcodeSendSolicitedInvalidate, "dong",
	},
	{
		"immediate", "4148 00000000 00000000 00000006 00000000 0102030405060708",
		ddp.Header{Last: true, Version: 1, MSN: 6},
		rdmap.OpcodeImmediate, "\x01\x02\x03\x04\x05\x06\x07\x08",
	},
	{
		"immediate with SE", "4149 00000000 00000000 00000007 00000000 1112131415161718",
		ddp.Header{Last: true, Version: 1, MSN: 7},
		rdmap.OpcodeImmediateSolicited, "\x11\x12\x13\x14\x15\x16\x17\x18",
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
		if perr := c.Check(rdmap.Version, h.Tagged, h.QN); perr != nil || c.Opcode() != rdmap.OpcodeSend || c.Opcode().Invalidates() {
			t.Errorf("%s: %v, %v, want a plain Send", digits, c, perr)
		}
	}
}
