package iwarptest_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
)

const (
	readRequestHex = "4141 00000000 00000001 00000001 00000000 aabbcc01 0000000000002000 00000040 11223344 " +
		"0000000000001000"
	allOnes = ^uint64(0)
)

func TestBuilders(t *testing.T) {
	readRequest := iwarptest.ReadRequest(1, 0xaabbcc01, 0x2000, 64, 0x11223344, 0x1000)
	eight := [8]byte{1, 2, 3, 4, 5, 6, 7, 8}
	for _, tt := range []struct {
		name, hex string
		got       []byte
	}{
		{
			name: "Write", hex: "c140 11223344 0000000000001000 6162",
			got: iwarptest.Write(0x11223344, 0x1000, []byte("ab")),
		},
		{name: "ReadRequest", hex: readRequestHex, got: readRequest},
		{
			name: "ReadResponse", hex: "c142 aabbcc01 0000000000002000 0001",
			got: iwarptest.ReadResponse(0xaabbcc01, 0x2000, []byte{0, 1}),
		},
		{name: "Send", hex: "4143 00000000 00000000 00000001 00000000 6162", got: iwarptest.Send(1, []byte("ab"))},
		{
			name: "SendInvalidate", hex: "4144 11223344 00000000 00000003 00000000 6162",
			got: iwarptest.SendInvalidate(3, 0x11223344, []byte("ab")),
		},
		{
			name: "SendSolicited", hex: "4145 00000000 00000000 00000004 00000000 6162",
			got: iwarptest.SendSolicited(4, []byte("ab")),
		},
		{
			name: "SendSolicitedInvalidate", hex: "4146 55667788 00000000 00000005 00000000",
			got: iwarptest.SendSolicitedInvalidate(5, 0x55667788, nil),
		},
		{
			name: "Terminate", hex: "4147 00000000 00000002 00000001 00000000 20020000",
			got: iwarptest.Terminate(0x2002, nil),
		},
		{
			name: "Terminate for a Write",
			hex:  "4147 00000000 00000002 00000001 00000000 1101c000 0010 c140 11223344 0000000000001000",
			got:  iwarptest.Terminate(0x1101, iwarptest.Write(0x11223344, 0x1000, []byte("ab"))),
		},
		{
			name: "Terminate for a Send",
			hex:  "4147 00000000 00000002 00000001 00000000 1202c000 0014 4143 00000000 00000000 00000001 00000000",
			got:  iwarptest.Terminate(0x1202, iwarptest.Send(1, []byte("ab"))),
		},
		{
			name: "Terminate for a Read",
			hex:  "4147 00000000 00000002 00000001 00000000 0100e000 002e" + readRequestHex,
			got:  iwarptest.Terminate(0x0100, readRequest),
		},
		{
			name: "Terminate for a Read on a wrong queue",
			hex:  "4147 00000000 00000002 00000001 00000000 1201c000 002e 4141 00000000 00000001 00000001 00000000",
			got:  iwarptest.Terminate(0x1201, readRequest),
		},
		{
			name: "Immediate", hex: "4148 00000000 00000000 00000006 00000000 0102030405060708",
			got: iwarptest.Immediate(6, eight),
		},
		{
			name: "ImmediateSolicited", hex: "4149 00000000 00000000 00000007 00000000 0102030405060708",
			got: iwarptest.ImmediateSolicited(7, eight),
		},
		{
			name: "FetchAdd",
			hex: "414a 00000000 00000001 00000003 00000000 00000000 00000077 11223344 0000000000001008" +
				"0000000000000005 0000000000000000 0000000000000000 ffffffffffffffff",
			got: iwarptest.FetchAdd(3, 0x77, 0x11223344, 0x1008, 5, 0),
		},
		{
			name: "CmpSwap",
			hex: "414a 00000000 00000001 00000004 00000000 00000002 00000078 11223344 0000000000001008" +
				"0000000000000009 ffffffffffffffff 000000000000002a ffffffffffffffff",
			got: iwarptest.CmpSwap(4, 0x78, 0x11223344, 0x1008, 0x2a, 9),
		},
		{
			name: "AtomicRequest",
			hex: "414a 00000000 00000001 00000001 00000000 00000001 00000002 00000003 0000000000000004" +
				"0000000000000005 0000000000000006 0000000000000007 ffffffffffffffff",
			got: iwarptest.AtomicRequest(1, 1, 2, 3, 4, 5, 6, 7, allOnes),
		},
		{
			name: "AtomicResponse", hex: "414b 00000000 00000003 00000001 00000000 00000077 0000000000000025",
			got: iwarptest.AtomicResponse(1, 0x77, 0x25),
		},
		{
			name: "Tagged, not last", hex: "8140 00000007 0000000000004000 78",
			got: iwarptest.Tagged(0, false, 7, 0x4000, []byte("x")),
		},
		{
			name: "Untagged, not last", hex: "0143 00000000 00000000 00000001 000005ca 78",
			got: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 1, MO: 1482}, []byte("x")),
		},
		{
			name: "Request", hex: "4d504120494420526571204672616d65 c0 01 0003 616263",
			got: iwarptest.Request(iwarptest.FlagM|iwarptest.FlagC, 1, []byte("abc")),
		},
		{
			name: "Reply", hex: "4d504120494420526570204672616d65 60 01 0000",
			got: iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagR, 1, nil),
		},
		{
			name: "enhanced Request", hex: "4d504120494420526571204672616d65 50 02 0005 c010 c008 78",
			got: iwarptest.Request(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(0xc010, 0xc008, []byte("x"))),
		},
	} {
		if want := wire(t, tt.hex); !bytes.Equal(tt.got, want) {
			t.Errorf("%s:\ngot  %x\nwant %x", tt.name, tt.got, want)
		}
	}
}

func TestDescribe(t *testing.T) {
	wrong := iwarptest.Send(1, nil)
	wrong[0] ^= 3
	wrong[1] ^= 0xc0
	for _, tt := range []struct {
		segment []byte
		want    string
	}{
		{segment: iwarptest.Send(1, []byte("hello")), want: "Send QN 0 MSN 1 MO 0 L +5 68656c6c6f"},
		{segment: iwarptest.SendInvalidate(2, 0xabc, nil), want: "Send Inv invalidate 00000abc QN 0 MSN 2 MO 0 L +0"},
		{segment: iwarptest.Tagged(0, false, 7, 16, []byte{1}), want: "Write STag 00000007 TO 0x10 +1 01"},
		{segment: wrong, want: "Send RV=2 DV=2 QN 0 MSN 1 MO 0 L +0"},
		{segment: []byte{0xc1, 0x40, 0}, want: "short segment c14000"},
		{segment: nil, want: "short segment "},
	} {
		if got := iwarptest.Describe(tt.segment); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
	if got := iwarptest.Describe(iwarptest.Send(1, make([]byte, 1000))); !strings.HasSuffix(got, "00...") ||
		!strings.Contains(got, "+1000 ") {
		t.Errorf("a long segment is %q", got)
	}
}
