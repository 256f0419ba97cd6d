package mpa

import "sync"

// Buffers are borrowed while there is something in them, so that an idle
// connection costs next to nothing. The pools hold pointers to arrays, since
// putting a slice into a pool would allocate its header.
const (
	recvBufLen   = 256 << 10 // of one read; stays in a core's second-level cache
	smallRecvLen = 4 << 10   // of a conn that blocks in Read, or waits within an FPDU
	ownRecvLen   = 512       // of each conn: enough for short messages that come alone
	longFPDU     = 16 << 10  // what is left of such a one behind a read is worth avoiding
	ownChunk     = 512       // of each framer: enough for a lone short message
	smallChunk   = 32 << 10  // a longer batch starts here
	largeChunk   = 1 << 20   // and goes on here
)

type (
	recvArray  [recvBufLen]byte
	parkArray  [smallRecvLen]byte
	smallArray [smallChunk]byte
	largeArray [largeChunk]byte
)

var (
	recvPool  = sync.Pool{New: func() any { return new(recvArray) }}
	parkPool  = sync.Pool{New: func() any { return new(parkArray) }}
	smallPool = sync.Pool{New: func() any { return new(smallArray) }}
	largePool = sync.Pool{New: func() any { return new(largeArray) }}
	listPool  = sync.Pool{New: func() any { return new(pieceList) }}
)

// ownBatch is what a framer has of its own for a batch of one short piece, which
// need not borrow.
type ownBatch struct {
	list  pieceList
	bufs  [1][]byte
	chunk [ownChunk]byte
}

func (o *ownBatch) begin() (chunk []byte, list *pieceList) {
	o.list.bufs = o.bufs[:0]
	return o.chunk[:0], &o.list
}

func (o *ownBatch) end() { o.list.bufs, o.bufs[0] = nil, nil }

// pieceList is what a batch consists of.
type pieceList struct {
	bufs [][]byte
	cuts []int // ends of segments, as indices into bufs
}
