package capture_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/capture"
)

func TestWriterOctets(t *testing.T) {
	var out bytes.Buffer
	w, err := capture.NewWriter(&out, capture.LinkRaw)
	if err != nil {
		t.Fatal(err)
	}
	p := &capture.Packet{
		Time: time.Unix(0, 0x0102030405060708), Data: []byte("hello"), Length: 9, Direction: capture.Outbound,
		Comment: "c",
	}
	if err := w.WritePacket(p); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteStats(time.Unix(0, 0x0102030405060709), 3, 2); err != nil {
		t.Fatal(err)
	}
	got := hex.EncodeToString(out.Bytes())
	const app = "github.com/go-iwarp/iwarp"
	want := "0a0d0d0a" + "40000000" + "4d3c2b1a" + "01000000" + "ffffffffffffffff" +
		"04001900" + hex.EncodeToString([]byte(app)) + "000000" + "00000000" + "40000000" +
		"01000000" + "2c000000" + "6500" + "0000" + "00000000" +
		"02000500" + "6977617270" + "000000" + "09000100" + "09000000" + "00000000" + "2c000000" +
		"06000000" + "3c000000" + "00000000" + "04030201" + "08070605" + "05000000" + "09000000" +
		"68656c6c6f" + "000000" + "01000100" + "63000000" + "02000400" + "02000000" + "00000000" + "3c000000" +
		"05000000" + "34000000" + "00000000" + "04030201" + "09070605" +
		"04000800" + "0300000000000000" + "05000800" + "0200000000000000" + "00000000" + "34000000"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWriterRefuses(t *testing.T) {
	w, err := capture.NewWriter(io.Discard, capture.LinkEthernet)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*capture.Packet{
		{Data: []byte("abc"), Length: 2},
		{Length: -1},
		{Comment: string(make([]byte, 65536))},
	} {
		if err := w.WritePacket(p); err == nil {
			t.Errorf("length %d of %d, comment of %d: no error", p.Length, len(p.Data), len(p.Comment))
		}
	}
	if err := w.WritePacket(&capture.Packet{}); err != nil {
		t.Errorf("the Writer does not go on after a bad packet: %v", err)
	}
}

// failAfter fails from the n-th Write on.
type failAfter struct{ n int }

var errDisk = errors.New("disk full")

func (f *failAfter) Write(b []byte) (int, error) {
	if f.n--; f.n < 0 {
		return 0, errDisk
	}
	return len(b), nil
}

func TestWriterErrorStays(t *testing.T) {
	w, err := capture.NewWriter(&failAfter{1}, capture.LinkRaw)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.WritePacket(&capture.Packet{}); !errors.Is(err, errDisk) {
			t.Errorf("got %v", err)
		}
	}
	if err := w.WriteStats(time.Time{}, 0, 0); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
	if _, err := capture.NewWriter(&failAfter{}, capture.LinkRaw); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
}

func FuzzWriter(f *testing.F) {
	f.Add([]byte("hello"), int64(1), uint16(0), uint8(0), "")
	f.Add([]byte{}, int64(-1), uint16(7), uint8(2), "why")
	f.Add([]byte{1, 2, 3, 4}, int64(1)<<62, uint16(65535), uint8(1), "abcd")
	f.Fuzz(func(t *testing.T, data []byte, at int64, extra uint16, dir uint8, comment string) {
		var out bytes.Buffer
		w, err := capture.NewWriter(&out, capture.LinkEthernet)
		if err != nil {
			t.Fatal(err)
		}
		p := &capture.Packet{
			Time: time.Unix(0, at), Data: data, Length: len(data) + int(extra),
			Direction: capture.Direction(dir % 3), Comment: comment[:min(len(comment), 65535)],
		}
		for range 2 {
			if err := w.WritePacket(p); err != nil {
				t.Fatal(err)
			}
		}
		rec, err := readCapture(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if rec.link != 1 || len(rec.packets) != 2 {
			t.Fatalf("link type %d, %d packets", rec.link, len(rec.packets))
		}
		for _, g := range rec.packets {
			if !bytes.Equal(g.data, data) || g.length != p.Length || g.time.UnixNano() != max(at, 0) ||
				g.dir != byte(p.Direction) || g.comment != p.Comment {
				t.Fatalf("got %+v, want %+v", g, p)
			}
		}
	})
}
