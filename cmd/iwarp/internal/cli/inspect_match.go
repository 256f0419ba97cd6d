package cli

import (
	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/rdmap"
)

// headerOf parses the DDP header of a segment. payload follows it.
func headerOf(segment []byte) (h ddp.Header, payload []byte, ok bool) {
	h, n, err := ddp.Parse(segment)
	if err != nil {
		return h, nil, false
	}
	return h, segment[n:], true
}

// firstFrame is the frame with which what e tells began.
func firstFrame(e capture.Event) uint64 {
	switch e := e.(type) {
	case *capture.Message:
		return e.FirstFrame
	case *capture.FPDU:
		return e.FirstFrame
	case *capture.StartupFrame:
		return e.FirstFrame
	}
	return e.Header().Frame
}

// stagsOf lists the STags in the headers of a message or FPDU.
func stagsOf(e capture.Event) (s []capture.STag) {
	switch e := e.(type) {
	case *capture.Message:
		return stagsOfMessage(e)
	case *capture.FPDU:
		h, payload, ok := headerOf(e.ULPDU)
		if !ok {
			return nil
		}
		s = stagsOfHeader(&h)
		switch op := rdmap.Control(h.Control).Opcode(); {
		case op == rdmap.OpcodeReadRequest && !h.Tagged:
			s = append(s, stagsOfReadRequest(payload)...)
		case op == rdmap.OpcodeAtomicRequest && !h.Tagged:
			if a, _, err := rdmap.ParseAtomicRequest(payload); err == nil {
				s = append(s, capture.STag(a.STag))
			}
		}
	}
	return s
}

func stagsOfMessage(m *capture.Message) (s []capture.STag) {
	if m.Tagged {
		s = append(s, m.STag)
	}
	if m.Invalidate != nil {
		s = append(s, *m.Invalidate)
	}
	if r := m.ReadRequest; r != nil {
		s = append(s, r.SinkSTag, r.SrcSTag)
	}
	if a := m.AtomicRequest; a != nil {
		s = append(s, a.STag)
	}
	if a := m.Answers; a != nil && m.AtomicResponse == nil {
		s = append(s, a.SrcSTag)
	}
	if t := m.Terminate; t != nil {
		if h, _, ok := headerOf(t.DDPHeader); ok {
			s = append(s, stagsOfHeader(&h)...)
		}
		s = append(s, stagsOfReadRequest(t.RDMAPHeader)...)
	}
	return s
}

func stagsOfHeader(h *ddp.Header) []capture.STag {
	if h.Tagged {
		return []capture.STag{capture.STag(h.STag)}
	}
	if rdmap.Control(h.Control).Opcode().Invalidates() {
		return []capture.STag{capture.STag(h.ULP32)}
	}
	return nil
}

func stagsOfReadRequest(b []byte) []capture.STag {
	r, _, err := rdmap.ParseReadRequest(b)
	if err != nil {
		return nil
	}
	return []capture.STag{capture.STag(r.SinkSTag), capture.STag(r.SrcSTag)}
}

// isError reports whether e tells that something went wrong.
func isError(e capture.Event) bool {
	switch e := e.(type) {
	case *capture.StartupFrame:
		return e.Reject
	case *capture.Negotiated:
		return !e.Accepted || e.Problem != ""
	case *capture.FPDU:
		return e.CRC == "bad"
	case *capture.Message:
		return e.Terminate != nil
	case *capture.Verdict:
		return true
	case *capture.Anomaly:
		switch e.What {
		case capture.AnomalyRetransmission, capture.AnomalyOutOfOrder, capture.AnomalyKeepAlive, capture.AnomalyStreaming:
			return false // TCP at work
		}
		return true
	}
	return false
}

// gate lets through what a filter asks for. What is said of a connection at its
// start and at its end comes if anything of it does.
type gate struct {
	filter inspectFilter
	conns  map[int]*gatedConn // those that are open
}

type gatedConn struct {
	waiting []capture.Event // until something matches
	shown   bool
}

// pass gives the events to be shown now, in order, because e has come.
func (g *gate) pass(e capture.Event) []capture.Event {
	h := e.Header()
	if !g.filter.conn(h.Conn) {
		return nil
	}
	if !g.filter.ofEvents() {
		return []capture.Event{e}
	}
	c := g.conns[h.Conn]
	if c == nil {
		if g.conns == nil {
			g.conns = map[int]*gatedConn{}
		}
		c = &gatedConn{}
		g.conns[h.Conn] = c
	}
	switch e.(type) {
	case *capture.Closed:
		delete(g.conns, h.Conn)
		if c.shown {
			return []capture.Event{e}
		}
		return nil
	case *capture.Opened:
		if !c.shown {
			c.waiting = append(c.waiting, e)
			return nil
		}
	}
	if !g.filter.match(e) {
		return nil
	}
	out := append(c.waiting, e)
	c.waiting, c.shown = nil, true
	return out
}
