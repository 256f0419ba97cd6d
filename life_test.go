package iwarp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
)

// pipePair is a connection in memory, for virtual time.
func pipePair(t *testing.T, cc, sc *iwarp.Config) (client, server *iwarp.Conn) {
	t.Helper()
	a, b := pipe(nil)
	return startOn(t, a, b, cc, sc)
}

// Close of a connection whose peer's program does nothing takes no time if the peer wants
// to close with it, and says what it has waited for if not.
func TestCloseOfAnIdlePeer(t *testing.T) {
	for _, with := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pipePair(t, nil, &iwarp.Config{CloseWithPeer: with})
			synctest.Wait()
			began := time.Now()
			err := a.Close()
			took := time.Since(began)
			if with {
				if err != nil || took > 0 || a.Err() != nil {
					t.Errorf("Close: %v after %v; %v", err, took, a.Err())
				}
				wantDone(t, b)
				if _, rerr := b.Recv(t.Context(), nil); !errors.Is(rerr, io.EOF) || b.Err() != nil {
					t.Errorf("Recv: %v; Err %v", rerr, b.Err())
				}
				if serr := b.Send(t.Context(), nil); !errors.Is(serr, iwarp.ErrClosed) {
					t.Errorf("Send: %v", serr)
				}
				return
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) || took != 5*time.Second ||
				!strings.Contains(err.Error(), "waited for the peer to close its half") {
				t.Errorf("Close: %v after %v", err, took)
			}
		})
	}
}

// What an end has posted still goes out when it closes with its peer.
func TestCloseWithPeerSendsWhatIsPosted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := pipe(nil)
		a, b := startOn(t, x, y, nil, &iwarp.Config{CloseWithPeer: true, SendDepth: 200})
		for i := range 100 {
			check(t, "PostSend",
				b.QP().PostSend(iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{{byte(i)}}, Unsignaled: true}))
		}
		a.CloseWrite()
		for i := range 100 {
			wantRecv(t, a, string([]byte{byte(i)}))
		}
		check(t, "Close", a.Close())
		check(t, "Close", b.Close())
	})
}

// An end whose peer has left gracefully, and that has nothing left to do, ends gracefully
// however its program ends it, and nothing is logged as failed.
func TestAbortAfterThePeersGracefulEnd(t *testing.T) {
	for name, end := range map[string]func(*iwarp.Conn){
		"Abort":          (*iwarp.Conn).Abort,
		"QP.Close":       func(c *iwarp.Conn) { _ = c.QP().Close() },
		"CloseWithError": func(c *iwarp.Conn) { c.CloseWithError(errors.New("away")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logText
				cfg := &iwarp.Config{Logger: log.logger()}
				a, b := pipePair(t, cfg, cfg)
				check(t, "Send", a.Send(t.Context(), []byte("x")))
				wantRecv(t, b, "x")
				closed := make(chan error, 1)
				go func() { closed <- a.Close() }()
				if _, err := b.Recv(t.Context(), nil); !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				end(b)
				check(t, "Close", <-closed)
				end(b)
				end(a)
				synctest.Wait()
				if a.Err() != nil || b.Err() != nil || strings.Contains(log.String(), "WARN") {
					t.Errorf("%v, %v\n%s", a.Err(), b.Err(), log.String())
				}
				for _, want := range []string{
					"conn=", "duration=", "octets_sent=1 octets_received=0", "octets_sent=0 octets_received=1",
				} {
					if !strings.Contains(log.String(), want) {
						t.Errorf("the log has no %q:\n%s", want, log.String())
					}
				}
			})
		})
	}
}

// An own abort has its cause in every error, and is not logged as a failure.
func TestCauses(t *testing.T) {
	cause := errors.New("the disk is full")
	for name, end := range map[string]func(c *iwarp.Conn, cancel context.CancelCauseFunc){
		"CloseWithError": func(c *iwarp.Conn, _ context.CancelCauseFunc) { c.CloseWithError(cause) },
		"Config.Context": func(_ *iwarp.Conn, cancel context.CancelCauseFunc) { cancel(cause) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logText
				life, cancel := context.WithCancelCause(context.WithValue(t.Context(), contextKey{}, 7))
				defer cancel(nil)
				a, b := pipePair(t, &iwarp.Config{Context: life, Logger: log.logger()}, nil)
				ctx := a.Context()
				got := make(chan error, 1)
				go func() {
					_, err := a.Recv(t.Context(), nil)
					got <- err
				}()
				synctest.Wait()
				end(a, cancel)
				for what, err := range map[string]error{
					"Recv": <-got, "Err": a.Err(), "Send": a.Send(t.Context(), nil),
				} {
					if !errors.Is(err, cause) || !errors.Is(err, net.ErrClosed) {
						t.Errorf("%s: %v", what, err)
					}
				}
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), cause) || ctx.Value(contextKey{}) != 7 ||
					context.Cause(a.Context()) != context.Cause(ctx) {
					t.Errorf("the context's cause is %v", context.Cause(ctx))
				}
				wantDone(t, b)
				if b.Err() == nil || context.Cause(b.Context()) == nil {
					t.Error("the peer takes it for a graceful end")
				}
				synctest.Wait()
				if strings.Contains(log.String(), "WARN") || !strings.Contains(log.String(), "aborted") {
					t.Error(log.String())
				}
			})
		})
	}
}

type contextKey struct{}

// Config.Context that ends during startup ends that.
func TestContextEndsStartup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("enough")
		life, cancel := context.WithCancelCause(t.Context())
		x, y := pipe(nil)
		defer y.Close()
		got := make(chan error, 1)
		go func() {
			_, err := iwarp.Client(t.Context(), x, &iwarp.Config{Context: life})
			got <- err
		}()
		synctest.Wait()
		cancel(cause)
		if err := <-got; !errors.Is(err, cause) {
			t.Errorf("Client: %v", err)
		}
		if _, err := iwarp.Client(t.Context(), y, &iwarp.Config{Context: life}); !errors.Is(err, cause) {
			t.Errorf("Client with a context that has ended: %v", err)
		}
	})
}

// A context that ends while a request waits for its turn takes it back: the connection
// goes on, and what was posted behind it too.
func TestDeadlineOfWhatHasNotBegun(t *testing.T) {
	for _, op := range []iwarp.Op{iwarp.OpRead, iwarp.OpSend, iwarp.OpFetchAdd, iwarp.OpWrite} {
		synctest.Test(t, func(t *testing.T) {
			c, p := clientOfPeer(t, &iwarp.Config{ORD: 1, MPA: iwarp.MPAConfig{NudgeAfter: -1}})
			first := make([]byte, 4)
			got := make(chan error, 1)
			go func() { got <- c.RDMARead(t.Context(), first, iwarp.RemoteBuffer{STag: 1}) }()
			synctest.Wait()
			p.Frame("the first Read Request")
			// ORD is 1, so a second Read waits, and so does what is posted behind it.
			blocker, unblock := context.WithCancel(t.Context())
			go func() {
				_ = c.RDMARead(blocker, make([]byte, 4), iwarp.RemoteBuffer{STag: 2})
			}()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var err error
			switch op {
			case iwarp.OpRead:
				err = c.RDMARead(ctx, make([]byte, 4), iwarp.RemoteBuffer{STag: 3})
			case iwarp.OpSend:
				err = c.Send(ctx, []byte("withdrawn"))
			case iwarp.OpWrite:
				err = c.RDMAWrite(ctx, []byte("withdrawn"), iwarp.RemoteBuffer{STag: 3})
			default:
				_, err = c.FetchAdd(ctx, iwarp.RemoteBuffer{STag: 3}, 1)
			}
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrDeadlineExceeded) || c.Err() != nil {
				t.Fatalf("%v: %v; the connection: %v", op, err, c.Err())
			}
			unblock()
			synctest.Wait()
			if c.Err() != nil {
				t.Fatal(c.Err())
			}
			// Only the first Read is left: a Send posted now goes out at once.
			check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{[]byte("next")}}))
			if f := p.Frame("the Send"); !strings.Contains(string(f), "next") {
				t.Errorf("the peer got %x", f)
			}
			c.Abort()
			<-got
		})
	}
}

// The certificate of a client is seen before the server accepts, and that of the server by
// the client; Dial and Listen make the handshakes.
func TestTLSOfConfig(t *testing.T) {
	certificate, roots, err := selfSigned("127.0.0.1")
	check(t, "certificate", err)
	client, clientRoots, err := selfSigned("alice")
	check(t, "certificate", err)
	serverConfig := &tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientCAs: clientRoots,
		ClientAuth: tls.RequireAndVerifyClientCert,
	}
	ln := must(iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{TLS: serverConfig}))(t)
	defer ln.Close()
	names := make(chan string, 1)
	go func() {
		for {
			r, err := ln.AcceptRequest(testContext(t))
			if err != nil {
				return
			}
			st := r.TLS()
			if _, ok := r.NetConn().(*tls.Conn); !ok || st == nil {
				names <- "no TLS"
				return
			}
			names <- st.PeerCertificates[0].DNSNames[0]
			c, err := r.Accept(testContext(t), nil)
			if err != nil {
				return
			}
			buf := make([]byte, 10)
			m, _ := c.Recv(testContext(t), buf)
			_ = c.Send(testContext(t), buf[:m.Length])
			_ = c.Close()
		}
	}()
	address := ln.Addr().String()
	trust := &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", Certificates: []tls.Certificate{client}}
	trust.InsecureSkipVerify = true // a name that is an address needs an IP SAN; the chain is checked by hand
	trust.VerifyConnection = func(st tls.ConnectionState) error {
		_, err := st.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots})
		return err
	}
	c, err := iwarp.DialTLS(testContext(t), "tcp", address, trust, nil)
	check(t, "DialTLS", err)
	if name := <-names; name != "alice" {
		t.Errorf("the server saw %q", name)
	}
	if st := c.TLS(); st == nil || st.Version != tls.VersionTLS13 {
		t.Errorf("TLS is %v", st)
	}
	check(t, "Send", c.Send(testContext(t), []byte("hello")))
	wantRecv(t, c, "hello")
	check(t, "Close", c.Close())

	// Without a certificate, without trust, without TLS.
	if _, err := iwarp.DialTLS(testContext(t), "tcp", address, &tls.Config{InsecureSkipVerify: true}, nil); err == nil {
		t.Error("a client without a certificate is accepted")
	}
	if _, err := iwarp.DialTLS(testContext(t), "tcp", address, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "TLS") {
		t.Errorf("a server that nobody vouches for: %v", err)
	}
	if _, err := iwarp.Dial(testContext(t), "tcp", address, nil); err == nil {
		t.Error("a client without TLS is accepted")
	}
	plain := tcpEcho(t)
	if _, err := iwarp.DialTLS(testContext(t), "tcp", plain, &tls.Config{InsecureSkipVerify: true}, nil); err == nil {
		t.Error("a server without TLS is accepted")
	}
	// Where the program has made the conn, TLS in Config is an error and not forgotten.
	x, y := net.Pipe()
	if _, err := iwarp.Client(testContext(t), x, &iwarp.Config{TLS: trust}); err == nil ||
		!strings.Contains(err.Error(), "Config.TLS") {
		t.Errorf("Client: %v", err)
	}
	if _, err := iwarp.Server(testContext(t), y, &iwarp.Config{TLS: trust}); err == nil ||
		!strings.Contains(err.Error(), "Config.TLS") {
		t.Errorf("Server: %v", err)
	}
}

// tcpEcho is a server that sends back what it gets.
func tcpEcho(t *testing.T) string {
	t.Helper()
	ln := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	return ln.Addr().String()
}
