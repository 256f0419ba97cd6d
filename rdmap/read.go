package rdmap

import (
	"sync/atomic"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// outstanding is a Read or atomic of this end whose Response is due.
type outstanding struct {
	entry    uint64 // index in the send queue
	isAtomic bool
	id       uint32 // Request Identifier of an atomic
	size     uint32
	stag     ddp.STag
	sink     *ddp.Sink
	reply    [AtomicResponseLen]byte
	sg       [1][]byte // reply as a gather list
}

// outstandingQueue holds them in request order, which is also the order of the
// Responses (RFC 5040 section 5.5 rule 20, RFC 7306 section 5.4). Its size is
// ORD. Each slot has a sink of its own, whose STag the peer sees for one Read
// only: no RDMA Write can reach it, and no Response after the Read is done.
type outstandingQueue struct {
	size int
	slots[outstanding]
	table      *ddp.Table
	head, tail uint64
	// lastID counts the atomics. It is the Request Identifier of the latest, and
	// also the MSN that its Response will have on QN 3.
	lastID uint32
}

func (q *outstandingQueue) init(t *ddp.Table, ord int) {
	q.table, q.size = t, ord
}

// Rule: RDMAP-6.1-04
func (q *outstandingQueue) full() bool  { return q.tail-q.head >= uint64(q.size) }
func (q *outstandingQueue) empty() bool { return q.tail == q.head }

// prepare makes the next slot ready for a request whose answer is placed in size
// octets of its own. It is false if the table has no STag left for the sink.
func (q *outstandingQueue) prepare(size uint32) bool {
	o := q.reach(q.head, q.tail, q.size)
	if size > 0 && o.sink == nil {
		o.sink = q.table.NewSink()
	}
	return size == 0 || o.sink != nil
}

// push records a request that is about to be sent. prepare has been called.
func (q *outstandingQueue) push(index uint64, e *entry) *outstanding {
	o := q.At(q.tail)
	// Rule: RDMAP-5.2-01
	q.tail++
	o.entry, o.isAtomic, o.size = index, e.req.Op != OpRead, e.total
	if o.isAtomic {
		q.lastID++
		// Rule: EXT-5.2.1-02
		o.id = q.lastID
		return o
	}
	if e.total == 0 {
		// The sink of a zero-length Read is never looked at.
		o.stag = rtrSTag
		return o
	}
	o.stag = o.sink.Arm(e.req.SG)
	return o
}

// find returns the outstanding Read with that sink STag, nil if there is none.
func (q *outstandingQueue) find(stag ddp.STag) (o *outstanding, oldest bool) {
	for i := q.head; i < q.tail; i++ {
		if o := q.At(i); !o.isAtomic && o.size > 0 && o.stag == stag {
			return o, i == q.head
		}
	}
	return nil, false
}

// oldest returns the request whose Response is next, nil if none is due.
func (q *outstandingQueue) oldest() *outstanding {
	if q.empty() {
		return nil
	}
	return q.At(q.head)
}

func (q *outstandingQueue) pop() {
	if o := q.At(q.head); o.sink != nil {
		o.sink.Disarm()
	}
	q.head++
}

// close makes every sink unreachable and gives its STag back.
func (q *outstandingQueue) close() {
	for _, o := range q.ring {
		if o != nil && o.sink != nil {
			o.sink.Disarm()
			o.sink.Close()
			o.sink = nil
		}
	}
	q.head = q.tail
}

// inbound is a Read Request or Atomic Request of the peer.
type inbound struct {
	octets   [AtomicRequestLen]byte // where DDP places the header
	sg       [1][]byte              // octets as a gather list
	header   ddp.Header
	isAtomic bool
	read     ReadRequest
	request  AtomicRequest
}

// inboundQueue is QN 1: as many buffers as IRD, answered in order of arrival
// (RFC 5040 section 5.2.2).
type inboundQueue struct {
	size int
	slots[inbound]
	head  uint64 // oldest that is not answered
	ready uint64 // those before it are delivered; its MSN is ready+1
}

// inboundSource hands QN 1 buffers to DDP. A request beyond IRD finds none, and
// DDP reports 1/2/02 (RFC 5040 section 6.1).
type inboundSource Stream

// Take implements ddp.Source. Which slot it is follows from the MSN, because
// requests are answered in the order of MSNs, also if an LLP without order
// brings a later one first.
func (src *inboundSource) Take(h *ddp.Header) (ddp.Buffer, bool) {
	s := (*Stream)(src)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.inbound
	i := q.ready + uint64(h.MSN-uint32(q.ready+1))
	// Rule: RDMAP-6.1-05, RDMAP-6.1-02, SEC-6.4.3.3-02, RDMAP-8.1.1-11
	if i-q.head >= uint64(q.size) {
		return ddp.Buffer{}, false
	}
	slot := q.reach(q.head, i, q.size)
	slot.sg[0] = slot.octets[:]
	// Rule: RDMAP-5.2.1-02, EXT-5.2.1-07
	return ddp.Buffer{SG: slot.sg[:], Token: i}, true
}

// responseSource hands QN 3 buffers to DDP: one for each atomic outstanding,
// found by the MSN (RFC 7306 sections 5 and 5.2.2).
type responseSource Stream

// Take implements ddp.Source.
func (src *responseSource) Take(h *ddp.Header) (ddp.Buffer, bool) {
	s := (*Stream)(src)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.outstanding
	for i := q.head; i < q.tail; i++ {
		// Rule: EXT-5-05, EXT-5.2.2-02, EXT-5.2.2-04
		if o := q.At(i); o.isAtomic && o.id == h.MSN {
			o.sg[0] = o.reply[:]
			return ddp.Buffer{SG: o.sg[:], Token: i}, true
		}
	}
	return ddp.Buffer{}, false
}

// checkSource validates a Read Request's source when it arrives. It is checked
// again for every segment of the Response: an STag may be invalidated between.
func (s *Stream) checkSource(r *ReadRequest) *protocol.Error {
	// Rule: RDMAP-5.2.1-10, RDMAP-5.2.1-12
	if r.Size == 0 {
		return nil // RFC 5040 section 5.2.1: not validated
	}
	// Rule: RDMAP-5.2.1-08, RDMAP-5.2.1-11, RDMAP-7.2-06
	return s.cfg.Table.CheckFetch(r.SrcSTag, s.cfg.Peer, r.SrcTO, uint64(r.Size), ddp.RemoteRead)
}

// readOffender completes an error about a Read Request with what its Terminate
// echoes: both headers (RFC 5040 section 7.1).
func readOffender(err *protocol.Error, h *ddp.Header, r *ReadRequest) *protocol.Error {
	// Rule: RDMAP-7.1-04
	o := &protocol.Offender{
		SegmentLength: ddp.UntaggedHeaderLen + ReadRequestLen,
		DDPHeader:     h.AppendTo(nil),
		RDMAPHeader:   r.AppendTo(nil),
	}
	err.Offender = o
	return err
}

// perform carries an atomic out on the word that the request names. The word is
// in the host's byte order and changed with a compare-and-swap of the processor,
// so that remote atomics of every stream and sync/atomic in this process see one
// value (RFC 7306 section 5).
func (s *Stream) perform(a *AtomicRequest) (original uint64, err *protocol.Error) {
	err = s.cfg.Table.Atomic(a.STag, s.cfg.Peer, a.TO, func(word *uint64) {
		for {
			original = atomic.LoadUint64(word)
			// Rule: EXT-5.1.1-03
			changed, _ := a.Apply(original)
			// Rule: EXT-5-01, EXT-5.3-01, EXT-5-04
			if atomic.CompareAndSwapUint64(word, original, changed) {
				return
			}
		}
	})
	return original, err
}
