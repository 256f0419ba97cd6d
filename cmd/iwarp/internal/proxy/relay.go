package proxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/go-iwarp/iwarp/iwarptest"
)

// relay passes on connections between two iWARP ends, with faults.
type relay struct {
	*server
	wire wire
}

func (r *relay) pass(ctx context.Context, l *link, nc net.Conn) error {
	to, err := r.dialTCP(ctx)
	if err != nil {
		reset(nc)
		return fmt.Errorf("connecting to %v: %w", r.to, err)
	}
	told := map[iwarptest.RelayFault]bool{}
	var mu sync.Mutex // of told
	line, err := iwarptest.NewRelay(&iwarptest.RelayConfig{
		Forward: r.wire.initiator, Back: r.wire.responder, Faults: r.wire.faults,
		OnFault: func(f iwarptest.RelayFault) {
			l.faults.Add(1)
			if f.Kind != iwarptest.RelayCorrupt {
				f.Mask = 0 // the relay has set it
			}
			mu.Lock()
			first := !told[f]
			told[f] = true
			mu.Unlock()
			if first {
				r.out.Emit(faultEvent{Connection: l.number, Fault: r.wire.texts[f], peer: l.peer})
			}
		},
	})
	if err != nil {
		reset(nc)
		reset(to)
		return err
	}
	r.connected(l)
	if r.wrap != nil {
		nc, to = r.wrap(nc), r.wrap(to)
	}
	err = line.Join(ctx, counted{nc, &l.sent}, counted{to, &l.received})
	if ctx.Err() != nil {
		return errStopped
	}
	return err
}

// counted counts what is read from a connection of TCP, or of TCP that is recorded.
type counted struct {
	net.Conn
	octets *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.octets.Add(int64(n))
	return n, err
}

// CloseWrite sends a FIN.
func (c counted) CloseWrite() error { return c.Conn.(halfCloser).CloseWrite() }

// SetLinger makes Close a reset, with 0.
func (c counted) SetLinger(sec int) error {
	return c.Conn.(interface{ SetLinger(sec int) error }).SetLinger(sec)
}
