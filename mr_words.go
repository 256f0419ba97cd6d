package iwarp

import (
	"fmt"
	"net"
	"sync/atomic"
	"unsafe"

	"github.com/go-iwarp/iwarp/internal/fault"
	"github.com/go-iwarp/iwarp/internal/pages"
)

// AllocBuffer returns n octets of zeros for a region: in huge pages where the system has them
// and n is worth one (Linux), at an address that is a multiple of eight, and touched, so that
// no page has to be found when the first message comes. The memory is Go's, and needs no
// release. An n below 0 is 0; one that the system has no memory for is a panic, as of make.
func AllocBuffer(n int) []byte {
	n = max(n, 0)
	b, huge := pages.Huge((n + 7) &^ 7)
	if !huge {
		for i := 0; i < len(b); i += 4096 {
			b[i] = 0
		}
	}
	return b[:n:n]
}

// reachable checks what atomics need of a region.
func reachable(buf []byte, base uint64, access Access) error {
	if !access.Has(RemoteAtomic) || len(buf) < 8 {
		return nil
	}
	if a := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))); a%8 != 0 || base%8 != 0 {
		return fmt.Errorf("%w: RemoteAtomic needs memory and Base at multiples of 8: "+
			"the address is %d above one, Base %d (RFC 7306 section 5.1)", ErrInvalidWR, a%8, base%8)
	}
	return nil
}

// Load returns the 64-bit word at octet off of the region, which is a multiple of eight,
// in this machine's byte order. It may be called while peers use the region: no Write is seen
// half done, as far as its octets were placed by one segment, and no atomic.
// Errors: [ErrInvalidWR] for a bad off, [net.ErrClosed] after Close, or that the memory
// is not there. The same holds for Store, Add and CompareAndSwap.
//
// A peer that reads the word by an RDMA Read gets its octets as they lie in memory: the two
// have to agree on the byte order, little endian on amd64 and arm64. FetchAdd and
// CompareSwap carry numbers, and convert.
func (m *MR) Load(off uint64) (v uint64, err error) {
	return v, m.word(off, func(w *uint64) { v = atomic.LoadUint64(w) })
}

// Store puts v into the word at octet off: see Load.
func (m *MR) Store(off, v uint64) error {
	return m.word(off, func(w *uint64) { atomic.StoreUint64(w, v) })
}

// Add adds v to the word at octet off and returns the sum: see Load.
func (m *MR) Add(off, v uint64) (sum uint64, err error) {
	return sum, m.word(off, func(w *uint64) { sum = atomic.AddUint64(w, v) })
}

// CompareAndSwap puts swap into the word at octet off if compare is there, and reports
// whether it was: see Load. It is atomic towards the atomics of peers.
func (m *MR) CompareAndSwap(off, compare, swap uint64) (swapped bool, err error) {
	return swapped, m.word(off, func(w *uint64) { swapped = atomic.CompareAndSwapUint64(w, compare, swap) })
}

// Update calls f with the region's octets while no peer's access to them is going on: what
// peers want waits meanwhile, and so do their connections. A peer sees all that f does or
// nothing of it, as far as one segment reaches: an RDMA Read that is answered in several
// may have begun before. So f should be short. It must not block, keep the slice, or call the
// library: a call that waits for one of the connections never returns.
//
// It returns [net.ErrClosed] after Close.
func (m *MR) Update(f func(octets []byte)) error {
	if err := m.made(); err != nil {
		return err
	}
	if !m.region.Exclusive(f) {
		return fmt.Errorf("iwarp: MR: %w", net.ErrClosed)
	}
	return nil
}

// word calls f with a word of the region while peers are kept out.
func (m *MR) word(off uint64, f func(*uint64)) error {
	if err := m.made(); err != nil {
		return err
	}
	if n := uint64(len(m.buf)); n < 8 || off > n-8 {
		return fmt.Errorf("%w: a word of 8 octets at octet %d of a region of %d", ErrInvalidWR, off, n)
	}
	w := unsafe.Pointer(&m.buf[off])
	if uintptr(w)%8 != 0 {
		return fmt.Errorf("%w: the word at octet %d of the region does not lie at a multiple of 8", ErrInvalidWR, off)
	}
	var err error
	if uerr := m.Update(func([]byte) { err = guarded(func() { f((*uint64)(w)) }) }); uerr != nil {
		return uerr
	}
	return err
}

// guarded calls f, and returns an error if it touches memory that is not there.
func guarded(f func()) (err error) {
	was, done := fault.Guard(), false
	defer func() {
		fault.Unguard(was)
		if !done {
			if e := fault.Of(recover()); e != nil {
				err = e
			}
		}
	}()
	f()
	done = true
	return nil
}
