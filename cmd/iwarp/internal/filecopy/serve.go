package filecopy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/tree"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

// Serve is "iwarp serve".
type Serve struct {
	Dir      string `arg:"" type:"existingdir" help:"The directory. Nothing outside it is read or written, whatever links in it say."`
	Listen   string `default:"localhost:7175" placeholder:"ADDR" help:"Where to take connections (default localhost:7175); \":7175\" is every address of this host."`
	ReadOnly bool   `help:"Change nothing."`
	Clients  int    `name:"max-connections" default:"128" placeholder:"N" help:"Connections at once, of all clients together (default 128, each with 4 MiB); further ones wait."`
	ui.LiveFlag
	JSON bool `name:"json" help:"Print JSON, an object a line. The keys are listed above."`

	Access accessFlags `embed:""`
}

// Help is the long help.
func (c *Serve) Help() string {
	return `Serves a directory to "iwarp cp", until SIGINT or SIGTERM.

  iwarp serve DIR                                       to programs of this host
  iwarp serve --listen :7175 --token-file FILE DIR      to those who know the token, over TLS
  iwarp serve --listen :7175 --cert C --key K --ca A DIR  to those with a certificate of an authority in A

An address that other hosts reach needs a token or --ca: without one everybody could read and replace what is in DIR.
With a token and no --cert the server makes a certificate, which nobody has to know.

Exit codes: 0 it was told to stop; 1 it could not go on; 2 the command line is wrong.

With --json every line is an object; "event" says which:

  listening  address, tls, token, client_certificates, read_only
  error      error, peer
  summary    connections, failed, files, octets`
}

// Validate refuses what cannot be done.
func (c *Serve) Validate() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("--listen %s: HOST:PORT, or :PORT for every address of this host", c.Listen)
	}
	if c.Clients < 1 {
		return fmt.Errorf("--max-connections %d: 1 or more", c.Clients)
	}
	return c.Access.Validate()
}

// servingEvent tells that clients can come.
type servingEvent struct {
	Address  string `json:"address"`
	TLS      bool   `json:"tls"`
	Token    bool   `json:"token"`
	Certs    bool   `json:"client_certificates"`
	ReadOnly bool   `json:"read_only"`
	dir      string
}

func (e servingEvent) EventKind() string { return "listening" }

func (e servingEvent) Text() string {
	access := "to every program of this host"
	switch {
	case e.Certs && e.Token:
		access = "to clients with a certificate that know the token"
	case e.Certs:
		access = "to clients with a certificate"
	case e.Token:
		access = "to clients that know the token"
	}
	return fmt.Sprintf("serving %s%s on %s, %s, %s; Ctrl-C ends it", e.dir, ui.Word(e.ReadOnly, " (read-only)", ""),
		e.Address, access, ui.Word(e.TLS, "over TLS", "without TLS"))
}

// servedEvent is the last line.
type servedEvent struct {
	Connections uint64 `json:"connections"`
	Failed      uint64 `json:"failed"`
	totals
}

func (e servedEvent) EventKind() string { return "summary" }

func (e servedEvent) Text() string {
	return fmt.Sprintf("served %s (%d failed): %s, %s", ui.Plural(e.Connections, "connection"), e.Failed,
		entries(e.Files), ui.Amount(int64(e.Octets)))
}

// Run serves until ctx ends.
func (c *Serve) Run(ctx context.Context, out *ui.Output) error {
	out.JSON = c.JSON
	token, err := c.Access.token()
	if err != nil {
		return err
	}
	tc, err := c.Access.serverTLS(c.Listen, token)
	if err != nil {
		return err
	}
	files, err := tree.Open(c.Dir)
	if err != nil {
		return err
	}
	defer files.Close()
	nl, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", c.Listen, err)
	}
	cfg := linkConfig()
	if cfg.Device, err = iwarp.NewDevice(nil); err != nil {
		return errors.Join(err, nl.Close())
	}
	cfg.Logger = ui.StartupLog(out)
	ln, err := iwarp.NewListener(secure(nl, tc), cfg)
	if err != nil {
		return errors.Join(err, nl.Close())
	}
	unseen, err := c.Offer(out, cfg.Device)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer unseen()
	out.Emit(servingEvent{
		Address: ln.Addr().String(), TLS: tc != nil, Token: token != "", Certs: c.Access.CA != "",
		ReadOnly: c.ReadOnly, dir: c.Dir,
	})
	s := &server{tree: files, token: token, readOnly: c.ReadOnly, out: out, sessions: map[string]*session{}}
	err = errors.Join(s.run(ctx, ln, c.Clients), ln.Close())
	out.Emit(servedEvent{Connections: s.clients, Failed: s.failed, totals: s.done})
	return err
}

// secure has the connections of a listener speak TLS, if there is a configuration.
func secure(nl net.Listener, tc *tls.Config) net.Listener {
	if tc == nil {
		return nl
	}
	return tls.NewListener(belowTLS{nl}, tc)
}

// belowTLS is a listener whose connections TLS runs on: see iwarp.BelowTLS.
type belowTLS struct{ net.Listener }

func (l belowTLS) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return iwarp.BelowTLS(nc), nil
}
