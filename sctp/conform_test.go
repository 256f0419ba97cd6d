package sctp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/mpa"
)

// gateway hands what comes over MPA and TCP on over SCTP, and back: segments as they are, startup frames
// as control messages. So whatever speaks MPA, such as iwarp conform, reaches a peer over SCTP.
type gateway struct {
	to  string
	cfg *Config
}

// serve carries one TCP connection to its end.
func (g *gateway) serve(ctx context.Context, nc net.Conn) {
	defer nc.Close()
	in, err := mpa.ReadRequest(ctx, nc, nil)
	if err != nil {
		return
	}
	udp, err := (&net.Dialer{}).DialContext(ctx, "udp", g.to)
	if err != nil {
		return
	}
	a, err := associate(ctx, udp, g.cfg, true)
	if err != nil {
		return
	}
	s, err := a.open(ctx)
	if err != nil {
		a.Abort()
		return
	}
	defer s.Close()
	m, err := g.start(ctx, in.Request(), nc, s)
	if err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := backwards(s, m)
		_ = m.CloseWrite()
		if !errors.Is(err, io.EOF) {
			_ = m.Close()
		}
	}()
	for err == nil {
		err = m.Receive(func(_ uint64, segment []byte) error { return s.Queue(segment, nil, false) })
	}
	if errors.Is(err, io.EOF) {
		_ = s.CloseWrite()
	} else {
		_ = s.Abort()
	}
	<-done
}

// start hands the Request and its answer on.
func (g *gateway) start(ctx context.Context, req *mpa.Startup, nc net.Conn, s *session) (*mpa.Conn, error) {
	f := Initiate
	if req.Enhanced {
		f = EnhancedInitiate
	}
	if err := s.control(f, req.PrivateData); err != nil {
		return nil, err
	}
	reply, err := s.answer(ctx)
	if err != nil {
		return nil, err
	}
	frame, err := reply.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	if _, err := nc.Write(frame); err != nil || reply.Reject {
		return nil, errors.Join(err, io.EOF)
	}
	return mpa.NewConn(nc, mpa.Params{Revision: reply.Revision, CRC: true, SendMarkers: req.Markers}, nil), nil
}

// backwards hands what comes over SCTP on, in the order of sending, until it ends.
func backwards(s *session, m *mpa.Conn) (err error) {
	early := make(map[uint64][]byte)
	var next uint64
	for err == nil {
		err = s.Receive(func(order uint64, segment []byte) error {
			early[order] = slices.Clone(segment)
			for b, ok := early[next]; ok; b, ok = early[next] {
				delete(early, next)
				next++
				if err := m.Queue(b, nil, false); err != nil {
					return err
				}
			}
			_, err := m.Flush(true)
			return err
		})
	}
	return err
}

// families are the cases that are about more than MPA's own octets.
const families = `^(depth|private|rtr|length|version|opcode|queue|access|read|response|terminate|teardown)/`

// iwarp conform, which plays peers that break the rules of DDP and RDMAP, finds over SCTP what it finds
// over MPA: nothing.
// Shows: SCTP-11.3-03
func TestConform(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	bin := filepath.Join(t.TempDir(), "iwarp")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/iwarp")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	l, err := Listen("udp", "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go respond(ctx, l)
	nl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer nl.Close()
	cfg, err := (*Config)(nil).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{to: l.Addr().String(), cfg: cfg}
	go func() {
		for {
			nc, err := nl.Accept()
			if err != nil {
				return
			}
			go g.serve(ctx, nc)
		}
	}()
	var out bytes.Buffer
	run := exec.CommandContext(ctx, bin, "conform", "--run", families, nl.Addr().String())
	run.Stdout, run.Stderr = &out, &out
	err = run.Run()
	t.Logf("%s", tail(out.String(), 60))
	if !strings.Contains(out.String(), " 0 failed") || strings.Contains(out.String(), " 0 passed") {
		t.Error("no verdict")
	}
	if err != nil {
		t.Errorf("iwarp conform over SCTP: %v", err)
	}
}

// respond is a responder of which nothing is known: it accepts, receives, and closes when the peer does.
func respond(ctx context.Context, l *iwarp.Listener) {
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			return
		}
		go func() {
			for err == nil {
				_, err = c.Recv(ctx, make([]byte, 1<<16))
			}
			_ = c.Close()
		}()
	}
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
