package iwarp

import (
	"context"
	"sync"

	"github.com/go-iwarp/iwarp/ddp"
)

// inbox supplies QN 0 buffers for a connection whose program does not post any
// itself: it promises depth buffers of size octets to the peer, and makes each
// when a message needs it, so that an idle connection holds none.
type inbox struct {
	depth, size int

	mu    sync.Mutex
	slots []inboxSlot // as many as were ever in use at once
	empty []uint32    // slots that no message has
	fifo  []uint32    // slots of the messages delivered and not read; a ring
	first int
	count int
	free  [][]byte
	err   error
	wake  chan struct{} // holds a token while a Recv may proceed
}

type inboxSlot struct {
	buf [1][]byte
	msg Message
}

func newInbox(depth, size int) *inbox {
	return &inbox{depth: depth, size: size, wake: make(chan struct{}, 1)}
}

// maxFree is how many buffers of another size than the default an inbox keeps
// for reuse.
const maxFree = 4

// inboxPool has buffers of the default size, for all connections: one that is
// idle keeps none.
var inboxPool = sync.Pool{New: func() any { return new(inboxBuffer) }}

type inboxBuffer [defaultRecvSize]byte

func (b *inbox) newBuffer() []byte {
	if b.size == defaultRecvSize {
		return inboxPool.Get().(*inboxBuffer)[:]
	}
	if n := len(b.free); n > 0 {
		p := b.free[n-1]
		b.free = b.free[:n-1]
		return p
	}
	return make([]byte, b.size)
}

func (b *inbox) giveBuffer(p []byte) {
	switch {
	case b.size == defaultRecvSize:
		inboxPool.Put((*inboxBuffer)(p))
	case len(b.free) < maxFree:
		b.free = append(b.free, p)
	}
}

// grow makes more slots, up to depth, when none is empty. A slot may move while its
// buffer is being filled: the stream goes on with the old one, which names the same
// memory.
func (b *inbox) grow() {
	n := len(b.slots)
	if len(b.empty) > 0 || n == b.depth {
		return
	}
	if b.fifo == nil {
		b.fifo = make([]uint32, b.depth)
	}
	bigger := make([]inboxSlot, min(max(4, 2*n), b.depth))
	copy(bigger, b.slots)
	b.slots = bigger
	for i := n; i < len(bigger); i++ {
		b.empty = append(b.empty, uint32(i))
	}
}

// Take implements ddp.Source.
func (b *inbox) Take(*ddp.Header) (ddp.Buffer, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.grow()
	n := len(b.empty)
	if n == 0 {
		return ddp.Buffer{}, false
	}
	i := b.empty[n-1]
	b.empty = b.empty[:n-1]
	slot := &b.slots[i]
	slot.buf[0] = b.newBuffer()
	return ddp.Buffer{SG: slot.buf[:], Token: uint64(i)}, true
}

// deliver makes the message of a buffer readable.
func (b *inbox) deliver(c *Completion, token uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	slot := &b.slots[token]
	slot.msg = Message{
		Op: c.Op, Length: int(c.Length), Immediate: c.Immediate, Invalidated: c.Invalidated, Solicited: c.Solicited,
	}
	if c.Op == OpRecvImmediate {
		slot.msg.Length = 0
	}
	b.fifo[(b.first+b.count)%b.depth] = uint32(token)
	b.count++
	signal(b.wake)
}

// end lets Recv fail with err once the messages that are there are read.
func (b *inbox) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
	signal(b.wake)
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
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count == 0 {
		if b.err != nil {
			signal(b.wake) // for the next caller
			return Message{}, true, b.err
		}
		return Message{}, false, nil
	}
	i := b.fifo[b.first]
	slot := &b.slots[i]
	msg = slot.msg
	if msg.Length > len(p) {
		signal(b.wake)
		return msg, true, ErrShortBuffer
	}
	copy(p, slot.buf[0][:msg.Length])
	b.giveBuffer(slot.buf[0])
	slot.buf[0] = nil
	b.empty = append(b.empty, i)
	b.first = (b.first + 1) % b.depth
	b.count--
	if b.count > 0 || b.err != nil {
		signal(b.wake)
	}
	return msg, true, nil
}
