package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

// receive reads all that comes in the background.
func receive(c *Conn) <-chan []byte {
	ch := make(chan []byte, 1)
	go func() {
		b, err := io.ReadAll(c)
		if err != nil {
			b = append(b, err.Error()...)
		}
		ch <- b
	}()
	return ch
}

// Buffers of all lengths arrive in order, also more of them than a request has elements, and what is sent is taken from
// the list.
func TestWriteBuffers(t *testing.T) {
	for _, deadline := range []bool{false, true} {
		a, b := pair(t, nil)
		if deadline {
			_ = a.SetWriteDeadline(time.Now().Add(time.Hour))
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		var bufs net.Buffers
		var want []byte
		for i := range 100 {
			p := bytes.Repeat([]byte{byte(i)}, rnd.IntN(1<<rnd.IntN(18)))
			bufs, want = append(bufs, p), append(want, p...)
		}
		got := receive(b)
		if n, err := a.WriteBuffers(&bufs); n != int64(len(want)) || err != nil || len(bufs) != 0 {
			t.Fatalf("%d octets of %d, %v, %d buffers left", n, len(want), err, len(bufs))
		}
		if n, err := a.WriteBuffers(&bufs); n != 0 || err != nil {
			t.Errorf("nothing: %d, %v", n, err)
		}
		_ = a.CloseWrite()
		if g := <-got; !bytes.Equal(g, want) {
			t.Errorf("%d octets arrived, %d were sent", len(g), len(want))
		}
	}
}

// What a deadline keeps from being sent stays in the list.
func TestWriteBuffersDeadline(t *testing.T) {
	a, b := pair(t, &Config{RecvBuffer: 8192})
	granted(t, a, b)
	_ = a.SetWriteDeadline(time.Now().Add(time.Hour))
	go endWhenFull(a)
	p := pattern(100000)
	bufs := net.Buffers{p[:10], p[10:60000], p[60000:]}
	n, err := a.WriteBuffers(&bufs)
	left := 0
	for _, q := range bufs {
		left += len(q)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) || n != 8192 || int(n)+left != len(p) {
		t.Fatalf("%d octets, %d left, %v", n, left, err)
	}
	got := receive(b)
	_ = a.SetWriteDeadline(time.Time{})
	if _, err := a.WriteBuffers(&bufs); err != nil {
		t.Fatal(err)
	}
	_ = a.CloseWrite()
	if !bytes.Equal(<-got, p) {
		t.Error("the octets differ")
	}
}

func pattern(n int) []byte {
	p := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(p)
	return p
}

// io.Copy to and from a stream; a reader's error is handed up behind what it has read, and a writer's leaves what it
// has not taken.
func TestCopy(t *testing.T) {
	a, b := pair(t, nil)
	p := pattern(3<<20 + 17)
	got := receive(b)
	if n, err := a.ReadFrom(iotest.HalfReader(bytes.NewReader(p))); n != int64(len(p)) || err != nil {
		t.Fatal(n, err)
	}
	failing := io.MultiReader(strings.NewReader("behind"), iotest.ErrReader(io.ErrNoProgress))
	if n, err := a.ReadFrom(failing); n != 6 || !errors.Is(err, io.ErrNoProgress) {
		t.Fatal(n, err)
	}
	_ = a.CloseWrite()
	if g := <-got; string(g) != string(p)+"behind" {
		t.Errorf("%d octets arrived", len(g))
	}

	// The other direction is still there.
	if _, err := b.Write([]byte("0123456789")); err != nil {
		t.Fatal(err)
	}
	_ = b.CloseWrite()
	if n, err := a.WriteTo(shortWriter(4)); n != 4 || !errors.Is(err, io.ErrShortWrite) {
		t.Fatal(n, err)
	}
	rest, err := io.ReadAll(a)
	if string(rest) != "456789" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}

type shortWriter int

func (w shortWriter) Write(p []byte) (int, error) { return min(int(w), len(p)), nil }

// An end that has shut its sending down goes on receiving.
func TestHalfClose(t *testing.T) {
	a, b := pair(t, nil)
	if err := errors.Join(a.CloseWrite(), a.CloseWrite()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write([]byte{1}); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Write behind CloseWrite: %v", err)
	}
	for range 2 {
		if n, err := b.Read(make([]byte, 10)); n != 0 || err != io.EOF {
			t.Fatal(n, err)
		}
	}
	p := pattern(5 << 20)
	go func() {
		_, _ = b.Write(p)
		_ = b.Close()
	}()
	if got, err := io.ReadAll(a); err != nil || !bytes.Equal(got, p) {
		t.Errorf("%d octets, %v", len(got), err)
	}
	if _, err := b.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write behind Close: %v", err)
	}
}

// The socket's options can be set, and its octets are out of reach. A pipe has none.
func TestSyscallConn(t *testing.T) {
	a, _ := pair(t, nil)
	raw, err := a.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	called := false
	if err := raw.Control(func(uintptr) { called = true }); err != nil || !called {
		t.Errorf("Control: %v", err)
	}
	f := func(uintptr) bool { t.Error("called"); return true }
	if err := raw.Read(f); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if err := raw.Write(f); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}

	x, y := net.Pipe()
	served := make(chan *Conn, 1)
	go func() {
		c, err := Server(context.Background(), y, nil)
		if err != nil {
			t.Error(err)
		}
		served <- c
	}()
	c, err := Client(t.Context(), x, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := <-served
	if _, err := c.SyscallConn(); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	go func() { _ = s.Close() }()
	_ = c.Close()
	<-c.ended
	<-s.ended
}

// Abort is no end in good order for the peer, and wakes who waits here.
func TestAbort(t *testing.T) {
	a, b := pair(t, nil)
	if _, err := a.Write([]byte("some of it")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(b, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := a.Read(make([]byte, 1))
		waits <- err
	}()
	a.Abort()
	a.Abort() // does nothing more
	if err := <-waits; err == nil || errors.Is(err, io.EOF) {
		t.Errorf("Read at the end that aborts: %v", err)
	}
	if n, err := b.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, io.EOF) {
		t.Errorf("Read at the peer: %d octets, %v, want an error that is no end in good order", n, err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write after Abort: %v", err)
	}
}
