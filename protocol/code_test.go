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
	{0, 0, 0x00, "local catastrophic", protocol.RDMAPLocalCatastrophic},
	{0, 1, 0x00, "invalid STag", protocol.RDMAPInvalidSTag},
	{0, 1, 0x01, "base or bounds", protocol.RDMAPBounds},
	{0, 1, 0x02, "access rights", protocol.RDMAPAccess},
	{0, 1, 0x03, "STag not associated", protocol.RDMAPSTagNotAssociated},
	{0, 1, 0x04, "TO wrap", protocol.RDMAPTOWrap},
	{0, 1, 0x09, "STag cannot be invalidated", protocol.RDMAPCannotInvalidate},
	{0, 1, 0xff, "unspecified", protocol.RDMAPProtectionUnspecified},
	{0, 2, 0x05, "invalid RDMAP version", protocol.RDMAPVersion},
	{0, 2, 0x06, "unexpected opcode", protocol.RDMAPOpcode},
	{0, 2, 0x07, "catastrophic error of the stream", protocol.RDMAPStreamCatastrophic},
	{0, 2, 0x08, "catastrophic error of all streams", protocol.RDMAPGlobalCatastrophic},
	{0, 2, 0x09, "STag cannot be invalidated", protocol.RDMAPOpCannotInvalidate},
	{0, 2, 0xff, "unspecified", protocol.RDMAPOperationUnspecified},
}

// RFC 5041 section 7.2, RFC 6580 section 3.2.
var ddpRows = []registryRow{
	{1, 0, 0x00, "local catastrophic", protocol.DDPLocalCatastrophic},
	{1, 1, 0x00, "invalid STag", protocol.DDPTaggedInvalidSTag},
	{1, 1, 0x01, "base or bounds", protocol.DDPTaggedBounds},
	{1, 1, 0x02, "STag not associated", protocol.DDPTaggedSTagNotAssociated},
	{1, 1, 0x03, "TO wrap", protocol.DDPTaggedTOWrap},
	{1, 1, 0x04, "invalid DDP version", protocol.DDPTaggedVersion},
	{1, 2, 0x01, "invalid QN", protocol.DDPUntaggedQN},
	{1, 2, 0x02, "no buffer available", protocol.DDPUntaggedNoBuffer},
	{1, 2, 0x03, "range is not valid", protocol.DDPUntaggedMSN},
	{1, 2, 0x04, "invalid MO", protocol.DDPUntaggedMO},
	{1, 2, 0x05, "message too long", protocol.DDPUntaggedTooLong},
	{1, 2, 0x06, "invalid DDP version", protocol.DDPUntaggedVersion},
}

// RFC 5044 section 8 and RFC 6581 section 8.
var mpaRows = []registryRow{
	{2, 0, 0x01, "lost", protocol.MPAConnectionLost},
	{2, 0, 0x02, "CRC", protocol.MPACRC},
	{2, 0, 0x03, "Marker", protocol.MPAMarker},
	{2, 0, 0x04, "invalid Request or Reply", protocol.MPAStartup},
	{2, 0, 0x05, "local catastrophic", protocol.MPALocalCatastrophic},
	{2, 0, 0x06, "insufficient IRD", protocol.MPAInsufficientIRD},
	{2, 0, 0x07, "no matching RTR", protocol.MPANoMatchingRTR},
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

// Shows: IANA-3.1-01, IANA-3.2-01, IANA-3.3-01
func TestCodesListsTheWholeRegistry(t *testing.T) {
	rows, codes := allRows(), protocol.Codes()
	if len(codes) != len(rows) {
		t.Fatalf("%d codes, the registry has %d", len(codes), len(rows))
	}
	for i, row := range rows {
		if codes[i] != row.got {
			t.Errorf("code %d is %v, want %v", i, codes[i], row.got)
		}
	}
	codes[0] = 0xffff
	if protocol.Codes()[0] == 0xffff {
		t.Error("Codes gives its own table away")
	}
}

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
