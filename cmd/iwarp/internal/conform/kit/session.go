package kit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// stop ends a case from any depth, by panic.
type stop struct {
	status Status
	reason string
}

// session is one connection of a case, or of the check after it. Its methods that
// want something end the case if that does not come.
type session struct {
	ctx  context.Context
	k    *kit
	c    *Case
	wrap func(net.Conn) net.Conn
	log  []string

	p     *iwarptest.Peer
	mine  hello // the kit's frame
	their hello // the peer's
	receiver
	// noNudge leaves the first FPDU to the case.
	noNudge bool
	// interrupt no longer ends the connection with the run.
	interrupt func() bool
	// unreached says that no good connection could be made, here or afterwards.
	unreached bool
	// placed says that the case lawfully changes the peer's memory.
	placed bool
}

func (s *session) end(status Status, format string, args ...any) {
	panic(stop{status, fmt.Sprintf(format, args...)})
}

func (s *session) fail(format string, args ...any) { s.end(Fail, format, args...) }
func (s *session) notApplicable(format string, args ...any) {
	s.end(NotApplicable, format, args...)
}
func (s *session) unclear(format string, args ...any) { s.end(Inconclusive, format, args...) }

func (s *session) note(format string, args ...any) {
	const most = 200
	if len(s.log) < most {
		s.log = append(s.log, fmt.Sprintf(format, args...))
	}
}

// Helper, Fatalf and Cleanup make a session an iwarptest.TB.
func (s *session) Helper() {}

// Fatalf ends the case.
func (s *session) Fatalf(format string, args ...any) { s.fail(format, args...) }

// Cleanup does nothing: the kit closes the connection.
func (s *session) Cleanup(func()) {}

func (s *session) timeout() time.Duration { return s.k.o.Timeout }

// quietly is how long the kit listens for what must not come.
const quietly = 60 * time.Millisecond

// connect takes a connection and sends nothing.
func (s *session) connect() {
	ctx, cancel := context.WithTimeout(s.ctx, s.k.o.Wait)
	defer cancel()
	nc, err := s.k.connect(ctx)
	if err != nil {
		if s.ctx.Err() != nil {
			s.unclear(runEnded)
		}
		s.unreached = true
		s.end(s.k.noConnection(), "no connection: %v", err)
	}
	s.k.watch.reached()
	if s.wrap != nil {
		nc = s.wrap(nc)
	}
	if s.k.o.Gentle {
		nc = &gentleConn{Conn: nc} // goes on to its end: endpoints have crashed that were left in the middle of startup
	} else {
		s.interrupt = context.AfterFunc(s.ctx, func() { _ = nc.Close() })
	}
	s.p = iwarptest.NewPeer(s, nc)
	s.p.Timeout = s.timeout()
	s.receiver.init()
	s.note("connected")
}

// close ends the connection for good.
func (s *session) close() {
	if s.p != nil {
		if s.interrupt != nil {
			s.interrupt()
		}
		s.leave()
		_ = s.p.Conn.Close()
	}
}

// raw writes octets. That they could not be written shows in what comes next.
func (s *session) raw(what string, octets ...[]byte) {
	n := 0
	for _, o := range octets {
		n += len(o)
	}
	if err := s.p.TrySendRaw(octets...); err != nil {
		s.note("-> %s: %d octets: %v", what, n, err)
		return
	}
	s.note("-> %s: %d octets", what, n)
}

// send frames segments.
func (s *session) send(segments ...[]byte) {
	for _, seg := range segments {
		s.count(seg)
	}
	s.push(segments...)
}

// push is send for segments that need not keep to what was agreed.
func (s *session) push(segments ...[]byte) {
	for _, seg := range segments {
		s.note("-> %s", iwarptest.Describe(seg))
	}
	if err := s.p.TrySend(segments...); err != nil {
		s.note("   %v", err)
	}
}

// count counts a Request that is going to be sent. A peer that serves none cannot
// be judged by one.
func (s *session) count(seg []byte) {
	if !isRequest(seg) {
		return
	}
	if s.maxReads == 0 {
		s.notApplicable("no RDMA Reads were agreed: IRD or ORD is 0")
	}
	s.requests++
}

// wantReads ends a case that needs n Requests outstanding at once.
func (s *session) wantReads(n int) {
	if s.maxReads < n {
		s.notApplicable("the peer serves %d RDMA Reads at once, the case needs %d", s.maxReads, n)
	}
}

// isRequest reports whether the segment is a Read or an Atomic Request that is
// judged as one: both count against the peer's IRD.
func isRequest(seg []byte) bool {
	if len(seg) < 18 || seg[0]&0x83 != 1 || seg[1]>>6 != 1 || binary.BigEndian.Uint32(seg[6:]) != 1 {
		return false
	}
	op := seg[1] & 0xf
	return op == 1 || op == 10
}

// hello is a startup frame.
type hello struct {
	rev, flags byte
	block      bool
	a          bool
	rtr        byte // rtrSend, rtrWrite, rtrRead
	ird, ord   uint16
	pd         []byte // of the ULP
}

// Kinds of RTR, as flags B, C and D of RFC 6581 section 9.2.
const (
	rtrSend = 1 << iota
	rtrWrite
	rtrRead
)

func bit16(on bool, v uint16) uint16 {
	if on {
		return v
	}
	return 0
}

// data is the Private Data of the frame.
func (h hello) data() []byte {
	if !h.block {
		return h.pd
	}
	ird := h.ird | bit16(h.a, 0x8000) | bit16(h.rtr&rtrSend != 0, 0x4000)
	ord := h.ord | bit16(h.rtr&rtrWrite != 0, 0x8000) | bit16(h.rtr&rtrRead != 0, 0x4000)
	return iwarptest.Enhanced(ird, ord, h.pd)
}

func (h hello) allFlags() byte {
	if h.block {
		return h.flags | iwarptest.FlagS
	}
	return h.flags
}

func parseHello(frame []byte) hello {
	h := hello{rev: frame[17], flags: frame[16], pd: frame[20:]}
	if h.rev >= 2 && h.flags&iwarptest.FlagS != 0 && len(h.pd) >= 4 {
		ird, ord := binary.BigEndian.Uint16(h.pd), binary.BigEndian.Uint16(h.pd[2:])
		h.block, h.a = true, ird&0x8000 != 0
		h.rtr = byte(ird>>14&1)*rtrSend | byte(ord>>15)*rtrWrite | byte(ord>>14&1)*rtrRead
		h.ird, h.ord, h.pd = ird&protocol.NotNegotiated, ord&protocol.NotNegotiated, h.pd[4:]
		h.flags &^= iwarptest.FlagS
	}
	return h
}

func (h hello) String() string {
	s := fmt.Sprintf("rev %d flags %02x", h.rev, h.flags)
	if h.block {
		s += fmt.Sprintf(" A=%t RTR=%03b IRD=%d ORD=%d", h.a, h.rtr, h.ird, h.ord)
	}
	return s + fmt.Sprintf(" +%d octets", len(h.pd))
}

// base is the Request that the options ask for.
func (s *session) base() hello {
	h := hello{rev: s.k.rev, flags: iwarptest.FlagC}
	if s.k.o.NoCRC {
		h.flags = 0
	}
	if s.k.o.Markers {
		h.flags |= iwarptest.FlagM
	}
	if h.rev >= 2 {
		h.block, h.a, h.rtr, h.ird, h.ord = true, true, s.k.rtr, 16, 16
	}
	return h
}

// answerTo is the kit's Reply to a Request.
func (s *session) answerTo(r hello) hello {
	h := s.base()
	h.rev, h.block = r.rev, r.block
	if !h.block {
		return h
	}
	h.a, h.ird, h.ord = r.a, crosswise(16, r.ord), crosswise(16, r.ird)
	h.rtr = 0
	if h.a {
		if h.rtr = r.rtr & (rtrWrite | rtrRead); h.rtr == 0 {
			h.rtr = r.rtr
		}
		if h.rtr&rtrRead != 0 {
			h.ird = max(h.ird, 1)
		}
	}
	return h
}

func crosswise(mine, theirs uint16) uint16 {
	if theirs == protocol.NotNegotiated {
		return protocol.NotNegotiated
	}
	return min(mine, theirs)
}

// open does a whole startup, with the kit's frame changed by mods, up to the
// first FPDU.
func (s *session) open(mods ...func(*hello)) {
	if s.k.o.Role == Responder {
		s.openResponder(mods)
		return
	}
	s.connect()
	h := s.base()
	for _, mod := range mods {
		mod(&h)
	}
	o := s.exchange(h)
	switch o.kind {
	case replies:
	case rejects:
		s.notApplicable("the peer rejects %v", h)
	case closes:
		if len(mods) > 0 && h.flags&iwarptest.FlagM != 0 {
			s.notApplicable("the peer closes on %v", h)
		}
		fallthrough
	default:
		s.fail("a Request %v: the peer %v, where a Reply is due (RFC 5044 section 7.1.2)", h, o)
	}
	s.begin()
}

// exchange sends a Request and takes the Reply.
func (s *session) exchange(h hello) outcome {
	s.mine = h
	req := iwarptest.Request(h.allFlags(), h.rev, h.data())
	s.raw("Request "+h.String(), req)
	return s.awaitReply(req)
}

// awaitReply waits for a Reply to the Request.
func (s *session) awaitReply(req []byte) outcome {
	d := s.timeout()
	if s.k.o.Gentle { // a kernel may stop if the initiator goes before its program has accepted
		d = max(d, s.k.o.Patience)
	}
	reply, err := s.p.AwaitStartup(d)
	if err != nil {
		return startupOutcome(err)
	}
	s.their = parseHello(reply)
	s.note("<- startup frame %v", s.their)
	switch {
	case string(reply[:16]) != "MPA ID Rep Frame":
		s.fail("the peer answers with the key %q: a Reply has \"MPA ID Rep Frame\" (RFC 5044 section 7.1.1)",
			reply[:16])
	case reply[16]&iwarptest.FlagR != 0:
		return outcome{kind: rejects}
	}
	s.p.Agree(req, reply, true)
	s.replied()
	return outcome{kind: replies}
}

func startupOutcome(err error) outcome {
	var timeout net.Error
	switch {
	case errors.Is(err, io.EOF):
		return outcome{kind: closes, detail: "FIN"}
	case errors.As(err, &timeout) && timeout.Timeout():
		return outcome{kind: silent}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return outcome{kind: malformed, detail: "half a startup frame, then FIN"}
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return outcome{kind: closes, detail: "reset"}
	}
	return outcome{kind: malformed, detail: err.Error()}
}

// begin sends what opens the stream after the Reply: the RTR of a peer-to-peer
// connection, or an empty Write, so that the peer may send.
func (s *session) begin() {
	s.agreeReads()
	if s.noNudge {
		return
	}
	kind := byte(rtrWrite)
	if s.mine.block && s.their.block && s.mine.a && s.their.a {
		common := s.mine.rtr & s.their.rtr
		switch {
		case common&rtrWrite != 0:
		case common&rtrRead != 0:
			kind = rtrRead
		case common&rtrSend != 0:
			kind = rtrSend
		default:
			s.notApplicable("no kind of RTR is common: asked for %03b, got %03b", s.mine.rtr, s.their.rtr)
		}
	}
	s.rtr(kind)
	if kind != rtrRead {
		s.settle()
		return
	}
	// It takes a place among the Requests that the peer serves.
	if o, ok := s.pump(s.timeout(), func() bool { return s.requests == 0 }); !ok {
		s.fail("after a good startup and an RTR that is a Read: the peer %v (RFC 6581 section 9.2)", s.close2(o))
	}
}

// rtr sends an RTR.
func (s *session) rtr(kind byte) {
	switch kind {
	case rtrWrite:
		s.send(iwarptest.Write(0, 0, nil))
	case rtrRead:
		agreed := s.maxReads
		s.maxReads = max(agreed, 1) // it is allowed whatever was agreed (RFC 6581 section 9.1)
		s.readZero()
		s.maxReads = agreed
	case rtrSend:
		s.send(iwarptest.Send(s.msn(0), nil))
	}
}

// request takes the peer's Request.
func (s *session) request() []byte {
	for range 5 { // a client that has lost patience meanwhile has gone
		s.connect()
		req, err := s.p.AwaitStartup(s.timeout())
		if err == nil && string(req[:16]) == "MPA ID Req Frame" {
			s.their = parseHello(req)
			s.note("<- Request %v", s.their)
			return req
		}
		if o := (outcome{}); err == nil {
			s.fail("the peer's first frame has the key %q (RFC 5044 section 7.1.1)", req[:16])
		} else if o = startupOutcome(err); o.kind != closes {
			s.fail("the peer, which has connected, %v where a Request is due (RFC 5044 section 7.1.2): %v", o, err)
		}
		s.close()
	}
	s.unclear("the peer connects and closes without a Request")
	return nil
}

func (s *session) openResponder(mods []func(*hello)) {
	req := s.request()
	h := s.answerTo(s.their)
	for _, mod := range mods {
		mod(&h)
	}
	s.respond(req, h)
	if !s.noNudge {
		s.firstFrame()
	}
}

func (s *session) respond(req []byte, h hello) {
	s.mine = h
	reply := iwarptest.Reply(h.allFlags(), h.rev, h.data())
	s.raw("Reply "+h.String(), reply)
	s.p.Agree(req, reply, false)
	s.agreeReads()
}

// agreeReads finds out how many Requests the kit may have outstanding, by what the
// two have said. Where nothing was said it is one.
func (s *session) agreeReads() {
	s.maxReads = 1
	if s.their.block && s.their.ird != protocol.NotNegotiated {
		s.maxReads = int(min(s.their.ird, s.mine.ord))
	}
}

// firstFrame waits until the peer, an initiator, has opened the stream.
func (s *session) firstFrame() {
	if o, ok := s.pump(s.timeout(), func() bool { return s.frames > 0 }); !ok {
		if o.kind == silent && !(s.mine.block && s.mine.a) {
			s.notApplicable("the client sends nothing by itself")
		}
		s.fail("after a good Reply the peer %v: the initiator sends the first FPDU (RFC 5044 section 7.1.2)", o)
	}
}
