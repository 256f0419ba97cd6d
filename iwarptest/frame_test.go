package iwarptest_test

import (
	"bytes"
	"encoding/hex"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
)

func wire(t testing.TB, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// counting returns n octets 0, 1, 2 ... 255, 0 ...
func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func TestCRC32C(t *testing.T) {
	if got := iwarptest.CRC32C([]byte("123456789")); got != 0xe3069283 {
		t.Errorf("check value is %08x, want e3069283", got)
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	for n := range 300 {
		if b := counting(n); iwarptest.CRC32C(b) != crc32.Checksum(b, table) {
			t.Errorf("CRC of %d octets is not hash/crc32's", n)
		}
	}
}

// frames are single FPDUs whose octets are known; those of figures 5 and 6 are
// from RFC 5044.
var frames = []struct {
	name   string
	framer iwarptest.Framer
	ulpdu  []byte
	hex    string
}{
	{
		name:   "hello",
		framer: iwarptest.Framer{},
		ulpdu:  iwarptest.Send(1, []byte("hello")),
		hex:    "0017 4143 00000000 00000000 00000001 00000000 68656c6c6f 000000 b990b10c",
	},
	{
		name:   "hello without CRC",
		framer: iwarptest.Framer{NoCRC: true},
		ulpdu:  iwarptest.Send(1, []byte("hello")),
		hex:    "0017 4143 00000000 00000000 00000001 00000000 68656c6c6f 000000 00000000",
	},
	{
		name:   "hello with the first Marker",
		framer: iwarptest.Framer{Markers: true},
		ulpdu:  iwarptest.Send(1, []byte("hello")),
		hex:    "00000000 0017 4143 00000000 00000000 00000001 00000000 68656c6c6f 000000 7a61e971",
	},
	{
		name:   "figure 5",
		framer: iwarptest.Framer{Markers: true},
		ulpdu:  iwarptest.Send(1, make([]byte, 24)),
		hex:    "00000000 002a 4143 00000000 00000000 00000001 00000000" + strings.Repeat("00", 24) + "52239983",
	},
	{
		name:   "figure 6",
		framer: iwarptest.Framer{Markers: true, Pos: 0x1ec},
		ulpdu:  iwarptest.Send(2, make([]byte, 24)),
		hex:    "002a 4143 00000000 00000000 00000002 00000000 00000014" + strings.Repeat("00", 24) + "84925898",
	},
	{
		name:   "empty ULPDU",
		framer: iwarptest.Framer{NoCRC: true},
		hex:    "0000 0000 00000000",
	},
}

func TestFrame(t *testing.T) {
	for _, tt := range frames {
		t.Run(tt.name, func(t *testing.T) {
			want := wire(t, tt.hex)
			out := tt.framer
			if got := out.Frame(tt.ulpdu); !bytes.Equal(got, want) {
				t.Errorf("got  %x\nwant %x", got, want)
			}
			if got := out.Pos - tt.framer.Pos; got != uint64(len(want)) {
				t.Errorf("Pos moved by %d, want %d", got, len(want))
			}
			in := tt.framer
			ulpdu, n, err := in.Unframe(append(bytes.Clone(want), 0xee))
			if err != nil || n != len(want) || !bytes.Equal(ulpdu, tt.ulpdu) || in != out {
				t.Errorf("taken apart: %x, %d, %v", ulpdu, n, err)
			}
			for prefix := range iwarptest.Prefixes(want) {
				in := tt.framer
				if ulpdu, n, err := in.Unframe(prefix); ulpdu != nil || n != 0 || err != nil || in != tt.framer {
					t.Errorf("%d octets: %x, %d, %v, want to be asked for more", len(prefix), ulpdu, n, err)
				}
			}
		})
	}
	if got, want := iwarptest.FPDU(frames[0].ulpdu), wire(t, frames[0].hex); !bytes.Equal(got, want) {
		t.Errorf("FPDU gives %x, want %x", got, want)
	}
}

func TestMarkersInAStream(t *testing.T) {
	f := iwarptest.Framer{Markers: true}
	stream := append(f.Frame(iwarptest.Send(1, counting(400))), f.Frame(iwarptest.Send(2, counting(600)))...)
	if len(stream) != 1060 || f.Pos != 1060 {
		t.Fatalf("%d octets, Pos %d, want 1060", len(stream), f.Pos)
	}
	for at, want := range map[int]string{
		0: "00000000", 4: "01a24143", 424: "61c9010a", 428: "026a4143", 512: "00000054", 1024: "00000254",
		1056: "d25c2222",
	} {
		if got := hex.EncodeToString(stream[at : at+4]); got != want {
			t.Errorf("at %d: %s, want %s", at, got, want)
		}
	}

	f = iwarptest.Framer{Markers: true}
	beforeCRC := f.Frame(iwarptest.Send(1, counting(488)))
	if got := hex.EncodeToString(beforeCRC[512:]); got != "000001fc68a8c2e0" {
		t.Errorf("a Marker between PAD and CRC: %s", got)
	}

	f = iwarptest.Framer{Markers: true}
	first := f.Frame(iwarptest.Send(1, counting(484)))
	if second := f.Frame(iwarptest.Send(2, nil)); len(first) != 512 ||
		!bytes.HasPrefix(second, wire(t, "00000000 0012")) {
		t.Errorf("a Marker between two FPDUs: %d octets, then %x", len(first), second)
	}
}

// Every length around two Markers, at every position, comes apart as it was.
func TestFrameRoundTrip(t *testing.T) {
	for _, markers := range []bool{false, true} {
		for pos := uint64(0); pos < 1024; pos += 4 {
			out := iwarptest.Framer{Markers: markers, Pos: pos, NoCRC: pos%16 != 0}
			in := out
			for _, n := range []int{0, 1, 2, 3, 18, 500 + int(pos%13), 1016 + int(pos%9)} {
				ulpdu := counting(n)
				fpdu := out.Frame(ulpdu)
				got, used, err := in.Unframe(fpdu)
				if err != nil || used != len(fpdu) || !bytes.Equal(got, ulpdu) || in != out || len(fpdu)%4 != 0 {
					t.Fatalf("markers %v, position %d, %d octets: %d of %d, %v", markers, pos, n, used, len(fpdu), err)
				}
			}
		}
	}
}

func TestUnframeIsStrict(t *testing.T) {
	for _, tt := range []struct {
		why    string
		frame  int
		change func(b []byte)
		fix    bool
		want   string
	}{
		{why: "CRC", frame: 0, change: func(b []byte) { b[31] ^= 1 }, want: "CRC"},
		{why: "PAD", frame: 0, change: func(b []byte) { b[27] = 1 }, fix: true, want: "PAD"},
		{why: "reserved half of a Marker", frame: 3, change: func(b []byte) { b[0] = 1 }, fix: true, want: "Marker"},
		{why: "FPDUPTR", frame: 4, change: func(b []byte) { b[23] = 0x18 }, fix: true, want: "Marker"},
		{why: "low bits of FPDUPTR", frame: 4, change: func(b []byte) { b[23] = 0x17 }, fix: true, want: "Marker"},
	} {
		b := wire(t, frames[tt.frame].hex)
		tt.change(b)
		if tt.fix {
			iwarptest.FixCRC(b)
		}
		f := frames[tt.frame].framer
		if _, n, err := f.Unframe(b); n != 0 || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %d, %v, want an error about the %s", tt.why, n, err, tt.want)
		}
	}
}

func TestFixCRC(t *testing.T) {
	b := iwarptest.FPDU(iwarptest.Send(1, []byte("hello")))
	b[3] = 0x44
	iwarptest.FixCRC(b)
	var f iwarptest.Framer
	if got, _, err := f.Unframe(b); err != nil || got[1] != 0x44 {
		t.Errorf("%x, %v", got, err)
	}
}

func FuzzUnframe(f *testing.F) {
	for _, tt := range frames {
		f.Add(wire(f, tt.hex), tt.framer.Markers, tt.framer.NoCRC, tt.framer.Pos)
	}
	f.Fuzz(func(t *testing.T, b []byte, markers, noCRC bool, pos uint64) {
		in := iwarptest.Framer{Markers: markers, NoCRC: noCRC, Pos: pos &^ 3 % (1 << 40)}
		out := in
		ulpdu, n, err := in.Unframe(b)
		if err != nil || n == 0 {
			return
		}
		again := out.Frame(ulpdu)
		if len(again) != n || out != in || !bytes.Equal(again[:n-4], b[:n-4]) {
			t.Fatalf("%x comes back as %x", b[:n], again)
		}
	})
}
