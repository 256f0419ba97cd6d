package analysis

import (
	"bytes"
	"io"
	"time"

	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/mpa"
)

// ReaderOptions are those of [Open]. Nil, and zero in a field, mean the documented
// default.
type ReaderOptions struct {
	// Decompress undoes a compression that the standard library does not know; f
	// is [capture.FormatZstd]. Default: an error.
	Decompress func(f capture.Format, r io.Reader) (io.Reader, error)
	// FPDUs asks for an [FPDU] event for each FPDU, before that of its message.
	FPDUs bool
	// Payload is how many octets of each message's payload to keep in
	// [Message].Payload; -1 means up to 1 GiB. Default 0.
	Payload int
	// MaxConns is how many TCP connections are followed at a time; beyond it, the
	// one that was quiet longest is given up. Default 16384.
	MaxConns int
	// MaxBuffer is how many octets a direction of TCP may have waiting behind a
	// hole before the hole is given up. Default 8 MiB.
	MaxBuffer int
	// MaxMemory is how many octets of memory all connections together may take, what
	// the garbage collector has still to take back included: as it is set by default
	// (GOGC=100), that may be half of it. Beyond it, too, the connections that were
	// quiet longest are given up. Default 256 MiB.
	MaxMemory int
	// NoVerdicts leaves the rules unchecked.
	NoVerdicts bool
	// NoAnomalies leaves out the [Anomaly] events; they are counted still.
	NoAnomalies bool
}

// Stats counts what a [Reader] has read so far.
type Stats struct {
	Frames uint64 `json:"frames"`
	Octets uint64 `json:"octets"` // captured, without the file's own headers
	TCP    uint64 `json:"tcp"`
	// NotIP counts frames without IP, or of a link type that is not known, NotTCP
	// those with another protocol over IP.
	NotIP  uint64 `json:"not_ip"`
	NotTCP uint64 `json:"not_tcp"`
	// Fragments counts IP fragments. They are not reassembled.
	Fragments uint64 `json:"fragments"`
	// Cut counts frames whose end the snap length cut off, CutHeaders those of
	// which not even the headers are there.
	Cut        uint64 `json:"cut"`
	CutHeaders uint64 `json:"cut_headers"`
	// Conns are TCP connections, IWARP those with iWARP on them.
	Conns uint64 `json:"conns"`
	IWARP uint64 `json:"iwarp"`
}

// Reader finds the iWARP connections in a capture. It is not for several
// goroutines at once. Its memory is bounded by the options, not by the size of the
// capture.
type Reader struct {
	opt         ReaderOptions
	file        *capture.Reader
	pkt         capture.Packet
	frameNumber uint64 // of pkt, from 1
	time        int64  // of pkt, in nanoseconds since 1970
	stats       Stats
	conns       map[connKey]*tcpConn
	recent      *tcpConn // of the last segment
	lru         tcpConn  // head of a ring; next is the most recent one
	number      int
	memory      int // of all connections, about, without garbage
	queue       []Event
	head        int
	err         error
	seg         tcpSegment
	mute        bool // what an FPDU with a wrong CRC says is no ground for a verdict
	// Scratch memory.
	scratch []byte
	markers []int
}

// Defaults of [ReaderOptions].
const (
	DefaultMaxConns  = 1 << 14
	DefaultMaxBuffer = 8 << 20
	DefaultMaxMemory = 256 << 20

	maxPayload = 1 << 30
)

// Open starts to read a capture: pcap with times in micro- or nanoseconds or
// pcapng, in either octet order, plain or compressed with gzip. It reads the file's
// head, and blocks if r does. The error is a *[capture.FileError].
//
// r may be a file that still grows: Next blocks as long as r's Read does. Reads are
// large; give r no buffer of its own.
func Open(r io.Reader, o *ReaderOptions) (*Reader, error) {
	rd := &Reader{conns: map[connKey]*tcpConn{}}
	if o != nil {
		rd.opt = *o
	}
	if rd.opt.MaxConns <= 0 {
		rd.opt.MaxConns = DefaultMaxConns
	}
	if rd.opt.MaxBuffer <= 0 {
		rd.opt.MaxBuffer = DefaultMaxBuffer
	}
	if rd.opt.MaxMemory <= 0 {
		rd.opt.MaxMemory = DefaultMaxMemory
	}
	if rd.opt.Payload < 0 {
		rd.opt.Payload = maxPayload
	}
	rd.lru.prev, rd.lru.next = &rd.lru, &rd.lru
	file, err := capture.NewReader(r, &capture.ReaderOptions{Decompress: rd.opt.Decompress})
	if err != nil {
		return nil, err
	}
	rd.file = file
	return rd, nil
}

// Next returns the next event. At the end of the capture it returns [io.EOF], and
// where the capture is cut or corrupt a *[capture.FileError], in both cases after all
// events of what could be read, a [Closed] for each connection among them. The
// error is given again by later calls.
func (r *Reader) Next() (Event, error) {
	for r.head == len(r.queue) {
		r.queue, r.head = r.queue[:0], 0
		if r.err == nil {
			r.err = r.file.Next(&r.pkt)
		}
		c := r.lru.prev
		switch {
		case r.err == nil:
			r.frame()
		case c == &r.lru:
			return nil, r.err
		default: // one at a time, the one that is quiet longest first
			r.finish(c, "end of capture")
			r.forget(c)
		}
	}
	e := r.queue[r.head]
	r.queue[r.head] = nil
	r.head++
	return e, nil
}

// Stats returns the counts so far.
func (r *Reader) Stats() Stats { return r.stats }

// Info describes the file as far as it was read.
func (r *Reader) Info() capture.FileInfo { return r.file.Info() }

// frame takes r.pkt.
func (r *Reader) frame() {
	p := &r.pkt
	r.frameNumber++
	r.time = p.Time.UnixNano()
	r.stats.Frames++
	r.stats.Octets += uint64(len(p.Data))
	if p.Length > len(p.Data) {
		r.stats.Cut++
	}
	b := network(p.Link, p.Data)
	if b == nil {
		r.stats.NotIP++
		return
	}
	switch parseIP(b, p.Length-len(p.Data), &r.seg) {
	case isTCP:
		r.stats.TCP++
		if r.seg.fragment {
			r.stats.Fragments++
		}
		r.segment(&r.seg)
	case notIP:
		r.stats.NotIP++
	case notTCP:
		r.stats.NotTCP++
	case isFragment:
		r.stats.Fragments++
	case isCut:
		r.stats.CutHeaders++
	}
}

// lookup returns the connection of a segment, nil if it is not worth one.
func (r *Reader) lookup(k connKey, s *tcpSegment) *tcpConn {
	c := r.recent
	if c == nil || c.key != k {
		c = r.conns[k]
	}
	if c == nil {
		if s.flags&flagSYN == 0 && s.length == 0 || s.flags&flagRST != 0 {
			return nil
		}
		if len(r.conns) >= r.opt.MaxConns {
			r.evict()
		}
		c = &tcpConn{key: k, iface: r.pkt.Interface, first: r.frameNumber, firstTime: r.time, resetBy: -1}
		c.half[0].fin, c.half[1].fin = -1, -1
		r.conns[k] = c
		r.stats.Conns++
	} else if c != r.lru.next {
		c.prev.next, c.next.prev = c.next, c.prev
	}
	if c != r.lru.next {
		c.prev, c.next = &r.lru, r.lru.next
		c.prev.next, c.next.prev = c, c
	}
	r.recent = c
	return c
}

// evict gives up the connection that was quiet longest.
func (r *Reader) evict() {
	old := r.lru.prev
	r.finish(old, "evicted")
	r.forget(old)
}

// account keeps the memory of all connections within its bound; that of c has
// changed.
func (r *Reader) account(c *tcpConn) {
	r.measure(c)
	for r.memory > r.opt.MaxMemory/2 && r.lru.prev != &r.lru {
		r.evict()
	}
}

// measure brings the sum up to date.
func (r *Reader) measure(c *tcpConn) {
	n := c.size()
	r.memory += n - c.memory
	c.memory = n
}

func (r *Reader) forget(c *tcpConn) {
	r.memory -= c.memory
	c.memory = 0
	delete(r.conns, c.key)
	c.prev.next, c.next.prev = c.next, c.prev
	if r.recent == c {
		r.recent = nil
	}
}

// reconsider looks at a segment of a connection without iWARP so far: a startup
// frame at its beginning makes it one, since MPA may follow other traffic
// (https://www.rfc-editor.org/rfc/rfc5044#section-7.1).
func (r *Reader) reconsider(c *tcpConn, i int, s *tcpSegment) bool {
	if s.flags&flagRST != 0 || !startsMPA(s.payload) {
		return false
	}
	c.state = undecided
	c.half[1-i] = half{fin: -1}
	c.half[i] = half{fin: -1, known: true, base: s.seq}
	return true
}

// finish ends the analysis of a connection.
func (r *Reader) finish(c *tcpConn, how string) {
	if c.state == done {
		return
	}
	for i := range c.half {
		r.flush(c, i)
	}
	if c.state == isIWARP {
		r.closed(c, how)
	}
	c.state = done
	c.an = nil
	c.half[0], c.half[1] = half{fin: -1}, half{fin: -1}
	r.measure(c)
}

// flush takes what waits behind holes, in vain now.
func (r *Reader) flush(c *tcpConn, i int) {
	if c.state == ignored || c.state == done {
		return
	}
	h := &c.half[i]
	for len(h.ahead) > 0 {
		r.hole(c, i, h.ahead[0].off, AnomalyHole)
		r.drain(c, i)
	}
	to := h.acked
	if h.fin >= 0 {
		to = min(to, h.fin)
	}
	if to > h.next+1 || h.fin >= 0 && to > h.next { // one more may be a FIN
		r.hole(c, i, to, AnomalyHole)
	}
	r.last(c, i)
}

func (r *Reader) emit(e Event) { r.queue = append(r.queue, e) }

func asTime(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// headOf makes the Head of an event that half i of c is the cause of; i is -1 if
// none is.
func (c *tcpConn) headOf(event string, i int, s span) Head {
	return Head{Event: event, Conn: c.an.number, Frame: s.frame, Time: asTime(s.time), From: c.side(i)}
}

func (c *tcpConn) side(i int) Side {
	switch {
	case i < 0:
		return SideNone
	case c.an.roles && i == c.an.a:
		return Initiator
	case c.an.roles:
		return Responder
	case i == c.an.a:
		return SideA
	}
	return SideB
}

// now is the frame that is being read.
func (r *Reader) now() span { return span{frame: r.frameNumber, time: r.time} }

func (r *Reader) anomaly(c *tcpConn, i int, what string, off int64, n uint64, detail string) {
	if c.state != isIWARP || r.opt.NoAnomalies {
		return
	}
	r.emit(&Anomaly{
		Head: c.headOf(EventAnomaly, i, r.now()), What: what, Offset: uint64(max(off, 0)), Length: n, Detail: detail,
	})
}

// startsMPA reports whether b begins with the key of a startup frame.
func startsMPA(b []byte) bool {
	_, ok := startupKey(b)
	return ok
}

var startupKeys = [...]struct {
	key  []byte
	kind mpa.Kind
}{{[]byte("MPA ID Req Frame"), mpa.Request}, {[]byte("MPA ID Rep Frame"), mpa.Reply}}

const startupKeyLen = 16

func startupKey(b []byte) (mpa.Kind, bool) {
	for _, k := range startupKeys {
		if bytes.HasPrefix(b, k.key) {
			return k.kind, true
		}
	}
	return 0, false
}
