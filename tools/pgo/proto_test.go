package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func TestMapStrings(t *testing.T) {
	in := []byte("\x08\x05" + "\x32\x02/a" + "\x32\x00" + "\x12\x03xyz" + "\x32\x01b")
	got, err := mapStrings(in, func(s string) string { return strings.ReplaceAll(s, "/a", "long") })
	if want := []byte("\x08\x05" + "\x32\x04long" + "\x32\x00" + "\x12\x03xyz" +
		"\x32\x01b"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for n := range in {
		switch n {
		case 0, 2, 6, 8, 13: // between fields
			continue
		}
		if _, err := mapStrings(in[:n], strings.ToUpper); !errors.Is(err, errProto) {
			t.Errorf("cut after %d octets: %v", n, err)
		}
	}
}

// The profile that is built with names no file of the machine that made it.
func TestProfileHasNoPaths(t *testing.T) {
	f, err := os.Open("../../cmd/iwarp/default.pgo")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	if _, err := mapStrings(b, func(s string) string {
		if strings.HasPrefix(s, "/") || strings.Contains(s, ":\\") {
			t.Errorf("%q is a path", s)
		}
		if strings.HasPrefix(s, "github.com/go-iwarp/iwarp/mpa.") {
			ours++
		}
		return s
	}); err != nil {
		t.Fatal(err)
	}
	if ours == 0 {
		t.Error("nothing in it is of this library")
	}
}
