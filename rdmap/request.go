package rdmap

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/internal/fault"
	"github.com/go-iwarp/iwarp/internal/ring"
)

// Op is the kind of a work request: the ULP's view. One Op may become one of several
// opcodes (a Send with and without Solicited Event), and a Read is two messages.
type Op uint8

// The operations. Those up to OpBarrier are of the send queue; OpRecv and
// OpRecvImmediate are of the receive queue, and occur in completions, as OpEnd does.
const (
	OpSend           Op = iota + 1 // Send, or Send with Solicited Event
	OpSendInvalidate               // the same, and the peer invalidates SendWR.Invalidate
	OpWrite                        // RDMA Write
	OpRead                         // RDMA Read
	OpImmediate                    // Immediate Data, 8 octets (RFC 7306)
	OpFetchAdd                     // atomic FetchAdd (RFC 7306)
	OpCompareSwap                  // atomic CmpSwap (RFC 7306)
	OpInvalidate                   // local: ends an STag of this end
	OpBind                         // local: does what SendWR.Bind says
	OpBarrier                      // local: does nothing, when all before it has been handed to the LLP

	OpRecv          Op = 0x40 // a Send arrived
	OpRecvImmediate Op = 0x41 // Immediate Data arrived
	OpEnd           Op = 0x42 // the connection has ended
)

// String returns the operation's name.
func (o Op) String() string {
	switch o {
	case OpSend:
		return "Send"
	case OpSendInvalidate:
		return "Send with Invalidate"
	case OpWrite:
		return "RDMA Write"
	case OpRead:
		return "RDMA Read"
	case OpImmediate:
		return "Immediate Data"
	case OpFetchAdd:
		return "FetchAdd"
	case OpCompareSwap:
		return "CmpSwap"
	case OpInvalidate:
		return "local Invalidate"
	case OpBind:
		return "bind memory window"
	case OpBarrier:
		return "barrier"
	case OpRecv:
		return "Recv"
	case OpRecvImmediate:
		return "Recv of Immediate Data"
	case OpEnd:
		return "end of the connection"
	}
	return fmt.Sprintf("operation %d", uint8(o))
}

// awaitsResponse reports whether the operation takes an ORD slot and completes
// when the peer's answer is delivered.
func (o Op) awaitsResponse() bool { return o == OpRead || o == OpFetchAdd || o == OpCompareSwap }

// remote reports whether the operation names memory of the peer.
func (o Op) remote() bool { return o == OpWrite || o.awaitsResponse() }

// local reports whether the operation sends nothing.
func (o Op) local() bool { return o == OpInvalidate || o == OpBind || o == OpBarrier }

// Binding is what OpBind does.
type Binding interface {
	// Activate is called in the request's turn in the queue: after all before it has
	// been handed to the LLP. Its error is the request's. It runs with the stream's lock
	// held: it must not block and must not call the stream.
	Activate() error
}

// SendWR is a work request of the send queue.
//
// The stream copies the struct and the elements of SG when it is posted, but not the
// octets: from then until the request completes the memory of SG belongs to the
// stream. A Send or Write reads it, a Read writes it. With Inline the octets are
// copied too, and are the caller's again when the call that posts returns.
type SendWR struct {
	ID uint64 // handed back in the completion
	Op Op

	// SG is the local memory in order: the data of Send and Write, the sink of
	// Read. At most as many elements as the queue was made for (MaxSGE), together less
	// than 2^32 octets.
	SG [][]byte
	// Remote is the target of Write and the atomics and the source of Read. The octets
	// (eight of an atomic) must fit in its Length, if that is not 0, and TO plus the octets
	// must stay below 2^64 (https://www.rfc-editor.org/rfc/rfc5041#section-7.1). The TO of
	// an atomic is a multiple of eight. That the address in the peer's memory is one too
	// (https://www.rfc-editor.org/rfc/rfc7306#section-5.1), only the peer can see.
	Remote RemoteBuffer
	// Invalidate is the STag that OpSendInvalidate or OpInvalidate ends: the peer's,
	// or this end's. Of this end it must be of the stream's domain and, if it is bound to
	// a stream, of this one; any other fails as if it did not exist.
	Invalidate ddp.STag

	// Bind is what OpBind does. In package iwarp it is a *Bind.
	Bind Binding

	Immediate uint64 // OpImmediate: eight octets, most significant first

	// Operand is the number that OpFetchAdd adds or OpCompareSwap swaps in, under
	// OperandMask (https://www.rfc-editor.org/rfc/rfc7306#section-5.1); Compare and
	// CompareMask are OpCompareSwap's. The completion's Original has the value found.
	Operand, OperandMask, Compare, CompareMask uint64

	Unsignaled bool // no completion on success
	Solicited  bool // Send and Immediate Data: raise a solicited event at the peer
	Fence      bool // start only when earlier Reads and atomics have completed
	Inline     bool // copy SG's octets when posting; at most MaxInline
}

// Completion says how a request ended. Every accepted request gets exactly one
// call of Handler.Completed, in the order of posting (RFC 5040 section 5.5,
// rule 15).
type Completion struct {
	ID         uint64
	Context    any // as given to Post
	Op         Op
	Length     uint32 // octets of the message: SG's total; 8 for atomics and Immediate Data
	Original   uint64 // what an atomic found
	Unsignaled bool   // as posted; only failures of such requests are worth showing
	Err        error  // nil for success; wraps ErrFlushed if the stream ended first
}

// Errors of Post. They concern the request alone: the stream goes on.
var (
	// ErrSendQueueFull: SendDepth requests have not completed yet. Try again
	// after the next completion.
	ErrSendQueueFull = errors.New("iwarp: send queue full")
	// ErrFlushed is in the error of each request that the end of the stream cut
	// short; the stream's own error is wrapped beside it.
	ErrFlushed = errors.New("iwarp: work request flushed")
	// ErrPeerClosed: the peer has closed its half, so an operation that needs its
	// Response cannot complete.
	ErrPeerClosed = errors.New("iwarp: connection half-closed by the peer")
	// ErrClosed: the stream was closed by this end and takes no more requests
	// (RFC 5041 section 6.2.1).
	ErrClosed = fmt.Errorf("iwarp: stream closed for sending: %w", net.ErrClosed)
	// ErrInitiatorFirst: a responder's work waits for the initiator's first message,
	// before which it may send nothing
	// (https://www.rfc-editor.org/rfc/rfc5044#section-7.1.2 rule 4), and that has not
	// come.
	ErrInitiatorFirst = errors.New("iwarp: the client has to speak first on a client-server connection")
	errNeverOpen      = fmt.Errorf("%w: %w", ErrInitiatorFirst, io.ErrUnexpectedEOF)
	// ErrInvalidRequest is in every error that names a bad field of a request.
	ErrInvalidRequest = errors.New("iwarp: invalid work request")
)

// Where an entry of the send queue stands.
const (
	entryQueued  uint8 = iota // waits for its turn
	entryStarted              // its message is being cut, or lies in a batch not yet with the LLP
	entryWaiting              // sent; the peer's Response is due
	entryDone                 // will complete when it is the oldest
)

// entry is a request in the send queue, with what it needs on the way.
type entry struct {
	req      SendWR
	context  any      // the caller's, for the completion
	sg       [][]byte // backing for req.SG, MaxSGE elements
	inline   []byte   // backing for inline data
	total    uint32
	state    uint8
	hidden   bool   // the RTR indication: no completion
	begun    bool   // its message has been given to DDP
	msn      uint32 // of that message, if it is untagged
	original uint64
	header   [AtomicRequestLen]byte // RDMAP header or Immediate Data on the wire
	own      [1][]byte              // header as a gather list
	err      error
}

// sendQueue is a ring of entries. acked <= next <= tail and head <= acked.
//
// The ring grows as it is needed, up to limit, so that an idle connection costs
// little. An entry may move then, under the stream's lock; what the send owner
// reads without the lock (header, own) is not changed, and the old copy stays.
type sendQueue struct {
	ring.Ring[entry]

	limit  int
	head   uint64 // oldest that has not completed
	acked  uint64 // oldest that the LLP has not taken in full
	next   uint64 // first that has not been started
	tail   uint64 // where the next post goes
	hidden int    // entries that are not the ULP's: the RTR indication
}

func (q *sendQueue) full() bool  { return q.len() == q.limit }
func (q *sendQueue) len() int    { return int(q.tail - q.head) }
func (q *sendQueue) empty() bool { return q.tail == q.head }

// add copies r into the ring. The caller has checked r and full. The error is that
// the octets of an inline request are not there.
func (q *sendQueue) add(r *SendWR, context any, total uint32, hidden bool) error {
	q.Grow(q.head, q.tail, q.limit)
	e := q.At(q.tail)
	e.req, e.context, e.total, e.hidden, e.state, e.begun, e.original, e.err = *r, context, total, hidden, entryQueued,
		false, 0, nil
	if r.Inline {
		e.inline = e.inline[:0]
		for i, p := range r.SG {
			n := len(e.inline)
			e.inline = slices.Grow(e.inline, len(p))[:n+len(p)]
			if _, err := fault.Copy(e.inline[n:], p); err != nil {
				e.release()
				return fmt.Errorf("%w: SG[%d]: %w", ErrInvalidRequest, i, err)
			}
		}
		e.sg = append(e.sg[:0], e.inline)
	} else {
		e.sg = append(e.sg[:0], r.SG...)
	}
	e.req.SG = e.sg
	q.tail++
	if hidden {
		q.hidden++
	}
	return nil
}

// sent reports whether h is the header of a segment of this request's message.
func (e *entry) sent(h *ddp.Header) bool {
	r := &e.req
	switch {
	case !e.begun:
		return false
	case h.Tagged || r.Op == OpWrite:
		return h.Tagged && r.Op == OpWrite && Control(h.Control).Opcode() == OpcodeWrite &&
			h.STag == r.Remote.STag && (h.TO == r.Remote.TO || h.TO-r.Remote.TO < uint64(e.total))
	}
	qn := uint32(QNSend)
	if r.Op.awaitsResponse() {
		qn = QNReadRequest
	}
	return h.QN == qn && h.MSN == e.msn
}

// release drops the entry's references to the caller's memory.
func (e *entry) release() {
	clear(e.sg)
	e.sg = e.sg[:0]
	e.req.SG, e.req.Bind, e.context = nil, nil, nil
}
