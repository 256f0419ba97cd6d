package iwarptest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// RelayConfig says what a [Relay] does to what passes it. Its zero value passes everything on as fast as it can.
type RelayConfig struct {
	// Forward is the way from the end that connected to the relay to the end that the relay connected to, the
	// first and the second argument of [Relay.Join]; Back is the other way.
	Forward, Back RelayPath
	// Faults are what goes wrong on each connection, which counts its octets, writes and FPDUs from 0.
	Faults []RelayFault
	// OnFault, if not nil, is called whenever a fault happens, before its octets are passed on. It is called from
	// several goroutines and must not block.
	OnFault func(RelayFault)
}

// RelayPath is one direction of a [Relay], like a line of a given length and rate with a queue before it.
type RelayPath struct {
	// Delay is how long an octet is on its way; the round trip takes the delays of both directions.
	Delay time.Duration
	// Rate is the most that passes in octets a second; 0 means no limit. 1 Gbit/s is 125e6.
	Rate int64
	// Window is how many octets can be on their way: the relay reads no more while so many are, which bounds its
	// memory. 0 means Rate times the delay of a round trip, and 1 MiB more, but at most 64 MiB; without Rate, 64 MiB.
	Window int
}

// maxRelayWindow bounds the windows that are computed.
const maxRelayWindow = 64 << 20

// Relay stands between the two ends of TCP connections, delays and limits what they send, and injects faults. Each
// end's TCP ends at the relay: what is delayed is the octets, not TCP's own packets, so that neither end sees a longer
// round trip in its TCP. It needs no test: a program can use it. The methods can be called from any goroutine.
type Relay struct {
	cfg RelayConfig

	mu     sync.Mutex
	resume chan struct{} // closed and made anew by Resume
}

// NewRelay makes a relay; a nil cfg is the zero value. The error says which setting is wrong. It starts nothing.
func NewRelay(cfg *RelayConfig) (*Relay, error) {
	r := &Relay{resume: make(chan struct{})}
	if cfg != nil {
		r.cfg = *cfg
	}
	for i := range r.cfg.Faults {
		if err := r.cfg.Faults[i].check(); err != nil {
			return nil, fmt.Errorf("iwarptest: fault %d, %v: %w", i, r.cfg.Faults[i], err)
		}
	}
	round := r.cfg.Forward.Delay + r.cfg.Back.Delay
	for name, p := range map[string]*RelayPath{"Forward": &r.cfg.Forward, "Back": &r.cfg.Back} {
		if p.Delay < 0 || p.Rate < 0 || p.Window < 0 {
			return nil, fmt.Errorf("iwarptest: %s: delay %v, rate %d, window %d: none of them below 0", name, p.Delay,
				p.Rate, p.Window)
		}
		if p.Window == 0 {
			p.Window = maxRelayWindow
			if p.Rate > 0 {
				p.Window = int(min(float64(maxRelayWindow), float64(p.Rate)*round.Seconds()+1<<20))
			}
		}
	}
	return r, nil
}

// Resume ends the holds that have been reached, on all connections.
func (r *Relay) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.resume)
	r.resume = make(chan struct{})
}

func (r *Relay) resumed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.resume
}

// Serve passes on every connection that ln accepts, each to one that dial makes, until ctx ends or Accept fails for
// good. It closes ln and waits for all connections to end; when ctx ends they are reset. It returns nil when ctx
// has ended.
func (r *Relay) Serve(ctx context.Context, ln net.Listener, dial func(ctx context.Context) (net.Conn, error)) error {
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	defer ln.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		a, err := ln.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = a.Close()
			}
			return nil
		}
		if err != nil {
			return err
		}
		wg.Go(func() {
			b, err := dial(ctx)
			if err != nil {
				abort(a)
				return
			}
			_ = r.Join(ctx, a, b)
		})
	}
}

// Join passes on what the ends a and b send to each other until both directions have ended, and closes both. The FIN
// and the reset of an end are passed on too. A context that ends resets both. Join returns nil if both ends sent
// a FIN and everything was delivered, else why not: [ErrFault] where a fault ended the connection.
func (r *Relay) Join(ctx context.Context, a, b net.Conn) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// One that resets a connection closes both: whoever reads or writes then is woken.
	stop := context.AfterFunc(ctx, func() {
		abort(a)
		abort(b)
	})
	forward, back := newRelaySide(r, false), newRelaySide(r, true)
	forward.stream.other, back.stream.other = back.stream, forward.stream
	var wg sync.WaitGroup
	for _, s := range []struct {
		side     *relaySide
		from, to net.Conn
	}{{forward, a, b}, {back, b, a}} {
		wg.Go(func() {
			if err := s.side.read(ctx, s.from); err != nil {
				cancel(err)
			}
		})
		wg.Go(func() {
			if err := s.side.write(ctx, s.to); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if stop() {
		_ = a.Close()
		_ = b.Close()
		return nil
	}
	return context.Cause(ctx)
}

// ErrFault is what [Relay.Join] returns when a fault has ended the connection.
var ErrFault = errors.New("iwarptest: a fault ended the connection")

// abort resets a connection, or closes one that cannot be reset.
func abort(nc net.Conn) {
	_ = setLinger(nc, 0)
	_ = nc.Close()
}
