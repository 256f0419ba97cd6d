package iwarp_test

import (
	"bufio"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

func dialTCP(a net.Addr) (net.Conn, error) { return net.Dial(a.Network(), a.String()) }

func deadline() time.Time { return time.Now().Add(patience) }

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// Two programs speak lines of text and then turn MPA on, either of them as the
// initiator; a reader that has read ahead loses nothing.
// Shows: MPA-7.1-01, MPA-7.1-02, MPA-7.1-04, MPA-7.1.5-01
func TestStreamingMode(t *testing.T) {
	for _, clientInitiates := range []bool{true, false} {
		a, b := netPair(t, "tcp")
		ch := make(chan accepted, 1)
		go func() {
			c, err := streamingEnd(t, b, !clientInitiates)
			ch <- accepted{c, err}
		}()
		x, err := streamingEnd(t, a, clientInitiates)
		r := <-ch
		if err != nil || r.err != nil {
			t.Fatalf("client initiates %v: %v, %v", clientInitiates, err, r.err)
		}
		check(t, "Send", x.Send(testContext(t), []byte("in RDMA mode")))
		wantRecv(t, r.c, "in RDMA mode")
		check(t, "Send", r.c.Send(testContext(t), []byte("so is this end")))
		wantRecv(t, x, "so is this end")
		closeBoth(t, x, r.c)
	}
}

// streamingEnd greets, and turns MPA on. The responder says its last line before
// it waits for the Request; both read with a buffer.
func streamingEnd(t *testing.T, nc net.Conn, initiator bool) (*iwarp.Conn, error) {
	r := bufio.NewReader(nc)
	if initiator {
		if _, err := nc.Write([]byte("hello\nSTART RDMA\n")); err != nil {
			return nil, err
		}
		if line, err := r.ReadString('\n'); err != nil || line != "go ahead\n" {
			return nil, errors.Join(err, errors.New("got "+line))
		}
		if r.Buffered() != 0 {
			return nil, errors.New("octets before the Request")
		}
		return iwarp.Client(testContext(t), nc, nil)
	}
	for _, want := range []string{"hello\n", "START RDMA\n"} {
		if line, err := r.ReadString('\n'); err != nil || line != want {
			return nil, errors.Join(err, errors.New("got "+line))
		}
	}
	if _, err := nc.Write([]byte("go ahead\n")); err != nil {
		return nil, err
	}
	if _, err := r.Peek(20); err != nil { // reads ahead into the Request
		return nil, err
	}
	buffered, _ := r.Peek(r.Buffered())
	req, err := iwarp.ServerRequestFrom(testContext(t), nc, buffered, nil)
	if err != nil {
		return nil, err
	}
	return req.Accept(testContext(t), nil)
}

// A peer that turns MPA on when this end still speaks text, and one that speaks
// text when MPA is due.
// Shows: MPA-7.1.1-02, MPA-7.1.1-04
func TestOneSidedStart(t *testing.T) {
	a, b := netPair(t, "tcp")
	_, _ = b.Write([]byte("500 what is that?\n"))
	_, err := iwarp.Client(testContext(t), a, nil)
	wantCode(t, err, protocol.MPAStartup, false)
	_ = b.Close()
	a, b = netPair(t, "tcp")
	_, _ = b.Write([]byte("EHLO there\n"))
	_, err = iwarp.Server(testContext(t), a, nil)
	wantCode(t, err, protocol.MPAStartup, false)
	_ = b.Close()
}

// A permissive end speaks the RDMA Consortium's protocols to a peer of revision
// 0: Markers, CRC, and version 0 of DDP and RDMAP.
// Shows: MPA-C.2.3-01, MPA-3-10, RDMAP-4.1-06
func TestRDMACPeer(t *testing.T) {
	x, y := pipe(nil)
	p := iwarptest.NewPeer(t, y)
	ch := make(chan accepted, 1)
	go func() {
		c, err := iwarp.Server(testContext(t), x, &iwarp.Config{MPA: iwarp.MPAConfig{RDMAC: mpa.RDMACPermissive}})
		ch <- accepted{c, err}
	}()
	p.Initiate("a permissive end answers revision 0 in kind",
		iwarptest.Request(iwarptest.FlagC|iwarptest.FlagM, 0, nil))
	r := <-ch
	check(t, "Server", r.err)
	defer r.c.Abort()
	if st := r.c.ConnectionState(); !st.RDMAC || st.Revision != 0 || !st.SendMarkers || !st.RecvMarkers || !st.CRC {
		t.Errorf("state %+v", st)
	}
	p.Out.Markers, p.In.Markers = true, true
	p.Send(versionZero(iwarptest.Send(1, []byte("from another time"))))
	wantRecv(t, r.c, "from another time")
	go func() { _ = r.c.Send(testContext(t), []byte("and back")) }()
	p.WantFrame("its Send has version 0 too", versionZero(iwarptest.Send(1, []byte("and back"))))
	wrong := iwarptest.Send(2, []byte("RFC version"))
	p.Send(wrong)
	p.WantFrame("no mixing of versions", versionZero(iwarptest.Terminate(0x1206, wrong)))
}

// versionZero clears DV and RV of a segment.
func versionZero(seg []byte) []byte {
	seg[0] &^= 3
	seg[1] &^= 0xc0
	return seg
}

// Shows: EXT-1.1-02
func TestPeerSupports(t *testing.T) {
	a, b := tcpPair(t, nil, nil)
	mr := must(b.NewMR(make([]byte, 8), iwarp.RemoteAtomic))(t)
	defer mr.Close()
	for _, op := range []iwarp.Op{iwarp.OpFetchAdd, iwarp.OpImmediate} {
		if s := a.PeerSupports(op); s != iwarp.SupportUnknown {
			t.Errorf("%v before use: %v", op, s)
		}
	}
	must(a.FetchAdd(testContext(t), mr.Remote(), 0))(t)
	check(t, "SendImmediate", a.SendImmediate(testContext(t), 1))
	recv(t, b)
	for _, tt := range []struct {
		c    *iwarp.Conn
		op   iwarp.Op
		want iwarp.Support
	}{
		{c: a, op: iwarp.OpCompareSwap, want: iwarp.Supported},
		{c: b, op: iwarp.OpFetchAdd, want: iwarp.Supported},
		{c: b, op: iwarp.OpImmediate, want: iwarp.Supported},
		{c: a, op: iwarp.OpImmediate, want: iwarp.SupportUnknown},
		{c: a, op: iwarp.OpWrite, want: iwarp.Supported},
	} {
		if s := tt.c.PeerSupports(tt.op); s != tt.want {
			t.Errorf("%v after use: %v, want %v", tt.op, s, tt.want)
		}
	}
}

// A peer of RFC 5040 alone ends the stream at the first atomic; the program
// learns that it does not support it.
// Shows: EXT-1.1-02
func TestPeerWithoutExtensions(t *testing.T) {
	c, p := clientOfPeer(t, nil)
	done := make(chan error, 1)
	go func() {
		_, err := c.FetchAdd(testContext(t), iwarp.RemoteBuffer{STag: 1}, 1)
		done <- err
	}()
	f := p.Frame("an atomic comes")
	p.Send(iwarptest.Terminate(0x0206, f))
	p.CloseWrite()
	err := <-done
	if !errors.Is(err, errors.ErrUnsupported) || c.PeerSupports(iwarp.OpFetchAdd) != iwarp.NotSupported ||
		c.PeerSupports(iwarp.OpImmediate) != iwarp.SupportUnknown {
		t.Errorf("error %v, support %v", err, c.PeerSupports(iwarp.OpFetchAdd))
	}
}
