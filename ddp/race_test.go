package ddp_test

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// hammer starts n goroutines that use a region, each on a part of its own, until
// they are refused, and gives a wait for all of them. Whether one of them still
// touches the buffer when a revocation has returned is for the race detector,
// since the test uses the buffer then as plain memory.
func hammer(n int, use func(part int) *protocol.Error) (started, done *sync.WaitGroup) {
	started, done = new(sync.WaitGroup), new(sync.WaitGroup)
	for part := range n {
		started.Add(1)
		done.Go(func() {
			for first := true; ; first = false {
				err := use(part)
				if first {
					started.Done()
				}
				if err != nil {
					return
				}
			}
		})
	}
	return started, done
}

// Shows: DDP-8.3.1-05, RDMAP-8.1.1-06, SEC-6.2.2-02, DDP-8.3.1-04
func TestRevocationIsABarrier(t *testing.T) {
	const parts, size = 4, 512
	for _, tt := range []struct {
		name   string
		revoke func(*ddp.Table, *ddp.Region)
	}{
		{name: "Invalidate", revoke: func(_ *ddp.Table, r *ddp.Region) { r.Invalidate() }},
		{name: "Deregister", revoke: func(_ *ddp.Table, r *ddp.Region) { r.Deregister() }},
		{name: "SetAccess", revoke: func(_ *ddp.Table, r *ddp.Region) { r.SetAccess(0) }},
		{name: "Rekey", revoke: func(_ *ddp.Table, r *ddp.Region) { r.Rekey(uint8(r.STag()) + 1) }},
		{name: "RemoteInvalidate", revoke: func(table *ddp.Table, r *ddp.Region) {
			if err := table.RemoteInvalidate(r.STag(), 1, 10); err != nil {
				panic(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for round := range 10 {
				table := ddp.NewTable(0)
				buf := make([]byte, parts*size)
				stream := ddp.StreamID(10)
				shared := round%2 == 1 && tt.name != "RemoteInvalidate"
				if shared {
					stream = 0
				}
				r := register(t, table, ddp.RegionConfig{Buf: buf, Access: both, PD: 1, Stream: stream})
				if shared {
					r.Share()
				}
				stag := r.STag()
				data := bytes.Repeat([]byte{7}, size)
				dst := make([][]byte, parts)
				for i := range dst {
					dst[i] = make([]byte, size)
				}
				started, done := hammer(parts, func(part int) *protocol.Error {
					who := me
					if shared {
						who.Stream = ddp.StreamID(part)
					}
					at := uint64(part * size)
					if err := table.Place(stag, who, at, data, ddp.RemoteWrite); err != nil {
						return err
					}
					if err := table.Fetch(stag, who, at, dst[part], ddp.RemoteRead); err != nil {
						return err
					}
					region, src, err := table.Borrow(stag, who, at, size, ddp.RemoteRead)
					if err != nil {
						return err
					}
					copy(dst[part], src)
					region.Release()
					return nil
				})
				started.Wait()
				tt.revoke(table, r)
				for i := range buf { // plain memory again
					buf[i] = 1
				}
				if bytes.Count(buf, []byte{1}) != len(buf) {
					t.Error("the buffer changed after the revocation")
				}
				done.Wait()
			}
		})
	}
}

// Shows: DDP-8.3.1-05
func TestDisarmIsABarrier(t *testing.T) {
	table := ddp.NewTable(0)
	for range 30 {
		s := table.NewSink()
		buf := make([]byte, 4096)
		s.Arm([][]byte{buf[:1000], buf[1000:]})
		data := make([]byte, 512)
		started, done := hammer(2, func(part int) *protocol.Error { return s.Place(uint64(part*2048), data) })
		started.Wait()
		s.Disarm()
		for i := range buf {
			buf[i] = 1
		}
		done.Wait()
		s.Close()
	}
}

// A revocation comes through although accesses never stop.
func TestRevocationIsNotStarved(t *testing.T) {
	table := ddp.NewTable(0)
	r := register(t, table, ddp.RegionConfig{Buf: make([]byte, 64), Access: ddp.RemoteRead, PD: 1})
	r.Share()
	var stop atomic.Bool
	started, done := hammer(4, func(part int) *protocol.Error {
		if stop.Load() {
			return new(protocol.Error)
		}
		err := r.CheckFetch(ddp.Peer{PD: 1, Stream: ddp.StreamID(part)}, 0, 64, ddp.RemoteRead)
		if err != nil && err.Code == protocol.RDMAPAccess {
			err = nil
		}
		return err
	})
	started.Wait()
	for range 20 {
		r.SetAccess(0)
		r.SetAccess(ddp.RemoteRead)
	}
	stop.Store(true)
	done.Wait()
}

// Borrow holds a revocation back until Release.
//
// Shows: DDP-8.3.1-05
func TestBorrowHoldsRevocationBack(t *testing.T) {
	table := ddp.NewTable(0)
	buf := []byte("lent")
	r := register(t, table, ddp.RegionConfig{Buf: buf, Access: ddp.RemoteRead, PD: 1})
	r.Share()
	src, err := r.Borrow(ddp.Peer{PD: 1, Stream: 3}, 0, 4, ddp.RemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	var revoked atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Invalidate()
		revoked.Store(true)
		copy(buf, "mine")
	}()
	for range 1000 {
		runtime.Gosched()
		if string(src) != "lent" || revoked.Load() {
			t.Fatal("revoked while it was lent")
		}
	}
	r.Release()
	<-done
	wantCode(t, "afterwards", r.CheckFetch(ddp.Peer{PD: 1}, 0, 1, 0), protocol.RDMAPInvalidSTag)
}

// Atomics of several streams on one word add up.
//
// Shows: EXT-5-01, EXT-5.3-01
func TestAtomicsAddUp(t *testing.T) {
	table := ddp.NewTable(0)
	buf := aligned(8, 0)
	r := register(t, table, ddp.RegionConfig{Buf: buf, Access: ddp.RemoteAtomic, PD: 1})
	r.Share()
	const streams, each = 8, 1000
	var wg sync.WaitGroup
	for stream := range ddp.StreamID(streams) {
		wg.Go(func() {
			for range each {
				if err := r.Atomic(ddp.Peer{PD: 1, Stream: stream}, 0,
					func(w *uint64) { atomic.AddUint64(w, 1) }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	var got uint64
	if err := r.Atomic(ddp.Peer{PD: 1}, 0, func(w *uint64) { got = atomic.LoadUint64(w) }); err != nil ||
		got != streams*each {
		t.Errorf("the word is %d (%v), want %d", got, err, streams*each)
	}
}
