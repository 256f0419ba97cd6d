package iwarp_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// How a TLS stream can end between two records, after a whole message: what the
// peer has ended by close_notify is a graceful end, and what anybody can forge on
// the network is not.
//
// Shows: MPA-8-01, MPA-3-09, DDP-3-09
func TestTLSEnds(t *testing.T) {
	ends := []struct {
		name     string
		end      func(above *tls.Conn, below *net.TCPConn) error
		graceful bool
	}{
		{
			name: "close_notify", end: func(above *tls.Conn, _ *net.TCPConn) error { return above.CloseWrite() },
			graceful: true,
		},
		{name: "close_notify and FIN", end: func(above *tls.Conn, below *net.TCPConn) error {
			return errors.Join(above.CloseWrite(), below.CloseWrite())
		}, graceful: true},
		{name: "FIN", end: func(_ *tls.Conn, below *net.TCPConn) error { return below.CloseWrite() }},
		{name: "reset", end: func(_ *tls.Conn, below *net.TCPConn) error {
			return errors.Join(below.SetLinger(0), below.Close())
		}},
		{name: "FIN within a record", end: func(_ *tls.Conn, below *net.TCPConn) error {
			_, err := below.Write([]byte{23, 3, 3, 0})
			return errors.Join(err, below.CloseWrite())
		}},
		{name: "an alert that is not TLS", end: func(_ *tls.Conn, below *net.TCPConn) error {
			_, err := below.Write([]byte{21, 3, 3, 0, 2, 1, 0}) // close_notify, not encrypted
			return errors.Join(err, below.CloseWrite())
		}},
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, server := range []bool{false, true} {
			for _, e := range ends {
				t.Run(fmt.Sprintf("%s/%s/server %t", tls.VersionName(version), e.name, server), func(t *testing.T) {
					c, p, above, below := tlsPeer(t, version, server, iwarp.BelowTLS)
					p.Send(iwarptest.Send(1, []byte("whole")))
					wantRecv(t, c, "whole")
					check(t, "the end", e.end(above, below))
					_, err := c.Recv(testContext(t), nil)
					if e.graceful {
						if err != io.EOF || c.Err() != nil {
							t.Errorf("Recv: %v, Err: %v, want io.EOF and nil", err, c.Err())
						}
						check(t, "Close", c.Close())
						return
					}
					wantCode(t, err, protocol.MPAConnectionLost, false)
					if e.name == "FIN" && !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Errorf("Recv: %v, want io.ErrUnexpectedEOF in it", err)
					}
					wantDone(t, c)
					wantCode(t, c.Err(), protocol.MPAConnectionLost, false)
				})
			}
		}
	}
}

// tlsPeer starts a connection over TLS against a scripted peer, with wrap around the
// TCP connection of this end, and returns the peer's two layers too.
func tlsPeer(t *testing.T, version uint16, server bool,
	wrap func(net.Conn) net.Conn,
) (*iwarp.Conn, *iwarptest.Peer, *tls.Conn, *net.TCPConn) {
	t.Helper()
	x, y := netPair(t, "tcp")
	t.Cleanup(func() { _ = x.Close(); _ = y.Close() })
	sc, cc := serverTLS(t), clientTLS.Clone()
	cc.MinVersion, cc.MaxVersion = version, version
	below := y.(*net.TCPConn)
	if server {
		above := tls.Client(y, cc)
		c, p := serverOn(t, tls.Server(wrap(x), sc), above, nil)
		return c, p, above, below
	}
	above := tls.Server(y, sc)
	c, p := clientOn(t, tls.Client(wrap(x), cc), above, nil)
	return c, p, above, below
}

// Without BelowTLS nobody can tell, as its comment says: crypto/tls reports io.EOF
// for both. If it ever reports the difference, BelowTLS is not needed any more.
func TestTLSEndsAlikeWithoutBelowTLS(t *testing.T) {
	c, _, _, below := tlsPeer(t, tls.VersionTLS13, true, func(nc net.Conn) net.Conn { return nc })
	check(t, "FIN", below.CloseWrite())
	if _, err := c.Recv(testContext(t), nil); err != io.EOF {
		t.Errorf("Recv: %v", err)
	}
}

// What is posted and under way when the stream is cut fails, as it does when TCP is
// lost: a Read whose Response cannot come, and a Recv that waits.
func TestTLSCutWithWorkUnderWay(t *testing.T) {
	c, p, _, below := tlsPeer(t, tls.VersionTLS13, false, iwarp.BelowTLS)
	check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{ID: 7, Op: iwarp.OpRead, SG: [][]byte{make([]byte, 8)}}))
	p.Frame("the Read Request")
	check(t, "FIN", below.CloseWrite())
	got := collect(t, c.QP().SendCQ(), 1)[0]
	if got.ID != 7 || !errors.Is(got.Err, iwarp.ErrFlushed) || !errors.Is(got.Err, io.ErrUnexpectedEOF) {
		t.Errorf("completion %+v", got)
	}
}

// BelowTLS changes nothing else: not what goes over it, nor what reaches TCP.
func TestBelowTLS(t *testing.T) {
	x, y := netPair(t, "tcp")
	b := iwarp.BelowTLS(x)
	if inner := b.(interface{ NetConn() net.Conn }).NetConn(); inner != x {
		t.Errorf("NetConn returns %v", inner)
	}
	client, server := startOn(t, tls.Client(b, clientTLS), tls.Server(iwarp.BelowTLS(y), serverTLS(t)), nil, nil)
	exerciseTLS(t, client, server)
	exerciseTLS(t, server, client)
	closeBoth(t, client, server)
	if client.Err() != nil || server.Err() != nil {
		t.Errorf("after a graceful end: %v and %v", client.Err(), server.Err())
	}
	// Without TLS above, a FIN is a FIN.
	x, y = netPair(t, "tcp")
	c, p := clientOn(t, iwarp.BelowTLS(x), y, nil)
	check(t, "FIN", y.(*net.TCPConn).CloseWrite())
	if _, err := c.Recv(testContext(t), nil); err != io.EOF {
		t.Errorf("Recv: %v", err)
	}
	c.Abort()
	_ = p.Conn.Close()
}
