//go:build linux

package iwarp_test

import (
	"bytes"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-iwarp/iwarp"
)

// sparse returns memory that costs nothing until it is touched.
func sparse(t *testing.T, size uint64, prot int) []byte {
	t.Helper()
	if strconv.IntSize == 32 {
		t.Skip("an address space of 32 bits")
	}
	b, err := syscall.Mmap(-1, 0, int(size), prot, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err != nil {
		t.Skipf("no sparse mapping of %d octets: %v", size, err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(b) })
	return b
}

// R47: a region above 4 GiB works, also behind its 4 GiB.
// Shows: RDMAP-5.1-03, DDP-4.2-08
func TestRegionAbove4GiB(t *testing.T) {
	const size = uint64(5 << 30)
	off := uint64(4<<30 + 1) // no constant: it must compile where an int has 32 bits
	mem := sparse(t, size, syscall.PROT_READ|syscall.PROT_WRITE)
	a, b := tcpPair(t, nil, nil)
	mr := must(b.NewMR(mem, iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic))(t)
	defer mr.Close()
	ctx := testContext(t)
	data := pattern(100_000)
	check(t, "Write", a.RDMAWrite(ctx, data, remoteAt(mr, off)))
	back := make([]byte, len(data))
	check(t, "Read", a.RDMARead(ctx, back, remoteAt(mr, off)))
	if !bytes.Equal(back, data) || !bytes.Equal(mem[off:off+uint64(len(data))], data) || mem[off-1] != 0 ||
		mem[1] != 0 {
		t.Error("the octets are not where they should be")
	}
	if v, err := a.FetchAdd(ctx, remoteAt(mr, size-8), 3); err != nil || v != 0 {
		t.Errorf("FetchAdd: %d, %v", v, err)
	}
	check(t, "Write of the last octet", a.RDMAWrite(ctx, []byte{9}, remoteAt(mr, size-1)))
	check(t, "Read", a.RDMARead(ctx, back[:1], remoteAt(mr, size-1)))
	if back[0] != 9 {
		t.Errorf("last octet %d", back[0])
	}
	check(t, "Write", a.RDMAWrite(ctx, []byte{9, 9}, remoteAt(mr, size-1)))
	if err := a.RDMARead(ctx, back[:1], mr.Remote()); err == nil {
		t.Error("a Write across the end of the region succeeds")
	}
}

// One message of 1 GiB, with memory that stays flat.
func TestWriteOfOneGiB(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("moves 1 GiB")
	}
	const size = 1 << 30
	// The source is one page of zeros many times over; the target a small window of
	// memory would do too, but a region is one slice: it is dropped page by page.
	src := sparse(t, size, syscall.PROT_READ)
	dst := sparse(t, size, syscall.PROT_READ|syscall.PROT_WRITE)
	a, b := tcpPair(t, nil, nil)
	mr := must(b.NewMR(dst, iwarp.RemoteWrite))(t)
	defer mr.Close()
	var peak atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		drop := 0
		for {
			select {
			case <-stop:
				return
			default:
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapAlloc))
			// Give back what has been placed, so that the test needs no 1 GiB itself.
			const step = 32 << 20
			if got := int(b.Stats().RDMAP.PayloadReceived); got-drop > 2*step {
				_ = syscall.Madvise(dst[drop:drop+step], syscall.MADV_DONTNEED)
				drop += step
			}
			runtime.Gosched()
		}
	}()
	before := footprintNow().heap
	check(t, "Write", a.RDMAWrite(testContext(t), src, mr.Remote()))
	check(t, "the Read behind it", a.RDMARead(testContext(t), nil, iwarp.RemoteBuffer{}))
	close(stop)
	<-stopped
	if grown := int64(peak.Load()) - int64(before); grown > 16<<20 {
		t.Errorf("the heap grew by %d octets", grown)
	}
	if st := b.Stats().RDMAP; st.PayloadReceived != size {
		t.Errorf("received %d octets", st.PayloadReceived)
	}
}

// A message has less than 2^32 octets.
// Shows: DDP-5.2-02
func TestMessageTooLong(t *testing.T) {
	mem := sparse(t, 4<<30, syscall.PROT_READ)
	a, _ := tcpPair(t, nil, nil)
	err := a.RDMAWrite(testContext(t), mem, iwarp.RemoteBuffer{})
	wantWords(t, err, "4294967296", "2^32")
	if a.Err() != nil {
		t.Errorf("the connection has ended: %v", a.Err())
	}
}
