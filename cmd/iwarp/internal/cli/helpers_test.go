package cli

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-iwarp/iwarp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds whatever a test waits for.
const patience = 20 * time.Second

// testContext ends before the test is given up.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// lines is a writer that others may watch.
type lines struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{} // has a token after a Write
}

func newLines() *lines { return &lines{changed: make(chan struct{}, 1)} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// await waits until the text matches and gives the first submatch.
func (l *lines) await(t *testing.T, re string) string {
	t.Helper()
	ctx := testContext(t)
	for {
		if m := regexp.MustCompile(re).FindStringSubmatch(l.String()); m != nil {
			return m[len(m)-1]
		}
		select {
		case <-l.changed:
		case <-ctx.Done():
			t.Fatalf("no %q in:\n%s", re, l)
		}
	}
}

// served is a server that runs in this process.
type served struct {
	addr     string
	out, err *lines
	stop     func() int // gives the exit code
}

func serve(t *testing.T, args ...string) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	s := &served{out: newLines(), err: newLines()}
	code := make(chan int, 1)
	go func() {
		code <- Main(ctx, append([]string{"ping", "--serve", "127.0.0.1:0"}, args...), s.out, s.err)
	}()
	s.stop = sync.OnceValue(func() int {
		cancel()
		return <-code
	})
	t.Cleanup(func() { s.stop() })
	s.addr = s.out.await(t, `(127\.0\.0\.1:\d+)`)
	return s
}

// client runs a client in this process.
func client(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	out, err := newLines(), newLines()
	code = Main(ctx, append([]string{"ping"}, args...), out, err)
	return code, out.String(), err.String()
}

// dial connects to a server as a program with the library.
func dial(t *testing.T, addr string) *iwarp.Conn {
	t.Helper()
	c, err := iwarp.Dial(testContext(t), "tcp", addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abort)
	return c
}

// rpingServer is a server that is made by hand: it takes one client and plays it.
func rpingServer(t *testing.T, play func(ctx context.Context, c *iwarp.Conn) error) string {
	t.Helper()
	ctx := testContext(t)
	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		defer close(done)
		c, err := ln.Accept(ctx)
		if err != nil {
			return
		}
		if err := play(ctx, c); err != nil && ctx.Err() == nil {
			done <- err
		}
		_ = c.Close()
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		if err := <-done; err != nil {
			t.Errorf("the server of the test: %v", err)
		}
	})
	return ln.Addr().String()
}

// take receives an advert.
func take(ctx context.Context, c *iwarp.Conn) (advert, error) {
	b := make([]byte, 100)
	m, err := c.Recv(ctx, b)
	if err == nil && m.Length != advertLen {
		err = fmt.Errorf("%d octets", m.Length)
	}
	return parseAdvert(b), err
}

func mustContain(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s: no %q in:\n%s", what, p, text)
		}
	}
}
