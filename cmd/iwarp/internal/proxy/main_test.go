package proxy

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var run = cmdtest.Main(func() any {
	return &struct {
		Proxy Command `cmd:""`
		Other Command `cmd:""` // kong takes a lone command for granted
	}{}
})

// proxy is a running "iwarp proxy".
type proxy struct {
	addr string
	out  *cmdtest.Lines
	stop func() // tells it to stop
	code chan int
}

// start runs a proxy, with JSON, until the test ends.
func start(t *testing.T, listen, to string, flags ...string) *proxy {
	t.Helper()
	ctx, cancel := context.WithCancel(cmdtest.Context(t))
	p := &proxy{out: cmdtest.NewLines(), stop: cancel, code: make(chan int, 1)}
	args := append([]string{"proxy", "--listen", listen, "--to", to, "--json", "--grace", "20s"}, flags...)
	go func() { p.code <- run(ctx, args, p.out, p.out) }()
	t.Cleanup(func() { p.end(t) })
	p.addr = p.out.Await(t, `"listening","address":"(127\.0\.0\.1:\d+)"`)
	return p
}

// end stops the proxy and waits for its end.
func (p *proxy) end(t *testing.T) string {
	t.Helper()
	p.stop()
	code := <-p.code
	if p.code <- code; code != ui.ExitOK {
		t.Errorf("exit code %d:\n%s", code, p.out)
	}
	return p.out.String()
}
