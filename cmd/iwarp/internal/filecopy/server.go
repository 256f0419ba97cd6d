package filecopy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/tree"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/wire"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

// Bounds of what a client may hold at the server.
const (
	maxSinks   = 64              // files of a session that are being made
	maxSources = 16              // open files of a connection
	idle       = 5 * time.Minute // without a request
	proofWait  = 10 * time.Second
)

// server serves a tree.
type server struct {
	tree     *tree.Tree
	token    string
	readOnly bool
	out      *ui.Output

	mu       sync.Mutex
	sessions map[string]*session
	done     totals
	clients  uint64 // connections that have proved themselves
	failed   uint64
}

// totals is what has been moved.
type totals struct {
	Files  uint64 `json:"files"`
	Octets uint64 `json:"octets"`
}

// session is what the connections of one client have in common: the files that are
// being made.
type session struct {
	tree *tree.Tree
	id   string
	refs int

	mu    sync.Mutex
	sinks map[uint64]*sink
	next  uint64
}

// sink is a file that is being made. Those that write hold mu for reading.
type sink struct {
	*tree.Sink
	entry tree.Entry
	mu    sync.RWMutex
	ended bool
}

// run accepts connections until ctx ends; slots bounds them.
func (s *server) run(ctx context.Context, ln *iwarp.Listener, slots int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	places := make(chan struct{}, slots)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := ln.Accept(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("taking clients: %w", err)
		}
		wg.Go(func() {
			defer func() { <-places }()
			s.client(ctx, conn)
		})
	}
}

// client is the life of one connection.
func (s *server) client(ctx context.Context, conn *iwarp.Conn) {
	c := &served{server: s, conn: conn, in: make([]byte, wire.MaxMessage)}
	err := c.serve(ctx)
	c.end()
	s.count(func() {
		if err != nil && ctx.Err() == nil {
			s.failed++
		}
	})
	if err != nil {
		if ctx.Err() == nil {
			e := ui.NewErrorEvent(err)
			e.Peer = conn.RemoteAddr().String()
			s.out.Emit(e)
		}
		conn.Abort() // also when the server is told to stop: a client that is idle would be waited for
		return
	}
	_ = conn.Close() // what becomes of it is the client's business
}

func (s *server) count(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// join returns the session with an ID, or a new one where there is none (any more).
func (s *server) join(id []byte) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients++
	if len(id) > 0 {
		if x := s.sessions[string(id)]; x != nil {
			x.refs++
			return x, nil
		} // else all its connections broke, and it ended
	}
	sub, err := s.tree.Sub()
	if err != nil {
		return nil, err
	}
	x := &session{tree: sub, id: rand.Text(), refs: 1, sinks: map[uint64]*sink{}}
	s.sessions[x.id] = x
	return x, nil
}

// leave ends a session with its last connection. What is not complete stays for the
// next run.
func (s *server) leave(x *session) {
	s.mu.Lock()
	x.refs--
	last := x.refs == 0
	if last {
		delete(s.sessions, x.id)
	}
	s.mu.Unlock()
	if !last {
		return
	}
	for _, k := range x.sinks {
		_ = k.Suspend()
	}
	_ = x.tree.Close()
}

// served is one connection at the server.
type served struct {
	*server
	conn    *iwarp.Conn
	in      []byte // a request
	session *session
	region  []byte // that the client reads and writes
	mr      *iwarp.MR
	scratch []byte // a chunk of a file to compare
	sources map[uint64]*source
	next    uint64
	list    *listing
}

// source is a file that the client reads.
type source struct {
	*tree.Source
	mr *iwarp.MR // nil where the file is not mapped
}

func (c *served) end() {
	if c.list != nil {
		c.list.stop()
	}
	if c.mr != nil {
		_ = c.mr.Close()
	}
	for _, s := range c.sources {
		s.end()
	}
	if c.session != nil {
		c.leave(c.session)
	}
}

func (s *source) end() {
	if s.mr != nil {
		_ = s.mr.Close() // waits for what is being read for the client
	}
	_ = s.Close()
}

// serve answers requests until the client closes.
func (c *served) serve(ctx context.Context) error {
	if err := c.greet(ctx); err != nil {
		return err
	}
	for {
		req, err := c.receive(ctx, idle)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.reply(ctx, c.do(req)); err != nil {
			return err
		}
	}
}

func (c *served) receive(ctx context.Context, patience time.Duration) (*wire.Request, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no request for %v", patience))
	defer cancel()
	m, err := c.conn.Recv(ctx, c.in)
	if err != nil {
		return nil, ui.CauseOf(ctx, err)
	}
	req := new(wire.Request)
	return req, wire.Unmarshal(c.in[:m.Length], req)
}

func (c *served) reply(ctx context.Context, r *wire.Reply) error {
	b, err := wire.Marshal(r)
	if err != nil {
		b, err = wire.Marshal(&wire.Reply{Err: wire.ErrText(err)})
	}
	if err != nil {
		return err
	}
	return c.conn.Send(ctx, b)
}

// greet has both ends prove that they know the token, and gives the client a region.
func (c *served) greet(ctx context.Context) error {
	nonce := wire.NewNonce()
	hello, err := c.receive(ctx, proofWait)
	if err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	if hello.Op != wire.Hello || hello.Version != wire.Version {
		err := fmt.Errorf("%v of version %d: expected hello of version %d", hello.Op, hello.Version, wire.Version)
		return errors.Join(err, c.reply(ctx, &wire.Reply{Version: wire.Version, Err: wire.ErrText(err)}))
	}
	proofs, err := wire.NewProofs(c.token, c.conn.NetConn(), hello.Nonce, nonce)
	if err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	if err := c.reply(ctx, &wire.Reply{Version: wire.Version, Nonce: nonce, Proof: proofs.Server}); err != nil {
		return err
	}
	prove, err := c.receive(ctx, proofWait)
	if err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	if prove.Op != wire.Prove {
		err = fmt.Errorf("%v: expected a proof", prove.Op)
	} else {
		err = wire.VerifyProof(prove.Proof, proofs.Client)
	}
	if err == nil {
		c.session, err = c.join(prove.Session)
	}
	if err != nil {
		return errors.Join(err, c.reply(ctx, &wire.Reply{Err: wire.ErrText(err)}))
	}
	return c.welcome(ctx)
}

// welcome tells the client of its session and its region.
func (c *served) welcome(ctx context.Context) error {
	c.sources = map[uint64]*source{}
	c.region = make([]byte, wire.Chunk)
	var err error
	if c.mr, err = c.conn.NewMR(c.region, iwarp.RemoteRead|iwarp.RemoteWrite); err != nil {
		return err
	}
	region, err := c.mr.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	return c.reply(ctx, &wire.Reply{Session: []byte(c.session.id), Region: region, ReadOnly: c.readOnly})
}
