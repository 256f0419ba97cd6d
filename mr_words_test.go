package iwarp_test

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"testing"
	"unsafe"

	"github.com/go-iwarp/iwarp"
)

// The program and two peers use one region at once, by Writes, Reads, atomics and the
// region's own methods: the race detector has nothing to say, and no count is lost.
func TestSharedMemory(t *testing.T) {
	d := newDevice(t, nil)
	pd := must(d.NewPD())(t)
	rights := iwarp.RemoteRead | iwarp.RemoteWrite | iwarp.RemoteAtomic
	mr := must(pd.NewMR(iwarp.AllocBuffer(4096), rights, &iwarp.MROptions{Concurrent: true}))(t)
	const rounds = 200
	var wg sync.WaitGroup
	for i := range 2 {
		c, _ := tcpPair(t, nil, &iwarp.Config{PD: pd})
		wg.Go(func() {
			ctx := testContext(t)
			buf := make([]byte, 4096)
			for range rounds {
				if _, err := c.FetchAdd(ctx, mr.Remote(), 1); err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(
					c.RDMAWrite(ctx, pattern(600), mr.Remote().Slice(64, 600)),
					c.RDMAWrite(ctx, pattern(8), mr.Remote().Slice(1024+uint64(i)*8, 8)),
					c.RDMARead(ctx, buf, mr.Remote()),
				); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range rounds {
		for {
			v := must(mr.Load(0))(t)
			if must(mr.CompareAndSwap(0, v, v+1))(t) {
				break
			}
		}
		must(mr.Add(0, 1))(t)
		check(t, "Store", mr.Store(512, 7))
		check(t, "Update", mr.Update(func(b []byte) { clear(b[64:1024]) }))
	}
	wg.Wait()
	if v := must(mr.Load(0))(t); v != 4*rounds {
		t.Errorf("%d increments, want %d", v, 4*rounds)
	}
	check(t, "Update", mr.Update(func(b []byte) {
		if got := binary.NativeEndian.Uint64(b); got != 4*rounds {
			t.Errorf("the word in memory is %d", got)
		}
	}))
	check(t, "Close", mr.Close())
	if _, err := mr.Load(0); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Load after Close: %v", err)
	}
}

// Update keeps peers out that come through a window, too.
func TestUpdateKeepsWindowsOut(t *testing.T) {
	c, s := tcpPair(t, nil, nil)
	mr := must(s.NewMR(make([]byte, 64), 0))(t)
	mw := must(s.QP().NewMW())(t)
	check(t, "bind", s.QP().PostSend(iwarp.SendWR{Op: iwarp.OpBind, Bind: &iwarp.Bind{
		MW: mw, MR: mr, Length: 64, Access: iwarp.RemoteWrite,
	}}))
	if c := collect(t, s.QP().SendCQ(), 1)[0]; c.Err != nil {
		t.Fatal(c.Err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 200 {
			if err := c.RDMAWrite(testContext(t), pattern(64), mw.Remote()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 200 {
		check(t, "Update", mr.Update(func(b []byte) { clear(b) }))
	}
	wg.Wait()
}

// Bad offsets are errors, and an atomic that cannot be aligned is refused when it is posted.
func TestWordsAreAligned(t *testing.T) {
	c, s := tcpPair(t, nil, nil)
	mr := must(s.NewMR(make([]byte, 20), iwarp.RemoteAtomic))(t)
	for _, off := range []uint64{1, 4, 13, 16, 20, 1 << 40, 1<<64 - 1} {
		_, err := mr.Load(off)
		if serr := mr.Store(off, 1); !errors.Is(err, iwarp.ErrInvalidWR) || !errors.Is(serr, iwarp.ErrInvalidWR) {
			t.Errorf("octet %d: %v, %v", off, err, serr)
		}
	}
	for _, off := range []uint64{1, 4, 7} {
		_, err := c.FetchAdd(testContext(t), mr.Remote().Slice(off, 8), 1)
		_, serr := c.CompareSwap(testContext(t), mr.Remote().Slice(off, 8), 0, 1)
		if !errors.Is(err, iwarp.ErrInvalidWR) || !errors.Is(serr, iwarp.ErrInvalidWR) {
			t.Errorf("octet %d: %v, %v", off, err, serr)
		}
	}
	must(c.FetchAdd(testContext(t), mr.Remote().Slice(8, 8), 5))(t)
	if v := must(mr.Load(8))(t); v != 5 {
		t.Errorf("the word is %d", v)
	}
	odd := make([]byte, 32)[4:]
	if _, err := s.NewMR(odd, iwarp.RemoteAtomic); !errors.Is(err, iwarp.ErrInvalidWR) {
		t.Errorf("a region that no atomic can reach: %v", err)
	}
	_, err := s.PD().NewMR(make([]byte, 32), iwarp.RemoteAtomic, &iwarp.MROptions{Base: 4})
	if !errors.Is(err, iwarp.ErrInvalidWR) {
		t.Errorf("a base that no atomic can name: %v", err)
	}
	plain := must(s.NewMR(odd, iwarp.RemoteRead))(t)
	if err := plain.SetAccess(iwarp.RemoteAtomic); !errors.Is(err, iwarp.ErrInvalidWR) {
		t.Errorf("SetAccess: %v", err)
	}
	mw := must(c.QP().NewMW())(t)
	whole := must(c.NewMR(make([]byte, 64), iwarp.RemoteRead))(t)
	for _, b := range []iwarp.Bind{
		{Offset: 4, Length: 32}, {Offset: 8, Length: 32, Base: 4}, {Offset: 1, Length: 8, Base: 7},
	} {
		b.MW, b.MR, b.Access = mw, whole, iwarp.RemoteAtomic
		err := c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpBind, Bind: &b})
		if !errors.Is(err, iwarp.ErrInvalidWR) || mw.STag() != 0 {
			t.Errorf("a window at octet %d with base %d that no atomic can reach: %v", b.Offset, b.Base, err)
		}
		b.Access = iwarp.RemoteWrite
		check(t, "Bind without atomics", c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpBind, Bind: &b}))
		check(t, "Close", mw.Close())
		mw = must(c.QP().NewMW())(t)
	}
	var none *iwarp.MR
	if none.Update(nil) == nil || none.Store(0, 0) == nil {
		t.Error("a nil region")
	}
}

func TestAllocBuffer(t *testing.T) {
	for _, n := range []int{-1, 0, 1, 7, 8, 4097, 1 << 20, 5 << 20} {
		b := iwarp.AllocBuffer(n)
		if len(b) != max(n, 0) || cap(b) != max(n, 0) {
			t.Errorf("%d octets: %d of %d", n, len(b), cap(b))
		}
		if n > 0 && uintptr(unsafe.Pointer(&b[0]))%8 != 0 {
			t.Errorf("%d octets are not aligned", n)
		}
	}
}

// A func of Update's that panics leaves the region as usable as before.
func TestUpdateThatPanics(t *testing.T) {
	c, s := tcpPair(t, nil, nil)
	mr := must(s.NewMR(make([]byte, 16), iwarp.RemoteRead|iwarp.RemoteAtomic|iwarp.RemoteWrite))(t)
	for range 2 {
		func() {
			defer func() {
				if recover() != "of the program" {
					t.Error("the panic was lost")
				}
			}()
			_ = mr.Update(func([]byte) { panic("of the program") })
		}()
	}
	must(c.FetchAdd(testContext(t), mr.Remote().Slice(0, 8), 3))(t)
	if v := must(mr.Load(0))(t); v != 3 {
		t.Errorf("%d", v)
	}
	check(t, "Close", mr.Close())
}
