package analysis

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

// phase is what comes next in a direction.
type phase uint8

const (
	phaseStartup phase = iota // a startup frame, or where that was missed, FPDUs
	phaseWait                 // the startup frame is there: wait for that of the other end
	phaseFPDU
	phaseLost   // look for the next FPDU
	phaseStream // no MPA any more
)

// crcState says whether the connection uses CRCs.
type crcState uint8

const (
	crcUnknown crcState = iota
	crcOn
	crcOff
)

// analysis is what is known about an iWARP connection.
type analysis struct {
	number    int
	roles     bool
	a         int // half whose sender is A: the Initiator if roles
	midStream bool
	startup   [2]*mpa.Startup // of the half
	startupAt [2]span         // its last frame
	neg       *Negotiated
	crc       crcState
	badCRCs   int // while crc is not known
	depth     [2]int
	rtr       protocol.RTR
	verdicts  map[string]int
	reads     recorder
	atomics   recorder
	hints     []string
}

// mpaHalf is the analysis of a direction.
type mpaHalf struct {
	// The search for iWARP.
	seen    int64 // no startup frame before
	scanned int64 // no FPDU before
	trials  int
	maybe   bool
	tired   bool

	phase      phase
	base       int64 // offset of TCP at which Full Operation began
	marked     bool
	guessed    bool  // marked was not told by a startup frame
	foreign    bool  // Markers stand where the sender likes
	order      int   // of FPDUPTR, if foreign
	lastMarker int64 // offset from base
	need       int   // octets that must be pending before another look
	skip       int64
	fpdus      uint64
	lastAt     span     // of the last FPDU
	lost       int64    // where the FPDUs were lost
	d          *ddpHalf // of iWARP connections only
}

// open makes c an iWARP connection. a is the half of the Initiator, if roles, or of
// the first FPDU found.
func (r *Reader) open(c *tcpConn, a int, roles, midStream bool, at span, why string) {
	r.number++
	r.stats.IWARP++
	c.state = isIWARP
	c.an = &analysis{
		number: r.number, roles: roles, a: a, midStream: midStream,
		depth: [2]int{-1, -1}, verdicts: map[string]int{},
	}
	for i := range c.half {
		c.half[i].m.d = newDDPHalf()
		if midStream {
			c.half[i].m.d.forget()
		}
	}
	ends := [2]endpoint{c.key.a, c.key.b}
	h := c.headOf(EventOpened, -1, at)
	if at.frame == 0 {
		h = c.headOf(EventOpened, -1, r.now())
	}
	r.emit(&Opened{
		Head: h, A: ends[a].addrPort(), B: ends[1-a].addrPort(), Roles: roles, MidStream: midStream,
		Interface: c.iface, Why: why,
	})
}

// analyse takes what has come in half i.
func (r *Reader) analyse(c *tcpConn, i int) {
	switch c.state {
	case undecided:
		r.find(c, false)
	case isIWARP:
		r.run(c, i)
	}
}

// last takes what is there when nothing more comes.
func (r *Reader) last(c *tcpConn, i int) {
	h := &c.half[i]
	if c.state == undecided && len(h.pending()) > 0 {
		r.find(c, true)
	}
	if c.state != isIWARP {
		return
	}
	if h.m.phase == phaseWait || h.m.phase == phaseStartup && len(h.pending()) > 0 && c.an.startup[i] == nil {
		r.loseFPDUs(c, i)
	}
	r.runTo(c, i, true)
	n := len(h.pending())
	if h.m.phase == phaseFPDU && (n > 0 || h.m.skip > h.next) && !r.opt.NoAnomalies {
		detail := "the capture of this direction ends within an FPDU"
		if h.over() {
			detail = "its sender closed this direction by FIN within an FPDU"
		}
		r.anomaly(c, i, AnomalyUnfinished, h.cons, uint64(n), detail)
	} else if h.m.phase == phaseLost && n > 0 {
		r.anomaly(c, i, AnomalyLost, h.cons, uint64(n), "no FPDU in the last octets")
	}
}

func (r *Reader) run(c *tcpConn, i int) { r.runTo(c, i, false) }

// runTo makes steps until more octets are needed.
func (r *Reader) runTo(c *tcpConn, i int, last bool) {
	h := &c.half[i]
	m := &h.m
	for c.state == isIWARP {
		if m.skip > h.cons {
			h.cons = min(m.skip, h.next)
			if m.skip > h.cons {
				return
			}
		}
		if len(h.pending()) == 0 {
			return
		}
		var on bool
		switch m.phase {
		case phaseStartup:
			on = r.readStartup(c, i, last)
		case phaseWait:
			if h.next-h.cons > findOctets {
				r.loseFPDUs(c, i) // the other end's frame will not come
				on = true
			}
		case phaseFPDU:
			on = r.readFPDU(c, i)
		case phaseLost:
			on = r.resync(c, i, last)
		case phaseStream:
			h.cons = h.next
		}
		if !on {
			return
		}
	}
}

// readStartup reads the startup frame of half i.
func (r *Reader) readStartup(c *tcpConn, i int, last bool) bool {
	h, an := &c.half[i], c.an
	b := h.pending()
	if an.midStream || !an.roles {
		r.loseFPDUs(c, i)
		return true
	}
	want := mpa.Request
	if i != an.a {
		want = mpa.Reply
	}
	s, n, err := mpa.ParseStartup(b, want)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		if !last {
			return false
		}
		h.cons = h.next
		r.anomaly(c, i, AnomalyUnfinished, h.cons, uint64(len(b)), "the "+want.String()+" is not whole")
		return false
	case err != nil:
		if k := bytes.Index(b, startupKeys[want-mpa.Request].key); k > 0 {
			r.anomaly(c, i, AnomalyStreaming, h.cons, uint64(k), "octets before MPA startup")
			h.cons += int64(k)
			return true
		}
		r.badStartup(c, i, want, err)
		return true
	}
	first, latest, _ := h.spansOf(h.cons, h.cons+int64(n))
	s.PrivateData = bytes.Clone(s.PrivateData)
	ev := &StartupFrame{
		Head: c.headOf(EventStartup, i, latest), FirstFrame: first.frame, Kind: s.Kind.String(),
		Markers: s.Markers, CRC: s.CRC, Reject: s.Reject, Enhanced: s.Enhanced, Reserved: s.Reserved,
		Revision:    s.Revision,
		PrivateData: s.PrivateData, ULPData: s.ULPData(), Offset: uint64(h.cons), Octets: bytes.Clone(b[:n]),
	}
	if e, ok := s.Block(); ok {
		ev.Block = newBlock(e)
	}
	r.emit(ev)
	an.startup[i], an.startupAt[i] = &s, latest
	if s.CRC {
		an.crc = crcOn // whatever the other frame says
	}
	r.checkStartup(c, i, &s, ev.Octets)
	r.hintStartup(c, i, &s, latest)
	h.cons += int64(n)
	h.m.base, h.m.phase = h.cons, phaseWait
	if an.startup[1-i] != nil {
		r.negotiated(c, latest)
		r.run(c, 1-i)
	} else if want == mpa.Reply {
		// The Request is not in the capture, so that M of this direction is not known.
		r.loseFPDUs(c, i)
	}
	return true
}

// badStartup reports a frame that can never become valid.
func (r *Reader) badStartup(c *tcpConn, i int, want mpa.Kind, err error) {
	h, an := &c.half[i], c.an
	b := h.pending()
	rule, at := "MPA-7.1.1-01", 0
	if want == mpa.Reply {
		rule = "MPA-7.1.1-03"
	}
	seen := fmt.Sprintf("%x", b[:min(len(b), startupKeyLen)])
	if _, ok := startupKey(b); ok && len(b) >= mpa.StartupHeaderLen {
		if kind, _ := startupKey(b); kind == want {
			rule, at = "MPA-7.1.1-18", 18
			seen = fmt.Sprintf("PD_Length %d", binary.BigEndian.Uint16(b[18:]))
		}
	}
	// In mid-connection the Request may have been before the capture began, or the
	// capture lacks it.
	if at > 0 || h.syn && h.stats.Holes == 0 {
		r.verdict(c, i, rule, h.cons+int64(at), uint64(h.cons)+uint64(at), errText(err), seen)
	}
	an.startup[i] = nil
	r.loseFPDUs(c, i)
}

func errText(err error) string {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e.Detail
	}
	return err.Error()
}

// negotiated concludes from both frames, at the latter of the two.
func (r *Reader) negotiated(c *tcpConn, at span) {
	an := c.an
	a, b := an.a, 1-an.a
	req, rep := an.startup[a], an.startup[b]
	neg := &Negotiated{
		Head: c.headOf(EventNegotiated, -1, at), Accepted: !rep.Reject, Revision: rep.Revision,
		InitiatorMarkers: rep.Markers, ResponderMarkers: req.Markers, CRC: req.CRC || rep.CRC,
		InitiatorDepth: -1, ResponderDepth: -1, RTR: "none",
		RoundTrip: asTime(an.startupAt[b].time).Sub(asTime(an.startupAt[a].time)),
	}
	p, err := mpa.Conclude(req, rep, optionsOf(req))
	var refused *mpa.RejectError
	if err != nil && !errors.As(err, &refused) {
		neg.Problem = err.Error()
		var e *protocol.Error
		if errors.As(err, &e) && e.Code == protocol.MPAStartup && req.Revision != 0 {
			neg.Accepted = false
		}
	}
	if err == nil || p.Initiator {
		neg.Enhanced, neg.PeerToPeer, neg.RTR = p.Enhanced, p.PeerToPeer, p.RTR.String()
		an.rtr = p.RTR
		if !p.PeerToPeer {
			an.rtr = 0
		}
		neg.InitiatorDepth, neg.ResponderDepth = depths(req, rep)
	}
	an.depth[a], an.depth[b] = neg.InitiatorDepth, neg.ResponderDepth
	an.neg = neg
	an.crc = crcOff
	if neg.CRC {
		an.crc = crcOn
	}
	r.emit(neg)
	r.checkNegotiation(c, req, rep)
	for i, marked := range map[int]bool{a: rep.Markers, b: req.Markers} {
		m := &c.half[i].m
		if m.phase != phaseWait && (m.phase != phaseLost || m.fpdus > 0) {
			continue
		}
		m.marked = marked
		m.phase = phaseFPDU
		if rep.Reject {
			m.phase = phaseStream
		}
	}
	// If its sender had seen the Reply, the frames stand out of order in the file.
	if h := &c.half[a]; !rep.Reject && len(h.pending()) > 0 && h.spanAt(h.cons).frame < an.startupAt[b].frame &&
		!h.spanAt(h.cons).late && c.half[b].stats.Holes == 0 {
		r.verdict(c, a, "MPA-7.1.2-09", h.cons, 0, "no octet behind the Request before the Reply",
			fmt.Sprintf("%d octets", len(h.pending())))
	}
}

// optionsOf returns what an Initiator that sends this Request wants.
func optionsOf(req *mpa.Startup) *mpa.Options {
	o := &mpa.Options{
		Revision: req.Revision, Markers: req.Markers, NoCRC: !req.CRC, IRD: protocol.NotNegotiated,
		ORD: protocol.NotNegotiated,
	}
	if e, ok := req.Block(); ok {
		o.RTR, o.IRD, o.ORD = e.RTR, int(e.IRD), int(e.ORD)
	}
	return o
}

// depths returns how many Reads and atomics each end may have outstanding
// (https://www.rfc-editor.org/rfc/rfc6581#section-9.1), -1 where that was not
// negotiated.
func depths(req, rep *mpa.Startup) (initiator, responder int) {
	q, ok1 := req.Block()
	p, ok2 := rep.Block()
	if !ok1 || !ok2 {
		return -1, -1
	}
	return agreed(q.ORD, p.IRD), agreed(p.ORD, q.IRD)
}

func agreed(ord, ird uint16) int {
	if ord == protocol.NotNegotiated || ird == protocol.NotNegotiated {
		return -1
	}
	return int(min(ord, ird))
}
