package capture

import (
	"net"
	"time"
)

// SetSequence sets the sequence numbers of a wrapped connection's first octets,
// its own and the peer's, before anything is recorded.
func SetSequence(nc net.Conn, out, in uint32) {
	c := nc.(*conn)
	c.flow.dir[c.out].next, c.flow.dir[1-c.out].next = out-1, in-1
}

// SetClock makes the recorder use another clock.
func SetClock(r *Recorder, now func() time.Time) { r.now = now }

// OpenFlows tells how many connections the recorder knows.
func OpenFlows(r *Recorder) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.flows)
}
