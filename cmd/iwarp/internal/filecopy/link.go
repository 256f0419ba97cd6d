package filecopy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/tree"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/wire"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

// link is a connection of the client. One goroutine uses it.
type link struct {
	conn     *iwarp.Conn
	patience time.Duration
	in       []byte
	buf      []byte // a chunk
	region   iwarp.RemoteBuffer
	session  []byte
	readOnly bool
	open     map[*pull]uint64 // handles of files that this connection has open
}

// serverError is what the server answered: the connection is well.
type serverError struct{ text string }

func (e *serverError) Error() string { return "the server: " + e.text }

// newLink greets the server; session is that of another connection, or nil.
func newLink(
	ctx context.Context,
	conn *iwarp.Conn,
	token string,
	session []byte,
	patience time.Duration,
) (*link, error) {
	l := &link{
		conn: conn, patience: patience, in: make([]byte, wire.MaxMessage), buf: make([]byte, wire.Chunk),
		open: map[*pull]uint64{},
	}
	nonce := wire.NewNonce()
	rep, err := l.ask(ctx, &wire.Request{Op: wire.Hello, Version: wire.Version, Nonce: nonce})
	if err != nil {
		return nil, err
	}
	if rep.Version != wire.Version {
		return nil, fmt.Errorf("the server speaks version %d: expected %d", rep.Version, wire.Version)
	}
	proofs, err := wire.NewProofs(token, conn.NetConn(), nonce, rep.Nonce)
	if err != nil {
		return nil, err
	}
	if token != "" { // else whoever it is serves what we ask for
		if err := wire.VerifyProof(rep.Proof, proofs.Server); err != nil {
			return nil, err
		}
	}
	if rep, err = l.ask(ctx, &wire.Request{Op: wire.Prove, Proof: proofs.Client, Session: session}); err != nil {
		return nil, err
	}
	if l.region, err = wire.Buffer(rep.Region); err != nil {
		return nil, err
	}
	if l.region.Length < wire.Chunk {
		return nil, fmt.Errorf("a region of %d octets: expected %d", l.region.Length, wire.Chunk)
	}
	l.session, l.readOnly = rep.Session, rep.ReadOnly
	return l, nil
}

// ask sends a request and returns the reply to it. A serverError leaves the connection
// as it is.
func (l *link) ask(ctx context.Context, req *wire.Request) (*wire.Reply, error) {
	if err := l.send(ctx, req); err != nil {
		return nil, err
	}
	return l.answer(ctx, req.Op)
}

func (l *link) send(ctx context.Context, req *wire.Request) error {
	b, err := wire.Marshal(req)
	if err != nil {
		return err
	}
	return l.within(ctx, func(ctx context.Context) error { return l.conn.Send(ctx, b) })
}

func (l *link) answer(ctx context.Context, op wire.Op) (*wire.Reply, error) {
	var m iwarp.Message
	if err := l.within(ctx, func(ctx context.Context) (err error) {
		m, err = l.conn.Recv(ctx, l.in)
		return err
	}); err != nil {
		return nil, fmt.Errorf("%v: %w", op, err)
	}
	rep := new(wire.Reply)
	if err := wire.Unmarshal(l.in[:m.Length], rep); err != nil {
		return nil, fmt.Errorf("%v: the server's answer: %w", op, err)
	}
	if rep.Err != "" {
		return nil, &serverError{rep.Err}
	}
	return rep, nil
}

// within bounds how long a call waits for the server.
func (l *link) within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.patience, fmt.Errorf("%w after %v", errSilent, l.patience))
	defer cancel()
	if err := f(ctx); err != nil {
		return &linkError{ui.CauseOf(ctx, err)}
	}
	return nil
}

// linkError is an error of the connection, which is not to be used any more.
type linkError struct{ err error }

func (e *linkError) Error() string { return e.err.Error() }
func (e *linkError) Unwrap() error { return e.err }

// errSilent is the error of a server that does not answer.
var errSilent = errors.New("no answer of the server")

// push writes the data of a chunk into the region.
func (l *link) push(ctx context.Context, chunk []byte, spans []tree.Span) error {
	for _, s := range spans {
		to := l.region.Slice(uint64(s.Off), uint64(s.Len))
		if err := l.within(
			ctx,
			func(ctx context.Context) error { return l.conn.RDMAWrite(ctx, chunk[s.Off:][:s.Len], to) },
		); err != nil {
			return err
		}
	}
	return nil
}

// fetch reads the data of a chunk into l.buf.
func (l *link) fetch(ctx context.Context, from iwarp.RemoteBuffer, spans []tree.Span) error {
	for _, s := range spans {
		at := from.Slice(uint64(s.Off), uint64(s.Len))
		if err := l.within(
			ctx,
			func(ctx context.Context) error { return l.conn.RDMARead(ctx, l.buf[s.Off:][:s.Len], at) },
		); err != nil {
			return err
		}
	}
	return nil
}

// list calls each with the entries below a path at the server.
func (l *link) list(ctx context.Context, p string, recursive bool, each func(tree.Entry, error) error) error {
	req := &wire.Request{Op: wire.List, Entries: []wire.Entry{{Path: []byte(p)}}, Recursive: recursive}
	for {
		rep, err := l.ask(ctx, req)
		if err != nil {
			return err
		}
		for i := range rep.Entries {
			e, err := rep.Entries[i].Tree()
			if err := each(e, err); err != nil {
				return err
			}
		}
		if !rep.More {
			return nil
		}
		req = &wire.Request{Op: wire.List}
	}
}

// stat describes an entry at the server.
func (l *link) stat(ctx context.Context, p string) (tree.Entry, error) {
	rep, err := l.ask(ctx, &wire.Request{Op: wire.Stat, Entries: []wire.Entry{{Path: []byte(p)}}})
	if err != nil {
		return tree.Entry{}, err
	}
	if len(rep.Entries) != 1 {
		return tree.Entry{}, fmt.Errorf("stat: %d entries: expected one", len(rep.Entries))
	}
	return rep.Entries[0].Tree()
}

// dead reports whether the connection has ended.
func (l *link) dead() bool {
	select {
	case <-l.conn.Done():
		return true
	default:
		return false
	}
}

// close ends the connection, if there is one.
func (l *link) close() {
	if l == nil {
		return
	}
	if l.dead() {
		l.conn.Abort()
		return
	}
	_ = l.conn.Close()
}
