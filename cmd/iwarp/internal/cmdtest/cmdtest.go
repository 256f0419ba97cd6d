// Package cmdtest is what the tests of several commands need.
package cmdtest

import (
	"bytes"
	"context"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
)

// Patience bounds whatever a test waits for.
const Patience = 20 * time.Second

// Context ends before the test is given up.
func Context(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Main runs command lines with some commands: the fields of the struct, a new one each
// time, that commands returns a pointer to.
func Main(commands func() any) func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		return ui.RunLine(ctx, commands(), "", args, stdout, stderr)
	}
}

// Lines is a writer that others may watch.
type Lines struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{} // has a token after a Write
}

// NewLines returns an empty one.
func NewLines() *Lines { return &Lines{changed: make(chan struct{}, 1)} }

// Write implements io.Writer.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return l.b.Write(p)
}

// String returns what was written so far.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Await waits until the text matches and returns the first submatch.
func (l *Lines) Await(t *testing.T, re string) string {
	t.Helper()
	ctx := Context(t)
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

// MainFunc runs a command line and returns the exit code.
type MainFunc func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// Served is a server that runs in this process.
type Served struct {
	Addr     string
	Out, Err *Lines
	Stop     func() int // returns the exit code
}

// Serve runs "iwarp ping --serve", by the main that has it, until the test ends.
func Serve(t *testing.T, main MainFunc, args ...string) *Served {
	t.Helper()
	ctx, cancel := context.WithCancel(Context(t))
	s := &Served{Out: NewLines(), Err: NewLines()}
	code := make(chan int, 1)
	go func() {
		code <- main(ctx, append([]string{"ping", "--serve", "127.0.0.1:0"}, args...), s.Out, s.Err)
	}()
	s.Stop = sync.OnceValue(func() int {
		cancel()
		return <-code
	})
	t.Cleanup(func() { s.Stop() })
	s.Addr = s.Out.Await(t, `(127\.0\.0\.1:\d+)`)
	return s
}

// MustContain complains of each part that text lacks.
func MustContain(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s: no %q in:\n%s", what, p, text)
		}
	}
}

// ErrorsFirst is ln whose first Accepts fail with errs.
func ErrorsFirst(ln net.Listener, errs ...error) net.Listener { return &failing{ln, errs} }

type failing struct {
	net.Listener
	errs []error
}

func (l *failing) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	return l.Listener.Accept()
}
