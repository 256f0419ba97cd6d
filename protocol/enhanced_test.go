package protocol_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/protocol"
)

const allRTR = protocol.RTRSend | protocol.RTRWrite | protocol.RTRRead

// enhancedBlocks are blocks whose octets and fields say the same.
var enhancedBlocks = []struct {
	name  string
	hex   string
	block protocol.Enhanced
}{
	{
		name: "peer-to-peer, all kinds, IRD 16 ORD 8", hex: "c010c008",
		block: protocol.Enhanced{PeerToPeer: true, RTR: allRTR, IRD: 16, ORD: 8},
	},
	{
		name: "peer-to-peer, read, IRD 8 ORD 16", hex: "80084010",
		block: protocol.Enhanced{PeerToPeer: true, RTR: protocol.RTRRead, IRD: 8, ORD: 16},
	},
	{name: "peer-to-peer, send", hex: "c0000000", block: protocol.Enhanced{PeerToPeer: true, RTR: protocol.RTRSend}},
	{name: "peer-to-peer, write", hex: "80008000", block: protocol.Enhanced{PeerToPeer: true, RTR: protocol.RTRWrite}},
	{name: "peer-to-peer, none", hex: "80000000", block: protocol.Enhanced{PeerToPeer: true}},
	{
		name: "client-server, not negotiated", hex: "3fff3fff",
		block: protocol.Enhanced{IRD: protocol.NotNegotiated, ORD: protocol.NotNegotiated},
	},
	{
		name: "client-server, the largest depths", hex: "3ffe3ffe",
		block: protocol.Enhanced{IRD: protocol.MaxDepth, ORD: protocol.MaxDepth},
	},
	{name: "client-server, IRD 0x1234 ORD 0x2345", hex: "12342345", block: protocol.Enhanced{IRD: 0x1234, ORD: 0x2345}},
	{name: "all zero", hex: "00000000", block: protocol.Enhanced{}},
}

// Shows: MPA2-9-01, MPA2-9.1-09, MPA2-9.2-01
func TestEnhancedBothWays(t *testing.T) {
	for _, tt := range enhancedBlocks {
		t.Run(tt.name, func(t *testing.T) {
			wire, _ := hex.DecodeString(tt.hex)
			got, err := tt.block.AppendTo([]byte("before"))
			if want := append([]byte("before"), wire...); err != nil || !bytes.Equal(got, want) {
				t.Errorf("AppendTo gives %x, %v, want %x", got, err, want)
			}
			block, n, err := protocol.ParseEnhanced(append(wire, "ULP data"...))
			if err != nil || n != protocol.EnhancedLen || block != tt.block {
				t.Errorf("ParseEnhanced gives %+v, %d, %v, want %+v, 4", block, n, err, tt.block)
			}
			for i := range wire {
				if _, n, err := protocol.ParseEnhanced(wire[:i]); n != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%d octets give %d, %v, want io.ErrUnexpectedEOF", i, n, err)
				}
			}
		})
	}
}

// Shows: MPA2-9.2-10
func TestRTRKindsNeedPeerToPeer(t *testing.T) {
	got, err := protocol.Enhanced{RTR: allRTR, IRD: 1, ORD: 2}.AppendTo(nil)
	if want := []byte{0, 1, 0, 2}; err != nil || !bytes.Equal(got, want) {
		t.Errorf("A=0 is sent as %x, %v, want %x: B, C and D zero", got, err, want)
	}
	block, _, err := protocol.ParseEnhanced([]byte{0x40, 1, 0xc0, 2})
	if want := (protocol.Enhanced{IRD: 1, ORD: 2}); err != nil || block != want {
		t.Errorf("A=0 with B, C and D set reads %+v, %v, want them ignored: %+v", block, err, want)
	}
}

// Shows: MPA2-9-01
func TestEnhancedDepthHas14Bits(t *testing.T) {
	for _, tt := range []struct {
		block protocol.Enhanced
		field string
	}{
		{block: protocol.Enhanced{IRD: 0x4000}, field: "IRD is 16384"},
		{block: protocol.Enhanced{ORD: 0xffff}, field: "ORD is 65535"},
	} {
		got, err := tt.block.AppendTo([]byte("x"))
		if err == nil || !strings.Contains(err.Error(), tt.field) || string(got) != "x" {
			t.Errorf("%+v gives %q, %v, want an error about %q and nothing appended", tt.block, got, err, tt.field)
		}
	}
}

func TestRTRString(t *testing.T) {
	for set, want := range map[protocol.RTR]string{
		0: "none", protocol.RTRSend: "send", protocol.RTRRead | protocol.RTRWrite: "write,read",
		allRTR: "write,read,send",
	} {
		if got := set.String(); got != want {
			t.Errorf("set %d is %q, want %q", set, got, want)
		}
	}
	if !allRTR.Has(protocol.RTRSend|protocol.RTRRead) || protocol.RTRSend.Has(allRTR) {
		t.Error("Has must ask for all the kinds given")
	}
}

// FuzzParseEnhanced: what was read is written back; only B, C and D of A=0 get lost.
func FuzzParseEnhanced(f *testing.F) {
	for _, tt := range enhancedBlocks {
		wire, _ := hex.DecodeString(tt.hex)
		f.Add(wire)
	}
	f.Add([]byte{0x40, 1, 0xc0, 2, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		block, n, err := protocol.ParseEnhanced(b)
		if err != nil {
			if len(b) >= protocol.EnhancedLen {
				t.Fatalf("%x: %v", b, err)
			}
			return
		}
		want := bytes.Clone(b[:n])
		if want[0]&0x80 == 0 {
			want[0] &= 0x3f
			want[2] &= 0x3f
		}
		if got, err := block.AppendTo(nil); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%x reads %+v and writes %x, %v", b, block, got, err)
		}
	})
}
