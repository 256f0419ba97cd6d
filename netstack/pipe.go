package netstack

import (
	"context"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// PipeConfig says what happens to packets on their way through a [Pipe].
type PipeConfig struct {
	// MTU of both ends in octets; 0 means 1500.
	MTU int
	// Delay is how long each packet is under way.
	Delay time.Duration
	// Queue is how many packets wait at most in each direction; those beyond are lost.
	// 0 means 1 Ki.
	Queue int
	// Fate is asked about each packet, in the order of sending; nil lets all pass. to is
	// the end that it goes to: 0, the first of the two, or 1. Packets of one direction are
	// asked about by one goroutine. packet may be looked at and changed during the call.
	Fate func(to int, packet []byte) Fate
}

// Fate is what becomes of a packet.
type Fate struct {
	// Drop loses it.
	Drop bool
	// Behind lets so many packets pass that were sent after it.
	Behind int
}

// Pipe makes two links that lead to each other, in memory. Each belongs to the [Host] that
// it is given to, which closes it.
func Pipe(cfg PipeConfig) (a, b Link) {
	if cfg.MTU == 0 {
		cfg.MTU = 1500
	}
	if cfg.Queue == 0 {
		cfg.Queue = 1 << 10
	}
	x, y := newPipeEnd(&cfg), newPipeEnd(&cfg)
	x.carry(y, 1)
	y.carry(x, 0)
	return x, y
}

type pipeEnd struct {
	*channel.Endpoint
	cfg    *PipeConfig
	cancel context.CancelFunc
	ctx    context.Context
	wg     sync.WaitGroup
}

func newPipeEnd(cfg *PipeConfig) *pipeEnd {
	e := &pipeEnd{Endpoint: channel.New(cfg.Queue, uint32(cfg.MTU), ""), cfg: cfg}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Close implements stack.LinkEndpoint.
func (e *pipeEnd) Close() {
	e.cancel()
	e.wg.Wait()
	e.Endpoint.Close()
}

// packet is on its way.
type packet struct {
	data   []byte
	due    time.Time
	behind int
}

// carry takes packets from e to its peer.
func (e *pipeEnd) carry(peer *pipeEnd, to int) {
	queue := make(chan packet, e.cfg.Queue)
	e.wg.Go(func() {
		defer close(queue)
		for {
			pkt := e.ReadContext(e.ctx)
			if pkt == nil {
				return
			}
			v := pkt.ToView()
			p := packet{data: v.ToSlice()}
			v.Release()
			pkt.DecRef()
			if e.cfg.Delay > 0 {
				p.due = time.Now().Add(e.cfg.Delay)
			}
			var f Fate
			if e.cfg.Fate != nil {
				f = e.cfg.Fate(to, p.data)
			}
			if p.behind = f.Behind; f.Drop {
				continue
			}
			select {
			case queue <- p:
			case <-e.ctx.Done():
				return
			}
		}
	})
	e.wg.Go(func() {
		var late []packet
		for p := range queue {
			if wait := time.Until(p.due); e.cfg.Delay > 0 && wait > 0 {
				t := time.NewTimer(wait)
				select {
				case <-t.C:
				case <-e.ctx.Done():
					t.Stop()
				}
			}
			if p.behind > 0 {
				late = append(late, p)
				continue
			}
			peer.inject(p.data)
			kept := late[:0]
			for _, l := range late {
				if l.behind--; l.behind > 0 {
					kept = append(kept, l)
					continue
				}
				peer.inject(l.data)
			}
			late = kept
		}
	})
}

func (e *pipeEnd) inject(b []byte) {
	protocol := header.IPv4ProtocolNumber
	if header.IPVersion(b) == header.IPv6Version {
		protocol = header.IPv6ProtocolNumber
	}
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(b)})
	e.InjectInbound(protocol, pkt)
	pkt.DecRef()
}
