package sctp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

// session is a DDP Stream Session on a pair of SCTP streams with one identifier: before its
// startup an iwarp.LLPConn, after it a ddp.LLP.
type session struct {
	assoc *Association
	below lowerStream
	room  chan struct{} // capacity 1: the queue below has become short

	sending sync.Mutex
	ssn     uint16
	ended   bool // Terminate has gone
	scratch []byte

	in      inbound
	buf     []byte
	early   [][]byte // segment chunks that came before the answer to Initiate
	earlier int      // octets of them

	request *mpa.Startup // of the peer
	closed  atomic.Bool
	over    atomic.Bool // the peer's half is over
	endOnce sync.Once
	gone    chan struct{} // closed by end

	stats struct{ segsOut, octsOut, segsIn, octsIn atomic.Uint64 }
}

const (
	// readLen is the longest chunk that is taken.
	readLen = 16 << 10
	// maxEarly bounds the octets of segments that come before the answer to Initiate.
	maxEarly = 1 << 20
)

func newSession(a *Association, below lowerStream) *session {
	s := &session{
		assoc: a, below: below, room: make(chan struct{}, 1), gone: make(chan struct{}), buf: make([]byte, readLen),
	}
	below.onLow(uint64(a.a.highWater()/2), s.hasRoom)
	below.setReadDeadline(time.Time{})
	return s
}

func (s *session) hasRoom() {
	select {
	case s.room <- struct{}{}:
	default:
	}
}

// LocalAddr implements iwarp.LLPConn.
func (s *session) LocalAddr() net.Addr { return s.assoc.LocalAddr() }

// RemoteAddr implements iwarp.LLPConn.
func (s *session) RemoteAddr() net.Addr { return s.assoc.RemoteAddr() }

// NetConn implements iwarp.LLPRequest: octets have no meaning below.
func (s *session) NetConn() net.Conn { return nil }

// control sends a control message, which is the first or the last of a session: so none
// overtakes another.
//
// Rule: SCTP-6.6-01, SCTP-5.2.3-02, MPA2-7-02
func (s *session) control(f Function, pd []byte) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.ended {
		return nil
	}
	b, err := (&Control{SSN: s.ssn, Function: f, PrivateData: pd}).AppendTo(s.scratch[:0])
	if err != nil {
		return err
	}
	s.scratch = b
	s.ended = f == Terminate || f == Reject || f == EnhancedReject
	return s.write(PPIDControl)
}

// write gives scratch to SCTP, which copies it. The DDP-SSN is that of the next chunk: 0 for
// the first of a session.
//
// Rule: SCTP-5.2.1-01, SCTP-6-01, SCTP-6.1-01
func (s *session) write(ppid uint32) error {
	if err := s.below.write(s.scratch, ppid); err != nil {
		return s.lost(err)
	}
	s.ssn++
	return nil
}

// lost is the error for an association that carries nothing any more.
func (s *session) lost(err error) error {
	if s.closed.Load() {
		err = net.ErrClosed
	}
	return &protocol.Error{
		Code: protocol.MPAConnectionLost, Section: "RFC 5043 section 11.3",
		Detail: "the SCTP association has ended", Err: err,
	}
}

// read returns the next chunk, which is in buf.
func (s *session) read(ctx context.Context) (ppid uint32, b []byte, err error) {
	for {
		n, p, err := s.below.read(s.buf)
		switch {
		case err == nil:
			return p, s.buf[:n], nil
		case errors.Is(err, io.ErrShortBuffer):
			return 0, nil, illegal("RFC 5043 section 9", "a chunk of more than %d octets", readLen)
		case !errors.Is(err, os.ErrDeadlineExceeded), s.closed.Load():
			return 0, nil, s.lost(err)
		case ctx.Err() != nil:
			return 0, nil, context.Cause(ctx)
		}
		s.below.setReadDeadline(time.Time{}) // that was an old one
	}
}

// longAgo has passed on every clock.
var longAgo = time.Unix(1, 0)

// Initiate implements iwarp.LLPConn.
func (s *session) Initiate(ctx context.Context, o *mpa.Options) (ddp.LLP, mpa.Params, error) {
	o = plain(o)
	req, err := mpa.NewRequest(o)
	if err != nil {
		return nil, mpa.Params{}, err
	}
	f := Initiate
	if req.Enhanced {
		f = EnhancedInitiate
	}
	if err := s.control(f, req.PrivateData); err != nil {
		return nil, mpa.Params{}, err
	}
	stop := context.AfterFunc(ctx, func() { s.below.setReadDeadline(longAgo) })
	// Rule: SCTP-6.6-02
	reply, err := s.answer(ctx)
	stop()
	if err != nil {
		return nil, mpa.Params{}, err
	}
	p, err := mpa.Conclude(&req, reply, o)
	if code, coded := protocol.CodeOf(err); err != nil && (!coded || code == protocol.MPAStartup) {
		return nil, mpa.Params{}, err
	}
	if err == nil && o.VerifyReply != nil {
		q := p
		q.PrivateData = slices.Clone(p.PrivateData)
		if err := o.VerifyReply(q); err != nil {
			return nil, mpa.Params{}, &iwarp.DeclinedError{Err: err}
		}
	}
	return s, p, err
}

// plain is o without what SCTP has no use for: it has a CRC32c of its own, and no Markers.
func plain(o *mpa.Options) *mpa.Options {
	n := *o
	n.Markers, n.NoCRC = false, false
	return &n
}

// answer waits for what the peer says to Initiate. Segments may overtake it: they wait.
func (s *session) answer(ctx context.Context) (*mpa.Startup, error) {
	for {
		ppid, b, err := s.read(ctx)
		if err != nil {
			return nil, err
		}
		switch ppid {
		case PPIDSegment:
			if s.earlier += len(b); s.earlier > maxEarly {
				return nil, illegal("RFC 5043 section 6.2", "%d octets of segments, and no Accept", s.earlier)
			}
			s.early = append(s.early, slices.Clone(b))
			continue
		case PPIDControl:
		default:
			return nil, foreign(ppid)
		}
		c, err := s.in.control(b, Accept, Reject, Terminate, EnhancedAccept, EnhancedReject)
		if err != nil {
			return nil, err
		}
		if !s.in.opened {
			continue // a Terminate that has overtaken the answer
		}
		// Rule: SCTP-5.2.3-05, MPA2-7-05
		reply := &mpa.Startup{
			Kind: mpa.Reply, Revision: mpa.Revision1, CRC: true, PrivateData: slices.Clone(c.PrivateData),
			Reject: c.Function == Reject || c.Function == EnhancedReject,
		}
		switch c.Function {
		case Terminate:
			return nil, illegal("RFC 5043 section 6.4", "the peer takes no session now, or none of this kind")
		case EnhancedAccept, EnhancedReject:
			reply.Revision, reply.Enhanced = mpa.Revision2, len(c.PrivateData) >= protocol.EnhancedLen
		}
		if reply.Reject {
			s.over.Store(true)
		}
		return reply, nil
	}
}

// opening takes in the chunk that opens a session from the other side. No other sequence
// than those of RFC 5043 and RFC 6581 is taken, and the program is not asked.
//
// Rule: SCTP-6.5-01, SCTP-6.5-02
func (s *session) opening(ppid uint32, b []byte) error {
	if ppid != PPIDControl {
		return illegal("RFC 5043 section 6.1", "a session that opens with the PPID %d, want %d", ppid, PPIDControl)
	}
	c, err := s.in.control(b, Initiate, EnhancedInitiate)
	switch {
	case err != nil:
		return err
	case !s.in.opened:
		return illegal("RFC 5043 section 6.1", "a session that opens with %v", c.Function)
	}
	s.request = &mpa.Startup{
		Kind: mpa.Request, Revision: mpa.Revision1, CRC: true, PrivateData: slices.Clone(c.PrivateData),
	}
	if c.Function == EnhancedInitiate {
		s.request.Revision, s.request.Enhanced = mpa.Revision2, true
	}
	return nil
}

// ReadRequest implements iwarp.LLPConn. The request is here already.
func (s *session) ReadRequest(_ context.Context, o *mpa.RequestOptions) (iwarp.LLPRequest, error) {
	if s.request == nil {
		return nil, errors.New("iwarp: sctp: this end opens the session")
	}
	if o != nil && o.Unenhanced && s.request.Enhanced {
		return nil, illegal("RFC 6581 section 7", "Enhanced Initiate, and this end takes Initiate alone")
	}
	return incoming{s}, nil
}

// incoming is a session that waits for the program's answer.
type incoming struct{ *session }

// Request implements iwarp.LLPRequest.
func (r incoming) Request() *mpa.Startup {
	n := *r.request
	n.PrivateData = slices.Clone(n.PrivateData)
	return &n
}

// Accept implements iwarp.LLPRequest. Domain and QP are chosen now.
//
// Rule: SCTP-6-02
func (r incoming) Accept(_ context.Context, o *mpa.Options) (ddp.LLP, mpa.Params, error) {
	reply, p, err := mpa.Answer(r.request, plain(o))
	if err != nil {
		return nil, mpa.Params{}, err
	}
	f := Accept
	if reply.Enhanced {
		f = EnhancedAccept
	}
	if err := r.control(f, reply.PrivateData); err != nil {
		return nil, mpa.Params{}, err
	}
	r.assoc.answered(r.session)
	return r.session, p, nil
}

// Reject implements iwarp.LLPRequest.
//
// Rule: SCTP-6.3-01, SCTP-6.3-02, MPA2-7-01, MPA2-7-06
func (r incoming) Reject(_ context.Context, o *mpa.Options, pd []byte) error {
	reply, err := mpa.RejectReply(r.request, plain(o), pd)
	if err != nil {
		return err
	}
	f := Reject
	if reply.Enhanced {
		f = EnhancedReject
	}
	err = r.control(f, reply.PrivateData)
	r.over.Store(true)
	_ = r.Close()
	return err
}

// MULPDU implements ddp.LLP.
func (s *session) MULPDU() int { return s.assoc.a.segment() }

// NextULPDU implements ddp.LLP.
func (s *session) NextULPDU(uint64) int { return s.assoc.a.segment() }

// MaySend implements ddp.LLP: either side may send first.
func (s *session) MaySend() bool { return true }

// Window implements ddp.Unordered.
func (s *session) Window() int { return span }

// Queue implements ddp.LLP. SCTP has copied the segment when it returns.
func (s *session) Queue(header []byte, payload [][]byte, _ bool) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.ended {
		return s.lost(net.ErrClosed)
	}
	b := append(AppendSegment(s.scratch[:0], s.ssn), header...)
	for _, p := range payload {
		b = append(b, p...)
	}
	s.scratch = b
	n := len(b) - SegmentHeaderLen
	// Rule: SCTP-9-04
	if n > s.assoc.segment {
		return fmt.Errorf("iwarp: sctp: segment of %d octets, at most %d fit (RFC 5043 section 9)", n, s.assoc.segment)
	}
	if err := s.write(PPIDSegment); err != nil {
		return err
	}
	s.stats.segsOut.Add(1)
	s.stats.octsOut.Add(uint64(n))
	return nil
}

// QueueMessage implements ddp.LLP.
func (s *session) QueueMessage(m ddp.Segments, stable bool) (last bool, err error) {
	for {
		header, payload, last := m.Next(s.assoc.a.segment())
		if err := s.Queue(header, payload, stable); err != nil {
			return false, err
		}
		if last || s.Full() {
			return last, nil
		}
	}
}

// Full implements ddp.LLP.
func (s *session) Full() bool { return s.below.queued() >= uint64(s.assoc.a.highWater()) }

// Buffered implements ddp.LLP.
func (s *session) Buffered() bool { return s.Full() }

// Flush implements ddp.LLP: it waits for the queue below to become short.
//
// Rule: SCTP-11.2-01
func (s *session) Flush(wait bool) (done bool, err error) {
	for s.Full() {
		if !wait {
			return false, nil
		}
		select {
		case <-s.room:
		case <-s.gone:
			return false, s.lost(net.ErrClosed)
		case <-s.assoc.done:
			return false, s.lost(net.ErrClosed)
		}
	}
	return true, nil
}

// Receive implements ddp.LLP.
func (s *session) Receive(fn func(order uint64, segment []byte) error) error {
	if s.in.over() {
		s.over.Store(true)
		return io.EOF
	}
	if len(s.early) > 0 {
		b := s.early[0]
		s.early = s.early[1:]
		return s.segment(b, fn)
	}
	ppid, b, err := s.read(context.Background())
	switch {
	case err != nil:
		return err
	// Rule: SCTP-5.1-02
	case ppid == PPIDControl:
		_, err := s.in.control(b)
		return err
	case ppid != PPIDSegment:
		return foreign(ppid)
	}
	return s.segment(b, fn)
}

func (s *session) segment(b []byte, fn func(order uint64, segment []byte) error) error {
	order, segment, err := s.in.segment(b)
	if err != nil {
		return err
	}
	s.stats.segsIn.Add(1)
	s.stats.octsIn.Add(uint64(len(segment)))
	return fn(order, segment)
}

// CloseWrite implements ddp.LLP.
//
// Rule: SCTP-6.2-02, MPA2-7-07
func (s *session) CloseWrite() error { return s.control(Terminate, nil) }

// Close implements ddp.LLP, iwarp.LLPConn and iwarp.LLPRequest: it ends the session, if that
// has not ended, by Terminate.
//
// Rule: SCTP-5.2.3-06, SCTP-6.4-02, SCTP-6.2-02
func (s *session) Close() error {
	s.endOnce.Do(func() {
		_ = s.control(Terminate, nil)
		s.end()
		s.assoc.left(s, false)
	})
	return nil
}

// Abort implements ddp.LLP. An association that has only this session ends with it; else
// Terminate says so, without a guarantee that the peer takes it for an error.
//
// Rule: SCTP-11.3-01, SCTP-11.3-03
func (s *session) Abort() error {
	s.endOnce.Do(func() {
		if !s.assoc.single {
			_ = s.control(Terminate, nil)
		}
		s.end()
		s.assoc.left(s, true)
	})
	return nil
}

// end lets nobody wait for this session any more.
func (s *session) end() {
	s.closed.Store(true)
	close(s.gone)
	s.below.setReadDeadline(longAgo)
	s.assoc.answered(s)
}

// reusable reports whether nothing of the session can be under way any more, so that
// its identifier may have another one.
//
// Rule: SCTP-6.6-03
func (s *session) reusable() bool {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.ended && s.over.Load() && s.below.acknowledged()
}

// Carried implements ddp.Carrier.
func (s *session) Carried() ddp.Carried {
	sent, queued := s.stats.octsOut.Load(), s.below.queued()
	return ddp.Carried{
		SegmentsSent: s.stats.segsOut.Load(), SegmentsReceived: s.stats.segsIn.Load(),
		OctetsSent: sent - min(sent, queued), OctetsReceived: s.stats.octsIn.Load(), MULPDU: s.assoc.a.segment(),
	}
}

var (
	_ ddp.Unordered    = (*session)(nil)
	_ ddp.Carrier      = (*session)(nil)
	_ iwarp.LLPConn    = (*session)(nil)
	_ iwarp.LLPRequest = incoming{}
)
