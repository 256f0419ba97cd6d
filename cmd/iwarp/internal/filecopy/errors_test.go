package filecopy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/tree"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/wire"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

const token1, token2 = "a token of enough length", "another one of enough length"

// Who gets in, and who is told what.
func TestAccess(t *testing.T) {
	dir := t.TempDir()
	put(t, []byte("x"), dir, "f")
	one, two := put(t, []byte(token1+"\nmore\n"), t.TempDir(), "t"), put(t, []byte(token2), t.TempDir(), "t")
	for _, c := range []struct {
		name           string
		server, client []string
		code           int
		text           string
	}{
		{name: "loopback", code: 0},
		{name: "token", server: []string{"--token-file", one}, client: []string{"--token-file", one}, code: 0},
		{
			name:   "token, plain",
			server: []string{"--token-file", one, "--plain"},
			client: []string{"--token-file", one, "--plain"},
			code:   0,
		},
		{
			name: "another token", server: []string{"--token-file", one}, client: []string{"--token-file", two},
			code: exitAccess, text: "the token is not the other end's",
		},
		{
			name: "another token, plain", server: []string{"--token-file", one, "--plain"},
			client: []string{"--token-file", two, "--plain"},
			code:   exitAccess, text: "the token is not the other end's",
		},
		{
			name: "no token, plain", server: []string{"--token-file", one, "--plain"}, client: []string{"--plain"},
			code: exitAccess, text: "the token is not the other end's",
		},
		{
			name: "a server without", client: []string{"--token-file", one, "--plain"},
			code: exitAccess, text: "the token is not the other end's",
		},
		{
			name: "TLS to plain", server: []string{"--token-file", one, "--plain"},
			client: []string{"--token-file", one},
			code:   exitNetwork, text: "connecting to",
		},
		{
			name:   "plain to TLS",
			server: []string{"--token-file", one},
			client: []string{"--plain", "--timeout", "1s"},
			code:   exitNetwork,
			text:   "connecting to",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, _ := serve(t, dir, c.server...)
			code, text := cp(t, append(c.client, url+"/f", filepath.Join(t.TempDir(), "f"))...)
			if code != c.code || !strings.Contains(text, c.text) {
				t.Errorf("exit code %d, want %d: %s", code, c.code, text)
			}
		})
	}
}

// A directory is not left open to the network.
func TestOpenToAll(t *testing.T) {
	out := cmdtest.NewLines()
	if code := Main(
		cmdtest.Context(t),
		[]string{"serve", "--listen", ":0", t.TempDir()},
		out,
		out,
	); code != ui.ExitFailed {
		t.Errorf("exit code %d", code)
	}
	cmdtest.MustContain(
		t,
		"serve",
		out.String(),
		"--listen :0 is reached from other hosts: access needs a token (--token-file)",
	)
	short := put(t, []byte("short"), t.TempDir(), "t")
	out = cmdtest.NewLines()
	if code := Main(
		cmdtest.Context(t),
		[]string{"serve", "--token-file", short, t.TempDir()},
		out,
		out,
	); code != ui.ExitFailed {
		t.Errorf("exit code %d", code)
	}
	cmdtest.MustContain(t, "serve", out.String(), "the token has 5 characters: 16 or more")
}

func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	put(t, []byte("x"), dir, "f")
	url, _ := serve(t, dir, "--read-only")
	code, text := cp(t, filepath.Join(dir, "f"), url+"/g")
	if code != exitPartial || !strings.Contains(text, "the server is read-only") {
		t.Errorf("exit code %d: %s", code, text)
	}
	mustCopy(t, url+"/f", filepath.Join(t.TempDir(), "f"))
}

// The rest goes on.
func TestFailuresOfFiles(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	put(t, []byte("x"), src, "f")
	put(t, []byte("x"), src, "in the way")
	put(t, []byte("x"), dst, "in the way", "full")
	url, _ := serve(t, dst)
	code, text := cp(
		t,
		filepath.Join(src, "f"),
		filepath.Join(src, "nothing"),
		filepath.Join(src, "in the way"),
		url+"/",
	)
	if code != exitPartial {
		t.Errorf("exit code %d", code)
	}
	cmdtest.MustContain(t, "cp", text, "nothing: ", "in the way: ", "2 failed")
	if _, err := os.Stat(filepath.Join(dst, "f")); err != nil {
		t.Error(err)
	}
	if code, text = cp(t, url+"/nothing", dst); code != exitVanished {
		t.Errorf("exit code %d: %s", code, text)
	}
	if code, text = cp(t, src, url+"/"); code != exitPartial || !strings.Contains(text, "with -r only") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

func TestNoServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	if code, text := cp(t, "iwarp://"+ln.Addr().String()+"/f", t.TempDir()); code != exitNetwork {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// raw connects to a server as a client that can send what it likes.
func raw(t *testing.T, url string) *link {
	t.Helper()
	ctx := cmdtest.Context(t)
	conn, err := iwarp.Dial(ctx, "tcp", strings.TrimPrefix(url, "iwarp://"), linkConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Abort() })
	l, err := newLink(ctx, conn, "", nil, cmdtest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Requests that no client of ours sends are refused with a reason, change nothing, and
// the connection goes on.
func TestHostileRequests(t *testing.T) {
	outside := t.TempDir()
	secret := put(t, []byte("secret"), outside, "secret")
	dir := filepath.Join(outside, "dir")
	put(t, []byte("x"), dir, "f")
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	url, _ := serve(t, dir)
	l := raw(t, url)
	file := func(p string, size int64) []wire.Entry {
		return []wire.Entry{{Path: []byte(p), Kind: tree.File, Size: size}}
	}
	ctx := cmdtest.Context(t)
	made, err := l.ask(ctx, &wire.Request{Op: wire.Create, Entries: file("made", 10)})
	if err != nil {
		t.Fatal(err)
	}
	opened, err := l.ask(ctx, &wire.Request{Op: wire.Open, Entries: file("f", 0)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		req  wire.Request
		text string
	}{
		{"no operation", wire.Request{}, "request 0: not known here"},
		{"hello again", wire.Request{Op: wire.Hello}, "hello: not known here, or not now"},
		{"unknown operation", wire.Request{Op: 99}, "request 99"},
		{"up", wire.Request{Op: wire.Open, Entries: file("../secret", 0)}, "no path below the directory"},
		{"absolute", wire.Request{Op: wire.Open, Entries: file(secret, 0)}, "no path below the directory"},
		{"by a link", wire.Request{Op: wire.Open, Entries: file("out/secret", 0)}, "escapes"},
		{"create by a link", wire.Request{Op: wire.Create, Entries: file("out/new", 0)}, "escapes"},
		{"NUL", wire.Request{Op: wire.Open, Entries: file("a\x00b", 0)}, "no path below the directory"},
		{"the top as a file", wire.Request{Op: wire.Create, Entries: file(".", 0)}, "that is the directory itself"},
		{"no entry", wire.Request{Op: wire.Open}, "open with 0 entries: expected one"},
		{
			"two entries",
			wire.Request{Op: wire.Create, Entries: append(file("a", 0), file("b", 0)...)},
			"create with 2 entries",
		},
		{"negative size", wire.Request{Op: wire.Create, Entries: file("a", -1)}, "size -1: negative"},
		{"list of nothing", wire.Request{Op: wire.List}, "list without a path"},
		{"handle", wire.Request{Op: wire.Load, Handle: 77}, "file 77 is not open"},
		{"handle of a file that is read", wire.Request{Op: wire.Store, Handle: opened.Handle}, "is not being made"},
		{
			"beyond the end",
			wire.Request{Op: wire.Load, Handle: opened.Handle, Len: 2},
			"octets 0 to 0+2 of a file of 1",
		},
		{"negative offset", wire.Request{Op: wire.Load, Handle: opened.Handle, Off: -1, Len: 1}, "octets -1 to -1+1"},
		{"overflow", wire.Request{Op: wire.Load, Handle: opened.Handle, Off: 1<<63 - 1, Len: 1}, "of a file of 1"},
		{"store beyond the end", wire.Request{Op: wire.Store, Handle: made.Handle, Off: 5, Len: 6}, "of a file of 10"},
		{
			"data beyond the chunk",
			wire.Request{Op: wire.Store, Handle: made.Handle, Len: 5, Spans: []tree.Span{{Off: 3, Len: 3}}},
			"not in order within a chunk of 5",
		},
		{
			"data out of order",
			wire.Request{
				Op: wire.Store, Handle: made.Handle, Len: 5,
				Spans: []tree.Span{{Off: 3, Len: 1}, {Off: 1, Len: 1}},
			},
			"not in order",
		},
		{
			"wrong checksum",
			wire.Request{Op: wire.Store, Handle: made.Handle, Len: 5, Spans: wire.Whole(5)},
			"another checksum",
		},
		{"bundle beyond the region", wire.Request{Op: wire.Put, Entries: file("a", wire.Chunk+1)}, "the region has"},
		{"bundle with a wrong checksum", wire.Request{Op: wire.Put, Entries: file("a", 5)}, "another checksum"},
		{
			"commit as another",
			wire.Request{Op: wire.Commit, Handle: made.Handle, Entries: file("other", 10)},
			`commit of "other"`,
		},
	} {
		_, err := l.ask(ctx, &c.req)
		var said *serverError
		if !errors.As(err, &said) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %q", c.name, err, c.text)
		}
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 2 {
		t.Errorf("left in the directory: %v, %v", names, err)
	}
}

// A session holds so many files and no more.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	put(t, []byte("x"), dir, "f")
	url, stop := serve(t, dir)
	l := raw(t, url)
	ctx := cmdtest.Context(t)
	for _, c := range []struct {
		op    wire.Op
		limit int
	}{{wire.Open, maxSources}, {wire.Create, maxSinks}} {
		n := 0
		for ; n < 1000; n++ {
			e := wire.Entry{Path: []byte("f"), Kind: tree.File}
			if c.op == wire.Create { // two of the same name wait for each other
				e.Path = fmt.Append(nil, n)
			}
			if _, err := l.ask(ctx, &wire.Request{Op: c.op, Entries: []wire.Entry{e}}); err != nil {
				break
			}
		}
		if n != c.limit {
			t.Errorf("%v: %d, want %d", c.op, n, c.limit)
		}
	}
	stop() // with all of it open
}

// A client without the token gets no further than its proof.
func TestNothingBeforeTheProof(t *testing.T) {
	one := put(t, []byte(token1), t.TempDir(), "t")
	url, stop := serve(t, t.TempDir(), "--token-file", one, "--plain")
	conn, err := iwarp.Dial(cmdtest.Context(t), "tcp", strings.TrimPrefix(url, "iwarp://"), linkConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Abort()
	l := &link{conn: conn, patience: cmdtest.Patience, in: make([]byte, wire.MaxMessage)}
	if _, err := l.ask(
		cmdtest.Context(t),
		&wire.Request{Op: wire.List, Entries: []wire.Entry{{Path: []byte(".")}}},
	); err == nil ||
		!strings.Contains(err.Error(), "expected hello") {
		t.Error(err)
	}
	<-conn.Done()
	cmdtest.MustContain(t, "server", stop(), "expected hello")
}

// A file that is truncated while it is read is an error of that file, at both ends.
func TestTruncatedWhileRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files are not mapped on Windows")
	}
	dir := t.TempDir()
	name := put(t, octetsOf(2*wire.Chunk), dir, "f")
	url, _ := serve(t, dir)
	l := raw(t, url)
	ctx := cmdtest.Context(t)
	rep, err := l.ask(ctx, &wire.Request{Op: wire.Open, Entries: []wire.Entry{{Path: []byte("f")}}})
	if err != nil {
		t.Fatal(err)
	}
	load := &wire.Request{Op: wire.Load, Handle: rep.Handle, Off: wire.Chunk, Len: wire.Chunk}
	loaded, err := l.ask(ctx, load)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := l.ask(ctx, load); err == nil || !strings.Contains(err.Error(), tree.ErrChanged.Error()) {
		t.Errorf("load: %v", err)
	}
	// The Read that was on its way finds nothing: the connection ends, and the server lives.
	from, err := wire.Buffer(loaded.Region)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.fetch(ctx, from, loaded.Spans); err == nil {
		t.Error("read what is not there")
	}
	raw(t, url)
	// The other way round: the client's file.
	src, err := tree.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	put(t, octetsOf(2*wire.Chunk), dir, "g")
	s, err := src.OpenSource("g")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.Truncate(filepath.Join(dir, "g"), 10); err != nil {
		t.Fatal(err)
	}
	var sum wire.Sum
	if err := s.Guarded(
		func() { sum = wire.SumOf(s.Mapped(), wire.Whole(2*wire.Chunk)) },
	); !errors.Is(
		err,
		tree.ErrChanged,
	) {
		t.Errorf("%v, %x", err, sum)
	}
	if err := raw(t, url).push(ctx, s.Mapped()[:wire.Chunk], wire.Whole(wire.Chunk)); err == nil {
		t.Error("wrote what is not there")
	}
}

// An interrupted copy says so by its exit code.
func TestInterrupted(t *testing.T) {
	url, _ := serve(t, t.TempDir())
	ctx, cancel := context.WithCancel(cmdtest.Context(t))
	cancel()
	out := cmdtest.NewLines()
	if code := Main(
		ctx,
		[]string{"cp", put(t, octetsOf(10), t.TempDir(), "f"), url + "/"},
		out,
		out,
	); code != exitStopped {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args []string
		text string
	}{
		{[]string{"a"}, "expected what to copy, and where to"},
		{[]string{"a", "b"}, "both here"},
		{[]string{"h:/a", "h:/b"}, "both at a server"},
		{[]string{"h:/a", "i:/b", "c"}, "sources at several servers"},
		{[]string{"", "h:/b"}, "the name is empty"},
		{[]string{"a", "h:/b", "--connections", "0"}, "--connections 0: 1 to 64"},
		{[]string{"a", "h:/b", "--exclude", "[a"}, "a bracket is not closed"},
		{[]string{"a", "h:/b", "--cert", "x"}, "--cert and --key"},
		{[]string{"a", "h:/b", "--plain", "--ca", "x"}, "--plain: not together with --ca"},
	} {
		code, text := cp(t, c.args...)
		if code != ui.ExitUsage || !strings.Contains(text, c.text) {
			t.Errorf("%q: exit code %d: %s", c.args, code, text)
		}
	}
}

func TestLocations(t *testing.T) {
	for _, c := range []struct {
		text, addr, path string
		contents         bool
	}{
		{text: "a/b", path: "a/b"},
		{text: "./a:b", path: "./a:b"},
		{text: "/a:b", path: "/a:b"},
		{text: "h:/a/b", addr: "h:7175", path: "a/b"},
		{text: "h:a", addr: "h:7175", path: "a"},
		{text: "h:", addr: "h:7175", path: ".", contents: true},
		{text: "h:/", addr: "h:7175", path: ".", contents: true},
		{text: "h:/a/", addr: "h:7175", path: "a", contents: true},
		{text: "h:/../a/./b", addr: "h:7175", path: "a/b"},
		{text: "[::1]:/a", addr: "[::1]:7175", path: "a"},
		{text: "iwarp://h:99/a", addr: "h:99", path: "a"},
		{text: "iwarp://[::1]:99/a/", addr: "[::1]:99", path: "a", contents: true},
		{text: "iwarp://h", addr: "h:7175", path: ".", contents: true},
	} {
		var l location
		if err := l.UnmarshalText(
			[]byte(c.text),
		); err != nil || l.addr != c.addr || l.path != c.path ||
			l.contents != c.contents {
			t.Errorf("%q: %+v, %v", c.text, l, err)
		}
	}
}
