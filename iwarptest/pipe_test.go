package iwarptest_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"github.com/go-iwarp/iwarp/iwarptest"
)

func TestPipeIsANetConn(t *testing.T) {
	for name, cfg := range map[string]*iwarptest.PipeConfig{
		"default":      nil,
		"small window": {Window: 100},
		"short reads":  {Window: 1000, MaxRead: 97},
		"keep writes":  {KeepWrites: true},
		"delay":        {Delay: 50 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				a, b := iwarptest.Pipe(cfg)
				return a, b, func() {
					_ = a.Close()
					_ = b.Close()
				}, nil
			})
		})
	}
}

// mustRead reads exactly n octets.
func mustRead(t *testing.T, c net.Conn, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if got, err := io.ReadFull(c, b); err != nil {
		t.Fatalf("read %d of %d octets: %v", got, n, err)
	}
	return b
}

func mustWrite(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
		t.Fatalf("wrote %d of %d octets: %v", n, len(s), err)
	}
}

// wantErr reads or writes one octet and wants an error.
func wantErr(t *testing.T, why string, f func([]byte) (int, error), want error) {
	t.Helper()
	if n, err := f(make([]byte, 1)); n != 0 || !errors.Is(err, want) {
		t.Errorf("%s: got %d, %v, want %v", why, n, err, want)
	}
}

func TestPipeHalfClose(t *testing.T) {
	a, b := iwarptest.Pipe(nil)
	mustWrite(t, a, "last words")
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := a.CloseWrite(); err != nil {
		t.Errorf("a second CloseWrite: %v", err)
	}
	wantErr(t, "write after CloseWrite", a.Write, syscall.EPIPE)
	if got := mustRead(t, b, 10); string(got) != "last words" {
		t.Errorf("got %q", got)
	}
	wantErr(t, "read at the FIN", b.Read, io.EOF)
	wantErr(t, "read at the FIN again", b.Read, io.EOF)
	mustWrite(t, b, "answer")
	if got := mustRead(t, a, 6); string(got) != "answer" {
		t.Errorf("got %q: the other direction must stay open", got)
	}
}

func TestPipeClose(t *testing.T) {
	a, b := iwarptest.Pipe(nil)
	mustWrite(t, a, "x")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "read after Close", a.Read, net.ErrClosed)
	wantErr(t, "write after Close", a.Write, net.ErrClosed)
	for _, err := range []error{
		a.Close(), a.CloseWrite(), a.SetDeadline(time.Time{}), a.SetWriteDeadline(time.Time{}),
	} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v, want %v", err, net.ErrClosed)
		}
	}
	mustRead(t, b, 1)
	wantErr(t, "read at the FIN", b.Read, io.EOF)
	mustWrite(t, b, "to nobody")
	wantErr(t, "read after a write to nobody", b.Read, syscall.ECONNRESET)
	wantErr(t, "write after a write to nobody", b.Write, syscall.ECONNRESET)
	if err := b.CloseWrite(); !errors.Is(err, syscall.ENOTCONN) {
		t.Errorf("CloseWrite after a reset: %v", err)
	}
}

// The reset that destroys a last message on its way.
func TestPipeCloseWithUnreadInputResets(t *testing.T) {
	a, b := iwarptest.Pipe(nil)
	mustWrite(t, b, "unread")
	mustWrite(t, a, "Terminate")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "read after the reset", b.Read, syscall.ECONNRESET)
	if err := b.Close(); err != nil {
		t.Errorf("Close after a reset: %v", err)
	}
}

func TestPipeAbort(t *testing.T) {
	a, b := iwarptest.Pipe(nil)
	mustWrite(t, a, "lost")
	if err := a.Abort(); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "read after Abort", b.Read, syscall.ECONNRESET)
	wantErr(t, "write after Abort", b.Write, syscall.ECONNRESET)

	a, b = iwarptest.Pipe(nil)
	_ = a.SetLinger(0)
	_ = a.SetLinger(1)
	_ = a.Close()
	wantErr(t, "read after a Close without linger 0", b.Read, io.EOF)
	_ = b.SetLinger(0)
	_ = b.Close()
}

func TestPipeWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := iwarptest.Pipe(&iwarptest.PipeConfig{Window: 10})
		_ = a.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := a.Write(make([]byte, 15))
		if n != 10 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a window of 10 octets takes %d, %v", n, err)
		}
		var nerr net.Error
		if !errors.As(err, &nerr) || !nerr.Timeout() {
			t.Errorf("%v is no timeout", err)
		}
		_ = a.SetWriteDeadline(time.Time{})
		done := make(chan error)
		go func() {
			_, err := a.Write(make([]byte, 25))
			done <- err
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("a Write into a full window returns: %v", err)
		default:
		}
		mustRead(t, b, 35)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if writes, octets := a.Written(); writes != 2 || octets != 35 {
			t.Errorf("%d Writes of %d octets, want 2 of 35", writes, octets)
		}
	})
}

func TestPipeCloseWakesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := iwarptest.Pipe(&iwarptest.PipeConfig{Window: 1})
		errs := make(chan error, 3)
		go func() {
			_, err := a.Read(make([]byte, 1))
			errs <- err
		}()
		for range 2 {
			go func() {
				_, err := a.Write(make([]byte, 2))
				errs <- err
			}()
		}
		synctest.Wait()
		_ = a.Close()
		for range 3 {
			if err := <-errs; !errors.Is(err, net.ErrClosed) {
				t.Errorf("got %v, want %v", err, net.ErrClosed)
			}
		}
		_ = b.Close()
	})
}

// A Write that waits for the window when the reader closes ends as one to nobody.
func TestPipeReaderClosesUnderAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := iwarptest.Pipe(&iwarptest.PipeConfig{Window: 1})
		done := make(chan error)
		go func() {
			_, err := a.Write(make([]byte, 5))
			done <- err
		}()
		synctest.Wait()
		_ = b.Close()
		if err := <-done; err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %v", err)
		}
		wantErr(t, "the next Write", a.Write, syscall.ECONNRESET)
	})
}

func TestPipeWritesDoNotMix(t *testing.T) {
	a, b := iwarptest.Pipe(&iwarptest.PipeConfig{Window: 3})
	var wg sync.WaitGroup
	for _, octet := range []byte("abc") {
		wg.Go(func() { _, _ = a.Write(bytes.Repeat([]byte{octet}, 50)) })
	}
	got := mustRead(t, b, 150)
	wg.Wait()
	for i := 0; i < len(got); i += 50 {
		if want := bytes.Repeat(got[i:i+1], 50); !bytes.Equal(got[i:i+50], want) {
			t.Errorf("octets %d to %d are of several Writes: %q", i, i+50, got[i:i+50])
		}
	}
}

// reads collects the sizes of Reads.
func reads(t *testing.T, c net.Conn, total int) (sizes []int) {
	t.Helper()
	buf := make([]byte, 100)
	for total > 0 {
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, n)
		total -= n
	}
	return sizes
}

func wantSizes(t *testing.T, why string, got []int, want ...int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: Reads of %v octets, want %v", why, got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: Reads of %v octets, want %v", why, got, want)
		}
	}
}

func TestPipeReadSizes(t *testing.T) {
	a, b := iwarptest.Pipe(&iwarptest.PipeConfig{MaxRead: 4})
	mustWrite(t, a, "0123456789")
	wantSizes(t, "MaxRead 4", reads(t, b, 10), 4, 4, 2)
	b.SetMaxRead(7)
	mustWrite(t, a, "0123456789")
	wantSizes(t, "MaxRead 7", reads(t, b, 10), 7, 3)
	b.SetMaxRead(0)
	mustWrite(t, a, "01234")
	mustWrite(t, a, "56789")
	wantSizes(t, "no MaxRead", reads(t, b, 10), 10)

	a, b = iwarptest.Pipe(&iwarptest.PipeConfig{KeepWrites: true})
	mustWrite(t, a, "01234")
	mustWrite(t, a, "")
	mustWrite(t, a, "567")
	mustWrite(t, a, "89")
	wantSizes(t, "KeepWrites", reads(t, b, 10), 5, 3, 2)
}

func TestPipeShortWrite(t *testing.T) {
	a, b := iwarptest.Pipe(&iwarptest.PipeConfig{MaxWrite: 4})
	n, err := a.Write([]byte("012345"))
	if n != 4 || err != io.ErrShortWrite { // bare by contract
		t.Errorf("got %d, %v, want 4 octets and io.ErrShortWrite", n, err)
	}
	mustWrite(t, a, "45")
	if got := mustRead(t, b, 6); string(got) != "012345" {
		t.Errorf("got %q", got)
	}
}

func TestPipeDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 30 * time.Millisecond
		a, b := iwarptest.Pipe(&iwarptest.PipeConfig{Delay: delay})
		start := time.Now()
		for i := range 100 {
			mustWrite(t, a, string(rune('0'+i%10)))
		}
		_ = a.CloseWrite()
		got, err := io.ReadAll(b)
		if want := bytes.Repeat([]byte("0123456789"), 10); err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %q, %v, want it in order", got, err)
		}
		if took := time.Since(start); took != delay {
			t.Errorf("took %v, want %v", took, delay)
		}
	})
}

func TestPipeDeadlineMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := iwarptest.Pipe(nil)
		start := time.Now()
		_ = a.SetReadDeadline(start.Add(time.Second))
		_ = a.SetReadDeadline(start.Add(3 * time.Second))
		wantErr(t, "moved deadline", a.Read, os.ErrDeadlineExceeded)
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("after %v, want 3s", got)
		}
		_ = a.SetReadDeadline(start)
		wantErr(t, "deadline in the past", a.Read, os.ErrDeadlineExceeded)
		_ = a.SetReadDeadline(time.Time{})
		mustWrite(t, b, "x")
		mustRead(t, a, 1)
	})
}

func TestPipeAddr(t *testing.T) {
	a, b := iwarptest.Pipe(nil)
	if a.LocalAddr() != b.RemoteAddr() || b.LocalAddr() != a.RemoteAddr() || a.LocalAddr() == b.LocalAddr() {
		t.Error("addresses do not cross")
	}
	if s := a.LocalAddr().Network() + " " + a.LocalAddr().String(); s != "pipe a" {
		t.Errorf("address is %q", s)
	}
}
