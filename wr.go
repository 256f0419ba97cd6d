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
type Op = rdmap.Op

// The operations. The first group are send work requests; OpRecv,
// OpRecvImmediate and OpEnd occur in completions only.
const (
	OpSend           = rdmap.OpSend           // Send
	OpSendInvalidate = rdmap.OpSendInvalidate // Send with Invalidate
	OpWrite          = rdmap.OpWrite          // RDMA Write
	OpRead           = rdmap.OpRead           // RDMA Read
	OpImmediate      = rdmap.OpImmediate      // Immediate Data (RFC 7306)
	OpFetchAdd       = rdmap.OpFetchAdd       // atomic FetchAdd (RFC 7306)
	OpCompareSwap    = rdmap.OpCompareSwap    // atomic CmpSwap (RFC 7306)
	OpInvalidate     = rdmap.OpInvalidate     // local: ends an STag of this end
	OpBind           = rdmap.OpBind           // local: gives a memory window a new binding

	OpRecv          = rdmap.OpRecv          // a Send arrived
	OpRecvImmediate = rdmap.OpRecvImmediate // Immediate Data arrived
	OpEnd           = rdmap.OpEnd           // the connection has ended: see QPConfig.NotifyEnd
)

// RemoteBuffer names memory of the peer. [MR.Remote] and [MW.Remote] make one:
//
//	type RemoteBuffer struct {
//		STag   STag   // that the peer advertised
//		TO     uint64 // Tagged Offset of the first octet
//		Length uint64 // octets; 0: not known here, and checked by the peer only
//	}
//
//	func (b RemoteBuffer) Slice(off, n uint64) RemoteBuffer
//	func (b RemoteBuffer) AppendBinary(p []byte) ([]byte, error)
//	func (b RemoteBuffer) MarshalBinary() ([]byte, error)
//	func (b *RemoteBuffer) UnmarshalBinary(p []byte) error
//
// Slice returns the part of b that begins at octet off and has n octets. A work request that
// reaches beyond Length, or beyond the buffer that Slice was called on, is refused with
// [ErrInvalidWR] when it is posted. To advertise memory in a message of its own, a program
// can use AppendBinary and UnmarshalBinary: [RemoteBufferLen] octets, big endian, STag (4
// octets), TO (8) and Length (8).
type RemoteBuffer = rdmap.RemoteBuffer

// RemoteBufferLen is the number of octets of an encoded RemoteBuffer.
const RemoteBufferLen = rdmap.RemoteBufferLen

// SendWR is a work request for the send queue:
//
//	type SendWR struct {
//		ID         uint64       // handed back in the completion
//		Op         Op           // OpSend to OpBind
//		SG         [][]byte     // local memory: the data of Send and Write, the sink of Read
//		Remote     RemoteBuffer // the peer's: the target of Write and atomics, the source of Read
//		Invalidate STag         // that OpSendInvalidate (the peer's) or OpInvalidate (this end's) ends
//		Bind       *Bind        // what OpBind does (an interface; a *Bind goes in)
//		Immediate  uint64       // OpImmediate: eight octets, most significant first
//
//		// OpFetchAdd adds Operand, OpCompareSwap swaps it in where Compare is found, both under
//		// masks (https://www.rfc-editor.org/rfc/rfc7306#section-5.1). Completion.Original has
//		// the value found.
//		Operand, OperandMask, Compare, CompareMask uint64
//
//		Unsignaled bool // no completion on success
//		Solicited  bool // Send and Immediate Data: raise a solicited event at the peer
//		Fence      bool // start only when earlier Reads and atomics have completed
//		Inline     bool // copy SG's octets when posting; at most DeviceLimits.MaxInline
//	}
//
// SG has at most QPConfig.MaxSGE elements, and fewer than 2^32 octets.
//
// The struct and the elements of SG are copied when it is posted; the octets are
// not. They belong to the QP until the completion: a Send or Write reads them, a
// Read writes them. With Inline they are copied and stay the caller's. A request whose
// memory is not there, because it is a mapped file that has become shorter, say, fails,
// and the connection with it.
type SendWR = rdmap.SendWR

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

var statusNames = [...]string{
	"success", "flushed", "remote access error", "remote operation error", "not supported by the peer", "local error",
	"message longer than the receive",
}

// String returns the outcome in words.
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
	ID uint64
	QP *QP
	Op Op
	// Context is the QPConfig's.
	Context any
	Length  uint32 // octets of the message
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
