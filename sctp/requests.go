package sctp

import (
	"net"
	"sync"

	"github.com/go-iwarp/iwarp"
)

// requests are the sessions that peers have opened and the program has not answered: the part of a
// listener that does not ask what is below.
type requests struct {
	most   int
	queue  chan *session
	closed chan struct{}

	mu      sync.Mutex
	shut    bool
	waiting map[*session]struct{}
}

func newRequests(lc *iwarp.ListenConfig) *requests {
	most := lc.MaxPending
	if most == 0 {
		most = 128
	}
	return &requests{
		most: most, queue: make(chan *session, max(most, 1)), closed: make(chan struct{}),
		waiting: make(map[*session]struct{}),
	}
}

// Accept implements iwarp.LLPListener.
func (r *requests) Accept() (iwarp.LLPConn, error) {
	select {
	case <-r.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case s := <-r.queue:
		return s, nil
	case <-r.closed:
		return nil, net.ErrClosed
	}
}

// offer implements host.
//
// Rule: SCTP-6.4-01, SCTP-6.4-02, SCTP-5.2.3-05, MPA2-7-05
func (r *requests) offer(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut || len(r.waiting) >= r.most {
		return false
	}
	r.waiting[s] = struct{}{}
	r.queue <- s // it has room for as many as wait
	return true
}

// answered implements host.
func (r *requests) answered(s *session) {
	r.mu.Lock()
	delete(r.waiting, s)
	r.mu.Unlock()
}

// close ends Accept, and the sessions that it has not returned. It is called once.
func (r *requests) close() {
	r.mu.Lock()
	r.shut = true
	close(r.closed)
	r.mu.Unlock()
	for {
		select {
		case s := <-r.queue:
			_ = s.Close()
		default:
			return
		}
	}
}
