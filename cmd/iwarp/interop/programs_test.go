package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-iwarp/iwarp"
)

// The counterparts of rdma_cm's example programs. Each function is one side of
// one program's protocol, on a connection that stands.

// messages says how much ucmatose transfers: its options -C and -S.
type messages struct{ count, size int }

// ucmatoseServer is the side that listens. It speaks first: that needs an
// initiator that has opened the stream with an RTR.
func ucmatoseServer(ctx context.Context, c *iwarp.Conn, m messages) error {
	if err := sendAll(ctx, c, m); err != nil {
		return err
	}
	if err := recvAll(ctx, c, m); err != nil {
		return err
	}
	return c.Close()
}

// ucmatoseClient is the side that connects: it answers when it has everything,
// and waits for the server's end.
func ucmatoseClient(ctx context.Context, c *iwarp.Conn, m messages) error {
	if err := recvAll(ctx, c, m); err != nil {
		return err
	}
	if err := sendAll(ctx, c, m); err != nil {
		return err
	}
	return wantEnd(ctx, c)
}

func sendAll(ctx context.Context, c *iwarp.Conn, m messages) error {
	p := bytes.Repeat([]byte{0xa5}, m.size)
	for i := range m.count {
		if err := c.Send(ctx, p); err != nil {
			return fmt.Errorf("message %d of %d: %w", i+1, m.count, err)
		}
	}
	return nil
}

// recvAll does not look at the contents: ucmatose sends whatever its memory has.
func recvAll(ctx context.Context, c *iwarp.Conn, m messages) error {
	p := make([]byte, m.size)
	for i := range m.count {
		got, err := c.Recv(ctx, p)
		if err != nil {
			return fmt.Errorf("message %d of %d: %w", i+1, m.count, err)
		}
		if got.Length != m.size {
			return fmt.Errorf("message %d of %d has %d octets, want %d", i+1, m.count, got.Length, m.size)
		}
	}
	return nil
}

// wantEnd waits for the peer's graceful end, which must come before anything
// else, and closes.
func wantEnd(ctx context.Context, c *iwarp.Conn) error {
	got, err := c.Recv(ctx, nil)
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("want the peer's graceful end, got a message of %d octets, error %w", got.Length, err)
	}
	return c.Close()
}

// rdmaMessage is the one message of rdma_client and rdma_server.
var rdmaMessage = messages{count: 1, size: 16}

// rdmaClient is rdma_client: one message there, one back.
func rdmaClient(ctx context.Context, c *iwarp.Conn) error {
	if err := sendAll(ctx, c, rdmaMessage); err != nil {
		return err
	}
	if err := recvAll(ctx, c, rdmaMessage); err != nil {
		return err
	}
	return c.Close()
}

// rdmaServer is rdma_server.
func rdmaServer(ctx context.Context, c *iwarp.Conn) error {
	if err := recvAll(ctx, c, rdmaMessage); err != nil {
		return err
	}
	if err := sendAll(ctx, c, rdmaMessage); err != nil {
		return err
	}
	return c.Close()
}

// cmtimeClient opens n connections, and closes them only when all stand.
func cmtimeClient(ctx context.Context, n int, dial func(context.Context) (*iwarp.Conn, error)) error {
	conns := make([]*iwarp.Conn, 0, n)
	defer func() {
		for _, c := range conns {
			c.Abort()
		}
	}()
	for i := range n {
		c, err := dial(ctx)
		if err != nil {
			return fmt.Errorf("connection %d of %d: %w", i+1, n, err)
		}
		conns = append(conns, c)
	}
	for i, c := range conns {
		c.CloseWrite()
		if err := wantEnd(ctx, c); err != nil {
			return fmt.Errorf("end of connection %d of %d: %w", i+1, n, err)
		}
	}
	return nil
}

// cmtimeServer takes n connections and waits for the end of each; cmtime's
// client ends none of them before all stand.
func cmtimeServer(ctx context.Context, n int, ln *iwarp.Listener) error {
	conns := make([]*iwarp.Conn, 0, n)
	defer func() {
		for _, c := range conns {
			c.Abort()
		}
	}()
	for i := range n {
		c, err := ln.Accept(ctx)
		if err != nil {
			return fmt.Errorf("connection %d of %d: %w", i+1, n, err)
		}
		conns = append(conns, c)
	}
	for i, c := range conns {
		if err := wantEnd(ctx, c); err != nil {
			return fmt.Errorf("end of connection %d of %d: %w", i+1, n, err)
		}
	}
	return nil
}
