package stream

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/go-iwarp/iwarp/internal/netpair"
	"github.com/go-iwarp/iwarp/internal/tcpsock"
)

// cubic makes a socket use the congestion control that suits a machine of its own, where it may.
func cubic(_, _ string, c syscall.RawConn) error {
	_ = tcpsock.SetCongestion(c, "cubic")
	return nil
}

func cubicListen(tb testing.TB) net.Listener {
	ln, err := (&net.ListenConfig{Control: cubic}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return ln
}

func tcpPair(tb testing.TB) (net.Conn, net.Conn) {
	ln := cubicListen(tb)
	defer ln.Close()
	a, err := (&net.Dialer{Control: cubic}).Dial("tcp", ln.Addr().String())
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

func streamPair(b *testing.B) (net.Conn, net.Conn) {
	return over(b, func(b *testing.B) (net.Conn, net.Conn) { return tcpPair(b) })
}

// over makes a stream over two ends of TCP.
func over(b *testing.B, connect func(*testing.B) (net.Conn, net.Conn)) (net.Conn, net.Conn) {
	x, y := connect(b)
	server := make(chan *Conn, 1)
	go func() {
		c, err := Server(b.Context(), y, nil)
		if err != nil {
			b.Error(err)
		}
		server <- c
	}()
	client, err := Client(b.Context(), x, nil)
	if err != nil {
		b.Fatal(err)
	}
	return client, <-server
}

// BenchmarkThroughput sends 1 MiB a turn, over a stream and over TCP alone.
func BenchmarkThroughput(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20} {
		b.Run("tcp/"+sizeName(size), func(b *testing.B) {
			x, y := tcpPair(b)
			throughput(b, x, y, size)
		})
		b.Run("stream/"+sizeName(size), func(b *testing.B) {
			x, y := streamPair(b)
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

// BenchmarkVeth is BenchmarkThroughput on a network whose MTU is 1500.
func BenchmarkVeth(b *testing.B) {
	hosts, err := netpair.New(nil)
	if errors.Is(err, netpair.ErrUnsupported) {
		b.Skip(err)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer hosts.Close()
	connect := func(b *testing.B) (x, y net.Conn) {
		ln, err := hosts.B.Listen()
		if err != nil {
			b.Fatal(err)
		}
		defer ln.Close()
		err = hosts.A.Do(func() (err error) {
			x, err = (&net.Dialer{Control: cubic}).Dial("tcp", ln.Addr().String())
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		if y, err = ln.Accept(); err != nil {
			b.Fatal(err)
		}
		if raw, err := y.(*net.TCPConn).SyscallConn(); err == nil {
			_ = tcpsock.SetCongestion(raw, "cubic")
		}
		b.Cleanup(func() { _ = x.Close(); _ = y.Close() })
		return x, y
	}
	b.Run("tcp", func(b *testing.B) {
		x, y := connect(b)
		throughput(b, x, y, 1<<20)
	})
	b.Run("stream", func(b *testing.B) {
		x, y := over(b, connect)
		throughput(b, x, y, 1<<20)
	})
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
	b.Run("stream", func(b *testing.B) { x, y := streamPair(b); run(b, x, y) })
}
