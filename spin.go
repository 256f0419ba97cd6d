package iwarp

import (
	"sync"
	"sync/atomic"
	"time"
)

// Whether to spin before parking, as Linux's halt polling decides it. Nothing here
// reads a clock: times come in, so that the rules can be tested.

const (
	// maxSpin bounds a spin. A processor that sleeps takes 20 to 60 microseconds to
	// wake: within so long the answer of a peer that has to be woken comes, too.
	maxSpin = 50 * time.Microsecond
	// minSpin is the shortest spin: less would find nothing but what is there.
	minSpin = 10 * time.Microsecond
	// shortWait is a parked wait after which the next one may spin. Two ends that park
	// wake each other: their waits are twice that and the way of the messages.
	shortWait = 200 * time.Microsecond
	// bulkRead is an arrival of so many octets that the time of a wake-up does not
	// matter, while more of it is received at a time after one.
	bulkRead = 16 << 10
	// maxDoubt bounds spinPolicy.doubt.
	maxDoubt = 10
)

// spinPolicy decides for one connection how long to spin for its next arrival.
type spinPolicy struct {
	window time.Duration // 0: park at once
	shorts uint32        // parked waits in a row that were short
	doubt  uint8         // so many runs of spins have come to nothing: 2^doubt + 1 short waits begin the next
}

// parked tells of a parked wait of the receive goroutine, and of how much it brought.
func (p *spinPolicy) parked(wait time.Duration, octets int) {
	if octets >= bulkRead || wait > shortWait {
		p.shorts = 0
		return
	}
	if p.shorts++; p.shorts > 1<<p.doubt {
		p.shorts, p.window = 0, maxSpin
	}
}

// spun tells of a spin that was wait long, and of how much it brought.
func (p *spinPolicy) spun(wait time.Duration, octets int) {
	switch {
	case octets >= bulkRead:
		p.window = 0
	case octets > 0 && wait <= maxSpin:
		p.window = maxSpin
		if p.doubt > 0 {
			p.doubt--
		}
	case p.window/2 >= minSpin:
		p.window /= 2
	case p.window > 0:
		p.window, p.doubt = 0, min(p.doubt+1, maxDoubt)
	}
}

// spinBudget bounds what all connections together may spin.
type spinBudget struct {
	spinning atomic.Int32 // goroutines
	procs    atomic.Int32 // processors, as of the last look; 0 before the first
	guests   guests

	mu     sync.Mutex
	looked time.Duration // when procs was set
	parked time.Duration // when it was last left to the network poller
	credit time.Duration // for spins in vain; below 0 it is a debt
	at     time.Duration // when credit was counted
}

const (
	// vainShare is the part of one processor that spins in vain may take.
	vainShare = 20 // a twentieth
	// maxCredit is the credit of a process that has not spun for long.
	maxCredit = time.Millisecond
	// maxDebt bounds how long a spin from which the processor was taken is remembered.
	maxDebt = 10 * time.Millisecond
	// lookEvery is how often the number of processors is asked for.
	lookEvery = 10 * time.Millisecond
	// parkEvery is how long spins may follow each other where there is but one
	// processor: as long as it has goroutines to run, Go looks at the network only
	// every 10 milliseconds.
	parkEvery = 2 * time.Millisecond
)

// limit is how many goroutines may spin at once.
func (b *spinBudget) limit() int32 { return max(b.procs.Load()/2, 1) }

// single reports whether there is but one processor.
func (b *spinBudget) single() bool { return b.procs.Load() == 1 }

// begin asks for a spin at the time now; procs tells the number of processors, as
// [runtime.GOMAXPROCS] does. Each spin that is granted is to be ended.
func (b *spinBudget) begin(now time.Duration, procs func(int) int) bool {
	if b.spinning.Load() >= b.limit() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if first := b.procs.Load() == 0; first || now-b.looked > lookEvery {
		b.procs.Store(int32(procs(0)))
		b.looked = now
		if first {
			b.credit, b.at, b.parked = maxCredit, now, now
		}
	}
	if now > b.at {
		b.credit = min(b.credit+(now-b.at)/vainShare, maxCredit)
		b.at = now
	}
	switch {
	case b.spinning.Load() >= b.limit(), b.credit <= 0:
		return false
	case b.single() && now-b.parked > parkEvery:
		b.parked = now
		return false
	}
	b.spinning.Add(1)
	return true
}

// end ends a spin, of which vain has been in vain.
func (b *spinBudget) end(vain time.Duration) {
	b.spinning.Add(-1)
	if vain > 0 {
		b.mu.Lock()
		b.credit = max(b.credit-vain, -maxDebt)
		b.mu.Unlock()
	}
}
