package iwarp

import (
	"errors"
	"fmt"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// STag names a memory region to the peer.
type STag = ddp.STag

// Op is the kind of a work request or of a completion.
type Op uint8

// The operations. The first group are send work requests; OpRecv and
// OpRecvImmediate occur in completions only.
const (
	OpSend           = Op(rdmap.OpSend)           // Send
	OpSendInvalidate = Op(rdmap.OpSendInvalidate) // Send with Invalidate
	OpWrite          = Op(rdmap.OpWrite)          // RDMA Write
	OpRead           = Op(rdmap.OpRead)           // RDMA Read
	OpImmediate      = Op(rdmap.OpImmediate)      // Immediate Data (RFC 7306)
	OpFetchAdd       = Op(rdmap.OpFetchAdd)       // atomic FetchAdd (RFC 7306)
	OpCompareSwap    = Op(rdmap.OpCompareSwap)    // atomic CmpSwap (RFC 7306)
	OpInvalidate     = Op(rdmap.OpInvalidate)     // local: ends an STag of this end
	OpBind           = Op(rdmap.OpLocal)          // local: gives a memory window a new binding

	OpRecv          Op = 0x40 // a Send arrived
	OpRecvImmediate Op = 0x41 // Immediate Data arrived
)

// String gives the operation's name.
func (o Op) String() string {
	switch o {
	case OpBind:
		return "bind memory window"
	case OpRecv:
		return "Recv"
	case OpRecvImmediate:
		return "Recv of Immediate Data"
	}
	return rdmap.Op(o).String()
}

// RemoteBuffer names memory of the peer: the STag that it advertised and the
// Tagged Offset of the first octet.
type RemoteBuffer struct {
	STag STag
	TO   uint64
}

// SendWR is a work request for the send queue.
//
// The struct and the elements of SG are copied when it is posted; the octets are
// not. They belong to the QP until the completion: a Send or Write reads them, a
// Read writes them. With Inline they are copied and stay the caller's.
type SendWR struct {
	ID uint64 // handed back in the Completion
	Op Op

	// SG is the local memory in order: the data of Send and Write, the sink of
	// Read. At most MaxSGE elements, together less than 2^32 octets.
	SG [][]byte
	// Remote is the target of Write and the atomics and the source of Read. TO plus
	// the octets (eight of an atomic) must stay below 2^64
	// (https://www.rfc-editor.org/rfc/rfc5041#section-7.1). That an atomic's address in
	// the peer's memory is a multiple of eight, only the peer can see.
	Remote RemoteBuffer
	// Invalidate is the STag that OpSendInvalidate or OpInvalidate ends: the peer's,
	// or this end's. Of this end it must be of the QP's domain and, if it is bound to
	// a QP, of this one; any other fails as if it did not exist.
	Invalidate STag

	// Bind is what OpBind does.
	Bind *Bind

	Immediate uint64 // OpImmediate: eight octets, most significant first

	// Operand is the number that OpFetchAdd adds or OpCompareSwap swaps in, under
	// OperandMask (RFC 7306 sections 5.1.1 and 5.1.2); Compare and CompareMask are
	// OpCompareSwap's. The Completion's Original has the value found.
	Operand, OperandMask, Compare, CompareMask uint64

	Unsignaled bool // no completion on success
	Solicited  bool // raise a solicited event at the peer
	Fence      bool // start only when earlier Reads and atomics have completed
	Inline     bool // copy SG's octets when posting; at most MaxInline
}

// RecvWR is a work request for the receive queue: memory for one message. SG's
// octets belong to the QP until the completion.
type RecvWR struct {
	ID uint64
	SG [][]byte // at most MaxSGE elements; may be empty
}

// Status is the outcome of a work request in one word, named after ibv_wc_status.
type Status uint8

// The outcomes.
const (
	StatusSuccess           Status = iota
	StatusFlushed                  // cut short by the end of the connection
	StatusRemoteAccess             // the peer refused access to its memory
	StatusRemoteInvalid            // the peer refused the request otherwise
	StatusRemoteUnsupported        // the peer does not know the operation
	StatusLocal                    // an error of this end
	StatusLength                   // the message was longer than the receive
)

var statusNames = [...]string{"success", "flushed", "remote access error", "remote operation error", "not supported by the peer", "local error", "message longer than the receive"}

// String gives the outcome in words.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Completion tells that a work request has ended. Every posted request has
// exactly one, except a signaled-off success, and requests of a queue complete
// in the order of posting.
type Completion struct {
	ID     uint64
	QP     *QP
	Op     Op
	Length uint32 // octets of the message
	// Immediate is set for OpRecvImmediate, Original for the atomics.
	Immediate, Original uint64
	// Invalidated is the STag of this end that the peer's Send with Invalidate
	// ended; 0 if none.
	Invalidated STag
	Solicited   bool // the message asked for a solicited event
	// Err is nil for success. The request whose message, or Response, ended the
	// connection has that error: the peer's Terminate, if it echoes which message it is
	// about, or what this end found. All others that had not completed have an error
	// that wraps ErrFlushed and the reason. Behind one of these no request of the same
	// queue succeeds.
	Err error
}

// isRecv reports whether it is the receive queue's.
func (c *Completion) isRecv() bool { return c.Op == OpRecv || c.Op == OpRecvImmediate }

// Status classifies Err.
func (c *Completion) Status() Status {
	if c.Err == nil {
		return StatusSuccess
	}
	var perr *ProtocolError
	switch is := errors.As(c.Err, &perr); {
	case errors.Is(c.Err, ErrFlushed):
		return StatusFlushed
	case is && perr.Remote:
		switch {
		case perr.Code == protocol.RDMAPOpcode:
			return StatusRemoteUnsupported
		case perr.Code.Layer() == protocol.LayerRDMAP && perr.Code.Type() == 1,
			perr.Code.Layer() == protocol.LayerDDP && perr.Code.Type() == 1:
			return StatusRemoteAccess
		}
		return StatusRemoteInvalid
	case is && c.isRecv() && perr.Code == protocol.DDPUntaggedTooLong:
		return StatusLength
	}
	return StatusLocal
}
