package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

// iwarpLink is one end of the connections that are measured.
type iwarpLink struct {
	spec      benchSpec
	cfg       *iwarp.Config
	initiator bool
	pd        *iwarp.PD
	conns     []*iwarpConn
}

// iwarpConn is one of them: an event loop around one completion queue does
// whatever this end has to do.
type iwarpConn struct {
	spec *benchSpec
	conn *iwarp.Conn
	qp   *iwarp.QP
	cq   *iwarp.CQ
	mr   *iwarp.MR

	work  []iwarp.SendWR // Depth operations, ready to be posted
	per   int            // work requests of an operation
	recvs []iwarp.RecvWR // as many as may be posted
	comps []iwarp.Completion
	took  []int64
	moves atomic.Uint64 // operations and messages that are complete, of all samples
	huge  bool          // the messages lie in huge pages

	credits  int // messages that the other end has receives for
	received int // messages since it was last given credit

	sample
}

// sample is the state of the one under way.
type sample struct {
	mine, posted, done uint64 // operations of this end
	got                uint64 // messages of the other end
	control            int    // own control messages under way
	ended              bool   // the other end has said that it is through
}

// The control messages are Immediate Data.
const (
	immEnd    = 1 // all operations of this sample are before this
	immCredit = 2 // half of the receives are posted again
)

// immReserve is how many receives are set aside for control messages.
const immReserve = 16

// idControl is the work request ID of control messages.
const idControl = 1

func newIWARPLink(spec benchSpec, cfg *iwarp.Config, initiator bool) (*iwarpLink, error) {
	pd, err := cfg.Device.NewPD()
	if err != nil {
		return nil, err
	}
	return &iwarpLink{spec: spec, cfg: cfg, initiator: initiator, pd: pd, conns: make([]*iwarpConn, spec.Conns)}, nil
}

func (l *iwarpLink) add(ctx context.Context, i int, nc net.Conn) error {
	c, err := l.newConn()
	l.conns[i] = c // also half of one is closed with the link
	if err != nil {
		return errors.Join(err, nc.Close())
	}
	cfg := l.cfg.Clone()
	cfg.QP, cfg.Progress = c.qp, iwarp.Progress(l.spec.Progress)
	if l.initiator {
		c.conn, err = iwarp.Client(ctx, nc, cfg)
	} else {
		c.conn, err = iwarp.Server(ctx, nc, cfg)
	}
	return err
}

func (l *iwarpLink) newConn() (*iwarpConn, error) {
	s := &l.spec
	sends, receives := s.queues()
	c := &iwarpConn{spec: s, per: 1, comps: make([]iwarp.Completion, min(sends+receives, 256))}
	if s.Op == opNotify {
		c.per = 2
	}
	c.credits = receives - immReserve
	var err error
	if c.cq, err = l.cfg.Device.NewCQ(sends + receives); err != nil {
		return c, err
	}
	if c.qp, err = l.pd.NewQP(&iwarp.QPConfig{
		SendCQ: c.cq, RecvCQ: c.cq, SendDepth: sends, RecvDepth: receives,
	}); err != nil {
		return c, err
	}
	src, hugeSrc := s.memory(s.Size)
	dst, hugeDst := s.memory(s.Size)
	c.huge = hugeSrc && hugeDst
	if c.mr, err = l.pd.NewMR(dst, iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic, nil); err != nil {
		return c, err
	}
	c.prepare(src, dst, receives)
	return c, c.qp.PostRecv(c.recvs...)
}

// prepare makes the work requests once: they are posted again and again.
func (c *iwarpConn) prepare(src, dst []byte, receives int) {
	sg := [][]byte{src}
	for range c.spec.Depth {
		switch c.spec.Op {
		case opRead:
			c.work = append(c.work, iwarp.SendWR{Op: iwarp.OpRead, SG: sg})
		case opAtomic:
			c.work = append(c.work, iwarp.SendWR{Op: iwarp.OpFetchAdd, Operand: 1})
		case opSend:
			c.work = append(c.work, iwarp.SendWR{Op: iwarp.OpSend, SG: sg})
		case opNotify:
			c.work = append(c.work, iwarp.SendWR{Op: iwarp.OpWrite, SG: sg, Unsignaled: true},
				iwarp.SendWR{Op: iwarp.OpSend})
		default:
			c.work = append(c.work, iwarp.SendWR{Op: iwarp.OpWrite, SG: sg})
		}
	}
	// All messages may go to the same memory: nobody looks at it.
	rsg := [][]byte{dst}
	if c.spec.Op != opSend {
		rsg = nil
	}
	for range receives {
		c.recvs = append(c.recvs, iwarp.RecvWR{SG: rsg})
	}
}

func (l *iwarpLink) regions() []iwarp.RemoteBuffer {
	var list []iwarp.RemoteBuffer
	for _, c := range l.conns {
		list = append(list, c.mr.Remote())
	}
	return list
}

func (l *iwarpLink) connected(regions []iwarp.RemoteBuffer) error {
	if len(regions) != len(l.conns) {
		return fmt.Errorf("%s for %s", ui.Plural(len(regions), "region"), ui.Plural(len(l.conns), "connection"))
	}
	for i, c := range l.conns {
		for j := range c.work {
			c.work[j].Remote = regions[i]
		}
	}
	return nil
}

func (l *iwarpLink) counts() (n linkCounts, ok bool) {
	for _, c := range l.conns {
		s := c.conn.Stats().MPA
		n.calls += s.SystemCalls
		n.fpdus += s.FPDUsSent
		n.aligned += s.FPDUsAligned
	}
	return n, true
}

func (l *iwarpLink) moved() (n uint64) {
	for _, c := range l.conns {
		s := c.conn.Stats().MPA
		n += s.OctetsSent + s.OctetsReceived
	}
	return n
}

func (l *iwarpLink) progress(to []uint64) {
	for i, c := range l.conns {
		to[i] = c.moves.Load()
	}
}

func (l *iwarpLink) times() []int64 {
	return all(l.conns, func(c *iwarpConn) []int64 { return c.took })
}

func (l *iwarpLink) ord() int    { return l.conns[0].conn.ConnectionState().ORD }
func (l *iwarpLink) mulpdu() int { return l.conns[0].conn.Stats().MULPDU }
func (l *iwarpLink) huge() bool  { return l.conns[0].huge }

func (l *iwarpLink) close() {
	for _, c := range l.conns {
		if c == nil {
			continue
		}
		if c.qp != nil {
			_ = c.qp.Close() // aborts its connection
		}
		if c.mr != nil {
			c.mr.Close()
		}
		if c.cq != nil {
			c.cq.Close()
		}
	}
	_ = l.pd.Close()
}

func (l *iwarpLink) run(ctx context.Context, count uint64, active bool) error {
	return each(ctx, len(l.conns), func(ctx context.Context, i int) error {
		c := l.conns[i]
		switch {
		case l.spec.Lat && !l.spec.Op.asks():
			return c.pingPong(ctx, count, active)
		case l.spec.Lat && active:
			return c.readOneByOne(ctx, count)
		}
		return c.stream(ctx, count, active)
	})
}

// stream does a sample of bandwidth: it keeps Depth operations under way until all
// are done, and waits for the end of the other end's.
func (c *iwarpConn) stream(ctx context.Context, count uint64, active bool) error {
	c.sample = sample{ended: active && !c.spec.Bidi}
	if active || c.spec.Bidi {
		c.mine = count
	}
	sendEnd := c.mine > 0
	for {
		if err := c.post(); err != nil {
			return err
		}
		if sendEnd && c.posted == c.mine {
			sendEnd = false
			if err := c.tell(immEnd); err != nil {
				return err
			}
		}
		if c.done == c.mine && c.control == 0 && c.ended && !sendEnd {
			return nil
		}
		if err := c.wait(ctx); err != nil {
			return err
		}
	}
}

// post posts as many operations as may be under way.
func (c *iwarpConn) post() error {
	n := min(c.mine-c.posted, uint64(c.spec.Depth)-(c.posted-c.done))
	if c.spec.Op == opSend || c.spec.Op == opNotify {
		n = min(n, uint64(c.credits))
		c.credits -= int(n)
	}
	if n == 0 {
		return nil
	}
	c.posted += n
	return c.qp.PostSend(c.work[:int(n)*c.per]...)
}

func (c *iwarpConn) tell(what uint64) error {
	c.control++
	return c.qp.PostSend(iwarp.SendWR{ID: idControl, Op: iwarp.OpImmediate, Immediate: what})
}

// wait takes the completions that are there, at least one, and gives receives back.
func (c *iwarpConn) wait(ctx context.Context) error {
	n, err := c.cq.Wait(ctx, c.comps)
	if err != nil {
		return err
	}
	c.moves.Add(uint64(n))
	again := 0
	for i := range c.comps[:n] {
		comp := &c.comps[i]
		if comp.Err != nil {
			return comp.Err
		}
		switch {
		case comp.Op == iwarp.OpRecv:
			c.got++
			c.received++
			again++
		case comp.Op == iwarp.OpRecvImmediate:
			again++
			if comp.Immediate == immEnd {
				c.ended = true
			} else {
				c.credits += c.half()
			}
		case comp.ID == idControl:
			c.control--
		default:
			c.done++
		}
	}
	if again == 0 {
		return nil
	}
	if err := c.qp.PostRecv(c.recvs[:again]...); err != nil {
		return err
	}
	for !c.spec.Lat && c.half() > 0 && c.received >= c.half() {
		c.received -= c.half()
		if err := c.tell(immCredit); err != nil {
			return err
		}
	}
	return nil
}

// half is how many receives make up a credit.
func (c *iwarpConn) half() int { return (len(c.recvs) - immReserve) / 2 }

// pingPong sends a message there and one back, count times.
func (c *iwarpConn) pingPong(ctx context.Context, count uint64, active bool) error {
	c.sample = sample{}
	c.took = c.took[:0]
	c.work[len(c.work)-1].Unsignaled = true
	last := time.Now()
	for i := range count {
		if active {
			if err := c.qp.PostSend(c.work...); err != nil {
				return err
			}
		}
		for c.got <= i {
			if err := c.wait(ctx); err != nil {
				return err
			}
		}
		if active {
			now := time.Now()
			c.took = append(c.took, int64(now.Sub(last)))
			last = now
		} else if err := c.qp.PostSend(c.work...); err != nil {
			return err
		}
	}
	return nil
}

// readOneByOne reads count times, and tells the other end when it is through.
func (c *iwarpConn) readOneByOne(ctx context.Context, count uint64) error {
	c.sample = sample{}
	c.took = c.took[:0]
	last := time.Now()
	for i := range count {
		if err := c.qp.PostSend(c.work...); err != nil {
			return err
		}
		for c.done <= i {
			if err := c.wait(ctx); err != nil {
				return err
			}
		}
		now := time.Now()
		c.took = append(c.took, int64(now.Sub(last)))
		last = now
	}
	if err := c.tell(immEnd); err != nil {
		return err
	}
	for c.control > 0 {
		if err := c.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
