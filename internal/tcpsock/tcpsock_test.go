package tcpsock

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

func pair(t *testing.T) (*net.TCPConn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

func socket(t *testing.T, c *net.TCPConn) *Socket {
	t.Helper()
	s, err := NewSocket(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Shows: MPA-5.1-01
func TestMSS(t *testing.T) {
	a, _ := pair(t)
	s := socket(t, a)
	mss, err := s.MSS()
	if !CanSend {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("MSS: %v", err)
		}
		return
	}
	if err != nil || mss < 536 || mss > 65535 {
		t.Errorf("MSS = %d, %v", mss, err)
	}
	if n, err := s.Retransmits(); err != nil || n > 100 {
		t.Errorf("Retransmits = %d, %v", n, err)
	}
	a.Close()
	if _, err := s.MSS(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := s.Retransmits(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestSend(t *testing.T) {
	if !CanSend {
		t.Skip("not on this operating system")
	}
	a, b := pair(t)
	s := socket(t, a)
	// More pieces than one call takes, some of them empty.
	var bufs [][]byte
	for i := range 3000 {
		bufs = append(bufs, bytes.Repeat([]byte{byte(i)}, i%3))
	}
	want := bytes.Join(bufs, nil)
	got := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(b)
		got <- all
	}()
	sent := 0
	for rest := bufs; len(rest) > 0; {
		n, err := s.Send(rest, true, true)
		if err != nil {
			t.Fatal(err)
		}
		sent += n
		for n > 0 || len(rest) > 0 && len(rest[0]) == 0 {
			k := min(n, len(rest[0]))
			if n -= k; k < len(rest[0]) {
				rest[0] = rest[0][k:]
				break
			}
			rest = rest[1:]
		}
	}
	if n, err := s.Send([][]byte{nil, {}}, false, true); n != 0 || err != nil {
		t.Errorf("nothing to send: %d, %v", n, err)
	}
	a.CloseWrite()
	if all := <-got; sent != len(want) || !bytes.Equal(all, want) {
		t.Errorf("sent %d, the peer has %d of %d octets", sent, len(all), len(want))
	}
	if n, err := s.Send([][]byte{{1}}, false, true); n != 0 || err == nil {
		t.Errorf("after CloseWrite: %d, %v", n, err)
	}
}

// A full socket buffer stops a Send that waits, up to the deadline, and no other.
func TestSendFull(t *testing.T) {
	if !CanSend {
		t.Skip("not on this operating system")
	}
	a, _ := pair(t)
	s := socket(t, a)
	piece := [][]byte{make([]byte, 1<<20)}
	for range 1000 {
		n, err := s.Send(piece, false, false)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	a.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	var err error
	for err == nil { // the kernel may find some more room
		_, err = s.Send(piece, false, true)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("waiting: %v, want the deadline", err)
	}
}

func TestRecv(t *testing.T) {
	if !CanRead {
		t.Skip("not on this operating system")
	}
	a, b := pair(t)
	s := socket(t, b)
	buf := make([]byte, 10)
	empty := 0
	recv := func() (got int, err error) {
		rerr := s.Recv(func(fd uintptr) bool {
			n, again, e := TryRead(fd, buf)
			if again {
				if empty++; empty == 1 {
					a.Write([]byte("hello"))
				}
				return false
			}
			got, err = n, e
			return true
		})
		if rerr != nil {
			return 0, rerr
		}
		return got, err
	}
	if n, err := recv(); err != nil || string(buf[:n]) != "hello" || empty != 1 {
		t.Errorf("%q, %v, empty %d times", buf[:n], err, empty)
	}
	b.SetReadDeadline(time.Unix(1, 0))
	if _, err := recv(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
	b.SetReadDeadline(time.Time{})
	a.SetLinger(0)
	a.Close()
	if _, err := recv(); err == nil {
		t.Error("no error after a reset")
	}
	if n, err := recv(); n != 0 || err != nil {
		t.Errorf("at the end: %d, %v", n, err)
	}
	b.Close()
	if _, err := recv(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := NewSocket(b); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Errorf("NewSocket of a closed conn: %v", err)
	}
}

func TestUnsupportedError(t *testing.T) {
	err := error(&UnsupportedError{Feature: "TCP_MAXSEG"})
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "TCP_MAXSEG is not supported on ") {
		t.Error(err)
	}
}
