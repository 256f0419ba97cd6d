package wire

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// MinToken is the least octets of a token. Whoever has seen a proof may try tokens at
// home, so that a token has to be one that nobody guesses.
const MinToken = 16

// NonceLen is the length of a nonce, in octets.
const NonceLen = 32

// NewNonce returns octets that have not been used before.
func NewNonce() []byte {
	b := make([]byte, NonceLen)
	_, _ = rand.Read(b) // never fails
	return b
}

// Proofs are made by both ends of a connection from the token, which does not go over
// it: HMAC-SHA-256 over who proves, both nonces and, with TLS, the channel: a proof that
// somebody in between passes on is worth nothing on another TLS connection
// (https://www.rfc-editor.org/rfc/rfc9266).
type Proofs struct{ Server, Client []byte }

// Who proves.
const (
	fromServer = "iwarp cp 1: server"
	fromClient = "iwarp cp 1: client"
)

// exporter is the label of the key that binds proofs to a TLS connection.
const exporter = "EXPORTER-Channel-Binding"

// NewProofs returns the proofs of a connection; none without a token. nc is what iWARP
// runs on.
func NewProofs(token string, nc net.Conn, clientNonce, serverNonce []byte) (Proofs, error) {
	if len(clientNonce) != NonceLen || len(serverNonce) != NonceLen {
		return Proofs{}, fmt.Errorf("nonces of %d and %d octets: %d each", len(clientNonce), len(serverNonce), NonceLen)
	}
	if token == "" {
		return Proofs{}, nil
	}
	var binding []byte
	if tc, ok := nc.(*tls.Conn); ok {
		cs := tc.ConnectionState()
		var err error
		if binding, err = cs.ExportKeyingMaterial(exporter, nil, 32); err != nil {
			return Proofs{}, err
		}
	}
	prove := func(who string) []byte {
		m := hmac.New(sha256.New, []byte(token))
		for _, b := range [][]byte{[]byte(who), clientNonce, serverNonce, binding} {
			_, _ = m.Write(b) // who ends in its own letter, the nonces have one length
		}
		return m.Sum(nil)
	}
	return Proofs{Server: prove(fromServer), Client: prove(fromClient)}, nil
}

// ErrToken is the error of a peer that does not know the token.
var ErrToken = errors.New("the token is not the other end's")

// VerifyProof compares in constant time.
func VerifyProof(got, want []byte) error {
	if !hmac.Equal(got, want) {
		return ErrToken
	}
	return nil
}
