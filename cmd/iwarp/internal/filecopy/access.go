package filecopy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/wire"

	"github.com/go-iwarp/iwarp"
)

// accessFlags say how the two ends know each other. Both commands have them.
type accessFlags struct {
	TokenFile string `group:"access" placeholder:"FILE" env:"IWARP_TOKEN_FILE" help:"The token that both ends know: the first line of this file, 16 characters or more (also: IWARP_TOKEN_FILE, or the token itself in IWARP_TOKEN)."`
	Cert      string `group:"access" placeholder:"FILE" help:"This end's certificate, PEM."`
	Key       string `group:"access" placeholder:"FILE" help:"The private key of --cert, PEM."`
	CA        string `group:"access" name:"ca" placeholder:"FILE" help:"Certificates of the authorities that have to vouch for the other end, PEM."`
	Plain     bool   `group:"access" help:"Without TLS: whoever is on the path reads what goes over it, and may change it. Needs a token, or loopback."`
}

// tokenVariable is the environment's token.
const tokenVariable = "IWARP_TOKEN"

// token returns the token, "" if there is none.
func (f *accessFlags) token() (string, error) {
	t := os.Getenv(tokenVariable)
	if f.TokenFile != "" {
		b, err := os.ReadFile(f.TokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		first, _, _ := strings.Cut(string(b), "\n")
		if t = strings.TrimSpace(first); t == "" {
			return "", fmt.Errorf("--token-file %s: the first line is empty", f.TokenFile)
		}
	}
	if t != "" && len(t) < wire.MinToken {
		return "", fmt.Errorf(
			"the token has %d characters: %d or more, so that nobody finds it by trying",
			len(t),
			wire.MinToken,
		)
	}
	return t, nil
}

// Validate refuses flags that do not go together.
func (f *accessFlags) Validate() error {
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return errors.New("--cert and --key: both or none of them")
	case f.Plain && f.Cert != "":
		return errors.New("--plain: not together with --cert, which is for TLS")
	case f.Plain && f.CA != "":
		return errors.New("--plain: not together with --ca, which is for TLS")
	}
	return nil
}

// loopback reports whether an address is reached from this host only.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// secured reports whether the two ends speak TLS.
func (f *accessFlags) secured(addr, token string) bool {
	return !f.Plain && (!loopback(addr) || token != "" || f.Cert != "" || f.CA != "")
}

// serverTLS returns the configuration of the server, nil without TLS. It refuses what
// would leave a directory open to everybody.
func (f *accessFlags) serverTLS(addr, token string) (*tls.Config, error) {
	open := token == "" && f.CA == ""
	if open && !loopback(addr) {
		return nil, fmt.Errorf("--listen %s is reached from other hosts: access needs a token (--token-file), "+
			"or certificates of clients (--ca)", addr)
	}
	if !f.secured(addr, token) {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS13}
	cert, err := f.certificate()
	if err != nil {
		return nil, err
	}
	cfg.Certificates = []tls.Certificate{cert}
	if f.CA != "" {
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
		if cfg.ClientCAs, err = f.authorities(); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

// clientTLS returns the configuration of the client, nil without TLS.
func (f *accessFlags) clientTLS(addr, token string) (*tls.Config, error) {
	if !f.secured(addr, token) {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: host}
	if f.Cert != "" {
		cert, err := f.certificate()
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	switch {
	case f.CA != "":
		cfg.RootCAs, err = f.authorities()
	case token != "":
		// The server proves that it knows the token, and the proof is bound to this
		// very TLS connection: see wire.NewProofs.
		cfg.InsecureSkipVerify = true
	}
	return cfg, err
}

func (f *accessFlags) authorities() (*x509.CertPool, error) {
	b, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("--ca %s: no certificate in PEM", f.CA)
	}
	return pool, nil
}

// certificate loads --cert, or makes one that nobody vouches for.
func (f *accessFlags) certificate() (tls.Certificate, error) {
	if f.Cert != "" {
		c, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return c, fmt.Errorf("--cert %s, --key %s: %w", f.Cert, f.Key, err)
		}
		return c, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "iwarp serve"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// dial connects to a server.
func dial(ctx context.Context, addr string, tc *tls.Config, cfg *iwarp.Config) (*iwarp.Conn, error) {
	if tc == nil {
		return iwarp.Dial(ctx, "tcp", addr, cfg)
	}
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := tls.Client(iwarp.BelowTLS(nc), tc)
	if err := c.HandshakeContext(ctx); err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("TLS: %w%s", err, tlsHint(err))
	}
	return iwarp.Client(ctx, c, cfg)
}

// tlsHint says what an error of the handshake likely means.
func tlsHint(err error) string {
	var header tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &header):
		return " (does the server run with --plain, or on loopback without a token?)"
	case errors.As(err, &unknown):
		return " (give its authority with --ca, or a token that it knows with --token-file)"
	}
	return ""
}
