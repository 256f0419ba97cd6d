package iwarp_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"math/big"
	"net"
	"time"

	"github.com/go-iwarp/iwarp"
)

// iWARP over TLS 1.3: the certificate says who the server is, and nobody in
// between can read or change what goes over the network, headers included.
func ExampleClient_tls() {
	ctx := context.Background()
	certificate, roots, err := selfSigned("server.example")
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()

	served := make(chan error, 1)
	go func() { served <- serveTLS(ctx, ln, certificate) }()

	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	tc := tls.Client(iwarp.BelowTLS(nc),
		&tls.Config{RootCAs: roots, ServerName: "server.example", MinVersion: tls.VersionTLS13})
	if err := tc.HandshakeContext(ctx); err != nil {
		log.Fatal(err)
	}
	c, err := iwarp.Client(ctx, tc, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Send(ctx, []byte("hello under TLS")); err != nil {
		log.Fatal(err)
	}
	if err := c.Close(); err != nil {
		log.Fatal(err)
	}
	if err := <-served; err != nil {
		log.Fatal(err)
	}
	// Output: the server received "hello under TLS"
}

// serveTLS serves one client: TLS first, then iWARP on it.
func serveTLS(ctx context.Context, ln net.Listener, certificate tls.Certificate) error {
	nc, err := ln.Accept()
	if err != nil {
		return err
	}
	tc := tls.Server(iwarp.BelowTLS(nc),
		&tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13})
	if err := tc.HandshakeContext(ctx); err != nil {
		_ = nc.Close()
		return err
	}
	c, err := iwarp.Server(ctx, tc, nil)
	if err != nil {
		return err
	}
	buf := make([]byte, 100)
	m, err := c.Recv(ctx, buf)
	if err != nil {
		c.Abort()
		return err
	}
	fmt.Printf("the server received %q\n", buf[:m.Length])
	return c.Close()
}

// selfSigned makes a certificate for a name that it signs itself, and the roots
// with which a client believes it.
func selfSigned(name string) (tls.Certificate, *x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots, nil
}
