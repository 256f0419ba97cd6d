package stream

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

func octets(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPrivateData reads what rsockets send: 384 credits, a list of two entries, half of a ring of 128 KiB.
func TestPrivateData(t *testing.T) {
	b := octets(t, "01 02 0180 000000 00"+"00005581c0de1000 00000100 00000002"+"00007f00beef0000 00000200 00010000")
	d, err := parsePrivateData(b)
	want := privateData{
		flags: flagIOMap, credits: 384, grants: sge{addr: 0x5581c0de1000, stag: 0x100, length: 2},
		first: sge{addr: 0x7f00beef0000, stag: 0x200, length: 65536},
	}
	if err != nil || d != want {
		t.Fatalf("%+v, %v", d, err)
	}
	if got := d.AppendTo(nil); !bytes.Equal(got, b) {
		t.Errorf("% x", got)
	}
	for n := range b {
		if _, err := parsePrivateData(b[:n]); err == nil {
			t.Errorf("%d octets are accepted", n)
		}
	}
	if _, err := parsePrivateData(append(b, 1, 2, 3)); err != nil {
		t.Errorf("more octets: %v", err)
	}
}

// badPrivateData is Private Data with one mistake each.
func badPrivateData(t *testing.T) map[string][]byte {
	good := octets(t, "01 00 0080 000000 00"+"0000000000000000 00000100 00000002"+"0000000000000020 00000100 00002000")
	change := func(at int, octets ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], octets)
		return b
	}
	ff := []byte{255, 255, 255, 255, 255, 255, 255, 255}
	return map[string][]byte{
		"nothing":               {},
		"version 0":             change(0, 0),
		"version 2":             change(0, 2),
		"big-endian":            change(1, flagBigEndian),
		"no credits":            change(2, 0, 0),
		"one credit":            change(2, 0, 1),
		"no list":               change(20, 0, 0, 0, 0),
		"a list of one entry":   change(20, 0, 0, 0, 1),
		"a list of 2^32-1":      change(20, ff[:4]...),
		"a list that wraps":     change(8, ff...),
		"no memory":             change(36, 0, 0, 0, 0),
		"memory that wraps":     change(24, ff...),
		"the last octet is cut": good[:39],
	}
}

func TestBadPrivateData(t *testing.T) {
	for name, b := range badPrivateData(t) {
		if d, err := parsePrivateData(b); err == nil {
			t.Errorf("%s is accepted: %+v", name, d)
		}
	}
}

func TestMessage(t *testing.T) {
	for b, want := range map[string][2]uint32{
		"00000100": {kindData, 65536},
		"81010080": {kindGrant, 385},
		"020000e0": {kindState, stateShutdown},
		"030000c0": {kindMemory, 3},
	} {
		if kind, value := parseMessage(octets(t, b)); kind != want[0] || value != want[1] {
			t.Errorf("%s: kind %d, value %d", b, kind, value)
		}
	}
	if m := message(kindState, stateDisconnect); m != 0xe0000000 {
		t.Errorf("disconnect is 0x%x", m)
	}
}

func TestGrantEntry(t *testing.T) {
	b := (&sge{addr: 0x1122334455667788, stag: 0x99aabbcc, length: 0x10000}).appendGrant(nil)
	if want := octets(t, "8877665544332211 ccbbaa99 00000100"); !bytes.Equal(b, want) {
		t.Errorf("% x", b)
	}
	list := make([]byte, ringOffset)
	copy(list[sgeLen:], b)
	s, ok := takeGrant(list[sgeLen:])
	if want := (sge{addr: 0x1122334455667788, stag: 0x99aabbcc, length: 0x10000}); !ok || s != want {
		t.Errorf("%+v, %v", s, ok)
	}
	if s, ok := takeGrant(list[sgeLen:]); ok {
		t.Errorf("taken again: %+v", s)
	}
}

func FuzzPrivateData(f *testing.F) {
	f.Add((&privateData{
		credits: 128, grants: sge{addr: 0, stag: 1, length: 2}, first: sge{addr: 32, stag: 1, length: 4096},
	}).AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := parsePrivateData(b)
		if err != nil {
			return
		}
		want := bytes.Clone(b[:privateDataLen])
		copy(want[4:8], make([]byte, 4))
		if got := d.AppendTo(nil); !bytes.Equal(got, want) {
			t.Errorf("% x\n% x", got, want)
		}
	})
}
