package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp"
)

// setting is one way of setting up both ends.
type setting struct {
	variant    string // of the guest
	noCRC      bool   // this end proposes to do without
	crc        bool   // what the two must agree on
	peerToPeer bool   // siw, as the initiator, asks for it
}

func TestSiwCRCOff(t *testing.T) { testSiw(t, setting{variant: "default", noCRC: true}) }
func TestSiwCRCOn(t *testing.T)  { testSiw(t, setting{variant: "crc", crc: true}) }

// This end wants the CRC and siw does not ask for it: it must be on.
func TestSiwPeerToPeer(t *testing.T) {
	testSiw(t, setting{variant: "p2p", crc: true, peerToPeer: true})
}

func testSiw(t *testing.T, s setting) {
	wanted(t)
	iwarpTool(t) // before the guest: if it does not build, that shows at once
	g := Up(t, s.variant)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *Guest, setting)
	}{
		{name: "rping to iwarp ping --serve", run: testRpingClient},
		{name: "several rping to one iwarp ping --serve", run: testRpingClients},
		{name: "iwarp ping to rping -s", run: testRpingServer},
		{name: "iwarp ping to rping -s -P", run: testRpingPersistent},
		{name: "ucmatose connects", run: testUcmatoseClient},
		{name: "ucmatose listens", run: testUcmatoseServer},
		{name: "rdma_client connects", run: testRdmaClient},
		{name: "rdma_server listens", run: testRdmaServer},
		{name: "cmtime connects", run: testCmtimeClient},
		{name: "cmtime listens", run: testCmtimeServer},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, g, s) })
	}
}

// config is this end's configuration.
func (s setting) config(t *testing.T) *iwarp.Config {
	t.Helper()
	if !s.noCRC {
		return &iwarp.Config{MPA: iwarp.MPAConfig{RequireCRC: true}}
	}
	dev, err := iwarp.NewDevice(&iwarp.DeviceConfig{
		CRCSuppression: &iwarp.CRCSuppression{Protection: "a test: nothing leaves this machine"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &iwarp.Config{Device: dev}
}

// check looks at what startup agreed on.
func (s setting) check(c *iwarp.Conn) error {
	st := c.ConnectionState()
	if st.CRC != s.crc {
		return fmt.Errorf("CRC agreed on: %v, want %v", st.CRC, s.crc)
	}
	// As an initiator this end asks for peer-to-peer by default, and siw grants it
	// in every variant.
	if want := s.peerToPeer || st.Initiator; st.PeerToPeer != want {
		return fmt.Errorf("peer-to-peer agreed on: %v, want %v", st.PeerToPeer, want)
	}
	return nil
}

// serve serves one connection of the guest's program, given as a command with a
// place for the port, and wants both ends to be content.
func (s setting) serve(t *testing.T, g *Guest, command string, serve func(context.Context, *iwarp.Conn) error) string {
	t.Helper()
	ln, ctx := listen(t, s.config(t))
	job := g.Start(t, fmt.Sprintf(command, port(ln.Addr().String())))
	err := serveOne(ctx, ln, func(ctx context.Context, c *iwarp.Conn) error {
		if err := s.check(c); err != nil {
			return err
		}
		return serve(ctx, c)
	})
	if err != nil {
		t.Errorf("our side: %v; theirs printed:\n%s", err, job.Output())
		return ""
	}
	return job.MustEnd(t)
}

// dial starts the guest's server, given as a command with a place for the port,
// and hands over a function that connects to it.
func (s setting) dial(t *testing.T, g *Guest, command string) (*Job, func(context.Context) (*iwarp.Conn, error)) {
	t.Helper()
	number, addr := g.Port(t)
	job := g.Serve(t, number, fmt.Sprintf(command, number))
	cfg := s.config(t)
	return job, func(ctx context.Context) (*iwarp.Conn, error) {
		c, err := iwarp.Dial(ctx, "tcp", addr, cfg)
		if err != nil {
			return nil, err
		}
		if err := s.check(c); err != nil {
			c.Abort()
			return nil, err
		}
		return c, nil
	}
}

// connect is dial for one connection, which must work.
func (s setting) connect(t *testing.T, g *Guest, command string) (context.Context, *Job, *iwarp.Conn) {
	t.Helper()
	job, dial := s.dial(t, g, command)
	ctx, cancel := context.WithTimeout(t.Context(), exchangeTime)
	t.Cleanup(cancel)
	c, err := dial(ctx)
	if err != nil {
		t.Fatalf("connecting: %v; theirs printed:\n%s", err, job.Output())
	}
	t.Cleanup(c.Abort)
	return ctx, job, c
}

// ucmatose's default, and messages of several segments.
func ucmatoseSizes() []messages { return []messages{{count: 10, size: 100}, {count: 20, size: 10000}} }

func testUcmatoseClient(t *testing.T, g *Guest, s setting) {
	if !s.peerToPeer {
		t.Skip("ucmatose's server speaks first, which RFC 5044 section 7.1.2 forbids to a responder whose initiator " +
			"has not opened the stream; " +
			"siw does so only in the variant p2p")
	}
	for _, m := range ucmatoseSizes() {
		t.Run(fmt.Sprintf("%d of %d octets", m.count, m.size), func(t *testing.T) {
			out := s.serve(t, g, fmt.Sprintf("ucmatose -s %s -p %%s -C %d -S %d", hostAddr, m.count, m.size),
				func(ctx context.Context, c *iwarp.Conn) error { return ucmatoseServer(ctx, c, m) })
			wantOutput(t, out, "return status 0")
		})
	}
}

func testUcmatoseServer(t *testing.T, g *Guest, s setting) {
	for _, m := range ucmatoseSizes() {
		t.Run(fmt.Sprintf("%d of %d octets", m.count, m.size), func(t *testing.T) {
			ctx, job, c := s.connect(t, g, fmt.Sprintf("ucmatose -b %s -p %%s -C %d -S %d", guestAddr, m.count, m.size))
			if err := ucmatoseClient(ctx, c, m); err != nil {
				t.Fatalf("our side: %v; theirs printed:\n%s", err, job.Output())
			}
			wantOutput(t, job.MustEnd(t), "return status 0")
		})
	}
}

func testRdmaClient(t *testing.T, g *Guest, s setting) {
	out := s.serve(t, g, "rdma_client -s "+hostAddr+" -p %s", rdmaServer)
	wantOutput(t, out, "rdma_client: end 0")
}

func testRdmaServer(t *testing.T, g *Guest, s setting) {
	ctx, job, c := s.connect(t, g, "rdma_server -p %s")
	if err := rdmaClient(ctx, c); err != nil {
		t.Fatalf("our side: %v; theirs printed:\n%s", err, job.Output())
	}
	wantOutput(t, job.MustEnd(t), "rdma_server: end 0")
}

const cmtimeConns = 20

func testCmtimeClient(t *testing.T, g *Guest, s setting) {
	ln, ctx := listen(t, s.config(t))
	job := g.Start(t, fmt.Sprintf("cmtime -s %s -p %s -c %d", hostAddr, port(ln.Addr().String()), cmtimeConns))
	if err := cmtimeServer(ctx, cmtimeConns, ln); err != nil {
		t.Fatalf("our side: %v; theirs printed:\n%s", err, job.Output())
	}
	wantOutput(t, job.MustEnd(t), "disconnect   :")
}

// cmtime's server never ends; that our side met no error is the result.
func testCmtimeServer(t *testing.T, g *Guest, s setting) {
	job, dial := s.dial(t, g, fmt.Sprintf("cmtime -b %s -p %%s -c %d", guestAddr, cmtimeConns))
	ctx, cancel := context.WithTimeout(t.Context(), exchangeTime)
	defer cancel()
	if err := cmtimeClient(ctx, cmtimeConns, dial); err != nil {
		t.Fatalf("our side: %v; theirs printed:\n%s", err, job.Output())
	}
	job.Stop()
}

func wantOutput(t *testing.T, out, want string) {
	t.Helper()
	if !strings.Contains(out, want) {
		t.Errorf("want %q in the output:\n%s", want, out)
	}
}
