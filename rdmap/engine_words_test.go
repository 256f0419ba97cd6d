package rdmap_test

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// Atomics of a peer, and of this program on the same word without pause: none is
// lost.
// Shows: EXT-5-01, EXT-5.3-01, EXT-5-04
func TestAtomicsBesideProgram(t *testing.T) {
	e := newEnd(t, responder, ird(1))
	mem := wordMemory(t, 0)
	stag := uint32(e.register(mem, ddp.RemoteAtomic).STag())
	word := (*uint64)(unsafe.Pointer(unsafe.SliceData(mem)))
	stop, stopped := make(chan struct{}), make(chan uint64)
	go func() {
		for n := uint64(0); ; n++ {
			select {
			case <-stop:
				stopped <- n
				return
			default:
				for range 100 {
					atomic.AddUint64(word, 1<<32)
				}
			}
		}
	}()
	// Until the two have met often enough: on one processor, or a busy machine, they
	// seldom do.
	times, met, last := uint32(0), 0, uint64(0)
	for ; times < 200_000 && met < 3000; times++ {
		e.deliver(iwarptest.FetchAdd(times+1, times, stag, 0, 1, 0))
		e.transmit()
		e.llp.sent = nil
		if now := atomic.LoadUint64(word) >> 32; now != last {
			met, last = met+1, now
		}
	}
	close(stop)
	want := 100*<-stopped<<32 + uint64(times)
	if got := binary.NativeEndian.Uint64(mem); got != want {
		t.Errorf("the word is %#x, want %#x", got, want)
	}
}
