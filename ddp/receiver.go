package ddp

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-iwarp/iwarp/protocol"
)

// Buffer is an Untagged Buffer: memory for one message, as a gather list.
type Buffer struct {
	// SG is the memory, filled from its first piece on. A message longer than all
	// pieces together is an error of the peer's.
	SG [][]byte
	// Max is how many octets the buffer may grow to, if its [Source] is a [Grower];
	// it counts only when it is more than SG has.
	Max uint64
	// Token is the owner's own and not looked at.
	Token uint64
}

// Source supplies the Untagged Buffers of one queue (one QN): a receive queue, a
// receive queue shared by several streams, or the ULP's own buffers for its
// requests.
type Source interface {
	// Take returns the buffer for a message, false if there is none. It is called
	// once for each message, by the goroutine that called [Receiver.Segment], when
	// the first of the message's segments arrives; h is that segment's header,
	// valid during the call only. Version, QN and MSN have been found good, and
	// nothing else: h may be wrong in the rest, and the ULP has not seen it. The
	// receiver has the buffer, and SG, until it delivers it or hands it back by
	// [Receiver.Release].
	Take(h *Header) (Buffer, bool)
}

// Grower is a [Source] whose buffers need not be there before the octets that they
// are for, so that a peer which announces much and sends little holds little.
type Grower interface {
	Source
	// Grow makes *b, which Take gave for the message of h with a larger Max, hold n
	// octets or more, and no more than Max. What was placed in it stays where it is:
	// pieces are only added to SG. Called as Take is, before the segment h is placed:
	// if there is no room for it yet, or it is the message's last, which h.Last tells,
	// and SG is less than Max. The error is the peer's to hear.
	Grow(h *Header, b *Buffer, n uint64) *protocol.Error
}

// Message is a message that has been placed whole and is delivered.
type Message struct {
	// Header is that of the message's last segment. RsvdULP (Control, ULP32), STag
	// and QN are equal in all segments of a message that keeps the rules; that
	// they are is not checked (https://www.rfc-editor.org/rfc/rfc5041#section-4.3).
	Header Header
	// Length is the number of the message's octets. Of a tagged message it is the
	// sum over its segments, at most 2^32-1; where they went is not recorded.
	Length uint32
	// Buffer is where an untagged message is. It is the ULP's again.
	Buffer Buffer
}

// Target is the Tagged Buffer that a segment goes to: a Region with the rights
// that it must give, or a Sink. Both nil means that there is no such STag.
type Target struct {
	Region *Region
	Need   Access
	Sink   *Sink
}

// ULP is the protocol above, RDMAP say: it judges the headers, and messages are
// delivered to it. All calls come from the goroutine that calls
// [Receiver.Segment] and, but for SetQueue, must not call back into the Receiver.
// An error that a method returns ends reception; the Receiver adds to it which
// segment is to blame.
type ULP interface {
	// CheckTagged is asked about each tagged segment, n octets of payload long,
	// after the check of its version and before anything is placed. It says where
	// the payload belongs; the Receiver then checks rights and bounds. If n is 0
	// nothing will be placed, STag and TO mean nothing, and the Target is ignored.
	// h is valid during the call only.
	CheckTagged(h *Header, n int) (Target, *protocol.Error)
	// CheckUntagged is asked about each untagged segment after version, QN, MSN,
	// buffer, MO and length have been found good, and before anything is placed.
	// h is valid during the call only.
	CheckUntagged(h *Header, n int) *protocol.Error
	// Deliver hands up a message: all of it has been placed, and all messages sent
	// before it have been delivered. m is valid during the call only; the Buffer
	// in it is the ULP's from the call on, also if Deliver returns an error.
	Deliver(m *Message) *protocol.Error
}

// ReceiverConfig says what a [Receiver] expects. The zero value is right for an
// LLP that gives segments in any order.
type ReceiverConfig struct {
	// Peer is the stream, and its Protection Domain.
	Peer Peer
	// Version is the DV that segments must have; 0 means [Version], 1.
	Version uint8
	// VersionZero asks for DV 0, that of the RDMA Consortium's DDP. Version is
	// ignored then.
	VersionZero bool
	// Ordered says that the LLP gives segments in the order of sending, as MPA
	// does. Then the MSN must be the expected one, and the order number is not
	// looked at.
	Ordered bool
	// Window bounds, without Ordered, how far ahead segments may come: a segment
	// or an MSN this many or more after the first that is missing is an error. 0
	// means [DefaultWindow]; [MaxWindow] is the most.
	Window int
	// Clock, if not nil, tells the time since any moment, for [Stats]. It is asked only
	// about segments that come out of order.
	Clock func() time.Duration
	// Batched promises a call of [Receiver.EndBatch] after some segments, before
	// the caller waits for more. Between the segments of one tagged message the
	// region then stays locked, and the calls that take rights away wait for the
	// end of the batch. The ULP's CheckTagged is called with that lock held, if a
	// segment has the STag and the Control octet of the one before.
	Batched bool
}

// Bounds of [ReceiverConfig].Window.
const (
	DefaultWindow = 1024
	MaxWindow     = 1 << 16
)

// Receiver is the Data Sink of one stream: it takes segments, places the payload
// of each at once, and delivers messages when they are whole, in the order in
// which they were sent, each once. It never blocks, except for the short time
// that a revocation of the region holds (see [Region]), and allocates nothing as
// long as segments come in order and without error.
//
// A Receiver belongs to one goroutine at a time. Only Stats may be called from
// any. Where buffers may be memory that goes away, Segment is called within
// [Receiver.Guard].
type Receiver struct {
	peer    Peer
	version uint8
	ordered bool
	window  int
	ulp     ULP
	queues  queues
	reorder reorder
	tagged  uint64 // octets of the tagged message that is coming in
	within  bool   // a tagged message has begun and its last segment is to come
	refused bool   // the ULP has refused message
	err     *protocol.Error
	stats   counters
	clock   func() time.Duration
	batched bool
	held    holding
	placing int // octets of the segment whose payload is being copied; 0: none is

	// Here and not on the stack, since what goes through an interface escapes.
	header  Header
	message Message
}

// holding is the region that stays locked between the segments of a batch. What a
// lock costs is giving it back: that waits until the octets just copied have left
// the processor, where otherwise the next segment could be looked at meanwhile.
type holding struct {
	lock    *sync.RWMutex // nil if none is held
	region  *Region
	stag    STag
	control uint8
}

// fits reports whether a segment goes where the one before went, as far as can be
// said without the ULP.
func (k *holding) fits(h *Header) bool {
	// Rule: DDP-8.3.1-05
	return h.Tagged && h.STag == k.stag && h.Control == k.control
}

// letGo unlocks what is held.
func (r *Receiver) letGo() {
	if r.held.lock != nil {
		r.held.lock.RUnlock()
		r.held = holding{}
	}
}

// EndBatch ends a batch of segments: see [ReceiverConfig].Batched. After it no
// region is locked. It is harmless at any time.
func (r *Receiver) EndBatch() { r.letGo() }

type counters struct {
	outOfOrder, early, duplicates, dropped atomic.Uint64
	ahead, aheadMax                        atomic.Int64
}

// Stats are counts of a [Receiver], since its start.
type Stats struct {
	// OutOfOrder is the number of segments placed before one that was sent earlier, and
	// OctetsEarly that of the octets of payload in them: placed before they could be
	// delivered.
	OutOfOrder, OctetsEarly uint64
	// Ahead is how long before, summed up over those segments whose turn has come since,
	// and MaxAhead the longest. Both need [ReceiverConfig].Clock.
	Ahead, MaxAhead time.Duration
	// Duplicates is the number of segments that came again and were ignored.
	Duplicates uint64
	// Dropped is the number of segments dropped after the first error.
	Dropped uint64
}

// NewReceiver makes a Receiver without queues: see [Receiver.SetQueue].
func NewReceiver(cfg ReceiverConfig, ulp ULP) *Receiver {
	// Rule: DDP-5.3-03
	r := &Receiver{
		peer: cfg.Peer, version: cfg.Version, ordered: cfg.Ordered, window: cfg.Window,
		clock: cfg.Clock, batched: cfg.Batched, ulp: ulp,
	}
	switch {
	case cfg.VersionZero:
		r.version = 0
	case cfg.Version == 0:
		// Rule: DDP-4.1-08
		r.version = Version
	}
	switch {
	case r.ordered:
		r.window = 1
	case r.window <= 0:
		r.window = DefaultWindow
	default:
		r.window = min(r.window, MaxWindow)
	}
	return r
}

// SetQueue makes s the source of queue qn, whose first message has MSN 1. A queue
// that exists already keeps its MSN and its buffers in use. A nil s takes
// the queue away: its messages become errors.
func (r *Receiver) SetQueue(qn uint32, s Source) { r.queues.set(qn, s) }

// InProgress reports whether a message has begun whose last segment has not come,
// or cannot be delivered yet because an earlier one is missing: if the LLP ends
// its stream now, the message is lost.
func (r *Receiver) InProgress() bool {
	// Rule: DDP-2.3-02
	return r.within || r.queues.inProgress() || r.reorder.waiting()
}

// Blamed returns the buffer, taken from queue qn, of the message whose segment
// caused the error that [Receiver.Err] keeps. It is false if there is none: the
// segment was tagged or of another queue, or no buffer had been taken.
func (r *Receiver) Blamed(qn uint32) (Buffer, bool) {
	if r.err == nil || r.err.Offender == nil || r.header.Tagged || r.header.QN != qn {
		return Buffer{}, false
	}
	if r.refused {
		return r.message.Buffer, true
	}
	return r.queues.buffer(&r.header)
}

// Stats returns the counts. It may be called from any goroutine.
func (r *Receiver) Stats() Stats {
	return Stats{
		OutOfOrder: r.stats.outOfOrder.Load(), OctetsEarly: r.stats.early.Load(),
		Ahead: time.Duration(r.stats.ahead.Load()), MaxAhead: time.Duration(r.stats.aheadMax.Load()),
		Duplicates: r.stats.duplicates.Load(),
		Dropped:    r.stats.dropped.Load(),
	}
}

// Segment takes one segment, header and payload, whose number in the order of
// sending is order (0 for the stream's first). It places the payload and delivers
// what has become whole. seg stays the caller's and is not referred to afterwards.
//
// The checks of a tagged segment are, in this order: length, version, ULP,
// STag, stream, right, TO wrap, bounds; of an untagged one: length, version, QN,
// MSN, buffer, MO, length of the message, ULP. The error names the rule and, in
// its Offender, the header and the length of the segment. After an error, which
// [Receiver.Err] keeps, every later segment is dropped without a word (nil), as
// RFC 5041 wants (https://www.rfc-editor.org/rfc/rfc5041#section-7.1): the stream
// stays up until the ULP ends it, and its outgoing half still works.
//
// Without [ReceiverConfig].Ordered, a segment that has come before is ignored.
func (r *Receiver) Segment(order uint64, seg []byte) *protocol.Error {
	// Rule: DDP-7.1-13, DDP-6.2.2-04
	if r.err != nil {
		r.stats.dropped.Add(1)
		return nil
	}
	h := &r.header
	// Rule: DDP-3-07, DDP-4.1-07
	n, ok := h.parse(seg)
	if r.held.lock != nil && !(ok && r.held.fits(h)) {
		r.letGo()
	}
	if !ok {
		r.err = short(seg)
		return r.err
	}
	inOrder := true
	if !r.ordered {
		// Rule: DDP-5.3-04, DDP-5.3-05
		if r.reorder.seen(order) {
			r.stats.duplicates.Add(1)
			return nil
		}
		if !r.reorder.within(order, r.window) {
			return r.failed(beyondWindow(order, r.reorder.next, r.window), h, len(seg))
		}
		// Rule: DDP-5.4-02
		inOrder = order == r.reorder.next
	}
	// Rule: DDP-5.2-04, DDP-7.1-11, RDMAP-7.2-01, EXT-8.2-01, RDMAP-5.5-01
	err := r.place(h, seg[n:], inOrder)
	r.placing = 0
	if err != nil {
		return r.failed(err, h, len(seg))
	}
	if !inOrder {
		r.stats.outOfOrder.Add(1)
		r.stats.early.Add(uint64(len(seg) - n))
		// Rule: DDP-3-05, DDP-5.3-04
		r.reorder.keep(order, h, len(seg), r.now())
		return nil
	}
	return r.advance(h, len(seg))
}

// short is the error for a segment that ends within its header. There is no
// header to report, and no code of its own in the RFC.
func short(seg []byte) *protocol.Error {
	want := TaggedHeaderLen
	if len(seg) > 0 && seg[0]&bitTagged == 0 {
		want = UntaggedHeaderLen
	}
	return shortSegment(len(seg), want)
}

func (r *Receiver) failed(e *protocol.Error, h *Header, segment int) *protocol.Error {
	// Rule: DDP-6.2-01, DDP-6.2.2-01, DDP-8.3-04, RDMAP-3.1-05, DDP-8.3.1-05
	r.letGo()
	r.err = blame(e, h, segment)
	r.header = *h
	return r.err
}

// place checks a segment and places its payload. inOrder says that all segments
// sent before it have been here.
func (r *Receiver) place(h *Header, payload []byte, inOrder bool) *protocol.Error {
	// Rule: DDP-4.1-08, DDP-4.1-07
	if h.Version != r.version {
		return badVersion(h, r.version)
	}
	// Rule: DDP-4.1-02
	if h.Tagged {
		return r.placeTagged(h, payload)
	}
	return r.placeUntagged(h, payload, inOrder)
}

func (r *Receiver) placeTagged(h *Header, payload []byte) *protocol.Error {
	target, err := r.ulp.CheckTagged(h, len(payload))
	r.placing = TaggedHeaderLen + len(payload)
	switch {
	case err != nil:
		return err
	// Rule: DDP-5.2-08
	case len(payload) == 0:
		return nil
	case target.Sink != nil:
		return target.Sink.place(h.STag, h.TO, payload)
	case target.Region != nil && h.STag != 0:
		return r.placeRegion(h, payload, target)
	}
	// Rule: DDP-7.1-07
	return unknownSTag(&placeCodes, h.STag)
}

// placeRegion places a segment into a region. In a batch the region stays locked,
// unless the message ends here.
func (r *Receiver) placeRegion(h *Header, payload []byte, t Target) *protocol.Error {
	if r.held.lock != nil && r.held.region != t.Region {
		r.letGo()
	}
	if r.held.lock == nil {
		if !r.batched || h.Last {
			return t.Region.place(h.STag, r.peer, h.TO, payload, t.Need)
		}
		r.held = holding{t.Region.guard.reader(r.peer.Stream), t.Region, h.STag, h.Control}
		r.held.lock.RLock()
	}
	return t.Region.placeLocked(h.STag, r.peer, h.TO, payload, t.Need)
}

func (r *Receiver) placeUntagged(h *Header, payload []byte, inOrder bool) *protocol.Error {
	q := r.queues.get(h.QN)
	// Rule: DDP-7.1-01
	if q == nil {
		return badQN(h)
	}
	window := r.window
	if inOrder {
		window = 1
	}
	// Rule: DDP-7.1-06
	if h.MSN-q.next >= uint32(window) {
		return badMSN(h, q.next, window)
	}
	m := q.inbound(h)
	// Rule: DDP-7.1-02, DDP-7.1-03
	if m == nil {
		return noBuffer(h)
	}
	off, n := uint64(h.MO), uint64(len(payload))
	switch {
	// Rule: DDP-7.1-04
	case off > m.limit:
		return beyondBuffer(h, m.limit)
	// Rule: DDP-7.1-05, RDMAP-5.3-07
	case !fits(off, n, min(m.limit, math.MaxUint32)):
		return tooLong(h, len(payload), m.limit)
	}
	if inOrder {
		if err := m.mayPass(h, n); err != nil {
			return err
		}
	}
	if err := r.ulp.CheckUntagged(h, len(payload)); err != nil {
		return err
	}
	if off+n > m.memory.total || h.Last && m.limit > m.memory.total {
		if err := m.grow(q.grower, h, off+n); err != nil {
			return err
		}
	}
	r.placing = UntaggedHeaderLen + len(payload)
	m.memory.place(off, payload)
	return nil
}

// advance passes the segment h in the order of sending, and then those after it
// that came early.
func (r *Receiver) advance(h *Header, segment int) *protocol.Error {
	if err := r.pass(h, segment-h.Len()); err != nil {
		return r.failed(err, h, segment)
	}
	if r.ordered {
		return nil
	}
	// Rule: DDP-5.3-06, DDP-4.1-06
	for s := r.reorder.pop(); s != nil; s = r.reorder.pop() {
		r.countAhead(s.at)
		if err := r.passEarly(&s.header, s.length-s.header.Len()); err != nil {
			return r.failed(err, &s.header, s.length)
		}
	}
	return nil
}

// now is the time of the receiver's clock, 0 without one.
func (r *Receiver) now() time.Duration {
	if r.clock == nil {
		return 0
	}
	return r.clock()
}

// countAhead notes that the turn of a segment has come that was placed at the time given.
func (r *Receiver) countAhead(at time.Duration) {
	ahead := int64(r.now() - at)
	r.stats.ahead.Add(ahead)
	if ahead > r.stats.aheadMax.Load() { // which nobody else raises
		r.stats.aheadMax.Store(ahead)
	}
}

// passEarly makes up for the checks that need all earlier segments to be here,
// and which a segment that came early could not have.
func (r *Receiver) passEarly(h *Header, n int) *protocol.Error {
	if !h.Tagged {
		q := r.queues.get(h.QN)
		if q == nil {
			return badQN(h)
		}
		if h.MSN != q.next {
			return badMSN(h, q.next, 1)
		}
		if err := q.current.mayPass(h, uint64(n)); err != nil {
			return err
		}
	}
	return r.pass(h, n)
}

// pass counts a placed segment of n octets, whose turn it is in the order of
// sending, and delivers its message if it is the last.
func (r *Receiver) pass(h *Header, n int) *protocol.Error {
	m := &r.message
	if h.Tagged {
		// Rule: DDP-5.2-09
		r.tagged += uint64(n)
		r.within = !h.Last
		if !h.Last {
			return nil
		}
		// Rule: DDP-4.2-03, DDP-4.2-07, DDP-5.4-04
		*m = Message{Header: *h, Length: uint32(min(r.tagged, math.MaxUint32))}
		r.tagged = 0
	} else {
		q := r.queues.get(h.QN)
		if q == nil { // the ULP took it away just now
			return badQN(h)
		}
		q.current.passed.add(uint64(h.MO), uint64(n))
		if !h.Last {
			return nil
		}
		// Rule: DDP-4.3-03, DDP-4.3-04, DDP-5.4-03, DDP-5.4-04
		*m = Message{Header: *h, Length: uint32(q.current.passed.next), Buffer: q.current.buffer}
		q.finish()
	}
	// Rule: DDP-8.3.1-05
	r.letGo() // whoever hears of the message may take rights away
	// Rule: DDP-5.4-02, DDP-4.1-06, DDP-5.3-06, RDMAP-5.1-07, RDMAP-5.5-04
	err := r.ulp.Deliver(m)
	if r.refused = err != nil; !r.refused {
		m.Buffer = Buffer{}
	}
	return err
}
