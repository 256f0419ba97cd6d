package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

// benchServer is the other end of a bench, for any number of clients one after the
// other and some at once. What a client can make it take is bounded: see
// benchLimits.
type benchServer struct {
	*Command
	cfg    *iwarp.Config
	limits benchLimits

	mu       sync.Mutex
	sessions map[uint32]*benchSession
	memory   int64      // octets that all sessions take, about
	silent   []net.Conn // have not said yet what they are, the oldest first
}

// benchLimits bound what clients take.
type benchLimits struct {
	clients   int   // at once
	all, each int64 // octets of memory of all clients and of each, about
}

// Defaults of the limits, and how many connections may be there that have not said
// what they are: beyond, the oldest goes.
const (
	defaultBenchClients = 16
	defaultBenchMemory  = int64(2) << 30
	maxSilent           = 256
)

func (c *Command) limits() benchLimits {
	if c.Child || c.Serve == nil { // for this command's own other end
		return benchLimits{1 << 20, math.MaxInt64, math.MaxInt64}
	}
	l := benchLimits{clients: ui.Or(c.Clients, defaultBenchClients), all: defaultBenchMemory}
	if c.MaxMemory != nil {
		l.all = int64(*c.MaxMemory)
	}
	l.each = l.all / 4 * 3
	return l
}

// benchSession is one client.
type benchSession struct {
	srv   *benchServer
	token uint32
	ctl   *control

	mu    sync.Mutex
	links map[linkKind]*openLink
}

// openLink is a link whose connections come in one by one.
type openLink struct {
	benchLink
	spec   benchSpec
	cost   int64
	taken  []bool     // by index; under the session's mu
	added  chan error // one for each connection that has come
	ready  bool       // all have come, and the regions are exchanged
	adding sync.WaitGroup
	ctx    context.Context // of add
	cancel context.CancelFunc
}

// serve is the server's whole life.
func (c *Command) serve(ctx context.Context, out *ui.Output) error {
	cfg, err := c.Startup.Config()
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
	unseen, err := c.Offer(out, cfg.Device)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer unseen()
	out.Emit(benchListening{Address: ln.Addr().String()})
	if !c.Child {
		c.Startup.Announce(out)
	}
	if c.Profile != "" {
		stop, err := startProfile(c.Profile)
		if err != nil {
			return err
		}
		defer stop()
	}
	return c.serveTelling(ctx, ln, cfg, func(err error) { out.Emit(ui.NewErrorEvent(err)) })
}

// benchListening tells where the server is.
type benchListening struct {
	Address string `json:"address"`
}

func (e benchListening) EventKind() string { return "listening" }

func (e benchListening) Text() string { return "listening on " + e.Address }

// serveOn serves until ctx ends, and closes ln.
func (c *Command) serveOn(ctx context.Context, ln net.Listener, cfg *iwarp.Config) error {
	return c.serveTelling(ctx, ln, cfg, func(error) {})
}

// serveTelling is serveOn that tells why it pauses: Accept has failed in a way that
// may pass.
func (c *Command) serveTelling(ctx context.Context, ln net.Listener, cfg *iwarp.Config, tell func(error)) error {
	s := &benchServer{Command: c, cfg: cfg, limits: c.limits(), sessions: map[uint32]*benchSession{}}
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer ln.Close()
	var failures ui.AcceptFailures
	for ctx.Err() == nil {
		nc, err := ln.Accept()
		if err == nil {
			failures = 0
			wg.Go(func() { s.receive(ctx, nc) })
			continue
		}
		err = fmt.Errorf("taking connections: %w", err)
		if ctx.Err() == nil && !ui.Passes(err) {
			return err
		}
		failures.Pause(ctx, err, tell)
	}
	return nil
}

// preface waits for what a connection is.
func (s *benchServer) preface(ctx context.Context, nc net.Conn) (preface, error) {
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	s.mu.Lock()
	s.silent = append(s.silent, nc)
	if len(s.silent) > maxSilent {
		_ = s.silent[0].Close()
		s.silent = s.silent[1:]
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := slices.Index(s.silent, nc); i >= 0 {
			s.silent = slices.Delete(s.silent, i, i+1)
		}
	}()
	_ = nc.SetDeadline(time.Now().Add(s.Startup.Patience()))
	p, err := readPreface(nc)
	_ = nc.SetDeadline(time.Time{})
	return p, err
}

// receive sorts a connection in.
func (s *benchServer) receive(ctx context.Context, nc net.Conn) {
	p, err := s.preface(ctx, nc)
	if err != nil {
		_ = nc.Close()
		return
	}
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
	defer l.adding.Done()
	setCongestion(nc, l.spec.Congestion)
	session.await()
	err = l.add(l.ctx, int(p.index), nc)
	session.await() // before the session hears of it: a sample sets deadlines of its own
	l.added <- err
}

// claim returns the link that a connection is of, once. The link is not closed until
// its adding is done.
func (ss *benchSession) claim(p preface) *openLink {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	l := ss.links[p.kind]
	if l == nil || int64(p.index) >= int64(len(l.taken)) || l.taken[p.index] {
		return nil
	}
	l.taken[p.index] = true
	l.adding.Add(1)
	return l
}

// await allows the client time for its next request.
func (ss *benchSession) await() {
	_ = ss.ctl.nc.SetReadDeadline(time.Now().Add(ss.ctl.timeout))
}

// session serves one client.
func (s *benchServer) session(ctx context.Context, nc net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	defer nc.Close()
	ss := &benchSession{
		srv: s, token: rand.Uint32(), links: map[linkKind]*openLink{},
		ctl: newControl(nc, 3*s.Startup.Patience()), // the client waits for its connections too
	}
	if err := s.admit(ss); err != nil {
		_ = ss.ctl.write(&benchMsg{Error: err.Error()})
		return
	}
	defer ss.end()
	for {
		var m benchMsg
		ss.await()
		if ss.ctl.read(&m) != nil {
			return
		}
		reply, err := ss.handle(ctx, &m)
		if err != nil {
			reply.Error = err.Error()
		}
		if ss.ctl.write(&reply) != nil || err != nil {
			return
		}
	}
}

// admit takes one more client.
func (s *benchServer) admit(ss *benchSession) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.sessions); n >= s.limits.clients {
		return fmt.Errorf("this server has %s already, as many as it takes (--max-clients)", ui.Plural(n, "client"))
	}
	for s.sessions[ss.token] != nil {
		ss.token = rand.Uint32()
	}
	s.sessions[ss.token] = ss
	return nil
}

// grant lets a client that has so many octets of memory take more.
func (s *benchServer) grant(has, more int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case more > s.limits.each-has:
		return fmt.Errorf("this work takes %s of memory, a client has %s here (three quarters of --max-memory)",
			ui.Amount(more+has), ui.Amount(s.limits.each))
	case more > s.limits.all-s.memory:
		return fmt.Errorf("this work takes %s of memory, and other clients leave %s (--max-memory)", ui.Amount(more),
			ui.Amount(s.limits.all-s.memory))
	}
	s.memory += more
	return nil
}

func (ss *benchSession) end() {
	ss.srv.mu.Lock()
	delete(ss.srv.sessions, ss.token)
	ss.srv.mu.Unlock()
	for kind := range ss.links {
		ss.close(kind)
	}
}

// close ends a link: nothing is added to it any more.
func (ss *benchSession) close(kind linkKind) {
	ss.mu.Lock()
	l := ss.links[kind]
	delete(ss.links, kind)
	ss.mu.Unlock()
	l.cancel()
	l.adding.Wait()
	l.benchLink.close()
	ss.srv.mu.Lock()
	ss.srv.memory -= l.cost
	ss.srv.mu.Unlock()
}

// handle answers a request.
func (ss *benchSession) handle(ctx context.Context, m *benchMsg) (reply benchMsg, err error) {
	switch m.Do {
	case doHello:
		here := thisMachine()
		return benchMsg{Machine: &here}, nil
	case doMemory:
		return benchMsg{Usage: benchUsage{Memory: memoryInUse()}}, nil
	case doOpen:
		return ss.open(ctx, m)
	}
	l := ss.links[m.Kind]
	if l == nil {
		return reply, fmt.Errorf("%.20q of connections that are not open", m.Do)
	}
	switch m.Do {
	case doConnected:
		return ss.connected(ctx, l, m.Regions)
	case doStart:
		return ss.sample(ctx, l, m.Count)
	case doClose:
		ss.close(m.Kind)
		return reply, nil
	}
	return reply, fmt.Errorf("%.20q: no such request", m.Do)
}

func (ss *benchSession) open(ctx context.Context, m *benchMsg) (reply benchMsg, err error) {
	if m.Spec == nil || ss.links[m.Kind] != nil {
		return reply, errors.New("open of what is open, or of nothing")
	}
	if err := m.Spec.check(m.Kind); err != nil {
		return reply, err
	}
	var has int64
	for _, l := range ss.links {
		has += l.cost
	}
	cost := m.Spec.cost(m.Kind)
	if err := ss.srv.grant(has, cost); err != nil {
		return reply, err
	}
	n := m.Spec.Conns
	l := &openLink{spec: *m.Spec, cost: cost, taken: make([]bool, n), added: make(chan error, n)}
	if l.benchLink, err = newLink(m.Kind, *m.Spec, ss.srv.cfg, false); err != nil {
		ss.srv.mu.Lock()
		ss.srv.memory -= cost
		ss.srv.mu.Unlock()
		return reply, err
	}
	l.ctx, l.cancel = context.WithCancel(ctx)
	ss.ctl.expect(n)
	ss.mu.Lock()
	ss.links[m.Kind] = l
	ss.mu.Unlock()
	return benchMsg{Token: ss.token}, nil
}

// connected waits for the connections that the client has made.
func (ss *benchSession) connected(ctx context.Context, l *openLink,
	regions []iwarp.RemoteBuffer,
) (reply benchMsg, err error) {
	if l.ready {
		return reply, errors.New("these connections are there already")
	}
	ctx, cancel := context.WithTimeout(ctx, ss.srv.Startup.Patience())
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
	if err := l.connected(regions); err != nil {
		return reply, err
	}
	l.ready = true
	return benchMsg{Regions: l.regions()}, nil
}

// sample does this end's part of one: it is under way when the client hears of it,
// and its use is told when the client asks to stop. Until this end is through, the
// client need say nothing: it is watched.
func (ss *benchSession) sample(ctx context.Context, l *openLink, count uint64) (reply benchMsg, err error) {
	if !l.ready {
		return reply, errors.New("start before the connections are there")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nc := ss.ctl.nc
	_ = nc.SetReadDeadline(time.Time{})
	var used benchUsage
	done := make(chan error, 1)
	go func() {
		var err error
		if used, err = measured(ctx, l, ss.srv.Startup.Patience(), count, false); err == nil {
			ss.await()
		} else {
			_ = nc.SetReadDeadline(time.Unix(1, 0)) // the client will not ask to stop
		}
		done <- err
	}()
	if err = ss.ctl.write(&benchMsg{}); err == nil {
		var m benchMsg
		if err = ss.ctl.read(&m); err == nil && m.Do != doStop {
			err = fmt.Errorf("%.20q: stop was due", m.Do)
		}
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		cancel()
	}
	if merr := <-done; merr != nil && ctx.Err() == nil {
		err = merr // the cause
	}
	return benchMsg{Usage: used}, err
}
