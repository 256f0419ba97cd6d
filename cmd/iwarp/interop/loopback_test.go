package interop

import (
	"context"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
)

// The counterparts against each other, so that a mistake in them shows without a
// guest.
func TestCounterpartsOnLoopback(t *testing.T) {
	side := map[string]struct {
		server, client func(context.Context, *iwarp.Conn) error
	}{
		"ucmatose": {
			server: func(ctx context.Context, c *iwarp.Conn) error {
				return ucmatoseServer(ctx, c, messages{count: 10, size: 100})
			},
			client: func(ctx context.Context, c *iwarp.Conn) error {
				return ucmatoseClient(ctx, c, messages{count: 10, size: 100})
			},
		},
		"rdma_client": {server: rdmaServer, client: rdmaClient},
	}
	for name, s := range side {
		t.Run(name, func(t *testing.T) {
			ln, ctx := listen(t, nil)
			served := make(chan error, 1)
			go func() { served <- serveOne(ctx, ln, s.server) }()
			c, err := iwarp.Dial(ctx, "tcp", ln.Addr().String(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Abort()
			if err := s.client(ctx, c); err != nil {
				t.Errorf("client: %v", err)
			}
			if err := <-served; err != nil {
				t.Errorf("server: %v", err)
			}
		})
	}
	t.Run("cmtime", func(t *testing.T) {
		ln, ctx := listen(t, nil)
		served := make(chan error, 1)
		go func() { served <- cmtimeServer(ctx, 5, ln) }()
		err := cmtimeClient(ctx, 5, func(ctx context.Context) (*iwarp.Conn, error) {
			return iwarp.Dial(ctx, "tcp", ln.Addr().String(), nil)
		})
		if err != nil {
			t.Errorf("client: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("server: %v", err)
		}
	})
}

// listen opens a listener that the guest can reach too, and gives the time that
// one exchange may take.
func listen(t *testing.T, cfg *iwarp.Config) (*iwarp.Listener, context.Context) {
	t.Helper()
	ln, err := iwarp.Listen("tcp4", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeQuietly(ln) })
	ctx, cancel := context.WithTimeout(t.Context(), exchangeTime)
	t.Cleanup(cancel)
	return ln, ctx
}

// exchangeTime is for one exchange with a program in the guest. Emulation is
// slow, and so is a busy machine.
const exchangeTime = 30 * time.Second

// serveOne serves one connection.
func serveOne(ctx context.Context, ln *iwarp.Listener, f func(context.Context, *iwarp.Conn) error) error {
	c, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	defer c.Abort()
	return f(ctx, c)
}
