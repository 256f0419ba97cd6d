package inspect

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
)

func TestFilterWords(t *testing.T) {
	write := &analysis.Message{
		Head: analysis.Head{Conn: 2, Frame: 9, From: analysis.Initiator}, FirstFrame: 5, Opcode: 0, Tagged: true,
		STag: 0x10,
	}
	request := &analysis.Message{
		Head: analysis.Head{Conn: 2, Frame: 10, From: analysis.Initiator}, FirstFrame: 10, Opcode: 1, QN: 1,
		ReadRequest: &analysis.ReadRequest{SinkSTag: 0x20, SrcSTag: 0x30},
	}
	startup := &analysis.StartupFrame{
		Head: analysis.Head{Conn: 1, Frame: 3, From: analysis.Responder}, FirstFrame: 2, Kind: "Reply", Reject: true,
	}
	verdict := &analysis.Verdict{Head: analysis.Head{Conn: 1, Frame: 4, From: analysis.Responder}, Level: "MUST"}
	lost := &analysis.Anomaly{Head: analysis.Head{Conn: 1, Frame: 4}, What: analysis.AnomalyHole}
	again := &analysis.Anomaly{Head: analysis.Head{Conn: 1, Frame: 4}, What: analysis.AnomalyRetransmission}
	events := []analysis.Event{write, request, startup, verdict, lost, again}
	for _, test := range []struct {
		filter string
		want   string // one letter an event
	}{
		{filter: "conn=1", want: "..1111"},
		{filter: "conn=2", want: "11...."},
		{filter: "conn=1-2", want: "111111"},
		{filter: "conn=3,2", want: "11...."},
		{filter: "conn!=2", want: "..1111"},
		{filter: "op=write", want: "1....."},
		{filter: "op=write,read", want: "11...."},
		{filter: "op=read-response", want: "......"},
		{filter: "op=startup", want: "..1..."},
		{filter: "op!=write", want: ".11111"},
		{filter: "stag=0x10", want: "1....."},
		{filter: "stag=32", want: ".1...."},
		{filter: "stag=0x30,0x10", want: "11...."},
		{filter: "frame=6", want: "1....."},
		{filter: "frame=2,10", want: ".11..."},
		{filter: "from=responder", want: "..11.."},
		{filter: "error", want: "..111."},
		{filter: "!error", want: "11...1"},
		{filter: "conn=1,error", want: "..111."},
		{filter: "conn=1 and op=startup", want: "..1..."},
		{filter: "conn=2 op=write && stag=0x10", want: "1....."},
		{filter: "error,conn=2", want: "......"},
	} {
		f, err := parseFilter(test.filter)
		if err != nil {
			t.Errorf("%s: %v", test.filter, err)
			continue
		}
		got := ""
		for _, e := range events {
			got += ui.Word(f.match(e), "1", ".")
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.filter, got, test.want)
		}
	}
}

func TestFilterErrors(t *testing.T) {
	for filter, want := range map[string]string{
		"":                "is no term",
		"x":               "is no term",
		"conn":            "is no term",
		"error=1":         "is no term",
		"conn=":           "a value is missing",
		"conn=x":          "a number from 1",
		"conn=0":          "a number from 1",
		"conn=5-2":        "the smaller one first",
		"op=,write":       "a value is missing",
		"op=Write":        "no such operation: send",
		"stag=-1":         "32 bits",
		"stag=4294967296": "32 bits",
		"from=":           "a value is missing",
		"from=both":       "initiator, responder, a or b",
		"error,write":     `"write" in "error,write" is no term`,
		"and":             `a term is missing before "and"`,
		"conn=1 and":      "a term is missing at the end",
		"conn=1 and and":  `a term is missing before "and"`,
		"conn=1 and 2":    "is no term",
		"!conn=1":         "is no term",
	} {
		_, err := parseFilter(filter)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", filter, err, want)
		}
	}
}

// FuzzFilter looks for filters that parse and mean something else when they are
// written in another way, and for panics.
func FuzzFilter(f *testing.F) {
	for _, s := range []string{
		"conn=1", "op=write,read and stag=0x1", "error", "!error,frame=1-5", "from!=a op=send-inv", "conn=1,,", "=",
		"and and",
	} {
		f.Add(s)
	}
	events := []analysis.Event{
		&analysis.Message{
			Head: analysis.Head{Conn: 1, Frame: 2, From: analysis.Initiator}, Opcode: 3,
			Terminate: &analysis.Terminate{DDPHeader: []byte{0xc1}},
		},
		&analysis.FPDU{Head: analysis.Head{Conn: 2, Frame: 3, From: analysis.SideB}, ULPDU: []byte{0x41, 0x41}},
		&analysis.Verdict{Head: analysis.Head{Conn: 1, Frame: 1}},
	}
	f.Fuzz(func(t *testing.T, s string) {
		parsed, err := parseFilter(s)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without words")
			}
			return
		}
		if len(parsed.terms) == 0 {
			t.Fatalf("%q: no term", s)
		}
		other, err := parseFilter(" " + strings.ReplaceAll(s, ",", " , ") + " ")
		if err != nil {
			t.Fatalf("%q with blanks: %v", s, err)
		}
		for _, e := range events {
			if parsed.match(e) != other.match(e) {
				t.Fatalf("%q means something else with blanks", s)
			}
			for i := range parsed.terms {
				term := parsed.terms[i]
				term.not = !term.not
				if (&inspectFilter{[]filterTerm{term}}).match(e) == (&inspectFilter{parsed.terms[i : i+1]}).match(e) {
					t.Fatalf("%q: term %d and its reverse agree", s, i)
				}
			}
		}
	})
}

func TestGate(t *testing.T) {
	f, err := parseFilter("op=write")
	if err != nil {
		t.Fatal(err)
	}
	g := gate{filter: f}
	opened := func(n int) analysis.Event { return &analysis.Opened{Head: analysis.Head{Conn: n}} }
	closed := func(n int) analysis.Event { return &analysis.Closed{Head: analysis.Head{Conn: n}} }
	write := func(n int) analysis.Event { return &analysis.Message{Head: analysis.Head{Conn: n}} }
	send := &analysis.Message{Head: analysis.Head{Conn: 1}, Opcode: 3}
	for i, step := range []struct {
		e    analysis.Event
		want int
	}{
		{e: opened(1), want: 0},
		{e: opened(2), want: 0},
		{e: send, want: 0},
		{e: write(1), want: 2},
		{e: write(1), want: 1},
		{e: send, want: 0},
		{e: closed(2), want: 0},
		{e: closed(1), want: 1},
	} {
		if got := len(g.pass(step.e)); got != step.want {
			t.Errorf("step %d: %d events pass, want %d", i, got, step.want)
		}
	}
	if len(g.conns) != 0 {
		t.Errorf("%d connections are kept", len(g.conns))
	}
}

// A filter that lets nothing through says so, and with --verdict nothing was checked.
func TestFilterOfNothing(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ping.pcapng")
	s := cmdtest.Serve(t, Main)
	out := cmdtest.NewLines()
	if code := Main(cmdtest.Context(t), []string{"ping", s.Addr, "--count", "1", "--record", name}, out,
		out); code != ui.ExitOK {
		t.Fatal(code, out)
	}
	for args, want := range map[string]int{
		"--filter conn=99": ui.ExitOK, "--filter conn=99 --json": ui.ExitOK,
		"--filter conn=99 --verdict": ui.ExitFailed, "--filter conn=1 --verdict": ui.ExitOK,
	} {
		out, errs := cmdtest.NewLines(), cmdtest.NewLines()
		if code := Main(cmdtest.Context(t), append([]string{"inspect", name}, strings.Fields(args)...), out,
			errs); code != want {
			t.Errorf("%s: exit code %d, want %d:\n%s%s", args, code, want, out, errs)
		}
		if strings.Contains(args, "99") {
			cmdtest.MustContain(t, args, errs.String(), "nothing in the capture matches --filter")
		}
	}
}
