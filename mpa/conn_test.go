package mpa

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp/protocol"
)

// fullOperation puts two conns into Full Operation without startup frames.
func fullOperation(a, b net.Conn, markers, crc bool) (*Conn, *Conn) {
	p := Params{Initiator: true, Revision: 1, SendMarkers: markers, RecvMarkers: markers, CRC: crc}
	q := p
	q.Initiator = false
	return NewConn(a, p, nil), NewConn(b, q, nil)
}

func send(t *testing.T, c *Conn, ulpdus ...[]byte) {
	t.Helper()
	for _, u := range ulpdus {
		if err := c.Queue(u[:min(14, len(u))], [][]byte{u[min(14, len(u)):]}, true); err != nil {
			t.Error(err)
			return
		}
	}
	if done, err := c.Flush(true); !done || err != nil || c.Buffered() {
		t.Errorf("Flush = %t, %v", done, err)
	}
}

// collect receives until there are n ULPDUs.
func collect(t *testing.T, c *Conn, n int) [][]byte {
	t.Helper()
	var got [][]byte
	for len(got) < n {
		if err := c.Receive(func(order uint64, seg []byte) error {
			if order != uint64(len(got)) {
				t.Errorf("ULPDU %d is told as %d", len(got), order)
			}
			got = append(got, bytes.Clone(seg))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

func ulpduSet() [][]byte {
	var set [][]byte
	for i, n := range []int{1, 2, 3, 14, 18, 23, 500, 1442, 9000, 16384, 40000, MaxULPDU, 1, 64} {
		set = append(set, pattern(n, i))
	}
	return set
}

// Shows: MPA-3-01, MPA-3-07, MPA-4.3-12, MPA-4.3-13, MPA-5.1-05, MPA-7.1.2-14, MPA-4.4-09
func TestConnOverMemory(t *testing.T) {
	for _, tt := range []struct {
		name                      string
		maxRead, maxWrite, window int
		markers, crc              bool
	}{
		{name: "plain", crc: true},
		{name: "markers", crc: true, markers: true},
		{name: "no CRC"},
		{name: "one octet a call", maxRead: 1, maxWrite: 1, crc: true, markers: true},
		{name: "short writes, small window", maxWrite: 1000, window: 3000, crc: true},
		{name: "odd reads", maxRead: 4097, crc: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := memPipe()
				a.maxWrite, a.window, b.maxRead = tt.maxWrite, tt.window, tt.maxRead
				x, y := fullOperation(a, b, tt.markers, tt.crc)
				set := ulpduSet()
				if tt.maxRead == 1 {
					set = set[:9]
				}
				go send(t, x, set...)
				got := collect(t, y, len(set))
				for i := range set {
					if !bytes.Equal(got[i], set[i]) {
						t.Fatalf("ULPDU %d of %d octets was changed", i, len(set[i]))
					}
				}
				synctest.Wait()
				s, r := x.Stats(), y.Stats()
				if s.FPDUsSent != uint64(len(set)) || r.FPDUsReceived != s.FPDUsSent ||
					s.OctetsSent != r.OctetsReceived || s.MarkersSent != r.MarkersReceived {
					t.Errorf("Stats are %+v and %+v", s, r)
				}
				if (s.MarkersSent > 0) != tt.markers || s.EMSS != DefaultEMSS {
					t.Errorf("Stats are %+v", s)
				}
				if y.in.mem != nil || x.out.batch.small != nil {
					t.Error("an idle Conn holds buffers")
				}
			})
		})
	}
}

// Shows: MPA-7.1.2-14
func TestResponderIsHeld(t *testing.T) {
	a, b := memPipe()
	x, y := fullOperation(a, b, true, true)
	if y.MaySend() || !x.MaySend() {
		t.Error("MaySend: only the Initiator may, at first")
	}
	if err := y.Queue([]byte("hello"), nil, false); !errors.Is(err, ErrHeld) || y.Buffered() {
		t.Errorf("Queue: %v, want ErrHeld", err)
	}
	if done, err := y.Flush(true); !done || err != nil || len(a.waiting()) != 0 {
		t.Errorf("Flush = %t, %v; sent %x", done, err, a.waiting())
	}
	send(t, x, []byte("first"))
	if err := y.Receive(func(uint64, []byte) error {
		if !y.MaySend() {
			t.Error("the first valid FPDU is here, but MaySend is false")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	send(t, y, []byte("hello"))
}

// A bad first FPDU does not open the Responder's mouth: it sends no Terminate.
//
// Shows: MPA-8-10, MPA-8-08, MPA-8-09, MPA-8-06, MPA-4.4-07, MPA-4.4-15
func TestErrorsLeaveTCPOpen(t *testing.T) {
	good := unhex(t, goldenFrames[0].hex)
	bad := bytes.Clone(good)
	bad[len(bad)-1] ^= 1
	for _, first := range []string{"bad", "good"} {
		t.Run(first+" first", func(t *testing.T) {
			a, b := memPipe()
			_, y := fullOperation(a, b, false, true)
			if first == "good" {
				_, _ = a.Write(good)
				collect(t, y, 1)
			}
			_, _ = a.Write(append(append([]byte{}, bad...), good...))
			never := func(_ uint64, seg []byte) error { t.Errorf("gave %x", seg); return nil }
			wantCode(t, y.Receive(never), protocol.MPACRC)
			if s := y.Stats(); s.CRCErrors != 1 || s.MarkerErrors != 0 {
				t.Errorf("Stats are %+v", s)
			}
			wantClosed(t, b, false)
			// More input is swallowed without a word, so that closing is no reset.
			for range 3 {
				_, _ = a.Write(good)
				if err := y.Receive(never); err != nil {
					t.Fatalf("swallowing: %v", err)
				}
			}
			if w := b.waiting(); len(w) != 0 {
				t.Errorf("%d octets were not swallowed", len(w))
			}
			if first == "bad" {
				if err := y.Queue(good, nil, false); !errors.Is(err, ErrHeld) {
					t.Errorf("Queue: %v, want ErrHeld", err)
				}
			} else {
				send(t, y, []byte("a Terminate"))
				if len(a.waiting()) == 0 {
					t.Error("the other direction is dead")
				}
			}
			_ = a.CloseWrite()
			if err := y.Receive(never); err != io.EOF {
				t.Errorf("at the end: %v, want io.EOF", err)
			}
		})
	}
}

// Shows: MPA-8-03
func TestMarkerErrorIsCounted(t *testing.T) {
	a, b := memPipe()
	p := Params{SendMarkers: true, RecvMarkers: true, CRC: true, Initiator: true}
	y := NewConn(b, p, nil)
	y.in.deframer.SetPosition(492)
	_, _ = a.Write(unhex(t,
		"002a41430000000000000000000000020000000000000018000000000000000000000000000000000000000000000000e996c154"))
	wantCode(t, y.Receive(nil), protocol.MPAMarker)
	if s := y.Stats(); s.MarkerErrors != 1 || s.CRCErrors != 0 {
		t.Errorf("Stats are %+v", s)
	}
	_ = a.Abort()
	if err := y.Receive(nil); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("at the end: %v", err)
	}
}

// Shows: MPA-3-09, MPA-7.2-01, MPA-7.2-02, MPA-8-01
func TestEndOfConnection(t *testing.T) {
	good := unhex(t, goldenFrames[0].hex)
	nop := func(uint64, []byte) error { return nil }
	for cut := range len(good) + 1 {
		for _, how := range []string{"FIN", "reset"} {
			a, b := memPipe()
			_, y := fullOperation(a, b, false, true)
			_, _ = a.Write(good[:cut])
			if cut > 0 {
				if err := y.Receive(nop); err != nil {
					t.Fatal(err)
				}
			}
			if how == "FIN" {
				_ = a.CloseWrite()
			} else {
				_ = a.Abort()
			}
			for range 2 { // and again
				err := y.Receive(nop)
				switch {
				case how == "FIN" && cut%len(good) == 0:
					if err != io.EOF {
						t.Fatalf("FIN between FPDUs: %v, want io.EOF", err)
					}
				case how == "FIN":
					if wantCode(t, err, protocol.MPAConnectionLost); !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Fatalf("FIN after %d octets: %v", cut, err)
					}
				default:
					if wantCode(t, err, protocol.MPAConnectionLost); !errors.Is(err, syscall.ECONNRESET) ||
						!errors.Is(err, net.ErrClosed) {
						t.Fatalf("reset after %d octets: %v", cut, err)
					}
				}
			}
		}
	}
}

// Shows: MPA-7.2-01
func TestCloseWrite(t *testing.T) {
	a, b := memPipe()
	x, y := fullOperation(a, b, false, true)
	if err := x.Queue([]byte("last"), nil, false); err != nil {
		t.Fatal(err)
	}
	if err := x.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, y, 1); string(got[0]) != "last" {
		t.Errorf("got %q", got)
	}
	if err := y.Receive(nil); err != io.EOF {
		t.Errorf("%v, want io.EOF", err)
	}
	send(t, y, []byte("the other half lives"))
	collect(t, x, 1)
	// Writing on is an error, and stays one.
	if err := x.Queue([]byte("x"), nil, false); err != nil {
		t.Fatal(err)
	}
	_, err := x.Flush(true)
	wantCode(t, err, protocol.MPAConnectionLost)
	if _, again := x.Flush(true); again != err {
		t.Errorf("again: %v", again)
	}
	if again := x.Queue(nil, nil, false); again != err {
		t.Errorf("Queue: %v", again)
	}
	if again := x.CloseWrite(); again != err {
		t.Errorf("CloseWrite: %v", again)
	}
	p, q := net.Pipe()
	defer q.Close()
	c := NewConn(p, Params{Initiator: true}, nil)
	if err := c.CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("on a net.Pipe: %v", err)
	}
	if err := c.Abort(); err != nil {
		t.Errorf("Abort: %v", err)
	}
	if err := c.Receive(nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Receive: %v", err)
	}
}

// Shows: MPA-7.1.2-26
func TestDeadlinesLoseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memPipe()
		a.window = 1000
		x, y := fullOperation(a, b, true, true)
		u := pattern(5000, 0)
		if err := x.Queue(nil, [][]byte{u}, false); err != nil {
			t.Fatal(err)
		}
		if done, err := x.Flush(false); done || err != nil {
			t.Errorf("Flush(false) = %t, %v on a conn that cannot tell", done, err)
		}
		var got []byte
		fn := func(_ uint64, seg []byte) error { got = bytes.Clone(seg); return nil }
		for got == nil {
			_ = x.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := x.Flush(true); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			} else if _, ok := protocol.CodeOf(err); ok {
				t.Fatalf("%v, but the connection is not lost", err)
			}
			for range 2 {
				_ = y.SetReadDeadline(time.Now().Add(time.Second))
				if err := y.Receive(fn); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
			}
		}
		if !bytes.Equal(got, u) {
			t.Error("the ULPDU was changed")
		}
		_ = x.SetDeadline(time.Time{})
	})
}

// An error of the ULP stops Receive behind the ULPDU, and nothing is lost.
func TestULPErrorStopsReceive(t *testing.T) {
	a, b := memPipe()
	x, y := fullOperation(a, b, false, true)
	var set [][]byte
	for i := range 5 {
		set = append(set, []byte(fmt.Sprint("ulpdu ", i)))
	}
	send(t, x, set...)
	stop := errors.New("stop")
	for i := range set {
		if err := y.Receive(func(order uint64, seg []byte) error {
			if order != uint64(i) || !bytes.Equal(seg, set[i]) {
				t.Errorf("ULPDU %d is %d, %q", i, order, seg)
			}
			return stop
		}); err != stop {
			t.Fatalf("Receive = %v", err)
		}
	}
	_ = a.CloseWrite()
	if err := y.Receive(nil); err != nil { // nothing was left of the last read
		t.Errorf("%v", err)
	}
	if err := y.Receive(nil); err != io.EOF {
		t.Errorf("%v, want io.EOF", err)
	}
}

// Shows: MPA-4.5-05, MPA-5.1-02, MPA-3-02, DDP-3-01
func TestFPDUMax(t *testing.T) {
	a, _ := memPipe()
	x := NewConn(a, Params{Initiator: true, SendMarkers: true}, &Options{FPDUMax: 9000})
	if n := x.MULPDU(); n != MULPDU(9000, true) {
		t.Errorf("MULPDU = %d with a bound of 9000", n)
	}
	if err := x.Queue([]byte("x"), nil, false); err != nil {
		t.Fatal(err)
	}
	x.SetFPDUMax(1000)
	if n := x.MULPDU(); n != MULPDU(9000, true) {
		t.Errorf("MULPDU = %d in the middle of a batch", n)
	}
	if _, err := x.Flush(true); err != nil {
		t.Fatal(err)
	}
	if n := x.MULPDU(); n != MULPDU(1000, true) || x.Stats().EMSS != 1000 {
		t.Errorf("MULPDU = %d with a bound of 1000", n)
	}
	x.SetFPDUMax(0)
	x.SetAlign(AlignSegments)
	if n := x.MULPDU(); n != MULPDU(DefaultEMSS, true) || x.out.cut.how != AlignOff {
		t.Errorf("MULPDU = %d, aligned %t on a conn that is not TCP", n, x.out.cut.how != AlignOff)
	}
}
