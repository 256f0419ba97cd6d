package iwarp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/rdmap"
)

// soakEnv is how long TestSoak runs, e.g. 1h; without it a moment.
const soakEnv = "IWARP_SOAK"

// soak is a long life of one device: what is counted over all connections.
type soak struct {
	t    *testing.T
	d    *iwarp.Device
	stop chan struct{}

	conns, octets, messages, invalidated, refused, resets, aborted atomic.Uint64
}

// Random sequences of connect, transfer, invalidate, reset and close, several at
// a time, on one device: every octet is where it should be, every call ends, and
// in the end nothing is left. `IWARP_SOAK=1h go test -race -run TestSoak -timeout
// 2h -v .` is the long run; docs/proof.md has figures.
func TestSoak(t *testing.T) {
	length := 2 * time.Second
	if s := os.Getenv(soakEnv); s != "" {
		length = must(time.ParseDuration(s))(t)
	} else if testing.Short() {
		length = time.Second / 2
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("%v, seed %d", length, seed)
	s := &soak{t: t, d: newDevice(t, nil), stop: make(chan struct{})}
	warm := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		s.life(warm)
	}
	before := footprintNow()
	const workers = 4
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(i+1)))
			for !t.Failed() {
				select {
				case <-s.stop:
					return
				default:
					s.life(rnd)
				}
			}
		})
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	report := time.NewTicker(time.Minute)
	defer report.Stop()
	for over := false; !over; {
		select {
		case <-report.C:
			s.report()
		case <-timer.C:
			over = true
		}
	}
	close(s.stop)
	wg.Wait()
	s.report()
	want := before
	want.heap += 2 << 20
	want.goroutines += 2
	after := settled(want)
	t.Logf("before: %+v, after: %+v", before, after)
	if after.goroutines > want.goroutines || after.descriptors > before.descriptors || after.heap > want.heap {
		t.Errorf("something is left: before %+v, after %+v", before, after)
	}
	if u := s.d.Use(); u.PDs != 0 || u.QPs != 0 || u.CQs != 0 || u.MRs != 0 || u.Octets != 0 || u.Entries != 0 {
		t.Errorf("left in use: %+v", u)
	}
}

func (s *soak) report() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.t.Logf("%d connections, %d MB, %d messages, %d invalidations, %d accesses refused, %d resets, %d aborts; %d "+
		"goroutines, %d MB of heap",
		s.conns.Load(), s.octets.Load()>>20, s.messages.Load(), s.invalidated.Load(), s.refused.Load(),
		s.resets.Load(), s.aborted.Load(),
		runtime.NumGoroutine(), m.HeapAlloc>>20)
}

// life is one connection from its start to its end.
func (s *soak) life(rnd *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a, b, err := s.connect(ctx, rnd)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.conns.Add(1)
	// The end comes at any time.
	ended := make(chan struct{})
	how := rand.New(rand.NewPCG(rnd.Uint64(), 0))
	go func() {
		defer close(ended)
		s.end(how, a, b)
	}()
	var both sync.WaitGroup
	for _, ends := range [][2]*iwarp.Conn{{a, b}, {b, a}} {
		r := rand.New(rand.NewPCG(rnd.Uint64(), 1))
		both.Go(func() {
			if err := s.transfer(ctx, r, ends[0], ends[1]); err != nil && a.Err() == nil && b.Err() == nil &&
				!isClosed(err) {
				s.t.Errorf("transfer: %v", err)
			}
		})
	}
	both.Wait()
	a.Abort()
	<-ended
	b.Abort()
	for _, c := range []*iwarp.Conn{a, b} {
		select {
		case <-c.Done():
		case <-ctx.Done():
			s.t.Errorf("a connection does not end: %v", c.Err())
		}
	}
}

func (s *soak) connect(ctx context.Context, rnd *rand.Rand) (a, b *iwarp.Conn, err error) {
	cfg := &iwarp.Config{
		Device: s.d, CloseTimeout: 2 * time.Second,
		MPA: iwarp.MPAConfig{
			Markers: rnd.IntN(3) == 0, Revision: 1 + rnd.IntN(2), FPDUMax: []int{0, 0, 512, 9000}[rnd.IntN(4)],
		},
		Progress: []iwarp.Progress{0, 0, 0, iwarp.ProgressParked, iwarp.ProgressPolling}[rnd.IntN(5)],
	}
	got := make(chan accepted, 1)
	if rnd.IntN(2) == 0 { // in memory
		x, y := pipe(nil)
		go func() { c, err := iwarp.Server(ctx, y, cfg); got <- accepted{c, err} }()
		a, err = iwarp.Client(ctx, x, cfg)
		r := <-got
		return a, r.c, errors.Join(err, r.err)
	}
	nl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer nl.Close()
	go func() {
		nc, err := nl.Accept()
		if err != nil {
			got <- accepted{c: nil, err: err}
			return
		}
		c, err := iwarp.Server(ctx, nc, cfg)
		got <- accepted{c, err}
	}()
	a, err = iwarp.Dial(ctx, "tcp", nl.Addr().String(), cfg)
	r := <-got
	return a, r.c, errors.Join(err, r.err)
}

// transfer uses every operation from one end to the other until it, or the
// connection, is over.
func (s *soak) transfer(ctx context.Context, rnd *rand.Rand, from, to *iwarp.Conn) error {
	const size = 64 << 10
	mem := make([]byte, size)
	data, back := make([]byte, size), make([]byte, size)
	buf := make([]byte, 1024)
	for range 1 + rnd.IntN(10) {
		mr, err := to.NewMR(mem, iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic)
		if err != nil {
			return err
		}
		n := 8 + rnd.IntN(size-8)
		for i := range data[:n] {
			data[i] = byte(rnd.Uint32())
		}
		if err := s.exchange(ctx, from, to, mr, data[:n], back[:n], buf); err != nil {
			mr.Close()
			return err
		}
		if rnd.IntN(30) == 0 { // use after it was invalidated
			stale := mr.Remote()
			mr.Close()
			err := from.RDMARead(ctx, back[:1], stale)
			if err == nil {
				return fmt.Errorf("a Read of a region that is gone gave something")
			}
			s.refused.Add(1)
			return err
		}
		if mr.Valid() {
			return fmt.Errorf("the region was not invalidated")
		}
		s.invalidated.Add(1)
		mr.Close()
	}
	return nil
}

// exchange writes, reads back, adds, and says so with the region's last message.
func (s *soak) exchange(ctx context.Context, from, to *iwarp.Conn, mr *iwarp.MR, data, back, buf []byte) error {
	if err := from.RDMAWrite(ctx, data, mr.Remote()); err != nil {
		return err
	}
	if err := from.RDMARead(ctx, back, mr.Remote()); err != nil {
		return err
	}
	if !bytes.Equal(back, data) {
		s.t.Error("a Read gave other octets than were written")
	}
	if _, err := from.FetchAdd(ctx, mr.Remote(), 1); err != nil {
		return err
	}
	if err := from.SendInvalidate(ctx, data[:100%len(data)], mr.STag()); err != nil {
		return err
	}
	m, err := to.Recv(ctx, buf)
	if err != nil {
		return err
	}
	if !bytes.Equal(buf[:m.Length], data[:100%len(data)]) || m.Invalidated != mr.STag() {
		s.t.Errorf("received %+v", m)
	}
	s.octets.Add(uint64(2 * len(data)))
	s.messages.Add(1)
	return nil
}

// end ends a connection in one of the ways there are, now or later.
func (s *soak) end(rnd *rand.Rand, a, b *iwarp.Conn) {
	if rnd.IntN(2) == 0 {
		time.Sleep(time.Duration(rnd.IntN(20_000)) * time.Microsecond)
	}
	switch rnd.IntN(6) {
	case 0:
		s.aborted.Add(1)
		a.Abort()
	case 1:
		s.aborted.Add(1)
		b.Abort()
	case 2: // behind the library's back
		s.resets.Add(1)
		if tc, ok := a.NetConn().(*net.TCPConn); ok {
			_ = tc.SetLinger(0)
		}
		_ = a.NetConn().Close()
	case 3:
		go func() { _ = b.Close() }()
		_ = a.Close()
	case 4:
		a.CloseWrite()
	default: // when the transfer is over
	}
}

func isClosed(err error) bool {
	for _, e := range []error{net.ErrClosed, io.EOF, iwarp.ErrFlushed, rdmap.ErrClosed, rdmap.ErrPeerClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
