package inspect

import (
	"runtime"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
)

// TestReportBounded has very many messages on many connections: what the page
// keeps must not grow with them, and the last ones must be there.
func TestReportBounded(t *testing.T) {
	r := newReport("x", "y", ui.NewOutput(nil, nil))
	at := time.Unix(1000, 0)
	put := func(e analysis.Event) {
		if err := r.event(e); err != nil {
			t.Fatal(err)
		}
	}
	head := func(conn, i int) analysis.Head {
		return analysis.Head{
			Conn: conn, Frame: uint64(i + 1), Time: at.Add(time.Duration(i) * time.Microsecond),
			From: analysis.Initiator,
		}
	}
	for conn := 1; conn <= 2*maxReportConns; conn++ {
		put(&analysis.Opened{Head: head(conn, 0), Roles: true})
	}
	const messages = 300_000
	for i := range messages {
		conn := i%3 + 1
		put(&analysis.FPDU{Head: head(conn, i), Length: 100})
		put(&analysis.Message{Head: head(conn, i), Op: "Send", Opcode: 3, MSN: uint32(i)})
		put(&analysis.Verdict{Head: head(conn, i), Rule: "MPA-4.1-03", Level: "MUST"})
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 100<<20 {
		t.Errorf("%d MiB in use after %d messages", m.HeapAlloc>>20, messages)
	}
	if r.hidden != maxReportConns || len(r.conns) != maxReportConns {
		t.Errorf("%d connections, %d hidden", len(r.conns), r.hidden)
	}
	c := r.conns[0]
	if len(c.head) != maxHeadRows || len(c.tail) != maxTailRows || len(c.verdicts) != maxReportVerdicts ||
		c.broken < messages/3 {
		t.Errorf("%d and %d rows, %d of %d verdicts", len(c.head), len(c.tail), len(c.verdicts), c.broken)
	}
	rows := c.tailRows()
	last := uint64(messages) // the last of this connection
	for last%3 != 1 {
		last--
	}
	for i := range rows {
		if want := last - uint64(3*(len(rows)-1-i)); rows[i].frame != want {
			t.Fatalf("row %d from the end is of frame %d, want %d", len(rows)-i, rows[i].frame, want)
		}
	}
	if n := len(c.rate[0].bins); n > maxBins {
		t.Errorf("%d bins", n)
	}
	sum := uint64(0)
	for _, b := range c.rate[0].bins {
		sum += b.sum
	}
	if want := uint64(c.messages * 100); sum != want {
		t.Errorf("the bins have %d octets, want %d", sum, want)
	}
	links := map[uint64]string{}
	if chunks := c.chunks(1, links); len(chunks) != (maxHeadRows+chunkRows-1)/chunkRows+
		(maxTailRows+chunkRows-1)/chunkRows {
		t.Errorf("%d pieces", len(chunks))
	}
}

func TestSeries(t *testing.T) {
	var s series
	s.level(0, 1)
	s.level(10*time.Microsecond, 3)
	s.level(10*time.Microsecond, 2)
	s.level(20*time.Microsecond, 0)
	s.stretch(30*time.Microsecond, 0)
	v := s.levels()
	for at, want := range map[int]float64{0: 1, 5: 1, 10: 3, 11: 2, 19: 2, 20: 2, 21: 0, 30: 0} {
		if v[at] != want {
			t.Errorf("level at %d µs: %v, want %v", at, v[at], want)
		}
	}
	s.level(10*time.Second, 7)
	if len(s.bins) > maxBins {
		t.Errorf("%d bins", len(s.bins))
	}
	v = s.levels()
	if v[0] != 3 || v[len(v)-1] != 7 || v[1] != 0 {
		t.Errorf("levels after stretching: %v ... %v", v[:3], v[len(v)-1])
	}
}
