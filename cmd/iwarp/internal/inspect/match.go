package inspect

import (
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
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
func firstFrame(e analysis.Event) uint64 {
	switch e := e.(type) {
	case *analysis.Message:
		return e.FirstFrame
	case *analysis.FPDU:
		return e.FirstFrame
	case *analysis.StartupFrame:
		return e.FirstFrame
	}
	return e.Header().Frame
}

// stagsOf lists the STags in the headers of a message or FPDU.
func stagsOf(e analysis.Event) (s []analysis.STag) {
	switch e := e.(type) {
	case *analysis.Message:
		return stagsOfMessage(e)
	case *analysis.FPDU:
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
				s = append(s, analysis.STag(a.STag))
			}
		}
	}
	return s
}

func stagsOfMessage(m *analysis.Message) (s []analysis.STag) {
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

func stagsOfHeader(h *ddp.Header) []analysis.STag {
	if h.Tagged {
		return []analysis.STag{analysis.STag(h.STag)}
	}
	if rdmap.Control(h.Control).Opcode().Invalidates() {
		return []analysis.STag{analysis.STag(h.ULP32)}
	}
	return nil
}

func stagsOfReadRequest(b []byte) []analysis.STag {
	r, _, err := rdmap.ParseReadRequest(b)
	if err != nil {
		return nil
	}
	return []analysis.STag{analysis.STag(r.SinkSTag), analysis.STag(r.SrcSTag)}
}

// isError reports whether e tells that something went wrong.
func isError(e analysis.Event) bool {
	switch e := e.(type) {
	case *analysis.StartupFrame:
		return e.Reject
	case *analysis.Negotiated:
		return !e.Accepted || e.Problem != ""
	case *analysis.FPDU:
		return e.CRC == "bad"
	case *analysis.Message:
		return e.Terminate != nil
	case *analysis.Verdict:
		return true
	case *analysis.Anomaly:
		switch e.What {
		case analysis.AnomalyRetransmission, analysis.AnomalyOutOfOrder, analysis.AnomalyKeepAlive,
			analysis.AnomalyStreaming:
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
	waiting []analysis.Event // until something matches
	shown   bool
}

// pass returns the events to be shown now, in order, because e has come.
func (g *gate) pass(e analysis.Event) []analysis.Event {
	h := e.Header()
	if !g.filter.conn(h.Conn) {
		return nil
	}
	if !g.filter.ofEvents() {
		return []analysis.Event{e}
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
	case *analysis.Closed:
		delete(g.conns, h.Conn)
		if c.shown {
			return []analysis.Event{e}
		}
		return nil
	case *analysis.Opened:
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
