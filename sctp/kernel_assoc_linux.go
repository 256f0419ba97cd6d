package sctp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp"
)

// kernelLower is an association of the kernel's. One goroutine receives for all streams, another one
// sends what the kernel had no room for.
type kernelLower struct {
	s             *socket
	most          int // octets in the queues of received messages
	local, remote net.Addr
	ended         chan struct{} // the receiver is over

	mu      sync.Mutex
	changed sync.Cond // of mu: messages have come, or were taken
	err     error     // the association is over
	streams map[uint16]*kernelStream
	began   []*kernelStream // by the peer; nobody has accepted them
	waiting int             // octets that wait for their readers
	free    bool            // nobody reads any more: what comes is thrown away
	size    atomic.Int64    // of the largest DDP segment

	sendMu  sync.Mutex
	room    sync.Cond // of sendMu: there is something to send, or an end
	queue   []outgoing
	sent    uint64 // octets that the kernel has taken
	sendErr error
}

// outgoing is a message that the kernel has no room for.
type outgoing struct {
	stream *kernelStream
	ppid   uint32
	b      []byte
}

// kernelStream is a stream of an association of the kernel's.
type kernelStream struct {
	k       *kernelLower
	ident   uint16
	ours    bool   // opened from this end
	segment []byte // control messages for sending, by PPID
	control []byte

	in   []incomingMessage // under k.mu
	stop bool              // the deadline has passed

	low    uint64 // under k.sendMu
	fn     func()
	inUser uint64 // octets in k.queue
	end    uint64 // k.sent after the last message
}

type incomingMessage struct {
	ppid uint32
	b    []byte
	long bool // longer than readLen
}

var (
	errEnded = errors.New("the association has ended")
	errAnew  = errors.New("the peer has begun the association anew")
)

// newKernel takes over a socket whose association stands, and finds out what the peer is.
func newKernel(s *socket, c *Config) (k *kernelLower, streams int, err error) {
	k = &kernelLower{s: s, most: c.ReceiveBuffer, ended: make(chan struct{}), streams: make(map[uint16]*kernelStream)}
	k.changed.L, k.room.L = &k.mu, &k.sendMu
	_ = s.f.SetReadDeadline(time.Now().Add(kernelPatience))
	streams, code, err := s.greeting()
	if err != nil {
		return nil, 0, err
	}
	// Rule: SCTP-7.1-02, SCTP-11.1-01, SCTP-11.1-02
	if code != int64(c.Indication) {
		return nil, 0, ErrOtherUse
	}
	_ = s.f.SetReadDeadline(time.Time{})
	err = s.control(func(fd int) error {
		most, err := unix.GetsockoptInt(fd, unix.IPPROTO_SCTP, optMaxSegment)
		k.size.Store(int64(segmentOf(most)))
		k.local, k.remote = addrOf(unix.Getsockname(fd)), addrOf(unix.Getpeername(fd))
		return os.NewSyscallError("getsockopt SCTP_MAXSEG", err)
	})
	if err != nil {
		return nil, 0, err
	}
	return k, min(streams, c.Streams), nil
}

// segmentOf is the size of the largest DDP segment for a message of at most so many octets.
//
// Rule: SCTP-9-01, SCTP-9-03
func segmentOf(message int) int {
	const acknowledgement = 20
	return max(MinSegment, (min(message-acknowledgement, readLen)&^3)-SegmentHeaderLen)
}

// greeting reads the notices that come first: how many streams there are, and the peer's Adaptation Layer
// Indication. Both are there at once, if they are.
func (s *socket) greeting() (streams int, code int64, err error) {
	b := make([]byte, 256)
	n, info, err := s.recv(b)
	if err != nil {
		return 0, 0, err
	}
	if n < 16 || !info.notice || half(b) != noticeAssociation || half(b[8:]) != associationUp {
		return 0, 0, fmt.Errorf("the association does not stand: %w", errEnded)
	}
	streams = int(min(half(b[12:]), half(b[14:])))
	code = noIndication
	err = s.control(func(fd int) error {
		// What is there is only looked at, since it may be a message.
		if n, _, flags, _, err := unix.Recvmsg(fd, b, nil, unix.MSG_PEEK); err != nil || flags&flagNotice == 0 ||
			n < 12 || half(b) != noticeAdaptation {
			return nil
		}
		_, _, err := recvmsg(fd, b)
		code = int64(full(b[8:]))
		return err
	})
	return streams, code, err
}

func (k *kernelLower) LocalAddr() net.Addr  { return k.local }
func (k *kernelLower) RemoteAddr() net.Addr { return k.remote }

func (k *kernelLower) start() {
	go k.receive()
	go k.send()
}

// receive takes in what comes, and gives it to its streams. It waits while their readers are behind.
func (k *kernelLower) receive() {
	defer close(k.ended)
	buf := make([]byte, readLen+1)
	have := 0
	for {
		k.mu.Lock()
		for k.waiting >= k.most && k.err == nil && !k.free {
			k.changed.Wait()
		}
		k.mu.Unlock()
		n, info, err := k.s.recv(buf[have:])
		switch {
		case err != nil:
			k.fail(err)
			return
		case n == 0 && !info.notice && !info.whole:
			k.fail(io.EOF)
			return
		case info.notice:
			if info.whole && n >= 10 && half(buf[have:]) == noticeAssociation {
				k.over(half(buf[have+8:]))
				return
			}
			continue
		case !info.whole:
			have = min(have+n, readLen) // of what is too long, the first octets are kept
			continue
		}
		k.deliver(info, buf[:have+n])
		have = 0
	}
}

// over ends the association after a notice.
func (k *kernelLower) over(state uint16) {
	switch state {
	case associationDone:
		k.fail(io.EOF)
	case associationAnew: // what was under way is lost
		k.s.abortive()
		k.fail(errAnew)
	default:
		k.fail(errEnded)
	}
}

func (k *kernelLower) deliver(info recvInfo, b []byte) {
	m := incomingMessage{ppid: info.ppid}
	if m.long = len(b) > readLen; !m.long {
		m.b = append([]byte(nil), b...)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.free {
		return
	}
	s := k.streams[info.stream]
	if s == nil {
		s = k.stream(info.stream)
		k.began = append(k.began, s)
	}
	s.in = append(s.in, m)
	k.waiting += m.cost()
	k.changed.Broadcast()
}

// cost is what a message counts in the receive queue: a bound for many empty ones, too.
func (m *incomingMessage) cost() int { return len(m.b) + 64 }

// stream makes a stream known. The association is locked.
func (k *kernelLower) stream(id uint16) *kernelStream {
	s := &kernelStream{
		k: k, ident: id, segment: sendInfo(id, PPIDSegment), control: sendInfo(id, PPIDControl),
	}
	k.streams[id] = s
	return s
}

// fail ends the association for all who wait.
func (k *kernelLower) fail(err error) {
	k.mu.Lock()
	if k.err == nil {
		k.err = err
	}
	k.changed.Broadcast()
	k.mu.Unlock()
	k.failSend(err)
}

func (k *kernelLower) failSend(err error) {
	k.sendMu.Lock()
	if k.sendErr == nil {
		k.sendErr = err
	}
	k.room.Broadcast()
	k.sendMu.Unlock()
}

// send gives the queue to the kernel.
func (k *kernelLower) send() {
	for {
		k.sendMu.Lock()
		for len(k.queue) == 0 && k.sendErr == nil {
			k.room.Wait()
		}
		err := k.sendErr
		k.sendMu.Unlock()
		if err == nil {
			err = wait(k.s.raw.Write, k.sendSome)
		}
		if err != nil {
			k.fail(err)
			return
		}
	}
}

// sendSome sends until the kernel has no room or the queue is empty.
func (k *kernelLower) sendSome(fd int) (err error) {
	var low []func()
	k.sendMu.Lock()
	for err == nil && len(k.queue) > 0 {
		o := k.queue[0]
		if err = k.sendOne(fd, o.stream, o.b, o.ppid); err != nil {
			break
		}
		k.queue[0] = outgoing{}
		k.queue = k.queue[1:]
		was := o.stream.inUser
		o.stream.inUser -= uint64(len(o.b))
		if was > o.stream.low && o.stream.inUser <= o.stream.low && o.stream.fn != nil {
			low = append(low, o.stream.fn)
		}
	}
	if len(k.queue) == 0 {
		k.queue = nil
		k.room.Broadcast()
	}
	k.sendMu.Unlock()
	for _, fn := range low {
		fn()
	}
	return err
}

func (k *kernelLower) sendOne(fd int, s *kernelStream, b []byte, ppid uint32) error {
	info := s.segment
	if ppid == PPIDControl {
		info = s.control
	}
	small, err := sendmsg(fd, b, info)
	if err != nil {
		return err
	}
	if small > 0 {
		k.size.Store(min(k.size.Load(), int64(segmentOf(small))))
	}
	k.sent += uint64(len(b))
	s.end = k.sent
	return nil
}

// accept implements lower.
func (k *kernelLower) accept() (lowerStream, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.began) == 0 {
		if k.err != nil {
			return nil, k.err
		}
		k.changed.Wait()
	}
	s := k.began[0]
	k.began = k.began[1:]
	return s, nil
}

// open implements lower.
func (k *kernelLower) open(id uint16) (lowerStream, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.err != nil:
		return nil, k.err
	case k.streams[id] == nil:
		s := k.stream(id)
		s.ours = true
		return s, nil
	case !k.streams[id].ours:
		return nil, fmt.Errorf("iwarp: sctp: the peer has begun on stream %d", id)
	}
	return k.streams[id], nil
}

// shutdown implements lower: the kernel sends SHUTDOWN when all is acknowledged, and the receiver ends when
// the peer has done so, too.
func (k *kernelLower) shutdown(ctx context.Context) error {
	k.mu.Lock()
	k.free = true
	k.changed.Broadcast()
	k.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { k.failSend(context.Cause(ctx)) })
	k.sendMu.Lock()
	for len(k.queue) > 0 && k.sendErr == nil {
		k.room.Wait()
	}
	k.sendMu.Unlock()
	stop()
	_ = k.s.control(func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
	select {
	case <-k.ended:
	case <-ctx.Done():
		k.s.abortive()
		return context.Cause(ctx)
	}
	return nil
}

// abort implements lower.
func (k *kernelLower) abort(string) {
	k.s.abortive()
	_ = k.close()
}

// close implements lower.
func (k *kernelLower) close() error {
	k.fail(net.ErrClosed)
	err := k.s.f.Close()
	<-k.ended
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

func (k *kernelLower) segment() int { return int(k.size.Load()) }

// highWater: beside these messages of 16 octets at least, the kernel has those of sendBuffer.
//
// Rule: SCTP-10-03
func (k *kernelLower) highWater() int { return 256 << 10 }

func (s *kernelStream) id() uint16 { return s.ident }

func (s *kernelStream) read(b []byte) (int, uint32, error) {
	k := s.k
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(s.in) == 0 {
		switch {
		case s.stop:
			return 0, 0, os.ErrDeadlineExceeded
		case k.err != nil:
			return 0, 0, k.err
		}
		k.changed.Wait()
	}
	m := s.in[0]
	s.in[0] = incomingMessage{}
	s.in = s.in[1:]
	k.waiting -= m.cost()
	k.changed.Broadcast()
	if m.long || len(m.b) > len(b) {
		return 0, m.ppid, io.ErrShortBuffer
	}
	return copy(b, m.b), m.ppid, nil
}

func (s *kernelStream) write(b []byte, ppid uint32) error {
	k := s.k
	k.sendMu.Lock()
	defer k.sendMu.Unlock()
	if k.sendErr != nil {
		return k.sendErr
	}
	if len(k.queue) == 0 {
		err := k.s.control(func(fd int) error { return k.sendOne(fd, s, b, ppid) })
		if !errors.Is(err, unix.EAGAIN) {
			return err
		}
	}
	k.queue = append(k.queue, outgoing{s, ppid, append([]byte(nil), b...)})
	s.inUser += uint64(len(b))
	k.room.Broadcast()
	return nil
}

func (s *kernelStream) setReadDeadline(t time.Time) {
	s.k.mu.Lock()
	s.stop = !t.IsZero() && !t.After(time.Now())
	s.k.changed.Broadcast()
	s.k.mu.Unlock()
}

func (s *kernelStream) queued() uint64 {
	s.k.sendMu.Lock()
	defer s.k.sendMu.Unlock()
	return s.inUser
}

// acknowledged implements lowerStream. The kernel keeps messages until all before them are acknowledged:
// so those of this stream are, if it keeps no more octets than were sent after them.
func (s *kernelStream) acknowledged() (ok bool) {
	k := s.k
	k.sendMu.Lock()
	defer k.sendMu.Unlock()
	if s.inUser > 0 {
		return false
	}
	err := k.s.control(func(fd int) error {
		kept, err := unacknowledged(fd)
		ok = uint64(kept) <= k.sent-s.end
		return err
	})
	return err == nil && ok
}

func (s *kernelStream) onLow(low uint64, fn func()) {
	s.k.sendMu.Lock()
	s.low, s.fn = low, fn
	s.k.sendMu.Unlock()
}

// associateKernel makes an association by the kernel's SCTP.
func associateKernel(ctx context.Context, network, address string, c *Config, single bool) (*Association, error) {
	all, err := resolve(ctx, network, address)
	if err != nil {
		return nil, err
	}
	for _, to := range all {
		var s *socket
		if s, err = newSocket(!to.Addr().Is4(), c); err != nil {
			return nil, err
		}
		if err = s.connect(ctx, sockaddr(to)); err == nil {
			return newKernelAssociation(s, c, nil, single)
		}
		_ = s.f.Close()
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("iwarp: sctp: no association with %s: %w", address, err)
}

// newKernelAssociation owns the socket, and closes it on error.
func newKernelAssociation(s *socket, c *Config, l *kernelListener, single bool) (*Association, error) {
	k, streams, err := newKernel(s, c)
	if err != nil {
		s.abortive()
		_ = s.f.Close()
		return nil, fmt.Errorf("iwarp: sctp: %w", err)
	}
	a := newAssociation(k, c)
	a.a, a.segment, a.streams, a.dialed, a.single = k, k.segment(), streams, l == nil, single
	if l != nil {
		a.listener = l
		if !l.add(a) {
			s.abortive()
			_ = s.f.Close()
			return nil, net.ErrClosed
		}
		a.mu.Lock()
		a.waitIdle()
		a.mu.Unlock()
	}
	k.start()
	go a.acceptStreams()
	return a, nil
}

// kernelListener is a listening socket with all its associations. It implements iwarp.LLPListener.
type kernelListener struct {
	*requests
	s    *socket
	cfg  *Config
	addr net.Addr

	mu     sync.Mutex
	shut   bool
	assocs map[*Association]struct{}
	fresh  int // whose greeting is to come
}

func listenKernel(network, address string, lc *iwarp.ListenConfig, c *Config) (*iwarp.Listener, error) {
	if lc == nil {
		lc = &iwarp.ListenConfig{}
	}
	all, err := resolve(context.Background(), network, address)
	if err != nil {
		return nil, err
	}
	s, err := newSocket(!all[0].Addr().Is4(), c)
	if err != nil {
		return nil, err
	}
	l := &kernelListener{requests: newRequests(lc), s: s, cfg: c, assocs: make(map[*Association]struct{})}
	err = s.control(func(fd int) error {
		// As with TCP: what an earlier listener's associations have left is not in the way.
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return os.NewSyscallError("setsockopt SO_REUSEADDR", err)
		}
		if err := unix.Bind(fd, sockaddr(all[0])); err != nil {
			return os.NewSyscallError("bind", err)
		}
		if err := unix.Listen(fd, c.MaxHalfOpen); err != nil {
			return os.NewSyscallError("listen", err)
		}
		l.addr = addrOf(unix.Getsockname(fd))
		return nil
	})
	if err != nil {
		_ = s.f.Close()
		return nil, err
	}
	il, err := lc.NewLLPListener(l)
	if err != nil {
		_ = s.f.Close()
		return nil, err
	}
	go l.acceptLoop()
	return il, nil
}

// acceptLoop takes the associations that the kernel has made.
func (l *kernelListener) acceptLoop() {
	for {
		var nfd int
		err := wait(l.s.raw.Read, func(fd int) (err error) {
			nfd, _, err = unix.Accept4(fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			if errors.Is(err, unix.ECONNABORTED) {
				return unix.EINTR
			}
			return err
		})
		switch {
		case err == nil:
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM),
			errors.Is(err, unix.ENOBUFS):
			select { // as long as others take their time to give some back
			case <-time.After(50 * time.Millisecond):
				continue
			case <-l.closed:
				return
			}
		default:
			_ = l.Close()
			return
		}
		s, err := wrap(nfd)
		if err != nil {
			continue
		}
		l.mu.Lock()
		full := l.shut || l.fresh >= l.cfg.MaxHalfOpen || len(l.assocs) >= l.cfg.MaxAssociations
		if !full {
			l.fresh++
		}
		l.mu.Unlock()
		if full {
			s.abortive()
			_ = s.f.Close()
			continue
		}
		go func() {
			_, _ = newKernelAssociation(s, l.cfg, l, false)
			l.mu.Lock()
			l.fresh--
			l.mu.Unlock()
		}()
	}
}

func (l *kernelListener) add(a *Association) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		return false
	}
	l.assocs[a] = struct{}{}
	return true
}

// ended implements host.
func (l *kernelListener) ended(a *Association) {
	l.mu.Lock()
	delete(l.assocs, a)
	l.mu.Unlock()
}

// Addr implements iwarp.LLPListener.
func (l *kernelListener) Addr() net.Addr { return l.addr }

// Close implements iwarp.LLPListener. Associations with sessions live on.
func (l *kernelListener) Close() error {
	l.mu.Lock()
	if l.shut {
		l.mu.Unlock()
		return net.ErrClosed
	}
	l.shut = true
	var idle []*Association
	for a := range l.assocs {
		if a.unused() {
			idle = append(idle, a)
		}
	}
	l.mu.Unlock()
	l.requests.close()
	err := l.s.f.Close()
	var wg sync.WaitGroup
	for _, a := range idle {
		wg.Go(func() { _ = a.Close() })
	}
	wg.Wait()
	return err
}
