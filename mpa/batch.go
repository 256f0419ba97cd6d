package mpa

import "errors"

// batchMax is about how many octets go to TCP in one call.
const batchMax = 1 << 20

const (
	gatherMin = 16 << 10  // a piece this large is referenced, a smaller one is cheaper to copy
	piecesMax = 512       // in a batch; the kernel takes 1024 in a call
	copiedMax = 256 << 10 // octets copied for a batch: they should still be in the cache when the kernel reads them
	// copiedLong is copiedMax in a long run on a network: the more octets go in one call,
	// the fewer are the interrupts for the packets that they become.
	copiedLong = 1 << 20
	// maxLarge is how many of largeChunk octets a batch may need for copiedLong octets,
	// and then one more FPDU: each is left when the next FPDU does not fit.
	maxLarge = 6
)

// ErrBatchFull says that a batch has no room for another FPDU: write it out first.
var ErrBatchFull = errors.New("iwarp: batch of FPDUs is full")

// batch is what is to be written next: pieces of octets, and the memory of those
// that are not the caller's. It knows nothing of FPDUs but their lengths.
//
// Memory is borrowed while there is something in the batch. The last piece ends
// where chunk ends if staged is true; then what follows in chunk makes it longer.
type batch struct {
	mem  *memory
	list *pieceList // nil while the batch is empty
	own  ownBatch

	head int // list.bufs[head:] are still to go
	cut  int // the first of list.cuts that is not reached
	left int // octets still to go

	size   int // octets of the batch, those gone included
	most   int // octets of its longest FPDU
	copied int // octets of it that were copied here

	chunk  []byte // the memory in use, up to what is filled
	staged bool
	small  *smallArray
	large  [maxLarge]*largeArray
	larges int         // of them in use
	refs   []reference // scratch
}

// pieceList is what a batch consists of.
type pieceList struct {
	bufs [][]byte
	cuts []int // ends of TCP segments, as indices into bufs
}

// ownBatch is the memory for a batch of one short piece, which need not borrow.
type ownBatch struct {
	list  pieceList
	bufs  [1][]byte
	chunk [ownChunk]byte
}

// full reports whether another FPDU like the longest would take the batch above so
// many octets, or so many copied ones, or there are too many pieces.
func (b *batch) full(size, copied int) bool {
	return b.left > 0 && (b.size+b.most > size || b.copied+b.most > copied || len(b.list.bufs) >= piecesMax)
}

// goesOn reports whether n octets that are copied only make the last piece longer.
func (b *batch) goesOn(n int) bool { return b.staged && cap(b.chunk)-len(b.chunk) >= n }

// reserve makes room for n octets in one piece of memory, and for a list of more
// pieces. alone says that there will be no more than these n.
func (b *batch) reserve(n int, alone bool) bool {
	if b.list == nil && alone && n <= ownChunk {
		b.own.list.bufs = b.own.bufs[:0]
		b.chunk, b.list = b.own.chunk[:0], &b.own.list
		return true
	}
	var first []byte // in memory of its own so far
	if b.list == &b.own.list && len(b.list.bufs) > 0 {
		first = b.list.bufs[0]
	}
	b.outgrow()
	if cap(b.chunk)-len(b.chunk) >= n {
		return true
	}
	switch {
	case b.small == nil && b.larges == 0 && len(first)+n <= smallChunk:
		b.small = b.mem.small.Get().(*smallArray)
		b.chunk = b.small[:0]
	case b.larges < maxLarge:
		l := b.mem.large.Get().(*largeArray)
		b.large[b.larges] = l
		b.larges++
		b.chunk = l[:0]
	default:
		return false
	}
	if b.staged = first != nil; b.staged {
		// It goes along, so that all is one piece, which TCP takes sooner.
		b.chunk = append(b.chunk, first...)
		b.list.bufs[0] = b.chunk
	}
	return true
}

// outgrow takes a list that can hold many pieces.
func (b *batch) outgrow() {
	if b.list != nil && b.list != &b.own.list {
		return
	}
	b.list = b.mem.lists.Get().(*pieceList)
	b.list.bufs = append(b.list.bufs, b.own.list.bufs...)
	b.own.list.bufs, b.own.bufs[0] = nil, nil
}

// room returns the n octets behind what is filled, which have been reserved; take
// counts them as filled. Between the two payload is copied, and may not be there.
func (b *batch) room(n int) []byte { return b.chunk[len(b.chunk):][:n] }

func (b *batch) take(n int) { b.chunk = b.chunk[:len(b.chunk)+n] }

// add takes the octets of chunk from offset from on into the batch, as an FPDU with
// the pieces of refs between them.
func (b *batch) add(from int, refs []reference) {
	octets := len(b.chunk) - from
	b.copied += octets
	at := from
	for _, r := range refs {
		b.stage(at, from+r.at)
		at = from + r.at
		b.list.bufs, b.staged = append(b.list.bufs, r.piece), false
		octets += len(r.piece)
	}
	b.stage(at, len(b.chunk))
	b.count(octets)
}

// stage adds chunk[from:to] to the pieces, joined to the one before where the memory
// goes on and no segment ends between them.
func (b *batch) stage(from, to int) {
	switch {
	case from == to:
	case b.staged:
		b.extend(to - from)
	default:
		b.list.bufs, b.staged = append(b.list.bufs, b.chunk[from:to]), true
	}
}

// extend makes the last piece longer by the n octets that follow it in chunk.
func (b *batch) extend(n int) {
	last := &b.list.bufs[len(b.list.bufs)-1]
	*last = (*last)[:len(*last)+n]
}

func (b *batch) count(n int) {
	b.left += n
	b.size += n
	b.most = max(b.most, n)
}

// endSegment has the last octet added end a TCP segment.
func (b *batch) endSegment() {
	b.outgrow()
	b.list.cuts = append(b.list.cuts, len(b.list.bufs))
	b.staged = false
}

// pending returns what is still to go, in order: the pieces, and where among them
// segments end, as indices into the list that start counts from. Both are valid
// until advance or the next change.
func (b *batch) pending() (pieces [][]byte, cuts []int, start int) {
	if b.left == 0 {
		return nil, nil, 0
	}
	return b.list.bufs[b.head:], b.list.cuts[b.cut:], b.head
}

// advance notes that n octets have gone. When nothing is left the memory is given
// back.
func (b *batch) advance(n int) {
	n = min(n, b.left)
	if n <= 0 {
		return
	}
	b.left -= n
	l := b.list
	for n > 0 {
		p := l.bufs[b.head]
		if n < len(p) {
			l.bufs[b.head] = p[n:]
			break
		}
		n -= len(p)
		b.head++
	}
	for b.cut < len(l.cuts) && b.head >= l.cuts[b.cut] {
		b.cut++
	}
	if b.left == 0 {
		b.release()
	}
}

// release gives the memory of an empty batch back.
func (b *batch) release() {
	if b.small != nil {
		b.mem.small.Put(b.small)
		b.small = nil
	}
	for i, l := range b.large[:b.larges] {
		b.mem.large.Put(l)
		b.large[i] = nil
	}
	b.larges = 0
	if b.list == &b.own.list {
		b.own.list.bufs, b.own.bufs[0] = nil, nil
	} else {
		clear(b.list.bufs) // the caller's memory should not live on in a pool
		b.list.bufs, b.list.cuts = b.list.bufs[:0], b.list.cuts[:0]
		b.mem.lists.Put(b.list)
	}
	b.list, b.chunk = nil, nil
	b.head, b.cut, b.size, b.most, b.copied, b.staged = 0, 0, 0, 0, 0, false
}
