package rdmap_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Linux siw has layer and error type of a Terminate in each other's place, and M, D and
// R at the other end of their octet. What it means is told, and that it was so; a
// Terminate that is in order is never taken for one of these.
// Shows: RDMAP-4.8-02, RDMAP-4.8-10
func TestMirroredTerminate(t *testing.T) {
	const immediate = "4148 00000000 00000000 00000001 00000000"
	for _, tt := range []struct {
		name, hex   string
		code        protocol.Code
		exchanged   bool
		unsupported bool
		echo        string
	}{
		{"no receive", "2102 0300 0003" + immediate, protocol.DDPUntaggedNoBuffer, true, false, "Immediate Data"},
		{"no such opcode", "2006 0300 0000" + immediate, protocol.RDMAPOpcode, true, true, "Immediate Data"},
		{"access", "1002 0700 0000" + "4141 00000000 00000001 00000001 00000000" + readRequest, protocol.RDMAPAccess, true, false, "source STag"},
		{"R without a header", "1000 0700 0000" + invHeader, protocol.RDMAPInvalidSTag, true, false, "Send with Invalidate"},
		{"the same both ways", "1100 0300 0000" + "c140 00000007 0000000000000000", protocol.DDPTaggedInvalidSTag, false, false, "RDMA Write"},
		{"cut", "2006 0300", protocol.RDMAPOpcode, true, true, ""},
		{"no bits, and nothing as it stands", "2102 0000", protocol.DDPUntaggedNoBuffer, true, false, ""},
		{"no bits, a CRC error", "0202 0000", protocol.MPACRC, true, false, ""},
		{"no bits, in doubt", "2006 0000", protocol.MPAInsufficientIRD, false, false, ""},
		{"in order", "0206 c000 0012" + immediate, protocol.RDMAPOpcode, false, true, "Immediate Data"},
		{"in order, with other reserved bits", "2006 c300 0012" + immediate, protocol.MPAInsufficientIRD, false, false, "Immediate Data"},
		{"other reserved bits alone", "2006 1300", protocol.MPAInsufficientIRD, false, false, ""},
		{"nothing in either way", "1005 0300 0000" + immediate, protocol.NewCode(1, 0, 5), false, false, "Immediate Data"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			term, _, err := rdmap.ParseTerminate(wire(t, tt.hex))
			if err != nil {
				t.Fatal(err)
			}
			e := term.Err()
			if e.Code != tt.code || !e.Remote {
				t.Errorf("%v, want %v", e.Code, tt.code)
			}
			if said := strings.Contains(e.Error(), "in each other's place as Linux siw does"); said != tt.exchanged {
				t.Errorf("it is said that they are exchanged: %t, want %t: %v", said, tt.exchanged, e)
			}
			if errors.Is(e, errors.ErrUnsupported) != tt.unsupported {
				t.Errorf("ErrUnsupported: %t, want %t", !tt.unsupported, tt.unsupported)
			}
			if !strings.Contains(e.Detail, tt.echo) || (e.Offender != nil && e.Offender.DDPHeader != nil) != (tt.echo != "") {
				t.Errorf("echo %+v, %q, want %q", e.Offender, e.Detail, tt.echo)
			}
		})
	}
}
