package iwarptest_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp/iwarptest"
)

func TestFaultNone(t *testing.T) {
	a, b := iwarptest.Pipe(nil)
	f := iwarptest.Inject(b)
	mustWrite(t, a, "there")
	mustWrite(t, f, "")
	mustWrite(t, f, "back")
	if got := mustRead(t, f, 5); string(got) != "there" {
		t.Errorf("got %q", got)
	}
	if got := mustRead(t, a, 4); string(got) != "back" {
		t.Errorf("got %q", got)
	}
	if n, err := f.Read(nil); n != 0 || err != nil {
		t.Errorf("an empty Read gives %d, %v", n, err)
	}
	if f.LocalAddr() != b.LocalAddr() || f.RemoteAddr() != b.RemoteAddr() {
		t.Error("addresses are not the wrapped connection's")
	}
}

func TestFaultFlip(t *testing.T) {
	a, b := iwarptest.Pipe(nil)
	f := iwarptest.Inject(b,
		iwarptest.Fault{Kind: iwarptest.Flip, At: 4},
		iwarptest.Fault{Kind: iwarptest.Flip, At: 5, Mask: 0x20},
		iwarptest.Fault{Kind: iwarptest.Flip, Write: true, At: 1, Mask: 0xff},
	)
	mustWrite(t, a, "aaaaaaaa")
	if got := string(mustRead(t, f, 3)) + string(mustRead(t, f, 5)); got != "aaaa`Aaa" {
		t.Errorf("read %q", got)
	}
	out := []byte{1, 2, 3}
	if n, err := f.Write(out); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	if got := mustRead(t, a, 3); got[0] != 1 || got[1] != 0xfd || got[2] != 3 || out[1] != 2 {
		t.Errorf("written %x, and the caller's octets are %x", got, out)
	}
}

func TestFaultCut(t *testing.T) {
	a, b := iwarptest.Pipe(nil)
	f := iwarptest.Inject(b, iwarptest.Fault{Kind: iwarptest.Cut, At: 3},
		iwarptest.Fault{Kind: iwarptest.Cut, Write: true, At: 2})
	mustWrite(t, a, "abcdef")
	if got, err := io.ReadAll(f); string(got) != "abc" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if n, err := f.Write([]byte("xyz")); n != 2 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("wrote %d, %v", n, err)
	}
	wantErr(t, "write after the cut", f.Write, syscall.EPIPE)
	if got, err := io.ReadAll(a); string(got) != "xy" || err != nil {
		t.Errorf("the other end reads %q, %v", got, err)
	}
}

func TestFaultReset(t *testing.T) {
	for _, write := range []bool{false, true} {
		a, b := iwarptest.Pipe(nil)
		f := iwarptest.Inject(b, iwarptest.Fault{Kind: iwarptest.Reset, Write: write, At: 3})
		mustWrite(t, a, "abcdef")
		if write {
			if n, err := f.Write([]byte("abcdef")); n != 3 || !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("wrote %d, %v", n, err)
			}
		} else {
			mustRead(t, f, 3)
		}
		wantErr(t, "read after the reset", f.Read, syscall.ECONNRESET)
		wantErr(t, "write after the reset", f.Write, syscall.ECONNRESET)
		wantErr(t, "the other end", a.Read, syscall.ECONNRESET)
	}
}

func TestFaultStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := iwarptest.Pipe(nil)
		f := iwarptest.Inject(b,
			iwarptest.Fault{Kind: iwarptest.Stall, At: 2},
			iwarptest.Fault{Kind: iwarptest.Stall, At: 4},
			iwarptest.Fault{Kind: iwarptest.Stall, Write: true},
		)
		mustWrite(t, a, "abcdef")
		mustRead(t, f, 2)
		_ = f.SetDeadline(time.Now().Add(time.Minute))
		wantErr(t, "a stalled Read has its deadline", f.Read, os.ErrDeadlineExceeded)
		wantErr(t, "a stalled Write has its deadline", f.Write, os.ErrDeadlineExceeded)
		_ = f.SetReadDeadline(time.Time{})
		_ = f.SetWriteDeadline(time.Time{})
		got := make(chan string)
		go func() { got <- string(mustRead(t, f, 2)) }()
		synctest.Wait()
		f.Resume()
		if s := <-got; s != "cd" {
			t.Errorf("after Resume %q", s)
		}
		mustWrite(t, f, "x")
		mustRead(t, a, 1)

		done := make(chan error)
		go func() {
			_, err := f.Read(make([]byte, 1))
			done <- err
		}()
		synctest.Wait()
		_ = f.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("a stalled Read ends with %v at Close, want %v", err, net.ErrClosed)
		}
	})
}

func TestFaultConnCloseWrite(t *testing.T) {
	a, b := iwarptest.Pipe(nil)
	f := iwarptest.Inject(b)
	if err := f.CloseWrite(); err != nil {
		t.Error(err)
	}
	wantErr(t, "read at the FIN", a.Read, io.EOF)
	if err := f.SetLinger(0); err != nil {
		t.Error(err)
	}

	// net.Pipe has neither half close nor linger.
	c, d := net.Pipe()
	g := iwarptest.Inject(c)
	if err := g.SetLinger(0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("SetLinger: %v", err)
	}
	if err := g.CloseWrite(); err != nil {
		t.Error(err)
	}
	wantErr(t, "read at the end", d.Read, io.EOF)
}
