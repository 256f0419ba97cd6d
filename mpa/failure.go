package mpa

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/go-iwarp/iwarp/protocol"
)

// What can go wrong at startup beside a bad frame. Each is in the tree of the
// *[protocol.Error] of [Initiate] or [ReadRequest].
var (
	// ErrStartupTimeout: the peer's frame did not come in time. The error is
	// [os.ErrDeadlineExceeded] too, and a [net.Error] whose Timeout is true.
	ErrStartupTimeout = errors.New("iwarp: MPA startup timed out")
	// ErrPeerSilent: not one octet of it came in time. The error is also
	// ErrStartupTimeout.
	ErrPeerSilent = errors.New("iwarp: the peer sent nothing during MPA startup")
	// ErrStartupClosed: the peer ended the connection before its frame was whole.
	ErrStartupClosed = errors.New("iwarp: the peer ended the connection during MPA startup")
)

// failure is the cause of a failed startup, with its names.
type failure struct {
	cause   error
	timeout bool
	names   []error
}

// Error returns the cause.
func (f *failure) Error() string { return f.cause.Error() }

// Unwrap returns the cause and its names.
func (f *failure) Unwrap() []error { return append([]error{f.cause}, f.names...) }

// Is reports a timeout as what package os calls one.
func (f *failure) Is(target error) bool { return f.timeout && target == os.ErrDeadlineExceeded }

// Timeout implements [net.Error].
func (f *failure) Timeout() bool { return f.timeout }

// Temporary implements [net.Error].
func (f *failure) Temporary() bool { return false }

// exchange is what an end was doing when startup failed.
type exchange struct {
	kind    Kind // of the frame
	sending bool // it was this end's
	judging bool // nobody's any more: VerifyReply was asked
	came    int  // octets of the peer's frame
}

// fail closes the conn because of err, an error of the conn or of the context.
func (g *guarded) fail(x exchange, err error) error {
	f := &failure{cause: err}
	e := &protocol.Error{Code: protocol.MPAStartup, Section: "RFC 5044 section 7.1.2", Err: f}
	over := g.ctx.Err()
	if over != nil {
		f.cause, f.names = context.Cause(g.ctx), []error{over}
	}
	switch {
	case errors.Is(over, context.DeadlineExceeded), over == nil && isTimeout(err):
		e.Detail, f.timeout = x.inTime(), true
		f.names = append(f.names, ErrStartupTimeout)
		if !x.sending && !x.judging && x.came == 0 {
			f.names = append(f.names, ErrPeerSilent)
		}
	case over != nil:
		e.Detail = "startup was given up; " + x.inTime()
	default:
		e.Detail = "the connection failed " + x.where()
		if endedByPeer(err) {
			f.names = append(f.names, ErrStartupClosed)
			e.Detail = "the peer ended the connection " + x.where()
		}
		// Rule: MPA2-10-06
		if x.came == 0 && (!x.sending || x.kind == Request) {
			e.Code, e.Section = protocol.MPAConnectionLost, "RFC 5044 section 8"
		}
	}
	return g.refuse(e)
}

// endedByPeer tells the end of TCP from errors of this end's (a conn that the program
// has closed, TLS).
func endedByPeer(err error) bool {
	var errno syscall.Errno
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &errno)
}

// inTime says what did not come in time.
func (x exchange) inTime() string {
	switch {
	case x.judging:
		return "VerifyReply returned too late"
	case x.sending:
		return fmt.Sprintf("the peer did not take this end's %v", x.kind)
	case x.came > 0:
		return fmt.Sprintf("the peer sent %d octets, which are no whole %v", x.came, x.kind)
	case x.kind == Request:
		return "the peer sent nothing, and the initiator has to speak first"
	}
	return "the peer sent nothing in answer to the Request"
}

// where says how far the exchange had come.
func (x exchange) where() string {
	switch {
	case x.sending:
		return fmt.Sprintf("before it took this end's %v", x.kind)
	case x.came > 0:
		return fmt.Sprintf("in the middle of its %v, after %d octets", x.kind, x.came)
	}
	return fmt.Sprintf("before its %v", x.kind)
}
