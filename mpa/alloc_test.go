package mpa

import (
	"io"
	"testing"
)

// wantNoAllocs runs f a few times and then counts.
func wantNoAllocs(t *testing.T, what string, f func()) {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool forget")
	}
	for range 100 {
		f()
	}
	// A collection that empties the pools in between is not the code's doing.
	if n := testing.AllocsPerRun(2000, f); n >= 0.5 {
		t.Errorf("%s: %v allocations, want none", what, n)
	}
}

func TestNoAllocsInCodec(t *testing.T) {
	for _, markers := range []bool{false, true} {
		for _, n := range []int{64, 1400, 60000} {
			f := newSender(markers, true, 0, AlignOff)
			d := Deframer{Markers: markers, CRC: true}
			header, payload := make([]byte, 14), [][]byte{make([]byte, n)}
			buf := make([]byte, 0, 70000)
			wantNoAllocs(t, "framing", func() {
				if err := f.add(header, payload, true); err != nil {
					t.Fatal(err)
				}
				buf = buf[:0]
				for f.batch.left > 0 {
					pieces, _, _, _ := f.pending()
					k := 0
					for _, p := range pieces {
						buf = append(buf, p...)
						k += len(p)
					}
					f.advance(k)
				}
				if _, used, _, err := d.Next(buf); used != len(buf) || err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

func TestNoAllocsInConn(t *testing.T) {
	a, b := tcpPair(t)
	x, y := fullOperation(a, b, false, true)
	if !x.canTry() {
		t.Skip("gather writes allocate on this operating system")
	}
	header, payload := make([]byte, 14), [][]byte{make([]byte, 20000)}
	got := 0
	fn := func(_ uint64, seg []byte) error { got += len(seg); return nil }
	wantNoAllocs(t, "Queue, Flush, Receive", func() {
		if n := x.MULPDU(); n < 128 {
			t.Fatal(n)
		}
		for range 3 {
			if err := x.Queue(header, payload, true); err != nil {
				t.Fatal(err)
			}
		}
		if done, err := x.Flush(true); !done || err != nil {
			t.Fatal(err)
		}
		for got = 0; got < 3*20014; {
			if err := y.Receive(fn); err != nil {
				t.Fatal(err)
			}
		}
	})
	x.Close()
	if err := y.Receive(fn); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

func TestNoAllocsInStartup(t *testing.T) {
	wire := unhex(t, startupTable[5].hex)
	buf := make([]byte, 0, 600)
	wantNoAllocs(t, "ParseStartup and AppendTo", func() {
		s, _, err := ParseStartup(wire, Request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.AppendTo(buf); err != nil {
			t.Fatal(err)
		}
	})
}
