package iwarp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// logText is a log handler's output.
type logText struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logText) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// pipeListener accepts in-memory connections.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return iwarptest.Addr("listener") }

// dial connects a client to the listener, in memory.
func (l *pipeListener) dial(ctx context.Context, cfg *iwarp.Config) (*iwarp.Conn, error) {
	a, b := pipe(nil)
	select {
	case l.conns <- b:
	case <-l.done:
		return nil, net.ErrClosed
	}
	return iwarp.Client(ctx, a, cfg)
}

// answer is the usual loop of a server: it answers until Recv fails, and closes.
func answer(ctx context.Context, c *iwarp.Conn, answered *atomic.Int64) error {
	buf := make([]byte, 64)
	for {
		m, err := c.Recv(ctx, buf)
		if err != nil {
			return c.Close()
		}
		if err := c.Send(ctx, buf[:m.Length]); err != nil {
			return fmt.Errorf("a request that was received is not answered: %w", err)
		}
		answered.Add(1)
	}
}

// Every request that the server has received is answered, nothing is logged as failed, and
// all is over within the context: with many clients that are busy all the time.
func TestShutdownOfBusyClients(t *testing.T) {
	const clients = 1000
	synctest.Test(t, func(t *testing.T) {
		var log logText
		nl := newPipeListener()
		cfg := &iwarp.Config{Logger: log.logger(), RecvDepth: 4, SendDepth: 4, IRD: 1, ORD: 1}
		ln := must((&iwarp.ListenConfig{Config: cfg, MaxPending: clients}).NewListener(nl))(t)
		ctx := context.Background()
		var served sync.WaitGroup
		var answered, got, unanswered atomic.Int64
		served.Go(func() {
			for {
				c, err := ln.Accept(ctx)
				if err != nil {
					if !errors.Is(err, iwarp.ErrShutdown) || !errors.Is(err, net.ErrClosed) {
						t.Errorf("Accept: %v", err)
					}
					return
				}
				served.Go(func() {
					if err := answer(ctx, c, &answered); err != nil {
						t.Error(err)
					}
				})
			}
		})
		begun := make(chan struct{}, clients)
		var asked sync.WaitGroup
		for range clients {
			asked.Go(func() {
				c, err := nl.dial(ctx, cfg)
				if err != nil {
					t.Error(err)
					begun <- struct{}{}
					return
				}
				buf := make([]byte, 64)
				for i := 0; ; i++ {
					if err := c.Send(ctx, binary.BigEndian.AppendUint64(nil, uint64(i))); err != nil {
						t.Errorf("Send: %v", err)
					}
					_, err := c.Recv(ctx, buf)
					if errors.Is(err, io.EOF) {
						unanswered.Add(1)
						break
					}
					if err != nil {
						t.Errorf("Recv: %v", err)
						break
					}
					if got.Add(1); i == 2 {
						begun <- struct{}{}
					}
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		for range clients {
			<-begun
		}
		down, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		began := time.Now()
		check(t, "Shutdown", ln.Shutdown(down))
		if took := time.Since(began); took > time.Second {
			t.Errorf("Shutdown took %v of the bubble's time, though nobody had to be waited for", took)
		}
		asked.Wait()
		served.Wait()
		check(t, "Shutdown, again", ln.Shutdown(down))
		check(t, "Close", ln.Close())
		synctest.Wait()
		if answered.Load() != got.Load() || unanswered.Load() != clients {
			t.Errorf("%d requests were answered, %d answers arrived; %d clients had a last request without one, of %d",
				answered.Load(), got.Load(), unanswered.Load(), clients)
		}
		if s := log.String(); strings.Contains(s, "level=WARN") || strings.Contains(s, "level=ERROR") ||
			strings.Contains(s, "failed") {
			t.Errorf("something is logged as failed:\n%.2000s", s)
		}
	})
}

// What Shutdown does when its context ends: it aborts who is left, says so, and their
// connections know why.
func TestShutdownThatIsNotHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nl := newPipeListener()
		var log logText
		cfg := &iwarp.Config{Logger: log.logger()}
		ln := must(iwarp.NewListener(nl, cfg))(t)
		var client *iwarp.Conn
		go func() { client, _ = nl.dial(context.Background(), nil) }()
		c := must(ln.Accept(t.Context()))(t)
		synctest.Wait()
		asked := c.ShuttingDown()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the machine goes down"))
		defer cancel()
		began := time.Now()
		err := ln.Shutdown(ctx)
		if err == nil || !strings.Contains(err.Error(), "1 connections were aborted") ||
			!strings.Contains(err.Error(), "the machine goes down") {
			t.Errorf("Shutdown: %v", err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %v", took)
		}
		select {
		case <-asked:
		default:
			t.Error("the connection was not asked")
		}
		if !errors.Is(c.Err(), context.Cause(ctx)) || !errors.Is(context.Cause(c.Context()), context.Cause(ctx)) {
			t.Errorf("Err is %v", c.Err())
		}
		_, err = ln.AcceptRequest(t.Context())
		if !errors.Is(err, iwarp.ErrShutdown) {
			t.Errorf("AcceptRequest: %v", err)
		}
		client.Abort()
		synctest.Wait()
		if strings.Contains(log.String(), "WARN") {
			t.Errorf("an abort by the program is logged as a failure:\n%s", log.String())
		}
	})
}

// A Request that waits for the program, or that the program holds, is rejected.
func TestShutdownRejectsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nl := newPipeListener()
		ln := must(iwarp.NewListener(nl, nil))(t)
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := nl.dial(context.Background(), nil)
				errs <- err
			}()
		}
		held := must(ln.AcceptRequest(t.Context()))(t)
		synctest.Wait()
		check(t, "Shutdown", ln.Shutdown(t.Context()))
		if _, err := held.Accept(t.Context(), nil); !errors.Is(err, iwarp.ErrShutdown) {
			t.Errorf("Accept: %v", err)
		}
		for range 2 {
			var rejected *iwarp.RejectError
			if err := <-errs; !errors.As(err, &rejected) {
				t.Errorf("the client got: %v", err)
			}
		}
	})
}

// What has come before Shutdown is answered, what comes after it is dropped.
func TestShutdownAnswersWhatHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nl := newPipeListener()
		ln := must(iwarp.NewListener(nl, &iwarp.Config{RecvDepth: 4}))(t)
		var client *iwarp.Conn
		go func() { client, _ = nl.dial(context.Background(), &iwarp.Config{CloseWithPeer: true}) }()
		c := must(ln.Accept(t.Context()))(t)
		synctest.Wait()
		for i := range 3 {
			check(t, "Send", client.Send(t.Context(), []byte{byte(i)}))
		}
		synctest.Wait()
		over := make(chan error, 1)
		go func() { over <- ln.Shutdown(t.Context()) }()
		synctest.Wait()
		for i := range 100 { // more than the receives: they take none
			check(t, "Send", client.Send(t.Context(), bytes.Repeat([]byte{byte(100 + i)}, 1000)))
		}
		synctest.Wait()
		buf := make([]byte, 10)
		for i := range 3 {
			m, err := c.Recv(t.Context(), buf)
			if err != nil || m.Length != 1 || buf[0] != byte(i) {
				t.Fatalf("message %d: %v %v", i, buf[0], err)
			}
		}
		for range 2 {
			if _, err := c.Recv(t.Context(), buf); !errors.Is(err, iwarp.ErrShutdown) {
				t.Fatalf("Recv: %v", err)
			}
		}
		check(t, "Close", c.Close())
		check(t, "Shutdown", <-over)
		if client.Err() != nil || c.Err() != nil {
			t.Errorf("%v, %v", client.Err(), c.Err())
		}
		check(t, "Close", client.Close())
	})
}
