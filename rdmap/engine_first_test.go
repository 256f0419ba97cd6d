package rdmap_test

import (
	"errors"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Shows: RDMAP-3.2-03, RDMAP-4.1-04, RDMAP-4.1-05, RDMAP-4.1-06, RDMAP-4.1-08, RDMAP-7.1-03, RDMAP-7.2-01, RDMAP-7.2-02, RDMAP-7.2-03
// Shows: DDP-7.1-01, DDP-7.1-02, DDP-7.1-03, DDP-7.1-04, DDP-7.1-06, DDP-7.1-12, DDP-7.1-14, DDP-6.2-01, DDP-6.2.2-01, DDP-6.2.2-03, DDP-6.2.2-04
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
		{"nothing", "", protocol.DDPLocalCatastrophic, false},
		{"one octet", "41", protocol.DDPLocalCatastrophic, false},
		{"tagged of 13 octets", "c14000000000000000000000 00", protocol.DDPLocalCatastrophic, false},
		{"untagged of 17 octets", "4143000000000000000000000001000000", protocol.DDPLocalCatastrophic, false},
		{"DV 0, untagged", "4043" + msn1 + "78", protocol.DDPUntaggedVersion, false},
		{"DV 2, untagged", "4243" + msn1 + "78", protocol.DDPUntaggedVersion, false},
		{"DV 3, untagged Terminate", "4347 00000000 00000002 00000001 00000000 00000000", protocol.DDPUntaggedVersion, false},
		{"DV 0, tagged", "c040 00000007 0000000000000000 78", protocol.DDPTaggedVersion, false},
		{"DV 2, tagged", "c240 00000007 0000000000000000 78", protocol.DDPTaggedVersion, false},
		{"QN 7", "4143 00000000 00000007 00000001 00000000 78", protocol.DDPUntaggedQN, false},
		{"QN 4", "4143 00000000 00000004 00000001 00000000 78", protocol.DDPUntaggedQN, false},
		{"MSN 0", "4143 00000000 00000000 00000000 00000000 78", protocol.DDPUntaggedMSN, false},
		{"MSN 2", "4143 00000000 00000000 00000002 00000000 78", protocol.DDPUntaggedMSN, false},
		{"MO 4", "4143 00000000 00000000 00000001 00000004 78", protocol.DDPUntaggedMO, false},
		{"RV 0", "4103" + msn1 + "78", protocol.RDMAPVersion, false},
		{"RV 2", "4183" + msn1 + "78", protocol.RDMAPVersion, false},
		{"RV 3", "41c3" + msn1 + "78", protocol.RDMAPVersion, false},
		{"RV 2, tagged", "c180 00000007 0000000000000000 78", protocol.RDMAPVersion, false},
		{"opcode 12", "414c" + msn1 + "78", protocol.RDMAPOpcode, false},
		{"opcode 15", "414f" + msn1 + "78", protocol.RDMAPOpcode, false},
		{"opcode 14, tagged", "c14e 00000007 0000000000000000 78", protocol.RDMAPOpcode, false},
		{"Write, untagged", "4140" + msn1 + "78", protocol.RDMAPOpcode, false},
		{"Read Response, untagged", "4142" + msn1 + "78", protocol.RDMAPOpcode, false},
		{"Read Request on QN 0", "4141" + msn1 + "78", protocol.RDMAPOpcode, false},
		{"Send on QN 1", "4143 00000000 00000001 00000001 00000000 78", protocol.RDMAPOpcode, false},
		{"Send on QN 2", "4143 00000000 00000002 00000001 00000000 78", protocol.RDMAPOpcode, false},
		{"Immediate on QN 1", "4148 00000000 00000001 00000001 00000000 0000000000000000", protocol.RDMAPOpcode, false},
		{"Atomic Request on QN 0", "414a" + msn1 + "78", protocol.RDMAPOpcode, false},
		{"Send on QN 3", "4143 00000000 00000003 00000001 00000000 78", protocol.DDPUntaggedNoBuffer, false},
		{"Atomic Response without a request", "414b 00000000 00000003 00000001 00000000 000000000000000000000000", protocol.DDPUntaggedNoBuffer, false},
		{"Read Response without a request", "c142 00000007 0000000000000000 78", protocol.DDPTaggedInvalidSTag, false},
		{"empty Read Response without a request", "c142 00000007 0000000000000000", protocol.DDPTaggedInvalidSTag, false},
		{"Read Request of 27 octets", "4141 00000000 00000001 00000001 00000000 000000010000000000000000000000000000000100000000000000", protocol.RDMAPOperationUnspecified, false},
		{"Read Request of 29 octets", "4141 00000000 00000001 00000001 00000000 0000000100000000000000000000000000000001000000000000000000", protocol.RDMAPOperationUnspecified, false},
		{"Atomic Request of 28 octets", "414a 00000000 00000001 00000001 00000000 00000001000000000000000000000000000000010000000000000000", protocol.RDMAPOperationUnspecified, false},
		{"Terminate of 3 octets", "4147 00000000 00000002 00000001 00000000 000000", protocol.RDMAPOperationUnspecified, true},
		{"Terminate with MSN 2", "4147 00000000 00000002 00000002 00000000 00000000", protocol.DDPUntaggedMSN, true},
		{"Terminate with MO 1", "4147 00000000 00000002 00000001 00000001 00000000", protocol.DDPUntaggedMO, true},
		{"Terminate on QN 0", "4147" + msn1 + "00000000", protocol.RDMAPOpcode, true},
		{"Terminate, tagged", "c147 00000007 0000000000000000 00000000", protocol.RDMAPOpcode, true},
		{"Terminate with RV 2", "4187 00000000 00000002 00000001 00000000 00000000", protocol.RDMAPVersion, false},
	}
	for op := range 12 {
		tagged := op == 0 || op == 2
		for _, c := range []struct {
			why  string
			seg  []byte
			skip bool
		}{
			{" in the other buffer model", iwarptest.Tagged(uint8(op), true, 7, 0, []byte{1}), tagged},
			{" on QN 1", iwarptest.Untagged(uint8(op), true, 0, 1, 1, 0, []byte{1}), op == 1 || op == 10},
		} {
			if !c.skip {
				vectors = append(vectors, vector{rdmap.Opcode(op).String() + c.why, hexOf(c.seg), protocol.RDMAPOpcode, op == 7})
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
		{"DDP Rsvd bits", "7d43 00000000 00000000 00000001 00000000" + hello, `Send "hello"`},
		{"RDMAP Rsv bits", "4173 00000000 00000000 00000001 00000000" + hello, `Send "hello"`},
		{"Invalidate STag of a Send", "4143 ffffffff 00000000 00000001 00000000" + hello, `Send "hello"`},
		{"Invalidate STag of an Immediate", "4148 ffffffff 00000000 00000001 00000000 0000000000000001", `Immediate Data 0000000000000001`},
		{"empty Write with a bad STag", "c140 ffffffff ffffffffffffffff", ""},
		{"empty Write with STag 0", "c140 00000000 0000000000000000", ""},
		{"empty Read Request with bad STag and TO", "4141 ffffffff 00000001 00000001 00000000 00000007 0000000000000009 00000000 00000000 ffffffffffffffff", ""},
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
