package wire

import (
	"bytes"
	"encoding/hex"
	"math"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/tree"
)

// golden are messages with their octets, so that a later version is held against them.
var golden = []struct {
	name string
	msg  any
	hex  string
}{
	{
		name: "hello", msg: &Request{Op: Hello, Version: 1, Nonce: bytes.Repeat([]byte{7}, 4)},
		hex: "a4010102010344070707070c5000000000000000000000000000000000",
	},
	{
		name: "list", msg: &Request{Op: List, Entries: []Entry{{Path: []byte("d")}}, Recursive: true},
		hex: "a4010306" + "81a10141" + "6407f50c5000000000000000000000000000000000",
	},
	{
		name: "store",
		msg:  &Request{Op: Store, Handle: 1, Off: 4096, Len: 10, Spans: []tree.Span{{Off: 2, Len: 3}}, Sum: Sum{1}},
		hex:  "a6010c0801091910000a0a0b818202030c5001000000000000000000000000000000",
	},
	{
		name: "entry",
		msg: &Reply{
			Entries: []Entry{{Path: []byte("f"), Kind: tree.File, Perm: 0o644, Size: 5, MTime: 1e9, Nanos: 1}},
		},
		hex: "a20681a6014166020103" + "1901a4040505" + "1a3b9aca000601" + "0b5000000000000000000000000000000000",
	},
	{name: "error", msg: &Reply{Err: "no"}, hex: "a201626e6f0b5000000000000000000000000000000000"},
}

func TestGolden(t *testing.T) {
	for _, g := range golden {
		b, err := Marshal(g.msg)
		if err != nil || hex.EncodeToString(b) != g.hex {
			t.Errorf("%s: %x, want %s, %v", g.name, b, g.hex, err)
			continue
		}
		back := reflect.New(reflect.TypeOf(g.msg).Elem()).Interface()
		if err := Unmarshal(b, back); err != nil || !reflect.DeepEqual(back, g.msg) {
			t.Errorf("%s: %+v, want %+v, %v", g.name, back, g.msg, err)
		}
		for n := range b {
			if Unmarshal(b[:n], back) == nil {
				t.Errorf("%s: %d of %d octets are no error", g.name, n, len(b))
			}
		}
	}
}

func TestEntries(t *testing.T) {
	good := tree.Entry{Path: "a/b", Kind: tree.File, Perm: 0o640, Size: 7, MTime: time.Unix(-5, 7), Same: "c"}
	w := Of(good)
	if e, err := w.Tree(); err != nil || !e.MTime.Equal(good.MTime) || e.Path != good.Path || e.Perm != good.Perm ||
		e.Same != good.Same {
		t.Errorf("%+v, %v", e, err)
	}
	for _, c := range []struct {
		name string
		e    Entry
		text string
	}{
		{"empty", Entry{}, "no path below"},
		{"up", Entry{Path: []byte("a/../../b")}, "no path below"},
		{"absolute", Entry{Path: []byte("/a")}, "no path below"},
		{"slash at the end", Entry{Path: []byte("a/")}, "no path below"},
		{"same up", Entry{Path: []byte("a"), Same: []byte("../b")}, "no path below"},
		{"long", Entry{Path: bytes.Repeat([]byte("a"), MaxPath+1)}, "more than 4096 octets"},
		{"kind", Entry{Path: []byte("a"), Kind: 9}, "kind 9"},
		{"setuid", Entry{Path: []byte("a"), Perm: 0o4755}, "permissions 04755"},
		{"size", Entry{Path: []byte("a"), Size: -1}, "size -1"},
		{"nanos", Entry{Path: []byte("a"), Nanos: 1e9}, "billionths"},
		{"time", Entry{Path: []byte("a"), MTime: math.MaxInt64}, "no year"},
		{"error", Entry{Path: []byte("a"), Err: "gone"}, "gone"},
	} {
		if _, err := c.e.Tree(); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %q", c.name, err, c.text)
		}
	}
}

// Names and counts that no message may have are errors, and use no memory.
func TestTooLarge(t *testing.T) {
	if _, err := Marshal(&Reply{Err: strings.Repeat("x", MaxMessage)}); err == nil {
		t.Error("a message of any size")
	}
	for name, s := range map[string]string{
		"array of 2^32 entries": "a1069affffffff",
		"string of 2^62":        "a1015b3fffffffffffffff",
		"nested":                "a106818181818181818181",
		"key twice":             "a201010102",
		"indefinite":            "bf0101ff",
		"tag":                   "a101c001",
	} {
		b, _ := hex.DecodeString(s)
		if err := Unmarshal(b, new(Request)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A proof is worth something to one end, on one connection, with one token.
func TestProofs(t *testing.T) {
	a, b := NewNonce(), NewNonce()
	proofs := func(token string, nc net.Conn, c, s []byte) Proofs {
		t.Helper()
		p, err := NewProofs(token, nc, c, s)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	want := proofs("the token of the test", nil, a, b)
	if VerifyProof(want.Client, want.Client) != nil {
		t.Error("its own proof")
	}
	for name, p := range map[string][]byte{
		"the server's":   want.Server,
		"another token":  proofs("another token of it", nil, a, b).Client,
		"another nonce":  proofs("the token of the test", nil, a, NewNonce()).Client,
		"nonces swapped": proofs("the token of the test", nil, b, a).Client,
		"none":           nil,
		"half":           want.Client[:16],
	} {
		if VerifyProof(p, want.Client) == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := NewProofs("x", nil, a, b[:31]); err == nil {
		t.Error("a short nonce")
	}
	if p := proofs("", nil, a, b); VerifyProof(p.Client, nil) != nil {
		t.Error("without a token")
	}
}

func TestSums(t *testing.T) {
	chunk := []byte("0123456789")
	parts := []tree.Span{{Off: 1, Len: 2}, {Off: 5, Len: 3}}
	if SumOf(chunk, parts) != SumOf([]byte("12567"), Whole(5)) {
		t.Error("the parts' checksum is not that of their octets")
	}
	// XXH3-128 of nothing, as its authors publish it.
	if got := SumOf(nil, nil); hex.EncodeToString(got[:]) != "99aa06d3014798d86001c324468d497f" {
		t.Errorf("%x", got)
	}
}

func FuzzMessages(f *testing.F) {
	for _, g := range golden {
		b, err := hex.DecodeString(g.hex)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		req, rep := new(Request), new(Reply)
		if Unmarshal(b, req) == nil {
			if again, err := Marshal(req); err == nil && Unmarshal(again, new(Request)) != nil {
				t.Error("what was written cannot be read")
			}
		}
		if Unmarshal(b, rep) != nil {
			return
		}
		for i := range rep.Entries {
			e, err := rep.Entries[i].Tree()
			if err == nil && tree.Check(e.Path) != nil {
				t.Errorf("%q is let through", e.Path)
			}
		}
		if CheckRange(req.Off, req.Len, req.Spans, 1<<40) == nil {
			for _, s := range req.Spans {
				if s.Off < 0 || s.Off+s.Len > Chunk {
					t.Errorf("%+v is let through", s)
				}
			}
		}
	})
}
