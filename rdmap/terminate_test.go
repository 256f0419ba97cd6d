package rdmap_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Headers of segments that peers may object to.
const (
	sendHeader    = "4143 00000000 00000000 00000001 00000000"
	invHeader     = "4144 11223344 00000000 00000003 00000000"
	writeHeader   = "c140 11223344 0000000000001000"
	readHeader    = "4141 00000000 00000001 00000001 00000000"
	readRequest   = "aabbcc01 0000000000002000 00000040 11223344 0000000000001000"
	atomicHeader  = "414a 00000000 00000001 00000003 00000000"
	maxRead       = 18 + 28 // ULPDU of a Read Request
	terminateWord = 4
)

var terminates = []struct {
	name string
	hex  string
	term rdmap.Terminate
}{
	{
		name: "remote protection, Read Request", hex: "0100e000 002e" + readHeader + readRequest,
		term: rdmap.Terminate{Code: protocol.RDMAPInvalidSTag, Offender: &protocol.Offender{SegmentLength: maxRead}},
	},
	{
		name: "remote protection, Send with Invalidate", hex: "0109c000 0015" + invHeader,
		term: rdmap.Terminate{Code: protocol.RDMAPCannotInvalidate, Offender: &protocol.Offender{SegmentLength: 21}},
	},
	{
		name: "remote operation", hex: "0206c000 0017" + sendHeader,
		term: rdmap.Terminate{Code: protocol.RDMAPOpcode, Offender: &protocol.Offender{SegmentLength: 23}},
	},
	{
		name: "tagged", hex: "1101c000 001b" + writeHeader,
		term: rdmap.Terminate{Code: protocol.DDPTaggedBounds, Offender: &protocol.Offender{SegmentLength: 27}},
	},
	{
		name: "untagged", hex: "1202c000 0017" + sendHeader,
		term: rdmap.Terminate{Code: protocol.DDPUntaggedNoBuffer, Offender: &protocol.Offender{SegmentLength: 23}},
	},
	{
		name: "length alone", hex: "10008000 000d",
		term: rdmap.Terminate{Code: protocol.DDPLocalCatastrophic, Offender: &protocol.Offender{SegmentLength: 13}},
	},
	{name: "MPA CRC", hex: "20020000", term: rdmap.Terminate{Code: protocol.MPACRC}},
	{name: "MPA insufficient IRD", hex: "20060000", term: rdmap.Terminate{Code: protocol.MPAInsufficientIRD}},
	{name: "local catastrophic", hex: "00000000", term: rdmap.Terminate{Code: protocol.RDMAPLocalCatastrophic}},
	{name: "local catastrophic, some code", hex: "005a0000", term: rdmap.Terminate{Code: 0x005a}},
}

// withHeaders cuts the echoed headers out of the octets that the test has.
func withHeaders(term rdmap.Terminate, octets []byte) rdmap.Terminate {
	if term.Offender == nil {
		return term
	}
	o := *term.Offender
	if rest := octets[terminateWord+2:]; len(rest) > 0 {
		n := 18
		if rest[0]&0x80 != 0 {
			n = 14
		}
		o.DDPHeader = rest[:n]
		if len(rest) > n {
			o.RDMAPHeader = rest[n:]
		}
	}
	return rdmap.Terminate{Code: term.Code, Offender: &o}
}

// Shows: RDMAP-4.8-01, RDMAP-4.8-03, RDMAP-4.8-04, RDMAP-4.8-05, RDMAP-4.8-06, RDMAP-4.8-07, RDMAP-4.8-10, RDMAP-4.2-01
func TestTerminateBothWays(t *testing.T) {
	for _, tt := range terminates {
		t.Run(tt.name, func(t *testing.T) {
			octets := wire(t, tt.hex)
			want := withHeaders(tt.term, octets)
			if got := want.AppendTo([]byte{9}); !bytes.Equal(got[1:], octets) || got[0] != 9 {
				t.Errorf("AppendTo gives %x, want %x", got, octets)
			}
			got, n, err := rdmap.ParseTerminate(append(bytes.Clone(octets), 0xee))
			if err != nil || n != len(octets) || !reflect.DeepEqual(got, want) {
				t.Errorf("reads %+v, %d, %v, want %+v", got, n, err, want)
			}
		})
	}
}

// Every truncation keeps the triple and whatever is whole.
//
// Shows: RDMAP-4.8-05, RDMAP-4.8-06, RDMAP-4.8-07
func TestTerminateTruncated(t *testing.T) {
	for _, tt := range terminates {
		octets := wire(t, tt.hex)
		whole := withHeaders(tt.term, octets)
		for i := range octets {
			got, n, err := rdmap.ParseTerminate(octets[:i:i])
			if i < rdmap.MinTerminateLen {
				if n != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%s, %d octets: %d, %v, want io.ErrUnexpectedEOF", tt.name, i, n, err)
				}
				continue
			}
			if err != nil || n > i || got.Code != whole.Code {
				t.Errorf("%s, %d octets: %v, %d, %v, want the code at least", tt.name, i, got.Code, n, err)
				continue
			}
			var want *protocol.Offender
			if whole.Offender != nil && i >= terminateWord+2 {
				want = &protocol.Offender{SegmentLength: whole.Offender.SegmentLength}
				if i >= terminateWord+2+len(whole.Offender.DDPHeader) {
					want.DDPHeader = whole.Offender.DDPHeader
				}
			}
			if !reflect.DeepEqual(got.Offender, want) {
				t.Errorf("%s, %d octets: %+v, want %+v", tt.name, i, got.Offender, want)
			}
		}
	}
}

// Shows: RDMAP-4.8-01, RDMAP-4.8-04, RDMAP-4.8-09
func TestTerminateTolerance(t *testing.T) {
	offender := func(length uint16, ddp, rdma string) *protocol.Offender {
		o := &protocol.Offender{SegmentLength: length}
		if ddp != "" {
			o.DDPHeader = wire(t, ddp)
		}
		if rdma != "" {
			o.RDMAPHeader = wire(t, rdma)
		}
		return o
	}
	for _, tt := range []struct {
		why, hex string
		want     *protocol.Offender
	}{
		{why: "reserved bits are ignored", hex: "20021fff", want: nil},
		{
			why: "reserved bits are ignored with headers too", hex: "1101dfff 001b" + writeHeader,
			want: offender(27, writeHeader, ""),
		},
		{
			why: "Linux siw sets R for Send with Invalidate and sends no header", hex: "0109e000 0003" + invHeader,
			want: offender(3, invHeader, ""),
		},
		{
			why: "R with half a header", hex: "0100e000 002e" + readHeader + "aabbcc01",
			want: offender(46, readHeader, ""),
		},
		{why: "M without a length", hex: "12028000", want: nil},
		{why: "M with half a length", hex: "12028000 00", want: nil},
		{
			why: "D without M: the length is there, if not valid", hex: "12024000 0000" + sendHeader,
			want: offender(0, sendHeader, ""),
		},
		{why: "D with no header", hex: "1202c000 0017", want: offender(23, "", "")},
		{why: "D with half a tagged header", hex: "1101c000 001b c140 11223344", want: offender(27, "", "")},
		{
			why: "D with a tagged header's length of an untagged one",
			hex: "1202c000 0017 4143 00000000 00000000 00000001", want: offender(23, "", ""),
		},
		{why: "M and R without D", hex: "0100a000 002e" + readRequest, want: offender(46, "", readRequest)},
		{why: "R alone", hex: "01002000" + readRequest, want: offender(0, "", readRequest)},
		{why: "R alone with no header", hex: "01002000", want: nil},
		{
			why: "MPA error with headers, which figure 10 does not have", hex: "2002c000 0017" + sendHeader,
			want: offender(23, sendHeader, ""),
		},
		{why: "octets behind", hex: "20020000 ffffffff", want: nil},
	} {
		got, n, err := rdmap.ParseTerminate(wire(t, tt.hex))
		if err != nil || n < terminateWord || !reflect.DeepEqual(got.Offender, tt.want) {
			t.Errorf("%s: %+v, %d, %v, want %+v", tt.why, got.Offender, n, err, tt.want)
		}
	}
}

func TestParseTerminateCopies(t *testing.T) {
	b := wire(t, terminates[0].hex)
	got, _, err := rdmap.ParseTerminate(b)
	if err != nil {
		t.Fatal(err)
	}
	clear(b)
	if got.Offender.DDPHeader[0] == 0 || got.Offender.RDMAPHeader[0] == 0 {
		t.Error("the headers change with the caller's buffer")
	}
}

// Shows: RDMAP-4.8-05, RDMAP-4.8-06, RDMAP-4.8-07
func TestTerminateLeavesOutWhatIsNoHeader(t *testing.T) {
	for _, header := range []string{"", "41", writeHeader + "00", "c140 11223344", "4143 00000000 00000000"} {
		term := rdmap.Terminate{
			Code:     protocol.RDMAPInvalidSTag,
			Offender: &protocol.Offender{SegmentLength: 7, DDPHeader: wire(t, header), RDMAPHeader: make([]byte, 27)},
		}
		if got, want := term.AppendTo(nil), wire(t, "01008000 0007"); !bytes.Equal(got, want) {
			t.Errorf("DDP header %q and 27 octets of request: %x, want %x", header, got, want)
		}
	}
}

// offenders are the segments of which figure 10 decides what to echo.
var offenders = []struct {
	name       string
	ddp, rdmap string
	read       bool
}{
	{name: "none", ddp: "", rdmap: ""},
	{name: "tagged", ddp: writeHeader, rdmap: ""},
	{name: "untagged", ddp: sendHeader, rdmap: ""},
	{name: "Read Request", ddp: readHeader, rdmap: readRequest, read: true},
	{name: "Atomic Request with 28 octets of its own header", ddp: atomicHeader, rdmap: readRequest},
}

// figure10 is the rule of RFC 5040 figure 10, typed from the RFC: whether M and
// D are set, and R if it was a Read Request.
func figure10(c protocol.Code) (md, r bool) {
	switch uint16(c) >> 8 {
	case 0x00: // RDMA local catastrophic
	case 0x01: // RDMA remote protection
		return true, true
	case 0x02: // RDMA remote operation
		return true, false
	case 0x10: // DDP local catastrophic: never a DDP header
	case 0x11, 0x12: // DDP tagged, DDP untagged
		return true, false
	}
	return false, false // LLP
}

// maxTerminateLen is the length of a Terminate with all that it can have.
const maxTerminateLen = 4 + 2 + 18 + 28

// definedCodes are the codes that the RFCs define, of the many local catastrophic ones
// that RDMAP has the one that is sent.
func definedCodes() (codes []protocol.Code) {
	for i := range 1 << 16 {
		c := protocol.Code(i)
		if c.Defined() && (c == protocol.RDMAPLocalCatastrophic || c > 0xff) {
			codes = append(codes, c)
		}
	}
	return codes
}

// The whole table: each error that this end can find, for each kind of segment,
// becomes the Terminate of figure 10, and that the same error at the other end,
// and that again the same Terminate.
//
// Shows: RDMAP-4.8-01, RDMAP-4.8-02, RDMAP-4.8-03, RDMAP-4.8-06, RDMAP-4.8-07, RDMAP-4.8-09
// Shows: EXT-8.1-01, IANA-3.1-01, IANA-3.2-01, IANA-3.3-01
func TestEveryErrorToTerminateAndBack(t *testing.T) {
	for _, code := range definedCodes() {
		for _, tt := range offenders {
			local := &protocol.Error{Code: code, Detail: "detail", Section: "section"}
			if tt.ddp != "" {
				local.Offender = &protocol.Offender{SegmentLength: 99, DDPHeader: wire(t, tt.ddp)}
				if tt.rdmap != "" {
					local.Offender.RDMAPHeader = wire(t, tt.rdmap)
				}
			}
			term := rdmap.FromError(local)
			octets := term.AppendTo(nil)
			if len(octets) > maxTerminateLen {
				t.Errorf("%v, %s: %d octets", code, tt.name, len(octets))
			}

			md, r := figure10(code)
			md, r = md && tt.ddp != "", r && tt.read
			want := uint32(code) << 16
			if md {
				want |= 0xc000
			}
			if r {
				want |= 0x2000
			}
			if got := binary.BigEndian.Uint32(octets); got != want {
				t.Errorf("%v, %s: first word %08x, want %08x", code, tt.name, got, want)
			}

			received, n, err := rdmap.ParseTerminate(octets)
			if err != nil || n != len(octets) {
				t.Fatalf("%v, %s: %d, %v", code, tt.name, n, err)
			}
			remote := received.Err()
			if remote.Code != code || !remote.Remote {
				t.Errorf("%v, %s: comes back as %v, remote %v", code, tt.name, remote.Code, remote.Remote)
			}
			if !errors.Is(remote, &protocol.Error{Code: code, Remote: true}) || errors.Is(remote, local) {
				t.Errorf("%v, %s: the peer's error must match by code and not be ours", code, tt.name)
			}
			wantOffender := local.Offender
			if !md {
				wantOffender = nil
			} else if !r {
				wantOffender = &protocol.Offender{SegmentLength: 99, DDPHeader: local.Offender.DDPHeader}
			}
			if !reflect.DeepEqual(remote.Offender, wantOffender) {
				t.Errorf("%v, %s: echo %+v, want %+v", code, tt.name, remote.Offender, wantOffender)
			}
			again := rdmap.FromError(remote)
			if got := again.AppendTo(nil); !bytes.Equal(got, octets) {
				t.Errorf("%v, %s: a second time %x, want %x", code, tt.name, got, octets)
			}
			if local.Offender != nil && tt.rdmap != "" && local.Offender.RDMAPHeader == nil {
				t.Errorf("%v, %s: FromError changed the caller's error", code, tt.name)
			}
		}
	}
}

// A segment too short for a header has none to echo.
//
// Shows: RDMAP-4.8-06
func TestFromErrorWithoutWholeHeader(t *testing.T) {
	for _, header := range [][]byte{nil, {0x41}, make([]byte, 17), bytes.Repeat([]byte{0x80}, 18)} {
		term := rdmap.FromError(&protocol.Error{
			Code:     protocol.DDPUntaggedMO,
			Offender: &protocol.Offender{SegmentLength: 13, DDPHeader: header},
		})
		if term.Offender != nil {
			t.Errorf("header %x: echoes %+v", header, term.Offender)
		}
	}
}

// Shows: RDMAP-4.8-10
func TestLocalCatastrophicHasNoCode(t *testing.T) {
	for code := range 256 {
		term, _, err := rdmap.ParseTerminate([]byte{0, byte(code), 0, 0})
		if err != nil {
			t.Fatal(err)
		}
		got := term.Err()
		if got.Code != protocol.RDMAPLocalCatastrophic || !got.Remote {
			t.Errorf("code %#02x: %v", code, got)
		}
		if want := code != 0; (got.Detail != "") != want {
			t.Errorf("code %#02x: detail %q", code, got.Detail)
		}
	}
}

func TestTerminateErrTellsWhatThePeerEchoes(t *testing.T) {
	for _, tt := range []struct{ hex, want string }{
		{
			hex: terminates[0].hex,
			want: "caused by RDMA Read Request, QN 1 MSN 1 MO 0, source STag 0x11223344 TO 0x1000 size 64, DDP " +
				"segment length 46",
		},
		{hex: terminates[3].hex, want: "caused by RDMA Write, STag 0x11223344 TO 0x1000, DDP segment length 27"},
		{hex: "20020000", want: ""},
		{hex: "12028000 0017", want: ""},
		{hex: "005ac000 0017" + sendHeader, want: "code 0x5a, caused by Send, QN 0 MSN 1 MO 0, DDP segment length 23"},
	} {
		term, _, err := rdmap.ParseTerminate(wire(t, tt.hex))
		if err != nil {
			t.Fatal(err)
		}
		if got := term.Err().Detail; got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
		if s := term.Err().Error(); !strings.HasPrefix(s, "peer reports ") {
			t.Errorf("error is %q", s)
		}
	}
}

// FuzzParseTerminate: what was read is written, read and written the same again,
// and as an error it keeps its code.
func FuzzParseTerminate(f *testing.F) {
	for _, tt := range terminates {
		f.Add(wire(f, tt.hex))
	}
	f.Add(wire(f, "0109e000 0003"+invHeader))
	f.Add(wire(f, "01002000"+readRequest))
	f.Add(wire(f, "20060300 0000"+invHeader))
	f.Add([]byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		term, n, err := rdmap.ParseTerminate(b)
		if err != nil {
			if len(b) >= rdmap.MinTerminateLen || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%x: %v", b, err)
			}
			return
		}
		if n < rdmap.MinTerminateLen || n > len(b) || n > maxTerminateLen {
			t.Fatalf("%x: %d octets used", b, n)
		}
		octets := term.AppendTo(nil)
		if len(octets) > maxTerminateLen {
			t.Fatalf("%x: written as %d octets", b, len(octets))
		}
		again, n, err := rdmap.ParseTerminate(octets)
		if term.Offender == nil {
			again.Mirrored = term.Mirrored // there is nothing to show it by
		}
		if err != nil || n != len(octets) || !reflect.DeepEqual(again, term) {
			t.Fatalf("%x: %+v is read again as %+v, %v", b, term, again, err)
		}
		e := term.Err()
		same := e.Code.Layer() == term.Code.Layer() && e.Code.Type() == term.Code.Type()
		exchanged := uint8(e.Code.Layer()) == term.Code.Type() && e.Code.Type() == uint8(term.Code.Layer()) &&
			(term.Mirrored || !term.Code.Defined())
		if !e.Remote || !same && !exchanged || e.Error() == "" {
			t.Fatalf("%x: error %v", b, e)
		}
		out := rdmap.FromError(e)
		if word := binary.BigEndian.Uint32(out.AppendTo(nil)); protocol.Code(word>>16) != e.Code || word&0x1fff != 0 {
			t.Fatalf("%x: reported again as %08x", b, word)
		}
	})
}
