package inspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Events in words, without what stands in all of them: connection, frame, time,
// direction.

// startupLines tells all of a startup frame: the header, the block of RFC 6581 and
// the Private Data.
func startupLines(s *analysis.StartupFrame) []string {
	r := fmt.Sprintf("R=%d", bit(s.Reject))
	if s.Kind == "Reply" {
		r += ui.Word(s.Reject, " (rejected)", " (accepted)")
	}
	head := fmt.Sprintf("MPA %s: Rev %d, M=%d (%s) C=%d (%s) %s", s.Kind, s.Revision,
		bit(s.Markers), ui.Word(s.Markers, "the other end is to insert Markers", "no Markers wanted"),
		bit(s.CRC), ui.Word(s.CRC, "CRC wanted", "CRC not wanted"), r)
	if s.Revision >= 2 || s.Enhanced {
		head += fmt.Sprintf(" S=%d", bit(s.Enhanced))
	}
	lines := []string{head + fmt.Sprintf(" Res=%#x", s.Reserved)}
	if b := s.Block; b != nil {
		lines = append(lines, fmt.Sprintf("A=%d (%s) B=%d C=%d D=%d, IRD %s, ORD %s", bit(b.PeerToPeer),
			ui.Word(b.PeerToPeer, "peer-to-peer, RTR by "+b.RTR, "client-server"), bit(strings.Contains(b.RTR, "send")),
			bit(strings.Contains(b.RTR, "write")), bit(strings.Contains(b.RTR, "read")), depthWord(b.IRD), depthWord(
				b.ORD,
			)))
	}
	if n := len(s.ULPData); n > 0 {
		return append(lines, fmt.Sprintf("%s of Private Data: %s", ui.Plural(n, "octet"), privateWords(s.ULPData)))
	}
	return append(lines, "no Private Data")
}

// startupWords is startupLines in one line.
func startupWords(s *analysis.StartupFrame) string { return strings.Join(startupLines(s), "; ") }

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func depthWord(n int) string {
	if n < 0 || n >= protocol.NotNegotiated {
		return "not negotiated"
	}
	return fmt.Sprint(n)
}

// shownOctets is how much of private data and payloads a line shows.
const shownOctets = 32

func privateWords(b []byte) string {
	if len(b) > shownOctets {
		return ui.PrivateText(b[:shownOctets]) + "..."
	}
	return ui.PrivateText(b)
}

// negotiatedWords tells what startup came to.
func negotiatedWords(n *analysis.Negotiated) string {
	if !n.Accepted {
		s := "the connection does not come about"
		if n.Problem != "" {
			return s + ": " + n.Problem
		}
		return s + ": the Responder rejects it"
	}
	parts := []string{fmt.Sprintf("agreed: revision %d", n.Revision), "CRC " + ui.Word(n.CRC, "on", "off")}
	switch {
	case n.InitiatorMarkers && n.ResponderMarkers:
		parts = append(parts, "Markers both ways")
	case n.InitiatorMarkers:
		parts = append(parts, "Markers from the Initiator only")
	case n.ResponderMarkers:
		parts = append(parts, "Markers from the Responder only")
	default:
		parts = append(parts, "no Markers")
	}
	parts = append(parts, ui.Word(n.PeerToPeer, "peer-to-peer, RTR by "+n.RTR, "client-server"))
	parts = append(parts,
		"Reads at once: Initiator "+depthWord(n.InitiatorDepth)+", Responder "+depthWord(n.ResponderDepth))
	parts = append(parts, fmt.Sprintf("round trip %v", ui.Round(n.RoundTrip)))
	if n.Problem != "" {
		parts = append(parts, "but: "+n.Problem)
	}
	return strings.Join(parts, ", ")
}

// messageWords tells of a message.
func messageWords(m *analysis.Message) string {
	s := m.Op + ": " + messageDetail(m)
	if m.Segments > 1 {
		s += fmt.Sprintf("; %d segments in ", m.Segments)
		if m.FirstFrame == m.Frame {
			s += fmt.Sprintf("frame %d", m.Frame)
		} else {
			s += fmt.Sprintf("frames %d-%d", m.FirstFrame, m.Frame)
		}
		if d := m.Time.Sub(m.Start); d > 0 {
			s += fmt.Sprintf(", %v", ui.Round(d))
		}
	}
	if m.RTR {
		s += " [RTR]"
	}
	if m.Partial {
		s += " [not all of it is in the capture]"
	} else if m.Cut {
		s += " [payload cut by the snap length]"
	}
	return s
}

func messageDetail(m *analysis.Message) string {
	switch {
	case m.Terminate != nil:
		text, _, _ := strings.Cut(m.Terminate.Text, ": caused by ") // offenderWords tells more
		return text
	case m.ReadRequest != nil:
		r := m.ReadRequest
		return fmt.Sprintf("MSN %d, %s from STag %v, TO %#x into STag %v, TO %#x", m.MSN,
			ui.Plural(uint64(r.Size), "octet"), r.SrcSTag, r.SrcTO, r.SinkSTag, r.SinkTO)
	case m.AtomicRequest != nil:
		return fmt.Sprintf("MSN %d, %s", m.MSN, atomicWords(m.AtomicRequest))
	case m.AtomicResponse != nil:
		return fmt.Sprintf("MSN %d, identifier %d, it was %#x%s", m.MSN, m.AtomicResponse.ID, m.AtomicResponse.Original,
			answerWords(m))
	case m.Immediate != nil:
		return fmt.Sprintf("%#x, MSN %d", *m.Immediate, m.MSN)
	case m.Tagged && rdmap.Opcode(m.Opcode) == rdmap.OpcodeReadResponse:
		return fmt.Sprintf("%s into STag %v, TO %#x%s", ui.Plural(m.Length, "octet"), m.STag, m.TO, answerWords(m))
	case m.Tagged:
		return fmt.Sprintf("%s to STag %v, TO %#x", ui.Plural(m.Length, "octet"), m.STag, m.TO)
	}
	s := fmt.Sprintf("%s, QN %d, MSN %d", ui.Plural(m.Length, "octet"), m.QN, m.MSN)
	if m.Invalidate != nil {
		s += fmt.Sprintf(", invalidates STag %v", *m.Invalidate)
	}
	return s
}

func atomicWords(a *analysis.AtomicRequest) string {
	s := fmt.Sprintf("%s on STag %v, TO %#x, identifier %d: ", a.Op, a.STag, a.TO, a.ID)
	const all = ^uint64(0)
	if a.Op == rdmap.AtomicFetchAdd.String() {
		s += fmt.Sprintf("add %#x", a.Data)
		if a.Mask != 0 {
			s += fmt.Sprintf(" mask %#x", a.Mask)
		}
		return s
	}
	s += fmt.Sprintf("compare %#x, swap in %#x", a.Compare, a.Data)
	if a.CompareMask != all || a.Mask != all {
		s += fmt.Sprintf(", masks %#x, %#x", a.CompareMask, a.Mask)
	}
	return s
}

func answerWords(m *analysis.Message) string {
	if a := m.Answers; a != nil {
		return fmt.Sprintf(", answers MSN %d of frame %d after %v", a.MSN, a.RequestFrame, ui.Round(a.Latency))
	}
	return ", answers no request that is in the capture"
}

// offenderWords decodes the headers that a Terminate echoes, "" if it has none.
func offenderWords(t *analysis.Terminate) string {
	h, _, ok := headerOf(t.DDPHeader)
	if !ok {
		if t.SegmentLength >= 0 {
			return fmt.Sprintf("a DDP segment of %s, whose header is not echoed", ui.Plural(t.SegmentLength, "octet"))
		}
		return ""
	}
	s := headerWords(&h)
	if r, _, err := rdmap.ParseReadRequest(t.RDMAPHeader); err == nil {
		s += fmt.Sprintf(", of %s from STag %v, TO %#x into STag %v, TO %#x", ui.Plural(uint64(r.Size), "octet"),
			r.SrcSTag, r.SrcTO, r.SinkSTag, r.SinkTO)
	}
	s += fmt.Sprintf("; a segment of %s, the message's %s", ui.Plural(max(t.SegmentLength, 0), "octet"),
		ui.Word(h.Last, "last", "not its last"))
	if t.OffenderFrame > 0 {
		s += fmt.Sprintf(", frame %d", t.OffenderFrame)
	} else {
		s += ", not in the capture"
	}
	return s
}

func headerWords(h *ddp.Header) string {
	op := rdmap.Control(h.Control).Opcode()
	if h.Tagged {
		return fmt.Sprintf("%v to STag %v, TO %#x", op, h.STag, h.TO)
	}
	return fmt.Sprintf("%v, QN %d, MSN %d, MO %d", op, h.QN, h.MSN, h.MO)
}

func anomalyWords(a *analysis.Anomaly) string {
	s := fmt.Sprintf("%s: octet %d of the stream", a.What, a.Offset)
	if a.Length > 0 {
		s = fmt.Sprintf("%s: %s at octet %d of the stream", a.What, ui.Plural(a.Length, "octet"), a.Offset)
	}
	if a.Detail != "" {
		s += "; " + a.Detail
	}
	return s
}

func howWords(how string) string {
	switch how {
	case "fin":
		return "closed by FIN"
	case "reset":
		return "reset"
	case "end of capture":
		return "still open at the end of the capture"
	case "evicted":
		return "given up, since too many others were open or held too much"
	case "reused":
		return "over: its ports are used anew"
	}
	return how
}

// latencyWords returns percentiles.
func latencyWords(l *analysis.Latency) string {
	return fmt.Sprintf("min %v, median %v, 90 %% %v, 99 %% %v, max %v (%d)", ui.Round(l.Min), ui.Round(l.P50),
		ui.Round(l.P90), ui.Round(l.P99), ui.Round(l.Max), l.Count)
}

// sideWords names an end.
func sideWords(roles bool, i int) string {
	if roles {
		return [2]string{"initiator", "responder"}[i]
	}
	return [2]string{"end a", "end b"}[i]
}

// fromWords names the end that sent something.
func fromWords(s analysis.Side) string {
	switch s {
	case analysis.SideA, analysis.SideB:
		return "end " + s.String()
	}
	return "the " + s.String()
}

// seconds returns a time from the start of the capture.
func seconds(d time.Duration) string { return fmt.Sprintf("%.6f", d.Seconds()) }
