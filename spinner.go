package iwarp

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp/internal/tcpsock"
)

// spins is what all connections of the process spend on spinning: the processors are
// the process's, whatever its devices and connections.
var spins spinBudget

// processStart is the zero of the times that spin.go reckons with.
var processStart = time.Now()

func uptime() time.Duration { return time.Since(processStart) }

// spinner is one spin of a goroutine that waits for something to come on one of a few
// connections:
//
//	var s spinner
//	for more := s.start(conns, true); more; more = s.next() {
//		s.receive()
//		if what was waited for is there { break }
//	}
//	s.end()
type spinner struct {
	conns   []*Conn
	hot     uint32 // a bit for each that is spun on
	running bool
	endless bool // ProgressPolling
	caller  bool // not the receive goroutine
	turns   int
	urgent  bool          // somebody waits for what has come
	began   time.Duration // since processStart; the latest arrival begins it anew
	now     time.Duration // as of the last turn
	window  time.Duration
	vain    time.Duration // before began
}

const (
	// maxSpun bounds the connections of a CQ for which its Wait spins: each is a system
	// call a turn.
	maxSpun = 8
	// goschedAfter is how long other goroutines may have to wait behind one that spins,
	// where there are other processors that may take them: to ask wakes one of these.
	goschedAfter = 100 * time.Microsecond
	// spinYield and spinLook are for ProgressPolling: how often other goroutines run,
	// and how often a caller looks at its context. A turn is as short as a system call
	// that finds nothing.
	spinYield = 8
	spinLook  = 64
)

// start begins a spin if one of the connections is due for it, and the process may have
// one more. It is to be ended.
func (s *spinner) start(conns []*Conn, caller bool) bool {
	*s = spinner{conns: conns, caller: caller}
	for i, c := range conns {
		if c.poller.endless {
			s.endless, s.running = true, true
			return true
		}
		if w := time.Duration(c.poller.window.Load()); w > 0 && i < maxSpun {
			s.hot |= 1 << i
			s.window = max(s.window, w)
		}
	}
	if s.hot == 0 || len(conns) > maxSpun {
		return false
	}
	s.now = uptime()
	s.began = s.now
	if !spins.begin(s.now, runtime.GOMAXPROCS) {
		if spins.spinning.Load() > 0 {
			s.visit()
		}
		return false
	}
	s.running = true
	s.count(1)
	return true
}

// visit has those that spin read the connections meanwhile.
func (s *spinner) visit() {
	for i, c := range s.conns {
		if s.hot&(1<<i) != 0 && c.poller.spinners.Load() == 0 {
			spins.guests.add(c, s.now)
		}
	}
}

// count adds to the callers that spin on the connections.
func (s *spinner) count(n int32) {
	if !s.caller {
		return
	}
	for i, c := range s.conns {
		if s.hot&(1<<i) != 0 {
			c.poller.spinners.Add(n)
		}
	}
}

// receive receives what is there, and returns how much came, in octets of segments.
func (s *spinner) receive() (came int) {
	for i, c := range s.conns {
		if !s.endless && s.hot&(1<<i) == 0 {
			continue
		}
		n, urgent := c.poll()
		if n == 0 {
			continue
		}
		came += n
		s.urgent = s.urgent || urgent
		if s.endless {
			continue
		}
		c.poller.spun(s.now-s.began, n)
		if n >= bulkRead {
			s.window = 0 // the receive goroutine is as quick
		}
	}
	if came > 0 {
		if late := s.now - s.began; late > maxSpin {
			s.vain += late // somebody else had the processor
		}
		s.began = s.now
	}
	return came
}

// next is called after a try that has not brought what was waited for. It lets others
// run, and reports whether to try again.
func (s *spinner) next() bool {
	s.turns++
	if s.endless {
		if s.turns%spinYield == 1 {
			runtime.Gosched()
		}
		return s.turns < spinLook
	}
	if s.now-s.began >= s.window {
		return false // that was the last try
	}
	if !spins.guests.receive(s.now) {
		tcpsock.Yield()
	}
	s.now = uptime()
	if spins.single() {
		runtime.Gosched()
	} else if last := s.last(); s.now-time.Duration(last.Load()) > goschedAfter {
		last.Store(int64(s.now))
		runtime.Gosched()
	}
	return true
}

// last is when whoever spins for the first of the connections has last let other
// goroutines run.
func (s *spinner) last() *atomic.Int64 { return &s.conns[0].poller.gosched }

// end ends a spin, if it was started.
func (s *spinner) end() {
	if !s.running || s.endless {
		return
	}
	s.running = false
	s.count(-1)
	vain := s.now - s.began
	spins.end(s.vain + vain)
	if s.window == 0 || vain < s.window {
		return // what was waited for has come
	}
	for i, c := range s.conns {
		if s.hot&(1<<i) != 0 {
			c.poller.spun(vain, 0)
		}
	}
}
