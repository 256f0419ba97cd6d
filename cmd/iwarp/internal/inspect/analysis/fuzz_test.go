package analysis_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"testing"

	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// fuzzOptions keep few octets, so that the bounds are met.
func fuzzOptions() *analysis.ReaderOptions {
	return &analysis.ReaderOptions{FPDUs: true, Payload: 64, MaxConns: 8, MaxBuffer: 4096}
}

// consume reads all events and does with each what a command would do.
func consume(t *testing.T, file []byte) []analysis.Event {
	t.Helper()
	all, r, err := events(t, file, fuzzOptions())
	var fe *capture.FileError
	if err != nil && (!errors.As(err, &fe) || fe.Offset < 0 || !fe.Compressed && fe.Offset > int64(len(file))) {
		t.Fatalf("%v of a file of %d octets", err, len(file))
	}
	if r == nil {
		return nil
	}
	open := map[int]bool{}
	for _, e := range all {
		h := e.Header()
		if _, err := json.Marshal(e); err != nil && h.Time.Year() < 9999 && h.Time.Year() > 0 {
			t.Fatalf("%+v: %v", e, err)
		}
		switch e.(type) {
		case *analysis.Opened:
			open[h.Conn] = true
		case *analysis.Closed:
			delete(open, h.Conn)
		default:
			if !open[h.Conn] {
				t.Fatalf("%+v of a connection that is not open", e)
			}
		}
		if s, ok := e.(*analysis.StartupFrame); ok {
			s.Fields()
		}
	}
	if len(open) > 0 {
		t.Fatalf("connections without end: %v", open)
	}
	checkFields(t, all)
	if s := r.Stats(); s.IWARP > s.Conns {
		t.Fatalf("%+v", s)
	}
	if _, err := r.Next(); err == nil {
		t.Fatal("an event after the end")
	}
	return all
}

// seedFiles are captures of all kinds.
func seedFiles() [][]byte {
	var out [][]byte
	for _, snap := range []int{0, 80} {
		o := newPcapOut(binary.BigEndian, snap == 0, 1)
		k := newTalk(o)
		k.snap = snap
		greet(k)
		out = append(out, o.b)
	}
	for i, tt := range misdeeds {
		if tt.name == "too long a ULPDU" {
			continue
		}
		d := newDeal(tt.flags, tt.flags)
		d.v6 = i%2 == 0
		d.send(0, iwarptest.Request(tt.flags, 1, nil))
		d.send(1, iwarptest.Reply(tt.flags, 1, nil))
		tt.play(d)
		d.close()
		out = append(out, d.out.b)
	}
	for _, tt := range startups {
		o := ownOut()
		k := newTalk(o)
		k.open()
		k.send(0, tt.req)
		k.send(1, tt.rep)
		out = append(out, o.b)
	}
	var ng bytes.Buffer
	w, _ := capture.NewWriter(&ng, capture.LinkEthernet)
	o := ownOut()
	greet(newTalk(o))
	for _, f := range frames(o) {
		_ = w.WritePacket(&capture.Packet{Data: f, Comment: "x"})
	}
	return append(out, ng.Bytes())
}

// FuzzRead reads files that are anything.
func FuzzRead(f *testing.F) {
	for _, b := range seedFiles() {
		f.Add(b)
		f.Add(b[:len(b)*2/3])
	}
	f.Fuzz(func(t *testing.T, file []byte) { consume(t, file) })
}

// FuzzReassembly plays a right stream in segments that the input tells: their
// order, bounds and repetitions. All messages must come out if all octets were
// there, and no false one in any case.
func FuzzReassembly(f *testing.F) {
	f.Add([]byte{0, 0, 255, 1, 0, 255, 2, 0, 255}, true)
	f.Add([]byte{9, 3, 200, 2, 200, 255, 0, 0, 255, 1, 1, 255, 3, 0, 255}, false)
	f.Add([]byte{0, 0, 10, 0, 5, 10, 7, 0, 255}, true)
	f.Fuzz(func(t *testing.T, plan []byte, markers bool) {
		flags := byte(iwarptest.FlagC)
		if markers {
			flags |= iwarptest.FlagM
		}
		fr := &iwarptest.Framer{Markers: markers}
		stream := bytes.Join(sends(fr, 1, 12, 100), nil)
		o := ownOut()
		k := newTalk(o)
		k.seq[0] = 0xfffffe00
		k.start(flags, flags)
		base := k.seq[0]
		have := make([]bool, len(stream))
		for ; len(plan) >= 3; plan = plan[3:] {
			from := (int(plan[0])*131 + int(plan[1])) % len(stream)
			to := min(from+1+int(plan[2])*6, len(stream))
			k.raw(0, base+uint32(from), tcpACK, stream[from:to])
			for i := from; i < to; i++ {
				have[i] = true
			}
		}
		whole := !bytes.Contains(boolBytes(have), []byte{0})
		k.seq[0] += uint32(len(stream))
		if whole {
			k.close()
		}
		all := consume(t, o.b)
		ms := of[*analysis.Message](all)
		if whole && len(ms) != 12 {
			t.Fatalf("%d messages of 12: %s\n%s", len(ms), ops(all), anomalies(all))
		}
		last := uint32(0)
		for _, m := range ms {
			if m.Op != "Send" || m.MSN <= last || m.MSN > 12 || m.Length > 100 {
				t.Fatalf("%+v after MSN %d", m, last)
			}
			last = m.MSN
		}
		noVerdicts(t, all)
		for _, c := range of[*analysis.Closed](all) {
			if c.Conn.From[0].Overlaps != 0 {
				t.Fatalf("octets that are the same are said to differ: %s", anomalies(all))
			}
		}
	})
}

func boolBytes(b []bool) []byte {
	out := make([]byte, len(b))
	for i, x := range b {
		if x {
			out[i] = 1
		}
	}
	return out
}

// FuzzAnalyse feeds both directions any octets, with a startup or without.
func FuzzAnalyse(f *testing.F) {
	fr := new(iwarptest.Framer)
	a := bytes.Join([][]byte{
		fr.Frame(iwarptest.Send(1, []byte("hi"))), fr.Frame(iwarptest.ReadRequest(1, 2, 3, 4, 5, 6)),
		fr.Frame(iwarptest.FetchAdd(2, 1, 2, 8, 1, 0)),
	},
		nil)
	fr = new(iwarptest.Framer)
	b := bytes.Join([][]byte{
		fr.Frame(iwarptest.ReadResponse(2, 3, make([]byte, 4))), fr.Frame(iwarptest.AtomicResponse(1, 1, 0)),
		fr.Frame(iwarptest.Terminate(0x0100, iwarptest.ReadRequest(1, 2, 3, 4, 5, 6))),
	},
		nil)
	m := bytes.Join(sends(&iwarptest.Framer{Markers: true}, 1, 8, 150), nil)
	for _, flags := range []byte{0, iwarptest.FlagC, iwarptest.FlagM, iwarptest.FlagC | iwarptest.FlagM, 0xff} {
		f.Add(flags, uint16(7), a, b)
		f.Add(flags, uint16(1448), m, m)
	}
	f.Fuzz(func(t *testing.T, flags byte, size uint16, a, b []byte) {
		o := ownOut()
		k := newTalk(o)
		if flags&1 == 0 { // else from the middle
			k.start(flags&0xc0, flags&0xc0)
		}
		n := max(int(size), 1+max(len(a), len(b))/64)
		for len(a)+len(b) > 0 {
			for dir, x := range []*[]byte{&a, &b} {
				if c := min(n, len(*x)); c > 0 {
					if flags&2 != 0 && c%5 == 0 {
						k.skip(dir, (*x)[:c]) // the capture lacks it
					} else {
						k.send(dir, (*x)[:c])
					}
					*x = (*x)[c:]
				}
			}
		}
		consume(t, o.b)
	})
}
