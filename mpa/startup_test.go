package mpa

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/protocol"
)

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func wantCode(t *testing.T, err error, code protocol.Code) *protocol.Error {
	t.Helper()
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != code || e.Remote {
		t.Fatalf("error is %v, want local %v", err, code)
	}
	if e.Section == "" || e.Detail == "" {
		t.Errorf("%v names no rule or no value", e)
	}
	return e
}

const (
	reqKeyHex = "4d504120494420526571204672616d65"
	repKeyHex = "4d504120494420526570204672616d65"
)

var startupTable = []struct {
	name  string
	hex   string
	frame Startup
}{
	{name: "req_v1", hex: reqKeyHex + "40010000", frame: Startup{Kind: Request, CRC: true, Revision: 1}},
	{
		name: "req_v1_m_pd", hex: reqKeyHex + "c0010003616263",
		frame: Startup{Kind: Request, Markers: true, CRC: true, Revision: 1, PrivateData: []byte("abc")},
	},
	{name: "rep_v1", hex: repKeyHex + "40010000", frame: Startup{Kind: Reply, CRC: true, Revision: 1}},
	{
		name: "rep_v1_reject", hex: repKeyHex + "6001000462757379",
		frame: Startup{Kind: Reply, CRC: true, Reject: true, Revision: 1, PrivateData: []byte("busy")},
	},
	{name: "req_v0", hex: reqKeyHex + "c0000000", frame: Startup{Kind: Request, Markers: true, CRC: true}},
	{
		name: "req_v2_p2p", hex: reqKeyHex + "50020005c010c00878",
		frame: Startup{Kind: Request, CRC: true, Enhanced: true, Revision: 2, PrivateData: []byte("\xc0\x10\xc0\x08x")},
	},
	{
		name: "rep_v2_p2p", hex: repKeyHex + "5002000480084010",
		frame: Startup{Kind: Reply, CRC: true, Enhanced: true, Revision: 2, PrivateData: []byte("\x80\x08\x40\x10")},
	},
	{
		name: "req_v2_cs", hex: reqKeyHex + "500200043fff3fff",
		frame: Startup{Kind: Request, CRC: true, Enhanced: true, Revision: 2, PrivateData: []byte("\x3f\xff\x3f\xff")},
	},
	{
		name: "req_r_set", hex: reqKeyHex + "60010000",
		frame: Startup{Kind: Request, CRC: true, Reject: true, Revision: 1},
	},
	{
		name: "req_res_set", hex: reqKeyHex + "4f010000",
		frame: Startup{Kind: Request, CRC: true, Reserved: 0x0f, Revision: 1},
	},
	{
		name: "req_v1_s_is_reserved", hex: reqKeyHex + "50010000",
		frame: Startup{Kind: Request, CRC: true, Reserved: 0x10, Revision: 1},
	},
	{
		name: "req_v2_unenhanced", hex: reqKeyHex + "40020001ff",
		frame: Startup{Kind: Request, CRC: true, Revision: 2, PrivateData: []byte{0xff}},
	},
	{
		name: "rep_512", hex: repKeyHex + "00010200" + strings.Repeat("5a", 512),
		frame: Startup{Kind: Reply, Revision: 1, PrivateData: bytes.Repeat([]byte{0x5a}, 512)},
	},
}

// Shows: MPA-7.1-05, MPA-7.1.1-01, MPA-7.1.1-03, MPA-7.1.1-05, MPA-7.1.1-11, MPA-7.1.1-12, MPA-7.1.1-13
// Shows: MPA-7.1.1-14, MPA-7.1.1-17, MPA-7.1.1-19, MPA2-6-01, MPA2-6-02, MPA2-6-05, MPA2-6-07
func TestStartupTable(t *testing.T) {
	for _, tt := range startupTable {
		t.Run(tt.name, func(t *testing.T) {
			wire := unhex(t, tt.hex)
			got, n, err := ParseStartup(append(wire, 0xee), tt.frame.Kind)
			if err != nil || n != len(wire) {
				t.Fatalf("ParseStartup = %d octets, %v, want %d", n, err, len(wire))
			}
			if !reflect.DeepEqual(got, tt.frame) {
				t.Errorf("ParseStartup = %+v, want %+v", got, tt.frame)
			}
			out, err := tt.frame.AppendTo([]byte{1})
			if err != nil || !bytes.Equal(out[1:], wire) || out[0] != 1 {
				t.Errorf("AppendTo = %x, %v, want 01 and %x", out, err, wire)
			}
			if tt.frame.Len() != len(wire) {
				t.Errorf("Len = %d, want %d", tt.frame.Len(), len(wire))
			}
			for i := range wire {
				if _, _, err := ParseStartup(wire[:i], tt.frame.Kind); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("first %d octets: %v, want io.ErrUnexpectedEOF", i, err)
				}
			}
		})
	}
}

// Shows: MPA-7.1.1-02, MPA-7.1.1-04, MPA-7.1.1-18, MPA-7.1.2-15, MPA-7.1.2-19, MPA-7.1.2-21, MPA-7.1.2-24, MPA2-6-06
func TestStartupRefused(t *testing.T) {
	for _, tt := range []struct {
		name, hex string
		want      Kind
		at        int // octets after which it is known
		text      string
	}{
		{
			name: "bad_key", hex: "4c504120494420526571204672616d6540010000", want: Request, at: 1,
			text: "octet 0 of the key is 0x4c",
		},
		{name: "req_to_initiator", hex: reqKeyHex + "40010000", want: Reply, at: 10, text: "both ends are Initiators"},
		{
			name: "rep_to_responder", hex: repKeyHex + "40010000", want: Request, at: 10,
			text: "Reply came where a Request was due",
		},
		{name: "last_key_octet", hex: reqKeyHex[:30] + "66" + "40010000", want: Request, at: 16, text: "octet 15"},
		{
			name: "pd_513", hex: reqKeyHex + "40010201" + strings.Repeat("00", 513), want: Request, at: 20,
			text: "PD_Length is 513",
		},
		{name: "pd_65535", hex: reqKeyHex + "4001ffff", want: Request, at: 20, text: "PD_Length is 65535"},
		{name: "v2_s_short", hex: reqKeyHex + "50020003616263", want: Request, at: 20, text: "PD_Length is 3"},
		{name: "v3_s_short", hex: repKeyHex + "10030000", want: Reply, at: 20, text: "PD_Length is 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wire := unhex(t, tt.hex)
			for i := range len(wire) + 1 {
				_, n, err := ParseStartup(wire[:i], tt.want)
				if i < tt.at {
					if !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Fatalf("first %d octets: %v, want more asked for", i, err)
					}
					continue
				}
				if e := wantCode(t, err, protocol.MPAStartup); n != 0 || !strings.Contains(e.Detail, tt.text) {
					t.Fatalf("first %d octets: n %d, %q, want %q", i, n, e.Detail, tt.text)
				}
			}
		})
	}
	if _, _, err := ParseStartup(nil, 0); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("kind 0: %v, want an error", err)
	}
}

// Shows: MPA-7.1.1-20, MPA2-6-03
func TestStartupNotSendable(t *testing.T) {
	for name, s := range map[string]Startup{
		"kind":         {Revision: 1},
		"513 octets":   {Kind: Request, Revision: 1, PrivateData: make([]byte, 513)},
		"S with rev 1": {Kind: Request, Revision: 1, Enhanced: true, PrivateData: make([]byte, 4)},
		"S, no block":  {Kind: Request, Revision: 2, Enhanced: true, PrivateData: make([]byte, 3)},
		"reserved":     {Kind: Request, Revision: 2, Reserved: 0x10},
		"reserved v1":  {Kind: Request, Revision: 1, Reserved: 0x20},
	} {
		if b, err := s.AppendTo([]byte("x")); err == nil || string(b) != "x" {
			t.Errorf("%s: AppendTo = %q, %v, want an error and the slice as it was", name, b, err)
		}
	}
}

// Shows: MPA2-9-01
func TestStartupULPData(t *testing.T) {
	s := Startup{Kind: Request, Revision: 2, Enhanced: true, PrivateData: []byte("\xc0\x10\xc0\x08hi")}
	if string(s.ULPData()) != "hi" {
		t.Errorf("ULPData = %q, want what follows the block", s.ULPData())
	}
	e, ok := s.Block()
	if want := (protocol.Enhanced{
		PeerToPeer: true, RTR: protocol.RTRSend | protocol.RTRWrite | protocol.RTRRead, IRD: 16, ORD: 8,
	}); !ok || e != want {
		t.Errorf("Block = %+v, %t, want %+v", e, ok, want)
	}
	s.Enhanced = false
	if _, ok := s.Block(); ok || len(s.ULPData()) != 6 {
		t.Error("without S all of Private Data is the ULP's")
	}
	for k, want := range map[Kind]string{Request: "Request", Reply: "Reply", 9: "startup frame kind 9"} {
		if k.String() != want {
			t.Errorf("String = %q, want %q", k, want)
		}
	}
}
