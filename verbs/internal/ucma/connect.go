package ucma

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
	"github.com/go-iwarp/iwarp/verbs/internal/uverbs"
)

// connectPatience bounds a connect or an accept.
const connectPatience = 30 * time.Second

// refusedPatience is how long a refused connect is tried again. Programs that begin a
// moment before their peer listens, as perftest does, are used to networks where a
// connect takes milliseconds; perftest crashes in its own retry.
const (
	refusedPatience = 300 * time.Millisecond
	refusedPause    = 5 * time.Millisecond
)

// resolve finds the address of this machine for a destination.
func (i *id) resolve(src, dst []byte) unix.Errno {
	d, ok := sockaddr(dst)
	if !ok {
		return unix.EAFNOSUPPORT // AF_IB: librdmacm does without then
	}
	s, _ := sockaddr(src)
	i.mu.Lock()
	if s.IsValid() && !i.src.IsValid() {
		i.src = s
	}
	i.dst = d
	known := i.src.IsValid() && !i.src.Addr().IsUnspecified()
	i.mu.Unlock()
	go func() {
		if !known {
			// A datagram socket knows the route, and sends nothing.
			c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(d))
			if err != nil {
				i.post(&event{id: i.handle, kind: uabi.EventAddrError, status: errnoOf(err, unix.ENETUNREACH)})
				return
			}
			l, _ := c.LocalAddr().(*net.UDPAddr)
			_ = c.Close()
			i.mu.Lock()
			i.src = netip.AddrPortFrom(l.AddrPort().Addr().Unmap(), i.src.Port())
			i.mu.Unlock()
		}
		i.mu.Lock()
		i.bound = true
		i.mu.Unlock()
		i.post(&event{id: i.handle, kind: uabi.EventAddrResolved})
	}()
	return 0
}

func errnoOf(err error, otherwise unix.Errno) unix.Errno {
	var e unix.Errno
	if errors.As(err, &e) {
		return e
	}
	return otherwise
}

// config is what a connect or an accept asks for.
func config(p *uabi.ConnParam, root *iwarp.QP) *iwarp.Config {
	depth := func(v uint8) int {
		if v == 0 {
			return iwarp.NoReads
		}
		return int(v)
	}
	return &iwarp.Config{
		QP: root, PrivateData: append([]byte(nil), p.PrivateData[:p.PrivateLen]...),
		IRD: depth(p.ResponderResources), ORD: depth(p.InitiatorDepth),
	}
}

func (i *id) connect(cmd *uabi.CMConnectCmd, _ *request) unix.Errno {
	q := i.m.dev.QP(cmd.Param.QPN)
	if q == nil {
		return unix.EINVAL
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.dst.IsValid() || i.cancel != nil {
		return unix.EINVAL
	}
	root, e := q.Connect(i.peerEnded)
	if e != 0 {
		return e
	}
	cfg := config(&cmd.Param, root)
	nd := &net.Dialer{}
	if i.sock != nil { // a port that the program has bound
		_ = i.sock.Close()
		i.sock = nil
		nd.LocalAddr = net.TCPAddrFromAddrPort(i.src)
		nd.Control = reuseAddr
	} else if i.src.IsValid() && !i.src.Addr().IsUnspecified() {
		nd.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(i.src.Addr(), 0))
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectPatience)
	i.cancel = cancel
	dst := i.dst.String()
	mine, before := i.m.dials.next()
	go func() {
		defer cancel()
		c, err := dialInTurn(ctx, nd, dst, cfg, mine, before)
		if err != nil {
			i.m.logger.Debug("connect", "error", err)
			q.Unconnected()
			i.post(i.failure(err))
			return
		}
		i.established(c, q)
	}()
	return 0
}

// dialInTurn connects. TCP connects in the order of rdma_connect: perftest relies on the
// peer's requests coming in that order.
func dialInTurn(
	ctx context.Context,
	nd *net.Dialer,
	dst string,
	cfg *iwarp.Config,
	mine, before chan struct{},
) (*iwarp.Conn, error) {
	var once sync.Once
	done := func() { once.Do(func() { close(mine) }) }
	defer done()
	if before != nil {
		t := time.NewTimer(time.Second)
		select {
		case <-before:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
	start := time.Now()
	for {
		nc, err := nd.DialContext(ctx, "tcp", dst)
		if errors.Is(err, unix.ECONNREFUSED) && time.Since(start) < refusedPatience && ctx.Err() == nil {
			time.Sleep(refusedPause)
			continue
		}
		done()
		if err != nil {
			return nil, err
		}
		return iwarp.Client(ctx, nc, cfg)
	}
}

// turns says who is next.
type turns struct {
	mu   sync.Mutex
	last chan struct{}
}

// next returns a channel to close when it is the turn of those behind, and that of the
// one before, nil if there is none.
func (t *turns) next() (mine, before chan struct{}) {
	mine = make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	before, t.last = t.last, mine
	return mine, before
}

// failure is the event for a connect that has failed, as the kernel chooses it.
func (i *id) failure(err error) *event {
	ev := &event{id: i.handle, kind: uabi.EventConnectError, status: unix.ECONNRESET}
	var rejected *iwarp.RejectError
	switch {
	case errors.As(err, &rejected):
		ev.kind, ev.status, ev.private = uabi.EventRejected, unix.ECONNREFUSED, rejected.PrivateData
	case errors.Is(err, unix.ECONNREFUSED):
		ev.kind, ev.status = uabi.EventRejected, unix.ECONNREFUSED
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, unix.ETIMEDOUT):
		ev.kind, ev.status = uabi.EventUnreachable, unix.ETIMEDOUT
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		ev.kind, ev.status = uabi.EventUnreachable, errnoOf(err, unix.EHOSTUNREACH)
	}
	return ev
}

// established is the common end of connect and accept.
func (i *id) established(c *iwarp.Conn, q *uverbs.QP) {
	i.mu.Lock()
	i.conn = c
	i.src = addrPort(c.LocalAddr())
	ended := i.ended
	i.mu.Unlock()
	st := c.ConnectionState()
	ev := &event{id: i.handle, kind: uabi.EventEstablished, ird: st.IRD, ord: st.ORD, qpn: q.QPN()}
	if st.Initiator {
		ev.private = st.PrivateData
	}
	q.Established(c)
	i.post(ev)
	if ended { // the peer was quick
		i.post(&event{id: i.handle, kind: uabi.EventDisconnected})
	}
	if ended || i.dead.Load() {
		_ = c.Close()
	}
}

// disconnectPatience bounds how long the event of the peer's end waits for what this end
// has posted.
const disconnectPatience = time.Second

// peerEnded is called when no message comes any more: the peer's FIN, or an error.
func (i *id) peerEnded(error) {
	i.mu.Lock()
	c, was := i.conn, i.ended
	i.ended = true
	i.mu.Unlock()
	if c == nil || was {
		return
	}
	c.CloseWrite()
	t := time.NewTimer(disconnectPatience)
	select {
	case <-c.Drained():
	case <-t.C:
	}
	t.Stop()
	i.post(&event{id: i.handle, kind: uabi.EventDisconnected})
	_ = c.Close()
}

func (i *id) disconnect(*uabi.CMDisconnectCmd, *request) unix.Errno {
	i.mu.Lock()
	c := i.conn
	i.mu.Unlock()
	if c == nil {
		return unix.EINVAL
	}
	go func() { _ = c.Close() }()
	return 0
}
