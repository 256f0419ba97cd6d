package sctp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	pion "github.com/pion/sctp"

	"github.com/go-iwarp/iwarp"
)

// Association is an SCTP association that carries DDP streams, each of them an
// [iwarp.Conn] of its own: see [Associate]. All methods may be called from any goroutine.
type Association struct {
	cfg     *Config
	a       lower
	ends    ends // where the association runs
	segment int  // the size of the largest DDP segment that was ever told
	streams int  // that may be opened from here
	dialed  bool // by this end
	single  bool // it ends with its one session
	done    chan struct{}

	mu       sync.Mutex
	sessions map[*session]struct{}
	free     []uint16
	settling int           // streams whose session has ended just now
	settled  chan struct{} // closed and made anew when one of them has settled
	next     int           // the lowest identifier that has had no session
	closed   bool
	idle     *time.Timer
	listener host // nil: sessions of the peer's are refused
}

// ends are the addresses of an association.
type ends interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// host is a listener, as its associations know it.
type host interface {
	offer(s *session) bool // hands a session to the program, unless too many wait for it
	answered(s *session)   // it does not wait any more
	ended(a *Association)  // the association is over
}

// socketBuffer is what the socket of UDP may keep: as much of it as the system allows.
const socketBuffer = 4 << 20

// closePatience bounds what the end of an association waits for.
const closePatience = 2 * time.Second

// ErrOtherUse says that the peer's association is not one for DDP: its Adaptation Layer
// Indication is another, or it has none
// (https://www.rfc-editor.org/rfc/rfc5043#section-11.1).
var ErrOtherUse = errors.New("iwarp: sctp: the peer's Adaptation Layer Indication is not that of DDP " +
	"[RFC 5043 section 11.1]")

// ErrNoStream says that an association has no stream left for another session.
var ErrNoStream = errors.New("iwarp: sctp: all streams of the association are in use")

// Associate makes an SCTP association with address. network is "udp", "udp4" or "udp6" for SCTP in
// user space, over UDP (RFC 6951), and "sctp", "sctp4" or "sctp6" for SCTP of the kernel: see
// [Dial]. It blocks until the association stands or ctx ends. cfg may be nil.
func Associate(ctx context.Context, network, address string, cfg *Config) (*Association, error) {
	if ofKernel(network) {
		c, err := cfg.withDefaults()
		if err != nil {
			return nil, err
		}
		return associateKernel(ctx, network, address, c, false)
	}
	var d net.Dialer
	nc, err := dialUDP(ctx, &d, network, address)
	if err != nil {
		return nil, err
	}
	return AssociateOver(ctx, nc, cfg)
}

func dialUDP(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
	switch network {
	case "udp", "udp4", "udp6":
		nc, err := d.DialContext(ctx, network, address)
		if u, ok := nc.(*net.UDPConn); ok && err == nil {
			_ = u.SetReadBuffer(socketBuffer)
		}
		return nc, err
	}
	return nil, net.UnknownNetworkError(network)
}

// AssociateOver is Associate over any conn that keeps the boundaries of what is written to
// it, such as a connected UDP socket, DTLS or a tunnel. The association owns nc, and closes
// it on error.
func AssociateOver(ctx context.Context, nc net.Conn, cfg *Config) (*Association, error) {
	if nc == nil {
		return nil, fmt.Errorf("iwarp: sctp: the net.Conn is nil: %w", os.ErrInvalid)
	}
	c, err := cfg.withDefaults()
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	return associate(ctx, nc, c, false)
}

func associate(ctx context.Context, nc net.Conn, c *Config, single bool) (*Association, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	below := newAdapted(nc, c.Indication, uint16(c.Streams), func() { cancel(ErrOtherUse) })
	a := newAssociation(below, c)
	a.dialed, a.single = true, single
	opts := a.options(below)
	client := make([]pion.ClientOption, len(opts))
	for i, o := range opts {
		client[i] = o
	}
	pa, err := pion.ClientContext(ctx, client...)
	if err != nil {
		_ = nc.Close()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("iwarp: sctp: no association with %v: %w", nc.RemoteAddr(), err)
	}
	a.stands(below, pa)
	go a.acceptStreams()
	return a, nil
}

func newAssociation(at ends, c *Config) *Association {
	return &Association{
		cfg: c, ends: at, streams: c.Streams, done: make(chan struct{}),
		sessions: make(map[*session]struct{}), settled: make(chan struct{}),
	}
}

// options are those of the SCTP below: packets as DATA chunks, which RFC 5043 knows, and
// not as I-DATA; and no message that has to be fragmented.
func (a *Association) options(nc *adapted) []pion.AssociationOption {
	mtu := a.cfg.mtu(nc.LocalAddr())
	a.segment = segmentMax(mtu)
	return []pion.AssociationOption{
		pion.WithNetConn(nc), pion.WithMTU(uint32(mtu)), pion.WithEnableInterleaving(false),
		pion.WithMaxReceiveBufferSize(uint32(a.cfg.ReceiveBuffer)), pion.WithLoggerFactory(silent{}),
	}
}

// stands notes that the handshake is over.
func (a *Association) stands(nc *adapted, below *pion.Association) {
	nc.up.Store(true)
	a.a = pionLower{below, a.segment}
}

// acceptStreams takes the streams on which the peer begins, until the association ends.
func (a *Association) acceptStreams() {
	for {
		s, err := a.a.accept()
		if err != nil {
			break
		}
		go a.watch(s)
	}
	// Rule: SCTP-11.3-02
	close(a.done) // the readers of all streams have been woken
	a.mu.Lock()
	a.closed = true
	if a.idle != nil {
		a.idle.Stop()
	}
	a.mu.Unlock()
	_ = a.a.close()
	if a.listener != nil {
		a.listener.ended(a)
	}
}

// watch waits for the sessions that the peer opens on a stream, one after the other.
func (a *Association) watch(below lowerStream) {
	for {
		s := newSession(a, below)
		ppid, b, err := s.read(context.Background())
		if err != nil {
			return
		}
		switch err := s.opening(ppid, b); {
		case err != nil, !a.admit(s):
			_ = s.Close()
		default:
			<-s.gone
		}
		if !a.settle(s) {
			a.drain(below)
			return
		}
	}
}

// settle waits a little for what is under way of a session that has ended, and reports
// whether its stream may have another one.
func (a *Association) settle(s *session) bool {
	for pause := time.Millisecond; pause < time.Second; pause *= 2 {
		if s.reusable() {
			return true
		}
		if !s.over.Load() {
			return false
		}
		select {
		case <-time.After(pause):
		case <-a.done:
			return false
		}
	}
	return false
}

// drain throws away what comes on a stream that is not used any more, so that it does not
// fill the receive queue of the others.
func (a *Association) drain(below lowerStream) {
	buf := make([]byte, readLen)
	for {
		below.setReadDeadline(time.Time{})
		_, _, err := below.read(buf)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, io.ErrShortBuffer) {
			return
		}
	}
}

// admit hands a session that the peer has opened to the listener, if there is room.
func (a *Association) admit(s *session) bool {
	a.mu.Lock()
	l := a.listener
	ok := l != nil && !a.closed
	if ok {
		a.sessions[s] = struct{}{}
		if a.idle != nil {
			a.idle.Stop()
		}
	}
	a.mu.Unlock()
	return ok && l.offer(s)
}

// answered notes that a session does not wait for the program any more.
func (a *Association) answered(s *session) {
	if a.listener != nil {
		a.listener.answered(s)
	}
}

// left notes that a session has ended.
func (a *Association) left(s *session, abort bool) {
	a.mu.Lock()
	delete(a.sessions, s)
	last := len(a.sessions) == 0
	if last && a.listener != nil && !a.closed {
		a.waitIdle()
	}
	a.mu.Unlock()
	if a.single {
		if abort {
			a.abort("aborted by the program")
		}
		_ = a.Close()
		return
	}
	if !a.dialed {
		return // watch does the rest
	}
	a.mu.Lock()
	a.settling++
	a.mu.Unlock()
	go a.giveBack(s)
}

// giveBack makes the stream of a session that has ended free, or takes it out of use.
func (a *Association) giveBack(s *session) {
	again := a.settle(s)
	a.mu.Lock()
	a.settling--
	if again {
		a.free = append(a.free, s.below.id())
	}
	close(a.settled)
	a.settled = make(chan struct{})
	a.mu.Unlock()
	if !again {
		a.drain(s.below)
	}
}

// waitIdle ends the association if no session comes soon. The association is locked.
func (a *Association) waitIdle() {
	if a.idle == nil {
		a.idle = time.AfterFunc(a.cfg.IdleTimeout, func() { _ = a.Close() })
		return
	}
	a.idle.Reset(a.cfg.IdleTimeout)
}

// Dial opens another DDP stream of the association, and starts iWARP on it as the initiator:
// what [Dial] does on an association of its own. It blocks until then or until ctx ends.
func (a *Association) Dial(ctx context.Context, cfg *iwarp.Config) (*iwarp.Conn, error) {
	c, err := a.dial(ctx, cfg)
	if retry := unenhanced(cfg, err); retry != nil {
		return a.dial(ctx, retry)
	}
	return c, err
}

func (a *Association) dial(ctx context.Context, cfg *iwarp.Config) (*iwarp.Conn, error) {
	s, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	return iwarp.ClientLLP(ctx, s, cfg)
}

// open opens a stream, and waits for those that are about to be free.
func (a *Association) open(ctx context.Context) (*session, error) {
	for {
		s, settled, err := a.tryOpen()
		if settled == nil {
			return s, err
		}
		select {
		case <-settled:
		case <-a.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryOpen opens a stream, if one is free. Otherwise settled is closed when it is worth another try.
func (a *Association) tryOpen() (s *session, settled <-chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var id uint16
	switch n := len(a.free); {
	case a.closed:
		return nil, nil, fmt.Errorf("iwarp: sctp: association: %w", net.ErrClosed)
	case n > 0:
		id, a.free = a.free[n-1], a.free[:n-1]
	case a.next < a.streams:
		id = uint16(a.next)
		a.next++
	case a.settling > 0:
		return nil, a.settled, nil
	default:
		return nil, nil, ErrNoStream
	}
	below, err := a.a.open(id)
	if err != nil {
		return nil, nil, err
	}
	s = newSession(a, below)
	a.sessions[s] = struct{}{}
	return s, nil, nil
}

// LocalAddr returns this end's address. There is one: the SCTP below knows no more.
//
// Rule: SCTP-7.2-01, SCTP-7.2-03
func (a *Association) LocalAddr() net.Addr { return a.ends.LocalAddr() }

// RemoteAddr returns the peer's address.
func (a *Association) RemoteAddr() net.Addr { return a.ends.RemoteAddr() }

// Done is closed when the association has ended. Its connections have ended then, too, those
// that were not over with an error.
func (a *Association) Done() <-chan struct{} { return a.done }

// Close ends the association gracefully: what its streams have sent still arrives, as long
// as the peer takes it within seconds. Close its connections first, or they fail.
func (a *Association) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	err := a.a.shutdown(ctx)
	_ = a.a.close()
	<-a.done
	return err
}

// Abort ends the association and all its connections at once.
func (a *Association) Abort() {
	a.abort("aborted by the program")
	_ = a.a.close()
	<-a.done
}

func (a *Association) abort(why string) {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.a.abort(why)
}
