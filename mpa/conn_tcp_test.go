package mpa

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/internal/tcpsock"
	"github.com/go-iwarp/iwarp/protocol"
)

// Shows: MPA-5.1-01, MPA-5.1-03, MPA-3-02
func TestConnOverTCP(t *testing.T) {
	for _, tt := range []struct {
		markers  bool
		max      int
		align    Align
		portable bool
	}{
		{},
		{markers: true},
		{max: 1448},
		{align: AlignSegments},
		{max: 1448, align: AlignSegments},
		{max: 100000},
		{portable: true},
		{portable: true, markers: true, max: 9000},
	} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			a, b := tcpPair(t)
			x, y := fullOperation(a, b, tt.markers, true)
			x.SetFPDUMax(tt.max)
			x.SetAlign(tt.align)
			if tt.portable { // as where the operating system offers nothing
				x.sock, y.sock = nil, nil
			}
			const n = 6 << 20
			data := pattern(n, 0)
			errs := make(chan error, 1)
			go func() {
				rest := data
				for len(rest) > 0 {
					for len(rest) > 0 && !x.Full() {
						k := min(len(rest), x.MULPDU())
						if err := x.Queue(rest[:1], [][]byte{rest[1:k]}, true); err != nil {
							errs <- err
							return
						}
						rest = rest[k:]
					}
					done, err := x.Flush(false)
					if err == nil && !done {
						_, err = x.Flush(true)
					}
					if err != nil {
						errs <- err
						return
					}
				}
				errs <- x.CloseWrite()
			}()
			var got []byte
			for {
				err := y.Receive(func(_ uint64, seg []byte) error { got = append(got, seg...); return nil })
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, data) {
				t.Error("data was changed")
			}
			if s := x.Stats(); s.Writes == 0 || s.OctetsSent != y.Stats().OctetsReceived ||
				(runtime.GOOS == "linux" && tt.max == 0 && !tt.portable && s.EMSS < 10000) {
				t.Errorf("Stats are %+v", s)
			}
			if len(y.in.mem) > smallRecvLen || x.out.batch.small != nil || x.out.batch.large[0] != nil {
				t.Error("an idle Conn holds buffers")
			}
			if x.NetConn() != a {
				t.Error("NetConn")
			}
		})
	}
}

// Shows: MPA-8-01
func TestAbortOverTCP(t *testing.T) {
	a, b := tcpPair(t)
	x, y := fullOperation(a, b, false, true)
	send(t, x, []byte("hello"))
	collect(t, y, 1)
	done := make(chan error)
	go func() { done <- y.Receive(nil) }()
	if err := x.Abort(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the peer sees %v, want a reset", err)
	}
	go func() { done <- x.Receive(nil) }()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("this end sees %v", err)
	}
}

// Close wakes a Receive that waits without a buffer, and a Flush.
func TestCloseUnblocks(t *testing.T) {
	a, b := tcpPair(t)
	x, _ := fullOperation(a, b, false, true)
	recv, flush := make(chan error), make(chan error)
	go func() { recv <- x.Receive(nil) }()
	go func() {
		p := [][]byte{make([]byte, 60000)}
		for {
			for !x.Full() {
				_ = x.Queue(nil, p, true)
			}
			if _, err := x.Flush(true); err != nil {
				flush <- err
				return
			}
		}
	}()
	for x.Stats().OctetsSent < 1<<20 {
		runtime.Gosched()
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case err := <-recv:
			wantCode(t, err, protocol.MPAConnectionLost)
		case err := <-flush:
			wantCode(t, err, protocol.MPAConnectionLost)
		}
	}
}

// A Flush that does not wait writes what there is room for, and says so.
func TestFlushWithoutWaiting(t *testing.T) {
	a, b := tcpPair(t)
	x, y := fullOperation(a, b, false, true)
	if !x.canTry() {
		t.Skip("no such write on this operating system")
	}
	_ = a.SetWriteBuffer(64 << 10)
	p := pattern(60000, 0)
	n := 0
	for {
		for !x.Full() {
			if err := x.Queue(nil, [][]byte{p}, true); err != nil {
				t.Fatal(err)
			}
			n++
		}
		done, err := x.Flush(false)
		if err != nil {
			t.Fatal(err)
		}
		if !done {
			break
		}
	}
	if !x.Buffered() {
		t.Fatal("not done, but nothing is left")
	}
	errs := make(chan error, 1)
	go func() {
		_, err := x.Flush(true)
		errs <- err
	}()
	for _, got := range collect(t, y, n) {
		if !bytes.Equal(got, p) {
			t.Fatal("data was changed")
		}
	}
	if err := <-errs; err != nil {
		t.Fatal(err)
	}
}

// Shows: MPA-5.1-02
func TestConnOverUnixSocket(t *testing.T) {
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	a, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	x, y := fullOperation(a, b, true, true)
	if n := x.MULPDU(); n != 1442 {
		t.Errorf("MULPDU = %d where TCP has no say", n)
	}
	set := ulpduSet()
	go send(t, x, set...)
	for i, got := range collect(t, y, len(set)) {
		if !bytes.Equal(got, set[i]) {
			t.Errorf("ULPDU %d was changed", i)
		}
	}
}

// A peer that stops within an FPDU does not pin down a large buffer.
func TestWaitWithinAnFPDU(t *testing.T) {
	a, b := tcpPair(t)
	_, y := fullOperation(a, b, false, true)
	if !tcpsock.CanRead {
		t.Skip("no reads without a buffer on this operating system")
	}
	f := framer{crc: true}
	want := pattern(MaxULPDU, 1)
	frame := f.append(nil, want)
	never := func(uint64, []byte) error { t.Error("half an FPDU was given"); return nil }
	sent := 0
	for _, upTo := range []int{1, 4000, 5000, 20000, 40000} {
		if _, err := a.Write(frame[sent:upTo]); err != nil {
			t.Fatal(err)
		}
		sent = upTo
		for y.in.len() < sent {
			if err := y.Receive(never); err != nil {
				t.Fatal(err)
			}
		}
		_ = y.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		if err := y.Receive(never); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("waiting for the rest: %v", err)
		}
		_ = y.SetReadDeadline(time.Time{})
		if held := len(y.in.mem); held > max(2*sent, smallRecvLen) {
			t.Errorf("after %d octets of an FPDU %d are held", sent, held)
		}
	}
	if _, err := a.Write(frame[sent:]); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, y, 1); !bytes.Equal(got[0], want) {
		t.Error("the ULPDU was changed")
	}
	if y.in.mem != nil {
		t.Error("an idle Conn holds buffers")
	}
}

func TestTryReceive(t *testing.T) {
	a, b := tcpPair(t)
	_, y := fullOperation(a, b, false, true)
	if !tcpsock.CanRead {
		t.Skip("not on this operating system")
	}
	frame := unhex(t, goldenFrames[0].hex)
	got := 0
	fn := func(uint64, []byte) error { got++; return nil }
	poll := func(want bool) {
		t.Helper()
		some, err := y.TryReceive(fn)
		for want && !some && err == nil { // loopback may need a moment
			runtime.Gosched()
			some, err = y.TryReceive(fn)
		}
		if some != want || err != nil {
			t.Fatalf("TryReceive = %t, %v", some, err)
		}
	}
	write := func(b []byte) {
		t.Helper()
		if _, err := a.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	poll(false)
	if y.in.mem != nil {
		t.Error("an idle Conn holds a buffer")
	}
	write(frame[:10])
	poll(true)
	poll(false)
	write(frame[10:])
	poll(true)
	if got != 1 {
		t.Errorf("%d ULPDUs, want 1", got)
	}
	write(make([]byte, 100)) // the CRC of zeros is not zero
	for {
		if _, err := y.TryReceive(fn); err != nil {
			wantCode(t, err, protocol.MPACRC)
			break
		}
	}
	poll(false) // swallowing
	a.Close()
	for {
		if some, err := y.TryReceive(fn); err != nil {
			if err != io.EOF || !some {
				t.Errorf("at the end: %t, %v", some, err)
			}
			break
		}
	}
	m, _ := memPipe()
	if _, err := NewConn(m, Params{}, nil).TryReceive(fn); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("on a conn in memory: %v", err)
	}
}
