package iwarp

import (
	"container/heap"
	"container/list"
	"context"
	"math"
	"net"
	"net/netip"
	"sync"
	"time"
)

// pending is the account of a listener's startups: who is silent, who has shown a
// Request, and who goes when there is no room.
//
// The rule: a connection always gets in, at the cost of the oldest silent one of
// the peer with the most silent ones. So a flood from one peer crowds out itself
// and nobody else, one from many peers has its oldest dropped first, and a peer
// whose Request has come stays.
type pending struct {
	max, perPeer int

	mu       sync.Mutex
	limit    int       // max, or less while descriptors are short
	lowered  time.Time // when the limit was changed
	n        int       // startups: silent, being dropped, or waiting for the program
	dropping int       // of them, told to end and not gone yet
	silent   int
	peers    map[netip.Addr]*pendingPeer
	bySilent silentHeap    // of the peers with silent startups
	room     chan struct{} // capacity 1: look again for room
	stats    ListenerStats
}

// pendingPeer is what one peer has under way.
type pendingPeer struct {
	addr        netip.Addr
	n, dropping int
	silent      list.List // of *startup, the oldest first
	index       int       // in the heap; -1: not there
}

// startup is one connection from its arrival until the program has its Request.
type startup struct {
	lc      LLPConn
	id      uint64
	peer    *pendingPeer
	since   time.Time
	number  uint64                  // of the admission
	cancel  context.CancelCauseFunc // ends it
	turn    *turn                   // nil: requests are handed up as they come
	silent  *list.Element           // in peer.silent; nil when it has shown its Request or is dropped
	dropped bool
}

func newPending(most, perPeer int) *pending {
	if perPeer >= most {
		perPeer = math.MaxInt // no bound: a connection waits for room rather than being closed
	}
	return &pending{
		max: most, limit: most, perPeer: perPeer,
		peers: make(map[netip.Addr]*pendingPeer), room: make(chan struct{}, 1),
	}
}

// peerOf tells peers apart: by address, in IPv6 by the /64 network, since one host
// may have all of that.
func peerOf(a net.Addr) netip.Addr {
	addr := addrOf(a)
	if addr.Is6() && !addr.IsLinkLocalUnicast() {
		p, _ := addr.Prefix(64)
		return p.Addr()
	}
	return addr
}

type admission int

const (
	admitted admission = iota
	refused            // the peer has all that it may have, and none of it is silent
	later              // somebody has to go first: wait for room
)

// enter takes a new startup in, or sees to it that there will be room.
func (t *pending) enter(s *startup) admission {
	addr := peerOf(s.lc.RemoteAddr())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.raiseLimit()
	p := t.peers[addr]
	if p == nil {
		p = &pendingPeer{addr: addr, index: -1}
	}
	switch {
	case p.n >= t.perPeer && p.dropping > 0:
		return later
	case p.n >= t.perPeer && p.silent.Len() == 0:
		t.stats.Refused++
		return refused
	case p.n >= t.perPeer:
		t.drop(p)
		return later
	// Rule: SEC-6.4.1-01
	case t.n >= t.limit:
		if t.dropping == 0 && len(t.bySilent) > 0 {
			t.drop(t.bySilent[0])
		}
		return later
	}
	t.peers[addr] = p
	s.peer, s.since, s.number = p, time.Now(), t.stats.Connections
	s.silent = p.silent.PushBack(s)
	t.n, p.n, t.silent = t.n+1, p.n+1, t.silent+1
	t.bySilent.fix(p)
	t.stats.Connections++
	return admitted
}

// drop ends the oldest silent startup of a peer.
func (t *pending) drop(p *pendingPeer) {
	s, _ := p.silent.Front().Value.(*startup)
	t.speaks(s)
	s.dropped = true
	t.dropping, p.dropping = t.dropping+1, p.dropping+1
	s.cancel(errCrowdedOut)
}

// speaks takes a startup from the silent ones.
func (t *pending) speaks(s *startup) {
	if s.silent == nil {
		return
	}
	s.peer.silent.Remove(s.silent)
	s.silent = nil
	t.silent--
	t.bySilent.fix(s.peer)
}

// proven notes that a startup's Request has come. It stays then, even if it was told
// to go a moment before.
func (t *pending) proven(s *startup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Requests++
	// Rule: SEC-6.4.1-01
	t.speaks(s)
	t.kept(s)
}

func (t *pending) kept(s *startup) {
	if s.dropped {
		s.dropped = false
		t.dropping, s.peer.dropping = t.dropping-1, s.peer.dropping-1
		t.signal()
	}
}

// failed notes that a startup has ended without a Request, and reports whether that
// was because it had to make room.
func (t *pending) failed(s *startup) (dropped bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.speaks(s)
	if s.dropped {
		t.stats.Dropped++
		return true
	}
	t.stats.Failed++
	return false
}

// leave makes the room of a startup free. Its connection is closed or the program's.
func (t *pending) leave(s *startup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept(s)
	t.n--
	if s.peer.n--; s.peer.n == 0 {
		delete(t.peers, s.peer.addr)
	}
	t.signal()
}

func (t *pending) signal() {
	select {
	case t.room <- struct{}{}:
	default:
	}
}

// patienceWithSilence is how long a startup may be silent at least if it holds the last
// descriptor. It takes no time at all on a local network, where the Request comes with
// the connection.
const patienceWithSilence = 100 * time.Millisecond

// growPause is how long a limit lowered for lack of descriptors stays before it grows.
const growPause = time.Second

// relieve lowers the limit, since the process has no descriptor left, to a little less
// than what is under way, and drops as many silent startups. So the next connections
// find descriptors, and from then on each takes the place of a silent one as it does
// at MaxPending.
func (t *pending) relieve() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.AcceptErrors++
	now := time.Now()
	live := t.n - t.dropping
	// Rule: SEC-6.4.1-01
	t.limit, t.lowered = max(1, min(t.limit, live-1-live/8)), now
	for excess := live - t.limit; excess > 0 && t.silent > 0; excess-- {
		t.drop(t.bySilent[0])
	}
	if t.dropping == 0 && t.silent > 0 {
		if s, _ := t.bySilent[0].silent.Front().Value.(*startup); now.Sub(s.since) >= patienceWithSilence {
			t.drop(s.peer)
		}
	}
}

// raiseLimit raises a lowered limit, an eighth at a time.
func (t *pending) raiseLimit() {
	if now := time.Now(); t.limit < t.max && now.Sub(t.lowered) >= growPause {
		t.limit, t.lowered = min(t.max, t.limit+1+t.limit/8), now
	}
}

func (t *pending) snapshot() ListenerStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.stats
	st.Silent, st.Waiting = t.silent, t.n-t.silent-t.dropping
	return st
}

// silentHeap has the peer with the most silent startups on top; of several, the one
// whose oldest is the oldest.
type silentHeap []*pendingPeer

func (h silentHeap) Len() int { return len(h) }

func (h silentHeap) Less(i, j int) bool {
	// Rule: SEC-6.4.1-01
	if a, b := h[i].silent.Len(), h[j].silent.Len(); a != b {
		return a > b
	}
	a, _ := h[i].silent.Front().Value.(*startup)
	b, _ := h[j].silent.Front().Value.(*startup)
	return a.number < b.number
}

func (h silentHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements [heap.Interface].
func (h *silentHeap) Push(x any) {
	p, _ := x.(*pendingPeer)
	p.index = len(*h)
	*h = append(*h, p)
}

// Pop implements [heap.Interface].
func (h *silentHeap) Pop() any {
	old := *h
	p := old[len(old)-1]
	old[len(old)-1], *h = nil, old[:len(old)-1]
	p.index = -1
	return p
}

// fix puts a peer where it belongs, after its silent startups have changed.
func (h *silentHeap) fix(p *pendingPeer) {
	switch {
	case p.index < 0 && p.silent.Len() > 0:
		heap.Push(h, p)
	case p.index >= 0 && p.silent.Len() == 0:
		heap.Remove(h, p.index)
	case p.index >= 0:
		heap.Fix(h, p.index)
	}
}
