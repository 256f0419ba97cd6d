package ddp_test

import (
	"errors"
	"math"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

func register(t testing.TB, table *ddp.Table, c ddp.RegionConfig) *ddp.Region {
	t.Helper()
	r, err := table.Register(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRegisterAndLookup(t *testing.T) {
	table := ddp.NewTable(0)
	if table.Limit() != ddp.MaxSTags {
		t.Errorf("limit is %d, want %d", table.Limit(), ddp.MaxSTags)
	}
	c := ddp.RegionConfig{Buf: make([]byte, 100), Base: 5, Access: ddp.RemoteRead | ddp.RemoteWrite, PD: 3, Stream: 4}
	r := register(t, table, c)
	if table.Lookup(r.STag()) != r || table.Len() != 1 {
		t.Error("the region is not found")
	}
	if r.Len() != 100 || r.Base() != 5 || r.Access() != c.Access || r.PD() != 3 || r.Stream() != 4 || !r.Valid() {
		t.Errorf("the region is not what was registered: %d %d %v %d %d %v", r.Len(), r.Base(), r.Access(), r.PD(),
			r.Stream(), r.Valid())
	}
	for _, s := range []ddp.STag{0, r.STag() ^ 1, r.STag() ^ 0x100, 0xff} {
		if table.Lookup(s) != nil {
			t.Errorf("Lookup(%v) finds something", s)
		}
	}
	r.Deregister()
	r.Deregister()
	if table.Lookup(r.STag()) != nil || table.Len() != 0 || r.Valid() || r.Len() != 0 {
		t.Error("the region is there after Deregister")
	}
	if r.Rekey(1) != 0 || r.Valid() {
		t.Error("Rekey brings a region back that was deregistered")
	}
}

func TestRegisterErrors(t *testing.T) {
	table := ddp.NewTable(2)
	for _, tt := range []struct {
		name string
		c    ddp.RegionConfig
		want error
	}{
		{name: "no PD", c: ddp.RegionConfig{}, want: ddp.ErrNoPD},
		{name: "unknown right", c: ddp.RegionConfig{PD: 1, Access: 0x80}, want: ddp.ErrAccess},
		{name: "wrap", c: ddp.RegionConfig{PD: 1, Base: math.MaxUint64 - 3, Buf: make([]byte, 4)}, want: ddp.ErrWrap},
		{name: "highest base", c: ddp.RegionConfig{PD: 1, Base: math.MaxUint64 - 4, Buf: make([]byte, 4)}, want: nil},
		{name: "empty buffer", c: ddp.RegionConfig{PD: 1, Base: math.MaxUint64}, want: nil},
		{name: "full", c: ddp.RegionConfig{PD: 1}, want: ddp.ErrTableFull},
	} {
		if _, err := table.Register(tt.c); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// Shows: DDP-8.3.2-02, DDP-8.3.2-05, SEC-6.4.1-01
func TestTableLimit(t *testing.T) {
	table := ddp.NewTable(3)
	a := register(t, table, ddp.RegionConfig{PD: 1})
	register(t, table, ddp.RegionConfig{PD: 1})
	s := table.NewSink()
	if s == nil {
		t.Fatal("no sink although the table has room")
	}
	if _, err := table.Register(ddp.RegionConfig{PD: 1}); !errors.Is(err, ddp.ErrTableFull) {
		t.Errorf("fourth STag: %v, want %v", err, ddp.ErrTableFull)
	}
	if table.NewSink() != nil {
		t.Error("a sink beyond the limit")
	}
	a.Deregister()
	register(t, table, ddp.RegionConfig{PD: 1})
	s.Close()
	s.Close()
	register(t, table, ddp.RegionConfig{PD: 1})
	if table.Len() != 3 {
		t.Errorf("%d STags, want 3", table.Len())
	}
}

// Shows: RDMAP-8.1.1-08
func TestSTagsAreUnpredictable(t *testing.T) {
	table := ddp.NewTable(0)
	const n = 4096
	seen := map[uint32]bool{}
	var up, near int
	var last uint32
	var bits [32]int
	for i := range n {
		s := uint32(register(t, table, ddp.RegionConfig{PD: 1}).STag())
		if s>>8 == 0 || seen[s>>8] {
			t.Fatalf("STag %08x has index 0 or one in use", s)
		}
		seen[s>>8] = true
		if i > 0 && s > last {
			up++
		}
		if d := int64(s) - int64(last); d > -0x10000 && d < 0x10000 {
			near++
		}
		for b := range bits {
			bits[b] += int(s >> b & 1)
		}
		last = s
	}
	if near > 10 {
		t.Errorf("%d of %d STags are near the one before", near, n)
	}
	if up < n/3 || up > n*2/3 {
		t.Errorf("%d of %d STags are above the one before", up, n)
	}
	for b, ones := range bits {
		if ones < n*2/5 || ones > n*3/5 {
			t.Errorf("bit %d is 1 in %d of %d STags", b, ones, n)
		}
	}
}

// The whole index space can be given out, the last of it without endless draws.
func TestTableFull(t *testing.T) {
	const bits = 10
	table := ddp.SmallTable(bits)
	seen := map[ddp.STag]bool{}
	var all []*ddp.Region
	for range 1<<bits - 1 {
		r := register(t, table, ddp.RegionConfig{PD: 1})
		if index := r.STag() >> 8; index == 0 || index >= 1<<bits || seen[index] {
			t.Fatalf("index %d", index)
		}
		seen[r.STag()>>8] = true
		all = append(all, r)
	}
	if table.NewSink() != nil {
		t.Error("more STags than indices")
	}
	all[5].Deregister()
	if r := register(t, table, ddp.RegionConfig{PD: 1}); r.STag()>>8 != all[5].STag()>>8 {
		t.Errorf("the only free index is %d, got %d", all[5].STag()>>8, r.STag()>>8)
	}
}

// The table against a map, with removals that leave holes in probe sequences.
func TestTableProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := ddp.NewTable(rapid.SampledFrom([]int{0, 40, 300}).Draw(t, "limit"))
		live := map[ddp.STag]*ddp.Region{}
		var order []*ddp.Region
		var sinks int
		t.Repeat(map[string]func(*rapid.T){
			"register": func(t *rapid.T) {
				for range rapid.IntRange(1, 50).Draw(t, "n") {
					r, err := table.Register(ddp.RegionConfig{PD: 1, Stream: 1})
					if full := len(live)+sinks == table.Limit(); full != errors.Is(err, ddp.ErrTableFull) {
						t.Fatalf("register with %d of %d: %v", len(live)+sinks, table.Limit(), err)
					}
					if err != nil {
						return
					}
					live[r.STag()] = r
					order = append(order, r)
				}
			},
			"deregister": func(t *rapid.T) {
				for range rapid.IntRange(1, 40).Draw(t, "n") {
					if len(order) == 0 {
						return
					}
					i := rapid.IntRange(0, len(order)-1).Draw(t, "i")
					delete(live, order[i].STag())
					order[i].Deregister()
					order[i] = order[len(order)-1]
					order = order[:len(order)-1]
				}
			},
			"rekey": func(t *rapid.T) {
				if len(order) == 0 {
					return
				}
				r := order[rapid.IntRange(0, len(order)-1).Draw(t, "i")]
				old := r.STag()
				delete(live, old)
				s := r.Rekey(rapid.Byte().Draw(t, "key"))
				if s>>8 != old>>8 || s != r.STag() {
					t.Fatalf("Rekey of %v gives %v", old, s)
				}
				live[s] = r
			},
			"sink": func(t *rapid.T) {
				if s := table.NewSink(); s != nil {
					sinks++
					if stag := s.Arm(nil); table.Lookup(stag) != nil {
						t.Fatal("a sink can be looked up")
					}
				}
			},
			"": func(t *rapid.T) {
				if table.Len() != len(live)+sinks {
					t.Fatalf("%d STags, want %d", table.Len(), len(live)+sinks)
				}
				for s, r := range live {
					if table.Lookup(s) != r {
						t.Fatalf("%v is not found", s)
					}
				}
				if table.Slots() < 2*table.Len() {
					t.Fatalf("%d slots for %d STags", table.Slots(), table.Len())
				}
			},
		})
	})
}

// Shows: RDMAP-5.3-11, RDMAP-5.3-13, RDMAP-8.1.1-07
func TestRemoteInvalidate(t *testing.T) {
	table := ddp.NewTable(0)
	bound := register(t, table, ddp.RegionConfig{PD: 1, Stream: 10})
	shared := register(t, table, ddp.RegionConfig{PD: 1})
	other := register(t, table, ddp.RegionConfig{PD: 1, Stream: 11})
	domain := register(t, table, ddp.RegionConfig{PD: 2, Stream: 10})
	sink := table.NewSink()
	for _, tt := range []struct {
		name string
		stag ddp.STag
	}{
		{name: "unknown", stag: bound.STag() ^ 1},
		{name: "zero", stag: 0},
		{name: "shared by the domain", stag: shared.STag()},
		{name: "bound to another stream", stag: other.STag()},
		{name: "of another domain", stag: domain.STag()},
		{name: "sink", stag: sink.Arm([][]byte{make([]byte, 4)})},
	} {
		wantCode(t, tt.name, table.RemoteInvalidate(tt.stag, 1, 10), protocol.RDMAPCannotInvalidate)
	}
	if !bound.Valid() || !shared.Valid() || !other.Valid() || !domain.Valid() {
		t.Fatal("a refused request has invalidated a region")
	}
	s := bound.STag()
	if err := table.RemoteInvalidate(s, 1, 10); err != nil || bound.Valid() {
		t.Errorf("%v, Valid is %v", err, bound.Valid())
	}
	wantCode(t, "again", table.RemoteInvalidate(s, 1, 10), protocol.RDMAPCannotInvalidate)
	wantCode(t, "write after it", table.Place(s, me, 0, []byte{1}, 0), protocol.DDPTaggedInvalidSTag)
	bound.Deregister()
	wantCode(t, "deregistered", table.RemoteInvalidate(s, 1, 10), protocol.RDMAPCannotInvalidate)
}

func TestTableConcurrentUse(t *testing.T) {
	table := ddp.NewTable(0)
	fixed := register(t, table, ddp.RegionConfig{PD: 1, Stream: 10})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var regions []*ddp.Region
			for i := range 2000 {
				r, err := table.Register(ddp.RegionConfig{PD: 1, Stream: 10})
				if err != nil {
					t.Error(err)
					return
				}
				if table.Lookup(r.STag()) != r || table.Lookup(fixed.STag()) != fixed {
					t.Error("a region is not found while the table changes")
					return
				}
				regions = append(regions, r)
				if i%3 == 0 {
					regions[0].Deregister()
					regions = regions[1:]
				}
			}
			for _, r := range regions {
				r.Deregister()
			}
		})
	}
	wg.Wait()
	if table.Len() != 1 || len(table.Indices()) != 1 {
		t.Errorf("%d STags left, want 1", table.Len())
	}
}

func TestAccessString(t *testing.T) {
	for _, tt := range []struct {
		a    ddp.Access
		want string
	}{
		{a: 0, want: "none"},
		{a: ddp.RemoteRead | ddp.RemoteAtomic, want: "read,atomic"},
		{a: ddp.RemoteWrite, want: "write"},
		{a: 0x80, want: "unknown"},
	} {
		if got := tt.a.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
