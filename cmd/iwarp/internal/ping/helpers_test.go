package ping

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"

	"github.com/go-iwarp/iwarp"
)

// client runs a client in this process.
func client(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	out, err := cmdtest.NewLines(), cmdtest.NewLines()
	code = Main(ctx, append([]string{"ping"}, args...), out, err)
	return code, out.String(), err.String()
}

// dial connects to a server as a program with the library.
func dial(t *testing.T, addr string) *iwarp.Conn {
	t.Helper()
	c, err := iwarp.Dial(cmdtest.Context(t), "tcp", addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abort)
	return c
}

// rpingServer is a server that is made by hand: it takes one client and plays it.
func rpingServer(t *testing.T, play func(ctx context.Context, c *iwarp.Conn) error) string {
	t.Helper()
	ctx := cmdtest.Context(t)
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
