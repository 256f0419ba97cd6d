package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/rdmap"
)

// report collects what --html shows. Its memory is bounded, whatever the size of
// the capture: of each connection the first and the last messages are kept, and
// plots have a fixed number of points.
type report struct {
	file, name string
	out        *ui.Output
	start      time.Time
	conns      []*reportConn // shown
	open       map[int]*reportConn
	hidden     int // connections beyond maxReportConns
	rows       int // of all connections
	rules      int
}

// What a page holds at most.
const (
	maxReportConns    = 500
	maxReportRows     = 40000
	maxHeadRows       = 1000
	maxTailRows       = 250
	maxReportVerdicts = 500
)

func newReport(file, name string, out *ui.Output) *report {
	return &report{file: file, name: name, out: out, open: map[int]*reportConn{}}
}

// reportConn is one connection.
type reportConn struct {
	opened      *analysis.Opened
	startup     []*analysis.StartupFrame
	negotiated  *analysis.Negotiated
	closed      *analysis.Closed
	hints       []string
	head        []reportRow
	tail        []reportRow // a ring
	oldest      int         // in it
	messages    int         // and notes, those without a row too
	verdicts    []*analysis.Verdict
	broken      int
	rate        [2]series // octets on the wire, of each end
	reads       [2]series // outstanding
	outstanding [2]int
	origin      time.Time
}

// reportRow is a line of the sequence diagram.
type reportRow struct {
	at    time.Duration // since the start of the capture
	first uint64
	frame uint64
	from  int // 0: left to right, 1: right to left, -1: a note
	class string
	label string
	full  string
}

func (r *report) event(e analysis.Event) error {
	h := e.Header()
	if r.start.IsZero() {
		r.start = h.Time
	}
	c := r.open[h.Conn]
	if o, ok := e.(*analysis.Opened); ok {
		if len(r.conns) >= maxReportConns {
			r.hidden++
			return nil
		}
		c = &reportConn{opened: o, origin: o.Time}
		r.open[h.Conn] = c
		r.conns = append(r.conns, c)
	}
	if v, ok := e.(*analysis.Verdict); ok && mandatory(v) {
		r.rules++
	}
	if c == nil {
		return nil
	}
	r.take(c, e)
	return nil
}

// take adds an event to its connection.
func (r *report) take(c *reportConn, e analysis.Event) {
	switch e := e.(type) {
	case *analysis.StartupFrame:
		c.startup = append(c.startup, e)
		r.row(c, e, "startup",
			fmt.Sprintf("MPA %s, Rev %d, M=%d C=%d R=%d", e.Kind, e.Revision, bit(e.Markers), bit(e.CRC),
				bit(e.Reject)),
			startupWords(e))
	case *analysis.Negotiated:
		c.negotiated = e
		r.note(c, e, ui.Word(e.Accepted && e.Problem == "", "startup", "error"), negotiatedWords(e))
	case *analysis.FPDU:
		if i := endOf(e.From); i >= 0 {
			c.rate[i].add(e.Time.Sub(c.origin), uint64(e.Length))
		}
	case *analysis.Message:
		c.message(e)
		r.row(c, e, rowClass(e), rowLabel(e), rowWords(e))
	case *analysis.Verdict:
		c.broken++
		if len(c.verdicts) < maxReportVerdicts {
			c.verdicts = append(c.verdicts, e)
		}
	case *analysis.Hint:
		c.hints = append(c.hints, e.Name+": "+e.Why)
	case *analysis.Anomaly:
		if isError(e) {
			r.note(c, e, "anomaly", anomalyWords(e))
		}
	case *analysis.Closed:
		c.closed = e
		delete(r.open, e.Header().Conn)
		r.note(c, e, "note", howWords(e.How))
	}
}

// endOf is 0 for the end that is drawn left, 1 for the other one.
func endOf(s analysis.Side) int {
	switch s {
	case analysis.Initiator, analysis.SideA:
		return 0
	case analysis.Responder, analysis.SideB:
		return 1
	}
	return -1
}

// message follows what is outstanding.
func (c *reportConn) message(m *analysis.Message) {
	i := endOf(m.From)
	if i < 0 {
		return
	}
	at := m.Time.Sub(c.origin)
	switch {
	case m.ReadRequest != nil || m.AtomicRequest != nil:
		c.outstanding[i]++
		c.reads[i].level(at, c.outstanding[i])
	case m.Answers != nil && c.outstanding[1-i] > 0:
		c.outstanding[1-i]--
		c.reads[1-i].level(at, c.outstanding[1-i])
	}
}

// rowClass is the CSS class of a message's arrow.
func rowClass(m *analysis.Message) string {
	switch op := rdmap.Opcode(m.Opcode); op {
	case rdmap.OpcodeWrite:
		return "write"
	case rdmap.OpcodeReadRequest, rdmap.OpcodeReadResponse:
		return "read"
	case rdmap.OpcodeAtomicRequest, rdmap.OpcodeAtomicResponse:
		return "atomic"
	case rdmap.OpcodeTerminate:
		return "error"
	}
	return "send"
}

// rowLabel is what stands at an arrow.
func rowLabel(m *analysis.Message) string {
	s := m.Op
	switch {
	case m.Terminate != nil:
		s += fmt.Sprintf(" %d/%d/%02x", m.Terminate.Layer, m.Terminate.Type, m.Terminate.Code)
	case m.ReadRequest != nil:
		s += fmt.Sprintf(" MSN %d, %s", m.MSN, ui.Plural(uint64(m.ReadRequest.Size), "octet"))
	case m.AtomicRequest != nil:
		s += fmt.Sprintf(" MSN %d, %s", m.MSN, m.AtomicRequest.Op)
	case m.Immediate != nil:
		s += fmt.Sprintf(" %#x", *m.Immediate)
	case m.AtomicResponse != nil:
		s += fmt.Sprintf(" %#x", m.AtomicResponse.Original)
	case m.Tagged:
		s += fmt.Sprintf(", %s to %v", ui.Plural(m.Length, "octet"), m.STag)
	default:
		s += fmt.Sprintf(" MSN %d, %s", m.MSN, ui.Plural(m.Length, "octet"))
	}
	if m.Invalidate != nil {
		s += fmt.Sprintf(", invalidates %v", *m.Invalidate)
	}
	if m.Answers != nil {
		s += fmt.Sprintf(", after %v", ui.Round(m.Answers.Latency))
	}
	if m.RTR {
		s += " [RTR]"
	}
	if m.Partial {
		s += " [incomplete]"
	}
	return s
}

func rowWords(m *analysis.Message) string {
	s := messageWords(m)
	if m.Terminate != nil {
		if o := offenderWords(m.Terminate); o != "" {
			s += "; the offending header: " + o
		}
	}
	return s
}

// row adds an arrow to the diagram.
func (r *report) row(c *reportConn, e analysis.Event, class, label, full string) {
	r.add(c, e, endOf(e.Header().From), class, label, full)
}

// note adds a line of text without an arrow.
func (r *report) note(c *reportConn, e analysis.Event, class, text string) {
	const longest = 96 // what fits the diagram
	label := text
	if runes := []rune(text); len(runes) > longest {
		label = strings.TrimSpace(string(runes[:longest])) + "..."
	}
	r.add(c, e, -1, class, label, text)
}

func (r *report) add(c *reportConn, e analysis.Event, from int, class, label, full string) {
	h := e.Header()
	c.messages++
	row := reportRow{
		at: h.Time.Sub(r.start), first: firstFrame(e), frame: h.Frame, from: from, class: class, label: label,
		full: full,
	}
	switch {
	case len(c.head) < maxHeadRows && r.rows < maxReportRows:
		c.head = append(c.head, row)
		r.rows++
	case len(c.tail) < maxTailRows:
		c.tail = append(c.tail, row)
	default:
		c.tail[c.oldest] = row
		c.oldest = (c.oldest + 1) % maxTailRows
	}
}

// tailRows returns the last rows in order.
func (c *reportConn) tailRows() []reportRow {
	return slices.Concat(c.tail[c.oldest:], c.tail[:c.oldest])
}

// reportEvent tells that the page is there.
type reportEvent struct {
	File        string `json:"file"`
	Octets      int    `json:"octets"`
	Connections int    `json:"connections"`
}

func (e reportEvent) EventKind() string { return "report" }

func (e reportEvent) Text() string {
	return fmt.Sprintf("%s: a page of %s on %s", ui.Printable(e.File), ui.Amount(e.Octets),
		ui.Plural(e.Connections, "connection"))
}
