package capture

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Options are those of a [Recorder]. Nil, and zero in a field, mean the
// documented default.
type Options struct {
	// MSS is the most octets of a TCP segment that a Write is cut into, 1 to 65475.
	// Default 1460.
	MSS int
	// Buffer is the most octets of the recording that wait for the writer below, or
	// with Lossless about that many. Default 64 MiB.
	Buffer int
	// Lossless makes the traffic wait when Buffer is full. Default: packets are
	// left out.
	Lossless bool
}

// Defaults of [Options].
const (
	DefaultMSS    = 1460
	DefaultBuffer = 64 << 20
)

// maxMSS leaves room for the headers in the length field of either IP version.
const maxMSS = 1<<16 - 1 - ipv6Len - tcpLen

// Recorder records the traffic of connections of this program as a pcapng capture
// with the link type [LinkRaw]. All methods may be called from any goroutine. It
// has one goroutine until Close.
type Recorder struct {
	w   io.Writer
	opt Options

	mu      sync.Mutex
	cond    sync.Cond // pending, closed or err have changed
	pending []byte    // whole blocks
	writing int       // octets that the goroutine is writing
	closed  bool
	err     error
	packets uint64 // all, those left out too
	dropped uint64
	conns   uint32           // wrapped so far
	flows   map[pair]*flow   // open ones over IP
	done    chan struct{}    // closed when the goroutine has ended
	now     func() time.Time // for tests
}

// pair is the addresses of a connection, as one end sees them.
type pair struct{ local, remote netip.AddrPort }

func (p pair) swap() pair { return pair{p.remote, p.local} }

// NewRecorder starts a recording to w, a file as a rule. Only the Recorder's own
// goroutine writes to w, whole blocks of pcapng at a time, soon after the traffic.
// The caller closes w after the Recorder.
func NewRecorder(w io.Writer, opts *Options) (*Recorder, error) {
	r := &Recorder{w: w, flows: map[pair]*flow{}, done: make(chan struct{}), now: time.Now}
	if opts != nil {
		r.opt = *opts
	}
	if r.opt.MSS == 0 {
		r.opt.MSS = DefaultMSS
	}
	if r.opt.Buffer == 0 {
		r.opt.Buffer = DefaultBuffer
	}
	if r.opt.MSS < 1 || r.opt.MSS > maxMSS {
		return nil, fmt.Errorf("capture: Options.MSS is %d: between 1 and %d", r.opt.MSS, maxMSS)
	}
	if r.opt.Buffer < 0 {
		return nil, fmt.Errorf("capture: Options.Buffer is %d: it cannot be negative", r.opt.Buffer)
	}
	r.cond.L = &r.mu
	r.pending = appendHeader(nil, LinkRaw)
	go r.run()
	return r, nil
}

// Conn wraps nc: what goes over it is recorded from now on. The connection that it
// gives behaves as nc does. It has CloseWrite, SetLinger and Abort, with
// [errors.ErrUnsupported] where nc has nothing of the kind, and NetConn gives nc.
//
// The first octets of either direction are preceded by a TCP handshake; the end
// from which they come is taken for the one that dialed, which is right for MPA.
//
// Both ends of a connection over IP may be wrapped by one Recorder, as in a test
// over loopback. Each direction is then recorded once, as its sender wrote it.
// They must be wrapped before octets flow.
//
// Octets are recorded before they are written, since the answer must not come
// first. If a Write then does not take them all, those that are written after it
// stand in the recording as a retransmission.
func (r *Recorder) Conn(nc net.Conn) net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.conns
	r.conns++
	p, ok := addrs(nc)
	if !ok {
		p = inventAddrs(n)
	} else if f := r.flows[p.swap()]; f != nil && f.ends == 1 {
		f.ends = 2
		return &conn{Conn: nc, rec: r, flow: f, out: 1}
	}
	f := &flow{addr: p, ends: 1}
	for i := range f.dir {
		// Apart from each other, so that a connection that uses a pair of ports
		// again is not taken for the old one.
		isn := n*128000 + uint32(i)*64000 + 1
		f.dir[i].next = isn
	}
	if ok {
		r.flows[p] = f
	}
	return &conn{Conn: nc, rec: r, flow: f}
}

// Dropped tells how many packets the recording lacks because the writer was too
// slow or has failed.
func (r *Recorder) Dropped() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// Close ends the recording, waits until all of it is written and gives the
// writer's error if there was one. Connections that are still open work on,
// unrecorded. It is idempotent.
func (r *Recorder) Close() error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		r.pending = appendStats(r.pending, r.now(), r.packets, r.dropped)
		r.cond.Broadcast()
	}
	r.mu.Unlock()
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// run writes what is pending until Close.
func (r *Recorder) run() {
	defer close(r.done)
	var spare []byte
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		for len(r.pending) == 0 && !r.closed {
			r.cond.Wait()
		}
		if len(r.pending) == 0 {
			return
		}
		b := r.pending
		r.pending, r.writing = spare[:0], len(b)
		r.mu.Unlock()
		_, err := r.w.Write(b)
		r.mu.Lock()
		r.writing = 0
		if spare = b; cap(b) > keepBuffer {
			spare = nil
		}
		if err != nil {
			r.err = fmt.Errorf("capture: writing the recording: %w", err)
			r.pending = nil
			r.closed = true // what comes now is counted as dropped
		}
		r.cond.Broadcast()
	}
}

// keepBuffer bounds the buffers that are kept for reuse, in octets.
const keepBuffer = 1 << 20

// full reports whether so many octets more are too many. The caller holds mu.
func (r *Recorder) full(octets int) bool {
	return len(r.pending)+r.writing+octets > r.opt.Buffer
}

// wait waits, if the recording must be lossless, until there is room for so many
// octets; a Write of more than the whole buffer finds it empty. Only here does the
// recorder wait: the packets of one event are not mixed with others. The caller
// holds mu.
func (r *Recorder) wait(octets int) {
	for r.opt.Lossless && !r.closed && r.full(octets) && len(r.pending)+r.writing > 0 {
		r.cond.Wait()
	}
}

// room reports whether a packet with so many octets of payload is to be recorded,
// and counts it. The caller holds mu.
func (r *Recorder) room(octets int) bool {
	const overhead = packetHead + ipv6Len + tcpLen + 24 // options, padding, trailer
	if r.closed && r.err == nil {
		return false // after Close there is nothing to count
	}
	r.packets++
	if r.closed || !r.opt.Lossless && r.full(octets+overhead) {
		r.dropped++
		return false
	}
	return true
}

// emit records one segment. The caller holds mu.
func (r *Recorder) emit(s *segment, payload []byte, d Direction) {
	if !r.room(len(payload)) {
		return
	}
	b, at := startPacket(r.pending, r.now())
	start := len(b)
	b = s.append(b, payload)
	r.pending = endPacket(b, at, len(b)-start, d, "")
	r.cond.Broadcast()
}

// forget takes a flow that has no open end any more out of the table. The caller
// holds mu.
func (r *Recorder) forget(f *flow) {
	if r.flows[f.addr] == f {
		delete(r.flows, f.addr)
	}
}

// addrs returns the addresses of a connection over IP.
func addrs(nc net.Conn) (pair, bool) {
	l, lok := nc.LocalAddr().(*net.TCPAddr)
	m, mok := nc.RemoteAddr().(*net.TCPAddr)
	if !lok || !mok || l == nil || m == nil {
		return pair{}, false
	}
	p := pair{plain(l), plain(m)}
	return p, p.local.IsValid() && p.remote.IsValid() && p.local.Addr().Is4() == p.remote.Addr().Is4()
}

func plain(a *net.TCPAddr) netip.AddrPort {
	ap := a.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}

// inventAddrs returns addresses for the n-th connection, which is not over IP. They
// are of a network for documentation (https://www.rfc-editor.org/rfc/rfc5737#section-3).
func inventAddrs(n uint32) pair {
	port := uint16(49152 + n%16384)
	return pair{
		netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), port),
		netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 2}), port),
	}
}

// errUnsupported says that nc lacks a method.
func errUnsupported(what string, nc net.Conn) error {
	return fmt.Errorf("capture: %s of a %T: %w", what, nc, errors.ErrUnsupported)
}
