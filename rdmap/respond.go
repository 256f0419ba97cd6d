package rdmap

import (
	"slices"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/internal/race"
	"github.com/go-iwarp/iwarp/protocol"
)

// heldFree is how many octets of Read Responses a batch may have, to the end of a
// segment, without asking Config.Bound. More is asked for in steps of as many.
const heldFree = 64 << 10

// mayHold reports whether one more segment of a Read Response may wait for the LLP.
// The first one always may: a stream whose peer takes what it gets goes on.
func (s *Stream) mayHold() bool {
	t := &s.send
	if t.copied < heldFree+t.bound || s.cfg.Bound == nil {
		return true
	}
	if !s.cfg.Bound.Take(heldFree) {
		return false
	}
	t.bound += heldFree
	return true
}

// letGo gives back what mayHold has asked for: the batch has gone.
func (s *Stream) letGo() {
	s.send.copied = 0
	if s.send.bound > 0 {
		s.cfg.Bound.Give(s.send.bound)
		s.send.bound = 0
	}
}

// responseSegment queues a segment of a Read Response straight from the region,
// whose rights it checks again: the octets are copied into the batch under the
// region's read lock, because the ULP may change them meanwhile.
func (s *Stream) responseSegment(llp ddp.LLP) (last bool, err error) {
	t := &s.send
	mulpdu := llp.NextULPDU(t.out.Rest())
	left := t.out.Remaining()
	if t.out.EndsWith(mulpdu) {
		// The slot must be free before the peer can have the whole Response, or
		// its next Request might find the queue full. (And before Borrow: a
		// region's lock is the innermost of all.)
		s.releaseInbound()
	}
	var region *ddp.Region
	if left > 0 {
		r := &t.request.read
		var perr *protocol.Error
		region, _, perr = s.cfg.Table.Borrow(r.SrcSTag, s.cfg.Peer, t.at, left, ddp.RemoteRead)
		// Rule: RDMAP-8.1.1-06
		if perr != nil {
			// Rule: RDMAP-4.8-08
			s.Fail(s.midway(perr, left), true)
			return true, nil
		}
		defer region.Release()
	}
	header, payload, last := t.out.Next(mulpdu)
	if race.Enabled && region != nil {
		payload = slices.Clone(payload)
		for i := range payload {
			payload[i] = region.Snapshot(payload[i])
		}
	}
	t.reading = true
	err = llp.Queue(header, payload, false)
	t.reading = false
	t.at += left - t.out.Remaining()
	t.copied += int64(left - t.out.Remaining())
	return last, err
}

// midway returns the error for a Read whose source was withdrawn while it was
// being answered. The echoed Request has its TOs advanced and its size reduced
// to what was left (RFC 5040 section 4.8).
func (s *Stream) midway(err *protocol.Error, left uint64) *protocol.Error {
	// Rule: RDMAP-4.8-08
	asked := &s.send.request.read
	r := asked.Advance(asked.Size - uint32(left))
	return readOffender(err, &s.send.request.header, &r)
}

// releaseInbound frees the slot of the inbound request that is being answered.
func (s *Stream) releaseInbound() {
	if s.send.released {
		return
	}
	s.send.released = true
	s.mu.Lock()
	s.inbound.head++
	s.mu.Unlock()
}

// startResponse begins the answer to the oldest inbound request.
func (s *Stream) startResponse() bool {
	q := &s.inbound
	if q.head == q.ready {
		return false
	}
	t := &s.send
	// Rule: RDMAP-5.2.1-04, RDMAP-5.2.2-04, EXT-5.2.1-12, EXT-5.4-03, EXT-5.4-06, EXT-7-01
	t.request, t.released = *q.At(q.head), false
	if t.request.isAtomic {
		return s.startAtomicResponse()
	}
	r := &t.request.read
	var source []byte
	// Rule: RDMAP-5.2.1-11, RDMAP-5.2.1-12, RDMAP-5.2.1-13
	if r.Size > 0 {
		region, src, err := s.cfg.Table.Borrow(r.SrcSTag, s.cfg.Peer, r.SrcTO, uint64(r.Size), ddp.RemoteRead)
		if err != nil {
			s.fail(readOffender(err, &t.request.header, r), true)
			return false
		}
		region.Release() // taken again for each segment
		source = src
	}
	t.kind, t.at = sendingResponse, r.SrcTO
	t.payload[0] = source
	// Rule: RDMAP-4.4-02, RDMAP-5.2-01, RDMAP-5.2.1-09, RDMAP-5.2.2-01, RDMAP-5.2.2-06
	if err := t.out.Start(t.tagged(OpcodeReadResponse, r.SinkSTag, r.SinkTO), t.payload[:]); err != nil {
		t.idle()
		s.fail(readOffender(&protocol.Error{Code: protocol.RDMAPTOWrap, Section: "RFC 5040 section 7.2", Err: err},
			&t.request.header, r),
			true)
		return false
	}
	return true
}

// startAtomicResponse carries the operation out, in the order of the requests
// and after all earlier Responses were generated (RFC 7306 section 5.4).
func (s *Stream) startAtomicResponse() bool {
	t := &s.send
	a := &t.request.request
	original, err := s.perform(a)
	if err != nil {
		// The RDMA header is never included for an Atomic Request (RFC 7306
		// section 8.1).
		// Rule: EXT-8.1-01
		err.Offender = &protocol.Offender{
			SegmentLength: ddp.UntaggedHeaderLen + AtomicRequestLen, DDPHeader: t.request.header.AppendTo(nil),
		}
		s.fail(err, true)
		return false
	}
	t.kind, t.tags = sendingAtomic, false
	t.header = (&AtomicResponse{ID: a.ID, Original: original}).AppendTo(t.header[:0])
	t.payload[0] = t.header
	// Rule: EXT-5.2.1-13, EXT-5.2.2-02
	if err := t.out.Start(t.untagged(OpcodeAtomicResponse, 0), t.payload[:]); err != nil {
		s.fail(&protocol.Error{Code: protocol.RDMAPLocalCatastrophic, Err: err}, true)
		return false
	}
	return true
}
