package iwarp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

// R04: everything that a responder says may come glued to its Reply, or cut
// anywhere: at each octet in turn, and into single octets.
// Shows: MPA-7.1-01, MPA-4.3-12
func TestEveryCut(t *testing.T) {
	var f iwarptest.Framer
	stream := iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(1, 1, []byte("pd")))
	for _, s := range [][]byte{
		iwarptest.Send(1, []byte("hello")), iwarptest.Write(0, 0, nil), iwarptest.Send(2, nil),
		iwarptest.SendSolicited(3, []byte("solicited")), iwarptest.Immediate(4, [8]byte{7: 9}),
	} {
		stream = append(stream, f.Frame(s)...)
	}
	try := func(pieces [][]byte) {
		synctest.Test(t, func(t *testing.T) {
			x, y := pipe(nil)
			go func() {
				readRequest(y)
				for _, p := range pieces {
					_, _ = y.Write(p)
					synctest.Wait()
				}
				_ = y.(*iwarptest.Conn).CloseWrite()
			}()
			c, err := iwarp.Client(testContext(t), x, &iwarp.Config{MPA: iwarp.MPAConfig{RTR: iwarp.RTRNone}})
			check(t, "Client", err)
			if pd := c.ConnectionState().PrivateData; string(pd) != "pd" {
				t.Fatalf("Private Data %q", pd)
			}
			wantRecv(t, c, "hello")
			wantRecv(t, c, "")
			if m := wantRecv(t, c, "solicited"); !m.Solicited {
				t.Error("not solicited")
			}
			if m := wantRecv(t, c, ""); m.Op != iwarp.OpRecvImmediate || m.Immediate != 9 {
				t.Errorf("%+v", m)
			}
			if _, err := c.Recv(testContext(t), nil); err != io.EOF {
				t.Errorf("at the end: %v", err)
			}
			check(t, "Close", c.Close())
		})
	}
	try([][]byte{stream})
	for pieces := range iwarptest.EverySplit(stream, 2) {
		try(pieces)
	}
	for size, pieces := range iwarptest.EverySize(stream) {
		if size < 8 {
			try(pieces)
		}
	}
}

// R17: STag and TO of an empty tagged message are not looked at; an empty Read is
// answered with an empty Response.
// Shows: DDP-5.2-08, RDMAP-5.1-04, RDMAP-5.2.1-10, RDMAP-5.2.1-12, RDMAP-5.2.1-13
func TestEmptyTagged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := serverOfPeer(t, nil)
		p.Send(iwarptest.Write(0, ^uint64(0), nil), iwarptest.ReadRequest(1, 0, ^uint64(0), 0, 0, ^uint64(0)))
		p.WantFrame("an empty Response", iwarptest.ReadResponse(0, ^uint64(0), nil))
		if c.Err() != nil {
			t.Error(c.Err())
		}
	})
}

// R43: a peer without Immediate Data says so, and the caller can tell.
// Shows: EXT-1.1-02
func TestUnsupportedCompletions(t *testing.T) {
	for _, op := range []iwarp.Op{iwarp.OpImmediate, iwarp.OpFetchAdd} {
		synctest.Test(t, func(t *testing.T) {
			c, p := clientOfPeer(t, nil)
			check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{ID: 1, Op: op}, iwarp.SendWR{ID: 2, Op: iwarp.OpRead}))
			request := p.Frame("the request")
			p.Send(iwarptest.Terminate(uint16(protocol.RDMAPOpcode), request))
			p.CloseWrite()
			wantDone(t, c)
			wantCode(t, c.Err(), protocol.RDMAPOpcode, true)
			got := make([]iwarp.Completion, 3)
			n := c.QP().SendCQ().Poll(got)
			if n != 2 || got[1].Status() != iwarp.StatusFlushed || !errors.Is(got[1].Err, errors.ErrUnsupported) {
				t.Errorf("completions %+v", got[:n])
			}
			// Immediate Data is done when TCP has it.
			if first := got[0].Status(); op == iwarp.OpFetchAdd && first != iwarp.StatusRemoteUnsupported ||
				op == iwarp.OpImmediate && first != iwarp.StatusSuccess {
				t.Errorf("the request itself: %+v", got[0])
			}
		})
	}
}

// A Read Response's octets may come in many segments and are complete only with
// the last one; the order of completions is that of the requests.
// Shows: RDMAP-5.5-12, RDMAP-5.5-13, RDMAP-5.2.2-03
func TestReadCompletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := clientOfPeer(t, nil)
		sinks := [][]byte{make([]byte, 4), make([]byte, 4)}
		check(t, "PostSend", c.QP().PostSend(
			iwarp.SendWR{ID: 0, Op: iwarp.OpRead, SG: [][]byte{sinks[0][:1], sinks[0][1:]}},
			iwarp.SendWR{ID: 1, Op: iwarp.OpRead, SG: sinks[1:]},
			iwarp.SendWR{ID: 2, Op: iwarp.OpSend}))
		r0, r1 := p.Frame("Read 0"), p.Frame("Read 1")
		p.WantFrame("a Send does not wait for the Reads before it", iwarptest.Send(1, nil))
		stag := func(r []byte) uint32 { return binary.BigEndian.Uint32(r[18:]) }
		p.Send(iwarptest.Tagged(2, false, stag(r0), 0, []byte("ab")),
			iwarptest.Tagged(2, false, stag(r0), 2, []byte("c")))
		synctest.Wait()
		if n := c.QP().SendCQ().Poll(make([]iwarp.Completion, 1)); n != 0 {
			t.Fatal("a completion before the last segment, or of what came later")
		}
		p.Send(iwarptest.Tagged(2, true, stag(r0), 3, []byte("d")), iwarptest.ReadResponse(stag(r1), 0, []byte("efgh")))
		for i, got := range collect(t, c.QP().SendCQ(), 3) {
			if got.ID != uint64(i) || got.Err != nil {
				t.Errorf("%+v", got)
			}
		}
		if string(sinks[0])+string(sinks[1]) != "abcdefgh" {
			t.Errorf("sinks %q", sinks)
		}
	})
}

// A region that is taken away while it is being read: the Terminate echoes the
// Request, advanced to where the Response stopped.
// Shows: RDMAP-4.8-08
func TestReadTerminatedMidway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 8 << 20
		x, y := pipe(&iwarptest.PipeConfig{Window: 8 << 10})
		c, p := serverOn(t, x, y, nil)
		mr := must(c.NewMR(make([]byte, size), iwarp.RemoteRead))(t)
		p.Send(iwarptest.ReadRequest(1, 77, 1000, size, uint32(mr.STag()), 0))
		synctest.Wait()
		mr.Invalidate()
		got := uint64(0)
		for {
			s := p.Frame("the Response, then the Terminate")
			if s[0]&0x80 != 0 {
				got += uint64(len(s) - 14)
				continue
			}
			term := s[18:]
			if code := binary.BigEndian.Uint16(term); code != uint16(protocol.RDMAPInvalidSTag) {
				t.Fatalf("Terminate 0x%04x", code)
			}
			read := term[4+2+18:]
			if sinkTO, left := binary.BigEndian.Uint64(read[4:]), binary.BigEndian.Uint32(read[12:]); sinkTO != 1000+
				got || uint64(left) != size-got || got == 0 || got == size {
				t.Errorf("after %d octets: sink TO %d, size %d", got, sinkTO, left)
			}
			break
		}
		p.WantEOF("the end")
	})
}

// NewConn puts a connection on an LLP whose startup somebody else has done.
func TestNewConn(t *testing.T) {
	x, y := pipe(nil)
	ctx := testContext(t)
	done := make(chan *iwarp.Conn, 1)
	go func() {
		b, err := iwarp.Server(ctx, y, nil)
		if err != nil {
			t.Error(err)
		}
		done <- b
	}()
	m := must(mpa.Initiate(ctx, x, &mpa.Options{IRD: 4, ORD: 4}))(t)
	a := must(iwarp.NewConn(m, iwarp.ConnectionState{Initiator: true, IRD: 4, ORD: 4}, nil))(t)
	exercise2(t, a, <-done)
	if _, err := iwarp.NewConn(m, iwarp.ConnectionState{},
		&iwarp.Config{MPA: iwarp.MPAConfig{Revision: 9}}); err == nil {
		t.Error("a bad configuration was taken")
	}
}

func exercise2(t *testing.T, a, b *iwarp.Conn) {
	t.Helper()
	check(t, "Send", a.Send(testContext(t), []byte("x")))
	wantRecv(t, b, "x")
	mr := must(b.NewMR(pattern(100), iwarp.RemoteRead))(t)
	defer mr.Close()
	back := make([]byte, 100)
	check(t, "Read", a.RDMARead(testContext(t), back, mr.Remote()))
	if !bytes.Equal(back, pattern(100)) {
		t.Error("octets differ")
	}
	closeBoth(t, a, b)
}

// lines counts what is logged.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.b.String()), "\n")
}

// R61: the log has a bounded number of lines for a connection, and each says
// what it is about.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(lines)
		d := newDevice(t, &iwarp.DeviceConfig{Logger: slog.New(slog.NewTextHandler(log, nil))})
		const n = 20
		for i := range n {
			x, y := pipe(nil)
			c, p := clientOn(t, x, y, &iwarp.Config{Device: d})
			if i%2 == 0 {
				p.Send(iwarptest.Send(5, nil), iwarptest.Send(6, nil), iwarptest.Send(7, nil))
			}
			p.Abort()
			wantDone(t, c)
		}
		got := log.all()
		if len(got) > 3*n {
			t.Errorf("%d lines for %d connections", len(got), n)
		}
		for _, l := range got {
			if !strings.Contains(l, "iwarp") || !strings.Contains(l, "remote=") {
				t.Errorf("line %q", l)
			}
		}
	})
}

// R75: the sizes in use are there to see.
func TestStats(t *testing.T) {
	a, b := tcpPair(t, nil, nil)
	mr := must(b.NewMR(make([]byte, 1<<20), iwarp.RemoteWrite))(t)
	defer mr.Close()
	check(t, "Write", a.RDMAWrite(testContext(t), make([]byte, 1<<20), mr.Remote()))
	check(t, "Send", a.Send(testContext(t), []byte("x")))
	wantRecv(t, b, "x")
	sa, sb := a.Stats(), b.Stats()
	if sa.MPA.EMSS < 500 || sa.MULPDU < 128 || sa.MULPDU > mpa.MaxULPDU || sa.MULPDU > sa.MPA.EMSS {
		t.Errorf("EMSS %d, MULPDU %d", sa.MPA.EMSS, sa.MULPDU)
	}
	if sa.RDMAP.PayloadSent != 1<<20+1 || sb.RDMAP.PayloadReceived != 1<<20+1 ||
		sb.MPA.FPDUsReceived != sa.MPA.FPDUsSent {
		t.Errorf("%+v\n%+v", sa, sb)
	}
	if sb.MPA.OctetsReceived != sa.MPA.OctetsSent {
		t.Errorf("octets sent %d, received %d", sa.MPA.OctetsSent, sb.MPA.OctetsReceived)
	}
}

// Errors of the library can be taken apart.
func TestErrorTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := clientOfPeer(t, nil)
		check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{make([]byte, 1)}}))
		p.Frame("the Read Request")
		p.Abort()
		err := collect(t, c.QP().SendCQ(), 1)[0].Err
		for _, want := range []error{iwarp.ErrFlushed, &iwarp.ProtocolError{Code: protocol.MPAConnectionLost}} {
			if !errors.Is(err, want) {
				t.Errorf("%v is not %v", err, want)
			}
		}
	})
}
