package ddp

import (
	"sync/atomic"
	"unsafe"

	"github.com/go-iwarp/iwarp/internal/fastcopy"
	"github.com/go-iwarp/iwarp/internal/fault"
	"github.com/go-iwarp/iwarp/internal/race"
	"github.com/go-iwarp/iwarp/protocol"
)

// Region is a Tagged Buffer: memory that peers can reach by its STag as far as
// its state allows. It is safe for concurrent use.
//
// Every access is checked and carried out under a lock that the calls which take
// rights away (Invalidate, Deregister, SetAccess, Rekey) wait for. When one of
// them has returned, no access under the old state is still going on, and none
// will start: what the buffer holds then can be examined and will not change
// (https://www.rfc-editor.org/rfc/rfc5041#section-8.3.1). The same holds for the
// accesses through windows, see [RegionConfig].Parent. They must not be called
// from within an access, that is from the function given to [Table.Atomic] or
// from the CheckTagged of a [Receiver] that takes batches.
//
// Accesses do not exclude each other: if peers write to the same octets at the
// same time, what stands there afterwards is anyone's octets, as on any RNIC.
type Region struct {
	table   *Table
	index   uint32
	stag    atomic.Uint32 // changed under guard; read without it by lookups; 0 in a sink's entry
	pd      PD
	stream  StreamID
	base    uint64
	parent  *Region // of a window
	windows windows
	racy    bool

	guard  guard
	buf    []byte
	access Access
	valid  bool
	gone   bool
	lost   bool // a window has lost rights before Activate
}

// STag is the region's STag now: see [Region.Rekey].
func (r *Region) STag() STag { return STag(r.stag.Load()) }

// Stream is the stream that the region is bound to, 0 if it is open to all
// streams of its domain.
func (r *Region) Stream() StreamID { return r.stream }

// Base is the TO of the first octet.
func (r *Region) Base() uint64 { return r.base }

// Len is the length in octets, 0 after Deregister.
func (r *Region) Len() int {
	l := r.guard.reader(0)
	l.RLock()
	defer l.RUnlock()
	return len(r.buf)
}

// Valid reports whether peers can reach the region at all.
func (r *Region) Valid() bool {
	l := r.guard.reader(0)
	l.RLock()
	defer l.RUnlock()
	return r.valid
}

// Invalidate makes the STag invalid. It waits for accesses in progress, each of
// which lasts for a copy of some octets or, in a [Receiver] that takes batches, for
// the segments of one batch; when it has returned, no octet of the buffer is
// touched any more. The region keeps its place in the table and its
// buffer, and [Region.Rekey] makes it valid again. Its windows are deregistered.
// Calling it again is harmless.
// Rule: DDP-8.3.1-05
func (r *Region) Invalidate() {
	r.guard.lock()
	// Rule: RDMAP-8.1.1-06
	r.valid = false
	r.guard.unlock()
	r.leaveToWindows(0)
}

// invalidate is Invalidate for those who have the STag only: it may have changed
// since they looked the region up. It reports whether it was the region's, and
// valid.
func (r *Region) invalidate(s STag) (known, was bool) {
	r.guard.lock()
	known = STag(r.stag.Load()) == s && !r.gone
	was = known && r.valid
	r.valid = r.valid && !known
	r.guard.unlock()
	if was {
		r.leaveToWindows(0)
	}
	return known, was
}

// Deregister makes the STag invalid as Invalidate does, takes it out of the
// table and drops the buffer. Calling it again is harmless.
func (r *Region) Deregister() {
	r.end()
	r.leaveToWindows(0)
	if r.parent != nil {
		r.parent.windows.remove(r)
	}
}

// end is Deregister of the region alone.
func (r *Region) end() {
	r.guard.lock()
	defer r.guard.unlock()
	if r.gone {
		return
	}
	r.valid, r.gone, r.buf = false, true, nil
	r.table.remove(r)
}

// SetAccess changes the rights. When it has returned, no access under a right
// that it took away is going on. Its windows keep those of their rights that are
// in a, and are deregistered if a is none. Rights that do not exist are ignored.
func (r *Region) SetAccess(a Access) {
	// Rule: DDP-8.3.1-04, RDMAP-8.1.1-05
	r.guard.lock()
	r.access = a & allAccess
	r.guard.unlock()
	// Rule: RDMAP-8.1.1-06
	r.leaveToWindows(a)
}

// Rekey gives the STag a new key, its low eight bits, and makes the region valid
// (again). When it has returned, nothing is done under the old STag any more,
// which names nothing unless the key is the same, nor through windows, which are
// deregistered. After Deregister it does nothing and returns STag 0.
func (r *Region) Rekey(key uint8) STag {
	s := r.rekey(key)
	// Rule: RDMAP-8.1.1-06
	r.leaveToWindows(0)
	return s
}

func (r *Region) rekey(key uint8) STag {
	r.guard.lock()
	defer r.guard.unlock()
	if r.gone {
		return 0
	}
	s := r.index<<8 | uint32(key)
	r.stag.Store(s)
	r.valid = true
	return STag(s)
}

// place copies data to the offset to, if all of it may go there. The checks, in
// their order, and the errors (https://www.rfc-editor.org/rfc/rfc5041#section-7.1):
//
//	the region is valid                         1/1/00 invalid STag
//	it is of who's domain, and stream if bound  1/1/02 STag not associated with the stream
//	it gives every right of need                1/1/00: DDP has no number for rights
//	to + len(data) fits 64 bits                 1/1/03 TO wrap
//	the octets are within the region            1/1/01 base or bounds violation
//
// No data is no access: then nothing is checked
// (https://www.rfc-editor.org/rfc/rfc5041#section-5.2).
//
// s, if not 0, must still be the region's STag.
func (r *Region) place(s STag, who Peer, to uint64, data []byte, need Access) *protocol.Error {
	if len(data) == 0 {
		return nil
	}
	l := r.guard.reader(who.Stream)
	l.RLock()
	defer l.RUnlock()
	return r.placeLocked(s, who, to, data, need)
}

// placeLocked is place of some octets with the guard held.
func (r *Region) placeLocked(s STag, who Peer, to uint64, data []byte, need Access) *protocol.Error {
	if err := r.check(&placeCodes, s, who, to, uint64(len(data)), need); err != nil {
		return err
	}
	if race.Enabled && r.racy {
		race.Copy(r.buf[to-r.base:], data)
		return nil
	}
	fastcopy.Copy(r.buf[to-r.base:], data)
	return nil
}

// borrow returns the n octets at the offset to, if all of them may be had, for a caller
// that copies them. The checks are those of place; the errors are RDMAP's, since fetching
// is what RDMAP does (https://www.rfc-editor.org/rfc/rfc5040#section-7.2): 0/1/00 invalid
// STag, 0/1/03 not associated with the stream, 0/1/02 access rights, 0/1/04 TO wrap,
// 0/1/01 base or bounds. Until [Region.Release] the calls that take
// rights away wait, so the caller copies and does nothing that can block. After
// an error there is nothing to release. If n is 0 nothing is checked, and the
// region is held all the same.
//
// It uses the one lock that all borrowers share, whatever their stream, since
// Release is not told the stream.
// As for place, s is looked at if it is not 0.
func (r *Region) borrow(s STag, who Peer, to, n uint64, need Access) ([]byte, *protocol.Error) {
	r.guard.one.RLock()
	if n == 0 {
		return nil, nil
	}
	if err := r.check(&fetchCodes, s, who, to, n, need); err != nil {
		r.guard.one.RUnlock()
		return nil, err
	}
	return r.buf[to-r.base:][:n:n], nil
}

// Release ends a Borrow, after which the octets must not be looked at. Each
// Borrow that gave no error is released once, by any goroutine.
func (r *Region) Release() { r.guard.one.RUnlock() }

// checkFetch makes the checks of borrow and nothing else. What it found may have changed
// when it has returned: borrow checks again.
// As for place, s is looked at if it is not 0.
func (r *Region) checkFetch(s STag, who Peer, to, n uint64, need Access) *protocol.Error {
	if n == 0 {
		return nil
	}
	l := r.guard.reader(who.Stream)
	l.RLock()
	defer l.RUnlock()
	return r.check(&fetchCodes, s, who, to, n, need)
}

// atomic calls f with the eight octets at the offset to, as a word of this
// machine's byte order. The checks are those of borrow, with RemoteAtomic as the
// right, and then: the address of the word is a multiple of eight, else 0/2/07
// (https://www.rfc-editor.org/rfc/rfc7306#section-8.2). The TO need not be one: of
// a region whose first octet lies elsewhere, or whose base is odd, the aligned
// words have other TOs. Other accesses may go on meanwhile, so f uses sync/atomic.
// word is valid during the call only. A fault of f ends it: 0/2/07, and the memory
// was not there.
// As for place, s is looked at if it is not 0.
func (r *Region) atomic(s STag, who Peer, to uint64, f func(word *uint64)) (err *protocol.Error) {
	const size = 8
	l := r.guard.reader(who.Stream)
	l.RLock()
	defer l.RUnlock()
	// Rule: EXT-8.2-01
	if err := r.check(&fetchCodes, s, who, to, size, RemoteAtomic); err != nil {
		return err
	}
	// The slice expression keeps the whole word within the buffer.
	word := unsafe.Pointer(unsafe.SliceData(r.buf[to-r.base:][:size]))
	// Rule: EXT-5.1.1-02, EXT-5.1.2-02, EXT-5.2.1-05, EXT-8.2-04, EXT-8.2-05
	if uintptr(word)%size != 0 {
		return unaligned(r.STag(), to, uintptr(word)%size)
	}
	defer r.unguard(fault.Guard(), &err)
	f((*uint64)(word))
	return nil
}

// check makes the checks of all accesses; n is not 0 and the guard is held.
func (r *Region) check(c *codes, s STag, who Peer, to, n uint64, need Access) *protocol.Error {
	switch {
	// Rule: DDP-4.2-06, DDP-7.1-07, RDMAP-7.2-06
	case s != 0 && s != r.STag():
		return unknownSTag(c, s)
	case !r.valid:
		return invalidSTag(c, r.STag())
	// Rule: DDP-8.2-01, DDP-8.2-02, DDP-7.1-07, RDMAP-7.2-07
	case !r.serves(who):
		return r.notAssociated(c, who)
	// Rule: DDP-7.1-08, RDMAP-7.2-11, SEC-6.3.5-01
	case !r.access.Has(need):
		return r.noRight(c, need)
	// Rule: DDP-7.1-10, RDMAP-7.2-10
	case Wraps(to, n):
		return wrapped(c, r.STag(), to, n)
	// Rule: DDP-7.1-09, DDP-8.3.1-03, RDMAP-7.2-08, RDMAP-7.2-09, RDMAP-8.1.1-03, SEC-6.2.1-01
	case to < r.base || !fits(to-r.base, n, uint64(len(r.buf))):
		return outOfBounds(c, r.STag(), to, n, r.base, uint64(len(r.buf)))
	}
	return nil
}

// serves reports whether the region is of who's domain, and of who's stream if it
// is bound to one. Both never change.
func (r *Region) serves(who Peer) bool {
	// Rule: DDP-8.3.1-01, DDP-8.3.1-02, RDMAP-8.1.1-01, RDMAP-8.1.1-02, SEC-6.1.1-01, SEC-6.1.1-02
	return r.pd == who.PD && (r.stream == 0 || r.stream == who.Stream)
}
