package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-iwarp/iwarp/live"
)

// target is whose connections to show.
type target struct {
	pid    int    // not 0: of the process
	socket string // or of who listens there
	url    string // of the snapshot; its host means nothing for a socket
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *target) UnmarshalText(b []byte) error {
	s := string(b)
	if pid, err := strconv.ParseInt(s, 10, 32); err == nil {
		if pid < 1 {
			return fmt.Errorf("%q: the number of a process is 1 or more", s)
		}
		*t = target{pid: int(pid), socket: live.Path(int(pid)), url: "http://localhost" + live.Endpoint}
		return nil
	}
	if strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" {
			return fmt.Errorf("%q is no URL", s)
		}
		if u.Path == "" || u.Path == "/" {
			u.Path = live.Endpoint
		}
		*t = target{url: u.String()}
		return nil
	}
	if strings.ContainsAny(s, `/\`) {
		*t = target{socket: s, url: "http://localhost" + live.Endpoint}
		return nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q: the number of a process, HOST:PORT, a URL, or the path of a socket, with a / in it", s)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q: the port is a number from 0 to 65535", s)
	}
	if host == "" {
		host = "localhost"
	}
	*t = target{url: "http://" + net.JoinHostPort(host, port) + live.Endpoint}
	return nil
}

// The bounds of what is taken from a program, which need not mean well.
const (
	maxAnswer = 16 << 20 // octets
	patience  = 5 * time.Second
	maxErrors = 1000
)

// goneError is that nobody answers there, or no more.
type goneError struct{ error }

func gone(format string, args ...any) error { return goneError{fmt.Errorf(format, args...)} }

// source asks a target.
type source struct {
	target
	client http.Client
}

func newSource(t target) *source {
	s := &source{target: t}
	// No proxy: it is a program of this network that is asked.
	tr := &http.Transport{
		DisableCompression: true, MaxResponseHeaderBytes: 64 << 10, MaxIdleConns: 1, IdleConnTimeout: time.Minute,
	}
	if t.socket != "" {
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", t.socket)
		}
	}
	s.client.Transport = tr
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s
}

func (s *source) close() { s.client.CloseIdleConnections() }

// name says who is asked.
func (s *source) name() string {
	switch {
	case s.pid != 0:
		return fmt.Sprintf("process %d", s.pid)
	case s.socket != "":
		return s.socket
	}
	return s.url
}

// fetch asks once.
func (s *source) fetch(ctx context.Context) (*live.Snapshot, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer in %v", patience))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, s.unreachable(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %q: the program has to serve live.Handler there, or give the URL of "+
			"where it does", s.name(), resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", s.name(), context.Cause(ctx))
	case err != nil:
		return nil, gone("%s: %w", s.name(), err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("%s: its answer is longer than %d octets", s.name(), maxAnswer)
	}
	snap, err := parse(body)
	if err != nil {
		return nil, fmt.Errorf("%s: its answer is none of live.Handler: %w", s.name(), err)
	}
	return snap, nil
}

// unreachable says why nobody could be asked, and what to do.
func (s *source) unreachable(ctx context.Context, err error) error {
	var below *url.Error
	if errors.As(err, &below) {
		err = below.Err
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", s.name(), context.Cause(ctx))
	case s.pid == 0:
		return gone("%s: %w", s.name(), err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("process %d offers its connections to the user that it runs as, and to root", s.pid)
	case !exists(s.pid):
		return gone("there is no process %d", s.pid)
	}
	return gone("process %d does not offer its connections: its program has to call live.Offer (package "+
		"github.com/go-iwarp/iwarp/live), and \"iwarp ping --serve\", \"iwarp bench --serve\" and \"iwarp serve\" "+
		"need --live. Looked for the socket %s, so that it needs the same TMPDIR", s.pid, s.socket)
}

// exists reports whether there is a process of this number, as far as can be told.
func exists(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	if runtime.GOOS == "windows" {
		return true
	}
	err = p.Signal(syscall.Signal(0))
	return !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH)
}

// parse reads an answer. Lists are read to their bounds, so that many short elements do not
// become much memory.
func parse(body []byte) (*live.Snapshot, error) {
	var in struct {
		live.Snapshot
		Errors list[live.Errors] `json:"errors"`
		Conns  list[live.Conn]   `json:"conns"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	if in.Format != live.Format {
		return nil, fmt.Errorf("its format is %.40q: %q is what this iwarp reads", in.Format, live.Format)
	}
	if len(in.Conns) > live.MaxConns || len(in.Errors) > maxErrors {
		return nil, fmt.Errorf("more than %d connections or %d kinds of errors", live.MaxConns, maxErrors)
	}
	s := in.Snapshot
	s.Errors, s.Conns = in.Errors, in.Conns
	return &s, nil
}

// list is read to one element more than a snapshot may have.
type list[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (l *list[T]) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return fmt.Errorf("a list was expected, not %.20q", b)
	}
	*l = list[T]{}
	for d.More() && len(*l) <= live.MaxConns {
		var v T
		if err := d.Decode(&v); err != nil {
			return err
		}
		*l = append(*l, v)
	}
	return nil
}
