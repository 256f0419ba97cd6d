package mpa

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp/protocol"
)

// Initiate sends a Request over nc, waits for the Reply and enters Full
// Operation. It blocks until then, at most as long as ctx lives: ctx covers the
// whole exchange, so that a peer that sends one octet at a time does not prolong
// it. nc may have carried other data before; nothing of it may be left unread.
//
// On success the Conn owns nc, and deadlines of nc are cleared. Otherwise:
//
//   - *[RejectError]: the Responder refuses. nc is open and the caller's again; not
//     one octet behind the Reply has been read.
//   - *[DeclinedError]: o.VerifyReply turns the Reply down. Likewise.
//   - *[protocol.Error] with [protocol.MPAInsufficientIRD] or [protocol.MPANoMatchingRTR]: the Conn is
//     returned too, so that the ULP can send a Terminate and close it.
//   - *[protocol.Error] with [protocol.MPAConnectionLost]: the connection ended before one octet of a
//     Reply. This is how a Responder without RFC 6581 answers a Request of revision 2. nc is closed.
//   - *[protocol.Error] with [protocol.MPAStartup]: any other failure, the end of ctx included, whose
//     error is then inside. nc is closed.
//   - any other: o cannot be used. Nothing was sent, nc is open.
func Initiate(ctx context.Context, nc net.Conn, o *Options) (*Conn, error) {
	req, err := NewRequest(o)
	if err != nil {
		return nil, err
	}
	frame, err := req.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	// Rule: MPA-7.1-03
	g := guard(ctx, nc)
	if err := g.write(frame); err != nil {
		return nil, g.fail(exchange{kind: Request, sending: true}, err)
	}
	reply, err := g.readReply(o.orDefault().RDMAC.admits)
	if err != nil {
		return nil, err
	}
	p, err := Conclude(&req, &reply, o)
	code, _ := protocol.CodeOf(err)
	if code == protocol.MPAStartup {
		return nil, g.refuse(err)
	}
	if err == nil {
		if err = o.verify(p); err == nil && ctx.Err() != nil {
			return nil, g.fail(exchange{kind: Reply, judging: true}, ctx.Err())
		}
	}
	g.release()
	// Rule: MPA-7.1.4.2-02
	if err != nil && code == 0 { // a refusal, by either end
		return nil, err
	}
	// Rule: MPA-7.1.2-13
	return NewConn(nc, p, o), err
}

// DeclinedError says that this end's ULP turned down the Responder's Reply. TCP stays
// open and is the caller's again, and no octet behind the Reply has been read
// (https://www.rfc-editor.org/rfc/rfc5044#section-7.1.2 rule 3).
type DeclinedError struct{ Err error } // of VerifyReply

// Error tells who declined, and why.
func (e *DeclinedError) Error() string {
	return fmt.Sprintf("iwarp: this end turns the Reply down: %v", e.Err)
}

// Unwrap returns the reason.
func (e *DeclinedError) Unwrap() error { return e.Err }

// verify asks the ULP about a good Reply.
func (o *Options) verify(p Params) error {
	if o == nil || o.VerifyReply == nil {
		return nil
	}
	p.PrivateData = slices.Clone(p.PrivateData)
	// Rule: MPA-7.1.2-16
	if err := o.VerifyReply(p); err != nil {
		return &DeclinedError{err}
	}
	return nil
}

// Incoming is a Request that has arrived and waits for Accept or Reject.
type Incoming struct {
	nc       net.Conn
	req      Startup
	answered atomic.Bool
}

// ErrAnswered says that a Request has been accepted or rejected already.
var ErrAnswered = errors.New("iwarp: the Request has been answered already")

// ReadRequest waits for a Request on nc, at most as long as ctx lives: ctx bounds
// the time to the Request's last octet. Octets behind the Request are a startup
// error, as the Initiator must wait for the Reply, and so is a revision that o
// does not admit. o may be nil.
//
// The error is a *[protocol.Error], with [protocol.MPAConnectionLost] if the connection
// ended before the first octet and [protocol.MPAStartup] otherwise; the error of ctx is
// inside if that has ended. nc is closed on every error. On success it belongs to the
// Incoming, and its deadlines are cleared.
func ReadRequest(ctx context.Context, nc net.Conn, o *RequestOptions) (*Incoming, error) {
	if o == nil {
		o = &RequestOptions{}
	}
	g := guard(ctx, nc)
	req, err := g.readRequest(o)
	if err != nil {
		return nil, err
	}
	// Rule: MPA-7.1.2-22, MPA-7.1.2-23
	if n := len(req.ULPData()); o.MaxPrivateData != 0 && n > max(0, o.MaxPrivateData) {
		return nil, g.refuse(startupError("RFC 5044 section 7.1.2",
			"%d octets of Private Data, this end takes %d", n, max(0, o.MaxPrivateData)))
	}
	if req.Revision == Revision0 && o.RDMAC == RDMACNonPermissive {
		return nil, g.disappoint(&req)
	}
	g.release()
	return &Incoming{nc: nc, req: req}, nil
}

// NetConn returns the conn that the Request came from.
func (in *Incoming) NetConn() net.Conn { return in.nc }

// Request returns a copy of the Request as received.
func (in *Incoming) Request() *Startup {
	s := in.req
	s.PrivateData = slices.Clone(s.PrivateData)
	return &s
}

// PrivateData returns a copy of what the peer's ULP sent.
func (in *Incoming) PrivateData() []byte { return slices.Clone(in.req.ULPData()) }

// Accept sends the Reply and enters Full Operation. It blocks while the Reply is
// written, at most as long as ctx lives. An error of [Answer] about o leaves the
// Request unanswered; every other one closes the conn.
func (in *Incoming) Accept(ctx context.Context, o *Options) (*Conn, error) {
	reply, p, err := Answer(&in.req, o)
	if err != nil {
		return nil, err
	}
	if err := in.answer(ctx, &reply); err != nil {
		return nil, err
	}
	// Rule: MPA-7.1-02, MPA-7.1-06, MPA-7.1.2-04
	return NewConn(in.nc, p, o), nil
}

// Reject sends a Reply that refuses, with pd for the peer's ULP and, if the
// Request is one of RFC 6581, with the RTR kinds, IRD and ORD of o; see
// [RejectReply]. It blocks as Accept does. Afterwards the conn is the caller's
// again, and open (https://www.rfc-editor.org/rfc/rfc5044#section-7.1.2 rule 2).
func (in *Incoming) Reject(ctx context.Context, o *Options, pd []byte) error {
	reply, err := RejectReply(&in.req, o, pd)
	if err != nil {
		return err
	}
	// Rule: MPA-7.1.2-07, MPA-7.1.4.2-01
	return in.answer(ctx, &reply)
}

// Close closes the conn without an answer.
func (in *Incoming) Close() error { return in.nc.Close() }

func (in *Incoming) answer(ctx context.Context, reply *Startup) error {
	frame, err := reply.AppendTo(nil)
	if err != nil {
		return err
	}
	if in.answered.Swap(true) {
		return ErrAnswered
	}
	g := guard(ctx, in.nc)
	if err := g.write(frame); err != nil {
		return g.fail(exchange{kind: Reply, sending: true}, err)
	}
	g.release()
	return nil
}

// guarded is a conn whose reads and writes end with a context.
type guarded struct {
	ctx  context.Context
	nc   net.Conn
	stop func() bool
	done chan struct{}
}

// longAgo is a deadline that has passed on every clock.
var longAgo = time.Unix(1, 0)

func guard(ctx context.Context, nc net.Conn) *guarded {
	g := &guarded{ctx: ctx, nc: nc, done: make(chan struct{})}
	// Rule: MPA-7.1.2-20, MPA-7.1.2-25
	g.stop = context.AfterFunc(ctx, func() {
		defer close(g.done)
		if nc.SetDeadline(longAgo) != nil {
			_ = nc.Close() // a conn without deadlines can be woken in no other way
		}
	})
	return g
}

// release ends the guard and clears the deadline. It waits for a cancellation that
// is under way, which would set the deadline afterwards.
func (g *guarded) release() {
	if !g.stop() {
		<-g.done
	}
	_ = g.nc.SetDeadline(time.Time{})
}

// refuse closes the conn, at once as RFC 5044 section 8 wants, and passes err on.
func (g *guarded) refuse(err error) error {
	// Rule: MPA-7.1.2-05, MPA-7.1.2-11, MPA-8-05, MPA-8-11
	g.release()
	_ = g.nc.Close()
	return err
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func (g *guarded) write(frame []byte) error {
	if err := g.ctx.Err(); err != nil {
		return err
	}
	_, err := writeEach(g.nc, [][]byte{frame})
	return err
}

// readReply reads exactly the Reply: what follows may not be MPA's.
func (g *guarded) readReply(judge func(revision uint8) error) (Startup, error) {
	b := make([]byte, 0, maxStartupLen)
	for {
		s, _, err := parseAcceptable(b, Reply, judge)
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			return Startup{}, g.refuse(err)
		}
		// Rule: MPA-7.1-01
		next := StartupHeaderLen
		if len(b) >= StartupHeaderLen {
			next += int(b[keyLen+2])<<8 | int(b[keyLen+3])
		}
		if b, err = g.read(b, next); err != nil {
			return Startup{}, g.fail(exchange{kind: Reply, came: len(b)}, err)
		}
	}
}

// readRequest reads a Request and takes everything that has arrived with it: the
// Initiator has no right to send more before the Reply.
func (g *guarded) readRequest(o *RequestOptions) (Startup, error) {
	b := make([]byte, 0, maxStartupLen+1)
	// Rule: MPA-7.1-04, MPA-7.1.5-01
	b = append(b, o.Buffered[:min(len(o.Buffered), cap(b))]...)
	for {
		s, n, err := parseAcceptable(b, Request, o.judge)
		switch {
		// Rule: MPA-7.1.2-09, MPA-7.1-01
		case err == nil && n < len(b):
			return Startup{}, g.refuse(startupError("RFC 5044 section 7.1.2",
				"octets follow the Request of %d octets, the Initiator must wait for the Reply", n))
		case err == nil:
			return s, nil
		case !errors.Is(err, io.ErrUnexpectedEOF):
			return Startup{}, g.refuse(err)
		}
		if b, err = g.read(b, cap(b)); err != nil {
			return Startup{}, g.fail(exchange{kind: Request, came: len(b)}, err)
		}
	}
}

// disappoint tells an RDMAC peer which revision this end speaks, and ends the
// connection gracefully (RFC 5044 Appendix C.2.1).
func (g *guarded) disappoint(req *Startup) error {
	reply := Startup{Kind: Reply, Revision: Revision1, CRC: true}
	// Rule: MPA-C.2-01
	if frame, err := reply.AppendTo(nil); err == nil {
		_ = g.write(frame)
	}
	if cw, ok := g.nc.(interface{ CloseWrite() error }); ok {
		_ = cw.CloseWrite()
	}
	return g.refuse(RDMACNonPermissive.admits(req.Revision))
}

// parseAcceptable is [ParseStartup] that also has the revision judged, as soon as
// its octet is there.
func parseAcceptable(b []byte, want Kind, judge func(revision uint8) error) (Startup, int, error) {
	s, n, err := ParseStartup(b, want)
	if errors.Is(err, io.ErrUnexpectedEOF) && len(b) > keyLen+1 || err == nil {
		if rerr := judge(b[keyLen+1]); rerr != nil {
			return Startup{}, 0, rerr
		}
	}
	return s, n, err
}

// read reads once into b, up to b[:limit].
func (g *guarded) read(b []byte, limit int) ([]byte, error) {
	for range 100 {
		n, err := g.nc.Read(b[len(b):limit])
		if n > 0 {
			return b[:len(b)+n], nil // an error comes again with the next read
		}
		if errors.Is(err, io.EOF) && len(b) > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return b, err
		}
	}
	return b, io.ErrNoProgress
}
