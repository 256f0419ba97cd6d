package ping

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

// pingServer is the server of rping's protocol.
type pingServer struct {
	out     *ui.Output
	cfg     *iwarp.Config
	startup *ui.StartupFlags
	live    ui.LiveFlag
	timeout time.Duration
	maxSize uint32
	slots   chan struct{} // one for each client at once

	memory          atomic.Int64 // octets of the clients' data
	mu              sync.Mutex
	times           latencies
	clients, failed uint64
}

// listeningEvent tells that clients can come.
type listeningEvent struct {
	Address string `json:"address"`
	MaxSize uint32 `json:"max_size"`
}

func (e listeningEvent) EventKind() string { return "listening" }

func (e listeningEvent) Text() string {
	return fmt.Sprintf("listening on %s, for up to %d octets an iteration; Ctrl-C ends it", e.Address, e.MaxSize)
}

// disconnectedEvent tells that a client has gone in good order.
type disconnectedEvent struct {
	Peer       string `json:"peer"`
	Iterations uint64 `json:"iterations"`
	Reason     string `json:"reason"`
	sentFPDUs
}

func (e disconnectedEvent) EventKind() string { return "disconnected" }

func (e disconnectedEvent) Text() string {
	return fmt.Sprintf("%s: ended after %s: %s; %v", e.Peer, ui.Plural(e.Iterations, "iteration"), e.Reason,
		e.sentFPDUs)
}

// serverSummary is the server's last line.
type serverSummary struct {
	Clients uint64 `json:"clients"`
	Failed  uint64 `json:"failed"`
	// StartupFailed counts connections that got no further than startup: no clients.
	StartupFailed uint64 `json:"startup_failed"`
	summary
}

func (e serverSummary) EventKind() string { return "summary" }

func (e serverSummary) Text() string {
	startup := ""
	if e.StartupFailed > 0 {
		startup = fmt.Sprintf("; %s failed at startup", ui.Plural(e.StartupFailed, "more connection"))
	}
	return fmt.Sprintf("served %s (%d failed), %s, %s each way%s%s", ui.Plural(e.Clients, "client"), e.Failed,
		ui.Plural(e.Iterations, "iteration"), ui.Plural(e.Octets, "octet"), e.times(), startup)
}

// run serves until ctx ends.
func (s *pingServer) run(ctx context.Context, addr string) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("--serve %s: %w", addr, err)
	}
	return s.serveOn(ctx, ln)
}

// serveOn serves the clients that come to nl until ctx ends, and closes it.
func (s *pingServer) serveOn(ctx context.Context, nl net.Listener) error {
	cfg := s.cfg.Clone()
	cfg.Logger = ui.StartupLog(s.out)
	ln, err := iwarp.NewListener(nl, cfg)
	if err != nil {
		_ = nl.Close()
		return err
	}
	unseen, err := s.live.Offer(s.out, cfg.Device)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer unseen()
	ctx, cancel := context.WithCancel(ctx)
	s.out.Emit(listeningEvent{Address: ln.Addr().String(), MaxSize: s.maxSize})
	s.startup.Announce(s.out) // after the line that a script waits for
	var wg sync.WaitGroup
	err = s.accept(ctx, ln, &wg)
	cancel()
	_ = ln.Close()
	wg.Wait()
	s.out.Emit(serverSummary{
		Clients: s.clients, Failed: s.failed, StartupFailed: ln.Stats().Failed, summary: s.times.summary(),
	})
	return err
}

// accept takes clients until ctx ends. One has a place as soon as its Request has come,
// and not for a TCP connection alone.
func (s *pingServer) accept(ctx context.Context, ln *iwarp.Listener, wg *sync.WaitGroup) error {
	for {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		r, err := ln.AcceptRequest(ctx)
		if err != nil {
			<-s.slots
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("taking clients: %w", err)
		}
		wg.Go(func() {
			s.client(ctx, r)
			<-s.slots
		})
	}
}

// client is the life of one connection.
func (s *pingServer) client(ctx context.Context, r *iwarp.ConnRequest) {
	peer := r.RemoteAddr().String()
	conn, err := r.Accept(ctx, nil)
	if err != nil {
		_ = r.Close()
		s.ended(ctx, peer, disconnectedEvent{}, fmt.Errorf("startup: %w", err))
		return
	}
	s.out.Emit(ui.NewConnectedEvent(conn))
	n, reason, err := s.serve(ctx, conn)
	s.ended(ctx, peer, disconnectedEvent{Iterations: n, Reason: reason, sentFPDUs: sentBy(conn)}, err)
	_ = conn.Close() // what becomes of it is the client's business
}

// serve serves one client: how many iterations it had, and how it ended.
func (s *pingServer) serve(ctx context.Context, conn *iwarp.Conn) (n uint64, reason string, err error) {
	peer := conn.RemoteAddr().String()
	c := &servedClient{steps: steps{conn: conn, timeout: s.timeout}, maxSize: s.maxSize, grant: s.grant}
	defer func() { s.memory.Add(-int64(cap(c.buf))) }()
	for {
		took, err := c.iteration(ctx)
		if err != nil {
			reason, err = c.ending(n, err)
			return n, reason, err
		}
		n++
		s.mu.Lock()
		s.times.add(took, len(c.buf))
		s.mu.Unlock()
		s.out.Emit(iterationEvent{Peer: peer, Iteration: n, Octets: len(c.buf), Latency: took, server: true})
	}
}

// ended tells how a connection ended, and counts it.
func (s *pingServer) ended(ctx context.Context, peer string, end disconnectedEvent, err error) {
	if ctx.Err() != nil {
		end.Reason, err = "the server was told to stop", nil
	}
	s.mu.Lock()
	s.clients++
	if err != nil {
		s.failed++
	}
	s.mu.Unlock()
	if err != nil {
		e := ui.NewErrorEvent(err)
		e.Peer = peer
		s.out.Emit(e)
		return
	}
	end.Peer = peer
	s.out.Emit(end)
}

// maxFull is how many clients with data of the largest size the server has memory for
// at once.
const maxFull = 16

// grant lets a client take so many octets more.
func (s *pingServer) grant(more int) error {
	most := maxFull * int64(s.maxSize)
	if now := s.memory.Add(int64(more)); now > most {
		s.memory.Add(-int64(more))
		return fmt.Errorf("the data of all clients would take more than %s here: %d times --max-size", ui.Amount(most),
			maxFull)
	}
	return nil
}

// servedClient is the server's side of one connection.
type servedClient struct {
	steps
	maxSize uint32
	grant   func(more int) error // nil: there is enough
	buf     []byte               // what was read in this iteration; its capacity is kept
	between bool                 // no iteration is under way
}

// iteration serves one iteration. The time begins with the client's first advert.
func (c *servedClient) iteration(ctx context.Context) (time.Duration, error) {
	c.between = true
	src, err := c.recv(ctx, "advert of a source")
	if err != nil {
		return 0, err
	}
	c.between = false
	start := time.Now()
	if src.size < 1 || src.size > c.maxSize {
		return 0, fmt.Errorf("the client advertises a source of %d octets: from 1 to %d are served (--max-size)",
			src.size, c.maxSize)
	}
	if err := c.read(ctx, src); err != nil {
		return 0, err
	}
	sink, err := c.recv(ctx, "advert of a sink")
	if err != nil {
		return 0, err
	}
	if sink.size < 1 || sink.size > c.maxSize {
		return 0, fmt.Errorf("the client advertises a sink of %d octets: from 1 to %d are served (--max-size)",
			sink.size, c.maxSize)
	}
	if err := c.write(ctx, sink); err != nil {
		return 0, err
	}
	return time.Since(start), nil
}

// onTrust is how much memory a client gets for nothing but its word.
const onTrust = 1 << 20

// read fetches the source and says so. The buffer grows as octets come, not by what
// the client says that it has, so that memory costs it as much to take as to give.
func (c *servedClient) read(ctx context.Context, src advert) error {
	size := int(src.size)
	for done := 0; done < size; done = len(c.buf) {
		if err := c.resize(done, min(size, max(cap(c.buf), 2*done, onTrust))); err != nil {
			return err
		}
		if err := c.readPart(ctx, c.buf[done:], src.at.STag, src.at.TO+uint64(done)); err != nil {
			return err
		}
	}
	return c.send("go-ahead after the Read", advert{})
}

// resize makes the buffer n octets long and keeps the first ones.
func (c *servedClient) resize(keep, n int) error {
	if more := n - cap(c.buf); more > 0 {
		if c.grant != nil {
			if err := c.grant(more); err != nil {
				return err
			}
		}
		old := c.buf[:keep]
		if keep == 0 {
			old, c.buf = nil, nil // the collector may have it first
		}
		c.buf = make([]byte, n)
		copy(c.buf, old)
	}
	c.buf = c.buf[:n]
	return nil
}

func (c *servedClient) readPart(ctx context.Context, p []byte, stag iwarp.STag, to uint64) error {
	ctx, cancel := c.within(ctx, "answer to the RDMA Read")
	defer cancel()
	if err := c.conn.RDMARead(ctx, p, iwarp.RemoteBuffer{STag: stag, TO: to}); err != nil {
		return fmt.Errorf("RDMA Read of %d octets at STag %v, Tagged Offset %d: %w", len(p), stag, to, err)
	}
	return nil
}

// write writes what was read into the sink, at most as much as that holds, and
// says so.
func (c *servedClient) write(ctx context.Context, sink advert) error {
	wctx, cancel := c.within(ctx, "progress of the RDMA Write")
	defer cancel()
	data := c.buf[:min(len(c.buf), int(sink.size))]
	if err := c.conn.RDMAWrite(wctx, data, sink.at); err != nil {
		return fmt.Errorf("RDMA Write of %d octets to STag %v, Tagged Offset %d: %w", len(data), sink.at.STag,
			sink.at.TO, err)
	}
	return c.send("go-ahead after the Write", advert{})
}

// ending tells a good end from a bad one. Between iterations a client may close,
// and an rping may also end with a Terminate, when its kernel tears down the queue
// pair: neither is an error.
func (c *servedClient) ending(n uint64, err error) (string, error) {
	if !c.between {
		return "", err
	}
	if errors.Is(err, io.EOF) {
		return "the client closed", nil
	}
	var perr *iwarp.ProtocolError
	if n > 0 && errors.As(err, &perr) && perr.Remote && perr.Offender == nil {
		return fmt.Sprintf("the client sent a Terminate, %v", perr.Code), nil
	}
	return "", err
}
