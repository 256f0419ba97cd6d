package iwarp

import (
	"errors"
	"sync"
	"time"

	"github.com/go-iwarp/iwarp/protocol"
)

// DeviceTotals counts what all connections of a device have done, those that have ended
// included.
type DeviceTotals struct {
	Live            int    // connections that stand now
	Connections     uint64 // ever made
	EndedGracefully uint64 // of them
	EndedInError    uint64 // of them; see Errors
	StartupsFailed  uint64 // at this end: a bad frame, a timeout, a peer that went away or was not vouched for
	StartupsRefused uint64 // by this end: Reject, MaxPendingPerPeer, no resources, shutdown

	MessagesSent, MessagesReceived uint64 // DDP messages of any kind
	PayloadSent, PayloadReceived   uint64 // octets of ULP payload
	ReadsServed, AtomicsServed     uint64 // requests of peers that were answered
	FPDUsSent, FPDUsReceived       uint64 // 0 over another LLP than MPA
	OctetsSent, OctetsReceived     uint64 // of FPDUs

	// Errors counts the connections that ended in error, by what ended them.
	Errors map[ErrorKind]uint64
}

// ErrorKind is a way for a connection to end in error.
type ErrorKind struct {
	Code   protocol.Code // as in a Terminate
	Remote bool          // the peer reported it; false: this end found it
	Own    bool          // this end's program aborted the connection
}

// census is the device's account of its connections.
type census struct {
	mu    sync.Mutex
	live  map[*Conn]struct{}
	ended DeviceTotals
}

func (s *census) add(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		s.live = make(map[*Conn]struct{})
	}
	s.live[c] = struct{}{}
	s.ended.Connections++
}

// remove counts a connection that has ended.
func (s *census) remove(c *Conn) {
	err := c.stream.Err()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, c)
	s.ended.count(c)
	if err == nil {
		s.ended.EndedGracefully++
		return
	}
	s.ended.EndedInError++
	if s.ended.Errors == nil {
		s.ended.Errors = make(map[ErrorKind]uint64)
	}
	var perr *ProtocolError
	if errors.As(err, &perr) {
		s.ended.Errors[ErrorKind{Code: perr.Code, Remote: perr.Remote, Own: c.abortedHere()}]++
	}
}

func (s *census) startupFailed()  { s.mu.Lock(); s.ended.StartupsFailed++; s.mu.Unlock() }
func (s *census) startupRefused() { s.mu.Lock(); s.ended.StartupsRefused++; s.mu.Unlock() }

// count adds a connection's counters.
func (t *DeviceTotals) count(c *Conn) {
	s := c.Stats()
	t.MessagesSent += s.RDMAP.MessagesSent
	t.MessagesReceived += s.RDMAP.MessagesReceived
	t.PayloadSent += s.RDMAP.PayloadSent
	t.PayloadReceived += s.RDMAP.PayloadReceived
	t.ReadsServed += s.RDMAP.ReadsServed
	t.AtomicsServed += s.RDMAP.AtomicsServed
	t.FPDUsSent += s.MPA.FPDUsSent
	t.FPDUsReceived += s.MPA.FPDUsReceived
	t.OctetsSent += s.MPA.OctetsSent
	t.OctetsReceived += s.MPA.OctetsReceived
}

// Totals returns the device's counters: of what has ended, and of what stands as far as it
// has come. It costs nothing but the time of the call, which is that of Stats for each
// connection that stands.
func (d *Device) Totals() DeviceTotals {
	s := &d.census
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.ended
	t.Errors = make(map[ErrorKind]uint64, len(s.ended.Errors))
	for k, n := range s.ended.Errors {
		t.Errors[k] = n
	}
	t.Live = len(s.live)
	for c := range s.live {
		t.count(c)
	}
	return t
}

// Conns returns the connections of the device that stand, in no order.
func (d *Device) Conns() []*Conn {
	s := &d.census
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Conn, 0, len(s.live))
	for c := range s.live {
		all = append(all, c)
	}
	return all
}

// Began is when the connection's startup was over.
func (c *Conn) Began() time.Time { return c.story.began }
