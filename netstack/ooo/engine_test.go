package ooo_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/netstack/ooo"
)

// stream makes FPDUs of ULPDUs of these sizes, the nth filled with the octet n. It returns
// where each begins, and the end.
func stream(t testing.TB, markers bool, sizes ...int) (b []byte, at []int) {
	t.Helper()
	f := framer{markers: markers}
	for i, n := range sizes {
		at = append(at, len(b))
		b = f.append(b, bytes.Repeat([]byte{byte(i + 1)}, n))
	}
	return b, append(at, len(b))
}

// positions takes all that was found.
func positions(e *ooo.Engine) (at []int) {
	for {
		f, ok := e.Next()
		if !ok {
			return at
		}
		at = append(at, int(f.Position))
	}
}

func wantFound(t testing.TB, why string, e *ooo.Engine, want ...int) {
	t.Helper()
	if got := positions(e); !slices.Equal(got, want) {
		t.Fatalf("%s: found FPDUs at %d, want %d", why, got, want)
	}
}

var withMarkers = ooo.Config{Markers: true, CRC: true}

// A Marker locates the FPDU around it, and the ends of FPDUs the next ones, however
// segments are cut.
//
// Shows: MPA-6-01, MPA-6-02, MPA-6-03, MPA-A.4-01, MPA-4.3-09
func TestLocate(t *testing.T) {
	b, at := stream(t, true, 700, 100, 100, 100, 700, 40)
	end := len(b)
	tests := []struct {
		name     string
		segments [][2]int // from, to
		want     []int
	}{
		{name: "all but the first octet", segments: [][2]int{{1, end}}, want: at[3:6]},
		{name: "from a boundary", segments: [][2]int{{at[1], end}}, want: at[3:6]},
		{name: "without a Marker", segments: [][2]int{{at[2], at[2] + 100}}, want: nil},
		{name: "behind the last Marker", segments: [][2]int{{at[5] + 4, end}}, want: nil},
		{name: "the middle of a long one", segments: [][2]int{{at[4] + 8, end - 20}}, want: nil},
		{name: "two halves", segments: [][2]int{{at[4] + 8, end}, {at[4], at[4] + 8}}, want: at[4:6]},
		{
			name:     "from back to front",
			segments: [][2]int{{at[4], end}, {at[3], at[4]}, {at[2], at[3]}, {1, at[2]}},
			want:     []int{at[4], at[5], at[3]},
		},
		{
			name:     "one octet is missing, then comes",
			segments: [][2]int{{at[1], at[4] + 50}, {at[4] + 51, end}, {at[4] + 50, at[4] + 51}},
			want:     at[3:6],
		},
		{name: "again", segments: [][2]int{{at[1], end}, {at[1], end}, {at[2] + 3, at[5] + 7}}, want: at[3:6]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := ooo.New(withMarkers)
			var got []int
			for _, s := range tt.segments {
				e.Segment(uint64(s[0]), b[s[0]:s[1]])
				got = append(got, positions(e)...)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("found FPDUs at %d, want %d; they begin at %d", got, tt.want, at)
			}
			if err := e.InOrder(b, 0); err != nil {
				t.Error(err)
			}
			if s := e.Stats(); s.Stopped != nil || s.Held != 0 || s.Behind != 0 {
				t.Errorf("at the end: %+v", s)
			}
		})
	}
}

// What a Marker points to is checked: a lie, or one octet changed anywhere in the FPDU,
// and nothing is found any more.
//
// Shows: MPA-6-01, MPA-4.3-10
func TestHostile(t *testing.T) {
	b, at := stream(t, true, 900, 900, 900)
	second := at[1]
	marker := (second + 511) / 512 * 512
	resum := func(b []byte) { // makes the CRC of the second FPDU right again
		end := at[2] - 4
		binary.LittleEndian.PutUint32(b[end:], checksum(b[second:end]))
	}
	tests := []struct {
		name   string
		change func(b []byte)
		want   error
	}{
		{name: "an octet of payload", want: ooo.ErrCRC, change: func(b []byte) { b[second+30] ^= 1 }},
		{name: "an octet of the CRC", want: ooo.ErrCRC, change: func(b []byte) { b[at[2]-1] ^= 0x80 }},
		{name: "ULPDU_Length one less", want: ooo.ErrCRC, change: func(b []byte) { b[second+1]-- }},
		{
			name: "FPDUPTR of the first Marker, not the CRC", want: ooo.ErrCRC,
			change: func(b []byte) { b[marker+3] ^= 8 },
		},
		{name: "FPDUPTR of the second Marker, and the CRC", want: ooo.ErrMarker, change: func(b []byte) {
			b[marker+512+3] ^= 8
			resum(b)
		}},
		{name: "FPDUPTR before the stream", want: ooo.ErrMarker, change: func(b []byte) {
			b[marker+2], b[marker+3] = 0xff, 0xfc
		}},
		{name: "FPDUPTR 0 in the middle", want: ooo.ErrCRC, change: func(b []byte) { b[marker+2], b[marker+3] = 0, 0 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := bytes.Clone(b)
			tt.change(b)
			e := ooo.New(withMarkers)
			e.Segment(uint64(second), b[second:at[2]])
			wantFound(t, "changed", e)
			if s := e.Stats(); !errors.Is(s.Stopped, tt.want) {
				t.Errorf("stopped by %v, want %v", s.Stopped, tt.want)
			}
			e.Segment(uint64(at[2]), b[at[2]:])
			wantFound(t, "after that", e)
			if e.Useful() || e.Stats().Held != 0 {
				t.Errorf("goes on: %+v", e.Stats())
			}
		})
	}
}

// Length lies: an FPDU that says that it is long is waited for, with bounded memory.
func TestLengthLie(t *testing.T) {
	b, at := stream(t, true, 900, 900, 900)
	binary.BigEndian.PutUint16(b[at[1]:], 0xffff)
	e := ooo.New(ooo.Config{Markers: true, CRC: true, Hold: 1500})
	e.Segment(uint64(at[1]), b[at[1]:at[2]])
	wantFound(t, "not whole", e)
	e.Segment(uint64(at[2]), b[at[2]:])
	wantFound(t, "no room", e)
	if s := e.Stats(); s.Held > 1500 || s.Stopped != nil {
		t.Errorf("%+v", s)
	}
}

// A payload that looks like an FPDU, or like one with Markers, is not found where
// there are Markers, not even when a segment begins there.
//
// Shows: MPA-6-02
func TestPayloadIsNoFPDU(t *testing.T) {
	inner, _ := stream(t, false, 40)
	payload := bytes.Repeat([]byte{0xee}, 600)
	copy(payload[400:], inner)
	copy(payload[100:], inner)
	f := framer{markers: true}
	b := f.append(nil, payload)
	first := len(b)
	b = f.append(b, payload)
	e := ooo.New(withMarkers)
	for at := 4; at < len(b); at += 4 {
		if bytes.HasPrefix(b[at:], inner) {
			e.Segment(uint64(at), b[at:at+len(inner)])
			wantFound(t, "a crafted payload", e)
		}
	}
	e.Segment(uint64(first), b[first:])
	wantFound(t, "the FPDU around it", e, first)
	if err := e.InOrder(b, 0); err != nil {
		t.Error(err)
	}
}

// aligned feeds n segments in order, of one FPDU each, so that alignment is believed.
func aligned(t testing.TB, e *ooo.Engine, f *framer, n int) {
	t.Helper()
	for range n {
		pos := f.pos
		b := f.append(nil, []byte("payload"))
		e.Saw(pos)
		if err := e.InOrder(b, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// Without Markers nothing is found, unless the program vouches for alignment and the
// connection has shown it.
//
// Shows: MPA-A.4-01, MPA-6-02
func TestAlignment(t *testing.T) {
	trusting := ooo.Config{CRC: true, Alignment: true}
	tests := []struct {
		name     string
		cfg      ooo.Config
		evidence int
		cut      int // where the segment begins within the second FPDU
		want     int // FPDUs
		stopped  error
	}{
		{name: "not asked for", cfg: ooo.Config{CRC: true}, evidence: 100},
		{name: "no CRC", cfg: ooo.Config{Alignment: true}, evidence: 100},
		{name: "too early", cfg: trusting, evidence: ooo.MinAligned - 1},
		{name: "aligned", cfg: trusting, evidence: ooo.MinAligned, want: 2},
		{name: "not aligned", cfg: trusting, evidence: ooo.MinAligned, cut: 4, stopped: ooo.ErrUnaligned},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, f := ooo.New(tt.cfg), &framer{}
			aligned(t, e, f, tt.evidence)
			base := f.pos
			b := f.append(nil, []byte("the first, which is late"))
			second := len(b)
			b = f.append(b, []byte("second"))
			b = f.append(b, []byte("third"))
			e.Segment(base+uint64(second+tt.cut), b[second+tt.cut:])
			if got := positions(e); len(got) != tt.want {
				t.Errorf("found FPDUs at %d, want %d of them", got, tt.want)
			}
			if err := e.Stats().Stopped; !errors.Is(err, tt.stopped) {
				t.Errorf("stopped by %v, want %v", err, tt.stopped)
			}
			if err := e.InOrder(b, 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// The warning of RFC 5044: octets of a third party, sent as payload, look like an FPDU, and a
// segment begins there. Alignment is deceived, which is why it is off; and the
// connection ends as soon as the stream in order shows it.
//
// Shows: MPA-A.4-01
func TestAlignmentIsDeceived(t *testing.T) {
	inner, _ := stream(t, false, 40)
	for _, trusted := range []bool{false, true} {
		e, f := ooo.New(ooo.Config{CRC: true, Alignment: trusted}), &framer{}
		aligned(t, e, f, ooo.MinAligned)
		base := f.pos
		b := f.append(nil, append(make([]byte, 98), inner...))
		at := bytes.Index(b, inner)
		e.Segment(base+uint64(at), b[at:at+len(inner)])
		got, err := positions(e), e.InOrder(b, 0)
		switch {
		case !trusted && (len(got) > 0 || err != nil):
			t.Errorf("without trust: found %d, %v", got, err)
		case trusted && (len(got) != 1 || !errors.Is(err, ooo.ErrMisplaced)):
			t.Errorf("with trust: found %d, %v", got, err)
		}
	}
}

// One segment in order that does not begin with an FPDU ends alignment.
func TestAlignmentIsLost(t *testing.T) {
	e, f := ooo.New(ooo.Config{CRC: true, Alignment: true}), &framer{}
	aligned(t, e, f, 2*ooo.MinAligned)
	base := f.pos
	b := f.append(nil, make([]byte, 100))
	e.Saw(base + 8)
	if err := e.InOrder(b[:20], 0); err != nil { // split anywhere
		t.Fatal(err)
	}
	if err := e.InOrder(b[20:], 0); err != nil {
		t.Fatal(err)
	}
	if e.Useful() || !errors.Is(e.Stats().Stopped, ooo.ErrUnaligned) {
		t.Errorf("%+v", e.Stats())
	}
}

// Retransmissions with other octets: TCP may deliver the one or the other.
func TestInconsistent(t *testing.T) {
	b, at := stream(t, true, 900, 900, 900)
	other := bytes.Clone(b)
	other[at[1]+40] ^= 1
	t.Run("before it is found", func(t *testing.T) {
		e := ooo.New(withMarkers)
		e.Segment(uint64(at[1]), b[at[1]:at[1]+100])
		e.Segment(uint64(at[1]), other[at[1]:])
		wantFound(t, "two versions", e)
		if err := e.Stats().Stopped; !errors.Is(err, ooo.ErrInconsistent) {
			t.Error(err)
		}
		if err := e.InOrder(b, 0); err != nil { // nothing was placed
			t.Error(err)
		}
	})
	t.Run("after it was placed", func(t *testing.T) {
		for _, delivered := range [][]byte{b, other} {
			e := ooo.New(withMarkers)
			e.Segment(uint64(at[1]), b[at[1]:at[2]])
			wantFound(t, "the first version", e, at[1])
			e.Segment(uint64(at[1]), other[at[1]:at[2]])
			wantFound(t, "the second", e)
			for i := 0; i < len(delivered); i += 100 {
				err := e.InOrder(delivered[i:min(i+100, len(delivered))], 0)
				wrong := &delivered[0] == &other[0] && i < at[2] && at[2] <= i+100
				if errors.Is(err, ooo.ErrInconsistent) != wrong {
					t.Fatalf("at %d: %v", i, err)
				}
				if wrong {
					break
				}
			}
		}
	})
}

// What was found and not taken before its turn is not given any more: its memory may be
// the program's again.
func TestTooLate(t *testing.T) {
	b, at := stream(t, true, 900, 900, 900)
	e := ooo.New(withMarkers)
	e.Segment(uint64(at[1]), b[at[1]:])
	if !e.Pending() {
		t.Fatal("nothing pending")
	}
	if err := e.InOrder(b[:at[1]+1], 0); err != nil {
		t.Fatal(err)
	}
	wantFound(t, "the second has begun", e, at[2])
}

// Shows: MPA-3-08
func TestCounters(t *testing.T) {
	b, at := stream(t, true, 900, 900, 900)
	e := ooo.New(withMarkers)
	e.Segment(uint64(at[1]), b[at[1]:])
	for {
		f, ok := e.Next()
		if !ok {
			break
		}
		if int(f.Position) == at[1] {
			e.Placed(f.Position, 880, 10*time.Second)
			e.Placed(f.Position, 880, 11*time.Second) // again: nothing
		}
	}
	if err := e.InOrder(b, 13*time.Second); err != nil {
		t.Fatal(err)
	}
	e.Placed(uint64(at[2]), 1, 0) // its turn has come: nothing
	want := ooo.Stats{
		Segments: 1, Octets: uint64(len(b) - at[1]), FPDUs: 2, Placed: 1, Early: 880, Led: 1,
		LeadSum: 3 * time.Second, LeadMax: 3 * time.Second, MostBehind: len(b) - at[1], MostHeld: 1800,
	}
	if got := e.Stats(); got != want {
		t.Errorf("counters\n%+v, want\n%+v", got, want)
	}
}

// Segments beyond all bounds are left to their turn.
func TestBounds(t *testing.T) {
	b, at := stream(t, true, 900, 900)
	for name, f := range map[string]func(e *ooo.Engine){
		"beyond reach": func(e *ooo.Engine) { e.Segment(ooo.Reach+1, b) },
		"far beyond":   func(e *ooo.Engine) { e.Segment(1<<63, b) },
		"empty":        func(e *ooo.Engine) { e.Segment(100, nil) },
		"no CRC": func(e *ooo.Engine) {
			*e = *ooo.New(ooo.Config{Markers: true})
			e.Segment(uint64(at[1]), b[at[1]:])
		},
		"wholly before": func(e *ooo.Engine) {
			_ = e.InOrder(b, 0)
			e.Segment(0, b)
		},
	} {
		e := ooo.New(withMarkers)
		f(e)
		wantFound(t, name, e)
		if s := e.Stats(); s.Held != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	// Single octets, each apart from the others, cost bounded memory.
	e := ooo.New(withMarkers)
	for i := range uint64(10000) {
		e.Segment(5+2*i, []byte{1})
	}
	if s := e.Stats(); s.Held > 4096 {
		t.Errorf("%+v", s)
	}
}

// Shows: MPA-4.3-06
func TestFlow(t *testing.T) {
	b, at := stream(t, true, 900, 900, 900)
	end := uint32(len(b))
	second := uint32(at[1])
	tests := []struct {
		name   string
		start  uint32
		ack    uint32      // from start
		blocks []ooo.Block // from start
		want   int
	}{
		{name: "acknowledged", start: 1000, blocks: []ooo.Block{{Start: second, End: end}}, want: 2},
		{name: "numbers wrap in the hole", start: 1<<32 - 100, blocks: []ooo.Block{{Start: second, End: end}}, want: 2},
		{name: "they wrap behind it", start: -second - 200, blocks: []ooo.Block{{Start: second, End: end}}, want: 2},
		{name: "no SACK", start: 1000},
		{name: "SACK of a part", start: 1000, blocks: []ooo.Block{{Start: second + 1, End: end}}},
		{name: "SACK of something else", start: 1000, blocks: []ooo.Block{{Start: end, End: 2 * end}}},
		{name: "acknowledged in order", start: 1000, ack: end},
		{name: "an inverted block", start: 1000, blocks: []ooo.Block{{Start: end, End: second}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := ooo.New(withMarkers)
			f := ooo.NewFlow(tt.start, e)
			f.Received(tt.start-50, make([]byte, 30)) // startup, again
			f.Received(tt.start-10, append(make([]byte, 10), b[:20]...))
			f.Received(tt.start+second, b[second:])
			wantFound(t, "before TCP has committed itself", e)
			for i := range tt.blocks {
				tt.blocks[i].Start += tt.start
				tt.blocks[i].End += tt.start
			}
			f.Sent(tt.start+tt.ack, tt.blocks)
			if got := positions(e); len(got) != tt.want {
				t.Errorf("found FPDUs at %d, want %d of them", got, tt.want)
			}
			if err := f.InOrder(b, 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// Segments that wait for an acknowledgement are bounded.
func TestFlowBounded(t *testing.T) {
	f := ooo.NewFlow(0, ooo.New(withMarkers))
	for i := range uint32(4096) {
		f.Received(1<<20+i*1024, bytes.Repeat([]byte{0xff}, 1000))
	}
	f.Sent(0, []ooo.Block{{End: 1<<20 + 4096*1024}})
	if s := f.Engine.Stats(); s.Segments > 1100 || s.Segments < 900 {
		t.Errorf("%+v", s)
	}
}
