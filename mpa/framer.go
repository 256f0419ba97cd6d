package mpa

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/go-iwarp/iwarp/internal/fastcopy"
)

// batchMax is about how many octets go to TCP in one call.
const batchMax = 1 << 20

const (
	gatherMin = 16 << 10  // a piece this large is referenced, a smaller one is cheaper to copy
	piecesMax = 512       // in a batch; the kernel takes 1024 in a call
	copiedMax = 256 << 10 // octets copied for a batch: they should still be in the cache when the kernel reads them
	maxChunks = 3         // one small, then large ones
)

// ErrBatchFull says that a batch has no room for another FPDU: write it out first.
var ErrBatchFull = errors.New("iwarp: batch of FPDUs is full")

// A SizeError says that a ULPDU cannot be sent because of its length.
type SizeError struct {
	Len int // octets
}

// Error names the length and the bounds.
func (e *SizeError) Error() string {
	return fmt.Sprintf("iwarp: ULPDU of %d octets, want 1 to %d [RFC 5044 section 3]", e.Len, MaxULPDU)
}

// Framer is the sending engine: it makes FPDUs of ULPDUs and gathers them into a
// batch. It does no I/O: take the octets of the batch from Pending and say with
// Advance how many have gone. The zero value is ready; set the exported fields
// before the first use.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|         ULPDU_Length          |                               |
//	+-------------------------------+                               +
//	~                             ULPDU                             ~
//	+                               +-------------------------------+
//	|                               |      PAD (0 to 3 octets)      |
//	+-------------------------------+-------------------------------+
//	|                             CRC32c                            |
//	+---------------------------------------------------------------+
//
// See https://www.rfc-editor.org/rfc/rfc5044#section-4.
type Framer struct {
	// Markers puts a Marker at every 512th octet of the stream, from its first.
	Markers bool
	// CRC computes the CRC; else the field is sent as zero.
	CRC bool

	pos     uint64 // of the next FPDU in the stream
	markers uint64 // made so far
	fpdus   uint64
	aligned uint64 // FPDUs of them that lie within one segment

	segment int  // octets of a TCP segment, 0 if unknown
	align   bool // end a piece of Pending where a segment should end
	strict  bool // with align: behind each FPDU
	whole   int  // octets after which TCP cuts, 0 if unknown
	target  int  // octets of a batch, 0 if segments do not matter
	copies  int  // octets copied after which a batch ends, 0 likewise
	fill    int  // octets in the last segment of the batch

	list   *pieceList // nil while there is no batch
	head   int        // list.bufs[head:] are still to go
	cut    int        // the first of list.cuts that is not reached
	left   int        // octets still to go
	size   int        // octets of the batch, those gone included
	most   int        // octets of its longest FPDU
	copied int        // octets of it that were copied here
	staged bool       // the last piece ends where chunk does

	chunk  []byte // the chunk in use, up to what is filled
	own    ownBatch
	small  *smallArray
	large  [maxChunks - 1]*largeArray
	chunks int
}

// SetSegment tells the framer how many octets a TCP segment holds, which bounds
// the batch to whole segments. With align, Pending stops where a segment should
// end. 0 means that segments do not matter.
func (f *Framer) SetSegment(octets int, align bool) {
	f.segment, f.align, f.strict = max(octets, 0), align && octets > 0, false
	f.setEMSS(f.segment)
}

// setEMSS tells after how many octets TCP cuts, where that is not what bounds an
// FPDU. The batch is bounded to whole segments: one slightly above that would
// leave a tiny segment behind, which costs up to half of the throughput. (A last
// FPDU that is longer than all before may still go beyond: see Full.)
func (f *Framer) setEMSS(segment int) {
	f.target, f.copies, f.whole = wholeSegments(batchMax, segment), wholeSegments(copiedMax, segment), segment
}

// wholeSegments is the largest multiple of segment that is at most limit, if any.
func wholeSegments(limit, segment int) int {
	if segment > 0 && segment <= limit {
		return limit - limit%segment
	}
	return limit
}

// Position is the offset in the stream of the next FPDU, in octets since Full
// Operation began.
func (f *Framer) Position() uint64 { return f.pos }

// SetPosition moves to offset pos in the stream, a multiple of four. It is for
// tests and tools that start in the middle of a stream.
func (f *Framer) SetPosition(pos uint64) { f.pos = pos &^ 3 }

// Len is the number of octets in the batch that have not gone yet.
func (f *Framer) Len() int { return f.left }

// Full reports whether the batch should go before another FPDU is added: one like
// the longest in it would take it above its bound.
func (f *Framer) Full() bool {
	if f.left == 0 {
		return false
	}
	target, copies := f.target, f.copies
	if target == 0 {
		target, copies = batchMax, copiedMax
	}
	return f.size+f.most > target || f.copied+f.most > copies || len(f.list.bufs) >= piecesMax
}

// Append appends to b the FPDU of the ULPDU whose pieces are given, as it stands
// at the current position, and moves on. It does not touch the batch. The error
// is a *[SizeError]; nothing is appended then.
func (f *Framer) Append(b []byte, ulpdu ...[]byte) ([]byte, error) {
	n := sizeOf(nil, ulpdu)
	if n < 1 || n > MaxULPDU {
		return b, &SizeError{Len: n}
	}
	return f.frame(b, nil, ulpdu, n), nil
}

// Add makes an FPDU of the ULPDU that header and the pieces of payload form, and
// adds it to the batch. header and the slice payload are not kept. Pieces of at
// least 16 KiB are referenced until they have gone if stable is true: they must
// not change until then. All else is copied before the CRC is taken.
//
// The error is a *[SizeError] or [ErrBatchFull]; nothing is added then.
func (f *Framer) Add(header []byte, payload [][]byte, stable bool) error {
	n := sizeOf(header, payload)
	if n < 1 || n > MaxULPDU {
		return &SizeError{Len: n}
	}
	total := FPDULen(n)
	if !f.goesOn(n, total, stable) {
		return f.add(header, payload, n, stable)
	}
	at := len(f.chunk)
	f.chunk = f.chunk[:at+total]
	f.write(f.chunk[at:], header, payload, n)
	f.extend(total)
	f.pos += uint64(total)
	f.count(total, total)
	return nil
}

// goesOn reports whether an FPDU is what most of a batch are: copied behind the one
// before, with nothing to decide.
func (f *Framer) goesOn(n, total int, stable bool) bool {
	return f.staged && !f.align && !f.Markers && (n < gatherMin || !stable) && cap(f.chunk)-len(f.chunk) >= total
}

// add is Add for any FPDU. It carries a ULPDU of n octets.
func (f *Framer) add(header []byte, payload [][]byte, n int, stable bool) error {
	total, gathered := FPDULen(n), 0
	if f.Markers {
		// Such an FPDU is cut every 508 octets, so that references would not pay.
		total = layoutOf(f.pos, n, true).total
	} else if stable {
		gathered = gatherSize(payload)
	}
	if f.list == nil && gathered == 0 && total <= ownChunk && !f.align {
		f.chunk, f.list = f.own.begin()
	} else if !f.reserve(total - gathered) {
		return ErrBatchFull
	}
	f.cutBefore(total)
	if gathered == 0 {
		from := len(f.chunk)
		f.chunk = f.frame(f.chunk, header, payload, n)
		f.stage(from)
	} else {
		f.gather(header, payload, n)
	}
	f.count(total, total-gathered)
	return nil
}

// count takes an FPDU of n octets, of which so many were copied, into the batch.
func (f *Framer) count(n, copied int) {
	f.fpdus++
	f.left += n
	f.size += n
	f.most = max(f.most, n)
	f.copied += copied
	f.cutAfter(n)
}

// frame appends one FPDU to b and moves on.
func (f *Framer) frame(b, header []byte, payload [][]byte, n int) []byte {
	if f.Markers {
		return f.frameMarked(b, header, payload, n, layoutOf(f.pos, n, true))
	}
	from, total := len(b), FPDULen(n)
	b = slices.Grow(b, total)[:from+total]
	f.write(b[from:], header, payload, n)
	f.pos += uint64(total)
	return b
}

// What DDP's headers begin with makes two words with ULPDU_Length before it.
const inWords = 14

// write makes fpdu, which is as long, of its parts. Without Markers.
//
// The CRC of what the header begins with is taken from words and not from memory:
// its octets were stored in other pieces just before, and could not be loaded again
// until these have reached the cache.
func (f *Framer) write(fpdu, header []byte, payload [][]byte, n int) {
	var crc uint32
	at := lengthLen
	if len(header) >= inWords {
		a := uint64(bits.ReverseBytes16(uint16(n))) | uint64(binary.LittleEndian.Uint32(header))<<16 |
			uint64(binary.LittleEndian.Uint16(header[4:]))<<48
		b := binary.LittleEndian.Uint64(header[6:])
		binary.LittleEndian.PutUint64(fpdu, a)
		binary.LittleEndian.PutUint64(fpdu[8:], b)
		if f.CRC {
			crc = wordsCRC((*[lengthLen + inWords]byte)(fpdu), a, b)
		}
		at, header = lengthLen+inWords, header[inWords:]
	} else {
		binary.BigEndian.PutUint16(fpdu, uint16(n))
		if f.CRC {
			crc = updateCRC(0, fpdu[:lengthLen])
		}
	}
	if len(header) > 0 {
		crc = f.put(fpdu[at:], crc, header)
		at += len(header)
	}
	for _, p := range payload {
		crc = f.put(fpdu[at:], crc, p)
		at += len(p)
	}
	end := len(fpdu) - crcLen
	if at < end {
		crc = f.put(fpdu[at:], crc, zeros[:end-at])
	}
	binary.LittleEndian.PutUint32(fpdu[end:], crc)
}

// put copies p to b, and adds it to crc if CRCs are wanted.
func (f *Framer) put(b []byte, crc uint32, p []byte) uint32 {
	if f.CRC {
		return copyCRC(b, crc, p)
	}
	fastcopy.Copy(b, p)
	return 0
}

var zeros [4]byte

func (f *Framer) appendCRC(b, covered []byte) []byte {
	var crc uint32
	if f.CRC {
		crc = updateCRC(0, covered)
	}
	return binary.LittleEndian.AppendUint32(b, crc)
}

// gather adds an FPDU whose large pieces are not copied.
func (f *Framer) gather(header []byte, payload [][]byte, n int) {
	from := len(f.chunk)
	f.chunk = binary.BigEndian.AppendUint16(f.chunk, uint16(n))
	f.chunk = append(f.chunk, header...)
	var crc uint32
	for _, p := range payload {
		if len(p) < gatherMin {
			f.chunk = append(f.chunk, p...)
			continue
		}
		if f.CRC {
			crc = updateCRC(updateCRC(crc, f.chunk[from:]), p)
		}
		f.stage(from)
		from = len(f.chunk)
		f.list.bufs, f.staged = append(f.list.bufs, p), false
	}
	f.chunk = append(f.chunk, zeros[:padLen(n)]...)
	if f.CRC {
		crc = updateCRC(crc, f.chunk[from:])
	}
	f.chunk = binary.LittleEndian.AppendUint32(f.chunk, crc)
	f.stage(from)
	f.pos += uint64(FPDULen(n))
}

// stage adds chunk[from:] to the pieces of the batch, joined to the piece before
// where the memory and the segment go on.
func (f *Framer) stage(from int) {
	if from == len(f.chunk) {
		return
	}
	if f.staged {
		f.extend(len(f.chunk) - from)
		return
	}
	f.list.bufs, f.staged = append(f.list.bufs, f.chunk[from:]), true
}

// extend makes the last piece longer by the n octets that follow it in chunk.
func (f *Framer) extend(n int) {
	last := &f.list.bufs[len(f.list.bufs)-1]
	*last = (*last)[:len(*last)+n]
}

// reserve makes room for n octets in one chunk, and for more pieces.
func (f *Framer) reserve(n int) bool {
	f.outgrow()
	if cap(f.chunk)-len(f.chunk) >= n {
		return true
	}
	switch {
	case f.chunks == 0 && n <= smallChunk:
		f.small = smallPool.Get().(*smallArray)
		f.chunk = f.small[:0]
	case f.chunks < maxChunks:
		i := max(f.chunks-1, 0)
		f.large[i] = largePool.Get().(*largeArray)
		f.chunk = f.large[i][:0]
		f.chunks = max(f.chunks, 1)
	default:
		return false
	}
	f.chunks++
	f.staged = false
	return true
}

// outgrow takes a list that can hold many pieces.
func (f *Framer) outgrow() {
	if f.list != nil && f.list != &f.own.list {
		return
	}
	f.list = listPool.Get().(*pieceList)
	f.list.bufs = append(f.list.bufs, f.own.list.bufs...)
	f.own.end()
}

// cutBefore ends the segment if an FPDU of n octets does not fit it.
func (f *Framer) cutBefore(n int) {
	if f.align && f.fill > 0 && f.fill+n > f.segment {
		f.endSegment()
	}
}

// cutAfter counts an FPDU of n octets. FPDUs that fill segments exactly need no
// cut: TCP cuts there by itself.
func (f *Framer) cutAfter(n int) {
	if f.whole == 0 {
		return
	}
	f.fill += n
	if f.fill <= f.whole {
		f.aligned++
	}
	if f.fill >= f.whole {
		f.fill %= f.whole
	}
	if f.strict {
		f.endSegment()
	}
}

func (f *Framer) endSegment() {
	f.list.cuts = append(f.list.cuts, len(f.list.bufs))
	f.fill, f.staged = 0, false
}

// Pending gives the pieces that should go to TCP next, in order; nil if the batch
// is empty. end tells that the last octet should end a TCP segment. The pieces
// are valid until Advance or Add.
func (f *Framer) Pending() (pieces [][]byte, end bool) {
	if f.left == 0 {
		return nil, false
	}
	l := f.list
	if f.cut < len(l.cuts) {
		return l.bufs[f.head:l.cuts[f.cut]], true
	}
	return l.bufs[f.head:], f.align
}

// Advance says that n octets have gone, at most as many as Pending gave. When
// nothing is left the batch's memory is given back.
func (f *Framer) Advance(n int) {
	n = min(n, f.left)
	if n <= 0 {
		return
	}
	f.left -= n
	l := f.list
	for n > 0 {
		b := l.bufs[f.head]
		if n < len(b) {
			l.bufs[f.head] = b[n:]
			break
		}
		n -= len(b)
		f.head++
	}
	for f.cut < len(l.cuts) && f.head >= l.cuts[f.cut] {
		f.cut++
	}
	if f.left == 0 {
		f.release()
	}
}

// release gives the memory of an empty batch back.
func (f *Framer) release() {
	if f.small != nil {
		smallPool.Put(f.small)
		f.small = nil
	}
	for i, l := range f.large {
		if l != nil {
			largePool.Put(l)
			f.large[i] = nil
		}
	}
	if f.list == &f.own.list {
		f.own.end()
	} else {
		clear(f.list.bufs) // the caller's memory should not live on in a pool
		f.list.bufs, f.list.cuts = f.list.bufs[:0], f.list.cuts[:0]
		listPool.Put(f.list)
	}
	f.list, f.chunk = nil, nil
	f.head, f.cut, f.chunks, f.size, f.most, f.copied, f.fill, f.staged = 0, 0, 0, 0, 0, 0, 0, false
}

func sizeOf(header []byte, payload [][]byte) int {
	n := len(header)
	for _, p := range payload {
		n += len(p)
	}
	return n
}

// gatherSize is the number of octets that are referenced and not copied.
func gatherSize(payload [][]byte) int {
	n := 0
	for _, p := range payload {
		if len(p) >= gatherMin {
			n += len(p)
		}
	}
	return n
}
