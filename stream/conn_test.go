package stream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

// pair makes two ends of a stream on loopback.
func pair(tb testing.TB, cfg *Config) (client, server *Conn) {
	tb.Helper()
	ln, err := Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		tb.Fatal(err)
	}
	defer ln.Close()
	type accepted struct {
		c   *Conn
		err error
	}
	ch := make(chan accepted, 1)
	go func() {
		c, err := ln.AcceptStream(context.Background())
		ch <- accepted{c, err}
	}()
	client, err = Dial(context.Background(), "tcp", ln.Addr().String(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	a := <-ch
	if a.err != nil {
		tb.Fatal(a.err)
	}
	tb.Cleanup(func() {
		_ = client.Close()
		_ = a.c.Close()
		<-client.ended
		<-a.c.ended
	})
	return client, a.c
}

func TestConnContract(t *testing.T) {
	for name, cfg := range map[string]*Config{
		"default": nil,
		"small":   {RecvBuffer: 1, Credits: minCredits},
	} {
		t.Run(name, func(t *testing.T) {
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				a, b := pair(t, cfg)
				return a, b, func() {
					_ = a.Close()
					_ = b.Close()
				}, nil
			})
		})
	}
}

// TestTransfer sends random octets both ways at once in pieces of random lengths.
func TestTransfer(t *testing.T) {
	for name, cfg := range map[string]*Config{
		"default": nil,
		"small":   {RecvBuffer: 1, Credits: minCredits},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, cfg)
			errs := make(chan error, 4)
			for i, c := range []*Conn{a, b} {
				go func() { errs <- sendRandom(c, uint64(i), 8<<20, i == 0) }()
			}
			for i, c := range []*Conn{b, a} {
				go func() { errs <- wantRandom(c, uint64(i), 8<<20) }()
			}
			for range 4 {
				if err := <-errs; err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func sendRandom(c *Conn, seed uint64, n int, deadline bool) error {
	src := rand.NewChaCha8([32]byte{byte(seed)})
	rnd := rand.New(rand.NewPCG(seed, 1))
	if deadline {
		if err := c.SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
			return err
		}
	}
	for n > 0 {
		p := make([]byte, min(n, 1+int(rnd.ExpFloat64()*20000)))
		_, _ = src.Read(p)
		if _, err := c.Write(p); err != nil {
			return err
		}
		n -= len(p)
	}
	return c.CloseWrite()
}

func wantRandom(c *Conn, seed uint64, n int) error {
	h, want := sha256.New(), sha256.New()
	_, _ = io.CopyN(want, rand.NewChaCha8([32]byte{byte(seed)}), int64(n))
	m, err := io.Copy(h, c)
	if err != nil || m != int64(n) || !bytes.Equal(h.Sum(nil), want.Sum(nil)) {
		return errors.Join(errors.New("octets differ"), err)
	}
	return nil
}

// granted makes sure that c has been granted all of the peer's ring: an octet of the peer comes behind the grant.
func granted(t *testing.T, c, peer *Conn) {
	t.Helper()
	if _, err := peer.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// endWhenFull ends the Write under way when the peer's ring is full.
func endWhenFull(c *Conn) {
	for full := false; !full; runtime.Gosched() {
		c.mu.Lock()
		full = c.out.count == 0
		c.mu.Unlock()
	}
	_ = c.SetWriteDeadline(time.Unix(1, 0))
}

// A deadline that passes costs nothing but the call.
func TestDeadlineDoesNotKill(t *testing.T) {
	a, b := pair(t, nil)
	granted(t, a, b)
	_ = a.SetWriteDeadline(time.Now().Add(time.Hour))
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	go endWhenFull(a)
	n, err := a.Write(big)
	if !errors.Is(err, os.ErrDeadlineExceeded) || n != defaultRecvBuffer {
		t.Fatalf("Write of more than the ring: %d, %v", n, err)
	}
	_ = b.SetReadDeadline(time.Now().Add(-1))
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	_ = b.SetReadDeadline(time.Time{})
	_ = a.SetWriteDeadline(time.Time{})
	go func() {
		_, _ = a.Write(big[n:])
		_ = a.CloseWrite()
	}()
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, big) {
		t.Fatalf("%d octets, %v", len(got), err)
	}
}
