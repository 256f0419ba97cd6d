package analysis_test

import (
	"os"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
)

// TestReaderOnOurOwn has the Reader read what TestJudges's scenes record: it sees
// each message as it was meant, and no rule is broken.
func TestReaderOnOurOwn(t *testing.T) {
	all := scenes()
	b, err := os.ReadFile(playAll(t, all))
	if err != nil {
		t.Fatal(err)
	}
	evs, r, err := events(t, b, &analysis.ReaderOptions{FPDUs: true})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[[2]int]*sight{}
	ends := map[int][2]int{}
	to := func(h *analysis.Head) *sight {
		key := ends[h.Conn]
		if h.From == analysis.Responder {
			key[0], key[1] = key[1], key[0]
		}
		return seen[key]
	}
	for _, e := range evs {
		switch e := e.(type) {
		case *analysis.Opened:
			k := [2]int{int(e.A.Port()), int(e.B.Port())}
			ends[e.Conn] = k
			seen[k], seen[[2]int{k[1], k[0]}] = &sight{}, &sight{}
		case *analysis.StartupFrame:
			s := to(&e.Head)
			s.startup = append(s.startup,
				frame{
					markers: e.Markers, crc: e.CRC, reject: e.Reject, rev: int(e.Revision), private: len(e.PrivateData),
				})
		case *analysis.FPDU:
			s := to(&e.Head)
			s.segments++
			switch e.CRC {
			case "good":
				s.good++
			case "bad":
				s.bad++
			}
		case *analysis.Message:
			m := message{op: int(e.Opcode), length: int(e.Length)}
			if x := e.Terminate; x != nil {
				m.code = uint16(x.Layer)<<12 | uint16(x.Type)<<8 | uint16(x.Code)
				if x.DDPHeader != nil && x.OffenderFrame == 0 {
					t.Errorf("connection %d: the segment of %q is not found", e.Conn, x.Text)
				}
			}
			s := to(&e.Head)
			s.messages = append(s.messages, m)
		case *analysis.Verdict:
			t.Errorf("connection %d, frame %d, %v: %s: expected %s, seen %s", e.Conn, e.Frame, e.From, e.Rule,
				e.Expected, e.Seen)
		case *analysis.Anomaly:
			t.Errorf("connection %d, frame %d, %v: %s: %s", e.Conn, e.Frame, e.From, e.What, e.Detail)
		}
	}
	for _, s := range all {
		for _, what := range s.verdict(seen, [2]string{}) {
			t.Errorf("%s: %s", s.name, what)
		}
	}
	if n := r.Stats().IWARP; n != uint64(len(all)) {
		t.Errorf("%d connections, want %d", n, len(all))
	}
	checkFields(t, evs)
}
