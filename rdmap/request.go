package rdmap

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/go-iwarp/iwarp/ddp"
)

// Op is what a [Request] asks for. It is the ULP's view: one Op may become one
// of several opcodes (a Send with and without Solicited Event), and a Read is
// two messages.
type Op uint8

// The operations. OpInvalidate is local and sends nothing.
const (
	OpSend           Op = iota + 1 // Send, or Send with Solicited Event
	OpSendInvalidate               // the same, and the peer invalidates Request.Invalidate
	OpWrite                        // RDMA Write
	OpRead                         // RDMA Read
	OpImmediate                    // Immediate Data, 8 octets (RFC 7306)
	OpFetchAdd                     // atomic FetchAdd (RFC 7306)
	OpCompareSwap                  // atomic CmpSwap (RFC 7306)
	OpInvalidate                   // local invalidation of an STag of this end
	OpLocal                        // local: calls Request.Local, if any, in its turn
)

var opNames = [...]string{
	OpSend: "Send", OpSendInvalidate: "Send with Invalidate", OpWrite: "RDMA Write", OpRead: "RDMA Read",
	OpImmediate: "Immediate Data", OpFetchAdd: "FetchAdd", OpCompareSwap: "CmpSwap", OpInvalidate: "local Invalidate", OpLocal: "local operation",
}

// String gives the operation's name.
func (o Op) String() string {
	if int(o) < len(opNames) && o != 0 {
		return opNames[o]
	}
	return fmt.Sprintf("operation %d", uint8(o))
}

// awaitsResponse reports whether the operation takes an ORD slot and completes
// when the peer's answer is delivered.
func (o Op) awaitsResponse() bool { return o == OpRead || o == OpFetchAdd || o == OpCompareSwap }

// remote reports whether the operation names memory of the peer.
func (o Op) remote() bool { return o == OpWrite || o.awaitsResponse() }

// Request is one work request of the send queue.
//
// The stream copies the struct and the SG slice's elements at Post, but not the
// octets: from Post until the request completes the memory of SG belongs to the
// stream. It reads it (Send, Write) or writes it (Read). With Inline the octets
// are copied too, and the caller's again when Post returns.
type Request struct {
	ID      uint64 // the caller's, handed back in the Completion
	Context any    // the caller's, handed back in the Completion
	Op      Op

	// SG is the data in order: what Send and Write transmit, where Read places.
	// At most Config.MaxSGE elements; together less than 2^32 octets.
	SG [][]byte

	// STag and TO name the peer's buffer for Write, Read and the atomics.
	STag ddp.STag
	TO   uint64

	// Invalidate is the peer's STag that OpSendInvalidate names, or this end's
	// that OpInvalidate ends.
	Invalidate ddp.STag

	Immediate uint64 // OpImmediate: 8 octets, the first of them the most significant

	// Operand is what OpFetchAdd adds or OpCompareSwap swaps in; OperandMask is
	// the Add or Swap Mask. Compare and CompareMask belong to OpCompareSwap.
	Operand, OperandMask, Compare, CompareMask uint64

	// Local is what OpLocal does when its turn in the queue has come: after all
	// before it has been handed to the LLP. Its error is the request's. It runs with
	// the stream's lock held: it must not block and must not call the stream.
	Local func() error

	Solicited  bool // Send and Immediate: with Solicited Event
	Fence      bool // start only when no earlier Read or atomic is outstanding
	Unsignaled bool // a success gives no Completion; a failure always does
	Inline     bool // copy the data at Post; at most Config.MaxInline octets
}

// Completion says how a Request ended. Every accepted request gets exactly one
// call of Handler.Completed, in the order of posting (RFC 5040 section 5.5,
// rule 15).
type Completion struct {
	ID         uint64
	Context    any
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
	// ErrInvalidRequest is in every error that names a bad field of a Request.
	ErrInvalidRequest = errors.New("iwarp: invalid work request")
)

// Where an entry of the send queue stands.
const (
	entryQueued  uint8 = iota // waits for its turn
	entryStarted              // its message is being cut, or lies in a batch not yet with the LLP
	entryWaiting              // sent; the peer's Response is due
	entryDone                 // will complete when it is the oldest
)

// entry is a Request in the send queue, with what it needs on the way.
type entry struct {
	req      Request
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

// sendQueue is a ring of entries. The indices only grow; an entry lies at index
// modulo the size. acked <= next <= tail and head <= acked.
//
// The ring grows as it is needed, up to limit, so that an idle connection costs
// little. An entry may move then, under the stream's lock; what the send owner
// reads without the lock (header, own) is not changed, and the old copy stays.
type sendQueue struct {
	entries []entry
	limit   int
	head    uint64 // oldest that has not completed
	acked   uint64 // oldest that the LLP has not taken in full
	next    uint64 // first that has not been started
	tail    uint64 // where the next post goes
	hidden  int    // entries that are not the ULP's: the RTR indication
}

func (q *sendQueue) at(i uint64) *entry { return &q.entries[i%uint64(len(q.entries))] }
func (q *sendQueue) full() bool         { return q.len() == q.limit }
func (q *sendQueue) len() int           { return int(q.tail - q.head) }
func (q *sendQueue) empty() bool        { return q.tail == q.head }

// grow doubles the ring if it has no free entry.
func (q *sendQueue) grow() {
	if q.len() < len(q.entries) {
		return
	}
	bigger := make([]entry, min(max(4, 2*len(q.entries)), q.limit))
	for i := q.head; i < q.tail; i++ {
		bigger[i%uint64(len(bigger))] = *q.at(i)
	}
	q.entries = bigger
}

// add copies r into the ring. The caller has checked r and full.
func (q *sendQueue) add(r *Request, total uint32, hidden bool) {
	q.grow()
	e := q.at(q.tail)
	e.req, e.total, e.hidden, e.state, e.begun, e.original, e.err = *r, total, hidden, entryQueued, false, 0, nil
	if r.Inline {
		e.inline = e.inline[:0]
		for _, p := range r.SG {
			e.inline = append(e.inline, p...)
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
}

// sent reports whether h is the header of a segment of this request's message.
func (e *entry) sent(h *ddp.Header) bool {
	r := &e.req
	switch {
	case !e.begun:
		return false
	case h.Tagged || r.Op == OpWrite:
		return h.Tagged && r.Op == OpWrite && Control(h.Control).Opcode() == OpcodeWrite &&
			h.STag == r.STag && (h.TO == r.TO || h.TO-r.TO < uint64(e.total))
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
	e.req.SG, e.req.Context, e.req.Local = nil, nil, nil
}
