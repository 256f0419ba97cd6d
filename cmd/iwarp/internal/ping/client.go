package ping

import (
	"context"
	"fmt"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

// pingClient is the client of rping's protocol.
type pingClient struct {
	out   *ui.Output
	count uint64 // 0: until interrupted
	size  int
	steps
	src, sink *iwarp.MR
	times     latencies
}

// clientSummary is the client's last line.
type clientSummary struct {
	Peer     string `json:"peer"`
	Verified bool   `json:"verified"`
	summary
	sentFPDUs
	want uint64
}

func (e clientSummary) EventKind() string { return "summary" }

func (e clientSummary) Text() string {
	n := ui.Plural(e.Iterations, "iteration")
	if e.want > 0 {
		n = fmt.Sprintf("%d of %s", e.Iterations, ui.Plural(e.want, "iteration"))
	}
	return fmt.Sprintf("%s verified, %s each way%s; %v", n, ui.Plural(e.Octets, "octet"), e.times(), e.sentFPDUs)
}

// run is a whole session.
func (p *pingClient) run(ctx context.Context, addr string, cfg *iwarp.Config, timeout time.Duration) error {
	dctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no connection within %v", timeout))
	defer cancel()
	conn, err := iwarp.Dial(dctx, "tcp", addr, cfg)
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("connecting to %s: interrupted", addr)
	case err != nil:
		return fmt.Errorf("connecting to %s: %w", addr, ui.CauseOf(dctx, err))
	}
	p.steps.conn, p.steps.timeout = conn, timeout
	defer conn.Abort() // no effect after a Close
	p.out.Emit(ui.NewConnectedEvent(conn))
	if err := p.register(); err != nil {
		return err
	}
	defer p.src.Close()
	defer p.sink.Close()
	err = p.iterate(ctx)
	if ctx.Err() != nil && p.count == 0 && p.times.n > 0 {
		err = nil // this is how it was to end
	}
	s := clientSummary{
		Peer: addr, Verified: err == nil, summary: p.times.summary(), want: p.count, sentFPDUs: sentBy(conn),
	}
	if err != nil {
		p.out.Emit(s)
		return err
	}
	if cerr := conn.Close(); cerr != nil { // all has come back: not a failure of the ping
		p.out.Note(fmt.Sprintf("%s: %v", addr, cerr))
	}
	p.out.Emit(s)
	return nil
}

// register makes the two regions. The peer has rights on them only while it is to
// use them.
func (p *pingClient) register() (err error) {
	if p.src, err = p.conn.NewMR(make([]byte, p.size), 0); err != nil {
		return err
	}
	if p.sink, err = p.conn.NewMR(make([]byte, p.size), 0); err != nil {
		p.src.Close()
	}
	return err
}

func (p *pingClient) iterate(ctx context.Context) error {
	for n := uint64(0); p.count == 0 || n < p.count; n++ {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted after %s", ui.Plural(n, "iteration"))
		}
		took, err := p.iteration(ctx, n)
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("interrupted in iteration %d", n+1)
		case err != nil:
			return fmt.Errorf("iteration %d: %w", n+1, err)
		}
		p.times.add(took, p.size)
		p.out.Emit(iterationEvent{Peer: p.conn.RemoteAddr().String(), Iteration: n + 1, Octets: p.size, Latency: took})
	}
	return nil
}

// untouched is what a sink is filled with; it occurs in no pattern.
const untouched = 0xff

// iteration sends the data there and back and verifies it. The time is that of
// the exchange alone.
func (p *pingClient) iteration(ctx context.Context, n uint64) (time.Duration, error) {
	src, sink := p.src.Bytes(), p.sink.Bytes()
	pattern(src, n)
	sink[0] = untouched
	repeat(sink, 1)
	start := time.Now()
	if err := p.lend(ctx, p.src, iwarp.RemoteRead, "source"); err != nil {
		return 0, err
	}
	if err := p.lend(ctx, p.sink, iwarp.RemoteWrite, "sink"); err != nil {
		return 0, err
	}
	took := time.Since(start)
	return took, ui.Compare(src, sink)
}

// lend gives the peer access to a region, tells it so, and takes the access back
// when the peer says that it is done.
func (p *pingClient) lend(ctx context.Context, mr *iwarp.MR, access iwarp.Access, name string) error {
	if err := mr.SetAccess(access); err != nil {
		return err
	}
	defer func() { _ = mr.SetAccess(0) }()
	a := advert{at: mr.Remote(), size: uint32(p.size)}
	if err := p.send("advert of the "+name, a); err != nil {
		return err
	}
	_, err := p.recv(ctx, "go-ahead after the "+name+"'s advert")
	return err
}
