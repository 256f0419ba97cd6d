package inspect

import (
	"bufio"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
)

// textSink writes for people: a line an event, in the order of the capture.
type textSink struct {
	w            *bufio.Writer
	out          *ui.Output // its styles
	hex, verdict bool
	start        time.Time // of the capture, as far as iWARP goes
	conns, rules int
	unnamed      map[int]*analysis.Opened // connections of which --verdict had nothing to say yet
	recommended  int                      // broken rules that are recommendations
}

const timeLayout = "2006-01-02 15:04:05.000000 MST"

func (t *textSink) event(e analysis.Event) error {
	if t.start.IsZero() {
		t.start = e.Header().Time
	}
	switch e := e.(type) {
	case *analysis.Opened:
		t.opened(e)
	case *analysis.Verdict:
		t.broken(e)
	case *analysis.Closed:
		t.closed(e)
	default:
		if !t.verdict {
			t.detail(e)
		}
	}
	return nil // bufio keeps it until Flush
}

// detail writes what --verdict leaves out.
func (t *textSink) detail(e analysis.Event) {
	switch e := e.(type) {
	case *analysis.StartupFrame:
		for i, s := range startupLines(e) {
			if i == 0 {
				t.line(&e.Head, s)
			} else {
				t.more(s)
			}
		}
		if t.hex {
			t.octets(e.Octets, e.Fields())
		}
	case *analysis.Negotiated:
		s := negotiatedWords(e)
		if !e.Accepted || e.Problem != "" {
			s = t.out.Red(s)
		}
		t.line(&analysis.Head{Conn: e.Conn, Frame: e.Frame, Time: e.Time}, s)
	case *analysis.Message:
		t.message(e)
	case *analysis.FPDU:
		if t.hex {
			t.line(&e.Head, fpduWords(e))
			t.octets(e.Octets, e.Fields())
		}
	case *analysis.Hint:
		t.line(&analysis.Head{Conn: e.Conn, Frame: e.Frame, Time: e.Time},
			fmt.Sprintf("what rides on it is probably %s: %s", e.Name, e.Why))
	case *analysis.Anomaly:
		t.line(&e.Head, t.out.Dim(anomalyWords(e)))
	}
}

func (t *textSink) message(m *analysis.Message) {
	if m.Terminate == nil {
		t.line(&m.Head, messageWords(m))
		return
	}
	t.line(&m.Head, t.out.Red(messageWords(m)))
	if s := offenderWords(m.Terminate); s != "" {
		t.more("the offending header: " + s)
	}
}

// line writes one line.
func (t *textSink) line(h *analysis.Head, s string) {
	arrow := "   "
	switch h.From {
	case analysis.Initiator, analysis.SideA:
		arrow = "-->"
	case analysis.Responder, analysis.SideB:
		arrow = "<--"
	}
	fmt.Fprintf(t.w, "%4d %7d %12s %s %s\n", h.Conn, h.Frame, seconds(h.Time.Sub(t.start)), arrow, s)
}

// more continues a line.
func (t *textSink) more(s string) { fmt.Fprintf(t.w, "%30s%s\n", "", s) }

func (t *textSink) opened(e *analysis.Opened) {
	t.conns++
	if t.verdict {
		if t.unnamed == nil {
			t.unnamed = map[int]*analysis.Opened{}
		}
		t.unnamed[e.Conn] = e
		return
	}
	fmt.Fprintf(t.w, "\n%s, from %s\n", t.out.Bold(connWords(e)), e.Time.UTC().Format(timeLayout))
	s := "found by " + e.Why
	if e.MidStream {
		s += "; it began before the capture"
	}
	fmt.Fprintf(t.w, "%s\n%s\n", t.out.Dim(s), t.out.Dim("conn   frame      seconds"))
}

// connWords says between whom a connection is.
func connWords(e *analysis.Opened) string {
	if !e.Roles {
		return fmt.Sprintf("Connection %d: %v (a) and %v (b)", e.Conn, e.A, e.B)
	}
	return fmt.Sprintf("Connection %d: %v (initiator) --> %v (responder)", e.Conn, e.A, e.B)
}

// broken writes a verdict.
func (t *textSink) broken(v *analysis.Verdict) {
	if mandatory(v) {
		t.rules++
	} else {
		t.recommended++
	}
	title := fmt.Sprintf("%s (%s, RFC %d section %s), octet %d", v.Rule, v.Level, v.RFC, v.Section, v.Offset)
	if !t.verdict {
		t.line(&v.Head, t.out.Red("rule broken: "+title))
		t.more(fmt.Sprintf("expected %s; seen: %s", v.Expected, v.Seen))
		return
	}
	if e := t.unnamed[v.Conn]; e != nil {
		fmt.Fprintf(t.w, "%s\n\n", t.out.Bold(connWords(e)))
		delete(t.unnamed, v.Conn)
	}
	fmt.Fprintf(t.w, "%s\n",
		t.out.Red(fmt.Sprintf("connection %d, frame %d, octet %d, from %s: %s", v.Conn, v.Frame, v.Offset,
			fromWords(v.From), v.Rule)))
	fmt.Fprintf(t.w, "  rule      %s: %s\n", v.Level, v.Summary)
	fmt.Fprintf(t.w, "  source    RFC %d section %s, %s\n", v.RFC, v.Section, v.URL())
	fmt.Fprintf(t.w, "  expected  %s\n  seen      %s\n\n", v.Expected, v.Seen)
}

// closed writes the totals of a connection.
func (t *textSink) closed(e *analysis.Closed) {
	c := &e.Conn
	if t.verdict {
		delete(t.unnamed, e.Header().Conn)
		return
	}
	fmt.Fprintf(t.w, "%s\n",
		t.out.Bold(fmt.Sprintf("Connection %d is %s: frames %d-%d, %v", c.Number, howWords(e.How), c.FirstFrame,
			c.LastFrame, ui.Round(c.End.Sub(c.Start)))))
	for i := range c.From {
		t.direction(sideWords(c.Roles, i), &c.From[i])
	}
	if c.Reads.Count > 0 {
		t.total("Reads", "from request to response "+latencyWords(&c.Reads))
	}
	if c.Atomics.Count > 0 {
		t.total("atomics", "from request to response "+latencyWords(&c.Atomics))
	}
	if len(c.Hints) > 0 {
		t.total("probably", strings.Join(c.Hints, ", "))
	}
	var rules []string
	for _, id := range slices.Sorted(maps.Keys(c.Verdicts)) {
		rules = append(rules, fmt.Sprintf("%s %d", id, c.Verdicts[id]))
	}
	if len(rules) > 0 {
		t.total("broken", t.out.Red(strings.Join(rules, ", ")))
	}
}

func (t *textSink) total(name, s string) { fmt.Fprintf(t.w, "  %-10s %s\n", name, s) }

// direction writes the totals of what one end sent.
func (t *textSink) direction(name string, s *analysis.DirStats) {
	if s.FPDUs == 0 && len(s.Messages) == 0 {
		t.total(name, fmt.Sprintf("sent %s and no FPDU", ui.Plural(s.Octets, "octet")))
		return
	}
	t.total(name,
		fmt.Sprintf("sent %s in %s; %s begin with an FPDU", ui.Plural(s.Octets, "octet"),
			ui.Plural(s.Segments, "TCP segment"), share(s.AlignedSegments, s.FPDUSegments)))
	crc := []string{}
	for _, c := range []struct {
		n    uint64
		what string
	}{{s.CRCGood, "CRC good"}, {s.CRCBad, "CRC bad"}, {s.CRCOff, "CRC not used"}} {
		if c.n > 0 {
			crc = append(crc, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	markers := ui.Word(s.Marked, ui.Plural(s.Markers, "Marker"), "no Markers")
	t.total("",
		fmt.Sprintf("%s: %s; %s; %s behind DDP headers", ui.Plural(s.FPDUs, "FPDU"),
			strings.Join(append(crc, markers), ", "), messageCounts(s.Messages), ui.Plural(s.PayloadOctets, "octet")))
	line := fmt.Sprintf("longest pause %v, after frame %d", ui.Round(s.Gap), s.GapFrame)
	if s.MaxOutstanding > 0 {
		line = fmt.Sprintf("at most %s outstanding; ", ui.Plural(s.MaxOutstanding, "Read or atomic")) + line
	}
	if s.Gap > 0 || s.MaxOutstanding > 0 {
		t.total("", line)
	}
	if tcp := tcpWords(s); tcp != "" {
		t.total("", tcp)
	}
}

func share(n, of uint64) string {
	if of == 0 {
		return "none"
	}
	return fmt.Sprintf("%d of %d (%.1f %%)", n, of, float64(n)*100/float64(of))
}

func messageCounts(m map[string]uint64) string {
	var parts []string
	for _, op := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%d %s", m[op], op))
	}
	if len(parts) == 0 {
		return "no whole message"
	}
	return strings.Join(parts, ", ")
}

// tcpWords tells what TCP had to do, "" if nothing.
func tcpWords(s *analysis.DirStats) string {
	var parts []string
	add := func(n uint64, unit, more string, octets uint64) {
		if n == 0 {
			return
		}
		p := ui.Plural(n, unit) + more
		if octets > 0 {
			p += fmt.Sprintf(" (%s)", ui.Plural(octets, "octet"))
		}
		parts = append(parts, p)
	}
	add(s.Retransmissions, "retransmission", "", s.RetransmittedOctets)
	add(s.OutOfOrder, "segment", " out of order", 0)
	add(s.Overlaps, "overlap", " with other octets", 0)
	add(s.KeepAlives, "keep-alive", "", 0)
	add(s.Holes, "hole", "", s.HoleOctets)
	return strings.Join(parts, ", ")
}

// end writes what concerns the whole file.
func (t *textSink) end(rd *analysis.Reader, err error) error {
	s := rd.Stats()
	if t.verdict {
		t.judgement(s.IWARP, err)
		return nil
	}
	frames := fmt.Sprintf("%s, %s", ui.Plural(s.Frames, "frame"), foundWords(&s))
	if t.conns < int(s.IWARP) {
		frames += fmt.Sprintf(", %d shown", t.conns)
	}
	for _, p := range []struct {
		n    uint64
		what string
	}{
		{s.NotIP, "not IP"},
		{s.NotTCP, "not TCP"},
		{s.Fragments, "IP fragments"},
		{s.Cut, "cut by the snap length"},
		{s.CutHeaders, "cut within their headers"},
	} {
		if p.n > 0 {
			frames += fmt.Sprintf("; %d %s", p.n, p.what)
		}
	}
	fmt.Fprintf(t.w, "\n%s\n", frames)
	return nil
}

// foundWords tells how many connections there are.
func foundWords(s *analysis.Stats) string {
	return fmt.Sprintf("%s with iWARP of %d over TCP", ui.Plural(s.IWARP, "connection"), s.Conns)
}

// judgement sums up the verdicts.
func (t *textSink) judgement(iwarp uint64, err error) {
	of := ui.Plural(t.conns, "connection")
	if t.conns < int(iwarp) {
		of += fmt.Sprintf(" of %d", iwarp)
	}
	s := fmt.Sprintf("%s: %s", of,
		ui.Word(t.rules == 0, t.out.Green("no rule was broken"),
			t.out.Red(fmt.Sprintf("rules were broken %d times", t.rules))))
	if t.rules == 1 {
		s = fmt.Sprintf("%s: %s", of, t.out.Red("a rule was broken once"))
	}
	if t.recommended > 0 {
		s += fmt.Sprintf("; recommendations %d times", t.recommended)
	}
	if err != nil {
		s += ", as far as the capture could be read"
	}
	fmt.Fprintln(t.w, s)
}
