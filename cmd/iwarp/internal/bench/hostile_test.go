package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

// benchServed is a bench server in this process.
type benchServed struct {
	t    *testing.T
	addr string
	cfg  *iwarp.Config
	end  context.CancelFunc
	done chan error
}

// serveBench starts a server that waits no longer than timeout for a client.
func serveBench(t *testing.T, timeout time.Duration, change func(*Command)) *benchServed {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Command{Serve: new(ui.Address)}
	c.Startup.Timeout, c.Startup.CRC, c.Startup.Rev = ui.Wait(timeout), ui.On, 2
	if change != nil {
		change(c)
	}
	cfg, err := c.Startup.Config()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(cmdtest.Context(t))
	s := &benchServed{t, ln.Addr().String(), cfg, cancel, make(chan error, 1)}
	go func() { s.done <- c.serveOn(ctx, ln, cfg) }()
	t.Cleanup(s.stop)
	return s
}

// stop ends the server, which must not wait for any client.
func (s *benchServed) stop() {
	if s.end == nil {
		return
	}
	s.end()
	s.end = nil
	select {
	case err := <-s.done:
		if err != nil {
			s.t.Error(err)
		}
	case <-time.After(cmdtest.Patience):
		s.t.Error("the server does not end")
	}
}

// dial makes a connection that begins with the preface.
func (s *benchServed) dial(p preface) net.Conn {
	s.t.Helper()
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(cmdtest.Patience))
	if err := p.write(nc); err != nil {
		s.t.Fatal(err)
	}
	return nc
}

// scripted is a client that says what a test says.
type scripted struct {
	t  *testing.T
	s  *benchServed
	nc net.Conn
	r  *bufio.Reader
}

func (s *benchServed) client() *scripted {
	s.t.Helper()
	nc := s.dial(preface{kind: linkControl})
	return &scripted{s.t, s, nc, bufio.NewReader(nc)}
}

// say sends a line and gives the reply, or the error that ends the connection.
func (c *scripted) say(line string) (m benchMsg, err error) {
	c.t.Helper()
	if _, err := io.WriteString(c.nc, line+"\n"); err != nil {
		return m, err
	}
	return c.reply()
}

func (c *scripted) reply() (m benchMsg, err error) {
	line, err := c.r.ReadBytes('\n')
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(line, &m)
}

// refused wants an error in the reply, or the connection's end, in time.
func (c *scripted) refused(why, line, want string) {
	c.t.Helper()
	m, err := c.say(line)
	if os.IsTimeout(err) || err == nil && !strings.Contains(m.Error, want) || err == nil && m.Error == "" {
		c.t.Errorf("%s: reply %+v, %v; want an error with %q", why, m, err, want)
	}
}

// works wants the server to serve a good client.
func (s *benchServed) works() {
	s.t.Helper()
	if m, err := s.client().say(`{"do":"hello"}`); err != nil || m.Machine == nil {
		s.t.Errorf("a good client gets %+v, %v", m, err)
	}
}

const openIWARP = `{"do":"open","kind":73,"spec":{"op":"send","size":64,"depth":4,"conns":1}}`

// What a client says in the wrong order, or that nobody says, is refused, and the
// server lives on.
func TestBenchServeHostileRequests(t *testing.T) {
	s := serveBench(t, cmdtest.Patience, nil)
	spec := func(kind int, op string, size, depth, conns int, more string) string {
		return fmt.Sprintf(`{"do":"open","kind":%d,"spec":{"op":%q,"size":%d,"depth":%d,"conns":%d%s}}`, kind, op, size,
			depth, conns, more)
	}
	for why, lines := range map[string][]string{
		"start without the connections":   {openIWARP, `{"do":"start","kind":73,"count":1}`},
		"start of plain TCP without them": {spec('T', "send", 64, 4, 1, ""), `{"do":"start","kind":84,"count":1}`},
		"start of nothing":                {`{"do":"start","kind":73}`},
		"close of nothing":                {`{"do":"close","kind":84}`},
		"stop of nothing":                 {`{"do":"stop","kind":84}`},
		"open twice":                      {openIWARP, openIWARP},
		"open without a spec":             {`{"do":"open","kind":73}`},
		"a kind that is none":             {spec(0, "send", 64, 4, 1, "")},
		"the kind of control connections": {spec('C', "send", 64, 4, 1, "")},
		"another kind":                    {spec(255, "send", 64, 4, 1, "")},
		"an operation that is none":       {spec('I', "swim\x1b[2J", 64, 4, 1, "")},
		"no size":                         {spec('I', "send", 0, 4, 1, "")},
		"a negative size":                 {spec('I', "send", -1, 4, 1, "")},
		"a size too large":                {spec('I', "send", math.MaxInt32, 4, 1, "")},
		"a negative depth":                {spec('I', "send", 64, -4, 1, "")},
		"a depth too large":               {spec('I', "send", 64, 1<<30, 1, "")},
		"no connection":                   {spec('T', "send", 64, 4, 0, "")},
		"too many connections":            {spec('T', "send", 64, 4, 1<<20, "")},
		"much of all":                     {spec('I', "send", maxBenchOctets, maxBenchDepth, maxBenchConns, "")},
		"much memory":                     {spec('I', "write", maxBenchOctets, 1, 4, "")},
		"many work requests":              {spec('I', "notify", 1, maxBenchDepth, maxBenchConns, "")},
		"a congestion control of its own": {spec('I', "send", 64, 4, 1, `,"congestion":"../../x"`)},
		"a request that is none":          {openIWARP, `{"do":"dance","kind":73}`},
		"regions for connections not there": {
			openIWARP, `{"do":"close","kind":73}`, `{"do":"connected","kind":73,"regions":[]}`,
		},
		"no JSON":                    {"GET / HTTP/1.1"},
		"JSON of another shape":      {`[1,2,3]`},
		"a number that fits nothing": {`{"do":"open","kind":99999}`},
		"deep JSON":                  {strings.Repeat("[", 12000)},
	} {
		t.Run(why, func(t *testing.T) {
			c := s.client()
			c.t = t
			for i, line := range lines {
				if i == len(lines)-1 {
					c.refused(why, line, "")
				} else if m, err := c.say(line); err != nil || m.Error != "" {
					t.Fatalf("%s: %+v, %v", line, m, err)
				}
			}
			s.t = t
			s.works()
		})
	}
	s.t = t
}

// A control message is read only as far as one may be long.
func TestBenchServeLongMessage(t *testing.T) {
	s := serveBench(t, cmdtest.Patience, nil)
	nc := s.dial(preface{kind: linkControl})
	piece := []byte(strings.Repeat(" ", 64<<10))
	sent := 0
	for err := error(nil); err == nil && sent < 256<<20; sent += len(piece) {
		_, err = nc.Write(piece)
	}
	if sent >= 256<<20 {
		t.Errorf("the server has read %d octets of one message", sent)
	}
	s.works()
}

// Clients, and what they take together, are bounded, and what one has given back
// others may have.
func TestBenchServeBounds(t *testing.T) {
	two, mem := 2, ui.Octets(64<<20)
	s := serveBench(t, cmdtest.Patience, func(c *Command) { c.Clients, c.MaxMemory = &two, &mem })
	big := `{"do":"open","kind":73,"spec":{"op":"write","size":16777216,"depth":4,"conns":1}}`
	a, b := s.client(), s.client()
	if m, err := a.say(big); err != nil || m.Error != "" {
		t.Fatal(m, err)
	}
	if m, err := b.say(`{"do":"hello"}`); err != nil || m.Error != "" {
		t.Fatal(m, err)
	}
	if m, err := s.client().reply(); err != nil || !strings.Contains(m.Error, "--max-clients") {
		t.Errorf("a third client gets %+v, %v", m, err)
	}
	b.refused("more than there is", big, "other clients")
	b = s.client()
	if m, err := a.say(`{"do":"close","kind":73}`); err != nil || m.Error != "" {
		t.Fatal(m, err)
	}
	for { // the place of the one that was refused may not be free yet
		m, err := b.say(big)
		if err == nil && m.Error == "" {
			break
		}
		if err == nil && !strings.Contains(m.Error, "--max-clients") {
			t.Fatal(m, err)
		}
		b = s.client()
	}
	b.refused("more than a client has", strings.Replace(big, "73", "84", 1), "three quarters")
}

// Whoever is silent is let go: before the preface, on the control connection, and
// where a sample is under way, polling or not.
func TestBenchServeSilence(t *testing.T) {
	s := serveBench(t, 50*time.Millisecond, nil)
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := s.client()
	for _, nc := range []net.Conn{nc, c.nc} {
		_ = nc.SetDeadline(time.Now().Add(cmdtest.Patience))
		if _, err := nc.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("a silent connection: %v", err)
		}
	}
	for p := range progressMode(len(progressNames)) {
		for _, kind := range []linkKind{linkIWARP, linkTCP} {
			c := s.sampleWith(kind, p)
			if m, err := c.reply(); err != nil || !strings.Contains(m.Error,
				"nothing has been sent or received for 50ms") {
				t.Errorf("%c, %v: %+v, %v", kind, p, m, err)
			}
			if _, err := c.reply(); err == nil || os.IsTimeout(err) {
				t.Errorf("%c, %v: the connection is open, %v", kind, p, err)
			}
		}
	}
	s.works()
}

// The end of the server does not wait for a client that is silent.
func TestBenchServeEndsAtOnce(t *testing.T) {
	for p := range progressMode(len(progressNames)) {
		for _, kind := range []linkKind{linkIWARP, linkTCP} {
			s := serveBench(t, time.Hour, nil)
			s.sampleWith(kind, p)
			s.client()
			s.dial(preface{kind: linkIWARP})
			s.stop()
		}
	}
}

// sampleWith opens a link and starts a sample in which the client does nothing. The
// first reply to come is that of the sample's end.
func (s *benchServed) sampleWith(kind linkKind, p progressMode) *scripted {
	s.t.Helper()
	spec := benchSpec{Op: opSend, Size: 64, Depth: 1, Conns: 1, Lat: true, Progress: p}
	open, err := json.Marshal(benchMsg{Do: doOpen, Kind: kind, Spec: &spec})
	if err != nil {
		s.t.Fatal(err)
	}
	c := s.client()
	m, err := c.say(string(open))
	if err != nil || m.Error != "" {
		s.t.Fatal(m, err)
	}
	l, err := newLink(kind, spec, s.cfg, true)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(l.close)
	if err := l.add(cmdtest.Context(s.t), 0, s.dial(preface{kind: kind, token: m.Token, index: 0})); err != nil {
		s.t.Fatal(err)
	}
	regions, err := json.Marshal(benchMsg{Do: doConnected, Kind: kind, Regions: l.regions()})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, line := range []string{string(regions), fmt.Sprintf(`{"do":"start","kind":%d,"count":5}`, kind)} {
		if m, err := c.say(line); err != nil || m.Error != "" {
			s.t.Fatal(line, m, err)
		}
	}
	return c
}

// More connections than may be silent: the oldest goes, and a good client is served.
func TestBenchServeSilentFlood(t *testing.T) {
	s := serveBench(t, time.Hour, nil)
	var all []net.Conn
	for range maxSilent + 10 {
		nc, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		all = append(all, nc)
	}
	s.works()
	_ = all[0].SetDeadline(time.Now().Add(cmdtest.Patience))
	if _, err := all[0].Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("the oldest silent connection: %v", err)
	}
}

// A hostile server: what it says cannot reach the terminal, and it is not waited
// for without end.
func TestBenchHostileServer(t *testing.T) {
	const evil = "\x1b]0;owned\x07\x1b[2J\u202e\u009b31m\nerror: forged"
	machineOf := func(s string) string {
		b, err := json.Marshal(benchMsg{
			Machine: &machine{
				Go: s, OS: s, Arch: s, CPUs: 1, Processor: s, Features: []string{s, strings.Repeat(s, 1000)}, Kernel: s,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	failed, err := json.Marshal(benchMsg{Error: evil})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		replies []string
		want    string
	}{
		"silent":           {replies: nil, want: "no reply of the other end within"},
		"gone quiet later": {replies: []string{machineOf("x")}, want: "no reply of the other end within"},
		"error":            {replies: []string{string(failed)}, want: "the other end:"},
		"machine":          {replies: []string{machineOf(evil), string(failed)}, want: "the other end:"},
		"endless":          {replies: []string{strings.Repeat("x", 1<<20)}, want: "more than"},
		"no JSON":          {replies: []string{evil}, want: "invalid character"},
	} {
		for _, form := range []string{"--json=false", "--json"} {
			t.Run(name+form, func(t *testing.T) {
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer ln.Close()
				go scriptedServer(ln, c.replies)
				out := cmdtest.NewLines()
				code := Main(cmdtest.Context(t), []string{"bench", ln.Addr().String(), "--timeout", "100ms", form}, out,
					out)
				if code != ui.ExitFailed {
					t.Errorf("exit code %d", code)
				}
				text := out.String()
				cmdtest.MustContain(t, "output", text, c.want)
				if i := strings.IndexFunc(text,
					func(r rune) bool { return r != '\n' && ui.Printable(string(r)) != string(r) }); i >= 0 {
					t.Errorf("%q reaches the terminal, in %q", text[i], text)
				}
				if strings.Contains(text, "\nerror: forged") || len(text) > 8000 {
					t.Errorf("the server makes lines of its own, or long ones: %q", text)
				}
			})
		}
	}
}

// scriptedServer sends each control connection the replies, and then nothing.
func scriptedServer(ln net.Listener, replies []string) {
	var open []net.Conn
	defer func() {
		for _, nc := range open {
			_ = nc.Close()
		}
	}()
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		open = append(open, nc)
		if p, err := readPreface(nc); err != nil || p.kind != linkControl {
			continue
		}
		r := bufio.NewReader(nc)
		for _, reply := range replies {
			if _, err := r.ReadBytes('\n'); err != nil {
				break
			}
			_, _ = io.WriteString(nc, reply+"\n")
		}
	}
}

// A link takes no more memory than it was said to cost.
func TestBenchCost(t *testing.T) {
	dev, err := iwarp.NewDevice(nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &iwarp.Config{Device: dev}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, spec := range []benchSpec{
		{Op: opSend, Size: 1, Depth: maxBenchDepth, Conns: 1},
		{Op: opNotify, Size: 1, Depth: maxBenchDepth, Conns: 1},
		{Op: opWrite, Size: 1, Depth: maxBenchDepth, Conns: 1},
		{Op: opRead, Size: 1, Depth: 1, Conns: 3},
		{Op: opWrite, Size: 8 << 20, Depth: 4, Conns: 2},
		{Op: opWrite, Size: 8 << 20, Depth: 4, Conns: 2, HugePages: true},
	} {
		for _, kind := range []linkKind{linkIWARP, linkTCP} {
			before := heap()
			var links [2]benchLink
			for i := range links {
				if links[i], err = newLink(kind, spec, cfg, i == 0); err != nil {
					t.Fatal(err)
				}
			}
			for i := range spec.Conns {
				a, b := tcpPair(t)
				ended := make(chan error, 1)
				go func() { ended <- links[1].add(cmdtest.Context(t), i, b) }()
				if err := errors.Join(links[0].add(cmdtest.Context(t), i, a), <-ended); err != nil {
					t.Fatal(err)
				}
			}
			used, cost := heap()-before, spec.cost(kind)
			t.Logf("%c %+v: %d octets of heap, %d accounted for", kind, spec, used/2, cost)
			if used > 2*cost {
				t.Errorf("%c %+v: %d octets of heap for each end, %d accounted for", kind, spec, used/2, cost)
			}
			runtime.KeepAlive(links)
			for _, l := range links {
				l.close()
			}
		}
	}
}

func tcpPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if a, err = net.Dial("tcp", ln.Addr().String()); err == nil {
		b, err = ln.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

// What the other end says that it has used is a time that can be added up and shown.
func TestBenchUsageOfTheOtherEnd(t *testing.T) {
	for _, said := range []time.Duration{-1, math.MinInt64, math.MaxInt64, 5} {
		m := benchMsg{Usage: benchUsage{CPU: said}}
		m.clean()
		if sum := m.Usage.plus(benchUsage{CPU: time.Hour}).CPU; sum < time.Hour || said == 5 && sum != time.Hour+5 {
			t.Errorf("%d: with this end's hour it is %v", said, sum)
		}
	}
}
