package iwarp

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// This file bounds the octets that peers make a device hold: messages that Recv has
// yet to take, and Read Responses that the network has yet to take. What a
// connection may always hold is not counted, so that one peer cannot starve another,
// and connections that hold little do not meet in one counter.

// freeHeld is what a connection may hold of either kind without asking: a message of
// the default size, a segment or two of a Response.
const freeHeld = 64 << 10

// heldStep is how much of a device's bound a connection takes at once.
const heldStep = 64 << 10

// heldBound is the bound of a device. It implements rdmap.Bound.
type heldBound struct {
	max     int64
	used    atomic.Int64
	refused atomic.Uint64
}

// Take takes n octets of the bound, or none.
func (b *heldBound) Take(n int64) bool {
	for {
		used := b.used.Load()
		if n > b.max-used {
			b.refused.Add(1)
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// Give gives n octets back.
func (b *heldBound) Give(n int64) { b.used.Add(-n) }

// heldShare is what one inbox has taken of the bound. It outlives the inbox, of a
// connection that its program has forgotten to close, to be given back.
type heldShare struct {
	bound *heldBound
	taken atomic.Int64
}

func (s *heldShare) end() { s.bound.Give(s.taken.Swap(0)) }

// held counts what an inbox holds, under its lock.
type held struct {
	bound  *heldBound
	octets int64
	share  *heldShare // nil as long as nothing was taken
	ended  bool       // what is still held is the program's
}

// add counts n octets more, if there is room for them.
func (h *held) add(b *inbox, n int) error {
	octets := h.octets + int64(n)
	if beyond := octets - freeHeld; beyond > 0 && !h.ended {
		if h.share == nil {
			h.share = &heldShare{bound: h.bound}
			runtime.AddCleanup(b, (*heldShare).end, h.share)
		}
		if more := beyond - h.share.taken.Load(); more > 0 {
			more = (more + heldStep - 1) / heldStep * heldStep
			if !h.bound.Take(more) {
				return fmt.Errorf("%w: DeviceConfig.MaxHeld is %d: peers hold all of it, and this connection %d octets",
					ErrLimit, h.bound.max, h.octets)
			}
			h.share.taken.Add(more)
		}
	}
	h.octets = octets
	return nil
}

// sub counts n octets less. A step is kept, or going up and down across one would
// touch the device's counter each time.
func (h *held) sub(n int) {
	h.octets -= int64(n)
	if h.share == nil {
		return
	}
	keep := int64(0)
	if h.octets > freeHeld/2 {
		keep = heldStep + (max(0, h.octets-freeHeld)+heldStep-1)/heldStep*heldStep
	}
	if spare := h.share.taken.Load() - keep; spare > 0 {
		h.share.taken.Add(-spare)
		h.bound.Give(spare)
	}
}

// end gives all back that was taken of the bound.
func (h *held) end() {
	h.ended = true
	if h.share != nil {
		h.share.end()
	}
}

// Octets that arrive for Recv lie in chunks, each of a power of two, from pools that
// all connections share. The pools hold pointers to the first octet: a slice's header
// would be allocated.
const (
	minChunk    = 1 << minChunkBit
	maxChunk    = 1 << maxChunkBit
	minChunkBit = 8
	maxChunkBit = 16
)

var chunkPools [maxChunkBit - minChunkBit + 1]sync.Pool

// chunkClass returns the pool of chunks that have n octets or more, and their size. n is
// at most maxChunk.
func chunkClass(n int) (pool *sync.Pool, size int) {
	size, class := minChunk, 0
	for size < n {
		size, class = 2*size, class+1
	}
	return &chunkPools[class], size
}

// newChunk borrows a chunk, of chunkClass's size.
func newChunk(n int) []byte {
	pool, size := chunkClass(n)
	if p, ok := pool.Get().(*byte); ok {
		return unsafe.Slice(p, size)
	}
	return make([]byte, size)
}

// giveChunk gives a chunk back, of which p may be the start.
func giveChunk(p []byte) {
	pool, _ := chunkClass(cap(p))
	pool.Put(unsafe.SliceData(p))
}
