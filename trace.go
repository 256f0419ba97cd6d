package iwarp

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp/mpa"
)

// Trace is told what happens on the connections of a [Config], as
// [net/http/httptrace.ClientTrace] is of HTTP: for counting, for histograms, for a log of
// one's own. Each function may be nil. They are called from the goroutines that do the work,
// with no lock held, from several at once: one that takes long delays its connection. They may
// post work, but not wait for the connection that they hear of: its Send, Close, Abort and the
// like would wait for the very goroutine that calls them. Start another one for these. What
// comes often comes in lists, one call for what one call of the network has brought.
//
// The octets themselves are for package capture.
type Trace struct {
	// Startup is called when a startup has ended, well or not.
	Startup func(StartupTrace)
	// Posted is called when send work requests have been posted by one call. The list is the
	// caller's, and to be looked at during the call only.
	Posted func(c *Conn, wrs []SendWR)
	// Completed is called when work requests have completed, receives among them, also
	// unsignaled ones, and before or after the program sees their completions. The list is
	// valid during the call.
	Completed func(c *Conn, list []CompletionTrace)
	// FPDUs is called when FPDUs have been handed to TCP or have come from it.
	FPDUs func(c *Conn, f FPDUTrace)
	// Terminate is called when the peer's Terminate has come (err.Remote), or an error has
	// been found here, for which one goes out where RFC 5040 wants one.
	Terminate func(c *Conn, err *ProtocolError)
	// Ended is called when a connection has ended. err is Conn.Err's.
	Ended func(c *Conn, err error)
}

// StartupTrace is a startup that has ended.
type StartupTrace struct {
	ID            uint64 // the connection's
	Initiator     bool   // this end dialed
	Local, Remote net.Addr
	Began         time.Time
	Conn          *Conn // nil if it failed
	Err           error // why it failed
}

// CompletionTrace is a work request that has completed.
type CompletionTrace struct {
	Op     Op
	Length uint32 // octets
	Err    error
}

// FPDUTrace counts FPDUs since the last call for the connection.
type FPDUTrace struct {
	Sent, Received             uint64
	OctetsSent, OctetsReceived uint64
}

// tracer is a connection's side of Trace. A nil one does nothing.
type tracer struct {
	*Trace
	c      *Conn
	counts func() (sent, octetsSent, received, octetsReceived uint64) // nil: not MPA

	mu      sync.Mutex // the last lock taken, for an instant
	list    []CompletionTrace
	due     atomic.Bool // there may be something to tell of
	calling sync.Mutex  // held by whoever calls Completed: lists come in order
	spare   []CompletionTrace
	last    FPDUTrace // as of the last call of FPDUs; under calling
}

func newTracer(c *Conn) *tracer {
	if c.cfg.Trace == nil {
		return nil
	}
	t := &tracer{Trace: c.cfg.Trace, c: c}
	if m, ok := c.llp.(*mpa.Conn); ok {
		t.counts = m.Counts
	}
	return t
}

// countFPDUs tells of the FPDUs since the last time.
func (t *tracer) countFPDUs() {
	var now FPDUTrace
	now.Sent, now.OctetsSent, now.Received, now.OctetsReceived = t.counts()
	if now == t.last {
		return
	}
	f := FPDUTrace{
		now.Sent - t.last.Sent, now.Received - t.last.Received,
		now.OctetsSent - t.last.OctetsSent, now.OctetsReceived - t.last.OctetsReceived,
	}
	t.last = now
	t.FPDUs(t.c, f)
}

// note adds a completion to those that are told of next. The stream's lock is held.
func (t *tracer) note(op Op, length uint32, err error) {
	if t == nil || t.Completed == nil {
		return
	}
	t.mu.Lock()
	t.list = append(t.list, CompletionTrace{op, length, err})
	t.mu.Unlock()
}

// flush tells of what has happened. No lock is held.
func (t *tracer) flush() {
	if t == nil {
		return
	}
	// A function of the program's may come here again, so nobody waits for the lock: whoever
	// has it looks once more.
	t.due.Store(true)
	for t.due.Load() && t.calling.TryLock() {
		t.due.Store(false)
		t.tell()
		t.calling.Unlock()
	}
}

// tell is flush with the lock held.
func (t *tracer) tell() {
	if t.Completed != nil {
		t.mu.Lock()
		list := t.list
		t.list = t.spare[:0]
		t.mu.Unlock()
		if len(list) > 0 {
			t.Completed(t.c, list)
			clear(list)
		}
		t.spare = list
	}
	if t.FPDUs != nil && t.counts != nil {
		t.countFPDUs()
	}
}

func (t *tracer) posted(wrs []SendWR) {
	if t != nil && t.Posted != nil && len(wrs) > 0 {
		t.Posted(t.c, wrs)
	}
}

func (t *tracer) failed(err error) {
	var perr *ProtocolError
	if t != nil && t.Terminate != nil && errors.As(err, &perr) && !t.c.abortedHere() {
		t.Terminate(t.c, perr)
	}
}

func (t *tracer) ended(err error) {
	if t == nil {
		return
	}
	t.flush()
	if t.Ended != nil {
		t.Ended(t.c, err)
	}
}

// startupEnded tells of a startup, and counts it if it failed.
func (c *Config) startupEnded(s StartupTrace) {
	if s.Err != nil {
		if errors.Is(s.Err, errRefused) || errors.As(s.Err, new(*DeclinedError)) {
			c.Device.census.startupRefused()
		} else {
			c.Device.census.startupFailed()
		}
	}
	if c.Trace != nil && c.Trace.Startup != nil {
		c.Trace.Startup(s)
	}
}
