package rdmap

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// phase is where a stream stands in its life:
//
//	open --CloseSend--> closing --all has completed--> ended
//	  |                    |
//	  +------- error ------+--> failed --no owner touches memory--> flushed
//
// It only grows.
type phase uint32

const (
	phaseOpen    phase = iota // requests are taken, segments are placed
	phaseClosing              // no more requests are taken; those posted go on
	phaseEnded                // both owners have left, gracefully
	phaseFailed               // nothing is started or placed any more; a Terminate may be due
	phaseFlushed              // both owners have left; every request has completed
)

// owners is the set of owners that may still touch the memory of requests.
type owners uint8

const (
	sendOwner    owners = 1 << iota // reads it: Sends and Writes
	receiveOwner                    // writes it: the sinks of Reads
)

// lifetime is how a stream comes to its end. All but phase is under the stream's
// lock.
type lifetime struct {
	phase      atomic.Uint32   // changed by setPhase only
	err        *protocol.Error // why the stream ended; nil while it stands
	flushErr   error           // for the requests that this cut short
	culprit    uint64          // index of the request that err is about, or noEntry
	terminate  *protocol.Error // what the Terminate that is due reports
	peerClosed bool            // the peer's FIN: no more Responses will come
	busy       owners
}

// noEntry is the index of no request.
const noEntry = ^uint64(0)

// setPhase is the one place where a stream goes on to its end.
func (s *Stream) setPhase(to phase) {
	if phase(s.phase.Load()) < to {
		s.phase.Store(uint32(to))
	}
}

// Failed reports whether the stream has ended in error. It takes no lock.
func (s *Stream) Failed() bool { return phase(s.phase.Load()) >= phaseFailed }

// refuses reports whether requests are refused, and not just flushed.
func (s *Stream) refuses() bool {
	p := phase(s.phase.Load())
	return p == phaseClosing || p == phaseEnded
}

// CloseSend refuses further requests. Those posted go on; when all have
// completed, Transmit reports it.
func (s *Stream) CloseSend() {
	s.mu.Lock()
	// Rule: RDMAP-6.2-01, DDP-2.3-01
	s.setPhase(phaseClosing)
	s.mu.Unlock()
}

// Fail ends the stream for a reason found outside it: the LLP was lost, or the
// ULP aborts. With terminate a Terminate message is owed to the peer. Only the
// first error counts, and none once the stream is over.
func (s *Stream) Fail(err *protocol.Error, terminate bool) {
	s.mu.Lock()
	s.fail(err, terminate)
	s.mu.Unlock()
}

func (s *Stream) fail(err *protocol.Error, terminate bool) {
	// Rule: RDMAP-7.1-05
	if s.err != nil || phase(s.phase.Load()) == phaseEnded {
		return
	}
	s.err = err
	s.flushErr = fmt.Errorf("%w: %w", ErrFlushed, err)
	// Rule: RDMAP-6.2.1-02
	s.culprit = s.findCulprit(err)
	// Rule: RDMAP-6.2.1-01, RDMAP-6.2-01
	if terminate {
		s.terminate = err
	}
	s.setPhase(phaseFailed)
	s.wake.Store(true)
}

// Err returns the error that ended the stream, nil while it stands and after a
// graceful end.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errLocked()
}

func (s *Stream) errLocked() error {
	if s.err == nil {
		return nil
	}
	return s.err
}

// PeerClosed says that the peer's half is closed (FIN): nothing more will
// arrive. The end is graceful unless something is in progress: a message whose
// last segment has not come (RFC 5041 section 6.2.2), or a Read or atomic that
// waits for its Response. That fails the stream, and PeerClosed returns the error;
// the Terminate that is due then can still be sent. After a graceful end of the
// peer's half this end may go on sending (RFC 5041 section 6.2.1).
func (s *Stream) PeerClosed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peerClosed = true
	switch {
	case s.err != nil:
	// Rule: DDP-6.2.1-04, DDP-2.3-02
	case s.recv.InProgress():
		s.fail(peerGone("within a message", "RFC 5041 section 6.2.2"), true)
	case s.responsesDue():
		s.fail(peerGone("while RDMA Reads or atomics were outstanding", "RFC 5041 section 6.2.1"), true)
	}
	return s.errLocked()
}

func peerGone(when, section string) *protocol.Error {
	return &protocol.Error{
		Code: protocol.MPAConnectionLost, Section: section,
		Detail: "the peer closed its half " + when, Err: io.ErrUnexpectedEOF,
	}
}

// responsesDue reports whether a posted request needs an answer of the peer.
func (s *Stream) responsesDue() bool {
	for i := s.queue.head; i < s.queue.tail; i++ {
		if e := s.queue.At(i); e.req.Op.awaitsResponse() && e.state != entryDone {
			return true
		}
	}
	return false
}

// StopReceive says that the receive owner has gone: nothing will be placed any
// more.
func (s *Stream) StopReceive() {
	s.mu.Lock()
	s.busy &^= receiveOwner
	s.settle()
	s.mu.Unlock()
}

// settle ends a stream whose owners touch no memory any more, and completes what
// an error has left. The request that the error is about has it as its own; the
// first other one that is not done, and all behind it, are flushed: what comes
// after a flushed request has not succeeded.
func (s *Stream) settle() {
	if s.busy != 0 {
		return
	}
	s.outstanding.close()
	if s.err == nil {
		s.setPhase(phaseEnded) // everything had completed before
		return
	}
	s.setPhase(phaseFlushed)
	cut := false
	for i := s.queue.head; i < s.queue.tail; i++ {
		e := s.queue.At(i)
		switch {
		case i == s.culprit:
			e.err, cut = s.err, true
		// Rule: RDMAP-6.2.1-02, RDMAP-5.4-06, DDP-6.2.2-02
		case cut || e.state != entryDone:
			cut = true
			if e.err == nil {
				e.err = s.flushErr
			}
		}
		e.state = entryDone
	}
	s.queue.acked, s.queue.next = s.queue.tail, s.queue.tail
	s.complete()
}

// findCulprit returns the index of the request whose message, or whose Response,
// the error is about: what the peer's Terminate echoes, or the Response here.
func (s *Stream) findCulprit(err *protocol.Error) uint64 {
	if err.Offender == nil {
		return noEntry
	}
	h, _, perr := ddp.Parse(err.Offender.DDPHeader)
	if perr != nil {
		return noEntry
	}
	if !err.Remote {
		op := Control(h.Control).Opcode()
		if o := s.outstanding.oldest(); o != nil && op.Response() {
			return o.entry
		}
		return noEntry
	}
	for i := s.queue.head; i < s.queue.next; i++ {
		if s.queue.At(i).sent(&h) {
			return i
		}
	}
	return noEntry
}

// Progressed says how far the requests of this end have come: whoever waits for the
// end of a stream asks twice.
type Progressed struct {
	Outstanding int    // requests that have not completed
	Done        uint64 // requests that have
	Octets      uint64 // placed for Reads
	Sending     bool   // a request's message has begun and the LLP has not taken all of it
	Reading     bool   // a Response is due
}

// Progressed reports how far the requests of this end have come.
func (s *Stream) Progressed() Progressed {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.queue
	return Progressed{
		Outstanding: q.len(), Done: q.head, Octets: s.readOctets,
		Sending: q.acked < q.next, Reading: !s.outstanding.empty(),
	}
}
