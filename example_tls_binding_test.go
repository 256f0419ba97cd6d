package iwarp_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"

	"github.com/go-iwarp/iwarp"
)

// Channel binding: the ends do not check certificates here. They share a secret
// and prove, in the Private Data of the two startup frames, that they know it and
// are on one and the same TLS connection. Somebody in between has two TLS
// connections, whose bindings differ, and cannot make a proof without the secret.
func ExampleClient_tlsChannelBinding() {
	ctx := context.Background()
	secret := []byte("both ends have this from somewhere else")
	certificate, _, err := selfSigned("anybody")
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()

	served := make(chan error, 1)
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			served <- err
			return
		}
		c, err := serverBound(ctx,
			tls.Server(iwarp.BelowTLS(nc), &tls.Config{Certificates: []tls.Certificate{certificate}}), secret)
		if err == nil {
			err = c.Close()
		}
		served <- err
	}()

	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	c, err := clientBound(ctx, tls.Client(iwarp.BelowTLS(nc), &tls.Config{InsecureSkipVerify: true}), secret)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("both ends are on the same TLS connection")
	if err := c.Close(); err != nil {
		log.Fatal(err)
	}
	if err := <-served; err != nil {
		log.Fatal(err)
	}
	// Output: both ends are on the same TLS connection
}

var errBinding = errors.New("the peer is not on the same TLS connection, or does not know the secret")

// bindingProof is what the end with a role, "initiator" or "responder", shows.
// The role is in it so that nobody can send an end its own proof back.
func bindingProof(tc *tls.Conn, secret []byte, role string) ([]byte, error) {
	state := tc.ConnectionState()
	if state.Version < tls.VersionTLS13 {
		return nil, errors.New("the binding is unique with TLS 1.3 only (RFC 9266 section 3)")
	}
	// The channel binding "tls-exporter" of RFC 9266 section 2.
	binding, err := state.ExportKeyingMaterial("EXPORTER-Channel-Binding", nil, 32)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, secret)
	_, _ = io.WriteString(mac, "iwarp "+role+"\x00") // a hash takes all
	_, _ = mac.Write(binding)
	return mac.Sum(nil), nil
}

// clientBound starts iWARP as the initiator. It owns tc.
func clientBound(ctx context.Context, tc *tls.Conn, secret []byte) (*iwarp.Conn, error) {
	mine, theirs, err := proofs(ctx, tc, secret, "initiator", "responder")
	if err != nil {
		_ = tc.Close()
		return nil, err
	}
	c, err := iwarp.Client(ctx, tc, &iwarp.Config{
		PrivateData: mine,
		VerifyReply: func(st iwarp.ConnectionState) error { // before anything is sent
			if !hmac.Equal(st.PrivateData, theirs) {
				return errBinding
			}
			return nil
		},
	})
	if err != nil {
		_ = tc.Close() // after a rejection, by either end, it would be open
		return nil, err
	}
	return c, nil
}

// serverBound starts iWARP as the responder. It owns tc.
func serverBound(ctx context.Context, tc *tls.Conn, secret []byte) (*iwarp.Conn, error) {
	mine, theirs, err := proofs(ctx, tc, secret, "responder", "initiator")
	if err != nil {
		_ = tc.Close()
		return nil, err
	}
	request, err := iwarp.ServerRequest(ctx, tc, nil)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal(request.PrivateData(), theirs) {
		// A Reply with R=1 and without any proof of ours.
		if _, err := request.Reject(ctx, []byte("channel binding")); err != nil {
			return nil, err
		}
		_ = tc.Close()
		return nil, errBinding
	}
	return request.Accept(ctx, &iwarp.Config{PrivateData: mine})
}

// proofs finishes the handshake and gives this end's proof and the one to expect.
func proofs(ctx context.Context, tc *tls.Conn, secret []byte, me, peer string) (mine, theirs []byte, err error) {
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, nil, err
	}
	if mine, err = bindingProof(tc, secret, me); err != nil {
		return nil, nil, err
	}
	theirs, err = bindingProof(tc, secret, peer)
	return mine, theirs, err
}
