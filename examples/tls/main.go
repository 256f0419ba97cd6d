// Command tls protects a stream in both ways: TLS inside it, as with any net.Conn, and TLS below iWARP.
//
// Inside, the peer sees the sizes of what is sent and nothing else, and both ends encrypt what the RDMA Writes carry.
// Below, all of iWARP is protected too, its startup included.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/go-iwarp/iwarp/stream"
)

func main() {
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer) error {
	server, client, err := configs()
	if err != nil {
		return err
	}
	ctx := context.Background()
	inside, err := stream.Listen("tcp", "127.0.0.1:0", nil)
	if err != nil {
		return err
	}
	err = exchange(w, "TLS inside", tls.NewListener(inside, server), func(address string) (net.Conn, error) {
		c, err := stream.Dial(ctx, "tcp", address, nil)
		if err != nil {
			return nil, err
		}
		return tls.Client(c, client), nil
	})
	if err != nil {
		return err
	}

	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	below, err := stream.NewListener(tls.NewListener(tcp, server), nil)
	if err != nil {
		return err
	}
	return exchange(w, "TLS below", below, func(address string) (net.Conn, error) {
		c, err := tls.Dial("tcp", address, client)
		if err != nil {
			return nil, err
		}
		return stream.Client(ctx, c, nil)
	})
}

// exchange has a server answer one line.
func exchange(w io.Writer, name string, ln net.Listener, dial func(address string) (net.Conn, error)) error {
	defer ln.Close()
	served := make(chan error, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			served <- err
			return
		}
		defer c.Close()
		_, err = io.Copy(c, c) // until the client has said all
		served <- err
	}()
	c, err := dial(ln.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte(name)); err != nil {
		return err
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		return err
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\n", answer)
	return <-served
}

// configs makes a certificate for this run.
func configs() (server, client *tls.Config, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	return server, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}, nil
}
