package ddp_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// accesses are the ways to be in the middle of an access to a region. Each starts
// one for the stream who and gives the function that ends it.
var accesses = map[string]func(t *testing.T, table *ddp.Table, r *ddp.Region, who ddp.Peer) (end func()){
	"a batch of segments": func(t *testing.T, table *ddp.Table, r *ddp.Region, who ddp.Peer) func() {
		s := newSinkOf(ddp.ReceiverConfig{Peer: who, Ordered: true, Batched: true})
		s.up.table = table
		s.good(t, "a segment", segment(tagged(r.STag(), 0, false), "abcd"))
		return s.EndBatch
	},
	"an atomic": func(_ *testing.T, table *ddp.Table, r *ddp.Region, who ddp.Peer) func() {
		stag, within, finish := r.STag(), make(chan struct{}), make(chan struct{})
		over := make(chan *protocol.Error)
		go func() {
			over <- table.Atomic(stag, who, 0, func(*uint64) { close(within); <-finish })
		}()
		<-within
		return func() { close(finish); <-over }
	},
	"a Borrow": func(t *testing.T, table *ddp.Table, r *ddp.Region, who ddp.Peer) func() {
		_, _, err := table.Borrow(r.STag(), who, 0, 8, ddp.RemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		return r.Release
	},
}

// revocations are the ways to take rights from a region.
var revocations = map[string]func(table *ddp.Table, r *ddp.Region){
	"Invalidate": func(_ *ddp.Table, r *ddp.Region) { r.Invalidate() },
	"Deregister": func(_ *ddp.Table, r *ddp.Region) { r.Deregister() },
	"SetAccess":  func(_ *ddp.Table, r *ddp.Region) { r.SetAccess(0) },
	"Rekey":      func(_ *ddp.Table, r *ddp.Region) { r.Rekey(uint8(r.STag()) + 1) },
}

// A region that all streams of a domain use has several locks, and which one an
// access takes depends on the stream: a revocation waits for all of them.
//
// Shows: DDP-8.3.1-05, RDMAP-8.1.1-06, SEC-6.2.2-02
func TestRevocationWaitsForEveryStream(t *testing.T) {
	const streams = 16
	for access, start := range accesses {
		for name, revoke := range revocations {
			for stream := range ddp.StreamID(streams) {
				t.Run(fmt.Sprintf("%s, %s, stream %d", access, name, stream), func(t *testing.T) {
					table := ddp.NewTable(0)
					r := register(t, table, ddp.RegionConfig{
						Buf: aligned(8, 0), Access: ddp.RemoteWrite | ddp.RemoteRead | ddp.RemoteAtomic, PD: 1,
					})
					r.Share()
					stag := r.STag()
					end := start(t, table, r, ddp.Peer{PD: 1, Stream: stream})
					var over atomic.Bool
					done := make(chan struct{})
					go func() {
						defer close(done)
						revoke(table, r)
						over.Store(true)
					}()
					for range 300 {
						runtime.Gosched()
					}
					if over.Load() {
						t.Error("it does not wait")
					}
					end()
					<-done
					for other := range ddp.StreamID(streams) {
						if table.Place(stag, ddp.Peer{PD: 1, Stream: other}, 0, []byte("late"),
							ddp.RemoteWrite) == nil {
							t.Errorf("stream %d still writes", other)
						}
					}
				})
			}
		}
	}
}
