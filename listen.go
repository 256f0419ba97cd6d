package iwarp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// ListenConfig configures a [Listener]. Nil, and zero in a field, mean the documented
// default.
type ListenConfig struct {
	// Config is of the connections that [Listener.Accept] makes. It must have no QP, since a
	// listener has many connections; [ConnRequest.Accept] can use another one.
	Config *Config
	// NetListenConfig makes the TCP listener; nil means a zero net.ListenConfig.
	NetListenConfig *net.ListenConfig

	// MaxPending bounds the startups that a listener has under way or waiting for its
	// program. At the bound a new connection takes the place of a silent one, whose
	// Request has not come: of the peer that has the most of these, the oldest. So
	// silent connections keep nobody out, and a peer has at least as long as
	// MaxPending newer ones take to arrive. One whose Request has come is not
	// dropped; while all are such, further connections wait in the kernel's queue.
	// Default 128.
	MaxPending int
	// MaxPendingPerPeer bounds those of one peer, in the same way; but beyond it, and
	// with none of them silent, a connection is closed at once. A peer is an
	// IPv4 address or an IPv6 network of 64 bits. Default MaxPending: no bound.
	MaxPendingPerPeer int

	// InOrder, if not zero, has requests handed up in the order in which their
	// connections were taken from the network, which is TCP's; without it they come as
	// their Requests do. A connection whose Request has not come holds those behind it
	// up for at most so long.
	InOrder time.Duration
}

// Listener accepts iWARP connections. Startups run side by side, so that a slow peer
// delays nobody, and at most [ListenConfig.MaxPending] at a time: beyond that each new
// connection takes the place of a silent one, whose Request has not come yet.
type Listener struct {
	ll      LLPListener
	cfg     *Config
	queue   chan *ConnRequest
	pending *pending
	order   *order // nil: none
	ctx     context.Context
	cancel  context.CancelCauseFunc
	wg      sync.WaitGroup
	failed  chan struct{}
	err     error // of ll; valid when failed is closed
	conns   connSet
	ended   atomic.Bool
	reject  atomic.Pointer[context.Context] // set by Shutdown: Requests that wait are rejected

	logFailed, logDropped, logRefused, logAccept logLimit
	events                                       eventLog
}

// Listen listens on a TCP address. network is "tcp", "tcp4" or "tcp6". cfg may be
// nil. See [ListenConfig] for more.
func Listen(network, address string, cfg *Config) (*Listener, error) {
	return (&ListenConfig{Config: cfg}).Listen(context.Background(), network, address)
}

// NewListener accepts iWARP connections from nl, which may be of any kind: TLS, a
// unix socket. The Listener owns nl, unless there is an error. cfg may be nil. See
// [ListenConfig] for more.
func NewListener(nl net.Listener, cfg *Config) (*Listener, error) {
	return (&ListenConfig{Config: cfg}).NewListener(nl)
}

// Listen is like the function [Listen]. ctx bounds the lookup of address, as it does in
// [net.ListenConfig], and does not affect the listener.
func (c *ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, net.UnknownNetworkError(network)
	}
	n, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	nl, err := n.NetListenConfig.Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return newListener(netListener{nl, n.Config}, n), nil
}

// NewListener is like the function [NewListener].
func (c *ListenConfig) NewListener(nl net.Listener) (*Listener, error) {
	n, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if nl == nil {
		return nil, fmt.Errorf("iwarp: the net.Listener is nil: %w", os.ErrInvalid)
	}
	return newListener(netListener{nl, n.Config}, n), nil
}

// withDefaults copies c, fills in the defaults and checks the ranges.
func (c *ListenConfig) withDefaults() (*ListenConfig, error) {
	var n ListenConfig
	if c != nil {
		n = *c
	}
	if n.Config != nil && n.Config.QP != nil {
		return nil,
			errors.New("iwarp: Config.QP is set for a listener: give each connection its QP with ConnRequest.Accept")
	}
	if n.NetListenConfig == nil {
		n.NetListenConfig = &net.ListenConfig{}
	}
	err := settle(limit{"ListenConfig.MaxPending", &n.MaxPending, 128, 1, 1 << 20})
	if err != nil {
		return nil, err
	}
	most := n.MaxPending
	err = settle(limit{"ListenConfig.MaxPendingPerPeer", &n.MaxPendingPerPeer, most, 1, most})
	if err != nil {
		return nil, err
	}
	n.Config, err = n.Config.withDefaults()
	return &n, err
}

func newListener(ll LLPListener, c *ListenConfig) *Listener {
	l := &Listener{
		ll: ll, cfg: c.Config, queue: make(chan *ConnRequest), pending: newPending(c.MaxPending, c.MaxPendingPerPeer),
		failed: make(chan struct{}),
	}
	l.events.logger = c.Config.Logger
	if c.InOrder > 0 {
		l.order = &order{patience: c.InOrder}
	}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.wg.Add(1)
	go l.acceptLoop()
	return l
}

// acceptLoop takes connections, and makes room for each.
func (l *Listener) acceptLoop() {
	defer l.wg.Done()
	var pause time.Duration
	for {
		lc, err := l.ll.Accept()
		if err == nil {
			pause = 0
			l.admit(lc)
			continue
		}
		if !l.mayRecover(err, &pause) {
			l.err = err
			close(l.failed)
			return
		}
	}
}

// admit starts the startup of a connection as soon as there is room, which there is
// when a silent one has gone; or when the program has taken a request, if none of
// those under way is silent.
func (l *Listener) admit(lc LLPConn) {
	ctx, cancel := context.WithCancelCause(l.ctx)
	s := &startup{lc: lc, cancel: cancel, turn: l.order.next(), id: newID()}
	for {
		switch l.pending.enter(s) {
		case admitted:
			l.wg.Add(1)
			go l.startup(ctx, s)
			return
		case refused:
			l.cfg.Device.census.startupRefused()
			l.log(&l.logRefused, "iwarp startup refused: MaxPendingPerPeer", "conn", s.id, "remote", lc.RemoteAddr())
			s.turn.failed()
			cancel(nil)
			_ = lc.Close()
			return
		case later:
		}
		select {
		case <-l.pending.room:
		case <-l.ctx.Done():
			cancel(nil)
			_ = lc.Close()
			return
		}
	}
}

// mayRecover waits a little after an error of Accept that passes (no descriptor left),
// longer each time, and drops silent startups, which hold descriptors.
func (l *Listener) mayRecover(err error, pause *time.Duration) bool {
	var temporary interface{ Temporary() bool } // as net/http does
	if !errors.As(err, &temporary) || !temporary.Temporary() {
		return false
	}
	*pause = min(max(2**pause, 5*time.Millisecond), time.Second)
	l.pending.relieve()
	l.log(&l.logAccept, "iwarp accept", "local", l.Addr(), "error", err, "retry_in", *pause)
	timer := time.NewTimer(*pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// errCrowdedOut is why a silent startup ends when its room is needed.
var errCrowdedOut = errors.New("iwarp: the listener needed the room for a newer connection (ListenConfig.MaxPending)")

// startup reads the Request of one connection and hands it up. Its room is free again
// when the program has taken the request.
func (l *Listener) startup(ctx context.Context, s *startup) {
	defer l.wg.Done()
	defer s.cancel(nil)
	defer l.pending.leave(s)
	r, err := readRequest(ctx, s.lc, nil, l.cfg, s.id, s.since)
	if err != nil {
		_ = s.lc.Close()
		s.turn.failed()
		limit, what := &l.logFailed, "iwarp startup failed"
		if l.pending.failed(s) {
			limit, what = &l.logDropped, "iwarp startup dropped"
		}
		l.log(limit, what, "conn", s.id, "remote", s.lc.RemoteAddr(), "duration", time.Since(s.since), "error", err)
		return
	}
	r.listener = l
	l.pending.proven(s)
	s.turn.wait(l.ctx)
	defer s.turn.passed()
	select {
	case l.queue <- r:
	case <-l.ctx.Done():
		if ctx := l.reject.Load(); ctx != nil {
			_, _ = r.Reject(*ctx, nil)
		}
		_ = r.Close()
	}
}

// ListenerStats counts what has come to a listener since it began.
type ListenerStats struct {
	Connections  uint64 // that startup has begun on
	Requests     uint64 // valid Requests that have come
	Failed       uint64 // startups that ended without one: a bad frame, StartupTimeout, a peer that went away
	Dropped      uint64 // silent startups whose room was needed: MaxPending, MaxPendingPerPeer, or no descriptor left
	Refused      uint64 // connections closed at once, for MaxPendingPerPeer
	AcceptErrors uint64 // failures to take a connection that passed, such as no descriptor left

	// Silent is how many startups wait for a Request now, Waiting how many Requests
	// wait for AcceptRequest. Together they are at most MaxPending.
	Silent, Waiting int
}

// Stats returns the listener's counters.
func (l *Listener) Stats() ListenerStats { return l.pending.snapshot() }

// log warns at a bounded rate, since anybody on the network can cause the event: of
// those of one kind it logs one a second, and says how many it has left out.
func (l *Listener) log(limit *logLimit, what string, args ...any) {
	if l.cfg.Logger == nil {
		return
	}
	if n, ok := limit.pass(time.Now()); ok {
		if n > 0 {
			args = append(args, "more_before", n)
		}
		l.events.log(slog.LevelWarn, what, args...)
	}
}

// logLimit lets one event a second pass.
type logLimit struct {
	mu      sync.Mutex
	next    time.Time
	leftOut uint64 // since the last one that passed
}

func (l *logLimit) pass(now time.Time) (leftOut uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		l.leftOut++
		return 0, false
	}
	leftOut, l.leftOut, l.next = l.leftOut, 0, now.Add(time.Second)
	return leftOut, true
}

// AcceptRequest waits for a peer's valid Request. The caller answers it with
// Accept or Reject. Errors: ctx's, or one that wraps [net.ErrClosed] after Close,
// [ErrShutdown] after Shutdown.
func (l *Listener) AcceptRequest(ctx context.Context) (*ConnRequest, error) {
	if err := l.made(); err != nil {
		return nil, err
	}
	select {
	case r := <-l.queue:
		return r, nil
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	case <-l.failed:
		if l.ctx.Err() != nil { // which is why
			return nil, context.Cause(l.ctx)
		}
		return nil, l.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept waits for a peer and accepts it with the listener's Config. A peer that
// goes away between its Request and the Reply is passed over. One that this end has
// no resources for is rejected, and Accept returns why: [ErrLimit], after which a
// server goes on accepting, or [net.ErrClosed] if Config.PD is closed.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	for {
		r, err := l.AcceptRequest(ctx)
		if err != nil {
			return nil, err
		}
		c, err := r.Accept(ctx, nil)
		if err == nil {
			return c, nil
		}
		unable := r.refuse(ctx)
		if ctx.Err() != nil || unable {
			return nil, err
		}
		if l.cfg.Logger != nil {
			l.cfg.Logger.Warn("iwarp startup failed", "conn", r.id, "remote", r.RemoteAddr(), "error", err)
		}
	}
}

// Addr returns the listener's address.
func (l *Listener) Addr() net.Addr { return l.ll.Addr() }

// Close stops listening and drops startups that are under way. Connections that
// were accepted live on. It waits for the listener's goroutines.
func (l *Listener) Close() error {
	if err := l.made(); err != nil {
		return err
	}
	return l.end(fmt.Errorf("iwarp: listener: %w", net.ErrClosed))
}

// end stops listening, for the reason given if it is the first.
func (l *Listener) end(why error) error {
	l.cancel(why)
	err := l.ll.Close()
	l.wg.Wait()
	if errors.Is(err, net.ErrClosed) && l.ended.Swap(true) {
		return nil // it was closed before
	}
	l.ended.Store(true)
	return err
}
