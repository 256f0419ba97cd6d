package iwarp_test

import (
	"net"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/mpa"
)

// setting is what a test of a hostile peer runs on: over a Pipe, where time and
// order are exact, or over TCP, where mpa reads and writes the socket by itself;
// there in each kind of progress: a receive goroutine that is parked in the read,
// callers that wait and spin for a while, or callers that poll the completion queue.
type setting struct {
	name     string
	tcp      bool
	progress iwarp.Progress
	align    mpa.Align
}

var settings = []setting{
	{name: "Pipe"},
	{name: "TCP, adaptive", tcp: true},
	{name: "TCP, parked", tcp: true, progress: iwarp.ProgressParked},
	{name: "TCP, polling", tcp: true, progress: iwarp.ProgressPolling},
	{name: "TCP, parked, AlignSegments", tcp: true, progress: iwarp.ProgressParked, align: mpa.AlignSegments},
	{name: "TCP, polling, AlignStrict", tcp: true, progress: iwarp.ProgressPolling, align: mpa.AlignStrict},
}

// inEachSetting runs a test in all of them. Over a Pipe it is in a bubble.
func inEachSetting(t *testing.T, body func(t *testing.T, s setting)) {
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			if s.tcp {
				body(t, s)
				return
			}
			synctest.Test(t, func(t *testing.T) { body(t, s) })
		})
	}
}

// overTCP runs a test in the settings over TCP.
func overTCP(t *testing.T, body func(t *testing.T, s setting)) {
	for _, s := range settings {
		if s.tcp {
			t.Run(s.name, func(t *testing.T) { body(t, s) })
		}
	}
}

// config adds the setting to a Config, which may be nil.
func (s setting) config(cfg *iwarp.Config) *iwarp.Config {
	if cfg = cfg.Clone(); cfg == nil {
		cfg = &iwarp.Config{}
	}
	cfg.Progress, cfg.MPA.Align = s.progress, s.align
	return cfg
}

// conns makes two connected conns.
func (s setting) conns(t *testing.T) (x, y net.Conn) {
	t.Helper()
	if !s.tcp {
		return pipe(nil)
	}
	x, y = netPair(t, "tcp")
	t.Cleanup(func() { _ = x.Close(); _ = y.Close() })
	return x, y
}

// client starts a client against a scripted responder.
func (s setting) client(t *testing.T, cfg *iwarp.Config) (*iwarp.Conn, *iwarptest.Peer) {
	t.Helper()
	x, y := s.conns(t)
	c, p := clientOn(t, x, y, s.config(cfg))
	s.watch(t, c)
	return c, p
}

// server starts a server against a scripted initiator.
func (s setting) server(t *testing.T, cfg *iwarp.Config) (*iwarp.Conn, *iwarptest.Peer) {
	t.Helper()
	x, y := s.conns(t)
	c, p := serverOn(t, x, y, s.config(cfg))
	s.watch(t, c)
	return c, p
}

// watch polls a completion queue of c, in which nothing comes, until c has ended,
// if that is the setting: it, or now and then the receive goroutine, then receives
// for c. A test may wait beside it.
func (s setting) watch(t *testing.T, c *iwarp.Conn) {
	if s.progress != iwarp.ProgressPolling {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var none [1]iwarp.Completion
		for {
			select {
			case <-c.Done():
				return
			default:
			}
			if n := c.QP().RecvCQ().Poll(none[:]); n != 0 {
				t.Errorf("a completion that nobody has asked for: %+v", none[0])
				return
			}
			runtime.Gosched()
		}
	}()
	t.Cleanup(func() {
		c.Abort()
		<-ended
	})
}

// settle waits until what was sent has had its effect, where that can be known.
func (s setting) settle() {
	if !s.tcp {
		synctest.Wait()
	}
}

// The hostile peer over TCP, with a listener that serves others all the time.
func TestHostileTCP(t *testing.T) { overTCP(t, hostileTCP) }

func hostileTCP(t *testing.T, s setting) {
	d := newDevice(t, nil)
	ln := must(iwarp.Listen("tcp", "127.0.0.1:0", s.config(&iwarp.Config{Device: d})))(t)
	defer ln.Close()
	for i, a := range attacks() {
		if a.name == "no buffer" || i%3 != 0 {
			continue
		}
		nc := must(net.Dial("tcp", ln.Addr().String()))(t)
		p := iwarptest.NewPeer(t, nc)
		got := make(chan accepted, 1)
		go func() { c, err := ln.Accept(testContext(t)); got <- accepted{c, err} }()
		p.Initiate("startup", iwarptest.Request(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(4, 4, nil)))
		r := <-got
		check(t, "Accept", r.err)
		v := &victim{c: r.c, p: p, g: newGuarded(100)}
		v.mr = must(v.c.PD().NewMR(v.g.mem, iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic,
			&iwarp.MROptions{QP: v.c.QP(), Base: 1000}))(t)
		v.ro = must(v.c.NewMR(make([]byte, 100), iwarp.RemoteRead))(t)
		v.wo = must(v.c.NewMR(make([]byte, 100), iwarp.RemoteWrite))(t)
		gone := must(v.c.NewMR(nil, 0))(t)
		v.gone = uint32(gone.STag())
		gone.Close()
		p.Send(iwarptest.Send(1, nil))
		a.send(v)
		if !a.silent && a.name != "Send longer than the buffer" {
			p.WantTerminate(a.name, uint16(a.code))
			p.WantEOF("the end")
			wantCode(t, v.c.Err(), a.code, false)
		}
		_ = nc.Close()
		v.c.Abort()
		v.g.checkUntouched(t)
	}
	serveOne(t, ln)
}
