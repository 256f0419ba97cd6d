package iwarp_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// What TLS carries: Sends, Writes and Reads of one and of many FPDUs, with each
// use of Markers, with and without CRC.
// Shows: SEC-5.4.2-01, DDP-8.4-01, MPA-4.4-02, MPA-4.4-04
func TestTLS(t *testing.T) {
	for _, markers := range [...]struct{ client, server bool }{
		{}, {client: true}, {server: true}, {client: true, server: true},
	} {
		for _, crc := range []bool{true, false} {
			t.Run(fmt.Sprintf("markers %v crc %v", markers, crc), func(t *testing.T) {
				var dc iwarp.DeviceConfig
				if !crc {
					dc.CRCSuppression = &iwarp.CRCSuppression{Protection: "TLS"}
				}
				d := newDevice(t, &dc)
				a, b := netPair(t, "TLS")
				client, server := startOn(t, a, b,
					&iwarp.Config{Device: d, MPA: iwarp.MPAConfig{Markers: markers.client}},
					&iwarp.Config{Device: d, MPA: iwarp.MPAConfig{Markers: markers.server}})
				st := client.ConnectionState()
				if st.CRC != crc || st.RecvMarkers != markers.client || st.SendMarkers != markers.server {
					t.Fatalf("startup agreed on %+v", st)
				}
				exerciseTLS(t, client, server)
				exerciseTLS(t, server, client)
				closeBoth(t, client, server)
			})
		}
	}
}

// exerciseTLS moves data from a to b by each means.
func exerciseTLS(t *testing.T, a, b *iwarp.Conn) {
	t.Helper()
	ctx := testContext(t)
	data := pattern(1<<20 + 7)
	target, source := newGuarded(len(data)), bytes.Clone(data)
	written := must(b.NewMR(target.mem, iwarp.RemoteWrite))(t)
	defer written.Close()
	read := must(b.NewMR(source, iwarp.RemoteRead))(t)
	defer read.Close()

	for _, n := range []int{0, 1, 511, 40_000} {
		check(t, "Send", a.Send(ctx, data[:n]))
		wantRecv(t, b, string(data[:n]))
	}
	check(t, "Write", a.RDMAWrite(ctx, data, written.Remote()))
	check(t, "Send", a.Send(ctx, []byte("written")))
	wantRecv(t, b, "written")
	target.check(t)
	if !bytes.Equal(target.mem, data) {
		t.Error("the region has not what was written")
	}
	got := make([]byte, len(data))
	check(t, "Read", a.RDMARead(ctx, got, read.Remote()))
	if !bytes.Equal(got, data) {
		t.Error("Read gave something else than the region has")
	}
}

// bound is how the ends of a TLS connection with channel binding have fared.
type bound struct {
	c   *iwarp.Conn
	err error
}

func startBound(ctx context.Context, start func(context.Context, *tls.Conn, []byte) (*iwarp.Conn, error), tc *tls.Conn,
	secret string,
) <-chan bound {
	ch := make(chan bound, 1)
	go func() {
		c, err := start(ctx, tc, []byte(secret))
		ch <- bound{c, err}
	}()
	return ch
}

// Two ends that share a secret get a connection, on which data flows.
func TestTLSChannelBinding(t *testing.T) {
	a, b := netPair(t, "tcp")
	ctx := testContext(t)
	serverCh := startBound(ctx, serverBound, tls.Server(b, serverTLS(t)), "secret")
	clientCh := startBound(ctx, clientBound, tls.Client(a, clientTLS), "secret")
	client, server := <-clientCh, <-serverCh
	if client.err != nil || server.err != nil {
		t.Fatalf("client %v, server %v", client.err, server.err)
	}
	defer endBoth(client.c, server.c)
	exerciseTLS(t, client.c, server.c)
	closeBoth(t, client.c, server.c)
}

// An end without the secret is rejected in the Reply, and learns no proof from it.
func TestTLSChannelBindingWrongSecret(t *testing.T) {
	a, b := netPair(t, "tcp")
	ctx := testContext(t)
	serverCh := startBound(ctx, serverBound, tls.Server(b, serverTLS(t)), "secret")
	clientCh := startBound(ctx, clientBound, tls.Client(a, clientTLS), "guess")
	wantRejected(t, <-clientCh, <-serverCh)
}

func wantRejected(t *testing.T, client, server bound) {
	t.Helper()
	var rejected *iwarp.RejectError
	if !errors.As(client.err, &rejected) || string(rejected.PrivateData) != "channel binding" {
		t.Errorf("client: %v, want a RejectError of the responder's", client.err)
	}
	if !errors.Is(server.err, errBinding) {
		t.Errorf("server: %v, want %v", server.err, errBinding)
	}
}

// middle is a man in the middle: a TLS server to the client, a TLS client to the
// server. Neither end checks certificates, so TLS alone does not notice.
func middle(t *testing.T) (client, server net.Conn, toClient, toServer *tls.Conn) {
	t.Helper()
	client, x := netPair(t, "tcp")
	y, server := netPair(t, "tcp")
	return client, server, tls.Server(x, serverTLS(t)), tls.Client(y, clientTLS)
}

// relay copies both ways until both ends have closed.
func relay(toClient, toServer *tls.Conn) (wait func()) {
	var wg sync.WaitGroup
	for _, c := range [...][2]*tls.Conn{{toClient, toServer}, {toServer, toClient}} {
		wg.Go(func() {
			_, _ = io.Copy(c[1], c[0])
			_ = c[1].Close()
		})
	}
	return wg.Wait
}

// Without channel binding the man in the middle gets through, so that the tests
// below show something.
func TestTLSRelayWithoutBinding(t *testing.T) {
	client, server, toClient, toServer := middle(t)
	wait := relay(toClient, toServer)
	a, b := startOn(t, tls.Client(client, clientTLS), tls.Server(server, serverTLS(t)), nil, nil)
	check(t, "Send", a.Send(testContext(t), []byte("overheard")))
	wantRecv(t, b, "overheard")
	endBoth(a, b)
	wait()
}

// A man in the middle who relays, even between ends that both know the secret, is
// refused by the responder.
func TestTLSChannelBindingRelay(t *testing.T) {
	client, server, toClient, toServer := middle(t)
	wait := relay(toClient, toServer)
	defer wait()
	ctx := testContext(t)
	serverCh := startBound(ctx, serverBound, tls.Server(server, serverTLS(t)), "secret")
	clientCh := startBound(ctx, clientBound, tls.Client(client, clientTLS), "secret")
	wantRejected(t, <-clientCh, <-serverCh)
}

// A man in the middle who starts iWARP by himself on either side, with what he
// can know: the bindings of both TLS connections, and the client's proof.
func TestTLSChannelBindingForged(t *testing.T) {
	for _, forge := range []struct {
		name  string
		proof func(seen []byte, tc *tls.Conn) []byte
	}{
		{name: "the client's own proof", proof: func(seen []byte, _ *tls.Conn) []byte { return seen }},
		{name: "without a proof", proof: func([]byte, *tls.Conn) []byte { return nil }},
		{name: "the binding itself", proof: func(_ []byte, tc *tls.Conn) []byte {
			st := tc.ConnectionState()
			return must(st.ExportKeyingMaterial("EXPORTER-Channel-Binding", nil, 32))(t)
		}},
		{name: "a proof with another secret", proof: func(_ []byte, tc *tls.Conn) []byte {
			return must(bindingProof(tc, []byte("guess"), "responder"))(t)
		}},
	} {
		t.Run(forge.name, func(t *testing.T) {
			client, server, toClient, toServer := middle(t)
			ctx := testContext(t)
			clientCh := startBound(ctx, clientBound, tls.Client(client, clientTLS), "secret")
			serverCh := startBound(ctx, serverBound, tls.Server(server, serverTLS(t)), "secret")

			request := must(iwarp.ServerRequest(ctx, toClient, nil))(t)
			seen := request.PrivateData()
			check(t, "handshake", toServer.HandshakeContext(ctx))
			_, err := iwarp.Client(ctx, toServer, &iwarp.Config{PrivateData: forge.proof(seen, toServer)})
			var rejected *iwarp.RejectError
			if !errors.As(err, &rejected) {
				t.Errorf("the man in the middle at the server: %v, want a RejectError", err)
			}
			_ = toServer.Close()
			if s := <-serverCh; !errors.Is(s.err, errBinding) {
				t.Errorf("server: %v", s.err)
			}

			m := must(request.Accept(ctx, &iwarp.Config{PrivateData: forge.proof(seen, toClient)}))(t)
			defer m.Abort()
			if c := <-clientCh; !errors.Is(c.err, errBinding) {
				t.Errorf("client: %v, want %v", c.err, errBinding)
			}
		})
	}
}

// TLS 1.2 has no unique exporter value without more conditions: refused.
func TestTLSChannelBindingOldTLS(t *testing.T) {
	a, b := netPair(t, "tcp")
	old := clientTLS.Clone()
	old.MaxVersion = tls.VersionTLS12
	ctx := testContext(t)
	serverCh := startBound(ctx, serverBound, tls.Server(b, serverTLS(t)), "secret")
	clientCh := startBound(ctx, clientBound, tls.Client(a, old), "secret")
	for _, r := range []bound{<-clientCh, <-serverCh} {
		if r.err == nil {
			t.Error("a connection over TLS 1.2 was bound")
		}
	}
}

// Octets changed on the network end the connection; nothing of them is placed.
func TestTLSTampering(t *testing.T) {
	x, y := netPair(t, "tcp")
	flip := &flipConn{Conn: x}
	client, server := startOn(t, tls.Client(flip, clientTLS), tls.Server(y, serverTLS(t)), nil, nil)
	g := newGuarded(1000)
	mr := must(server.NewMR(g.mem, iwarp.RemoteWrite))(t)
	flip.mu.Lock()
	flip.on = true
	flip.mu.Unlock()
	_ = client.RDMAWrite(testContext(t), pattern(1000), mr.Remote()) // the network takes it
	wantDone(t, server)
	if server.Err() == nil {
		t.Error("the server's connection ended without an error")
	}
	mr.Close()
	g.checkUntouched(t)
}

// flipConn changes a bit of what is written once it is on.
type flipConn struct {
	net.Conn
	mu sync.Mutex
	on bool
}

func (c *flipConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	on := c.on
	c.mu.Unlock()
	if on {
		b = bytes.Clone(b)
		b[len(b)-1] ^= 1
	}
	return c.Conn.Write(b)
}

// What CRCSuppression.Covers decides, and when it is asked.
// Shows: MPA-4.4-02, MPA-4.4-03, MPA-4.4-04, MPA-1.2-01
func TestCRCSuppressionCovers(t *testing.T) {
	errCovers := errors.New("the kernel does not say")
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	elsewhere := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	for _, c := range []struct {
		name     string
		peers    []netip.Prefix
		require  bool
		covered  bool
		err      error
		asked    bool
		crc      bool
		otherOff bool // the other end does without CRC in any case
	}{
		{name: "covered", covered: true, asked: true, otherOff: true},
		{name: "covered, of the peers", peers: loopback, covered: true, asked: true, otherOff: true},
		{name: "not covered", asked: true, crc: true, otherOff: true},
		{name: "error", err: errCovers, asked: true, crc: true, otherOff: true},
		{name: "error and covered", covered: true, err: errCovers, asked: true, crc: true, otherOff: true},
		{name: "not of the peers", peers: elsewhere, covered: true, crc: true, otherOff: true},
		{name: "CRC required", require: true, covered: true, crc: true, otherOff: true},
		{name: "the other end wants CRC", covered: true, asked: true, crc: true},
	} {
		for _, initiator := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, initiator %v", c.name, initiator), func(t *testing.T) {
				x, y := netPair(t, "tcp")
				if !initiator {
					x, y = y, x
				}
				var asked int
				covers := func(ctx context.Context, local, remote net.Addr) (bool, error) {
					asked++
					if _, ok := ctx.Deadline(); !ok {
						t.Error("Covers was called without a deadline")
					}
					if local.String() != x.LocalAddr().String() || remote.String() != x.RemoteAddr().String() {
						t.Errorf("Covers was asked about %v to %v", local, remote)
					}
					return c.covered, c.err
				}
				mine := newDevice(t,
					&iwarp.DeviceConfig{
						CRCSuppression: &iwarp.CRCSuppression{Protection: "ESP", Peers: c.peers, Covers: covers},
					})
				var dc iwarp.DeviceConfig
				if c.otherOff {
					dc.CRCSuppression = &iwarp.CRCSuppression{Protection: "a test"}
				}
				mc := &iwarp.Config{Device: mine, MPA: iwarp.MPAConfig{RequireCRC: c.require}}
				oc := &iwarp.Config{Device: newDevice(t, &dc)}
				var a, b *iwarp.Conn
				if initiator {
					a, b = startOn(t, x, y, mc, oc)
				} else {
					a, b = startOn(t, y, x, oc, mc)
				}
				if a.ConnectionState().CRC != c.crc || b.ConnectionState().CRC != c.crc {
					t.Errorf("CRC is %v, want %v", a.ConnectionState().CRC, c.crc)
				}
				if (asked > 0) != c.asked {
					t.Errorf("Covers was asked %d times", asked)
				}
				check(t, "Send", a.Send(testContext(t), []byte("x")))
				wantRecv(t, b, "x")
				closeBoth(t, a, b)
			})
		}
	}
}

// A Covers that waits ends with the startup's context.
func TestCRCSuppressionCoversWaits(t *testing.T) {
	x, y := netPair(t, "tcp")
	defer y.Close()
	ctx, cancel := context.WithCancel(testContext(t))
	d := newDevice(t, &iwarp.DeviceConfig{CRCSuppression: &iwarp.CRCSuppression{
		Protection: "ESP",
		Covers: func(ctx context.Context, _, _ net.Addr) (bool, error) {
			cancel()
			<-ctx.Done()
			return false, context.Cause(ctx)
		},
	}})
	if _, err := iwarp.Client(ctx, x, &iwarp.Config{Device: d}); !errors.Is(err, context.Canceled) {
		t.Errorf("Client: %v", err)
	}
}

// A connection without addresses of TCP: asked, with the addresses that it has.
func TestCRCSuppressionCoversPipe(t *testing.T) {
	var asked bool
	d := newDevice(t, &iwarp.DeviceConfig{CRCSuppression: &iwarp.CRCSuppression{
		Protection: "memory",
		Covers: func(context.Context, net.Addr, net.Addr) (bool, error) {
			asked = true
			return true, nil
		},
	}})
	x, y := pipe(&iwarptest.PipeConfig{})
	off := newDevice(t, &iwarp.DeviceConfig{CRCSuppression: &iwarp.CRCSuppression{Protection: "memory"}})
	a, b := startOn(t, x, y, &iwarp.Config{Device: d}, &iwarp.Config{Device: off})
	if !asked || a.ConnectionState().CRC {
		t.Errorf("asked %v, CRC %v", asked, a.ConnectionState().CRC)
	}
	closeBoth(t, a, b)
}
