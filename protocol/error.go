package protocol

import (
	"errors"
	"net"
	"strings"
)

// Error is a protocol error with the triple that a Terminate message carries.
//
// errors.Is matches another *Error by Code and Remote, so that
// errors.Is(err, &Error{Code: MPACRC}) asks for a CRC error found here; a zero
// Detail, Section or Offender in the target does not count. Error also unwraps
// to Err and, when the error has ended the connection, to [net.ErrClosed].
type Error struct {
	// Code is layer, type and error code.
	Code Code
	// Remote is true when the peer reported the error in a Terminate message,
	// false when this end found it.
	Remote bool
	// Section names the rule that was broken, e.g. "RFC 5041 section 7.1".
	Section string
	// Detail names the field, the offending value and the rule, for people.
	Detail string
	// Offender is the header of the incoming segment that caused the error, nil
	// if none did. In a remote error it is the segment of ours that the peer
	// echoed.
	Offender *Offender
	// Err is the cause below, e.g. an error of the network; nil if there is none.
	Err error
}

// Offender is the part of a bad segment that a Terminate message echoes
// (RFC 5040 section 4.8).
type Offender struct {
	// SegmentLength is the length of the DDP segment in octets, header and
	// payload together (RFC 5041 section 7.1). Linux siw sends the payload's
	// length alone, so treat a remote value as a hint.
	SegmentLength uint16
	// DDPHeader is the segment's DDP header, 14 octets if it is tagged and 18 if
	// not; nil if the Terminate had none. The Error owns the octets.
	DDPHeader []byte
	// RDMAPHeader is the header of an RDMA Read Request, 28 octets, or nil.
	RDMAPHeader []byte
}

// Error returns code, detail and section in one line. Where a cause lies below, detail
// and cause come first, since the code is only what that amounts to.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Err != nil && !e.Remote {
		if e.Detail != "" {
			b.WriteString(e.Detail + ": ")
		}
		b.WriteString(strings.TrimPrefix(e.Err.Error(), "iwarp: "))
		if e.Section != "" {
			b.WriteString(" [" + e.Section + "]")
		}
		if e.Code == MPAStartup { // it was no frame, so that its meaning would mislead
			b.WriteString(" (2/0/04)")
		} else {
			b.WriteString("; " + e.Code.String())
		}
		return b.String()
	}
	if e.Remote {
		b.WriteString("peer reports ")
		if e.Code == RDMAPOpcode {
			b.WriteString("that it does not support the operation: ")
		}
	}
	b.WriteString(e.Code.String())
	if e.Detail != "" {
		b.WriteString(": ")
		b.WriteString(e.Detail)
	}
	if e.Section != "" {
		b.WriteString(" [")
		b.WriteString(e.Section)
		b.WriteString("]")
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause. A lost connection is also [net.ErrClosed], so that a
// caller who knows only package net understands it; and a peer that reports an
// unexpected opcode does not support the operation: [errors.ErrUnsupported].
func (e *Error) Unwrap() []error {
	var errs []error
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	if e.Remote && e.Code == RDMAPOpcode {
		errs = append(errs, errors.ErrUnsupported)
	}
	if e.Code == MPAConnectionLost && !errors.Is(e.Err, net.ErrClosed) {
		errs = append(errs, net.ErrClosed)
	}
	return errs
}

// Is reports whether target is an *Error with the same Code and Remote.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Remote == e.Remote
}

// CodeOf finds the triple of the first *Error in err's tree.
func CodeOf(err error) (Code, bool) {
	var e *Error
	if errors.As(err, &e) {
		return e.Code, true
	}
	return 0, false
}
