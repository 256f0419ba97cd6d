package sctp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/protocol"
)

// The layout of control chunks, octet by octet, both ways.
// Shows: SCTP-5.2-01, SCTP-5.2.3-01, IANA-3.5-01, MPA2-7-02, MPA2-7-07
func TestControlLayout(t *testing.T) {
	if PPIDSegment != 16 || PPIDControl != 17 || IndicationDDP != 1 || Experimental != 0xffff {
		t.Error("the numbers of IANA")
	}
	for name, c := range map[string]struct {
		octets string
		want   Control
	}{
		"Initiate":       {"0000 0001", Control{Function: Initiate}},
		"Initiate, data": {"0000 0001 6869", Control{Function: Initiate, PrivateData: []byte("hi")}},
		"Accept":         {"0000 0002", Control{Function: Accept}},
		"Reject":         {"0000 0003 21", Control{Function: Reject, PrivateData: []byte("!")}},
		"Terminate":      {"fffe 0004", Control{SSN: 65534, Function: Terminate}},
		"Enhanced Initiate": {
			"0000 0005 80208040 61", Control{Function: EnhancedInitiate, PrivateData: []byte("\x80\x20\x80\x40a")},
		},
		"Enhanced Accept": {
			"0000 0006 80208040", Control{Function: EnhancedAccept, PrivateData: []byte("\x80\x20\x80\x40")},
		},
		"Enhanced Reject":  {"0000 0007", Control{Function: EnhancedReject}},
		"a DDP-SSN in two": {"1234 0004", Control{SSN: 0x1234, Function: Terminate}},
		"512 octets are most": {
			"0000 0001 " + strings.Repeat("aa", 512),
			Control{Function: Initiate, PrivateData: bytes.Repeat([]byte{0xaa}, 512)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			octets, err := hex.DecodeString(strings.ReplaceAll(c.octets, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			got, err := ParseControl(octets)
			if err != nil || got.SSN != c.want.SSN || got.Function != c.want.Function ||
				!bytes.Equal(got.PrivateData, c.want.PrivateData) {
				t.Errorf("parsed %+v, %v", got, err)
			}
			back, err := c.want.AppendTo([]byte("x"))
			if err != nil || !bytes.Equal(back[1:], octets) {
				t.Errorf("appended %x, %v", back, err)
			}
			for n := range ControlHeaderLen {
				if _, err := ParseControl(octets[:n]); err == nil {
					t.Errorf("%d octets are taken for a message", n)
				}
			}
		})
	}
}

// Shows: SCTP-5.2.3-03, SCTP-5.2.3-04, MPA2-7-03, MPA2-7-04, IANA-3.5-01
func TestControlRefused(t *testing.T) {
	for name, c := range map[string]Control{
		"Private Data of 513 octets":           {Function: Initiate, PrivateData: make([]byte, 513)},
		"513 octets with the block":            {Function: EnhancedInitiate, PrivateData: make([]byte, 513)},
		"Private Data in Terminate":            {Function: Terminate, PrivateData: []byte{1}},
		"function 0":                           {},
		"function 8":                           {Function: 8},
		"function for experiments":             {Function: Experimental},
		"Enhanced Initiate with half a block":  {Function: EnhancedInitiate, PrivateData: make([]byte, 3)},
		"Enhanced Accept without Private Data": {Function: EnhancedAccept},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := c.AppendTo([]byte("x"))
			var perr *protocol.Error
			if string(b) != "x" || !errors.As(err, &perr) || perr.Section == "" {
				t.Errorf("AppendTo: %x, %v", b, err)
			}
			octets := append([]byte{0, 0, byte(c.Function >> 8), byte(c.Function)}, c.PrivateData...)
			if _, err := ParseControl(octets); err == nil {
				t.Error("ParseControl takes it")
			}
		})
	}
}

// Shows: SCTP-5.2.2-01
func TestSegmentLayout(t *testing.T) {
	b := append(AppendSegment(nil, 0xfedc), "segment"...)
	if !bytes.Equal(b, []byte("\xfe\xdcsegment")) {
		t.Errorf("%x", b)
	}
	ssn, seg, err := ParseSegment(b)
	if ssn != 0xfedc || string(seg) != "segment" || err != nil {
		t.Errorf("%x %q %v", ssn, seg, err)
	}
	for n := range SegmentHeaderLen {
		if _, _, err := ParseSegment(b[:n]); err == nil {
			t.Errorf("%d octets are taken for a chunk", n)
		}
	}
}

// What parses appends to the same octets.
func FuzzControl(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x01hello"))
	f.Add([]byte("\x12\x34\x00\x04"))
	f.Add([]byte("\x00\x00\x00\x05\x80\x20\x80\x40"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseControl(b)
		if err != nil {
			return
		}
		back, err := c.AppendTo(nil)
		if err != nil || !bytes.Equal(back, b) {
			t.Errorf("%x, %v, want %x", back, err, b)
		}
	})
}

// The sizes of segments: one packet holds one, with room for an acknowledgement, and 516 octets
// whatever the MTU is.
// Shows: SCTP-9-01, SCTP-9-02, SCTP-9-03
func TestSegmentMax(t *testing.T) {
	for mtu, want := range map[int]int{100: 516, 576: 526, 1191: 1138, 1452: 1402, 8192: 8142} {
		got := segmentMax(mtu)
		if got != want {
			t.Errorf("MTU %d: %d octets, want %d", mtu, got, want)
		}
		packet := commonHeaderLen + dataHeaderLen + SegmentHeaderLen + got
		if got > MinSegment && (packet+16 > mtu || packet%4 != 0) {
			t.Errorf("MTU %d: %d octets do not fit with an acknowledgement", mtu, got)
		}
	}
}

// INIT and INIT ACK get the indication and no more streams than this end wants, and stay whole;
// other packets, and those that are none, pass as they are.
// Shows: SCTP-5.1-01, SCTP-8-01
func TestAdapt(t *testing.T) {
	packet := func(chunk ...byte) []byte {
		p := append([]byte{0x13, 0x88, 0x13, 0x88, 1, 2, 3, 4, 0, 0, 0, 0}, chunk...)
		setChecksum(p)
		return p
	}
	init := []byte{
		chunkINIT, 0, 0, 25, 0, 0, 0, 9, 0, 16, 0, 0, 0xff, 0xff, 0, 5, 0, 0, 0, 7,
		0x80, 0x08, 0, 5, 0xc0, 0, 0, 0, // a parameter of 5 octets, and its padding
	}
	p := packet(init...)
	if got := adapt(p, 1, 10); !whole(got) || !bytes.Equal(got[12:], []byte{
		chunkINIT, 0, 0, 36, 0, 0, 0, 9, 0, 16, 0, 0, 0, 10, 0, 5, 0, 0, 0, 7,
		0x80, 0x08, 0, 5, 0xc0, 0, 0, 0, 0xc0, 0x06, 0, 8, 0, 0, 0, 1,
	}) {
		t.Errorf("% x", got)
	} else if code, ok := indication(startup(got)); code != 1 || !ok {
		t.Errorf("indication %d, %t", code, ok)
	}
	if _, ok := indication(startup(p)); ok {
		t.Error("an indication where there is none")
	}
	for n := range p[:commonHeaderLen+initLen] {
		if got := adapt(p[:n], 1, 10); !bytes.Equal(got, p[:n]) {
			t.Errorf("the first %d octets became % x", n, got)
		}
	}
	data := packet(0, 7, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 16, 1, 2, 3, 4)
	if got := adapt(data, 1, 10); !bytes.Equal(got, data) {
		t.Errorf("DATA became % x", got)
	}
	refusal := abort(p)
	if !whole(refusal) || !bytes.Equal(refusal[4:8], init[4:8]) || refusal[12] != chunkABORT {
		t.Errorf("ABORT: % x", refusal)
	}
}

func FuzzAdapt(f *testing.F) {
	f.Add([]byte("\x13\x88\x13\x88\x01\x02\x03\x04\x00\x00\x00\x00" +
		"\x01\x00\x00\x14\x00\x00\x00\x09\x00\x10\x00\x00\xff\xff\xff\xff\x00\x00\x00\x07"))
	f.Fuzz(func(t *testing.T, p []byte) {
		before := bytes.Clone(p)
		out := adapt(p, 1, 10)
		if !bytes.Equal(p, before) {
			t.Error("the packet was changed in place")
		}
		if c := startup(p); c != nil {
			_, _ = indication(c)
			if !whole(out) || len(out) > len(p)+paramLen+3 {
				t.Errorf("% x", out)
			}
		}
	})
}
