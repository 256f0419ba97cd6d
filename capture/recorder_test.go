package capture_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/iwarptest"
)

func newRecorder(t *testing.T, w io.Writer, o *capture.Options) *capture.Recorder {
	t.Helper()
	r, err := capture.NewRecorder(w, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// finish closes the recorder and reads its recording.
func finish(t *testing.T, r *capture.Recorder, out *bytes.Buffer) *recording {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	rec, err := readCapture(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if rec.link != 101 {
		t.Fatalf("link type %d", rec.link)
	}
	if got := int(rec.received - rec.dropped); got != len(rec.packets) {
		t.Fatalf("%d packets, %d dropped, %d are there", rec.received, rec.dropped, len(rec.packets))
	}
	return rec
}

// tcpPair returns the ends of a TCP connection over loopback.
func tcpPair(t *testing.T, address string) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("no TCP at %s: %v", address, err)
	}
	defer ln.Close()
	client, err = (&net.Dialer{}).DialContext(context.Background(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

func pattern(n int, seed uint64) []byte {
	b := make([]byte, n)
	src := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(src.Uint32())
	}
	return b
}

// converse sends up from a to b and down from b to a, both at once in Writes of
// many sizes, and a FIN each.
func converse(t *testing.T, a, b net.Conn, up, down []byte) {
	t.Helper()
	if _, err := a.Write(up[:1]); err != nil { // a is the first to send
		t.Fatal(err)
	}
	var first [1]byte
	if _, err := io.ReadFull(b, first[:]); err != nil || first[0] != up[0] {
		t.Fatal(first, err)
	}
	var wg sync.WaitGroup
	send := func(c net.Conn, p []byte) {
		for n := 1; len(p) > 0; n = n*3 + 1 {
			n := min(n%100000, len(p))
			if _, err := c.Write(p[:n]); err != nil {
				t.Error(err)
				return
			}
			p = p[n:]
		}
		if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Error(err)
		}
	}
	receive := func(c net.Conn, want []byte) {
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("received %d octets, want %d: %v", len(got), len(want), err)
		}
	}
	wg.Go(func() { send(a, up[1:]) })
	wg.Go(func() { send(b, down) })
	wg.Go(func() { receive(a, down) })
	wg.Go(func() { receive(b, up[1:]) })
	wg.Wait()
	_, _ = a.Close(), b.Close()
}

func TestRecorder(t *testing.T) {
	for _, c := range []struct {
		name    string
		address string // "" is a pipe
		a, b    bool   // ends to wrap
	}{
		{name: "initiator", address: "127.0.0.1:0", a: true},
		{name: "responder", address: "127.0.0.1:0", b: true},
		{name: "both ends", address: "127.0.0.1:0", a: true, b: true},
		{name: "initiator, IPv6", address: "[::1]:0", a: true},
		{name: "both ends, IPv6", address: "[::1]:0", a: true, b: true},
		{name: "initiator of a pipe", address: "", a: true},
		{name: "responder of a pipe", address: "", b: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			r := newRecorder(t, &out, nil)
			var a, b net.Conn
			if c.address == "" {
				a, b = iwarptest.Pipe(nil)
			} else {
				a, b = tcpPair(t, c.address)
			}
			local, remote := a.LocalAddr().String(), a.RemoteAddr().String()
			if c.a {
				a = r.Conn(a)
				capture.SetSequence(a, 0xffffff00, 0xfffffffe) // both wrap
			}
			if c.b {
				b = r.Conn(b)
			}
			up, down := pattern(300000, 1), pattern(200000, 2)
			converse(t, a, b, up, down)
			if n := capture.OpenFlows(r); n != 0 {
				t.Errorf("%d connections are known after Close", n)
			}
			rec := finish(t, r, &out)
			opener, other := follow(t, rec)
			if !bytes.Equal(opener.octets, up) || !bytes.Equal(other.octets, down) {
				t.Errorf("recorded %d and %d octets, or other ones", len(opener.octets), len(other.octets))
			}
			if !opener.fin || !other.fin {
				t.Errorf("FIN %v %v", opener.fin, other.fin)
			}
			if c.a {
				checkSizes(t, opener.sizes)
			}
			if c.b {
				checkSizes(t, other.sizes)
			}
			if s, _ := readSegment(rec.packets[0].data); c.address != "" &&
				(s.src.String() != local || s.dst.String() != remote) {
				t.Errorf("recorded from %v to %v, want %v to %v", s.src, s.dst, local, remote)
			}
		})
	}
}

// checkSizes wants Writes cut at the MSS.
func checkSizes(t *testing.T, sizes []int) {
	t.Helper()
	whole := 0
	for _, n := range sizes {
		if n > capture.DefaultMSS {
			t.Errorf("segment of %d octets", n)
		}
		if n == capture.DefaultMSS {
			whole++
		}
	}
	if whole < 100 {
		t.Errorf("%d segments of the MSS among %d", whole, len(sizes))
	}
}

func TestRecorderDirections(t *testing.T) {
	var out bytes.Buffer
	r := newRecorder(t, &out, nil)
	at := time.Unix(1700000000, 123456789)
	capture.SetClock(r, func() time.Time { at = at.Add(time.Microsecond); return at })
	a, b := iwarptest.Pipe(nil)
	w := r.Conn(b)
	if _, err := a.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Read(make([]byte, 9)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("yy")); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	var dirs []byte
	last := time.Time{}
	for _, p := range finish(t, r, &out).packets {
		dirs = append(dirs, p.dir)
		if !p.time.After(last) {
			t.Errorf("time %v after %v", p.time, last)
		}
		last = p.time
	}
	if want := []byte{1, 2, 1, 1, 2, 2}; !bytes.Equal(dirs, want) { // SYN, SYN+ACK, ACK, x, yy, FIN
		t.Errorf("directions %v, want %v", dirs, want)
	}
}

func TestRecorderReset(t *testing.T) {
	for _, c := range []struct {
		name  string
		reset func(w *iwarptest.Conn, wrapped net.Conn, peer *iwarptest.Conn) error
		mine  bool
	}{
		{name: "Abort", reset: func(_ *iwarptest.Conn, c net.Conn, _ *iwarptest.Conn) error {
			return c.(interface{ Abort() error }).Abort()
		}, mine: true},
		{name: "SetLinger", reset: func(_ *iwarptest.Conn, c net.Conn, _ *iwarptest.Conn) error {
			return errors.Join(c.(interface{ SetLinger(int) error }).SetLinger(0), c.Close())
		}, mine: true},
		{name: "peer, seen by Read", reset: func(_ *iwarptest.Conn, c net.Conn, p *iwarptest.Conn) error {
			_ = p.Abort()
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				return err
			}
			return c.Close()
		}},
		{name: "peer, seen by Write", reset: func(_ *iwarptest.Conn, c net.Conn, p *iwarptest.Conn) error {
			_ = p.Abort()
			if _, err := c.Write(nil); err != nil && !errors.Is(err, syscall.ECONNRESET) {
				return err
			}
			if _, err := c.Write([]byte("lost")); !errors.Is(err, syscall.ECONNRESET) {
				return err
			}
			return c.Close()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			r := newRecorder(t, &out, nil)
			a, b := iwarptest.Pipe(nil)
			w := r.Conn(a)
			if _, err := w.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if err := c.reset(a, w, b); err != nil {
				t.Fatal(err)
			}
			mine, theirs := follow(t, finish(t, r, &out))
			if mine.rst != c.mine || theirs.rst == c.mine {
				t.Errorf("RST of this end %v, of the peer %v", mine.rst, theirs.rst)
			}
		})
	}
}

// TestRecorderShortWrite has a Write that takes only some octets: what comes next
// continues where they ended.
func TestRecorderShortWrite(t *testing.T) {
	var out bytes.Buffer
	r := newRecorder(t, &out, nil)
	a, b := iwarptest.Pipe(&iwarptest.PipeConfig{MaxWrite: 3})
	w := r.Conn(a)
	for _, c := range []struct {
		write string
		n     int
	}{{write: "abcdef", n: 3}, {write: "defgh", n: 3}, {write: "gh", n: 2}} {
		if n, err := w.Write([]byte(c.write)); n != c.n {
			t.Fatalf("%q: %d octets, %v", c.write, n, err)
		}
	}
	got := make([]byte, 8)
	if _, err := io.ReadFull(b, got); err != nil || string(got) != "abcdefgh" {
		t.Fatalf("%q %v", got, err)
	}
	var at []uint32
	packets := finish(t, r, &out).packets
	for _, p := range packets {
		s, err := readSegment(p.data)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.payload) > 0 {
			at = append(at, s.seq)
		}
	}
	if len(at) != 3 || at[1] != at[0]+3 || at[2] != at[1]+3 {
		t.Errorf("data at sequence numbers %d", at)
	}
}

// stuck is a writer that writes nothing until it is let go.
type stuck struct {
	gate chan struct{}
	bytes.Buffer
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.gate
	return s.Buffer.Write(b)
}

func TestRecorderSlowWriter(t *testing.T) {
	s := &stuck{gate: make(chan struct{})}
	r := newRecorder(t, s, &capture.Options{Buffer: 100000})
	a, b := iwarptest.Pipe(nil)
	w := r.Conn(a)
	up, down := pattern(300000, 3), pattern(300000, 4)
	converse(t, w, b, up, down) // none of it waits
	if r.Dropped() == 0 {
		t.Error("nothing was dropped")
	}
	dropped := r.Dropped()
	close(s.gate)
	rec := finish(t, r, &s.Buffer)
	if rec.dropped != dropped {
		t.Errorf("the recording says %d dropped, not %d", rec.dropped, dropped)
	}
	for i, p := range rec.packets {
		if _, err := readSegment(p.data); err != nil {
			t.Errorf("packet %d: %v", i, err)
		}
	}
}

// trickle is a writer that lets the scheduler run others.
type trickle struct{ bytes.Buffer }

func (w *trickle) Write(b []byte) (int, error) {
	for i := 0; i < len(b); i += 4096 {
		w.Buffer.Write(b[i:min(i+4096, len(b))])
	}
	return len(b), nil
}

func TestRecorderLossless(t *testing.T) {
	for _, buffer := range []int{1, 5000, 100000} {
		w := &trickle{}
		r := newRecorder(t, w, &capture.Options{Buffer: buffer, Lossless: true, MSS: 100})
		a, b := tcpPair(t, "127.0.0.1:0")
		up, down := pattern(300000, 5), pattern(300000, 6)
		converse(t, r.Conn(a), r.Conn(b), up, down)
		opener, other := follow(t, finish(t, r, &w.Buffer))
		if !bytes.Equal(opener.octets, up) || !bytes.Equal(other.octets, down) || r.Dropped() != 0 {
			t.Errorf("buffer %d: recorded %d and %d octets, %d packets dropped", buffer, len(opener.octets),
				len(other.octets), r.Dropped())
		}
	}
}

func TestRecorderFailedWriter(t *testing.T) {
	for _, lossless := range []bool{false, true} {
		r := newRecorder(t, &failAfter{1}, &capture.Options{Lossless: lossless, Buffer: 50000})
		a, b := iwarptest.Pipe(nil)
		converse(t, r.Conn(a), b, pattern(200000, 7), pattern(200000, 8))
		for range 2 {
			if err := r.Close(); !errors.Is(err, errDisk) {
				t.Errorf("Close: %v", err)
			}
		}
		if r.Dropped() == 0 {
			t.Error("nothing was dropped")
		}
	}
}

func TestRecorderAfterClose(t *testing.T) {
	var out bytes.Buffer
	r := newRecorder(t, &out, nil)
	a, b := iwarptest.Pipe(nil)
	w := r.Conn(a)
	rec := finish(t, r, &out)
	converse(t, w, b, pattern(1000, 9), pattern(1000, 10))
	if len(rec.packets) != 0 || r.Dropped() != 0 {
		t.Errorf("%d packets, %d dropped", len(rec.packets), r.Dropped())
	}
}

func TestRecorderOptions(t *testing.T) {
	for _, o := range []*capture.Options{{MSS: -1}, {MSS: 65476}, {Buffer: -1}} {
		if _, err := capture.NewRecorder(io.Discard, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

func TestConnUnsupported(t *testing.T) {
	r := newRecorder(t, io.Discard, nil)
	a, b := net.Pipe()
	defer b.Close()
	w := r.Conn(a)
	if err := w.(interface{ CloseWrite() error }).CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CloseWrite: %v", err)
	}
	if err := w.(interface{ SetLinger(int) error }).SetLinger(0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("SetLinger: %v", err)
	}
	if got := w.(interface{ NetConn() net.Conn }).NetConn(); got != a {
		t.Errorf("NetConn gives %v", got)
	}
	if err := w.(interface{ Abort() error }).Abort(); err != nil {
		t.Errorf("Abort: %v", err)
	}
}

// FuzzRecorder records Writes of any sizes with any MSS and sequence numbers.
func FuzzRecorder(f *testing.F) {
	f.Add([]byte{1, 2, 3, 200, 0, 7}, uint16(1460), uint32(0xfffffff0), true)
	f.Add([]byte{255, 255, 255}, uint16(0), uint32(0), false)
	f.Fuzz(func(t *testing.T, sizes []byte, mss uint16, isn uint32, six bool) {
		var out bytes.Buffer
		r, err := capture.NewRecorder(&out, &capture.Options{MSS: int(mss)%65475 + 1})
		if err != nil {
			t.Fatal(err)
		}
		ip := net.IPv4(192, 0, 2, 9)
		if six {
			ip = net.ParseIP("2001:db8::9")
		}
		w := r.Conn(&sinkConn{ip: ip})
		capture.SetSequence(w, isn, ^isn)
		var want []byte
		for _, n := range sizes[:min(len(sizes), 50)] {
			p := pattern(int(n)*int(n)/64, uint64(n))
			if _, err := w.Write(p); err != nil {
				t.Fatal(err)
			}
			want = append(want, p...)
		}
		_ = w.Close()
		got, _ := follow(t, finish(t, r, &out))
		if !bytes.Equal(got.octets, want) || !got.fin || got.isn != isn-1 {
			t.Fatalf("recorded %d octets from %d, want %d", len(got.octets), got.isn, len(want))
		}
	})
}

// sinkConn takes everything.
type sinkConn struct {
	net.Conn
	ip net.IP
}

func (c *sinkConn) Write(b []byte) (int, error) { return len(b), nil }
func (c *sinkConn) Close() error                { return nil }
func (c *sinkConn) LocalAddr() net.Addr         { return &net.TCPAddr{IP: c.ip, Port: 1} }
func (c *sinkConn) RemoteAddr() net.Addr        { return &net.TCPAddr{IP: c.ip, Port: 2} }
