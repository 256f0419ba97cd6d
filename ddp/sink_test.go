package ddp_test

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// Shows: DDP-7.1-07, DDP-7.1-09, DDP-7.1-10
func TestSink(t *testing.T) {
	table := ddp.NewTable(0)
	s := table.NewSink()
	wantCode(t, "not armed yet", s.Place(0, []byte{1}), protocol.DDPTaggedInvalidSTag)
	a := newArena(1000)
	first, second := a.take(10), a.take(20)
	stag := s.Arm([][]byte{first, nil, second})
	if stag == 0 || s.STag() != stag || s.Len() != 30 {
		t.Fatalf("armed: STag %v, Len %d", stag, s.Len())
	}
	if table.Lookup(stag) != nil {
		t.Error("a sink can be looked up")
	}
	wantCode(t, "wrap", s.Place(math.MaxUint64, []byte{1, 2}), protocol.DDPTaggedTOWrap)
	wantCode(t, "beyond", s.Place(30, []byte{1}), protocol.DDPTaggedBounds)
	wantCode(t, "runs over", s.Place(29, []byte{1, 2}), protocol.DDPTaggedBounds)
	wantCode(t, "far", s.Place(1<<40, []byte{1}), protocol.DDPTaggedBounds)
	if !bytes.Equal(first, make([]byte, 10)) || !bytes.Equal(second, make([]byte, 20)) {
		t.Error("a refused placement has placed something")
	}
	if err := s.Place(math.MaxUint64, nil); err != nil {
		t.Errorf("no data: %v", err)
	}
	data := pattern(30, 1)
	for _, p := range [][2]int{{25, 30}, {0, 5}, {5, 25}} { // out of order, across pieces
		if err := s.Place(uint64(p[0]), data[p[0]:p[1]]); err != nil {
			t.Fatal(err)
		}
	}
	if got := append(bytes.Clone(first), second...); !bytes.Equal(got, data) {
		t.Errorf("the memory holds %x, want %x", got, data)
	}
	a.wantGuards(t, first, second)
	s.Disarm()
	s.Disarm()
	wantCode(t, "disarmed", s.Place(0, []byte{1}), protocol.DDPTaggedInvalidSTag)
	if s.Len() != 0 || s.STag() != 0 {
		t.Error("the sink is armed after Disarm")
	}
	s.Close()
	if s.Arm([][]byte{first}) != 0 || s.Len() != 0 || table.Len() != 0 {
		t.Error("the sink is there after Close")
	}
}

// Shows: RDMAP-8.1.1-08
func TestSinkKeysChange(t *testing.T) {
	table := ddp.NewTable(0)
	s := table.NewSink()
	last := s.Arm(nil)
	keys := map[uint8]bool{}
	steps := map[uint8]bool{}
	for range 1000 {
		stag := s.Arm(nil)
		if stag == last || stag>>8 != last>>8 {
			t.Fatalf("%v after %v", stag, last)
		}
		keys[uint8(stag)] = true
		steps[uint8(stag)-uint8(last)] = true
		last = stag
	}
	if len(keys) < 200 || len(steps) < 200 {
		t.Errorf("1000 uses had %d keys and %d steps between keys", len(keys), len(steps))
	}
}

// A segment for an earlier use of the sink must miss the present one, also if the
// ULP's answer names the sink.
func TestSinkLateSegment(t *testing.T) {
	s := newSink(true, 0)
	k := s.table.NewSink()
	buf := make([]byte, 4)
	old := k.Arm([][]byte{buf})
	s.up.sinks[old] = k
	s.good(t, "in time", segment(tagged(old, 0, true), "abcd"))
	fresh := k.Arm([][]byte{buf})
	s.up.sinks[fresh] = k
	s.good(t, "the next use", segment(tagged(fresh, 0, true), "efgh"))
	wantCode(t, "late", s.next(segment(tagged(old, 0, true), "late")), protocol.DDPTaggedInvalidSTag)
	if string(buf) != "efgh" {
		t.Errorf("the buffer holds %q", buf)
	}
}

// The same between lookup and access to a region.
func TestRekeyBetweenLookupAndPlacement(t *testing.T) {
	s := newSink(true, 0)
	buf := make([]byte, 4)
	r := s.region(t, ddp.RegionConfig{Buf: buf, Access: ddp.RemoteWrite})
	old := r.STag()
	late := &lateRekey{upper: s.up, region: r}
	rc := ddp.NewReceiver(ddp.ReceiverConfig{Peer: me, Ordered: true}, late)
	wantCode(t, "old STag", rc.Segment(0, segment(tagged(old, 0, true), "data")), protocol.DDPTaggedInvalidSTag)
	if !bytes.Equal(buf, make([]byte, 4)) {
		t.Error("the octets were placed under a revoked STag")
	}
}

type lateRekey struct {
	*upper
	region *ddp.Region
}

func (l *lateRekey) CheckTagged(h *ddp.Header, _ int) (ddp.Target, *protocol.Error) {
	l.region.Rekey(uint8(h.STag) + 1)
	return ddp.Target{Region: l.region, Need: ddp.RemoteWrite}, nil
}

// Gather lists against one flat piece of memory.
func TestGatherProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 20), 0, 8).Draw(t, "sizes")
		a := newArena(1000)
		var sg [][]byte
		total := 0
		for _, n := range sizes {
			sg = append(sg, a.take(n))
			total += n
		}
		s := ddp.NewTable(0).NewSink()
		s.Arm(sg)
		flat := make([]byte, total)
		for i := range rapid.IntRange(0, 20).Draw(t, "placements") {
			off := rapid.IntRange(0, total+2).Draw(t, "off")
			data := pattern(rapid.IntRange(0, 30).Draw(t, "n"), i)
			err := s.Place(uint64(off), data)
			if fits := len(data) == 0 || off+len(data) <= total; fits != (err == nil) {
				t.Fatalf("%d octets at %d of %d: %v", len(data), off, total, err)
			}
			if err == nil && len(data) > 0 {
				copy(flat[off:], data)
			}
		}
		if !bytes.Equal(bytes.Join(sg, nil), flat) {
			t.Fatalf("the pieces hold %x, want %x", bytes.Join(sg, nil), flat)
		}
		for i, x := range a.mem[:guardLen] {
			if x != guardOctet {
				t.Fatalf("guard octet %d is %#x", i, x)
			}
		}
		image := bytes.Clone(a.mem)
		for _, b := range sg {
			off := cap(a.mem) - cap(b)
			for i := range b {
				image[off+i] = guardOctet
			}
		}
		if bytes.Count(image, []byte{guardOctet}) != len(image) {
			t.Fatal("octets outside the pieces were written")
		}
	})
}
