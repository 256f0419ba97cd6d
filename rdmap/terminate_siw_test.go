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
		{
			name: "no receive", hex: "2102 0300 0003" + immediate, code: protocol.DDPUntaggedNoBuffer, exchanged: true,
			echo: "Immediate Data",
		},
		{
			name: "no such opcode", hex: "2006 0300 0000" + immediate, code: protocol.RDMAPOpcode, exchanged: true,
			unsupported: true, echo: "Immediate Data",
		},
		{
			name: "access", hex: "1002 0700 0000" + "4141 00000000 00000001 00000001 00000000" + readRequest,
			code: protocol.RDMAPAccess, exchanged: true, echo: "source STag",
		},
		{
			name: "R without a header", hex: "1000 0700 0000" + invHeader, code: protocol.RDMAPInvalidSTag,
			exchanged: true, echo: "Send with Invalidate",
		},
		{
			name: "the same both ways", hex: "1100 0300 0000" + "c140 00000007 0000000000000000",
			code: protocol.DDPTaggedInvalidSTag, echo: "RDMA Write",
		},
		{name: "cut", hex: "2006 0300", code: protocol.RDMAPOpcode, exchanged: true, unsupported: true, echo: ""},
		{
			name: "no bits, and nothing as it stands", hex: "2102 0000", code: protocol.DDPUntaggedNoBuffer,
			exchanged: true, echo: "",
		},
		{name: "no bits, a CRC error", hex: "0202 0000", code: protocol.MPACRC, exchanged: true, echo: ""},
		{name: "no bits, in doubt", hex: "2006 0000", code: protocol.MPAInsufficientIRD, echo: ""},
		{
			name: "in order", hex: "0206 c000 0012" + immediate, code: protocol.RDMAPOpcode, unsupported: true,
			echo: "Immediate Data",
		},
		{
			name: "in order, with other reserved bits", hex: "2006 c300 0012" + immediate,
			code: protocol.MPAInsufficientIRD, echo: "Immediate Data",
		},
		{name: "other reserved bits alone", hex: "2006 1300", code: protocol.MPAInsufficientIRD, echo: ""},
		{
			name: "nothing in either way", hex: "1005 0300 0000" + immediate, code: protocol.NewCode(1, 0, 5),
			echo: "Immediate Data",
		},
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
			if !strings.Contains(e.Detail, tt.echo) ||
				(e.Offender != nil && e.Offender.DDPHeader != nil) != (tt.echo != "") {
				t.Errorf("echo %+v, %q, want %q", e.Offender, e.Detail, tt.echo)
			}
		})
	}
}
