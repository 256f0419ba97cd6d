package rdmap

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// Config says what a [Stream] needs to know before its first octet.
type Config struct {
	// Table resolves the STags that the peer names. Required.
	Table *ddp.Table
	// Peer is this stream's identity for the checks of the table: its
	// protection domain and its stream ID.
	Peer ddp.Peer
	// Recv supplies the buffers of QN 0, one for each Send and Immediate Data
	// message. The buffer of an Immediate Data message may be empty: its eight
	// octets are handed up in the Delivery. Required.
	Recv ddp.Source
	// Handler is told what happens. Required.
	Handler Handler

	// Bound, if not nil, is asked for the octets of Read Responses that wait for the
	// LLP beyond 64 KiB, which a stream may always have.
	Bound Bound

	// IRD and ORD are the agreed depths: Reads and atomics that the peer may
	// have outstanding here, and that this end may have outstanding there.
	IRD, ORD int
	// SendDepth is the size of the send queue; 0 means 128.
	SendDepth int
	// MaxSGE bounds the elements of a request's SG; 0 means 16.
	MaxSGE int
	// MaxInline bounds the octets of an inline request; 0 means 512.
	MaxInline int

	// MaxSegment bounds the DDP segments that are sent, header included, below the
	// LLP's MULPDU; 0 does not. See [ddp.Outgoing].
	MaxSegment int

	// RTR is the set of RTR indications agreed upon (RFC 6581 section 9.2). On
	// the responder a first zero-length Send is then not the ULP's.
	RTR protocol.RTR
	// RDMAC is true where startup agreed on the RDMA Consortium's protocols: DV and
	// RV are 0 (RFC 5044 Appendix C).
	RDMAC bool
	// Initiator is true on the end that sent the MPA Request.
	Initiator bool
	// Unordered is true when the LLP hands up segments out of order together
	// with the sender's order (SCTP). Window then bounds how far ahead.
	Unordered bool
	Window    int
	// Clock, if not nil, tells the time since any moment: see [ddp.ReceiverConfig].
	Clock func() time.Duration
	// Batched promises a call of EndBatch after some calls of Receive, before the
	// receive owner waits for more. See [ddp.ReceiverConfig].
	Batched bool
}

// Bound bounds something that several streams share. It must not block; any
// goroutine may call it.
type Bound interface {
	Take(n int64) bool // n octets, or none
	Give(n int64)      // octets taken before
}

// Handler is told what happens on a stream. Its methods are called with the
// stream's lock held: they must not block and must not call the stream.
type Handler interface {
	// Completed is called once for each accepted request, in posting order. c is
	// valid during the call.
	Completed(c *Completion)
	// Delivered is called for each Send or Immediate Data message, in order, and
	// then, if such a message broke a rule and ended the stream, for that one with
	// d.Err. d is valid during the call; the memory of d.Buffer is the source's again.
	// An error says that the message could not be taken (the memory that it was to be
	// copied to is not there, say), and ends the stream; it is ignored beside d.Err.
	Delivered(d *Delivery) *protocol.Error
}

// Delivery is a message that has arrived whole, with all before it.
type Delivery struct {
	Opcode      Opcode
	Length      uint32     // octets placed; 8 for Immediate Data
	Buffer      ddp.Buffer // as the source gave it; of Immediate Data only the Token
	Immediate   uint64
	Invalidated ddp.STag // for the Invalidate types
	// Err is why the message was refused. Nothing but Buffer's Token is set beside it.
	Err error
}

// Stats are counts since the stream began.
type Stats struct {
	MessagesSent, MessagesReceived uint64 // DDP messages of any kind
	PayloadSent, PayloadReceived   uint64 // octets of ULP payload
	ReadsServed, AtomicsServed     uint64 // requests of the peer that were answered
}

// Stream is one end of an RDMAP Stream: what is posted, what is outstanding,
// what the peer has asked for. It owns no socket, no goroutine and no clock.
//
// A stream has two owners. The send owner calls Transmit; the receive owner
// calls Receive. Each is one goroutine at a time; both may run at once. Post,
// Fail and the rest may be called by anybody.
//
// How a stream ends is in lifetime.go. Requests are flushed only when neither owner
// can touch their memory any more: after the send owner has called Transmit again
// and the receive owner has seen the error or called StopReceive.
type Stream struct {
	cfg    Config
	recv   *ddp.Receiver
	send   sender
	imm    immediates      // where Immediate Data is placed
	grower ddp.Grower      // Config.Recv, if it is one
	segLen int             // of the segment in hand; the receive owner's
	told   *protocol.Error // what the peer's Terminate reports; the receive owner's
	opened bool            // a first segment was accepted; the receive owner's
	wake   atomic.Bool
	placed atomic.Uint64 // payload octets of Writes and Read Responses
	fresh  uint64        // of Writes, not in placed yet; the receive owner's
	writes atomic.Uint64 // Writes that have arrived

	lifetime

	mu          sync.Mutex
	queue       sendQueue
	outstanding outstandingQueue
	inbound     inboundQueue
	stats       Stats
	readOctets  uint64 // placed for Reads of this end
	peerUsed    uint16 // a bit for each opcode that the peer has used well

	// Here and not on the stack, since what goes through an interface escapes.
	completion Completion
	delivery   Delivery
}

// NewStream makes a stream in the state after startup. It panics if Table, Recv
// or Handler is missing: that is a mistake of the program, not of a peer.
func NewStream(cfg Config) *Stream {
	if cfg.Table == nil || cfg.Recv == nil || cfg.Handler == nil {
		panic("rdmap: NewStream needs Table, Recv and Handler")
	}
	cfg.SendDepth = orDefault(cfg.SendDepth, 128)
	cfg.MaxSGE = orDefault(cfg.MaxSGE, 16)
	cfg.MaxInline = orDefault(cfg.MaxInline, 512)
	cfg.IRD, cfg.ORD = max(cfg.IRD, 0), max(cfg.ORD, 0)
	s := &Stream{cfg: cfg, lifetime: lifetime{busy: sendOwner | receiveOwner, culprit: noEntry}}
	ird, ord := cfg.IRD, cfg.ORD
	// Rule: MPA2-9.1-04
	if cfg.RTR.Has(protocol.RTRRead) {
		// The RTR Read goes from the initiator to the responder and takes a slot there
		// and here even where the ULPs agreed on none (RFC 6581 section 9.1). Nothing
		// rises in the other direction.
		if cfg.Initiator {
			ord = max(ord, 1)
		} else {
			// Rule: MPA2-9.1-04, RDMAP-6.1-05
			ird = max(ird, 1)
		}
	}
	s.queue.limit = cfg.SendDepth + 1 // and the RTR indication
	// Rule: RDMAP-6.1-03
	s.outstanding.init(cfg.Table, ord)
	// Rule: RDMAP-5.2.2-02, RDMAP-6.1-02, EXT-5.2.2-03, RDMAP-8.1.2-06, SEC-6.4.3.3-01
	s.inbound.size = ird
	s.send.version, s.send.out.Max = Version, cfg.MaxSegment
	// Rule: MPA-3-10
	if cfg.RDMAC {
		s.send.version = 0
	}
	// Rule: DDP-6.1-01
	s.recv = ddp.NewReceiver(ddp.ReceiverConfig{
		Peer: cfg.Peer, VersionZero: cfg.RDMAC, Ordered: !cfg.Unordered, Window: cfg.Window, Clock: cfg.Clock,
		Batched: cfg.Batched,
	}, (*upcalls)(s))
	s.grower, _ = cfg.Recv.(ddp.Grower)
	s.recv.SetQueue(QNSend, (*sendSource)(s))
	s.recv.SetQueue(QNReadRequest, (*inboundSource)(s))
	s.recv.SetQueue(QNTerminate, (*terminateSource)(s))
	s.recv.SetQueue(QNAtomicResponse, (*responseSource)(s))
	return s
}

func orDefault(v, d int) int {
	if v == 0 {
		return d
	}
	return v
}

// Post puts a request on the send queue. It does not block and sends nothing by
// itself: call Transmit. On a stream that has failed the request is accepted and
// completes with ErrFlushed, as verbs do, so that each request has one
// completion. Errors: ErrSendQueueFull, ErrClosed, ErrPeerClosed, or one that
// wraps ErrInvalidRequest and names the field.
//
// The Completion has context, which is the caller's.
func (s *Stream) Post(r *SendWR, context any) error {
	s.mu.Lock()
	err := s.post(r, context)
	s.settle()
	s.mu.Unlock()
	return err
}

// PostAll is Post for several requests, in order and without a context. It gives the number of those
// that were accepted, and the error of the first that was not, which ends the
// list.
func (s *Stream) PostAll(rs []SendWR) (int, error) {
	s.mu.Lock()
	var err error
	n := 0
	for n < len(rs) && err == nil {
		if err = s.post(&rs[n], nil); err == nil {
			n++
		}
	}
	s.settle()
	s.mu.Unlock()
	return n, err
}

func (s *Stream) post(r *SendWR, context any) error {
	total, err := s.check(r)
	switch {
	case err != nil:
		return err
	// Rule: DDP-6.2.1-02, DDP-6.2-03
	case s.refuses():
		return ErrClosed
	case s.peerClosed && s.err == nil && r.Op.awaitsResponse():
		return ErrPeerClosed
	case s.queue.len()-s.queue.hidden >= s.cfg.SendDepth:
		return ErrSendQueueFull
	}
	return s.queue.add(r, context, total, false)
}

// PostRTR posts the zero-length message that opens a peer-to-peer connection
// (RFC 6581 section 9.2). It has no completion. The initiator calls it before
// anything else, with one kind of those agreed upon.
func (s *Stream) PostRTR(kind protocol.RTR) error {
	r := SendWR{Remote: RemoteBuffer{STag: rtrSTag}}
	switch kind {
	case protocol.RTRSend:
		r.Op = OpSend
	case protocol.RTRWrite:
		r.Op = OpWrite
	case protocol.RTRRead:
		r.Op = OpRead
	default:
		return fmt.Errorf("%w: RTR kind %v: one of write, read, send is needed", ErrInvalidRequest, kind)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.refuses():
		return ErrClosed
	// Rule: MPA2-5-02
	case s.queue.full() || s.queue.hidden > 0:
		return ErrSendQueueFull
	}
	_ = s.queue.add(&r, nil, 0, true) // it has no octets
	s.settle()
	return nil
}

// rtrSTag stands in a zero-length RTR. The STag of a zero-length message is not
// checked, yet some NICs refuse zero.
const rtrSTag = 1

// check validates what does not depend on the stream's state.
func (s *Stream) check(r *SendWR) (uint32, error) {
	if r.Op < OpSend || r.Op > OpBarrier {
		return 0, fmt.Errorf("%w: Op is %d: not an operation", ErrInvalidRequest, uint8(r.Op))
	}
	if len(r.SG) > s.cfg.MaxSGE {
		return 0, fmt.Errorf("%w: SG has %d elements: at most %d are allowed", ErrInvalidRequest, len(r.SG),
			s.cfg.MaxSGE)
	}
	var total uint64
	for _, p := range r.SG {
		total += uint64(len(p))
	}
	if total > math.MaxUint32 {
		return 0, fmt.Errorf("%w: SG holds %d octets: a message is shorter than 2^32 (RFC 5041 section 5.2)",
			ErrInvalidRequest, total)
	}
	if r.Inline && (total > uint64(s.cfg.MaxInline) || r.Op == OpRead) {
		return 0, fmt.Errorf("%w: Inline %v of %d octets: only sent data, and at most %d octets", ErrInvalidRequest,
			r.Op, total, s.cfg.MaxInline)
	}
	if r.Op.awaitsResponse() && s.cfg.ORD == 0 {
		return 0, fmt.Errorf("%w: %v needs an ORD of at least 1, but 0 was agreed at startup", ErrInvalidRequest, r.Op)
	}
	if r.Op == OpFetchAdd || r.Op == OpCompareSwap || r.Op == OpImmediate {
		if total != 0 {
			return 0, fmt.Errorf("%w: %v takes no SG", ErrInvalidRequest, r.Op)
		}
		total = ImmediateDataLen
	}
	if (r.Op == OpFetchAdd || r.Op == OpCompareSwap) && r.Remote.TO%8 != 0 && !r.Remote.invalid() {
		return 0, fmt.Errorf("%w: %v at TO 0x%016x: not a multiple of 8 (RFC 7306 section 5.1)",
			ErrInvalidRequest, r.Op, r.Remote.TO)
	}
	// As the peer judges it: what it would refuse should not cost the connection.
	if r.Op.remote() {
		if err := r.Remote.fits(total); err != nil {
			return 0, err
		}
	}
	return uint32(total), nil
}

// Stats returns the stream's counters.
func (s *Stream) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.PayloadReceived += s.placed.Load()
	st.MessagesReceived += s.writes.Load()
	return st
}

// PlacementStats returns the counters of the receiver: what came out of order.
func (s *Stream) PlacementStats() ddp.Stats { return s.recv.Stats() }

// Wake reports, once, that something other than Post has made work for the send
// owner since the last call: a request of the peer, a Response that something
// waited for, or the end of the stream. Whoever calls Receive or Fail asks it
// afterwards and has Transmit called.
func (s *Stream) Wake() bool { return s.wake.Load() && s.wake.Swap(false) }

// Outstanding returns the number of requests that have not completed.
func (s *Stream) Outstanding() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.len()
}

// complete hands up every finished request at the head of the queue: requests
// complete in the order of posting (RFC 5040 section 5.5, rule 15). What the LLP
// has not taken yet waits, even if its Response is here already: the LLP may
// still refer to the entry.
func (s *Stream) complete() {
	// Rule: RDMAP-5.5-09, RDMAP-5.5-10
	for s.queue.head < s.queue.acked {
		e := s.queue.At(s.queue.head)
		if e.state != entryDone {
			return
		}
		s.completion = Completion{
			ID: e.req.ID, Context: e.context, Op: e.req.Op, Length: e.total,
			Original: e.original, Unsignaled: e.req.Unsignaled, Err: e.err,
		}
		hidden := e.hidden
		e.release()
		s.queue.head++
		if hidden {
			s.queue.hidden--
		} else {
			s.cfg.Handler.Completed(&s.completion)
		}
		s.completion = Completion{} // keeps nothing of the caller's
	}
}
