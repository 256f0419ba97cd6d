package analysis

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/rdmap"
)

// request is a Read or Atomic Request that awaits its response.
type request struct {
	n      uint64 // in the order of requests, from 1
	atomic bool
	id     uint32 // of an atomic
	msn    uint32
	read   rdmap.ReadRequest
	at     span
	off    int64 // of TCP, of its RDMAP header
	pos    uint64
}

// doubt is for when a request of this end, or a response to one, may be missing.
func (d *ddpHalf) doubt() { d.uncertain, d.doubtful = true, d.asked }

// unasked is for a response whose request is not here, or not yet.
func (d *ddpHalf) unasked() { d.uncertain, d.doubtful = true, max(d.doubtful, d.asked)+1 }

// settle ends the doubt when a request is answered that came after it, if the
// response cannot be that to another one, which is not here.
func (d *ddpHalf) settle(q *request) {
	same := d.sink == nil || q.read.SinkSTag == d.sink.SinkSTag && q.read.SinkTO == d.sink.SinkTO
	d.sink = &q.read
	for k := range d.requests {
		o := &d.requests[k]
		same = same || o.read.SinkSTag == q.read.SinkSTag && o.read.SinkTO == q.read.SinkTO
	}
	if q.n > d.doubtful && (q.atomic || !same) {
		d.uncertain = false
	}
}

func (r *Reader) readRequest(c *tcpConn, i int, f *frameRef, m *Message, s *slot) {
	d := c.half[i].m.d
	r.exactly(c, i, f, m, rdmap.ReadRequestLen, "RDMAP-4.4-01")
	q, _, err := rdmap.ParseReadRequest(s.payload)
	if err != nil || m.Partial {
		d.doubt()
		return
	}
	m.ReadRequest = &ReadRequest{
		SinkSTag: STag(q.SinkSTag), SinkTO: q.SinkTO, Size: q.Size, SrcSTag: STag(q.SrcSTag), SrcTO: q.SrcTO,
	}
	x := f.at(lengthLen + ddp.UntaggedHeaderLen)
	r.asked(c, i, f, request{msn: m.MSN, read: q, at: f.latest, off: f.off + int64(x), pos: f.pos + uint64(x)})
}

// asked remembers a request.
func (r *Reader) asked(c *tcpConn, i int, f *frameRef, q request) {
	d := c.half[i].m.d
	if len(d.requests) >= maxRequests {
		d.requests = d.requests[1:]
		d.doubt()
	}
	d.asked++
	q.n = d.asked
	full := len(d.requests) == cap(d.requests)
	if d.requests = append(d.requests, q); full {
		d.room = cap(d.requests)
	}
	if q.at.frame < c.half[1-i].m.lastAt.frame {
		d.doubt() // it had to wait for earlier octets, and may be answered already
	}
	n := len(d.requests)
	st := &c.half[i].stats
	if !c.half[1-i].missing() {
		st.MaxOutstanding = max(st.MaxOutstanding, n)
	}
	if limit := c.an.depth[i]; limit >= 0 && n > limit && !d.uncertain && !c.half[1-i].missing() &&
		!(limit == 0 && n == 1 && c.half[i].m.fpdus == 1 && c.an.rtr != 0) {
		r.blame(c, i, f, "RDMAP-6.1-04", lengthLen,
			fmt.Sprintf("at most %d Reads and atomics outstanding, as negotiated", limit), fmt.Sprintf("%d", n))
	}
}

// answered forgets a request that is not the oldest.
func (d *ddpHalf) answered(at int) {
	d.requests = slices.Delete(d.requests, at, at+1)
}

// before returns the requests that came before a response: those that follow it in
// the file may be known already if the response had to wait for earlier octets.
func (d *ddpHalf) before(f *frameRef) []request {
	n := len(d.requests)
	for n > 0 && d.requests[n-1].at.frame > f.latest.frame {
		n--
	}
	return d.requests[:n]
}

// matchRead finds the request that a Read Response answers, at its first segment.
func (r *Reader) matchRead(c *tcpConn, i int, f *frameRef, s *slot, h *ddp.Header, size int) {
	if s.segments == 1 && s.partial {
		c.half[1-i].m.d.unasked()
	}
	if s.segments > 1 || s.partial {
		if q := s.answers; q != nil && s.length > uint64(q.read.Size) && s.length-uint64(size) <= uint64(q.read.Size) {
			r.blame(c, i, f, "RDMAP-5.2.1-09", 0, fmt.Sprintf("%d octets, as requested", q.read.Size),
				fmt.Sprintf("%d so far", s.length))
		}
		return
	}
	d := c.half[1-i].m.d
	asked := d.before(f)
	at := -1
	for k := range asked {
		q := &asked[k]
		if !q.atomic && (q.read.Size == 0 && size == 0 && h.Last ||
			q.read.SinkSTag == h.STag && q.read.SinkTO == h.TO) {
			at = k
			break
		}
	}
	if at < 0 && len(asked) > 0 && r.littleEndian(c, 1-i, &d.requests[0], h) {
		at = 0
	}
	if len(asked) < len(d.requests) || at < 0 && c.half[1-i].missing() {
		d.unasked()
	}
	switch {
	case at < 0 && d.uncertain:
		d.unasked()
		return
	case at < 0 && len(asked) == 0:
		r.blame(c, i, f, "RDMAP-5.2-01", lengthLen+1, "an RDMA Read Request that it answers", "none is outstanding")
		s.wrong = true
		return
	case at < 0:
		q := d.requests[0]
		if q.atomic {
			r.blame(c, i, f, "EXT-5.4-06", lengthLen+1,
				fmt.Sprintf("the Atomic Response to the request in frame %d", q.at.frame), "an RDMA Read Response")
			return
		}
		r.blame(c, i, f, "RDMAP-4.4-02", lengthLen+2,
			fmt.Sprintf("STag %v TO %#x of the Read Request in frame %d", q.read.SinkSTag, q.read.SinkTO,
				q.at.frame), fmt.Sprintf("STag %v TO %#x", h.STag, h.TO))
		s.answers, s.wrong = &q, true
		d.requests = d.requests[1:]
		return
	case at > 0 && !d.uncertain:
		q := d.requests[0]
		r.blame(c, i, f, "RDMAP-5.2.2-04", lengthLen+1,
			fmt.Sprintf("the response to the request in frame %d", q.at.frame),
			fmt.Sprintf("that to the one in frame %d", d.requests[at].at.frame))
		q = d.requests[at]
		s.answers = &q
		d.answered(at)
		return
	}
	q := d.requests[at]
	s.answers = &q
	d.requests = d.requests[at+1:]
	d.settle(&q)
}

// littleEndian reports, and puts right, a Read Request of half i with its fields
// in the wrong octet order, if that is what the peer took it for.
func (r *Reader) littleEndian(c *tcpConn, i int, q *request, h *ddp.Header) bool {
	if q.atomic {
		return false
	}
	swapped := rdmap.ReadRequest{
		SinkSTag: ddp.STag(bits.ReverseBytes32(uint32(q.read.SinkSTag))), SinkTO: bits.ReverseBytes64(q.read.SinkTO),
		Size:    bits.ReverseBytes32(q.read.Size),
		SrcSTag: ddp.STag(bits.ReverseBytes32(uint32(q.read.SrcSTag))), SrcTO: bits.ReverseBytes64(q.read.SrcTO),
	}
	if swapped.SinkSTag != h.STag || swapped.SinkTO != h.TO {
		return false
	}
	r.verdict(c, i, "RDMAP-4.4-01", q.off, q.pos,
		fmt.Sprintf("fields with the most significant octet first: SinkSTag %v, SinkTO %#x, size %d", swapped.SinkSTag,
			swapped.SinkTO, swapped.Size),
		fmt.Sprintf("the least significant first, as the response tells: SinkSTag %v, SinkTO %#x, size %d",
			q.read.SinkSTag, q.read.SinkTO, q.read.Size))
	q.read = swapped
	return true
}

func (r *Reader) readResponse(c *tcpConn, i int, f *frameRef, m *Message, s *slot) {
	q := s.answers
	if q == nil {
		return
	}
	m.Answers = answer(q, f)
	if s.length < uint64(q.read.Size) && !m.Partial {
		r.blame(c, i, f, "RDMAP-5.2.1-09", 0, fmt.Sprintf("%d octets, as requested", q.read.Size),
			fmt.Sprintf("%d", s.length))
	}
	if s.segments == 1 && s.length > uint64(q.read.Size) {
		r.blame(c, i, f, "RDMAP-5.2.1-09", 0, fmt.Sprintf("%d octets, as requested", q.read.Size),
			fmt.Sprintf("%d", s.length))
	}
	if !s.wrong {
		c.an.reads.add(m.Answers.Latency)
	}
}

func answer(q *request, f *frameRef) *Answer {
	return &Answer{
		RequestFrame: q.at.frame, RequestTime: asTime(q.at.time), Latency: asTime(f.latest.time).Sub(asTime(q.at.time)),
		MSN: q.msn, Size: q.read.Size, SrcSTag: STag(q.read.SrcSTag), SrcTO: q.read.SrcTO,
	}
}

func (r *Reader) atomicRequest(c *tcpConn, i int, f *frameRef, m *Message, s *slot) {
	r.exactly(c, i, f, m, rdmap.AtomicRequestLen, "EXT-5.2.1-01")
	q, _, err := rdmap.ParseAtomicRequest(s.payload)
	if err != nil || m.Partial {
		c.half[i].m.d.doubt()
		return
	}
	m.AtomicRequest = &AtomicRequest{
		Op: q.Op.String(), ID: q.ID, STag: STag(q.STag), TO: q.TO, Data: q.Data, Mask: q.Mask, Compare: q.Compare,
		CompareMask: q.CompareMask,
	}
	r.checkAtomic(c, i, f, s, &q)
	r.asked(c, i, f, request{
		atomic: true, id: q.ID, msn: m.MSN, at: f.latest,
		read: rdmap.ReadRequest{Size: 8, SrcSTag: q.STag, SrcTO: q.TO},
	})
}

func (r *Reader) atomicResponse(c *tcpConn, i int, f *frameRef, m *Message, s *slot) {
	d := c.half[1-i].m.d
	r.exactly(c, i, f, m, rdmap.AtomicResponseLen, "EXT-5.2.2-01")
	a, _, err := rdmap.ParseAtomicResponse(s.payload)
	if err != nil || m.Partial {
		d.doubt()
		return
	}
	m.AtomicResponse = &AtomicResponse{ID: a.ID, Original: a.Original}
	asked := d.before(f)
	at := -1
	for k := range asked {
		if asked[k].atomic && d.requests[k].id == a.ID {
			at = k
			break
		}
	}
	if len(asked) < len(d.requests) || at < 0 && c.half[1-i].missing() {
		d.unasked()
	}
	switch {
	case at < 0 && d.uncertain:
		d.unasked()
		return
	case len(asked) == 0:
		r.blame(c, i, f, "EXT-5.2.2-06", lengthLen+1, "an Atomic Request that it answers", "none is outstanding")
		return
	case at < 0:
		q := d.requests[0]
		r.blame(c, i, f, "EXT-5.2.1-02", lengthLen+ddp.UntaggedHeaderLen,
			fmt.Sprintf("the Request Identifier of a request: %d in frame %d", q.id, q.at.frame),
			fmt.Sprintf("%d", a.ID))
		d.requests = d.requests[1:]
		return
	case at > 0 && !d.uncertain:
		r.blame(c, i, f, "EXT-5.4-06", lengthLen+1,
			fmt.Sprintf("the response to the request in frame %d", d.requests[0].at.frame),
			fmt.Sprintf("that to the one in frame %d", d.requests[at].at.frame))
	}
	q := d.requests[at]
	m.Answers = answer(&q, f)
	c.an.atomics.add(m.Answers.Latency)
	if at == 0 || d.uncertain {
		d.requests = d.requests[at+1:]
		d.settle(&q)
		return
	}
	d.answered(at)
}
