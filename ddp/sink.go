package ddp

import (
	"crypto/rand"
	"sync"

	"github.com/go-iwarp/iwarp/protocol"
)

// Sink is a Tagged Buffer for one use at a time: where the response to an RDMA
// Read goes. It owns an index of its [Table] for good, but cannot be looked up:
// no segment reaches it unless the ULP says so with [Target].Sink. Each use has a
// new key, so that a late segment of an earlier use misses it. Its memory is a
// gather list and its TO starts at 0. It is safe for concurrent use.
type Sink struct {
	table *Table
	entry *Region // keeps the index taken

	mu     sync.Mutex
	stag   STag // 0 if not armed
	key    uint8
	memory gather
	came   extent // what segments have brought in this use
	closed bool
	random [16]byte
	unused int
}

// NewSink reserves an STag index. It gives nil when the table is full.
func (t *Table) NewSink() *Sink {
	s := &Sink{table: t, entry: &Region{table: t}}
	if t.add(s.entry, false) != nil {
		return nil
	}
	s.unused = len(s.random)
	return s
}

// Arm opens the sink for a use: octets may be placed into the pieces of sg, one
// after the other, until Disarm. It gives the STag of this use, whose key is
// unpredictable and not that of the use before. The sink refers to sg and its
// memory until Disarm. A use that is still going on ends. After Close it does
// nothing and gives STag 0.
func (s *Sink) Arm(sg [][]byte) STag {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0
	}
	// Rule: RDMAP-8.1.1-08
	s.key += s.draw()%255 + 1 // any key but the last
	s.stag = STag(s.entry.index<<8 | uint32(s.key))
	s.memory.reset(sg)
	s.came.reset()
	return s.stag
}

// draw returns a random octet; mu is held.
func (s *Sink) draw() uint8 {
	if s.unused == len(s.random) {
		rand.Read(s.random[:]) // never fails: it says so
		s.unused = 0
	}
	s.unused++
	return s.random[s.unused-1]
}

// Disarm ends the use. When it has returned, no octet of the memory is touched
// any more, and the sink does not refer to it. Calling it again is harmless.
func (s *Sink) Disarm() {
	// Rule: DDP-8.3.1-05
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disarm()
}

func (s *Sink) disarm() {
	s.stag = 0
	s.memory.reset(nil)
}

// Close ends the use as Disarm does and gives the index back to the table.
// Calling it again is harmless.
func (s *Sink) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.disarm()
	s.table.remove(s.entry)
}

// FirstMissing returns the offset of the first octet that no segment has brought in
// this use: the length when all have come.
func (s *Sink) FirstMissing() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.came.next
}

// place copies a segment's payload, which is not empty, to the offset to: its STag must be that of the use,
// and none of its octets may have come before.
func (s *Sink) place(stag STag, to uint64, data []byte) *protocol.Error {
	n := uint64(len(data))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(stag, to, n); err != nil {
		return err
	}
	// Rule: RDMAP-5.2.2-05
	if !s.came.admits(to, n) {
		return again(stag, to, n, s.came.next)
	}
	s.memory.place(to, data)
	s.came.add(to, n)
	return nil
}

// check makes the checks of a placement of some octets; mu is held.
func (s *Sink) check(stag STag, to, n uint64) *protocol.Error {
	switch {
	// Rule: DDP-7.1-07, RDMAP-5.2.2-05
	case stag == 0 || stag != s.stag:
		return unknownSTag(&placeCodes, stag)
	case Wraps(to, n):
		return wrapped(&placeCodes, stag, to, n)
	case !fits(to, n, s.memory.total):
		return outOfBounds(&placeCodes, stag, to, n, 0, s.memory.total)
	}
	return nil
}
