package analysis

import (
	"bytes"
	"slices"
	"sort"
	"unsafe"

	"github.com/go-iwarp/iwarp/mpa"
)

const (
	// history is how many octets that were analysed are kept, to compare them with
	// what comes again.
	history = 16 << 10
	// ackPatience is how many frames of a connection may pass, once the peer has
	// acknowledged octets that are not here, before the capture is taken to lack
	// them: frames can stand in a file a little out of order.
	ackPatience = 16
	// farAhead and farBehind bound how far from its stream a segment is believed.
	farAhead  = 1 << 30
	farBehind = 1 << 28
	// strayLimit is how many segments in a row may be farther, before they are taken
	// for those of a new connection whose start the capture lacks.
	strayLimit = 3
	// maxAhead bounds the pieces that wait for earlier ones.
	maxAhead = 16384
	// longestSegment is more than any host sends as one with segmentation offload.
	longestSegment = 1 << 20
)

// connKey names a connection; a is the smaller endpoint.
type connKey struct{ a, b endpoint }

func keyOf(s *tcpSegment) (k connKey, swapped bool) {
	if s.dst.less(&s.src) {
		return connKey{s.dst, s.src}, true
	}
	return connKey{s.src, s.dst}, false
}

func (e *endpoint) less(f *endpoint) bool {
	if c := bytes.Compare(e.ip[:], f.ip[:]); c != 0 {
		return c < 0
	}
	return e.port < f.port
}

// connState is what is known about a TCP connection.
type connState uint8

const (
	undecided connState = iota
	isIWARP
	ignored // no iWARP was found on it
	done    // its Closed event is out; what still comes belongs to it
)

// tcpConn is a TCP connection. Its half i is what the endpoint i of key sends.
type tcpConn struct {
	key        connKey
	half       [2]half
	state      connState
	iface      int
	first      uint64 // frame
	firstTime  int64
	last       uint64
	lastTime   int64
	prev, next *tcpConn // by last use
	an         *analysis
	memory     int  // as accounted for
	resetBy    int8 // the half that sent a RST, -1 if none did
}

// What the parts of a connection take in octets. Where there are several of a kind,
// it is what each takes.
const (
	connMemory  = int(unsafe.Sizeof(tcpConn{})) + 256 // with its place in the map
	iwarpMemory = int(unsafe.Sizeof(analysis{})) + 2*int(unsafe.Sizeof(ddpHalf{})) +
		int(unsafe.Sizeof(Negotiated{})) + 1024
	chunkMemory   = int(unsafe.Sizeof(chunk{}))
	spanMemory    = int(unsafe.Sizeof(span{}))
	requestMemory = int(unsafe.Sizeof(request{}))
	verdictMemory = 96
	startupMemory = int(unsafe.Sizeof(mpa.Startup{}))
)

// size is about the memory that a connection takes.
func (c *tcpConn) size() int {
	n := connMemory
	if an := c.an; an != nil {
		n += iwarpMemory + verdictMemory*len(an.verdicts) + an.reads.size() + an.atomics.size()
		for _, s := range an.startup {
			if s != nil {
				n += startupMemory + cap(s.PrivateData)
			}
		}
	}
	for i := range c.half {
		h := &c.half[i]
		n += cap(h.buf) + spanMemory*cap(h.spans) + h.stored + chunkMemory*h.room
		if d := h.m.d; d != nil {
			n += requestMemory*(d.room+1) + d.tagged.size()
			for k := range d.queues {
				n += d.queues[k].size()
			}
		}
	}
	return n + n/8 // what the allocator adds
}

// span says where a segment begins in its stream.
type span struct {
	off   int64
	frame uint64
	time  int64
	late  bool // it acknowledges what the capture has later, or not at all
}

// chunk is a segment that came before an earlier one. length counts also the
// octets that the capture has not.
type chunk struct {
	span
	data   []byte
	length int
}

// half is one direction of a connection: reassembly. Offsets count from the first
// octet after SYN, or from the first one that the capture has.
type half struct {
	known  bool
	syn    bool   // base is from a SYN
	base   uint32 // sequence number of offset 0
	next   int64  // the first octet that is not here yet
	buf    []byte
	bufOff int64 // of buf[0]
	cons   int64 // analysed up to here; what is before is history
	spans  []span
	ahead  []chunk // by offset, not overlapping
	room   int     // for chunks in the array that ahead lies in
	stored int     // octets in ahead
	fin    int64   // offset behind the last octet; -1: no FIN yet
	acked  int64   // by the peer
	wait   int     // frames since acked is ahead of next
	stray  int     // segments in a row that were far from next
	stats  DirStats
	m      mpaHalf
}

// rel returns the offset of a sequence number, the one nearest to next.
func (h *half) rel(seq uint32) int64 {
	return h.next + int64(int32(seq-h.base-uint32(h.next)))
}

// pending is what was not analysed yet.
func (h *half) pending() []byte { return h.buf[h.cons-h.bufOff:] }

// spanAt returns the segment that holds an octet.
func (h *half) spanAt(off int64) span {
	i := sort.Search(len(h.spans), func(i int) bool { return h.spans[i].off > off })
	if i == 0 {
		if len(h.spans) > 0 {
			return h.spans[0]
		}
		return span{}
	}
	return h.spans[i-1]
}

// spansOf returns the first segment of a range, the one with the highest frame
// number, and whether the range begins a segment.
func (h *half) spansOf(from, to int64) (first, latest span, aligned bool) {
	i := max(sort.Search(len(h.spans), func(i int) bool { return h.spans[i].off > from })-1, 0)
	if len(h.spans) == 0 {
		return span{}, span{}, false
	}
	first = h.spans[i]
	latest = first
	for _, s := range h.spans[i:] {
		if s.off >= to {
			break
		}
		if s.frame > latest.frame {
			latest = s
		}
	}
	return first, latest, first.off == from
}

// segment takes one TCP segment.
func (r *Reader) segment(s *tcpSegment) {
	k, swapped := keyOf(s)
	c := r.lookup(k, s)
	if c == nil {
		return
	}
	i := 0
	if swapped {
		i = 1
	}
	if r.startsAnew(c, i, s) {
		r.finish(c, "reused")
		r.forget(c)
		if c = r.lookup(k, s); c == nil {
			return
		}
	}
	c.last, c.lastTime = r.frameNumber, r.time
	if c.state == done {
		return
	}
	if c.state == ignored && !r.reconsider(c, i, s) {
		return
	}
	r.take(c, i, s)
	r.account(c)
}

// startsAnew reports whether a segment cannot be of connection c, but of a later one
// with its addresses and ports.
func (r *Reader) startsAnew(c *tcpConn, i int, s *tcpSegment) bool {
	h := &c.half[i]
	switch {
	case s.flags&flagRST != 0:
		return false
	case s.flags&(flagSYN|flagACK) == flagSYN:
		return c.state == done || c.state == ignored || h.known && (!h.syn || h.base != s.seq+1)
	case s.flags&flagSYN != 0: // the first SYN is not in the capture, or it belongs to that
		return c.state == done || h.syn && h.base != s.seq+1
	case s.length == 0:
		return false
	case c.state == done:
		// Who sends on did not reset the connection: the RST was a stray or forged one.
		return int(c.resetBy) == i
	case !h.known || c.state == ignored:
		return false
	}
	if d := h.rel(s.seq) - h.next; d <= farAhead && d >= -farBehind {
		h.stray = 0
		return false
	}
	h.stray++
	return h.stray >= strayLimit
}

func (r *Reader) take(c *tcpConn, i int, s *tcpSegment) {
	h, o := &c.half[i], &c.half[1-i]
	if s.flags&flagRST != 0 {
		if c.state == isIWARP {
			r.anomaly(c, i, AnomalyReset, h.next, 0, "")
		}
		r.finish(c, "reset")
		c.resetBy = int8(i)
		return
	}
	seq := s.seq
	if s.flags&flagSYN != 0 {
		seq++
		if !h.known {
			h.known, h.syn, h.base = true, true, seq
		}
	}
	if s.flags&flagACK != 0 && o.known {
		o.ack(s.ack)
	}
	if s.length > 0 {
		if !h.known {
			h.known, h.base = true, seq
		}
		r.data(c, i, h.rel(seq), s)
	} else if h.known && s.flags&(flagSYN|flagFIN) == 0 && s.flags&flagACK != 0 && !s.fragment && h.next > 0 &&
		h.fin < 0 && h.rel(seq) == h.next-1 {
		h.stats.KeepAlives++
		r.anomaly(c, i, AnomalyKeepAlive, h.next-1, 0, "without octets")
	}
	if s.fragment {
		r.anomaly(c, i, AnomalyFragment, h.next, 0, "an IP fragment, which is not reassembled")
	}
	if s.flags&flagFIN != 0 && h.known {
		h.fin = h.rel(seq) + int64(s.length)
	}
	r.patience(c, 0)
	r.patience(c, 1)
	if c.state != done && c.half[0].over() && c.half[1].over() {
		r.finish(c, "fin")
	}
}

// over reports whether the direction has ended and all of it is here.
func (h *half) over() bool { return h.fin >= 0 && h.next >= h.fin }

func (h *half) ack(ack uint32) {
	off := h.rel(ack)
	if off-h.next > farAhead {
		return
	}
	h.acked = max(h.acked, off)
}

// missing reports whether octets are known to be sent that are not here: frames
// stand out of order in the file, or the capture lacks some.
func (h *half) missing() bool {
	if !h.known {
		return true
	}
	to := h.acked
	if h.fin >= 0 {
		to = min(to, h.fin)
	}
	return len(h.ahead) > 0 || to > h.next
}

// patience gives octets up that the peer has and the capture has not.
func (r *Reader) patience(c *tcpConn, i int) {
	h := &c.half[i]
	to := h.acked
	if h.fin >= 0 {
		to = min(to, h.fin)
	}
	if to <= h.next || len(h.ahead) == 0 && to == h.next+1 { // a FIN that is not in the capture
		h.wait = 0
		return
	}
	if h.wait++; h.wait <= ackPatience || c.state != isIWARP && c.state != undecided {
		return
	}
	h.wait = 0
	if len(h.ahead) > 0 {
		to = min(to, h.ahead[0].off)
	}
	r.hole(c, i, to, AnomalyHole)
	r.drain(c, i)
}

// data takes the payload of a segment at off.
func (r *Reader) data(c *tcpConn, i int, off int64, s *tcpSegment) {
	h := &c.half[i]
	h.stats.Segments++
	end := off + int64(s.length)
	switch {
	case off-h.next > farAhead || h.next-off > farBehind:
		return
	case s.length == 1 && off == h.next-1 && h.next > 0:
		h.stats.KeepAlives++
		r.anomaly(c, i, AnomalyKeepAlive, off, 1, "with an octet of garbage")
		return
	}
	b, length := s.payload[:min(len(s.payload), s.length)], s.length
	if off < h.next {
		n := min(end, h.next) - off
		h.stats.Retransmissions++
		h.stats.RetransmittedOctets += uint64(n)
		r.anomaly(c, i, AnomalyRetransmission, off, uint64(n), "")
		r.compare(c, i, off, b[:min(int64(len(b)), n)])
		if end <= h.next {
			return
		}
		b, length, off = b[min(int64(len(b)), n):], int(end-h.next), h.next
	}
	sp := span{off: off, frame: r.frameNumber, time: r.time, late: c.half[1-i].missing()}
	if off > h.next {
		h.stats.OutOfOrder++
		r.anomaly(c, i, AnomalyOutOfOrder, off, uint64(length), "")
		r.keep(c, i, chunk{sp, b, length})
	} else {
		r.deliver(c, i, chunk{sp, b, length})
	}
	r.drain(c, i)
}

// compare looks at octets that are here already.
func (r *Reader) compare(c *tcpConn, i int, off int64, b []byte) {
	h := &c.half[i]
	if skip := h.bufOff - off; skip > 0 {
		b, off = b[min(skip, int64(len(b))):], h.bufOff
	}
	if len(b) == 0 || off-h.bufOff >= int64(len(h.buf)) {
		return
	}
	r.differ(c, i, off, h.buf[off-h.bufOff:], b)
}

// differ reports the first octet that is not as it was before.
func (r *Reader) differ(c *tcpConn, i int, off int64, old, now []byte) {
	n := min(len(old), len(now))
	if bytes.Equal(old[:n], now[:n]) {
		return
	}
	k := 0
	for old[k] == now[k] {
		k++
	}
	c.half[i].stats.Overlaps++
	r.anomaly(c, i, AnomalyOverlap, off+int64(k), uint64(n-k),
		"an octet came again as "+hexOctet(now[k])+" and was "+hexOctet(old[k])+" first, which counts")
}

func hexOctet(b byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{'0', 'x', digits[b>>4], digits[b&15]})
}

// keep stores a segment that came early. Where it overlaps others, those count.
func (r *Reader) keep(c *tcpConn, i int, k chunk) {
	h := &c.half[i]
	at := sort.Search(len(h.ahead), func(j int) bool { return h.ahead[j].off+int64(h.ahead[j].length) > k.off })
	for k.length > 0 {
		end := k.off + int64(k.length)
		if at == len(h.ahead) || h.ahead[at].off >= end {
			h.store(at, k)
			break
		}
		old := &h.ahead[at]
		if n := old.off - k.off; n > 0 {
			piece := k
			piece.length = int(n)
			piece.data = k.data[:min(n, int64(len(k.data)))]
			at = h.store(at, piece)
			old = &h.ahead[at]
			k.skip(n)
		}
		if from := int(k.off - old.off); from < len(old.data) && len(k.data) > 0 {
			r.differ(c, i, k.off, old.data[from:], k.data)
		}
		k.skip(min(old.off+int64(old.length), end) - k.off)
		at++
	}
	if h.stored > r.opt.MaxBuffer || len(h.ahead) > maxAhead {
		r.hole(c, i, h.ahead[0].off, AnomalyHole)
	}
}

// skip drops n octets from the front.
func (k *chunk) skip(n int64) {
	k.off += n
	k.length -= int(n)
	k.data = k.data[min(n, int64(len(k.data))):]
}

// store inserts a copy of k and gives the index behind it.
func (h *half) store(at int, k chunk) int {
	k.data = bytes.Clone(k.data)
	full := len(h.ahead) == cap(h.ahead)
	if h.ahead = slices.Insert(h.ahead, at, k); full {
		h.room = cap(h.ahead)
	}
	h.stored += len(k.data) + 64 // with what an empty one costs
	return at + 1
}

// drain delivers what has become contiguous.
func (r *Reader) drain(c *tcpConn, i int) {
	h := &c.half[i]
	for len(h.ahead) > 0 && h.ahead[0].off <= h.next && c.state != done {
		k := h.ahead[0]
		h.ahead[0] = chunk{}
		if h.ahead = h.ahead[1:]; len(h.ahead) == 0 {
			h.ahead, h.room = nil, 0
		}
		h.stored -= len(k.data) + 64
		if n := h.next - k.off; n > 0 {
			if n >= int64(k.length) {
				continue
			}
			k.skip(n)
		}
		r.deliver(c, i, k)
	}
}

// deliver takes octets at next.
func (r *Reader) deliver(c *tcpConn, i int, k chunk) {
	h := &c.half[i]
	h.spans = append(h.spans, k.span)
	h.makeRoom(len(k.data))
	h.buf = append(h.buf, k.data...)
	h.next += int64(len(k.data))
	h.stats.Octets += uint64(len(k.data))
	h.wait = 0
	if len(k.data) > 0 {
		r.analyse(c, i)
	}
	if missing := k.length - len(k.data); missing > 0 && c.state != done {
		r.hole(c, i, h.next+int64(missing), AnomalyCut)
	}
}

// makeRoom drops history that is too old, now and then, before n octets are added.
func (h *half) makeRoom(n int) {
	used := int(h.cons - h.bufOff)
	if used <= history || len(h.buf)+n <= cap(h.buf) && used < 4*history {
		return
	}
	drop := used - history
	h.buf = h.buf[:copy(h.buf, h.buf[drop:])]
	h.bufOff += int64(drop)
	i := max(sort.Search(len(h.spans), func(i int) bool { return h.spans[i].off > h.bufOff })-1, 0)
	h.spans = slices.Delete(h.spans, 0, i)
}

// hole gives up the octets from next up to to.
func (r *Reader) hole(c *tcpConn, i int, to int64, what string) {
	h := &c.half[i]
	from := h.next
	n := uint64(to - from)
	h.stats.Holes++
	h.stats.HoleOctets += n
	r.anomaly(c, i, what, from, n, "")
	var last span
	if len(h.spans) > 0 {
		last = h.spans[len(h.spans)-1]
	}
	resume := to
	if c.state == isIWARP {
		resume = r.gap(c, i, to)
	}
	h.next, h.cons, h.bufOff = to, max(resume, to), to
	h.buf = h.buf[:0]
	h.spans = append(h.spans[:0], span{off: to - 1, frame: last.frame, time: last.time})
	if resume > to {
		h.m.skip = resume
		h.cons = to
	}
}
