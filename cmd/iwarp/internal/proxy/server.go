package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/stream"
)

// listener is where connections come from.
type listener interface {
	accept(ctx context.Context) (net.Conn, error)
	Addr() net.Addr
	Close() error
}

// server takes connections and has each passed on.
type server struct {
	out     *ui.Output
	to      endpoint
	timeout time.Duration
	grace   time.Duration
	places  chan struct{}           // one for each connection at once
	wrap    func(net.Conn) net.Conn // records what is iWARP; may be nil
	// pass connects to where l goes on, and passes on what the two send until both have ended, ctx ends or an error. It
	// closes nc.
	pass func(ctx context.Context, l *link, nc net.Conn) error

	wg   sync.WaitGroup
	mu   sync.Mutex
	open int // links that are up
	sum  summaryEvent
}

// link is one connection through the proxy.
type link struct {
	number         uint64
	peer           string
	begin          time.Time
	sent, received atomic.Int64 // octets of the peer, the one who has connected
	faults         atomic.Uint64
	up             bool
}

// run serves until ctx ends, and the links until grace has passed after that.
func (s *server) run(ctx context.Context, ln listener) error {
	links, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	err := s.take(ctx, links, ln)
	_ = ln.Close()
	s.mu.Lock()
	open := s.open
	s.mu.Unlock()
	if open > 0 {
		s.out.Emit(stoppingEvent{Connections: open, Grace: s.grace})
	}
	last := time.AfterFunc(s.grace, cancel)
	defer last.Stop()
	s.wg.Wait()
	s.out.Emit(s.sum)
	return err
}

// take accepts connections until ctx ends or no more can come. The links live in links.
func (s *server) take(ctx, links context.Context, ln listener) error {
	var failures ui.AcceptFailures
	for {
		select {
		case s.places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		nc, err := ln.accept(ctx)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				reset(nc)
			}
			return nil
		case err != nil && ui.Passes(err):
			<-s.places
			failures.Pause(ctx, err, func(err error) { s.out.Emit(ui.NewErrorEvent(err)) })
			continue
		case err != nil:
			return err
		}
		failures = 0
		s.mu.Lock()
		s.sum.Connections++
		l := &link{number: s.sum.Connections, peer: nc.RemoteAddr().String(), begin: time.Now()}
		s.mu.Unlock()
		s.wg.Go(func() {
			defer func() { <-s.places }()
			s.ended(l, s.pass(links, l, nc))
		})
	}
}

// connected tells that a link stands.
func (s *server) connected(l *link) {
	s.mu.Lock()
	l.up = true
	s.open++
	s.mu.Unlock()
	s.out.Emit(connectedEvent{Connection: l.number, Peer: l.peer, To: s.to.String()})
}

// ended tells how a link has ended, and counts it.
func (s *server) ended(l *link, err error) {
	s.mu.Lock()
	if l.up {
		s.open--
	}
	if err != nil {
		s.sum.Failed++
	}
	s.sum.Sent += l.sent.Load()
	s.sum.Received += l.received.Load()
	s.sum.Faults += l.faults.Load()
	s.mu.Unlock()
	if !l.up {
		e := ui.NewErrorEvent(err)
		e.Peer = l.peer
		s.out.Emit(e)
		return
	}
	e := disconnectedEvent{
		Connection: l.number, Peer: l.peer, Sent: l.sent.Load(), Received: l.received.Load(),
		Faults: l.faults.Load(), Duration: time.Since(l.begin),
	}
	switch {
	case errors.Is(err, syscall.ENOTCONN): // of shutdown
		e.Error = "an end had gone before the FIN of the other came"
	case err != nil:
		e.Error = err.Error()
	}
	s.out.Emit(e)
}

// tcpListener takes connections of TCP.
type tcpListener struct{ net.Listener }

func listenTCP(ctx context.Context, addr string) (listener, error) {
	nl, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return tcpListener{nl}, nil
}

func (l tcpListener) accept(ctx context.Context) (net.Conn, error) {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	return l.Accept()
}

// streamListener takes streams.
type streamListener struct{ *stream.Listener }

func (l streamListener) accept(ctx context.Context) (net.Conn, error) {
	c, err := l.AcceptStream(ctx)
	if err != nil {
		return nil, err // not a nil *stream.Conn
	}
	return c, nil
}

// listenStream listens for streams.
func (s *server) listenStream(ctx context.Context, addr string, pending int) (listener, error) {
	lc := &stream.ListenConfig{Config: s.streamConfig(), MaxPending: pending}
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return streamListener{ln}, nil
}

func (s *server) streamConfig() *stream.Config {
	return &stream.Config{Conn: &iwarp.Config{
		StartupTimeout: s.timeout, Logger: ui.StartupLog(s.out), Wrap: s.wrap,
	}}
}

// dialTCP connects to --to.
func (s *server) dialTCP(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return new(net.Dialer).DialContext(ctx, "tcp", s.to.address())
}

// dialStream likewise.
func (s *server) dialStream(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return (&stream.Dialer{Config: s.streamConfig()}).DialContext(ctx, "tcp", s.to.address())
}

// errStopped ends the links that are left when the proxy ends.
var errStopped = errors.New("the proxy was told to stop")

// reset ends a connection so that its peer learns that not all has been sent.
func reset(nc net.Conn) {
	if c, ok := nc.(*stream.Conn); ok {
		c.Abort()
		return
	}
	if c, ok := nc.(interface{ SetLinger(sec int) error }); ok {
		_ = c.SetLinger(0)
	}
	_ = nc.Close()
}
