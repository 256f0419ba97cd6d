package iwarptest_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
)

func TestEverySplit(t *testing.T) {
	for pieces, want := range [][]string{
		1: {"abcd"},
		2: {"a|bcd", "ab|cd", "abc|d"},
		3: {"a|b|cd", "a|bc|d", "ab|c|d"},
		4: {"a|b|c|d"},
		5: nil,
	} {
		var got []string
		for way := range iwarptest.EverySplit([]byte("abcd"), pieces) {
			got = append(got, string(bytes.Join(way, []byte("|"))))
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%d pieces: %v, want %v", pieces, got, want)
		}
	}
	n := 0
	for range iwarptest.EverySplit(make([]byte, 20), 3) {
		if n++; n == 5 {
			break
		}
	}
	if n != 5 {
		t.Errorf("%d ways after a break", n)
	}
}

func TestEverySize(t *testing.T) {
	want := []string{1: "a|b|c|d|e", 2: "ab|cd|e", 3: "abc|de", 4: "abcd|e", 5: "abcde"}
	seen := 0
	for size, way := range iwarptest.EverySize([]byte("abcde")) {
		seen++
		if got := string(bytes.Join(way, []byte("|"))); got != want[size] {
			t.Errorf("size %d: %s, want %s", size, got, want[size])
		}
	}
	if seen != 5 {
		t.Errorf("%d sizes, want 5", seen)
	}
	for size := range iwarptest.EverySize([]byte("abc")) {
		if size == 2 {
			break
		}
	}
}

func TestPrefixes(t *testing.T) {
	var got []string
	for p := range iwarptest.Prefixes([]byte("abc")) {
		if cap(p) != len(p) {
			t.Errorf("prefix %q has room for %d", p, cap(p))
		}
		got = append(got, string(p))
	}
	if strings.Join(got, "|") != "|a|ab" {
		t.Errorf("got %q", got)
	}
	for p := range iwarptest.Prefixes([]byte("abc")) {
		if len(p) == 1 {
			break
		}
	}
}

func TestSplitConn(t *testing.T) {
	a, b := iwarptest.Pipe(nil)
	c := iwarptest.Split(b, 1, 4, 0, 2)
	mustWrite(t, a, "0123456789abcdef")
	wantSizes(t, "sizes 1 4 1 2", reads(t, c, 16), 1, 4, 1, 2, 1, 4, 1, 2)
	mustWrite(t, a, "01")
	wantSizes(t, "a piece of two", reads(t, c, 2), 1, 1)
	mustWrite(t, a, "234")
	wantSizes(t, "the rest of it", reads(t, c, 3), 3)

	mustWrite(t, a, "xyz")
	wantSizes(t, "no sizes", reads(t, iwarptest.Split(b), 3), 1, 1, 1)

	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
	wantErr(t, "read at the FIN", a.Read, io.EOF)
	if err := c.(interface{ SetLinger(int) error }).SetLinger(0); err != nil {
		t.Error(err)
	}
}
