package ddp

import "github.com/go-iwarp/iwarp/internal/race"

// Exclusive calls f with the region's octets while no peer accesses them, through the region
// or through its windows, and reports whether it did: not after Deregister. f must not
// block and must not call the region, or the receive owner of a stream, which waits for f,
// waits for ever. Invalid regions have their octets still.
func (r *Region) Exclusive(f func(buf []byte)) bool {
	r.windows.mu.Lock()
	defer r.windows.mu.Unlock()
	r.guard.lock()
	defer r.guard.unlock()
	for w := range r.windows.of {
		w.guard.lock()
		defer w.guard.unlock()
	}
	if r.gone {
		return false
	}
	f(r.buf)
	return true
}

// Snapshot returns octets of the region that the caller has borrowed, for a reader that the
// race detector watches: a copy where the region is Racy and the detector is there, else
// the octets themselves.
func (r *Region) Snapshot(octets []byte) []byte {
	if !race.Enabled || !r.racy {
		return octets
	}
	copied := make([]byte, len(octets))
	race.Copy(copied, octets)
	return copied
}
