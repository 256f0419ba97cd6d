package ddp_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
)

var headers = []struct {
	name, wire string
	header     ddp.Header
}{
	{
		name: "send", wire: "414300000000000000000000000100000000",
		header: ddp.Header{Last: true, Version: 1, Control: 0x43, MSN: 1},
	},
	{
		name: "send with invalidate", wire: "414411223344000000000000000300000000",
		header: ddp.Header{Last: true, Version: 1, Control: 0x44, ULP32: 0x11223344, MSN: 3},
	},
	{
		name: "first of two", wire: "014300000000000000000000000100000000",
		header: ddp.Header{Version: 1, Control: 0x43, MSN: 1},
	},
	{
		name: "second of two", wire: "4143000000000000000000000001000005ca",
		header: ddp.Header{Last: true, Version: 1, Control: 0x43, MSN: 1, MO: 1482},
	},
	{
		name: "read request", wire: "414100000000000000010000000100000000",
		header: ddp.Header{Last: true, Version: 1, Control: 0x41, QN: 1, MSN: 1},
	},
	{
		name: "write", wire: "c140112233440000000000001000",
		header: ddp.Header{Tagged: true, Last: true, Version: 1, Control: 0x40, STag: 0x11223344, TO: 0x1000},
	},
	{
		name: "first tagged of two", wire: "8140000000070000000000004000",
		header: ddp.Header{Tagged: true, Version: 1, Control: 0x40, STag: 7, TO: 16384},
	},
	{
		name: "second tagged of two", wire: "c1400000000700000000000045ce",
		header: ddp.Header{Tagged: true, Last: true, Version: 1, Control: 0x40, STag: 7, TO: 17870},
	},
	{
		name: "reserved bits and version 2", wire: "7e4300000000000000000000000000000000",
		header: ddp.Header{Last: true, Reserved: 0xf, Version: 2, Control: 0x43},
	},
	{
		name: "all ones untagged", wire: "7fffffffffffffffffffffffffffffffffff",
		header: ddp.Header{
			Last: true, Reserved: 15, Version: 3, Control: 0xff, ULP32: 1<<32 - 1, QN: 1<<32 - 1, MSN: 1<<32 - 1,
			MO: 1<<32 - 1,
		},
	},
	{
		name: "all ones tagged", wire: "ffffffffffffffffffffffffffff",
		header: ddp.Header{
			Tagged: true, Last: true, Reserved: 15, Version: 3, Control: 0xff, STag: 1<<32 - 1, TO: 1<<64 - 1,
		},
	},
	{
		name: "distinct fields", wire: "01828182838491929394a1a2a3a4b1b2b3b4",
		header: ddp.Header{
			Version: 1, Control: 0x82, ULP32: 0x81828384, QN: 0x91929394, MSN: 0xa1a2a3a4, MO: 0xb1b2b3b4,
		},
	},
	{
		name: "distinct tagged fields", wire: "818281828384c1c2c3c4c5c6c7c8",
		header: ddp.Header{Tagged: true, Version: 1, Control: 0x82, STag: 0x81828384, TO: 0xc1c2c3c4c5c6c7c8},
	},
}

// Shows: DDP-4.1-01, DDP-4.2-01, DDP-4.2-02, DDP-4.3-01, DDP-4.3-02, DDP-4.3-05
func TestHeaderBothWays(t *testing.T) {
	for _, tt := range headers {
		t.Run(tt.name, func(t *testing.T) {
			wire := unhex(t, tt.wire)
			if got := tt.header.AppendTo([]byte("x")); !bytes.Equal(got, append([]byte("x"), wire...)) {
				t.Errorf("AppendTo gives %x, want %x", got[1:], wire)
			}
			if tt.header.Len() != len(wire) {
				t.Errorf("Len is %d, want %d", tt.header.Len(), len(wire))
			}
			got, n, err := ddp.Parse(append(bytes.Clone(wire), "payload"...))
			if err != nil || n != len(wire) || got != tt.header {
				t.Errorf("Parse gives %+v, %d, %v, want %+v, %d", got, n, err, tt.header, len(wire))
			}
		})
	}
}

// Shows: DDP-4.4-01
func TestHeaderTruncated(t *testing.T) {
	for _, tt := range headers {
		wire := tt.header.AppendTo(nil)
		for i := range wire {
			if h, n, err := ddp.Parse(wire[:i]); !errors.Is(err, io.ErrUnexpectedEOF) || n != 0 || h != (ddp.Header{}) {
				t.Errorf("%s: Parse of %d octets gives %+v, %d, %v, want %v", tt.name, i, h, n, err,
					io.ErrUnexpectedEOF)
			}
		}
	}
}

// Shows: DDP-4.1-07
func TestHeaderReservedIsZero(t *testing.T) {
	for _, tagged := range []bool{false, true} {
		h := ddp.Header{Tagged: tagged, Last: true, Version: 1}
		if b := h.AppendTo(nil); b[0]&0x3c != 0 {
			t.Errorf("first octet is %#02x: Rsvd is not 0", b[0])
		}
		h.Reserved, h.Version = 0xff, 0xff
		if b := h.AppendTo(nil); b[0]&^0x80 != 0x7f {
			t.Errorf("first octet is %#02x: fields run over", b[0])
		}
	}
}

func TestSTagString(t *testing.T) {
	if got := ddp.STag(0xab).String(); got != "0x000000ab" {
		t.Errorf("got %s", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, tt := range headers {
		f.Add(tt.header.AppendTo(nil))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := ddp.Parse(b)
		if err != nil {
			if len(b) >= ddp.UntaggedHeaderLen {
				t.Fatalf("error for %d octets: %v", len(b), err)
			}
			return
		}
		if n != h.Len() || !bytes.Equal(h.AppendTo(nil), b[:n]) {
			t.Fatalf("%x parses to %+v, which is %x", b[:n], h, h.AppendTo(nil))
		}
	})
}
