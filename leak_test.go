package iwarp_test

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
)

// footprint is what a process holds.
type footprint struct {
	goroutines, descriptors int
	heap                    uint64
}

func footprintNow() footprint {
	runtime.GC()
	runtime.GC() // empties the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f := footprint{goroutines: runtime.NumGoroutine(), heap: m.HeapAlloc}
	if d, err := os.ReadDir("/proc/self/fd"); err == nil {
		f.descriptors = len(d)
	}
	return f
}

// settled is footprintNow once it is no more than want, or after a while: the
// other end of a conn, and the runtime, may be a moment late.
func settled(want footprint) footprint {
	for deadline := time.Now().Add(5 * time.Second); ; runtime.Gosched() {
		f := footprintNow()
		if f.goroutines <= want.goroutines && f.descriptors <= want.descriptors && f.heap <= want.heap ||
			time.Now().After(deadline) {
			return f
		}
	}
}

// A thousand connections, one after another and some at once, leave no
// goroutine, descriptor or memory behind.
func TestThousandConnections(t *testing.T) {
	n := 1000
	if raceEnabled || testing.Short() {
		n = 200
	}
	d := newDevice(t, nil)
	ln := must(iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{Device: d}))(t)
	defer ln.Close()
	one := func(i int) { // t.Cleanup in here would look like a leak
		got := make(chan accepted, 1)
		go func() { c, err := ln.Accept(t.Context()); got <- accepted{c, err} }()
		a := must(iwarp.Dial(t.Context(), "tcp", ln.Addr().String(), &iwarp.Config{Device: d}))(t)
		r := <-got
		check(t, "Accept", r.err)
		b := r.c
		mr := must(b.NewMR(make([]byte, 4096), iwarp.RemoteRead|iwarp.RemoteWrite))(t)
		check(t, "Write", a.RDMAWrite(t.Context(), make([]byte, 4096), mr.Remote()))
		check(t, "Read", a.RDMARead(t.Context(), make([]byte, 4096), mr.Remote()))
		check(t, "Send", a.Send(t.Context(), []byte("x")))
		if m, err := b.Recv(t.Context(), make([]byte, 1)); err != nil || m.Length != 1 {
			t.Fatal(m, err)
		}
		mr.Close()
		switch i % 4 {
		case 0:
			a.Abort()
			<-b.Done()
		case 1:
			b.Abort()
			<-a.Done()
		default:
			closeBoth(t, a, b)
		}
	}
	for i := range 50 { // pools, caches and the runtime's own
		one(i)
	}
	before := footprintNow()
	for i := range n {
		one(i)
	}
	want := before
	want.heap += 1 << 20
	want.goroutines += 2
	after := settled(want)
	if after.goroutines > want.goroutines || after.descriptors > before.descriptors || after.heap > want.heap {
		t.Errorf("before %+v, after %d connections %+v", before, n, after)
	}
	if u := d.Use(); u.PDs != 0 || u.QPs != 0 || u.CQs != 0 || u.MRs != 0 || u.Connections < uint64(2*n) {
		t.Errorf("left in use: %+v", u)
	}
}

// Startups that fail leave nothing either.
func TestFailedStartupsLeaveNothing(t *testing.T) {
	d := newDevice(t, nil)
	one := func() {
		a, b := netPair(t, "tcp")
		_, _ = b.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		if _, err := iwarp.Client(t.Context(), a, &iwarp.Config{Device: d}); err == nil {
			t.Fatal("no error")
		}
		_, _ = a.Write([]byte("x"))
		_ = b.Close()
	}
	one()
	before := footprintNow()
	for range 200 {
		one()
	}
	want := before
	want.heap += 1 << 20
	want.goroutines += 2
	if after := settled(want); after.goroutines > want.goroutines || after.descriptors > before.descriptors ||
		after.heap > want.heap {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if u := d.Use(); u.PDs != 0 || u.QPs != 0 {
		t.Errorf("left in use: %+v", u)
	}
}

// An idle connection is cheap: no buffers, few goroutines.
func TestIdleConnection(t *testing.T) {
	const n = 100
	d := newDevice(t, nil)
	before := footprintNow()
	var conns []*iwarp.Conn
	for range n {
		a, b := tcpPair(t, &iwarp.Config{Device: d}, &iwarp.Config{Device: d})
		check(t, "Send", a.Send(t.Context(), []byte("x")))
		wantRecv(t, b, "x")
		conns = append(conns, a, b)
	}
	after := footprintNow()
	perConn := (int64(after.heap) - int64(before.heap)) / int64(len(conns))
	perGoroutine := float64(after.goroutines-before.goroutines) / float64(len(conns))
	t.Logf("%d octets of heap and %.2f goroutines a connection", perConn, perGoroutine)
	if perGoroutine > 1.1 {
		t.Errorf("%.2f goroutines a connection", perGoroutine)
	}
	if limit := int64(64 << 10); perConn > limit && !raceEnabled {
		t.Errorf("%d octets of heap a connection, want at most %d", perConn, limit)
	}
	runtime.KeepAlive(conns)
}

// A region that outlives its connection keeps the connection's domain, and no
// longer.
func TestRegionOutlivesConnection(t *testing.T) {
	d := newDevice(t, nil)
	x, y := pipe(nil)
	a, b := startOn(t, x, y, nil, &iwarp.Config{Device: d})
	mr := must(b.NewMR(make([]byte, 1), iwarp.RemoteRead))(t)
	closeBoth(t, a, b)
	if u := d.Use(); u.PDs != 1 || u.QPs != 0 || u.MRs != 1 {
		t.Errorf("after the connection: %+v", u)
	}
	mr.Close()
	if u := d.Use(); u.PDs != 0 || u.MRs != 0 {
		t.Errorf("after the region: %+v", u)
	}
}

// A device without room for one more connection: the peer is told before it
// thinks that it has one.
func TestDeviceFull(t *testing.T) {
	d := newDevice(t, &iwarp.DeviceConfig{MaxQP: 1})
	ln := must(iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{Device: d}))(t)
	defer ln.Close()
	got := make(chan accepted, 2)
	go func() {
		for range 2 {
			c, err := ln.Accept(t.Context())
			got <- accepted{c, err}
		}
	}()
	a := must(iwarp.Dial(testContext(t), "tcp", ln.Addr().String(), nil))(t)
	b := <-got
	check(t, "Accept", b.err)
	var rej *iwarp.RejectError
	if _, err := iwarp.Dial(testContext(t), "tcp", ln.Addr().String(), nil); !errors.As(err, &rej) {
		t.Errorf("Dial: %v", err)
	}
	if r := <-got; !errors.Is(r.err, iwarp.ErrLimit) {
		t.Errorf("Accept: %v", r.err)
	}
	if _, err := iwarp.Dial(testContext(t), "tcp", ln.Addr().String(), &iwarp.Config{Device: d}); !errors.Is(err,
		iwarp.ErrLimit) {
		t.Errorf("Dial of the full device: %v", err)
	}
	closeBoth(t, a, b.c)
	if u := d.Use(); u.PDs != 0 || u.QPs != 0 || u.CQs != 0 {
		t.Errorf("left in use: %+v", u)
	}
}
