package sctp

import (
	"fmt"
	"testing"
)

func ctl(ssn uint16, f Function) []byte {
	b, _ := (&Control{SSN: ssn, Function: f}).AppendTo(nil)
	return b
}

func seg(ssn uint16) []byte { return append(AppendSegment(nil, ssn), 'x') }

// Sequences of chunks, in the order of arrival, and which of them is the first that no legal
// sequence has.
// Shows: SCTP-6.1-02, SCTP-6.2-01, SCTP-6.3-02, SCTP-6-01, SCTP-10-04, SCTP-10-05, SCTP-5.1-02, MPA2-7-07
func TestSequences(t *testing.T) {
	type chunk struct {
		control bool
		b       []byte
	}
	c := func(ssn uint16, f Function) chunk { return chunk{true, ctl(ssn, f)} }
	s := func(ssn uint16) chunk { return chunk{false, seg(ssn)} }
	for name, k := range map[string]struct {
		chunks []chunk
		bad    int // index of the illegal one; -1: none
		over   bool
	}{
		"accepted":                         {[]chunk{c(0, Accept), s(1), s(2), c(3, Terminate)}, -1, true},
		"accepted, no segments":            {[]chunk{c(0, Accept), c(1, Terminate)}, -1, true},
		"out of order":                     {[]chunk{s(2), c(3, Terminate), s(1), c(0, Accept)}, -1, true},
		"Terminate before what is missing": {[]chunk{c(0, Accept), c(3, Terminate), s(1)}, -1, false},
		"rejected":                         {[]chunk{c(0, Reject)}, -1, false},
		"not even that":                    {[]chunk{c(0, Terminate)}, -1, false},
		"segment instead of Accept":        {[]chunk{s(0)}, 0, false},
		"Initiate instead of Accept":       {[]chunk{c(0, Initiate)}, 0, false},
		"Accept twice":                     {[]chunk{c(0, Accept), c(1, Accept)}, 1, false},
		"Accept again":                     {[]chunk{c(0, Accept), c(0, Accept)}, 1, false},
		"Initiate within":                  {[]chunk{c(0, Accept), s(1), c(2, Initiate)}, 2, false},
		"segment after Terminate":          {[]chunk{c(0, Accept), c(1, Terminate), s(2)}, 2, false},
		"Terminate before a segment":       {[]chunk{c(0, Accept), s(5), c(4, Terminate)}, 2, false},
		"Terminate twice":                  {[]chunk{c(0, Accept), c(1, Terminate), c(2, Terminate)}, 2, false},
		"segment again":                    {[]chunk{c(0, Accept), s(1), s(1)}, 2, false},
		"segment again, early":             {[]chunk{c(0, Accept), s(2), s(2)}, 2, false},
		"the farthest":                     {[]chunk{c(0, Accept), s(32768)}, -1, false},
		"too far":                          {[]chunk{c(0, Accept), s(32769)}, 1, false},
		"behind":                           {[]chunk{c(0, Accept), s(65535)}, 1, false},
		"an empty chunk":                   {[]chunk{c(0, Accept), {false, nil}}, 1, false},
		"an empty control chunk":           {[]chunk{{true, nil}}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			var in inbound
			for i, x := range k.chunks {
				var err error
				if x.control {
					_, err = in.control(x.b, Accept, Reject, Terminate)
				} else {
					_, _, err = in.segment(x.b)
				}
				if (err != nil) != (i == k.bad) {
					t.Fatalf("chunk %d: %v", i, err)
				}
				if err != nil {
					return
				}
			}
			if k.bad >= 0 {
				t.Error("nothing was refused")
			}
			if in.over() != k.over {
				t.Errorf("over: %t", in.over())
			}
		})
	}
}

// DDP-SSNs have 16 bits and go on with 0, whatever the order of arrival within 32768.
// Shows: SCTP-5.2.1-01, SCTP-6.1-01, SCTP-10-03
func TestNumbers(t *testing.T) {
	for _, width := range []int{1, 2, 63, 64, 65, 1000, 32768} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			var w window
			for base := 0; base < 200_000; base += width {
				for i := width - 1; i >= 0; i-- { // the last one first
					number, ok := w.take(uint16(base + i))
					if !ok || number != uint64(base+i) {
						t.Fatalf("number %d came as %d, %t", base+i, number, ok)
					}
				}
				if w.next != uint64(base+width) {
					t.Fatalf("after %d: next is %d", base+width, w.next)
				}
			}
		})
	}
	if most := (pionLower{}).highWater(); most/(SegmentHeaderLen+14) >= span {
		t.Errorf("%d octets may be more than %d chunks", most, span-1)
	}
}

// FuzzSession gives a session any chunks: what is handed up has an order that was not there before, and
// nothing grows beyond the window.
func FuzzSession(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, 1, 0, 1, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		var in inbound
		seen := make(map[uint64]bool)
		for len(script) >= 5 {
			b := script[1:5]
			if script[0]&1 == 0 {
				_, _ = in.control(b, Accept)
			} else if order, _, err := in.segment(b); err == nil {
				if seen[order] || order+1 >= in.window.next+span {
					t.Fatalf("order %d came again, or is beyond %d", order, in.window.next)
				}
				seen[order] = true
			}
			script = script[5:]
		}
		if len(in.window.seen) > span/64 {
			t.Error("the window has grown")
		}
	})
}
