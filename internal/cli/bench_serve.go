package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"github.com/go-iwarp/iwarp"
)

// benchServer is the other end of a bench, for any number of clients.
type benchServer struct {
	*benchCmd
	cfg *iwarp.Config

	mu       sync.Mutex
	sessions map[uint32]*benchSession
}

// benchSession is one client.
type benchSession struct {
	srv   *benchServer
	token uint32

	mu    sync.Mutex
	links map[linkKind]*openLink
}

// openLink is a link whose connections come in one by one.
type openLink struct {
	benchLink
	spec  benchSpec
	taken []bool     // by index; under the session's mu
	added chan error // one for each connection that has come
}

// serve is the server's whole life.
func (c *benchCmd) serve(ctx context.Context, out *output) error {
	cfg, err := c.Startup.config()
	if err != nil {
		return err
	}
	if c.Child {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() { // ends with the process
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	ln, err := net.Listen("tcp", string(*c.Serve))
	if err != nil {
		return err
	}
	out.emit(benchListening{Address: ln.Addr().String()})
	if !c.Child {
		c.Startup.announce(out)
	}
	if c.Profile != "" {
		stop, err := startProfile(c.Profile)
		if err != nil {
			return err
		}
		defer stop()
	}
	return c.serveTelling(ctx, ln, cfg, func(err error) { out.emit(newErrorEvent(err)) })
}

// benchListening tells where the server is.
type benchListening struct {
	Address string `json:"address"`
}

func (e benchListening) kind() string { return "listening" }

func (e benchListening) text() string { return "listening on " + e.Address }

// serveOn serves until ctx ends, and closes ln.
func (c *benchCmd) serveOn(ctx context.Context, ln net.Listener, cfg *iwarp.Config) error {
	return c.serveTelling(ctx, ln, cfg, func(error) {})
}

// serveTelling is serveOn that tells why it pauses: Accept has failed in a way that
// may pass.
func (c *benchCmd) serveTelling(ctx context.Context, ln net.Listener, cfg *iwarp.Config, tell func(error)) error {
	s := &benchServer{benchCmd: c, cfg: cfg, sessions: map[uint32]*benchSession{}}
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer ln.Close()
	var failures acceptFailures
	for ctx.Err() == nil {
		nc, err := ln.Accept()
		if err == nil {
			failures = 0
			wg.Go(func() { s.receive(ctx, nc) })
			continue
		}
		err = fmt.Errorf("taking connections: %w", err)
		if ctx.Err() == nil && !passes(err) {
			return err
		}
		failures.pause(ctx, err, tell)
	}
	return nil
}

// receive sorts a connection in.
func (s *benchServer) receive(ctx context.Context, nc net.Conn) {
	_ = nc.SetDeadline(time.Now().Add(s.Startup.timeout()))
	p, err := readPreface(nc)
	if err != nil {
		_ = nc.Close()
		return
	}
	_ = nc.SetDeadline(time.Time{})
	if p.kind == linkControl {
		s.session(ctx, nc)
		return
	}
	s.mu.Lock()
	session := s.sessions[p.token]
	s.mu.Unlock()
	var l *openLink
	if session != nil {
		l = session.claim(p)
	}
	if l == nil {
		_ = nc.Close()
		return
	}
	setCongestion(nc, l.spec.Congestion)
	l.added <- l.add(ctx, int(p.index), nc)
}

// claim gives the link that a connection is of, once.
func (ss *benchSession) claim(p preface) *openLink {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	l := ss.links[p.kind]
	if l == nil || int64(p.index) >= int64(len(l.taken)) || l.taken[p.index] {
		return nil
	}
	l.taken[p.index] = true
	return l
}

// session serves one client.
func (s *benchServer) session(ctx context.Context, nc net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	ss := &benchSession{srv: s, token: rand.Uint32(), links: map[linkKind]*openLink{}}
	s.mu.Lock()
	s.sessions[ss.token] = ss
	s.mu.Unlock()
	defer ss.end()
	defer nc.Close()
	c := newControl(nc)
	for {
		var m benchMsg
		if c.dec.Decode(&m) != nil {
			return
		}
		reply, err := ss.handle(ctx, c, &m)
		if err != nil {
			reply.Error = err.Error()
		}
		if c.enc.Encode(reply) != nil || err != nil {
			return
		}
	}
}

func (ss *benchSession) end() {
	ss.srv.mu.Lock()
	delete(ss.srv.sessions, ss.token)
	ss.srv.mu.Unlock()
	for kind := range ss.links {
		ss.close(kind)
	}
}

func (ss *benchSession) close(kind linkKind) {
	ss.mu.Lock()
	l := ss.links[kind]
	delete(ss.links, kind)
	ss.mu.Unlock()
	l.close()
}

// handle answers a request.
func (ss *benchSession) handle(ctx context.Context, c *control, m *benchMsg) (reply benchMsg, err error) {
	switch m.Do {
	case doHello:
		here := thisMachine()
		return benchMsg{Machine: &here}, nil
	case doOpen:
		return ss.open(m)
	}
	l := ss.links[m.Kind]
	if l == nil {
		return reply, fmt.Errorf("%q of connections that are not open", m.Do)
	}
	switch m.Do {
	case doConnected:
		return ss.connected(ctx, l, m.Regions)
	case doStart:
		return ss.sample(ctx, c, l, m.Count)
	case doClose:
		ss.close(m.Kind)
		return reply, nil
	}
	return reply, fmt.Errorf("%q: no such request", m.Do)
}

func (ss *benchSession) open(m *benchMsg) (reply benchMsg, err error) {
	if m.Spec == nil || ss.links[m.Kind] != nil {
		return reply, errors.New("open of what is open, or of nothing")
	}
	if err := m.Spec.check(); err != nil {
		return reply, err
	}
	l, err := newLink(m.Kind, *m.Spec, ss.srv.cfg, false)
	if err != nil {
		return reply, err
	}
	n := m.Spec.Conns
	ss.mu.Lock()
	ss.links[m.Kind] = &openLink{l, *m.Spec, make([]bool, n), make(chan error, n)}
	ss.mu.Unlock()
	return benchMsg{Token: ss.token}, nil
}

// connected waits for the connections that the client has made.
func (ss *benchSession) connected(ctx context.Context, l *openLink, regions []iwarp.RemoteBuffer) (reply benchMsg, err error) {
	ctx, cancel := context.WithTimeout(ctx, ss.srv.Startup.timeout())
	defer cancel()
	for range l.taken {
		select {
		case err := <-l.added:
			if err != nil {
				return reply, err
			}
		case <-ctx.Done():
			return reply, errors.New("not all connections have come in")
		}
	}
	return benchMsg{Regions: l.regions()}, l.connected(regions)
}

// sample does this end's part of one: it is under way when the client hears of it,
// and its use is told when the client asks to stop.
func (ss *benchSession) sample(ctx context.Context, c *control, l *openLink, count uint64) (reply benchMsg, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var used benchUsage
	done := make(chan error, 1)
	go func() {
		var err error
		used, err = measured(ctx, l, count, false)
		done <- err
	}()
	if err = c.enc.Encode(benchMsg{}); err == nil {
		var m benchMsg
		if err = c.dec.Decode(&m); err == nil && m.Do != doStop {
			err = fmt.Errorf("%q: stop was due", m.Do)
		}
	}
	if err != nil {
		cancel()
	}
	err = errors.Join(err, <-done)
	return benchMsg{Usage: used}, err
}
