package uverbs

import (
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/internal/fault"
	"github.com/go-iwarp/iwarp/verbs/internal/ring"
)

// Memory is the program's memory at an address of this process. Whether it is there, only
// a touch tells: see package fault.
func Memory(addr, n uint64) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), int(n))
}

// lowest is the lowest address that memory may have: Go takes a touch of what is below
// for a nil pointer, which is no fault that package fault knows.
const lowest = 4096

// Put copies b to the program's memory.
func Put(addr uint64, b []byte) unix.Errno {
	return move(addr, len(b), func(m []byte) (int, error) { return fault.Copy(m, b) })
}

// Get copies the program's memory to b.
func Get(b []byte, addr uint64) unix.Errno {
	return move(addr, len(b), func(m []byte) (int, error) { return fault.Copy(b, m) })
}

func move(addr uint64, n int, copies func([]byte) (int, error)) unix.Errno {
	switch {
	case n == 0:
		return 0
	case addr < lowest:
		return unix.EFAULT
	}
	if _, err := copies(Memory(addr, uint64(n))); err != nil {
		return unix.EFAULT
	}
	return 0
}

// Access rights: enum ibv_access_flags.
const (
	accessLocalWrite   = 1 << 0
	accessRemoteWrite  = 1 << 1
	accessRemoteRead   = 1 << 2
	accessRemoteAtomic = 1 << 3
	accessMWBind       = 1 << 4
	accessZeroBased    = 1 << 5
	accessHugeTLB      = 1 << 7
	accessKnown        = accessLocalWrite | accessRemoteWrite | accessRemoteRead | accessRemoteAtomic |
		accessMWBind | accessZeroBased | accessHugeTLB
	accessOptional = 0x3ff00000
)

func remoteAccess(a uint32) (r iwarp.Access) {
	for _, x := range [...]struct {
		bit uint32
		a   iwarp.Access
	}{
		{accessRemoteWrite, iwarp.RemoteWrite},
		{accessRemoteRead, iwarp.RemoteRead},
		{accessRemoteAtomic, iwarp.RemoteAtomic},
	} {
		if a&x.bit != 0 {
			r |= x.a
		}
	}
	return r
}

func checkAccess(a uint32) unix.Errno {
	switch {
	case a&^(accessKnown|accessOptional) != 0:
		return unix.EOPNOTSUPP
	case a&(accessRemoteWrite|accessRemoteAtomic) != 0 && a&accessLocalWrite == 0:
		return unix.EINVAL
	}
	return 0
}

// mr is a memory region. Its STag is both keys.
type mr struct {
	pd         *pd
	m          *iwarp.MR
	start, end uint64 // addresses in this process
	iova       uint64 // that of start in work requests
	access     uint32
	dead       atomic.Bool
}

func (m *mr) key() uint32 { return uint32(m.m.STag()) }

// regions are the regions by key. A work request reaches memory only through one of them,
// and not after DEREG_MR.
type regions struct {
	mu    sync.RWMutex
	byKey map[uint32]*mr
}

func (r *regions) get(key uint32) *mr {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byKey[key]
}

func (r *regions) add(m *mr) {
	r.mu.Lock()
	r.byKey[m.key()] = m
	r.mu.Unlock()
}

// remove makes the region unknown to work requests that come later.
func (r *regions) remove(m *mr) {
	r.mu.Lock()
	delete(r.byKey, m.key())
	r.mu.Unlock()
	m.dead.Store(true)
}

// resolver resolves SGEs for one domain, and remembers the last region. It belongs to
// whoever holds the queue's lock.
type resolver struct {
	regions *regions
	pd      *pd
	last    *mr
}

// resolve appends the memory that a list names, which must all be in regions of the
// domain; with write, in those that this end may write to.
func (v *resolver) resolve(to [][]byte, l ring.List, write bool) ([][]byte, bool) {
	for i := range l.Len() {
		addr, n, key := l.At(i)
		if n == 0 {
			continue
		}
		m := v.last
		if m == nil || m.dead.Load() || m.key() != key {
			if m = v.regions.get(key); m == nil || m.pd != v.pd {
				return to, false
			}
			v.last = m
		}
		off := addr - m.iova
		if size := m.end - m.start; off > size || uint64(n) > size-off || write && m.access&accessLocalWrite == 0 {
			return to, false
		}
		to = append(to, Memory(m.start+off, uint64(n)))
	}
	return to, true
}

// uses reports whether a list names memory of the region.
func (m *mr) uses(l ring.List) bool {
	for i := range l.Len() {
		if _, n, key := l.At(i); n != 0 && key == m.key() {
			return true
		}
	}
	return false
}

// mapped reports whether all of a range is memory of the process, as the kernel finds
// out by pinning it.
func mapped(start, length uint64) bool {
	page := uint64(os.Getpagesize())
	from, end := start&^(page-1), start+length
	if end < start {
		return false
	}
	vec := make([]byte, 1<<14)
	for from < end {
		n := min(end-from, page*uint64(len(vec)))
		_, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(from), uintptr(n), uintptr(unsafe.Pointer(&vec[0])))
		if e != 0 && e != unix.EAGAIN {
			return false
		}
		from += n
	}
	return true
}
