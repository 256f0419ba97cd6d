package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/internal/tcpsock"
)

// The baseline's shape, which is the fastest that plain TCP of Go was found to do.
const (
	baselineSegments = 16        // of a write
	baselineRead     = 256 << 10 // octets
	baselineBuffer   = 64 << 10  // octets, where it writes messages
	tcpSource        = 2 << 20   // octets to write from, at least
)

// tcpLink is the baseline: the same octets over plain TCP.
type tcpLink struct {
	spec  benchSpec
	conns []*tcpConn
	src   []byte // of all, where they are many
}

type tcpConn struct {
	spec *benchSpec
	nc   *net.TCPConn
	sock *tcpsock.Socket
	src  []byte
	dst  []byte
	buf  *bufio.Writer // where it writes messages
	n    atomic.Uint64 // octets sent and received, and messages
	took []int64
}

func newTCPLink(spec benchSpec) *tcpLink {
	l := &tcpLink{spec: spec, conns: make([]*tcpConn, spec.Conns)}
	if spec.many() {
		l.src = make([]byte, max(spec.Size, tcpSource))
	}
	return l
}

func (l *tcpLink) add(_ context.Context, i int, nc net.Conn) error {
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		return fmt.Errorf("a %T is no TCP connection", nc)
	}
	c := &tcpConn{spec: &l.spec, nc: tc}
	if l.spec.Buffered {
		room := baselineBuffer
		if l.spec.many() { // as iWARP, which has no more under way than that
			room = min(room, max(l.spec.Depth*l.spec.Size, 1))
		}
		c.buf = bufio.NewWriterSize(tc, room)
	}
	c.sock, _ = tcpsock.NewSocket(tc)
	l.conns[i] = c
	if l.spec.Lat {
		c.src, _ = l.spec.memory(l.spec.Size)
		c.dst, _ = l.spec.memory(l.spec.Size)
		return nil
	}
	// Messages above 1 MiB come from as much memory, and go to as much: their
	// octets are not in a cache then, and would not be with any protocol.
	if c.src = l.src; c.src == nil {
		c.src, _ = l.spec.memory(max(l.spec.Size, tcpSource))
	}
	room := baselineRead
	if l.spec.many() {
		room = min(room, manyRead/l.spec.Conns)
	}
	if l.spec.Size > 1<<20 {
		room = l.spec.Size
	}
	c.dst, _ = l.spec.memory(room)
	return nil
}

func (l *tcpLink) regions() []iwarp.RemoteBuffer        { return nil }
func (l *tcpLink) connected([]iwarp.RemoteBuffer) error { return nil }
func (l *tcpLink) counts() (linkCounts, bool)           { return linkCounts{}, false }

func (l *tcpLink) moved() (n uint64) {
	for _, c := range l.conns {
		n += c.n.Load()
	}
	return n
}

func (l *tcpLink) progress(to []uint64) {
	for i, c := range l.conns {
		to[i] = c.n.Load()
	}
}

func (l *tcpLink) times() []int64 {
	return all(l.conns, func(c *tcpConn) []int64 { return c.took })
}

func (l *tcpLink) ord() int    { return 0 }
func (l *tcpLink) mulpdu() int { return 0 }
func (l *tcpLink) huge() bool  { return false }

func (l *tcpLink) close() {
	for _, c := range l.conns {
		if c != nil {
			_ = c.nc.Close()
		}
	}
}

func (l *tcpLink) run(ctx context.Context, count uint64, active bool) error {
	for _, c := range l.conns {
		_ = c.nc.SetDeadline(time.Time{})
	}
	stop := context.AfterFunc(ctx, func() {
		for _, c := range l.conns {
			_ = c.nc.SetDeadline(time.Unix(1, 0))
		}
	})
	defer stop()
	return each(ctx, len(l.conns), func(_ context.Context, i int) error {
		c := l.conns[i]
		if l.spec.Lat {
			return c.pingPong(ctx, count, active)
		}
		total := int64(count) * int64(l.spec.Size)
		sends := active != l.spec.Op.asks()
		if !l.spec.Bidi {
			if sends {
				return c.send(total)
			}
			return c.receive(total)
		}
		var wg sync.WaitGroup
		var err error
		wg.Go(func() { err = c.receive(total) })
		serr := c.send(total)
		wg.Wait()
		if serr != nil {
			return serr
		}
		return err
	})
}

// piece is the length of a write: whole segments.
func (c *tcpConn) piece() int {
	mss := 1448
	if c.sock != nil {
		if n, err := c.sock.MSS(); err == nil {
			mss = n
		}
	}
	return baselineSegments * mss
}

func (c *tcpConn) send(total int64) error {
	if c.buf != nil {
		for ; total > 0; total -= int64(c.spec.Size) {
			if _, err := c.buf.Write(c.src[:c.spec.Size]); err != nil {
				return err
			}
			c.n.Add(1)
		}
		return c.buf.Flush()
	}
	piece, at := c.piece(), 0
	for total > 0 {
		if c.spec.Size <= 1<<20 {
			at = 0 // from the same memory each time
		} else if at == len(c.src) {
			at = 0
		}
		n, err := c.nc.Write(c.src[at:][:min(int64(piece), int64(len(c.src)-at), total)])
		if err != nil {
			return err
		}
		at += n
		total -= int64(n)
		c.n.Add(uint64(n))
	}
	return nil
}

func (c *tcpConn) receive(total int64) error {
	at := 0
	for total > 0 {
		if at == len(c.dst) {
			at = 0
		}
		room := min(int64(baselineRead), int64(len(c.dst)-at), total)
		n, err := c.nc.Read(c.dst[at:][:room])
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if c.spec.Size > 1<<20 {
			at += n
		}
		total -= int64(n)
		c.n.Add(uint64(n))
	}
	return nil
}

func (c *tcpConn) pingPong(ctx context.Context, count uint64, active bool) error {
	read := func() error {
		_, err := io.ReadFull(c.nc, c.dst)
		return err
	}
	if c.spec.Progress.spins() {
		rc, err := c.nc.SyscallConn()
		if err != nil {
			return err
		}
		read = func() error { return tcpsock.SpinRead(ctx, rc, c.dst) }
	}
	c.took = c.took[:0]
	last := time.Now()
	for range count {
		if !active {
			if err := read(); err != nil {
				return err
			}
		}
		if _, err := c.nc.Write(c.src); err != nil {
			return err
		}
		c.n.Add(1)
		if active {
			if err := read(); err != nil {
				return err
			}
			now := time.Now()
			c.took = append(c.took, int64(now.Sub(last)))
			last = now
		}
	}
	return nil
}
