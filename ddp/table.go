package ddp

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-iwarp/iwarp/protocol"
)

// MaxSTags is the largest number of STags that a [Table] can hold: the indices
// of 24 bits without 0.
const MaxSTags = 1<<24 - 1

// Errors of [Table.Register], found with errors.Is. It can also return [ErrWrap].
var (
	ErrTableFull = errors.New("ddp: STag table is full")
	ErrNoPD      = errors.New("ddp: region without a Protection Domain")
	ErrAccess    = errors.New("ddp: unknown access right")
	ErrParent    = errors.New("ddp: no region for this window")
)

// Table is the STag table of a device: it makes STags and finds what they name.
// It is safe for concurrent use. A lookup takes no lock and costs the same
// whatever the number of STags.
//
// STags are hard to guess: their index is random (https://www.rfc-editor.org/rfc/rfc5040#section-8.1.1),
// and STag 0 is never given out.
type Table struct {
	limit int
	mask  uint32 // of indices
	slots atomic.Pointer[slotArray]

	mu     sync.Mutex // taken after a region's guard, never before
	live   int        // entries
	dead   int        // tombstones
	random [256]byte  // octets that crypto/rand gave, from unused on not given out
	unused int
}

// slotArray is an open-addressing hash table on the index, probed linearly.
// Readers go through it without a lock, so an entry never moves within an array:
// a removed one leaves a tombstone, and growing makes a new array.
type slotArray struct {
	mask    uint32
	entries []atomic.Pointer[Region]
}

const minSlots = 64

// tombstone marks a slot that a probe must step over. Index 0 is never used.
var tombstone = new(Region)

// NewTable makes a table for at most limit STags, regions and sinks together.
// 0, and anything above [MaxSTags], means MaxSTags.
func NewTable(limit int) *Table {
	if limit <= 0 || limit > MaxSTags {
		limit = MaxSTags
	}
	t := &Table{limit: limit, mask: MaxSTags}
	t.slots.Store(newSlots(minSlots))
	t.unused = len(t.random)
	return t
}

func newSlots(n int) *slotArray {
	return &slotArray{mask: uint32(n - 1), entries: make([]atomic.Pointer[Region], n)}
}

// RegionConfig says what a region is.
type RegionConfig struct {
	// Buf is the memory, which stays the caller's. Remote peers change it as long
	// as the region is valid and Access has RemoteWrite or RemoteAtomic.
	Buf []byte
	// Base is the TO of Buf[0]; 0 unless there is a reason. A base that is an
	// address would tell peers about this process's memory.
	Base uint64
	// Access is what remote peers may do.
	Access Access
	// PD is the Protection Domain; not 0.
	PD PD
	// Stream is the one stream that may use the region. 0 lets all streams of PD
	// use it, which RFC 5042 section 6.4.5 advises against unless they trust
	// each other; such a region cannot be invalidated by a peer.
	Stream StreamID
	// Racy says that accesses of peers to the same octets may meet, and keeps the race
	// detector from telling: octets that one peer reads while another writes them are then
	// torn, as on any RNIC. Windows are as their Parent.
	Racy bool
	// Parent, if not nil, makes the region a window: an STag with rights of its own
	// for memory of Parent, which the caller sees to. It is invalid until
	// [Region.Activate]. What takes rights from Parent takes them from its windows
	// too, and does not return before no access through them is going on.
	Parent *Region
}

// Register makes a region and gives it a new STag; it is valid at once. The
// table refers to Buf until [Region.Deregister]. Errors: [ErrTableFull],
// [ErrNoPD], [ErrAccess], [ErrWrap] when Base plus the length does not fit
// 64 bits, and [ErrParent] when Parent is deregistered, a window itself, of
// another domain, or bound to another stream.
func (t *Table) Register(c RegionConfig) (*Region, error) {
	switch {
	case c.PD == 0:
		return nil, fmt.Errorf("%w: PD is 0 (RFC 5041 section 8.2)", ErrNoPD)
	case c.Access&^allAccess != 0:
		return nil, fmt.Errorf("%w: Access is 0x%02x", ErrAccess, uint8(c.Access))
	case Wraps(c.Base, uint64(len(c.Buf))):
		return nil, fmt.Errorf("%w: base 0x%016x plus %d octets (RFC 5041 section 7.1)", ErrWrap, c.Base, len(c.Buf))
	}
	// Rule: DDP-8.2-01, DDP-8.3-01, DDP-8.3-02, DDP-8.3-03, RDMAP-8.1.1-04
	r := &Region{
		table: t, pd: c.PD, stream: c.Stream, base: c.Base, buf: c.Buf, access: c.Access, valid: c.Parent == nil,
		racy: c.Racy || c.Parent != nil && c.Parent.racy,
	}
	if c.Stream == 0 {
		r.guard.share()
	}
	if err := t.add(r, true); err != nil {
		return nil, err
	}
	if c.Parent != nil {
		if err := r.becomeWindow(c.Parent); err != nil {
			r.end()
			return nil, err
		}
	}
	return r, nil
}

// Lookup returns the region that s names, or nil. It may be invalid, or become so;
// the region's methods check that. A caller that has only the STag and wants to
// access memory uses the table's own methods, for which a change of the key
// between lookup and access cannot happen.
func (t *Table) Lookup(s STag) *Region {
	slots := t.slots.Load()
	index := uint32(s) >> 8
	for i := index & slots.mask; ; i = (i + 1) & slots.mask {
		r := slots.entries[i].Load()
		if r == nil {
			return nil
		}
		if r.index == index && r != tombstone {
			// Rule: DDP-7.1-07
			if STag(r.stag.Load()) != s || s == 0 {
				return nil
			}
			return r
		}
	}
}

// Borrow returns n octets of the region that s names, for a caller that copies them on its
// own, if they may be fetched: 0/1/00 if there is no such region. Until [Region.Release] the calls
// that take rights away wait, so the caller copies and does nothing that can block. After an
// error there is nothing to release.
// The region, which is to be released, comes with the octets.
func (t *Table) Borrow(s STag, who Peer, to, n uint64, need Access) (*Region, []byte, *protocol.Error) {
	r := t.Lookup(s)
	if r == nil {
		return nil, nil, unknownSTag(&fetchCodes, s)
	}
	src, err := r.borrow(s, who, to, n, need)
	if err != nil {
		return nil, nil, err
	}
	return r, src, nil
}

// CheckFetch tells whether n octets may be fetched from the region that s names, 0/1/00 if
// there is none. What it found may have changed when it has returned.
func (t *Table) CheckFetch(s STag, who Peer, to, n uint64, need Access) *protocol.Error {
	if n == 0 {
		return nil
	}
	r := t.Lookup(s)
	if r == nil {
		return unknownSTag(&fetchCodes, s)
	}
	return r.checkFetch(s, who, to, n, need)
}

// Atomic calls f with the eight octets at TO to of the region that s names, as a word of this
// machine's byte order: 0/1/00 if there is no such region. Other accesses may go on meanwhile, so
// f uses sync/atomic. word is valid during the call only.
func (t *Table) Atomic(s STag, who Peer, to uint64, f func(word *uint64)) *protocol.Error {
	r := t.Lookup(s)
	if r == nil {
		return unknownSTag(&fetchCodes, s)
	}
	return r.atomic(s, who, to, f)
}

// RemoteInvalidate makes the region of s invalid at the wish of a peer, who sent
// a Send with Invalidate on the given stream
// (https://www.rfc-editor.org/rfc/rfc5040#section-5.3). It gives the guarantee of
// [Region.Invalidate]. Only a region that is bound to that stream, and in the
// stream's domain, can be invalidated so; for any other STag the error is 0/1/09,
// "STag cannot be invalidated" (https://www.rfc-editor.org/rfc/rfc5040#section-8.1.1,
// item 7), one that is invalid already included
// (https://www.rfc-editor.org/rfc/rfc5040#section-7.2: the STag must be valid).
func (t *Table) RemoteInvalidate(s STag, pd PD, stream StreamID) *protocol.Error {
	r := t.Lookup(s)
	if r == nil {
		return cannotInvalidate(s, "no such STag")
	}
	switch {
	// Rule: RDMAP-8.1.1-07
	case r.stream == 0:
		return cannotInvalidate(s, "it is shared by all streams of its domain")
	// Rule: RDMAP-5.3-11, RDMAP-5.3-13, RDMAP-7.2-05
	case r.stream != stream || r.pd != pd:
		return cannotInvalidate(s, "it is not associated with the stream")
	}
	// Rule: RDMAP-5.3-12, RDMAP-7.2-04
	switch known, was := r.invalidate(s); {
	case !known:
		return cannotInvalidate(s, "no such STag")
	case !was:
		return cannotInvalidate(s, "it is invalid already")
	}
	return nil
}

// Invalidate makes the region of s invalid at the wish of this end's ULP, on the
// stream of who. It is false, and nothing has happened, if there is no such
// STag, or none that who may use: one of another domain, or bound to another
// stream (https://www.rfc-editor.org/rfc/rfc5040#section-8.1.1, items 1 and 2). It
// does not tell which, so that guessing tells nothing about other ULPs. It keeps
// the promise of [Region.Invalidate].
func (t *Table) Invalidate(s STag, who Peer) bool {
	r := t.Lookup(s)
	// Rule: RDMAP-8.1.2-02, SEC-3-01
	if r == nil || !r.serves(who) {
		return false
	}
	known, _ := r.invalidate(s)
	return known
}

// add assigns r an index and puts it in; keyed says whether it can be looked up.
func (t *Table) add(r *Region, keyed bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Rule: DDP-8.3.2-02, DDP-8.3.2-05
	if t.live >= t.limit {
		return fmt.Errorf("%w: %d STags", ErrTableFull, t.limit)
	}
	if slots := t.slots.Load(); 2*(t.live+t.dead+1) > len(slots.entries) {
		t.rebuild()
	}
	r.index = t.freeIndex()
	if keyed {
		// Rule: RDMAP-8.1.1-08
		r.stag.Store(r.index<<8 | t.draw()&0xff)
	}
	if t.slots.Load().insert(r) {
		t.dead--
	}
	t.live++
	return nil
}

// freeIndex draws until it has an index that is not in use. In a table that is
// nearly full it gives up drawing and takes the next free one after a random
// place.
func (t *Table) freeIndex() uint32 {
	const draws = 64
	var index uint32
	for range draws {
		// Rule: RDMAP-8.1.1-08
		index = t.draw() & t.mask
		if index != 0 && t.slots.Load().find(index) < 0 {
			return index
		}
	}
	for index == 0 || t.slots.Load().find(index) >= 0 {
		index = (index + 1) & t.mask
	}
	return index
}

// draw returns 32 random bits; t.mu is held.
func (t *Table) draw() uint32 {
	if t.unused+4 > len(t.random) {
		rand.Read(t.random[:]) // never fails: it says so
		t.unused = 0
	}
	t.unused += 4
	return binary.NativeEndian.Uint32(t.random[t.unused-4:])
}

// remove takes r out. Calling it again is harmless.
func (t *Table) remove(r *Region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slots := t.slots.Load()
	i := slots.find(r.index)
	if i < 0 || slots.entries[i].Load() != r {
		return
	}
	t.live--
	if slots.entries[(uint32(i)+1)&slots.mask].Load() == nil {
		slots.entries[i].Store(nil) // the probes that came here end here
		return
	}
	slots.entries[i].Store(tombstone)
	t.dead++
}

// rebuild copies the entries to an array with room for as many again.
func (t *Table) rebuild() {
	n := minSlots
	for n < 4*(t.live+1) {
		n *= 2
	}
	old, slots := t.slots.Load(), newSlots(n)
	for i := range old.entries {
		if r := old.entries[i].Load(); r != nil && r != tombstone {
			slots.insert(r)
		}
	}
	t.dead = 0
	t.slots.Store(slots)
}

// find returns the slot of an index, or -1.
func (s *slotArray) find(index uint32) int {
	for i := index & s.mask; ; i = (i + 1) & s.mask {
		r := s.entries[i].Load()
		if r == nil {
			return -1
		}
		if r.index == index && r != tombstone {
			return int(i)
		}
	}
}

// insert puts r, whose index is not there, into the first slot that is free and
// tells whether that was a tombstone.
func (s *slotArray) insert(r *Region) bool {
	for i := r.index & s.mask; ; i = (i + 1) & s.mask {
		old := s.entries[i].Load()
		if old == nil || old == tombstone {
			s.entries[i].Store(r)
			return old == tombstone
		}
	}
}
