package mpa

import (
	"fmt"
	"io"
	"testing"
)

func BenchmarkParseStartup(b *testing.B) {
	wire := unhex(b, startupTable[5].hex)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := ParseStartup(wire, Request); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCRC(b *testing.B) {
	for _, n := range []int{64, 1400, 64000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := make([]byte, n)
			b.SetBytes(int64(n))
			for b.Loop() {
				updateCRC(0, p)
			}
		})
	}
}

var benchSizes = []struct {
	n       int
	markers bool
	crc     bool
}{
	{n: 78, crc: true},
	{n: 1442, crc: true},
	{n: 1430, markers: true, crc: true},
	{n: MaxULPDU, crc: true},
	{n: MaxULPDU, markers: true, crc: true},
	{n: MaxULPDU},
}

func BenchmarkSender(b *testing.B) {
	for _, s := range benchSizes {
		b.Run(fmt.Sprintf("n=%d/markers=%t/crc=%t", s.n, s.markers, s.crc), func(b *testing.B) {
			f := newSender(s.markers, s.crc, 0, AlignOff)
			header, payload := make([]byte, 14), [][]byte{make([]byte, s.n-14)}
			b.SetBytes(int64(s.n))
			b.ReportAllocs()
			for b.Loop() {
				if f.full() {
					f.advance(f.batch.left)
				}
				if err := f.add(header, payload, true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDeframer(b *testing.B) {
	for _, s := range benchSizes {
		b.Run(fmt.Sprintf("n=%d/markers=%t/crc=%t", s.n, s.markers, s.crc), func(b *testing.B) {
			f := framer{marked: s.markers, crc: s.crc}
			stream := f.append(nil, make([]byte, s.n))
			// Marked octets move, so each round needs the FPDU anew.
			buf := make([]byte, len(stream))
			b.SetBytes(int64(s.n))
			b.ReportAllocs()
			copy(buf, stream)
			for b.Loop() {
				if s.markers {
					copy(buf, stream)
				}
				d := Deframer{Markers: s.markers, CRC: s.crc}
				if _, _, _, err := d.Next(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkConn moves ULPDUs over loopback TCP, both ends in this process.
func BenchmarkConn(b *testing.B) {
	for _, s := range []struct {
		name    string
		max     int // FPDUMax
		message int
		markers bool
		crc     bool
	}{
		{name: "1MiB", max: 0, message: 1 << 20, crc: true},
		{name: "1MiB/nocrc", max: 0, message: 1 << 20},
		{name: "1MiB/1448", max: 1448, message: 1 << 20, crc: true},
		{name: "1MiB/1448/nocrc", max: 1448, message: 1 << 20},
		{name: "1MiB/markers", max: 0, message: 1 << 20, markers: true, crc: true},
		{name: "4KiB", max: 0, message: 4096, crc: true},
		{name: "64B", max: 0, message: 64, crc: true},
	} {
		b.Run(s.name, func(b *testing.B) {
			x, y := benchPair(b, s.max, s.markers, s.crc)
			data := make([]byte, s.message)
			header := make([]byte, 14)
			done := make(chan error, 1)
			go func() {
				for {
					if err := y.Receive(func(uint64, []byte) error { return nil }); err != nil {
						done <- err
						return
					}
				}
			}()
			b.SetBytes(int64(s.message))
			b.ReportAllocs()
			var piece [1][]byte
			for b.Loop() {
				for rest := data; len(rest) > 0; {
					if x.Full() {
						if _, err := x.Flush(true); err != nil {
							b.Fatal(err)
						}
					}
					n := min(len(rest), x.MULPDU()-len(header))
					piece[0], rest = rest[:n], rest[n:]
					if err := x.Queue(header, piece[:], true); err != nil {
						b.Fatal(err)
					}
				}
			}
			if err := x.CloseWrite(); err != nil {
				b.Fatal(err)
			}
			if err := <-done; err != io.EOF {
				b.Fatal(err)
			}
		})
	}
	b.Run("raw", func(b *testing.B) {
		x, y := tcpPair(b)
		go func() {
			buf := make([]byte, 256<<10)
			for {
				if _, err := y.Read(buf); err != nil {
					return
				}
			}
		}()
		data := make([]byte, 16*65483)
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := x.Write(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchPair(b *testing.B, max int, markers, crc bool) (*Conn, *Conn) {
	p, q := tcpPair(b)
	x, y := fullOperation(p, q, markers, crc)
	x.SetFPDUMax(max)
	return x, y
}

// BenchmarkPingPong is one ULPDU of 78 octets there and back.
func BenchmarkPingPong(b *testing.B) {
	x, y := benchPair(b, 0, false, true)
	u := make([]byte, 78)
	go func() {
		for y.Receive(func(_ uint64, seg []byte) error { return y.Queue(seg, nil, false) }) == nil {
			if _, err := y.Flush(true); err != nil {
				return
			}
		}
	}()
	b.ReportAllocs()
	got := false
	for b.Loop() {
		if err := x.Queue(u, nil, false); err != nil {
			b.Fatal(err)
		}
		if _, err := x.Flush(true); err != nil {
			b.Fatal(err)
		}
		for got = false; !got; {
			if err := x.Receive(func(uint64, []byte) error { got = true; return nil }); err != nil {
				b.Fatal(err)
			}
		}
	}
}
