package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/go-iwarp/iwarp/rdmap"
)

// ErrClientFirst says that a responder's work waits for the initiator's first message, before
// which it may send nothing on a client-server connection
// (https://www.rfc-editor.org/rfc/rfc5044#section-7.1.2 rule 4), and that has not come.
// Either the initiator's program sends first, or both ends agree on a peer-to-peer
// connection, which they do by default.
var ErrClientFirst = rdmap.ErrInitiatorFirst

// givenUp is the error of a blocking call whose context has ended: why, and what
// became of the call.
type givenUp struct {
	ctx   context.Context
	op    Op
	held  bool  // nothing could be sent
	ended error // of the work request; nil: it had completed, or was not posted
}

// callEnded makes the error of a call. It is called before the connection is aborted.
func (c *Conn) callEnded(ctx context.Context, op Op) *givenUp {
	return &givenUp{ctx: ctx, op: op, held: !c.llp.MaySend()}
}

// Error returns the reason first: what has become of the connection follows from it.
func (e *givenUp) Error() string {
	s := fmt.Sprintf("iwarp: %v: ", e.op)
	if e.held {
		s += "the client has to speak first on a client-server connection, and has not: "
	}
	s += context.Cause(e.ctx).Error()
	if e.ended != nil {
		s += "; the connection was aborted, since the memory was in use"
	}
	return s
}

// Unwrap returns the reasons, and the error of the work request.
func (e *givenUp) Unwrap() []error {
	errs := []error{context.Cause(e.ctx), e.ctx.Err()}
	if e.held {
		errs = append(errs, ErrClientFirst)
	}
	if e.ended != nil {
		errs = append(errs, e.ended)
	}
	return errs
}

// Is reports a deadline as what package os calls one.
func (e *givenUp) Is(target error) bool { return e.Timeout() && target == os.ErrDeadlineExceeded }

// Timeout implements [net.Error].
func (e *givenUp) Timeout() bool { return errors.Is(e.ctx.Err(), context.DeadlineExceeded) }

// Temporary implements [net.Error].
func (e *givenUp) Temporary() bool { return false }

var _ net.Error = (*givenUp)(nil)
