package filecopy

import (
	"errors"
	"fmt"
	"net"
	"path"
	"path/filepath"
	"strings"
)

// defaultPort is that of "iwarp serve".
const defaultPort = "7175"

// location is a source or destination: a path here, or one at a server.
type location struct {
	text     string // as it was given
	addr     string // host:port of the server; "" here
	path     string // here as the system has it; at a server with slashes, below its directory, "." for that
	contents bool   // it ends in a slash: what is in it, or into it
}

func (l location) remote() bool { return l.addr != "" }

// UnmarshalText implements encoding.TextUnmarshaler: host:/path or
// iwarp://host:port/path is at a server, anything else is here.
func (l *location) UnmarshalText(b []byte) error {
	s := string(b)
	l.text = s
	if s == "" {
		return errors.New("the name is empty: a path, HOST:/PATH, or iwarp://HOST:PORT/PATH")
	}
	host, p, ok := s, "", false
	if rest, found := strings.CutPrefix(s, "iwarp://"); found {
		host, p, _ = strings.Cut(rest, "/")
		ok = true
	} else if i := colon(s); i > 0 {
		host, p, ok = s[:i], s[i+1:], true
	}
	l.contents = strings.HasSuffix(s, "/")
	if !ok {
		l.path = s
		return nil
	}
	addr, port, err := net.SplitHostPort(host)
	if err != nil {
		addr, port = strings.Trim(host, "[]"), defaultPort
	}
	if addr == "" {
		return fmt.Errorf("%q: no host", s)
	}
	l.addr = net.JoinHostPort(addr, port)
	// As below a root: no ".." leads out of the server's directory.
	l.path = strings.TrimPrefix(path.Clean("/"+p), "/")
	if l.path == "" {
		l.path, l.contents = ".", true
	}
	return nil
}

// colon returns where the colon behind a host is, -1 if s is a path: as with scp, a
// colon behind a slash, or behind the letter of a drive, is part of one.
func colon(s string) int {
	i := strings.IndexByte(s, ':')
	if strings.HasPrefix(s, "[") {
		if j := strings.Index(s, "]:"); j > 0 {
			i = j + 1
		}
	}
	if i < 0 || strings.Contains(s[:i], "/") || i == 1 && len(s) > 2 && s[2] == '\\' {
		return -1
	}
	return i
}

// base is the last name of a path.
func (l location) base() string {
	if l.remote() {
		return path.Base(l.path)
	}
	return path.Base(strings.TrimRight(slashes(l.path), "/"))
}

// slashes returns a path of the system with slashes.
func slashes(p string) string { return filepath.ToSlash(p) }
