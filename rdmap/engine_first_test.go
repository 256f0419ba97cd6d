package rdmap_test

import (
	"errors"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Shows: RDMAP-3.2-03, RDMAP-4.1-04, RDMAP-4.1-05, RDMAP-4.1-06, RDMAP-4.1-08, RDMAP-7.1-03, RDMAP-7.2-01
// Shows: RDMAP-7.2-02, RDMAP-7.2-03
// Shows: DDP-7.1-01, DDP-7.1-02, DDP-7.1-03, DDP-7.1-04, DDP-7.1-06, DDP-7.1-12, DDP-7.1-14, DDP-6.2-01
// Shows: DDP-6.2.2-01, DDP-6.2.2-03, DDP-6.2.2-04
// Shows: RDMAP-5.2.1-03, RDMAP-4.2-01, EXT-8.2-01, EXT-8.2-02, EXT-8.2-03, EXT-5.2.2-04, EXT-10.2-01
// Shows: RDMAP-5.1-08, RDMAP-5.2.1-14, RDMAP-5.2.2-07, RDMAP-5.3-14, RDMAP-5.4-09
func TestBadFirstSegment(t *testing.T) {
	type vector struct {
		name, hex string
		code      protocol.Code
		silent    bool // no Terminate
	}
	const msn1 = " 00000000 00000000 00000001 00000000 "
	vectors := []vector{
		{name: "nothing", hex: "", code: protocol.DDPLocalCatastrophic},
		{name: "one octet", hex: "41", code: protocol.DDPLocalCatastrophic},
		{name: "tagged of 13 octets", hex: "c14000000000000000000000 00", code: protocol.DDPLocalCatastrophic},
		{name: "untagged of 17 octets", hex: "4143000000000000000000000001000000", code: protocol.DDPLocalCatastrophic},
		{name: "DV 0, untagged", hex: "4043" + msn1 + "78", code: protocol.DDPUntaggedVersion},
		{name: "DV 2, untagged", hex: "4243" + msn1 + "78", code: protocol.DDPUntaggedVersion},
		{
			name: "DV 3, untagged Terminate", hex: "4347 00000000 00000002 00000001 00000000 00000000",
			code: protocol.DDPUntaggedVersion,
		},
		{name: "DV 0, tagged", hex: "c040 00000007 0000000000000000 78", code: protocol.DDPTaggedVersion},
		{name: "DV 2, tagged", hex: "c240 00000007 0000000000000000 78", code: protocol.DDPTaggedVersion},
		{name: "QN 7", hex: "4143 00000000 00000007 00000001 00000000 78", code: protocol.DDPUntaggedQN},
		{name: "QN 4", hex: "4143 00000000 00000004 00000001 00000000 78", code: protocol.DDPUntaggedQN},
		{name: "MSN 0", hex: "4143 00000000 00000000 00000000 00000000 78", code: protocol.DDPUntaggedMSN},
		{name: "MSN 2", hex: "4143 00000000 00000000 00000002 00000000 78", code: protocol.DDPUntaggedMSN},
		{name: "MO 4", hex: "4143 00000000 00000000 00000001 00000004 78", code: protocol.DDPUntaggedMO},
		{name: "RV 0", hex: "4103" + msn1 + "78", code: protocol.RDMAPVersion},
		{name: "RV 2", hex: "4183" + msn1 + "78", code: protocol.RDMAPVersion},
		{name: "RV 3", hex: "41c3" + msn1 + "78", code: protocol.RDMAPVersion},
		{name: "RV 2, tagged", hex: "c180 00000007 0000000000000000 78", code: protocol.RDMAPVersion},
		{name: "opcode 12", hex: "414c" + msn1 + "78", code: protocol.RDMAPOpcode},
		{name: "opcode 15", hex: "414f" + msn1 + "78", code: protocol.RDMAPOpcode},
		{name: "opcode 14, tagged", hex: "c14e 00000007 0000000000000000 78", code: protocol.RDMAPOpcode},
		{name: "Write, untagged", hex: "4140" + msn1 + "78", code: protocol.RDMAPOpcode},
		{name: "Read Response, untagged", hex: "4142" + msn1 + "78", code: protocol.RDMAPOpcode},
		{name: "Read Request on QN 0", hex: "4141" + msn1 + "78", code: protocol.RDMAPOpcode},
		{name: "Send on QN 1", hex: "4143 00000000 00000001 00000001 00000000 78", code: protocol.RDMAPOpcode},
		{name: "Send on QN 2", hex: "4143 00000000 00000002 00000001 00000000 78", code: protocol.RDMAPOpcode},
		{
			name: "Immediate on QN 1", hex: "4148 00000000 00000001 00000001 00000000 0000000000000000",
			code: protocol.RDMAPOpcode,
		},
		{name: "Atomic Request on QN 0", hex: "414a" + msn1 + "78", code: protocol.RDMAPOpcode},
		{name: "Send on QN 3", hex: "4143 00000000 00000003 00000001 00000000 78", code: protocol.DDPUntaggedNoBuffer},
		{
			name: "Atomic Response without a request",
			hex:  "414b 00000000 00000003 00000001 00000000 000000000000000000000000",
			code: protocol.DDPUntaggedNoBuffer,
		},
		{
			name: "Read Response without a request", hex: "c142 00000007 0000000000000000 78",
			code: protocol.DDPTaggedInvalidSTag,
		},
		{
			name: "empty Read Response without a request", hex: "c142 00000007 0000000000000000",
			code: protocol.DDPTaggedInvalidSTag,
		},
		{
			name: "Read Request of 27 octets",
			hex:  "4141 00000000 00000001 00000001 00000000 000000010000000000000000000000000000000100000000000000",
			code: protocol.RDMAPOperationUnspecified,
		},
		{
			name: "Read Request of 29 octets",
			hex:  "4141 00000000 00000001 00000001 00000000 0000000100000000000000000000000000000001000000000000000000",
			code: protocol.RDMAPOperationUnspecified,
		},
		{
			name: "Atomic Request of 28 octets",
			hex:  "414a 00000000 00000001 00000001 00000000 00000001000000000000000000000000000000010000000000000000",
			code: protocol.RDMAPOperationUnspecified,
		},
		{
			name: "Terminate of 3 octets", hex: "4147 00000000 00000002 00000001 00000000 000000",
			code: protocol.RDMAPOperationUnspecified, silent: true,
		},
		{
			name: "Terminate with MSN 2", hex: "4147 00000000 00000002 00000002 00000000 00000000",
			code: protocol.DDPUntaggedMSN, silent: true,
		},
		{
			name: "Terminate with MO 1", hex: "4147 00000000 00000002 00000001 00000001 00000000",
			code: protocol.DDPUntaggedMO, silent: true,
		},
		{name: "Terminate on QN 0", hex: "4147" + msn1 + "00000000", code: protocol.RDMAPOpcode, silent: true},
		{
			name: "Terminate, tagged", hex: "c147 00000007 0000000000000000 00000000", code: protocol.RDMAPOpcode,
			silent: true,
		},
		{
			name: "Terminate with RV 2", hex: "4187 00000000 00000002 00000001 00000000 00000000",
			code: protocol.RDMAPVersion,
		},
	}
	for op := range 12 {
		tagged := op == 0 || op == 2
		for _, c := range []struct {
			why  string
			seg  []byte
			skip bool
		}{
			{why: " in the other buffer model", seg: iwarptest.Tagged(uint8(op), true, 7, 0, []byte{1}), skip: tagged},
			{
				why: " on QN 1",
				seg: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: uint8(op), Last: true, QN: 1, MSN: 1},
					[]byte{1}),
				skip: op == 1 || op == 10,
			},
		} {
			if !c.skip {
				vectors = append(vectors,
					vector{rdmap.Opcode(op).String() + c.why, hexOf(c.seg), protocol.RDMAPOpcode, op == 7})
			}
		}
	}
	for _, role := range []string{"initiator", "responder"} {
		for _, v := range vectors {
			t.Run(role+"/"+v.name, func(t *testing.T) {
				e := newEnd(t, func(c *rdmap.Config) { c.Initiator = role == "initiator" })
				e.postRecv(64, 64)
				seg := unhex(t, v.hex)
				e.llp.held = role == "responder"
				e.wantIdle("nothing to send yet")
				e.llp.held = false // the LLP has had one valid FPDU
				e.wantError(v.name, seg, v.code)
				if !e.s.Wake() {
					t.Error("the send owner is not woken")
				}
				switch {
				case v.silent:
					e.wantIdle("no Terminate answers a Terminate")
				case v.code == protocol.DDPLocalCatastrophic:
					e.wantTerminate("no header", v.code, nil)
				default:
					e.wantTerminate("the header comes back", v.code, seg)
				}
				e.wantDelivered("nothing")
				if !e.s.Failed() || !errors.Is(e.s.Err(), &protocol.Error{Code: v.code}) {
					t.Errorf("the stream's error is %v", e.s.Err())
				}
			})
		}
	}
}

// Shows: RDMAP-4.1-03, RDMAP-4.1-07, RDMAP-5.2.1-12, EXT-4.1-02, EXT-5.2.1-02
func TestTolerated(t *testing.T) {
	const hello = "68656c6c6f"
	for _, v := range []struct{ name, hex, want string }{
		{name: "DDP Rsvd bits", hex: "7d43 00000000 00000000 00000001 00000000" + hello, want: `Send "hello"`},
		{name: "RDMAP Rsv bits", hex: "4173 00000000 00000000 00000001 00000000" + hello, want: `Send "hello"`},
		{
			name: "Invalidate STag of a Send", hex: "4143 ffffffff 00000000 00000001 00000000" + hello,
			want: `Send "hello"`,
		},
		{
			name: "Invalidate STag of an Immediate", hex: "4148 ffffffff 00000000 00000001 00000000 0000000000000001",
			want: `Immediate Data 0000000000000001`,
		},
		{name: "empty Write with a bad STag", hex: "c140 ffffffff ffffffffffffffff", want: ""},
		{name: "empty Write with STag 0", hex: "c140 00000000 0000000000000000", want: ""},
		{
			name: "empty Read Request with bad STag and TO",
			hex: "4141 ffffffff 00000001 00000001 00000000 00000007 0000000000000009 00000000 00000000 " +
				"ffffffffffffffff",
			want: "",
		},
	} {
		t.Run(v.name, func(t *testing.T) {
			e := newEnd(t, responder)
			e.postRecv(8)
			e.deliver(unhex(t, v.hex))
			if v.want == "" {
				e.wantDelivered(v.name)
			} else {
				e.wantDelivered(v.name, v.want)
			}
			if e.s.Err() != nil {
				t.Error(e.s.Err())
			}
		})
	}
}

// Shows: DDP-7.1-02, RDMAP-3.2-03
func TestSendWithoutBuffer(t *testing.T) {
	a, b := newEnd(t), newEnd(t, responder)
	a.post(rdmap.SendWR{ID: 1, Op: rdmap.OpSend, SG: [][]byte{[]byte("x")}})
	pump(a, b)
	for name, e := range map[string]*end{"sender": a, "receiver": b} {
		if code, _ := protocol.CodeOf(e.s.Err()); code != protocol.DDPUntaggedNoBuffer {
			t.Errorf("%s: %v, want 1/2/02", name, e.s.Err())
		}
	}
}
