package mpa

import (
	"math/bits"
	"sync"
)

// Buffers are borrowed while there is something in them, so that an idle
// connection costs next to nothing.
const (
	recvBufLen   = 256 << 10 // of one read; stays in a core's second-level cache
	smallRecvLen = 4 << 10   // the smallest that is lent to a receiver
	ownRecvLen   = 512       // of each conn: enough for short messages that come alone
	longFPDU     = 16 << 10  // what is left of such a one behind a read is worth avoiding
	ownChunk     = 512       // of each sender: enough for a lone short message
	smallChunk   = 32 << 10  // a longer batch starts here
	largeChunk   = 256 << 10 // and goes on here, in up to maxLarge of them
)

type (
	smallArray [smallChunk]byte
	largeArray [largeChunk]byte
)

// block is memory for a receiver. Pools hold pointers to it, since putting a slice
// into a pool would allocate its header.
type block struct{ octets []byte }

// memory lends buffers to connections.
type memory struct {
	small, large, lists sync.Pool
	blocks              [recvSizes]sync.Pool // of smallRecvLen octets, and twice as many each
}

const recvSizes = 7 // from smallRecvLen to recvBufLen

// commonMemory is what all connections of a program share. Engines are given it.
var commonMemory = newMemory()

func newMemory() *memory {
	m := &memory{
		small: sync.Pool{New: func() any { return new(smallArray) }},
		large: sync.Pool{New: func() any { return new(largeArray) }},
		lists: sync.Pool{New: func() any { return new(pieceList) }},
	}
	for i := range m.blocks {
		m.blocks[i].New = func() any { return &block{make([]byte, smallRecvLen<<i)} }
	}
	return m
}

// sizeFor is the index of the smallest block that holds n octets.
func sizeFor(n int) int {
	if n <= smallRecvLen {
		return 0
	}
	return bits.Len(uint(n-1) / smallRecvLen)
}

func (m *memory) lend(size int) *block { return m.blocks[size].Get().(*block) }

func (m *memory) giveBack(size int, b *block) { m.blocks[size].Put(b) }
