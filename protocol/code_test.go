package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/protocol"
)

// registryRow is one line of the error registries of RFC 6580 section 3, typed
// from the RFCs and not from the package.
type registryRow struct {
	layer, etype, code uint8
	name               string
	got                protocol.Code
}

// RFC 5040 figure 9.
var rdmapRows = []registryRow{
	{layer: 0, etype: 0, code: 0x00, name: "local catastrophic", got: protocol.RDMAPLocalCatastrophic},
	{layer: 0, etype: 1, code: 0x00, name: "invalid STag", got: protocol.RDMAPInvalidSTag},
	{layer: 0, etype: 1, code: 0x01, name: "base or bounds", got: protocol.RDMAPBounds},
	{layer: 0, etype: 1, code: 0x02, name: "access rights", got: protocol.RDMAPAccess},
	{layer: 0, etype: 1, code: 0x03, name: "STag not associated", got: protocol.RDMAPSTagNotAssociated},
	{layer: 0, etype: 1, code: 0x04, name: "TO wrap", got: protocol.RDMAPTOWrap},
	{layer: 0, etype: 1, code: 0x09, name: "STag cannot be invalidated", got: protocol.RDMAPCannotInvalidate},
	{layer: 0, etype: 1, code: 0xff, name: "unspecified", got: protocol.RDMAPProtectionUnspecified},
	{layer: 0, etype: 2, code: 0x05, name: "invalid RDMAP version", got: protocol.RDMAPVersion},
	{layer: 0, etype: 2, code: 0x06, name: "unexpected opcode", got: protocol.RDMAPOpcode},
	{layer: 0, etype: 2, code: 0x07, name: "catastrophic error of the stream", got: protocol.RDMAPStreamCatastrophic},
	{layer: 0, etype: 2, code: 0x08, name: "catastrophic error of all streams", got: protocol.RDMAPGlobalCatastrophic},
	{layer: 0, etype: 2, code: 0x09, name: "STag cannot be invalidated", got: protocol.RDMAPOpCannotInvalidate},
	{layer: 0, etype: 2, code: 0xff, name: "unspecified", got: protocol.RDMAPOperationUnspecified},
}

// RFC 5041 section 7.2, RFC 6580 section 3.2.
var ddpRows = []registryRow{
	{layer: 1, etype: 0, code: 0x00, name: "local catastrophic", got: protocol.DDPLocalCatastrophic},
	{layer: 1, etype: 1, code: 0x00, name: "invalid STag", got: protocol.DDPTaggedInvalidSTag},
	{layer: 1, etype: 1, code: 0x01, name: "base or bounds", got: protocol.DDPTaggedBounds},
	{layer: 1, etype: 1, code: 0x02, name: "STag not associated", got: protocol.DDPTaggedSTagNotAssociated},
	{layer: 1, etype: 1, code: 0x03, name: "TO wrap", got: protocol.DDPTaggedTOWrap},
	{layer: 1, etype: 1, code: 0x04, name: "invalid DDP version", got: protocol.DDPTaggedVersion},
	{layer: 1, etype: 2, code: 0x01, name: "invalid QN", got: protocol.DDPUntaggedQN},
	{layer: 1, etype: 2, code: 0x02, name: "no buffer available", got: protocol.DDPUntaggedNoBuffer},
	{layer: 1, etype: 2, code: 0x03, name: "range is not valid", got: protocol.DDPUntaggedMSN},
	{layer: 1, etype: 2, code: 0x04, name: "invalid MO", got: protocol.DDPUntaggedMO},
	{layer: 1, etype: 2, code: 0x05, name: "message too long", got: protocol.DDPUntaggedTooLong},
	{layer: 1, etype: 2, code: 0x06, name: "invalid DDP version", got: protocol.DDPUntaggedVersion},
}

// RFC 5044 section 8 and RFC 6581 section 8.
var mpaRows = []registryRow{
	{layer: 2, etype: 0, code: 0x01, name: "lost", got: protocol.MPAConnectionLost},
	{layer: 2, etype: 0, code: 0x02, name: "CRC", got: protocol.MPACRC},
	{layer: 2, etype: 0, code: 0x03, name: "Marker", got: protocol.MPAMarker},
	{layer: 2, etype: 0, code: 0x04, name: "invalid Request or Reply", got: protocol.MPAStartup},
	{layer: 2, etype: 0, code: 0x05, name: "local catastrophic", got: protocol.MPALocalCatastrophic},
	{layer: 2, etype: 0, code: 0x06, name: "insufficient IRD", got: protocol.MPAInsufficientIRD},
	{layer: 2, etype: 0, code: 0x07, name: "no matching RTR", got: protocol.MPANoMatchingRTR},
}

func allRows() []registryRow {
	return append(append(append([]registryRow(nil), rdmapRows...), ddpRows...), mpaRows...)
}

func checkRows(t *testing.T, rows []registryRow) {
	t.Helper()
	for _, row := range rows {
		want := protocol.NewCode(protocol.Layer(row.layer), row.etype, row.code)
		if row.got != want {
			t.Errorf("%q is %#04x, want %#04x", row.name, uint16(row.got), uint16(want))
		}
		if !row.got.Defined() {
			t.Errorf("%v: not defined", row.got)
		}
		s, triple := row.got.String(), fmt.Sprintf("(%d/%d/%02x)", row.layer, row.etype, row.code)
		if !strings.Contains(s, row.name) || !strings.HasSuffix(s, triple) {
			t.Errorf("String is %q, want %q in it and %q at its end", s, row.name, triple)
		}
	}
}

// Shows: IANA-3.1-01, RDMAP-4.8-02
func TestRDMAPCodes(t *testing.T) { checkRows(t, rdmapRows) }

// Shows: IANA-3.2-01, RDMAP-4.8-02
func TestDDPCodes(t *testing.T) { checkRows(t, ddpRows) }

// Shows: IANA-3.3-01, RDMAP-4.8-02
func TestMPACodes(t *testing.T) { checkRows(t, mpaRows) }

// Every one of the 65536 triples takes itself apart and together again, and the
// ones outside the registry say so.
//
// Shows: IANA-3.1-01, RDMAP-4.8-10
func TestEveryTriple(t *testing.T) {
	defined := map[protocol.Code]bool{}
	for _, row := range allRows() {
		defined[row.got] = true
	}
	for i := range 1 << 16 {
		c := protocol.Code(i)
		if got := protocol.NewCode(c.Layer(), c.Type(), c.Number()); got != c {
			t.Fatalf("%#04x comes back as %#04x", i, uint16(got))
		}
		anyCode := c.Layer() == protocol.LayerRDMAP && c.Type() == 0
		if want := defined[c] || anyCode; c.Defined() != want {
			t.Fatalf("%v: Defined is %v, want %v", c, c.Defined(), want)
		}
		if unassigned := strings.Contains(c.String(), "unassigned"); unassigned == c.Defined() {
			t.Fatalf("%#04x: String is %q", i, c.String())
		}
	}
}

func TestNewCodeUsesFourBits(t *testing.T) {
	if got := protocol.NewCode(0xf1, 0xf2, 0x03); got != protocol.DDPUntaggedMSN {
		t.Errorf("got %v, want the low four bits only", got)
	}
}

func TestLayerString(t *testing.T) {
	for layer, want := range map[protocol.Layer]string{
		protocol.LayerRDMAP: "RDMAP", protocol.LayerDDP: "DDP", protocol.LayerLLP: "MPA", 7: "layer 7",
	} {
		if got := layer.String(); got != want {
			t.Errorf("layer %d is %q, want %q", layer, got, want)
		}
	}
}
