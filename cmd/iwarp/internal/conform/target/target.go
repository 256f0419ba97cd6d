// Package target is an endpoint for package conform to test: this module's stack
// with a program above it that shows as much of the stack as it can. It
// advertises regions of each kind of right, echoes messages, and makes Reads,
// Writes and atomics on demand. The protocol is in docs/conform.md; other stacks
// can be given the same program.
//
// Never let it be reached from a network that is not yours: its regions hold
// nothing, but it does what its peer says.
package target

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/advert"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/mpa"
)

// Receive buffers of each connection: how many and how large, in octets. They are
// small, so that the kit can overrun them.
const (
	RecvDepth = 16
	RecvSize  = 4096
)

// Target is the program. All its methods may be called from any goroutine.
type Target struct {
	cfg     *iwarp.Config
	foreign *iwarp.MR // of another protection domain
	// What all connections have in common: no peer may change them.
	foreignArea, large area

	mu    sync.Mutex
	mpa   mpa.Stats // of the connections that have ended: FPDUsSent and FPDUsAligned
	next  uint64
	known map[uint64]*memory
	order []uint64 // of known, the oldest first
}

// memory is what the regions of a connection are made of. It can be asked for
// after the connection's end.
type memory struct {
	done  <-chan struct{}
	areas []area
}

// area is a region's memory with a guard on either side.
type area struct {
	kind     byte
	all, buf []byte
	start    int // of buf in all
}

// guard is the size of either guard in octets, and guardOctet what they hold.
const guard, guardOctet = 64, 0xc3

// remember bounds the memories kept.
const remember = 512

// New makes a target. cfg may be nil; Device, PD, QP, RecvDepth, RecvSize and
// PrivateData in it are not used but for the device's policies.
func New(cfg *iwarp.Config) (*Target, error) {
	if cfg == nil {
		cfg = &iwarp.Config{}
	}
	cfg = cfg.Clone()
	cfg.PD, cfg.QP, cfg.RecvDepth, cfg.RecvSize, cfg.PrivateData = nil, nil, RecvDepth, RecvSize, nil
	if cfg.Device == nil {
		dev, err := iwarp.NewDevice(nil)
		if err != nil {
			return nil, err
		}
		cfg.Device = dev
	}
	if cfg.StartupTimeout == 0 {
		cfg.StartupTimeout = 3 * time.Second
	}
	if cfg.CloseTimeout == 0 {
		cfg.CloseTimeout = 2 * time.Second
	}
	pd, err := cfg.Device.NewPD()
	if err != nil {
		return nil, err
	}
	t := &Target{cfg: cfg, known: make(map[uint64]*memory)}
	t.foreignArea, t.large = newArea(advert.Foreign, regionSize, 0), newArea(advert.Large, largeSize, 0)
	t.foreign, err = pd.NewMR(t.foreignArea.buf, iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic, nil)
	return t, err
}

// Serve is the responder: it takes connections from ln until ctx ends, and then
// closes it. The error is the listener's.
func (t *Target) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		nc, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			cancel()
			return err
		}
		wg.Go(func() { t.respond(ctx, nc) })
	}
}

// Respond is the responder on one connection, until its end.
func (t *Target) Respond(ctx context.Context, nc net.Conn) { t.respond(ctx, nc) }

func (t *Target) respond(ctx context.Context, nc net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := iwarp.ServerRequest(ctx, nc, t.cfg)
	if err != nil {
		return // nc is closed
	}
	cfg := t.cfg.Clone()
	cfg.PrivateData = r.PrivateData()
	if cfg.MPA.Revision != 1 && r.Request().Revision == 1 {
		cfg.MPA.Revision = 1 // all 512 octets of Private Data
	}
	if string(cfg.PrivateData) == "reject" {
		if nc, err := r.Reject(ctx, cfg.PrivateData); err == nil {
			_ = nc.Close()
		}
		return
	}
	c, err := r.Accept(ctx, cfg)
	if err != nil {
		_ = r.Close()
		return
	}
	t.run(ctx, c)
}

// Connect is the initiator: it keeps so many connections that dial makes, each
// started again when it has ended, until ctx ends.
func (t *Target) Connect(ctx context.Context, dial func(context.Context) (net.Conn, error), parallel int) {
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for ctx.Err() == nil {
				t.initiate(ctx, dial)
			}
		})
	}
	wg.Wait()
}

func (t *Target) initiate(ctx context.Context, dial func(context.Context) (net.Conn, error)) {
	nc, err := dial(ctx)
	if err != nil {
		select { // nobody listens yet, or any more
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
		return
	}
	cfg := t.cfg.Clone()
	cfg.PrivateData = []byte("conform target")
	c, err := iwarp.Client(ctx, nc, cfg)
	var rejected *iwarp.RejectError
	if errors.As(err, &rejected) {
		_ = nc.Close()
	}
	if err == nil {
		t.run(ctx, c)
	}
}

// run is the life of a connection.
func (t *Target) run(ctx context.Context, c *iwarp.Conn) {
	stop := context.AfterFunc(ctx, c.Abort)
	defer stop()
	p := &program{t: t, c: c, ctx: ctx, id: t.number()}
	if p.start() == nil {
		for p.serve() == nil {
		}
	}
	_ = c.Close()
	t.count(c.Stats().MPA)
	for _, r := range p.regions {
		r.Close()
	}
}

func (t *Target) count(s mpa.Stats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mpa.FPDUsSent += s.FPDUsSent
	t.mpa.FPDUsAligned += s.FPDUsAligned
}

// FPDUs returns how many FPDUs the connections that have ended had sent, and how
// many of them lay whole in one TCP segment.
func (t *Target) FPDUs() (sent, aligned uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mpa.FPDUsSent, t.mpa.FPDUsAligned
}

func (t *Target) number() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	return t.next
}

func (t *Target) keep(id uint64, m *memory) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[id] = m
	if t.order = append(t.order, id); len(t.order) > remember {
		delete(t.known, t.order[0])
		t.order = t.order[1:]
	}
}

func (t *Target) memory(id uint64) *memory {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[id]
}

// regionSize and largeSize are the sizes of regions in octets.
const regionSize, largeSize = 4096, 256 << 10

func newArea(kind byte, size, shift int) area {
	a := area{kind: kind, all: make([]byte, guard+size+guard), start: guard + shift}
	for i := range a.all {
		a.all[i] = guardOctet
	}
	end := a.start + size
	a.buf = a.all[a.start:end:end]
	advert.Fill(kind, a.buf)
	return a
}

// sum is the CRC of the memory, or its inverse if a guard is broken.
func (a *area) sum() uint32 {
	sum := advert.Checksum(a.buf)
	for i, octet := range a.all {
		inside := i >= a.start && i < a.start+len(a.buf)
		if !inside && octet != guardOctet {
			return ^sum
		}
	}
	return sum
}

// program is the program on one connection.
type program struct {
	t       *Target
	c       *iwarp.Conn
	ctx     context.Context
	id      uint64
	regions []*iwarp.MR
	mem     memory
	buf     [RecvSize]byte
}

// kinds are the regions of a connection.
var kinds = [...]struct {
	kind   byte
	access iwarp.Access
	size   int
	base   uint64
	shift  int
	shared bool
}{
	{advert.All, iwarp.RemoteRead | iwarp.RemoteWrite | iwarp.RemoteAtomic, regionSize, 0x1000, 0, false},
	{advert.Read, iwarp.RemoteRead, regionSize, 0, 0, false},
	{advert.Write, iwarp.RemoteWrite, regionSize, 0x10000, 0, false},
	{advert.None, 0, regionSize, 0, 0, false},
	{advert.ReadWrite, iwarp.RemoteRead | iwarp.RemoteWrite, regionSize, 1<<32 - 2048, 0, false},
	{advert.Large, iwarp.RemoteRead, largeSize, 0x100000, 0, false},
	{advert.Gone, iwarp.RemoteRead | iwarp.RemoteWrite, regionSize, 0, 0, false},
	{advert.Shared, iwarp.RemoteRead | iwarp.RemoteWrite | iwarp.RemoteAtomic, regionSize, 0, 0, true},
	{advert.Victim, iwarp.RemoteRead | iwarp.RemoteWrite | iwarp.RemoteAtomic, regionSize, 0, 0, false},
	{
		advert.High, iwarp.RemoteRead | iwarp.RemoteWrite | iwarp.RemoteAtomic, regionSize,
		^uint64(0) - 2*regionSize + 1, 0, false,
	},
	{advert.Odd, iwarp.RemoteRead | iwarp.RemoteWrite, regionSize, 0, 1, false}, // no atomic could reach it: see NewMR
}

// start registers the regions and sends the advert.
func (p *program) start() error {
	pd := p.c.ConnectionState().PrivateData
	ad := advert.Advert{RecvDepth: RecvDepth, RecvSize: RecvSize, ID: p.id, PDLen: len(pd), PDCRC: advert.Checksum(pd)}
	entry := func(kind byte, at iwarp.RemoteBuffer, size int) {
		ad.Regions[kind] = advert.Region{Kind: kind, STag: uint32(at.STag), TO: at.TO, Size: uint32(size)}
	}
	p.mem.done = p.c.Done()
	for _, k := range kinds {
		a := p.t.large
		if k.kind != advert.Large {
			a = newArea(k.kind, k.size, k.shift)
		}
		opts := &iwarp.MROptions{QP: p.c.QP(), Base: k.base}
		if k.shared {
			opts.QP = nil
		}
		mr, err := p.c.PD().NewMR(a.buf, k.access, opts)
		if err != nil {
			return err
		}
		p.regions = append(p.regions, mr)
		p.mem.areas = append(p.mem.areas, a)
		entry(k.kind, mr.Remote(), k.size)
		if k.kind == advert.Gone {
			mr.Close()
		}
	}
	entry(advert.Foreign, p.t.foreign.Remote(), regionSize)
	p.mem.areas = append(p.mem.areas, p.t.foreignArea)
	p.t.keep(p.id, &p.mem)
	return p.c.Send(p.ctx, ad.AppendTo(nil))
}

var errDone = errors.New("target: done")

// serve does what the next message says.
func (p *program) serve() error {
	m, err := p.c.Recv(p.ctx, p.buf[:])
	if err != nil {
		return err
	}
	if m.Op == iwarp.OpRecvImmediate {
		return p.reply(m, 'i', binary.BigEndian.AppendUint64(nil, m.Immediate))
	}
	if m.Length == 0 {
		return nil // an RTR that was not taken as one, or nothing to do
	}
	op, args := p.buf[0], p.buf[1:m.Length]
	if op == 'E' {
		return p.reply(m, 'e', args)
	}
	do, ok := commands[op]
	if !ok || len(args) < do.args {
		return p.c.Send(p.ctx, fmt.Appendf(nil, "?unknown command %q with %d octets", op, len(args)))
	}
	answer, err := do.run(p, args)
	if err != nil {
		return err
	}
	return p.c.Send(p.ctx, append([]byte{op | 0x20}, answer...))
}

// reply tells how a message was delivered, and what was in it.
func (p *program) reply(m iwarp.Message, op byte, data []byte) error {
	b := []byte{op, 0}
	if m.Solicited {
		b[1] = 1
	}
	b = binary.BigEndian.AppendUint32(b, uint32(m.Invalidated))
	return p.c.Send(p.ctx, append(b, data...))
}
