package capture_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/capture"
)

// readAll reads packets until the error that ends them.
func readAll(r *capture.Reader) (packets []capture.Packet, err error) {
	for {
		var p capture.Packet
		if err := r.Next(&p); err != nil {
			return packets, err
		}
		p.Data = bytes.Clone(p.Data)
		packets = append(packets, p)
	}
}

// samplePackets is a capture of two packets, as Writer makes it.
func samplePackets(t testing.TB) (file []byte, want []capture.Packet) {
	t.Helper()
	want = []capture.Packet{
		{Time: time.Unix(1, 2).UTC(), Data: []byte("abc"), Length: 3, Link: capture.LinkRaw},
		{
			Time: time.Unix(3, 999_999_999).UTC(), Data: []byte("abcd"), Length: 9, Direction: capture.Outbound,
			Comment: "cut", Link: capture.LinkRaw,
		},
	}
	var b bytes.Buffer
	w, err := capture.NewWriter(&b, capture.LinkRaw)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range want {
		if err := w.WritePacket(&p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteStats(time.Unix(4, 0), 2, 0); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), want
}

func equalPackets(a, b []capture.Packet) bool {
	return slices.EqualFunc(a, b, func(a, b capture.Packet) bool {
		same := bytes.Equal(a.Data, b.Data) && a.Time.Equal(b.Time)
		a.Data, b.Data, a.Time, b.Time = nil, nil, time.Time{}, time.Time{}
		return same && a.Length == b.Length && a.Direction == b.Direction && a.Comment == b.Comment &&
			a.Link == b.Link &&
			a.Interface == b.Interface
	})
}

// What a Writer wrote a Reader reads, direction and comment included, plain and
// compressed.
func TestReaderReadsWhatWriterWrote(t *testing.T) {
	file, want := samplePackets(t)
	var z bytes.Buffer
	zw := gzip.NewWriter(&z)
	if _, err := zw.Write(file); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string][]byte{"plain": file, "gzip": z.Bytes()} {
		r, err := capture.NewReader(bytes.NewReader(file), nil)
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := readAll(r)
		if !errors.Is(err, io.EOF) || !equalPackets(got, want) {
			t.Errorf("%s: %v, %+v, want %+v", name, err, got, want)
		}
		info := r.Info()
		if info.Format != capture.FormatPcapng || info.Compressed != (name == "gzip") || len(info.Interfaces) != 1 ||
			info.Interfaces[0].Link != capture.LinkRaw || info.Interfaces[0].Resolution != time.Nanosecond {
			t.Errorf("%s: %+v", name, info)
		}
	}
}

// A file that ends within a packet is an error at that packet's offset, after all
// packets before.
func TestReaderEveryCut(t *testing.T) {
	file, want := samplePackets(t)
	for n := range len(file) {
		r, err := capture.NewReader(bytes.NewReader(file[:n]), nil)
		var got []capture.Packet
		if err == nil {
			got, err = readAll(r)
		}
		var fe *capture.FileError
		if !errors.Is(err, io.EOF) && (!errors.As(err, &fe) || fe.Offset > int64(n)) {
			t.Fatalf("cut to %d octets: %v", n, err)
		}
		if len(got) > len(want) || !equalPackets(got, want[:len(got)]) {
			t.Fatalf("cut to %d octets: %+v", n, got)
		}
	}
}

// The two classic magic numbers, in both octet orders.
func TestReaderPcap(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, nano := range []bool{false, true} {
			magic, tick := uint32(0xa1b2c3d4), time.Microsecond
			if nano {
				magic, tick = 0xa1b23c4d, time.Nanosecond
			}
			b := order.AppendUint32(nil, magic)
			b = order.AppendUint16(b, 2)
			b = order.AppendUint16(b, 4)
			for _, v := range []uint32{0, 0, 96, uint32(capture.LinkEthernet), 7, 5, 3, 60} { // head, then a packet's
				b = order.AppendUint32(b, v)
			}
			b = append(b, 1, 2, 3)
			r, err := capture.NewReader(bytes.NewReader(b), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := []capture.Packet{{
				Time: time.Unix(7, 0).Add(5 * tick), Data: []byte{1, 2, 3}, Length: 60, Link: capture.LinkEthernet,
			}}
			if got, err := readAll(r); !errors.Is(err, io.EOF) || !equalPackets(got, want) {
				t.Errorf("%v, nanoseconds %v: %v, %+v", order, nano, err, got)
			}
		}
	}
}

// Whatever a file holds: packets within it, and then io.EOF or a *FileError.
func FuzzReader(f *testing.F) {
	file, _ := samplePackets(f)
	f.Add(file)
	f.Add([]byte("\xd4\xc3\xb2\xa1\x02\x00\x04\x00"))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := capture.NewReader(bytes.NewReader(file), nil)
		if err == nil {
			var packets []capture.Packet
			packets, err = readAll(r)
			for _, p := range packets {
				if p.Length < len(p.Data) || p.Direction > capture.Outbound || p.Interface >= len(r.Info().Interfaces) {
					t.Fatalf("%+v", p)
				}
			}
		}
		var fe *capture.FileError
		if !errors.Is(err, io.EOF) && !errors.As(err, &fe) {
			t.Fatal(err)
		}
	})
}
