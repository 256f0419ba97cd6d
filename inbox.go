package iwarp

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/internal/fault"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// inbox supplies QN 0 buffers for a connection whose program does not post any
// itself: it promises depth buffers of size octets to the peer. What a message
// occupies follows what has arrived of it, and not what it may become: a buffer grows
// with its segments (ddp.Grower), so that an idle connection holds none and an empty
// message next to nothing.
type inbox struct {
	toCQs
	depth, size int

	count atomic.Int64 // messages that have a buffer

	// The receive owner's: messages that are coming in, by their Token. More than one
	// only on an LLP without order.
	open []*letter

	mu          sync.Mutex
	first, last *letter // delivered and not read
	held        held
	err         error
	stopped     bool          // the program is to answer what it has, and nothing that comes
	wake        chan struct{} // holds a token while a Recv may proceed
}

// letter is a message and its buffer.
type letter struct {
	next  *letter
	msg   Message
	sg    [][]byte          // its list is kept for the next message
	room  int               // octets of sg
	taken int               // octets of the chunks among it
	small [smallLetter]byte // of a message that needs no more
}

// smallLetter is what a message may have without a chunk.
const smallLetter = 64

var letters = sync.Pool{New: func() any { return new(letter) }}

func newInbox(depth, size int, bound *heldBound) *inbox {
	return &inbox{depth: depth, size: size, held: held{bound: bound}, wake: make(chan struct{}, 1)}
}

// Take implements ddp.Source.
func (b *inbox) Take(*ddp.Header) (ddp.Buffer, bool) {
	if b.count.Add(1) > int64(b.depth) {
		b.count.Add(-1)
		return ddp.Buffer{}, false
	}
	l := letters.Get().(*letter)
	i := len(b.open)
	for j, other := range b.open {
		if other == nil {
			i = j
			break
		}
	}
	if i == len(b.open) {
		b.open = append(b.open, nil)
	}
	b.open[i] = l
	return ddp.Buffer{Max: uint64(b.size), Token: uint64(i)}, true
}

// Grow implements ddp.Grower. A message that ends with the segment gets what it
// needs, another one twice as much as it has: what is held is at most some times what
// came, and pieces are few.
func (b *inbox) Grow(h *ddp.Header, buf *ddp.Buffer, n uint64) *protocol.Error {
	l := b.open[buf.Token]
	for l.room < int(n) {
		if l.room == 0 && n <= smallLetter {
			l.room = min(smallLetter, b.size)
			l.sg = append(l.sg, l.small[:l.room])
			continue
		}
		if err := b.addChunk(l, min(l.more(int(n), h.Last), b.size-l.room, maxChunk)); err != nil {
			return &protocol.Error{Code: protocol.DDPUntaggedNoBuffer, Section: "RFC 5041 section 7.1", Err: err}
		}
	}
	buf.SG = l.sg
	return nil
}

// addChunk makes a letter longer by n octets or more, but not beyond the size of the
// inbox.
func (b *inbox) addChunk(l *letter, n int) error {
	_, size := chunkClass(n)
	b.mu.Lock()
	err := b.held.add(b, size)
	b.mu.Unlock()
	if err != nil {
		return err
	}
	l.add(n, b.size)
	return nil
}

// more is how long the next chunk of a letter should be that is to have n octets.
func (l *letter) more(n int, last bool) int {
	switch need := n - l.room; {
	case last:
		return need
	case l.room == 0:
		return 2 * need
	default:
		return max(need, l.room)
	}
}

// add makes the letter longer by a chunk for n octets, but not longer than limit.
func (l *letter) add(n, limit int) {
	_, size := chunkClass(n)
	p := newChunk(n)[:min(size, limit-l.room)]
	l.sg = append(l.sg, p)
	l.room, l.taken = l.room+len(p), l.taken+size
}

// deliver makes the message of a buffer readable.
func (b *inbox) deliver(d *rdmap.Delivery) *protocol.Error {
	if d.Err != nil {
		return nil // Recv returns the connection's error
	}
	l := b.open[d.Buffer.Token]
	b.open[d.Buffer.Token] = nil
	l.msg = Message{
		Op: recvOp(d), Length: int(d.Length), Immediate: d.Immediate, Invalidated: d.Invalidated,
		Solicited: d.Opcode.Solicited(),
	}
	if l.msg.Op == OpRecvImmediate {
		l.msg.Length = 0
	}
	b.mu.Lock()
	if b.stopped { // nobody is going to take it
		if l.taken > 0 {
			b.held.sub(l.taken)
		}
		b.mu.Unlock()
		l.free()
		b.count.Add(-1)
		return nil
	}
	if b.first == nil {
		b.first = l
	} else {
		b.last.next = l
	}
	b.last = l
	b.mu.Unlock()
	signal(b.wake)
	return nil
}

// shutDown lets Recv fail with ErrShutdown once the messages that are there are read.
// What comes after them is dropped.
func (b *inbox) shutDown() {
	b.mu.Lock()
	b.stopped = true
	if b.err == nil {
		b.err = ErrShutdown
	}
	b.mu.Unlock()
	signal(b.wake)
}

// end lets Recv fail with err once the messages that are there are read. Nothing is
// placed any more: what has come of others is dropped.
func (b *inbox) end(err error) {
	b.mu.Lock()
	if b.err == nil || b.stopped {
		b.err = err
	}
	for _, l := range b.open {
		if l != nil {
			b.held.sub(l.taken)
		}
	}
	b.open = nil
	b.mu.Unlock()
	signal(b.wake)
}

// disown lets what is not read yet count no more as held for the peer: the program
// has closed the connection, and keeps it or not.
func (b *inbox) disown() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held.end()
}

// recv copies the oldest message into p.
func (b *inbox) recv(ctx context.Context, p []byte) (Message, error) {
	for {
		if msg, ok, err := b.poll(p); ok {
			return msg, err
		}
		select {
		case <-b.wake:
		case <-ctx.Done():
			return Message{}, context.Cause(ctx)
		}
	}
}

func (b *inbox) poll(p []byte) (msg Message, ok bool, err error) {
	msg, ok, more, err := b.take(p)
	if more {
		signal(b.wake) // for the next caller
	}
	return msg, ok, err
}

// take is poll, and reports whether there is something for another caller.
func (b *inbox) take(p []byte) (msg Message, ok, more bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.first
	if l == nil {
		return Message{}, b.err != nil, b.err != nil, b.err
	}
	msg = l.msg
	if msg.Length > len(p) {
		return msg, true, true, ErrShortBuffer
	}
	left := p[:msg.Length]
	for _, piece := range l.sg {
		n, err := fault.Copy(left, piece)
		if err != nil {
			return msg, true, true, err // it can be taken still
		}
		left = left[n:]
	}
	if b.first = l.next; b.first == nil {
		b.last = nil
	}
	if l.taken > 0 {
		b.held.sub(l.taken)
	}
	l.free()
	b.count.Add(-1)
	return msg, true, b.first != nil || b.err != nil, nil
}

// free returns a letter and its chunks to whoever needs some next.
func (l *letter) free() {
	l.giveChunks()
	l.next, l.sg, l.room, l.taken = nil, l.sg[:0], 0, 0
	letters.Put(l)
}

func (l *letter) giveChunks() {
	for i, piece := range l.sg {
		if cap(piece) >= minChunk {
			giveChunk(piece)
		}
		l.sg[i] = nil
	}
}

func (b *inbox) post(*RecvWR) error {
	return fmt.Errorf("%w: this connection's receive buffers are the library's: make a QP and give it to Config.QP "+
		"to post your own",
		ErrInvalidWR)
}

func (b *inbox) waiting() bool    { return false } // Recv says so itself
func (b *inbox) ready() bool      { return b.count.Load() < int64(b.depth) }
func (b *inbox) polled()          {}
func (b *inbox) leave()           {}
func (b *inbox) completions() int { return 1 } // nothing completes on the RecvCQ
