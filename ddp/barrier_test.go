package ddp_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// Whoever takes a right away waits for an access that is under way, and is
// through when that is over.
// Shows: DDP-8.3.1-05, RDMAP-8.1.1-06, SEC-6.2.2-02
func TestRevocationWaits(t *testing.T) {
	for name, revoke := range map[string]func(*ddp.Table, *ddp.Region){
		"Invalidate": func(_ *ddp.Table, r *ddp.Region) { r.Invalidate() },
		"Deregister": func(_ *ddp.Table, r *ddp.Region) { r.Deregister() },
		"SetAccess":  func(_ *ddp.Table, r *ddp.Region) { r.SetAccess(0) },
		"Rekey":      func(_ *ddp.Table, r *ddp.Region) { r.Rekey(uint8(r.STag()) + 1) },
		"RemoteInvalidate": func(table *ddp.Table,
			r *ddp.Region,
		) {
			table.RemoteInvalidate(r.STag(), me.PD, me.Stream)
		},
	} {
		for _, shared := range []bool{false, true} {
			if shared && name == "RemoteInvalidate" {
				continue
			}
			table := ddp.NewTable(0)
			c := ddp.RegionConfig{Buf: make([]byte, 8), Access: ddp.RemoteRead, PD: me.PD, Stream: me.Stream}
			if shared {
				c.Stream = 0
			}
			r := register(t, table, c)
			if shared {
				r.Share()
			}
			if _, err := r.Borrow(me, 0, 8, ddp.RemoteRead); err != nil {
				t.Fatal(err)
			}
			var over atomic.Bool
			done := make(chan struct{})
			go func() {
				defer close(done)
				revoke(table, r)
				over.Store(true)
			}()
			for range 2000 {
				runtime.Gosched()
			}
			if over.Load() {
				t.Errorf("%s, shared %t: it does not wait for an access", name, shared)
			}
			r.Release()
			<-done
		}
	}
}

// A segment for an earlier use of a sink misses it, whatever the ULP says.
// Shows: DDP-7.1-07
func TestSegmentOfAnEarlierUse(t *testing.T) {
	s := newSink(true, 0)
	sink := s.table.NewSink()
	old := sink.Arm([][]byte{make([]byte, 8)})
	sink.Disarm()
	mem := make([]byte, 8)
	if now := sink.Arm([][]byte{mem}); now == old || now>>8 != old>>8 {
		t.Fatalf("STags of two uses: %v, %v", old, now)
	}
	s.up.sinks[old] = sink
	wantCode(t, "of an earlier use", s.next(segment(tagged(old, 0, true), "late")), protocol.DDPTaggedInvalidSTag)
	if mem[0] != 0 {
		t.Error("it was placed")
	}
}
