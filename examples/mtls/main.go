// Command mtls is a service with mutual TLS that shuts down gracefully: clients show a
// certificate before they are accepted, and each request that the server has received is answered.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"os"
	"sync"
	"time"

	"github.com/go-iwarp/iwarp"
)

func main() {
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// serve accepts until the listener shuts down, and waits for its clients.
func serve(ctx context.Context, ln *iwarp.Listener, names chan<- string) {
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		r, err := ln.AcceptRequest(ctx)
		if err != nil {
			return // iwarp.ErrShutdown
		}
		// TLS has checked the certificate. Whether its owner may come in is decided here.
		if name := r.TLS().PeerCertificates[0].DNSNames[0]; name == "mallory" {
			_, _ = r.Reject(ctx, []byte("not you"))
			_ = r.Close()
		} else if c, err := r.Accept(ctx, nil); err == nil {
			names <- name
			clients.Go(func() { answer(ctx, c) })
		}
	}
}

// answer is the loop of one client. Recv fails when the client has closed, and when the
// listener shuts down and what has come before is answered.
func answer(ctx context.Context, c *iwarp.Conn) {
	defer c.Close()
	buf := make([]byte, 64)
	for {
		m, err := c.Recv(ctx, buf)
		if err != nil || c.Send(ctx, append([]byte("answer to "), buf[:m.Length]...)) != nil {
			return
		}
	}
}

func run(w io.Writer) error {
	ctx := context.Background()
	ca, err := newCA()
	if err != nil {
		return err
	}
	server, err := ca.issue("server")
	if err != nil {
		return err
	}
	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{TLS: &tls.Config{
		Certificates: []tls.Certificate{server}, ClientCAs: ca.roots, ClientAuth: tls.RequireAndVerifyClientCert,
	}})
	if err != nil {
		return err
	}
	names := make(chan string, 1)
	var served sync.WaitGroup
	served.Go(func() { serve(ctx, ln, names) })
	dial := func(name string) (*iwarp.Conn, error) {
		own, err := ca.issue(name)
		if err != nil {
			return nil, err
		}
		return iwarp.DialTLS(ctx, "tcp", ln.Addr().String(),
			&tls.Config{RootCAs: ca.roots, ServerName: "server", Certificates: []tls.Certificate{own}}, nil)
	}
	_, err = dial("mallory")
	fmt.Fprintln(w, "mallory is rejected:", errors.As(err, new(*iwarp.RejectError)))
	c, err := dial("alice")
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "accepted:", <-names)
	err = c.Send(ctx, []byte("a question"))
	buf := make([]byte, 64)
	m, rerr := c.Recv(ctx, buf)
	fmt.Fprintf(w, "%s\n", buf[:m.Length])
	down, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- ln.Shutdown(down) }()
	_, end := c.Recv(ctx, buf) // the server's FIN
	fmt.Fprintln(w, "the server has left:", errors.Is(end, io.EOF))
	err = errors.Join(err, rerr, c.Close(), <-over)
	served.Wait()
	return err
}

// ca signs certificates.
type ca struct {
	cert  *x509.Certificate
	by    any // its key
	roots *x509.CertPool
}

func newCA() (*ca, error) {
	c := &ca{roots: x509.NewCertPool()}
	t, err := c.issue("ca")
	if err == nil {
		c.cert, c.by = t.Leaf, t.PrivateKey
		c.roots.AddCert(c.cert)
	}
	return c, err
}

// issue makes a certificate, and signs it; the first one signs itself.
func (c *ca) issue(name string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{name},
		NotAfter: time.Now().Add(time.Hour), IsCA: c.cert == nil, BasicConstraintsValid: true,
	}
	parent, by := c.cert, c.by
	if parent == nil {
		parent, by = own, key
	}
	der, err := x509.CreateCertificate(rand.Reader, own, parent, &key.PublicKey, by)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}
