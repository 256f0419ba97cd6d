package iwarp_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// script is a TCP server that treats each connection by its number and counts.
func script(t *testing.T, handle func(i int, c net.Conn)) (address string, count *atomic.Int32) {
	t.Helper()
	ln := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	count = new(atomic.Int32)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			i := int(count.Add(1))
			wg.Go(func() {
				defer c.Close()
				handle(i, c)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String(), count
}

func readRequest(c net.Conn) []byte {
	b := make([]byte, 1000)
	n, err := io.ReadFull(c, b[:20])
	if err == nil {
		n, _ = io.ReadFull(c, b[20:20+int(b[18])<<8+int(b[19])])
		n += 20
	}
	return b[:n]
}

// R02: revision 1 after a responder that closes on revision 2, on exactly one
// more TCP connection.
// Shows: MPA2-10-05
func TestFallback(t *testing.T) {
	for name, end := range map[string]func(net.Conn){
		"FIN":   func(net.Conn) {},
		"reset": func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) },
	} {
		t.Run(name, func(t *testing.T) {
			served := make(chan error, 1)
			address, count := script(t, func(i int, c net.Conn) {
				if i == 1 {
					if r := readRequest(c); r[17] != 2 {
						t.Errorf("first Request has revision %d", r[17])
					}
					end(c)
					return
				}
				b, err := iwarp.Server(testContext(t), c, nil)
				if err == nil {
					_, err = b.Recv(testContext(t), make([]byte, 10))
				}
				served <- err
				if err == nil {
					_ = b.Close()
				}
			})
			a := must(iwarp.Dial(testContext(t), "tcp", address, nil))(t)
			if st := a.ConnectionState(); st.Revision != 1 || st.Enhanced || st.PeerToPeer || st.ORD != 1 {
				t.Errorf("state %+v", st)
			}
			check(t, "Send", a.Send(testContext(t), []byte("hi")))
			check(t, "the server", <-served)
			check(t, "Close", a.Close())
			if n := count.Load(); n != 2 {
				t.Errorf("%d TCP connections, want 2", n)
			}
		})
	}
}

// Nothing else makes Dial try again.
func TestNoFallback(t *testing.T) {
	for _, c := range []struct {
		name   string
		cfg    iwarp.Config
		handle func(net.Conn)
		code   protocol.Code // 0: rejected
		tcp    int32
	}{
		{
			name: "both revisions refused", cfg: iwarp.Config{}, handle: func(c net.Conn) { readRequest(c) },
			code: protocol.MPAConnectionLost, tcp: 2,
		},
		{
			name: "revision 1 from the start", cfg: iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}},
			handle: func(c net.Conn) { readRequest(c) }, code: protocol.MPAConnectionLost, tcp: 1,
		},
		{
			name: "peer-to-peer required", cfg: iwarp.Config{MPA: iwarp.MPAConfig{RequirePeerToPeer: true}},
			handle: func(c net.Conn) { readRequest(c) }, code: protocol.MPAConnectionLost, tcp: 1,
		},
		{
			name: "timeout", cfg: iwarp.Config{StartupTimeout: 50 * time.Millisecond},
			handle: func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, code: protocol.MPAStartup, tcp: 1,
		},
		{
			name: "half a Reply", cfg: iwarp.Config{},
			handle: func(c net.Conn) { readRequest(c); _, _ = c.Write(iwarptest.Reply(0, 2, nil)[:19]) },
			code:   protocol.MPAStartup, tcp: 1,
		},
		{name: "rejected", cfg: iwarp.Config{}, handle: func(c net.Conn) {
			readRequest(c)
			_, _ = c.Write(iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagR|iwarptest.FlagS, 2,
				iwarptest.Enhanced(1, 1, nil)))
		}, code: 0, tcp: 1},
		{name: "rejected in revision 1", cfg: iwarp.Config{}, handle: func(c net.Conn) {
			readRequest(c)
			_, _ = c.Write(iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagR, 1, nil))
		}, code: 0, tcp: 1},
		// R06: a server that speaks something else.
		{
			name: "text server", cfg: iwarp.Config{},
			handle: func(c net.Conn) { _, _ = c.Write([]byte("220 mail.example.com ESMTP ready\r\n")); readRequest(c) },
			code:   protocol.MPAStartup, tcp: 1,
		},
		{
			name: "short text", cfg: iwarp.Config{},
			handle: func(c net.Conn) { _, _ = c.Write([]byte("no\n")); readRequest(c) }, code: protocol.MPAStartup,
			tcp: 1,
		},
		{
			name: "a Request as the answer", cfg: iwarp.Config{},
			handle: func(c net.Conn) { readRequest(c); _, _ = c.Write(iwarptest.Request(0, 2, nil)); readRequest(c) },
			code:   protocol.MPAStartup, tcp: 1,
		},
		{
			name: "another revision", cfg: iwarp.Config{},
			handle: func(c net.Conn) { readRequest(c); _, _ = c.Write(iwarptest.Reply(0, 3, nil)); readRequest(c) },
			code:   protocol.MPAStartup, tcp: 1,
		},
		{name: "PD_Length 513", cfg: iwarp.Config{}, handle: func(c net.Conn) {
			readRequest(c)
			_, _ = c.Write(iwarptest.Reply(0, 2, make([]byte, 513)))
			readRequest(c)
		}, code: protocol.MPAStartup, tcp: 1},
		{name: "S with 3 octets", cfg: iwarp.Config{}, handle: func(c net.Conn) {
			readRequest(c)
			_, _ = c.Write(iwarptest.Reply(iwarptest.FlagS, 2, make([]byte, 3)))
			readRequest(c)
		}, code: protocol.MPAStartup, tcp: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			address, count := script(t, func(_ int, nc net.Conn) { c.handle(nc) })
			_, err := iwarp.Dial(testContext(t), "tcp", address, &c.cfg)
			var rej *iwarp.RejectError
			switch {
			case c.code == 0 && !errors.As(err, &rej):
				t.Errorf("error %v, want a rejection", err)
			case c.code != 0:
				wantCode(t, err, c.code, false)
			}
			if n := count.Load(); n != c.tcp {
				t.Errorf("%d TCP connections, want %d", n, c.tcp)
			}
		})
	}
}

// R01: a responder that resets a Request of revision 2 which does not ask for
// peer-to-peer. The default asks; a program that wants client-server gets
// revision 1 at the second try.
func TestPeerToPeerOnly(t *testing.T) {
	for _, rtr := range []iwarp.RTR{0, iwarp.RTRNone} {
		ln := must(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer ln.Close()
		var wg sync.WaitGroup
		tries := 0
		wg.Go(func() {
			for {
				nc, err := ln.Accept()
				if err != nil {
					return
				}
				tries++
				p := iwarptest.NewPeer(t, nc)
				req := p.WantStartup("a Request", "MPA ID Req Frame")
				switch {
				case req[17] == 1:
					p.SendRaw(iwarptest.Reply(iwarptest.FlagC, 1, nil))
				case req[20]&0x80 == 0: // A
					_ = nc.(*net.TCPConn).SetLinger(0)
					_ = nc.Close()
					continue
				default:
					p.SendRaw(iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2,
						iwarptest.Enhanced(0x8000|32, 0x8000|32, nil)))
				}
				_, _ = nc.Read(make([]byte, 1000))
				_ = nc.Close()
			}
		})
		c, err := iwarp.Dial(testContext(t), "tcp", ln.Addr().String(), &iwarp.Config{MPA: iwarp.MPAConfig{RTR: rtr}})
		check(t, "Dial", err)
		st := c.ConnectionState()
		c.Abort()
		_ = ln.Close()
		wg.Wait()
		if rtr == 0 && (st.Revision != 2 || !st.PeerToPeer || tries != 1) ||
			rtr == iwarp.RTRNone && (st.Revision != 1 || tries != 2) {
			t.Errorf("RTR %v: %+v at try %d", rtr, st, tries)
		}
	}
}
