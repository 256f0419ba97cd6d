package stream

import (
	"io"
	"net"
	"testing"
)

func tcpPair(tb testing.TB) (net.Conn, net.Conn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer ln.Close()
	a, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

// BenchmarkThroughput sends 1 MiB a turn, over a stream and over TCP alone.
func BenchmarkThroughput(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20} {
		b.Run("tcp/"+sizeName(size), func(b *testing.B) {
			x, y := tcpPair(b)
			throughput(b, x, y, size)
		})
		b.Run("stream/"+sizeName(size), func(b *testing.B) {
			x, y := pair(b, nil)
			throughput(b, x, y, size)
		})
	}
}

func sizeName(n int) string {
	if n >= 1<<20 {
		return "1MiB"
	}
	return "64KiB"
}

func throughput(b *testing.B, x, y net.Conn, size int) {
	p, q := make([]byte, size), make([]byte, size)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < b.N && err == nil; i++ {
			_, err = x.Write(p)
		}
		done <- err
	}()
	b.ResetTimer()
	for range b.N {
		if _, err := io.ReadFull(y, q); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPingPong sends 100 octets there and back.
func BenchmarkPingPong(b *testing.B) {
	run := func(b *testing.B, x, y net.Conn) {
		b.ReportAllocs()
		go func() {
			p := make([]byte, 100)
			for {
				if _, err := io.ReadFull(y, p); err != nil {
					return
				}
				if _, err := y.Write(p); err != nil {
					return
				}
			}
		}()
		p := make([]byte, 100)
		for b.Loop() {
			if _, err := x.Write(p); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(x, p); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("tcp", func(b *testing.B) { x, y := tcpPair(b); run(b, x, y) })
	b.Run("stream", func(b *testing.B) { x, y := pair(b, nil); run(b, x, y) })
}
