// Package filecopy is "iwarp cp" and "iwarp serve": files between hosts by RDMA. See
// package wire for the protocol and package tree for what is done to files.
package filecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/time/rate"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/tree"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/wire"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

// Copy is "iwarp cp".
type Copy struct {
	Paths       []location `arg:"" name:"path" help:"What to copy, and where to: HOST:/PATH or iwarp://HOST:PORT/PATH at a server, a path here. The last one is the destination."`
	Recursive   bool       `short:"r" help:"Copy directories, with all that is in them."`
	Exclude     []string   `placeholder:"PATTERN" sep:"none" help:"Leave out what matches: *, ?, [..], and ** for any number of directories. A pattern without a slash is held against names, one with a slash against paths below the source. May be repeated."`
	DryRun      bool       `short:"n" help:"Say what would be copied, and copy nothing."`
	Verbose     bool       `short:"v" help:"Name every file."`
	Bwlimit     *ui.Octets `placeholder:"N" help:"At most so many octets of files a second; K, M and G may stand behind N."`
	Connections int        `default:"4" placeholder:"N" help:"Connections at once, 1 to 64 (default 4)."`
	Timeout     ui.Wait    `default:"30s" placeholder:"D" help:"How long the server may be silent (default 30s)."`
	JSON        bool       `name:"json" help:"Print JSON, an object a line. The keys are listed above."`

	Access accessFlags `embed:""`
}

// maxConnections bounds --connections.
const maxConnections = 64

// Help is the long help.
func (c *Copy) Help() string {
	return `Copies files between this host and one that runs "iwarp serve". Octets go from file to file by RDMA Read
and Write, with a checksum end to end. Permissions, times, symbolic and hard links and holes are kept; a file of
the same size, time and permissions is not copied again. A file at the destination is replaced when the new one is
complete: nobody ever sees half of one. After a break the same command goes on where it was.

  iwarp cp host:/file .             a file from there to here
  iwarp cp -r dir host:/backup      dir becomes /backup/dir
  iwarp cp -r dir/ host:/backup     what is in dir goes into /backup
  iwarp cp -n -r host:/ copy        what would be copied

A path at a server begins at the directory that it serves. As with rsync, a slash behind a source means what is in it.

Access: a token that both ends know (--token-file) or certificates (--cert, --ca), over TLS; on loopback neither is
needed. With a token alone the two ends prove to each other that they know it, bound to the TLS connection.

Exit codes: 0 all is there; 2 the command line is wrong. The others are rsync's: 5 access refused, 10 network, 11 a
directory here cannot be used, 12 the other end broke the protocol, 20 interrupted, 23 some files could not be
copied, 24 some files went before they were read, 30 the server was silent.

With --json every line is an object; "event" says which:

  file     path, to, kind, octets, action (copied, resumed, unchanged, would_copy, failed), error
  summary  copied, unchanged, failed, octets (moved), had (there from an earlier run), elapsed_ns, exit_code
  error    error, exit_code`
}

// Validate refuses what cannot be done.
func (c *Copy) Validate() error {
	if len(c.Paths) < 2 {
		return errors.New("expected what to copy, and where to")
	}
	to := c.Paths[len(c.Paths)-1]
	for _, from := range c.Paths[:len(c.Paths)-1] {
		switch {
		case from.remote() == to.remote() && to.remote():
			return fmt.Errorf("%s and %s: both at a server: one end of a copy is here", from.text, to.text)
		case !from.remote() && !to.remote():
			return fmt.Errorf(
				"%s and %s: both here: HOST:/PATH is at a server (and ./a:b is a file here)",
				from.text,
				to.text,
			)
		case from.addr != c.Paths[0].addr:
			return fmt.Errorf("%s and %s: sources at several servers", c.Paths[0].text, from.text)
		}
	}
	for _, p := range c.Exclude {
		if !doublestar.ValidatePattern(p) {
			return fmt.Errorf("--exclude %q: no pattern: a bracket is not closed", p)
		}
	}
	if c.Connections < 1 || c.Connections > maxConnections {
		return fmt.Errorf("--connections %d: 1 to %d", c.Connections, maxConnections)
	}
	return c.Access.Validate()
}

// Run copies.
func (c *Copy) Run(ctx context.Context, out *ui.Output) error {
	out.JSON = c.JSON
	r := newReport(out, c.Verbose, c.DryRun)
	return r.end(c.run(ctx, r))
}

// hint says what it likely means that a server ended a connection without a word.
func (c *Copy) hint(tls bool, err error) string {
	if !tls && errors.Is(err, iwarp.ErrStartupClosed) {
		return " (does the server want TLS? Give a token with --token-file, or certificates)"
	}
	return ""
}

// server is the address of the server.
func (c *Copy) server() string { return c.Paths[0].addr + c.Paths[len(c.Paths)-1].addr } // one of them is ""

func (c *Copy) run(ctx context.Context, r *report) error {
	token, err := c.Access.token()
	if err != nil {
		return &accessError{err}
	}
	tc, err := c.Access.clientTLS(c.server(), token)
	if err != nil {
		return &accessError{err}
	}
	cfg := linkConfig()
	cfg.StartupTimeout = c.patience()
	t := &transfer{report: r, workers: c.Connections, chunk: wire.Chunk, dry: c.DryRun}
	if c.Bwlimit != nil {
		t.chunk = min(max(int64(*c.Bwlimit)/4, 64<<10), wire.Chunk)
		t.limit = rate.NewLimiter(rate.Limit(*c.Bwlimit), wire.Chunk)
	}
	t.connect = func(ctx context.Context, session []byte) (*link, error) {
		dctx, cancel := context.WithTimeout(ctx, c.patience())
		defer cancel()
		conn, err := dial(dctx, c.server(), tc, cfg)
		if err != nil {
			return nil, fmt.Errorf("connecting to %s: %w%s", c.server(), err, c.hint(tc != nil, err))
		}
		l, err := newLink(ctx, conn, token, session, c.patience())
		if err != nil {
			conn.Abort()
			if said := (*serverError)(nil); errors.As(err, &said) {
				return nil, &accessError{err}
			}
			return nil, err
		}
		return l, nil
	}
	first, err := t.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { first.close() }()
	first, err = c.copy(ctx, t, first)
	return err
}

func (c *Copy) patience() time.Duration { return time.Duration(c.Timeout) }

// linkConfig is that of the connections, at both ends: one request at a time.
func linkConfig() *iwarp.Config {
	return &iwarp.Config{RecvDepth: 2, RecvSize: wire.MaxMessage, SendDepth: 64}
}

// copy copies all sources, one after the other.
func (c *Copy) copy(ctx context.Context, t *transfer, first *link) (*link, error) {
	to := c.Paths[len(c.Paths)-1]
	if to.remote() && first.readOnly && !c.DryRun {
		return first, &serverError{errReadOnly.Error()}
	}
	for _, from := range c.Paths[:len(c.Paths)-1] {
		var p *plan
		var entries iter.Seq2[tree.Entry, error]
		var end func()
		var err error
		if to.remote() {
			p, entries, end, err = c.uploading(ctx, t, first, from, to)
		} else {
			p, entries, end, err = c.downloading(ctx, t, first, from, to)
		}
		if err != nil {
			return first, err
		}
		if p == nil {
			continue
		}
		p.patterns = c.Exclude
		err = t.run(ctx, first, func(ctx context.Context, _ *link) error { return p.walk(ctx, entries) })
		if err == nil {
			first, err = p.finish(ctx, first)
		}
		end()
		if err != nil {
			return first, err
		}
	}
	return first, nil
}

// several reports whether the destination has to be a directory.
func (c *Copy) several() bool { return len(c.Paths) > 2 }

// omit tells of a directory that is not copied without -r.
func (c *Copy) omit(t *transfer, from location, kind tree.Kind) bool {
	if kind != tree.Dir || c.Recursive {
		return false
	}
	t.report.failed(
		item{from: tree.Entry{Path: from.text, Kind: kind}},
		errors.New("a directory is copied with -r only"),
	)
	return true
}

// target returns the path of a source at its destination, of which is known what is
// there now.
func (c *Copy) target(from, to location, dir bool, name string, there tree.Kind) string {
	base := filepath.ToSlash(to.path)
	if dir && from.contents {
		return base
	}
	if dir || to.contents || c.several() || there == tree.Dir {
		return path.Join(base, name)
	}
	return base
}

func (c *Copy) uploading(
	ctx context.Context,
	t *transfer,
	l *link,
	from, to location,
) (*plan, iter.Seq2[tree.Entry, error], func(), error) {
	name, err := filepath.EvalSymlinks(from.path) // what is named is what is copied
	if err == nil {
		name, err = filepath.Abs(name)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(name)
	}
	if err != nil {
		t.report.failed(item{from: tree.Entry{Path: from.text}}, err)
		return nil, nil, nil, nil
	}
	kind := tree.File
	if info.IsDir() {
		kind = tree.Dir
	}
	if c.omit(t, from, kind) {
		return nil, nil, nil, nil
	}
	there, err := l.stat(ctx, to.path)
	if err != nil {
		return nil, nil, nil, err
	}
	base := from.base()
	if base == "." || base == ".." { // as it is called, or what is in it
		base = filepath.Base(name)
		from.contents = from.contents || from.base() == "."
	}
	dir, within := filepath.Dir(name), filepath.Base(name)
	if kind == tree.Dir {
		dir, within = name, "."
	}
	local, err := tree.Open(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	u := &upload{transfer: t, local: local}
	p := &plan{transfer: t, direction: u, from: within, to: c.target(from, to, kind == tree.Dir, base, there.Kind)}
	return p, local.Walk(ctx, within, c.Recursive, nil), func() { _ = local.Close() }, nil
}

func (c *Copy) downloading(
	ctx context.Context,
	t *transfer,
	l *link,
	from, to location,
) (*plan, iter.Seq2[tree.Entry, error], func(), error) {
	e, err := l.stat(ctx, from.path)
	if err == nil && e.Kind == tree.None {
		err = &fs.PathError{Op: "copy", Path: from.text, Err: fs.ErrNotExist}
	}
	if err != nil {
		if isFileError(err) {
			t.report.failed(item{from: tree.Entry{Path: from.text}}, err)
			err = nil
		}
		return nil, nil, nil, err
	}
	if c.omit(t, from, e.Kind) {
		return nil, nil, nil, nil
	}
	isDir := e.Kind == tree.Dir
	there := tree.None
	if tree.IsDir(to.path) {
		there = tree.Dir
	}
	base := from.base()
	if base == "." || base == "/" {
		from.contents = true
	}
	// The tree is the directory that is named, or the one that the file is in.
	root, at := to.path, location{path: ".", contents: true}
	if there != tree.Dir && !isDir && !to.contents && !c.several() {
		root, at = filepath.Dir(to.path), location{path: filepath.Base(to.path)}
	}
	made := !tree.IsDir(root)
	if !c.DryRun {
		if err := os.MkdirAll(root, 0o777); err != nil {
			return nil, nil, nil, err
		}
	} else if made {
		if root, err = os.MkdirTemp("", "iwarp-dry-run"); err != nil { // nothing is there
			return nil, nil, nil, err
		}
		defer os.Remove(root)
	}
	local, err := tree.Open(root)
	if err != nil {
		return nil, nil, nil, err
	}
	d := &download{transfer: t, local: local}
	p := &plan{transfer: t, direction: d, from: e.Path, to: c.target(from, at, isDir, base, tree.None), root: made}
	return p, listed(ctx, l, e.Path, c.Recursive), func() { _ = local.Close() }, nil
}

// listed yields the entries below a path at the server.
func listed(ctx context.Context, l *link, p string, recursive bool) iter.Seq2[tree.Entry, error] {
	return func(yield func(tree.Entry, error) bool) {
		stopped := errors.New("stopped")
		err := l.list(ctx, p, recursive, func(e tree.Entry, err error) error {
			if !yield(e, err) {
				return stopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, stopped) {
			yield(tree.Entry{Path: p}, err)
		}
	}
}
