package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/go-iwarp/iwarp/stream"
)

// bridge passes on octets between a stream and a TCP connection.
type bridge struct {
	*server
	dial func(ctx context.Context) (net.Conn, error)
}

func (b *bridge) pass(ctx context.Context, l *link, nc net.Conn) error {
	to, err := b.dial(ctx)
	if err != nil {
		reset(nc)
		return fmt.Errorf("connecting to %v: %w", b.to, err)
	}
	b.connected(l)
	return join(ctx, l, nc, to)
}

// join passes on what two connections send, and closes them when both have ended. An error of one, or the end of ctx,
// resets both, so that nobody takes the end for one in good order.
func join(ctx context.Context, l *link, peer, to net.Conn) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		reset(peer)
		reset(to)
	})
	var wg sync.WaitGroup
	for _, way := range []struct {
		from, to net.Conn
		octets   *atomic.Int64
	}{{peer, to, &l.sent}, {to, peer, &l.received}} {
		wg.Go(func() {
			err := pump(way.to, way.from, way.octets)
			if err == nil {
				err = way.to.(halfCloser).CloseWrite()
			}
			if err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if stop() {
		_ = to.Close()
		_ = peer.Close()
		return nil
	}
	return cause(ctx)
}

// cause is why a link has ended.
func cause(ctx context.Context) error {
	if err := context.Cause(ctx); err != context.Canceled { //nolint:errorlint // that of this very context
		return err
	}
	return errStopped
}

// halfCloser is what both kinds of connection are.
type halfCloser interface{ CloseWrite() error }

// pump passes on octets until from ends, and counts them.
func pump(to, from net.Conn, octets *atomic.Int64) error {
	if s, ok := to.(*stream.Conn); ok { // which reads as much as it sends best
		_, err := s.ReadFrom(countedReader{from, octets})
		return err
	}
	// A stream writes from where its peer has written.
	_, err := from.(io.WriterTo).WriteTo(countedWriter{to, octets})
	return err
}

// countedReader counts what is read.
type countedReader struct {
	io.Reader
	octets *atomic.Int64
}

func (c countedReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.octets.Add(int64(n))
	return n, err
}

// countedWriter counts what is written.
type countedWriter struct {
	io.Writer
	octets *atomic.Int64
}

func (c countedWriter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.octets.Add(int64(n))
	return n, err
}
