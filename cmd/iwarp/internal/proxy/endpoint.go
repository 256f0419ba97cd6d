package proxy

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// The schemes of an endpoint; a relay's endpoints may have none.
const (
	schemeTCP   = "tcp"
	schemeIWARP = "iwarp"
)

// endpoint is a value of --listen and --to.
type endpoint struct {
	scheme, host string
	port         uint16
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (e *endpoint) UnmarshalText(b []byte) error {
	s := string(b)
	var v endpoint
	rest := s
	if scheme, after, ok := strings.Cut(s, "://"); ok {
		if scheme != schemeTCP && scheme != schemeIWARP {
			return fmt.Errorf("%q: %s:// is not known: tcp://, iwarp://, or neither", s, scheme)
		}
		v.scheme, rest = scheme, after
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		return fmt.Errorf("%q: HOST:PORT, with the host in brackets if it has colons, and tcp:// or iwarp:// in front "+
			"for a bridge", s)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return fmt.Errorf("%q: the port is a number from 0 to 65535", s)
	}
	v.host, v.port = host, uint16(n)
	*e = v
	return nil
}

// address is what to listen on, or to connect to.
func (e endpoint) address() string { return net.JoinHostPort(e.host, strconv.Itoa(int(e.port))) }

// String is the flag's value.
func (e endpoint) String() string {
	if e.scheme == "" {
		return e.address()
	}
	return e.scheme + "://" + e.address()
}
