// Package ring has the queues that a process shares with the provider library librxe:
// struct rxe_queue_buf of linux/rdma_user_rxe.h, in a memfd that the program maps. One
// side of a ring is the program's, the other one ours, and no call goes between them.
//
//	offset  0  log2 of an element's octets
//	        4  index mask: elements less one
//	      128  producer's index
//	      256  consumer's index
//	      384  elements
//
// Both indexes are masked, and one element stays free, so that equal indexes mean empty.
// The program may write anything into its half: an index is masked whenever it is read.
package ring

import (
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
)

const (
	producerAt = 128
	consumerAt = 256
	dataAt     = 384
)

// Memory is the memfd in which rings lie. Its descriptor is what the program has opened.
type Memory struct {
	fd   int
	mu   sync.Mutex
	size int64
}

// NewMemory makes an empty memfd. The descriptor is the program's to close.
func NewMemory(name string) (m *Memory, fd int, err error) {
	fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, -1, err
	}
	// A descriptor of our own: rings may be made and freed while the program closes its.
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		_ = unix.Close(fd)
		return nil, -1, err
	}
	return &Memory{fd: own}, fd, nil
}

// Close lets go of the memfd. Rings are freed by themselves.
func (m *Memory) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fd >= 0 {
		_ = unix.Close(m.fd)
		m.fd = -1
	}
}

// Ring is one queue.
type Ring struct {
	of         *Memory
	mem        []byte
	prod, cons *atomic.Uint32
	mask       uint32
	shift      uint32
	off        int64
}

// New makes a ring for n elements, or a few more, of size octets or more.
func (m *Memory) New(n, size int) (*Ring, error) {
	slots := uint32(1) << bits.Len(uint(n)) // more than n, as one stays free
	shift := uint32(bits.Len(uint(size - 1)))
	page := os.Getpagesize()
	total := (dataAt + int(slots)<<shift + page - 1) &^ (page - 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fd < 0 {
		return nil, os.ErrClosed
	}
	off := m.size
	if err := unix.Ftruncate(m.fd, off+int64(total)); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(m.fd, off, total, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	m.size += int64(total)
	uabi.Order.PutUint32(mem[0:], shift)
	uabi.Order.PutUint32(mem[4:], slots-1)
	return &Ring{
		of: m, mem: mem, mask: slots - 1, shift: shift, off: off,
		prod: (*atomic.Uint32)(unsafe.Pointer(&mem[producerAt])),
		cons: (*atomic.Uint32)(unsafe.Pointer(&mem[consumerAt])),
	}, nil
}

// Free gives the ring's memory back. Nothing of the ring may be used afterwards; the
// program's mapping of it reads zeros.
func (r *Ring) Free() {
	if r == nil || r.mem == nil {
		return
	}
	_ = unix.Munmap(r.mem)
	r.of.mu.Lock()
	if r.of.fd >= 0 {
		_ = unix.Fallocate(r.of.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, r.off, int64(len(r.mem)))
	}
	r.of.mu.Unlock()
	r.mem = nil
}

// Freed reports whether Free was called.
func (r *Ring) Freed() bool { return r == nil || r.mem == nil }

// Info is what the program needs to map the ring.
func (r *Ring) Info() uabi.RingInfo {
	return uabi.RingInfo{Offset: uint64(r.off), Size: uint32(len(r.mem))}
}

// At returns element i.
func (r *Ring) At(i uint32) []byte {
	o := dataAt + int(i&r.mask)<<r.shift
	return r.mem[o : o+1<<r.shift : o+1<<r.shift]
}

// Next is the index behind i.
func (r *Ring) Next(i uint32) uint32 { return (i + 1) & r.mask }

// Slots is the number of elements, of which one less can be in use.
func (r *Ring) Slots() int { return int(r.mask) + 1 }

// Producer is the index behind the newest element.
func (r *Ring) Producer() uint32 { return r.prod.Load() & r.mask }

// Consumer is the index of the oldest element.
func (r *Ring) Consumer() uint32 { return r.cons.Load() & r.mask }

// SetProducer says that elements before i are there.
func (r *Ring) SetProducer(i uint32) { r.prod.Store(i & r.mask) }

// SetConsumer says that elements before i are free.
func (r *Ring) SetConsumer(i uint32) { r.cons.Store(i & r.mask) }

// Len is the number of elements in use.
func (r *Ring) Len() int { return int((r.Producer() - r.Consumer()) & r.mask) }

// Copy moves the elements of r to another ring, which has room for them.
func (r *Ring) Copy(to *Ring) {
	n := uint32(0)
	for i, end := r.Consumer(), r.Producer(); i != end; i = r.Next(i) {
		copy(to.At(n), r.At(i))
		n++
	}
	to.SetConsumer(0)
	to.SetProducer(n)
}
