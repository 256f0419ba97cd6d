package sctp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/sctp"
)

// faulty is a packet conn that loses, holds back and repeats some of what is written to it.
type faulty struct {
	net.PacketConn
	mu   sync.Mutex
	rnd  *rand.Rand
	loss float64
	held []byte
	to   net.Addr
	tap  func(p []byte) []byte // nil: passes as it is
}

func (f *faulty) WriteTo(p []byte, to net.Addr) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tap != nil {
		if p = f.tap(bytes.Clone(p)); p == nil {
			return 0, nil
		}
	}
	switch x := f.rnd.Float64(); {
	case x < f.loss:
		return len(p), nil
	case x < 2*f.loss && f.held == nil:
		f.held, f.to = bytes.Clone(p), to
		return len(p), nil
	case x < 3*f.loss:
		_, _ = f.PacketConn.WriteTo(p, to)
	}
	n, err := f.PacketConn.WriteTo(p, to)
	if f.held != nil && f.rnd.Float64() < 0.3 {
		_, _ = f.PacketConn.WriteTo(f.held, f.to)
		f.held = nil
	}
	return n, err
}

// connected is a packet conn as the conn of one peer.
type connected struct {
	net.PacketConn
	peer net.Addr
}

func (c connected) Read(p []byte) (int, error)  { n, _, err := c.ReadFrom(p); return n, err }
func (c connected) Write(p []byte) (int, error) { return c.WriteTo(p, c.peer) }
func (c connected) RemoteAddr() net.Addr        { return c.peer }

func packetConn(t testing.TB, loss float64, tap func([]byte) []byte) *faulty {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	check(t, "ListenPacket", err)
	return &faulty{PacketConn: pc, rnd: rand.New(rand.NewPCG(1, 2)), loss: loss, tap: tap}
}

// associate makes an association between two packet conns, and a listener on one of them.
func associate(
	t testing.TB, client, server net.PacketConn, sc *sctp.Config, lc *iwarp.ListenConfig,
) (*sctp.Association, *iwarp.Listener) {
	t.Helper()
	l, err := sctp.NewListener(server, lc, sc)
	check(t, "NewListener", err)
	t.Cleanup(func() { _ = l.Close() })
	a, err := sctp.AssociateOver(testContext(t), connected{client, server.LocalAddr()}, sc)
	check(t, "AssociateOver", err)
	t.Cleanup(func() { _ = a.Close() })
	return a, l
}

// On a network that loses, repeats and reorders packets, segments are placed while earlier
// ones are missing, and messages come in order all the same.
// Shows: SCTP-10-01, SCTP-10-02, SCTP-5.2.1-01, SCTP-6-01
func TestLoss(t *testing.T) {
	ctx := testContext(t)
	client, server := packetConn(t, 0.01, nil), packetConn(t, 0.01, nil)
	log := make(lines, 100)
	lc := &iwarp.ListenConfig{Config: &iwarp.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}}
	assoc, l := associate(t, client, server, &sctp.Config{MTU: 1452}, lc)
	ch := accept(ctx, l)
	a, err := assoc.Dial(ctx, nil)
	check(t, "Dial", err)
	b := <-ch
	check(t, "Accept", b.err)
	const n = 1 << 20
	mr, err := b.c.NewMR(make([]byte, n), iwarp.RemoteRead|iwarp.RemoteWrite)
	check(t, "NewMR", err)
	defer mr.Close()
	check(t, "Write", a.RDMAWrite(ctx, pattern(n), mr.Remote()))
	for i := range 10 {
		check(t, "Send", a.Send(ctx, binary.BigEndian.AppendUint32(nil, uint32(i))))
		wantRecv(t, b.c, string(binary.BigEndian.AppendUint32(nil, uint32(i))))
	}
	back := make([]byte, n)
	check(t, "Read", a.RDMARead(ctx, back, mr.Remote()))
	if !bytes.Equal(back, pattern(n)) {
		t.Error("what was read is not what was written")
	}
	st := b.c.Stats().DDP
	if st.OutOfOrder == 0 || st.OctetsEarly == 0 || st.Ahead <= 0 || st.MaxAhead <= 0 {
		t.Errorf("nothing was placed early: %+v", st)
	}
	t.Logf("%+v", st)
	closeBoth(t, a, b.c)
	log.want(ctx, t, "iwarp connection closed", fmt.Sprintf("segments_early=%d octets_early=%d longest_ahead=",
		st.OutOfOrder, st.OctetsEarly))
}

// lines takes what a log handler writes.
type lines chan string

// Write implements io.Writer.
func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// want waits for the line of that message, which has to have some words.
func (l lines) want(ctx context.Context, t *testing.T, msg, words string) {
	t.Helper()
	for {
		select {
		case line := <-l:
			if !strings.Contains(line, msg) {
				continue
			}
			if !strings.Contains(line, words) {
				t.Errorf("%q has no %q", line, words)
			}
			return
		case <-ctx.Done():
			t.Fatalf("no line %q", msg)
		}
	}
}

// Many DDP streams in one association: each has its own end, and an identifier is used again
// when its session is over.
// Shows: SCTP-8-01, SCTP-6.1-01, SCTP-6.6-03, SCTP-11.3-03, SCTP-6-02
func TestManyStreams(t *testing.T) {
	ctx := testContext(t)
	client, server := packetConn(t, 0, nil), packetConn(t, 0, nil)
	assoc, l := associate(t, client, server, &sctp.Config{Streams: 4}, nil)
	for round := range 3 {
		var pairs [4][2]*iwarp.Conn
		for i := range pairs {
			ch := accept(ctx, l)
			a, err := assoc.Dial(ctx, nil)
			if errors.Is(err, sctp.ErrNoStream) {
				t.Fatalf("round %d, connection %d: identifiers are not used again", round, i)
			}
			check(t, "Dial", err)
			b := <-ch
			check(t, "Accept", b.err)
			pairs[i] = [2]*iwarp.Conn{a, b.c}
		}
		if _, err := assoc.Dial(ctx, nil); !errors.Is(err, sctp.ErrNoStream) {
			t.Fatalf("a fifth connection of four: %v", err)
		}
		for i, p := range pairs {
			check(t, "Send", p[0].Send(ctx, []byte{byte(i)}))
		}
		for i, p := range pairs {
			wantRecv(t, p[1], string([]byte{byte(i)}))
			closeBoth(t, p[0], p[1])
		}
	}
}

// The end of an association is told to all its connections.
// Shows: SCTP-11.3-02, SCTP-11.3-01
func TestAssociationEnds(t *testing.T) {
	ctx := testContext(t)
	client, server := packetConn(t, 0, nil), packetConn(t, 0, nil)
	assoc, l := associate(t, client, server, nil, nil)
	var ends []*iwarp.Conn
	for range 3 {
		ch := accept(ctx, l)
		a, err := assoc.Dial(ctx, nil)
		check(t, "Dial", err)
		b := <-ch
		check(t, "Accept", b.err)
		ends = append(ends, a, b.c)
	}
	assoc.Abort()
	for _, c := range ends {
		_, err := c.Recv(ctx, nil)
		if err == nil || errors.Is(err, io.EOF) {
			t.Errorf("Recv after Abort: %v", err)
		}
		<-c.Done()
	}
}
