package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	_ "embed" // the template

	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
)

// The template of the page. It is executed by html/template: whatever comes from
// the capture is escaped for where it stands.
//
//go:embed page.html
var pageTemplate string

// page is what the template shows.
type page struct {
	File, From string
	Stats      analysis.Stats
	Info       capture.FileInfo
	Found      string
	Problem    string
	Rules      int
	Conns      []pageConn
	Hidden     int
}

// pageConn is a connection in it.
type pageConn struct {
	N           int
	A, B        string // with their roles
	NameA       string
	NameB       string
	Why         string
	MidStream   bool
	Start, Took string
	How         string
	Facts       []fact // startup
	Hints       []string
	Totals      [2][]fact
	Latency     []fact
	Messages    int
	Broken      int
	More        int // verdicts beyond those shown
	Verdicts    []pageVerdict
	Chunks      []chart
	Plots       []plot
	Open        bool
}

type fact struct{ Name, Value string }

// pageVerdict is a verdict with its place in the diagram.
type pageVerdict struct {
	*analysis.Verdict
	Link string // "" if the frame is not drawn
}

// end writes the page.
func (r *report) end(rd *analysis.Reader, err error) error {
	t, terr := template.New("page").Parse(pageTemplate)
	if terr != nil {
		return terr
	}
	var b bytes.Buffer
	if err := t.Execute(&b, r.page(rd, err)); err != nil {
		return fmt.Errorf("--html %s: %w", r.name, err)
	}
	if err := writeFile(r.name, b.Bytes()); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	r.out.Emit(reportEvent{File: r.name, Octets: b.Len(), Connections: len(r.conns)})
	return nil
}

// checkPage finds out, before a long capture is read, whether the page can be written.
func checkPage(file, name string) error {
	if sameFile(file, name) {
		return fmt.Errorf("--html %s: this is the capture itself", name)
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fmt.Errorf("--html %s: a folder: the name of a file is expected", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".iwarp-*")
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// writeFile puts a whole file in place, or none.
func writeFile(name string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".iwarp-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func (r *report) page(rd *analysis.Reader, err error) *page {
	p := &page{File: filepath.Base(r.file), Rules: r.rules, Hidden: r.hidden, Stats: rd.Stats(), Info: rd.Info()}
	p.Found = foundWords(&p.Stats)
	if r.file == stdinName {
		p.File = "standard input"
	}
	if !r.start.IsZero() {
		p.From = r.start.UTC().Format(timeLayout)
	}
	if err != nil {
		p.Problem = err.Error()
	}
	for _, c := range r.conns {
		p.Conns = append(p.Conns, r.pageConn(c))
	}
	const openAtOnce = 3
	for i := range p.Conns {
		p.Conns[i].Open = len(p.Conns) <= openAtOnce
	}
	return p
}

func (r *report) pageConn(c *reportConn) pageConn {
	o := c.opened
	p := pageConn{
		N: o.Conn, A: o.A.String(), B: o.B.String(), NameA: sideWords(o.Roles, 0), NameB: sideWords(o.Roles, 1),
		Why: o.Why, MidStream: o.MidStream, Start: seconds(o.Time.Sub(r.start)), Hints: c.hints,
		Messages: c.messages, Broken: c.broken, More: c.broken - len(c.verdicts),
	}
	for _, s := range c.startup {
		p.Facts = append(p.Facts, fact{fmt.Sprintf("%s, frame %d", s.Kind, s.Frame), startupWords(s)})
	}
	if c.negotiated != nil {
		p.Facts = append(p.Facts, fact{"Outcome", negotiatedWords(c.negotiated)})
	}
	end := time.Duration(0)
	if c.closed != nil {
		s := &c.closed.Conn
		end = s.End.Sub(c.origin)
		p.Took, p.How = ui.Round(s.End.Sub(s.Start)).String(), howWords(c.closed.How)
		for i := range s.From {
			p.Totals[i] = totals(&s.From[i])
		}
		for _, l := range []struct {
			name string
			l    *analysis.Latency
		}{{"Reads", &s.Reads}, {"Atomics", &s.Atomics}} {
			if l.l.Count > 0 {
				p.Latency = append(p.Latency, fact{l.name, latencyWords(l.l)})
			}
		}
	}
	p.Plots = c.plots(end, p.NameA, p.NameB)
	links := map[uint64]string{}
	p.Chunks = c.chunks(p.N, links)
	for _, v := range c.verdicts {
		p.Verdicts = append(p.Verdicts, pageVerdict{v, links[v.Frame]})
	}
	return p
}

// totals of what an end sent.
func totals(s *analysis.DirStats) []fact {
	f := []fact{
		{"octets of TCP", fmt.Sprint(s.Octets)},
		{"TCP segments", fmt.Sprint(s.Segments)},
		{"of these begin with an FPDU", share(s.AlignedSegments, s.FPDUSegments)},
		{"FPDUs", fmt.Sprint(s.FPDUs)},
		{"Markers", ui.Word(s.Marked, fmt.Sprint(s.Markers), "none")},
		{"CRC good, bad, not used", fmt.Sprintf("%d, %d, %d", s.CRCGood, s.CRCBad, s.CRCOff)},
		{"octets behind DDP headers", fmt.Sprint(s.PayloadOctets)},
		{"Reads and atomics at once, at most", fmt.Sprint(s.MaxOutstanding)},
	}
	for _, op := range slices.Sorted(maps.Keys(s.Messages)) {
		f = append(f, fact{op, fmt.Sprint(s.Messages[op])})
	}
	if s.Gap > 0 {
		f = append(f, fact{"longest pause", fmt.Sprintf("%v, after frame %d", ui.Round(s.Gap), s.GapFrame)})
	}
	if tcp := tcpWords(s); tcp != "" {
		f = append(f, fact{"TCP", tcp})
	}
	return f
}
