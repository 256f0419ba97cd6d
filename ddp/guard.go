package ddp

import (
	"runtime"
	"sync"
)

// guard is a lock for one region: many readers (placements and fetches), rare
// writers (revocations). A plain RWMutex is all that a region of one stream
// needs. A region that many streams share would have their cores fight over the
// one reader count, so it gets several, each on its own cache line, of which a
// reader takes one and a writer all.
type guard struct {
	one  sync.RWMutex
	more []stripe
}

type stripe struct {
	sync.RWMutex
	_ [40]byte // an RWMutex has 24 octets, a cache line 64
}

const maxStripes = 8

// share prepares the guard for readers on many cores; before first use only.
func (g *guard) share() {
	n := 1
	for n < runtime.GOMAXPROCS(0) && n < maxStripes {
		n *= 2
	}
	if n > 1 {
		g.more = make([]stripe, n)
	}
}

// reader is the lock that a stream takes for reading.
func (g *guard) reader(s StreamID) *sync.RWMutex {
	if g.more == nil {
		return &g.one
	}
	return &g.more[uint64(s)&uint64(len(g.more)-1)].RWMutex
}

// lock waits until no reader is left and keeps new ones out.
func (g *guard) lock() {
	// Rule: DDP-8.3.1-05, RDMAP-8.1.1-06, SEC-6.2.2-02
	g.one.Lock()
	for i := range g.more {
		g.more[i].Lock()
	}
}

func (g *guard) unlock() {
	for i := range g.more {
		g.more[i].Unlock()
	}
	g.one.Unlock()
}
