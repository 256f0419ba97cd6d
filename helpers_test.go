package iwarp_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		childMain()
		return
	}
	goleak.VerifyTestMain(m)
}

// patience bounds what a test waits for when something has gone wrong.
const patience = 20 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

type accepted struct {
	c   *iwarp.Conn
	err error
}

// startOn runs both ends' startup on two connected conns.
func startOn(t testing.TB, a, b net.Conn, ac, bc *iwarp.Config) (client, server *iwarp.Conn) {
	t.Helper()
	ctx := testContext(t)
	ch := make(chan accepted, 1)
	go func() {
		c, err := iwarp.Server(ctx, b, bc)
		ch <- accepted{c, err}
	}()
	client, err := iwarp.Client(ctx, a, ac)
	r := <-ch
	if err != nil || r.err != nil {
		t.Fatalf("startup: client %v, server %v", err, r.err)
	}
	t.Cleanup(func() { endBoth(client, r.c) })
	return client, r.c
}

// endBoth ends what a test has left of a connection.
func endBoth(conns ...*iwarp.Conn) {
	for _, c := range conns {
		c.Abort()
	}
}

// closeBoth closes both ends, which each waits for.
func closeBoth(t testing.TB, a, b *iwarp.Conn) {
	t.Helper()
	ch := make(chan error, 1)
	go func() { ch <- b.Close() }()
	check(t, "Close", a.Close())
	check(t, "the other end's Close", <-ch)
}

// netPair makes two connected conns of a kind.
func netPair(t testing.TB, kind string) (a, b net.Conn) {
	t.Helper()
	switch kind {
	case "net.Pipe":
		return net.Pipe()
	case "Pipe":
		return pipe(nil)
	case "TLS":
		x, y := netPair(t, "tcp")
		return tls.Client(iwarp.BelowTLS(x), clientTLS), tls.Server(iwarp.BelowTLS(y), serverTLS(t))
	}
	address := "127.0.0.1:0"
	if kind == "unix" {
		if runtime.GOOS == "windows" {
			t.Skip("unix sockets: not on Windows")
		}
		address = filepath.Join(t.TempDir(), "s")
	}
	ln := must(net.Listen(kind, address))(t)
	defer ln.Close()
	ch := make(chan net.Conn, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			c = nil
		}
		ch <- c
	}()
	a = must(net.Dial(kind, ln.Addr().String()))(t)
	if b = <-ch; b == nil {
		t.Fatal("accept failed")
	}
	return a, b
}

func pipe(cfg *iwarptest.PipeConfig) (a, b net.Conn) { return iwarptest.Pipe(cfg) }

var clientTLS = &tls.Config{InsecureSkipVerify: true}

// serverTLS has a certificate that it signed itself.
func serverTLS(t testing.TB) *tls.Config {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// tcpPair dials over loopback TCP.
func tcpPair(t testing.TB, cc, sc *iwarp.Config) (client, server *iwarp.Conn) {
	t.Helper()
	a, b := netPair(t, "tcp")
	return startOn(t, a, b, cc, sc)
}

func newDevice(t testing.TB, cfg *iwarp.DeviceConfig) *iwarp.Device {
	t.Helper()
	return must(iwarp.NewDevice(cfg))(t)
}

// newQP makes a QP in a domain of its own.
func newQP(t testing.TB, d *iwarp.Device, cfg *iwarp.QPConfig) *iwarp.QP {
	t.Helper()
	return must(must(d.NewPD())(t).NewQP(cfg))(t)
}

// qpPair connects two QPs over loopback TCP.
func qpPair(t testing.TB, cc, sc *iwarp.QPConfig) (client, server *iwarp.QP) {
	t.Helper()
	d := newDevice(t, nil)
	client, server = newQP(t, d, cc), newQP(t, d, sc)
	tcpPair(t, &iwarp.Config{QP: client}, &iwarp.Config{QP: server})
	return client, server
}

// collect waits for n completions.
func collect(t testing.TB, q *iwarp.CQ, n int) []iwarp.Completion {
	t.Helper()
	ctx := testContext(t)
	var all []iwarp.Completion
	for len(all) < n {
		var c [16]iwarp.Completion
		k, err := q.Wait(ctx, c[:min(len(c), n-len(all))])
		if err != nil {
			t.Fatalf("after %d of %d completions: %v", len(all), n, err)
		}
		all = append(all, c[:k]...)
	}
	return all
}

// recv receives one message.
func recv(t testing.TB, c *iwarp.Conn) ([]byte, iwarp.Message) {
	t.Helper()
	b := make([]byte, 64<<10)
	m, err := c.Recv(testContext(t), b)
	check(t, "Recv", err)
	return b[:m.Length], m
}

func wantRecv(t testing.TB, c *iwarp.Conn, want string) iwarp.Message {
	t.Helper()
	b, m := recv(t, c)
	if string(b) != want {
		t.Fatalf("received %.60q, want %.60q", b, want)
	}
	return m
}

func wantCode(t testing.TB, err error, code protocol.Code, remote bool) *iwarp.ProtocolError {
	t.Helper()
	var perr *iwarp.ProtocolError
	if !errors.As(err, &perr) || perr.Code != code || perr.Remote != remote {
		t.Fatalf("error is %v, want %v with Remote %v", err, code, remote)
	}
	return perr
}

func wantDone(t testing.TB, c *iwarp.Conn) {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Fatalf("the connection does not end: %v\n%s", c.Err(), stacks())
	}
}

func stacks() []byte {
	b := make([]byte, 1<<16)
	return b[:runtime.Stack(b, true)]
}

// pattern returns n octets that differ from their neighbours.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8*13 + i>>16)
	}
	return b
}

// guarded is memory with guard octets on both sides.
type guarded struct{ all, mem []byte }

const guardLen = 64

func newGuarded(n int) *guarded {
	g := &guarded{all: bytes.Repeat([]byte{0xa5}, n+2*guardLen)}
	g.mem = g.all[guardLen : guardLen+n : guardLen+n]
	clear(g.mem)
	return g
}

func (g *guarded) check(t testing.TB) {
	t.Helper()
	for i, c := range g.all {
		if (i < guardLen || i >= len(g.all)-guardLen) && c != 0xa5 {
			t.Fatalf("guard octet %d is 0x%02x", i-guardLen, c)
		}
	}
}

func (g *guarded) checkUntouched(t testing.TB) {
	t.Helper()
	g.check(t)
	if i := bytes.IndexFunc(g.mem, func(r rune) bool { return r != 0 }); i >= 0 {
		t.Fatalf("octet %d of the region was written", i)
	}
}

// clientOfPeer starts a client against a scripted responder, over a Pipe.
func clientOfPeer(t testing.TB, cfg *iwarp.Config) (*iwarp.Conn, *iwarptest.Peer) {
	t.Helper()
	x, y := pipe(nil)
	return clientOn(t, x, y, cfg)
}

func clientOn(t testing.TB, x, y net.Conn, cfg *iwarp.Config) (*iwarp.Conn, *iwarptest.Peer) {
	t.Helper()
	p := iwarptest.NewPeer(t, y)
	cfg = cfg.Clone()
	if cfg == nil {
		cfg = &iwarp.Config{}
	}
	cfg.MPA.RTR = iwarp.RTRNone
	ch := make(chan accepted, 1)
	go func() {
		c, err := iwarp.Client(testContext(t), x, cfg)
		ch <- accepted{c, err}
	}()
	p.Respond("the client starts", iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(32, 32, nil)))
	r := <-ch
	check(t, "Client", r.err)
	t.Cleanup(r.c.Abort)
	return r.c, p
}

// serverOn starts a server against a scripted initiator.
func serverOn(t testing.TB, x, y net.Conn, cfg *iwarp.Config) (*iwarp.Conn, *iwarptest.Peer) {
	t.Helper()
	p := iwarptest.NewPeer(t, y)
	ch := make(chan accepted, 1)
	go func() {
		c, err := iwarp.Server(testContext(t), x, cfg)
		ch <- accepted{c, err}
	}()
	p.Initiate("the server answers",
		iwarptest.Request(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(32, 32, nil)))
	r := <-ch
	check(t, "Server", r.err)
	t.Cleanup(r.c.Abort)
	return r.c, p
}

func serverOfPeer(t testing.TB, cfg *iwarp.Config) (*iwarp.Conn, *iwarptest.Peer) {
	t.Helper()
	x, y := pipe(nil)
	return serverOn(t, x, y, cfg)
}

// remoteAt is the memory from octet off on, which may lie beyond, with no Length: the peer
// alone says whether a request fits.
func remoteAt(m interface{ Remote() iwarp.RemoteBuffer }, off uint64) iwarp.RemoteBuffer {
	b := m.Remote()
	return iwarp.RemoteBuffer{STag: b.STag, TO: b.TO + off}
}

// foreignPair connects two ends over TCP by an LLP of which the library knows nothing but
// its methods.
func foreignPair(t *testing.T, ac, bc *iwarp.Config) (a, b *iwarp.Conn) {
	t.Helper()
	x, y := netPair(t, "tcp")
	type foreign struct{ *mpa.Conn }
	state := func(initiator bool) iwarp.ConnectionState {
		return iwarp.ConnectionState{Initiator: initiator, IRD: 8, ORD: 8}
	}
	a = must(iwarp.NewConn(foreign{mpa.NewConn(x, mpa.Params{Initiator: true, CRC: true}, nil)}, state(true), ac))(t)
	b = must(iwarp.NewConn(foreign{mpa.NewConn(y, mpa.Params{CRC: true}, nil)}, state(false), bc))(t)
	t.Cleanup(func() { endBoth(a, b) })
	check(t, "the first message", a.RDMARead(t.Context(), nil, iwarp.RemoteBuffer{}))
	return a, b
}
