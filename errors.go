package iwarp

import (
	"errors"
	"fmt"

	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// ProtocolError is an error that the RFCs number. [errors.As] finds it in the errors of
// this package:
//
//	type ProtocolError struct {
//		Code     protocol.Code // layer, error type and error code, as in a Terminate message
//		Remote   bool          // the peer reported it in a Terminate; false: this end found it
//		Section  string        // the rule that was broken, e.g. "RFC 5041 section 7.1"
//		Detail   string        // field, value and rule, for people
//		Offender *protocol.Offender // header that it is about; nil if there is none
//		Err      error         // the cause below, e.g. the network's; nil if there is none
//	}
//
// Code's methods Layer, Type and Number return its parts, String its name in the RFC and the
// triple. If Remote is set, Offender is of a segment of this end that the peer echoed, else of
// one of the peer's. [errors.Is] compares Code and Remote only. An error that has ended the
// connection is [net.ErrClosed] too, and the peer's report of an unexpected opcode is
// [errors.ErrUnsupported].
type ProtocolError = protocol.Error

// RejectError is what a dialing end gets when the peer's ULP rejected the connection:
//
//	type RejectError struct {
//		Revision         uint8  // of the Reply
//		PrivateData      []byte // of the peer's ULP
//		Enhanced         bool   // the Reply carried the block of RFC 6581, and so the rest
//		RTR              RTR    // kinds that the peer supports
//		PeerIRD, PeerORD int    // what the peer would need; NotNegotiated if it said nothing
//	}
type RejectError = mpa.RejectError

// DeclinedError is what a dialing end gets when its own [Config.VerifyReply] turned the
// peer's Reply down. Its only field, Err, is the function's error, which it wraps.
type DeclinedError = mpa.DeclinedError

// Errors of this package. Those of a work request concern it alone; the
// connection goes on.
var (
	// ErrSendQueueFull: SendDepth work requests have not completed yet.
	ErrSendQueueFull = rdmap.ErrSendQueueFull
	// ErrRecvQueueFull: RecvDepth receives are posted.
	ErrRecvQueueFull = errors.New("iwarp: receive queue full")
	// ErrCQFull: the completion queue has no room for another completion.
	ErrCQFull = errors.New("iwarp: completion queue full")
	// ErrClosed: this end has closed the connection and takes no more work. It is
	// [net.ErrClosed] too.
	ErrClosed = rdmap.ErrClosed
	// ErrPeerClosed: the peer has closed its half, so that an operation that needs
	// its answer cannot complete.
	ErrPeerClosed = rdmap.ErrPeerClosed
	// ErrFlushed is in the error of a work request that the end of its connection
	// cut short, beside the reason.
	ErrFlushed = rdmap.ErrFlushed
	// ErrInvalidWR is in the error for a work request with a bad field.
	ErrInvalidWR = rdmap.ErrInvalidRequest
	// ErrNotConnected: the QP has no connection yet.
	ErrNotConnected = errors.New("iwarp: QP is not connected")
	// ErrInUse: the QP already has a connection, or the PD still has regions or
	// QPs.
	ErrInUse = errors.New("iwarp: in use")
	// ErrLimit: a limit of the device or of the listener is reached.
	ErrLimit = errors.New("iwarp: limit reached")
	// ErrStartupTimeout: the peer's startup frame did not come within StartupTimeout
	// or the context's deadline.
	ErrStartupTimeout = mpa.ErrStartupTimeout
	// ErrPeerSilent: not one octet of it came; ErrStartupTimeout too. Nobody speaks
	// iWARP there, or, at a responder, the peer waits as well.
	ErrPeerSilent = mpa.ErrPeerSilent
	// ErrStartupClosed: the peer ended TCP before its startup frame was whole.
	ErrStartupClosed = mpa.ErrStartupClosed
	// ErrShortBuffer: the message is longer than the buffer given to Recv. It
	// stays, for a call with a larger one.
	ErrShortBuffer = errors.New("iwarp: buffer shorter than the message")
)

// PostError says which work request of a list could not be posted. Those before
// it were posted, those after it were not.
type PostError struct {
	Index int   // of the bad request in the list
	Err   error // why
}

// Error returns the index and the reason.
func (e *PostError) Error() string { return fmt.Sprintf("iwarp: work request %d: %v", e.Index, e.Err) }

// Unwrap returns the reason.
func (e *PostError) Unwrap() error { return e.Err }
