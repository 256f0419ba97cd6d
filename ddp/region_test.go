package ddp_test

import (
	"bytes"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

const both = ddp.RemoteRead | ddp.RemoteWrite

// accessErrors are all ways in which an access to a region of 100 octets with
// base 1000 can be wrong, with the code for placing and for fetching.
var accessErrors = []struct {
	name         string
	who          ddp.Peer
	to, n        uint64
	access       ddp.Access
	invalid      bool
	place, fetch protocol.Code // 0: allowed
}{
	{name: "all", to: 1000, n: 100, access: both},
	{name: "first octet", to: 1000, n: 1, access: both},
	{name: "last octet", to: 1099, n: 1, access: both},
	{
		name: "invalid", to: 1000, n: 1, access: both, invalid: true, place: protocol.DDPTaggedInvalidSTag,
		fetch: protocol.RDMAPInvalidSTag,
	},
	{
		name: "invalid before all else", who: ddp.Peer{PD: 7}, to: math.MaxUint64, n: 1, invalid: true,
		place: protocol.DDPTaggedInvalidSTag, fetch: protocol.RDMAPInvalidSTag,
	},
	{
		name: "other domain", who: ddp.Peer{PD: 2, Stream: 10}, to: 1000, n: 1, access: both,
		place: protocol.DDPTaggedSTagNotAssociated, fetch: protocol.RDMAPSTagNotAssociated,
	},
	{
		name: "other stream", who: ddp.Peer{PD: 1, Stream: 11}, to: 1000, n: 1, access: both,
		place: protocol.DDPTaggedSTagNotAssociated, fetch: protocol.RDMAPSTagNotAssociated,
	},
	{
		name: "stream before right", who: ddp.Peer{PD: 1, Stream: 11}, to: 1000, n: 1,
		place: protocol.DDPTaggedSTagNotAssociated, fetch: protocol.RDMAPSTagNotAssociated,
	},
	{name: "no right", to: 1000, n: 1, place: protocol.DDPTaggedInvalidSTag, fetch: protocol.RDMAPAccess},
	{name: "write only", to: 1000, n: 1, access: ddp.RemoteWrite, fetch: protocol.RDMAPAccess},
	{name: "read only", to: 1000, n: 1, access: ddp.RemoteRead, place: protocol.DDPTaggedInvalidSTag},
	{
		name: "atomic only", to: 1000, n: 1, access: ddp.RemoteAtomic, place: protocol.DDPTaggedInvalidSTag,
		fetch: protocol.RDMAPAccess,
	},
	{
		name: "right before wrap", to: math.MaxUint64, n: 2, place: protocol.DDPTaggedInvalidSTag,
		fetch: protocol.RDMAPAccess,
	},
	{
		name: "wrap", to: math.MaxUint64, n: 2, access: both, place: protocol.DDPTaggedTOWrap,
		fetch: protocol.RDMAPTOWrap,
	},
	{
		name: "sum of 2^64", to: math.MaxUint64, n: 1, access: both, place: protocol.DDPTaggedTOWrap,
		fetch: protocol.RDMAPTOWrap,
	},
	{
		name: "highest sum", to: math.MaxUint64 - 1, n: 1, access: both, place: protocol.DDPTaggedBounds,
		fetch: protocol.RDMAPBounds,
	},
	{name: "one below", to: 999, n: 1, access: both, place: protocol.DDPTaggedBounds, fetch: protocol.RDMAPBounds},
	{name: "begins below", to: 999, n: 100, access: both, place: protocol.DDPTaggedBounds, fetch: protocol.RDMAPBounds},
	{name: "from 0", to: 0, n: 1, access: both, place: protocol.DDPTaggedBounds, fetch: protocol.RDMAPBounds},
	{name: "one above", to: 1100, n: 1, access: both, place: protocol.DDPTaggedBounds, fetch: protocol.RDMAPBounds},
	{name: "ends above", to: 1001, n: 100, access: both, place: protocol.DDPTaggedBounds, fetch: protocol.RDMAPBounds},
	{
		name: "far above", to: 1000 + 1<<32, n: 1, access: both, place: protocol.DDPTaggedBounds,
		fetch: protocol.RDMAPBounds,
	},
	{
		name: "negative as signed", to: 1 << 63, n: 1, access: both, place: protocol.DDPTaggedBounds,
		fetch: protocol.RDMAPBounds,
	},
	{name: "nothing", who: ddp.Peer{PD: 9, Stream: 9}, to: math.MaxUint64, n: 0, invalid: true},
}

// Shows: DDP-7.1-07, DDP-7.1-08, DDP-7.1-09, DDP-7.1-10, DDP-8.2-01, DDP-8.2-02, DDP-8.3-01, DDP-8.3.1-01
// Shows: DDP-8.3.1-02, DDP-8.3.1-03
// Shows: RDMAP-8.1.1-01, RDMAP-8.1.1-02, RDMAP-8.1.1-03, SEC-6.1.1-02, SEC-6.2.1-01, SEC-6.3.5-01
func TestAccessErrors(t *testing.T) {
	for _, tt := range accessErrors {
		t.Run(tt.name, func(t *testing.T) {
			if tt.who == (ddp.Peer{}) {
				tt.who = me
			}
			a := newArena(1000)
			buf := a.take(100)
			table := ddp.NewTable(0)
			r := register(t, table, ddp.RegionConfig{Buf: buf, Base: 1000, Access: tt.access, PD: 1, Stream: 10})
			if tt.invalid {
				r.Invalidate()
			}
			before := bytes.Clone(a.mem)
			data := bytes.Repeat([]byte{1}, int(tt.n))
			check := func(what string, err *protocol.Error, want protocol.Code) {
				t.Helper()
				if want != 0 {
					wantCode(t, what, err, want)
					if !strings.Contains(err.Detail, r.STag().String()) {
						t.Errorf("%s: the error does not name the STag: %v", what, err)
					}
				} else if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			dst := bytes.Repeat([]byte{9}, int(tt.n))
			check("Fetch", r.Fetch(tt.who, tt.to, dst, ddp.RemoteRead), tt.fetch)
			if tt.fetch == 0 && !bytes.Equal(dst, make([]byte, tt.n)) || tt.fetch != 0 && dst[0] != 9 {
				t.Errorf("Fetch gives %x", dst)
			}
			check("Table.Fetch", table.Fetch(r.STag(), tt.who, tt.to, dst, ddp.RemoteRead), tt.fetch)
			check("CheckFetch", r.CheckFetch(tt.who, tt.to, tt.n, ddp.RemoteRead), tt.fetch)
			check("Table.CheckFetch", table.CheckFetch(r.STag(), tt.who, tt.to, tt.n, ddp.RemoteRead), tt.fetch)
			src, err := r.Borrow(tt.who, tt.to, tt.n, ddp.RemoteRead)
			check("Borrow", err, tt.fetch)
			if err == nil {
				if len(src) != int(tt.n) || cap(src) != len(src) {
					t.Errorf("Borrow gives %d octets with room for %d, want %d", len(src), cap(src), tt.n)
				}
				r.Release()
			}
			held, _, err := table.Borrow(r.STag(), tt.who, tt.to, tt.n, ddp.RemoteRead)
			check("Table.Borrow", err, tt.fetch)
			if err == nil {
				held.Release()
			}
			check("Place", r.Place(tt.who, tt.to, data, ddp.RemoteWrite), tt.place)
			check("Table.Place", table.Place(r.STag(), tt.who, tt.to, data, ddp.RemoteWrite), tt.place)
			a.wantGuards(t, buf)
			if tt.place != 0 && !bytes.Equal(a.mem, before) {
				t.Error("the buffer has changed")
			}
			if tt.place == 0 && tt.n > 0 && !bytes.Equal(buf[tt.to-1000:][:tt.n], data) {
				t.Error("the octets were not placed")
			}
			r.Invalidate() // nothing holds the region any more, or this waits for ever
		})
	}
}

// Shows: DDP-7.1-07, DDP-8.3-02, DDP-8.3-04, RDMAP-8.1.1-04
func TestUnknownSTag(t *testing.T) {
	table := ddp.NewTable(0)
	r := register(t, table, ddp.RegionConfig{Buf: make([]byte, 10), Access: both | ddp.RemoteAtomic, PD: 1, Stream: 10})
	old := r.STag()
	key := uint8(old) + 1
	fresh := r.Rekey(key)
	gone := register(t, table, ddp.RegionConfig{Buf: make([]byte, 10), Access: both, PD: 1, Stream: 10})
	gone.Deregister()
	for _, s := range []ddp.STag{0, old, gone.STag(), 0xffffffff} {
		if s == fresh {
			continue
		}
		wantCode(t, "Place", table.Place(s, me, 0, []byte{1}, 0), protocol.DDPTaggedInvalidSTag)
		wantCode(t, "Fetch", table.Fetch(s, me, 0, []byte{1}, 0), protocol.RDMAPInvalidSTag)
		wantCode(t, "CheckFetch", table.CheckFetch(s, me, 0, 1, 0), protocol.RDMAPInvalidSTag)
		_, _, err := table.Borrow(s, me, 0, 1, 0)
		wantCode(t, "Borrow", err, protocol.RDMAPInvalidSTag)
		wantCode(t, "Atomic", table.Atomic(s, me, 0, func(*uint64) { t.Error("called") }), protocol.RDMAPInvalidSTag)
		// No octets, no check.
		if table.Place(s, me, 0, nil, 0) != nil || table.Fetch(s, me, 0, nil, 0) != nil ||
			table.CheckFetch(s, me, 0, 0, 0) != nil {
			t.Error("an access of no octets is an error")
		}
	}
	if err := table.Place(fresh, me, 0, []byte{1}, ddp.RemoteWrite); err != nil {
		t.Error(err)
	}
}

// Shows: DDP-8.3-02, DDP-8.3.1-04, RDMAP-8.1.1-04, RDMAP-8.1.1-05
func TestSetAndRevoke(t *testing.T) {
	table := ddp.NewTable(0)
	buf := make([]byte, 10)
	r := register(t, table, ddp.RegionConfig{Buf: buf, PD: 1, Stream: 10})
	for _, a := range []ddp.Access{0, ddp.RemoteRead, ddp.RemoteWrite, both, ddp.RemoteWrite, 0} {
		r.SetAccess(a | 0x80)
		if r.Access() != a {
			t.Fatalf("access is %v, want %v", r.Access(), a)
		}
		if got := r.Place(me, 0, []byte{1}, ddp.RemoteWrite) == nil; got != a.Has(ddp.RemoteWrite) {
			t.Errorf("with %v a placement succeeds: %v", a, got)
		}
		if got := r.CheckFetch(me, 0, 1, ddp.RemoteRead) == nil; got != a.Has(ddp.RemoteRead) {
			t.Errorf("with %v a fetch succeeds: %v", a, got)
		}
	}
	r.SetAccess(both)
	r.Invalidate()
	r.Invalidate()
	if table.Lookup(r.STag()) != r {
		t.Error("an invalidated STag has lost its place")
	}
	wantCode(t, "invalid", r.Place(me, 0, []byte{1}, 0), protocol.DDPTaggedInvalidSTag)
	if s := r.Rekey(0x55); s&0xff != 0x55 || !r.Valid() {
		t.Errorf("Rekey gives %v, Valid is %v", s, r.Valid())
	}
	if err := r.Place(me, 0, []byte{1}, ddp.RemoteWrite); err != nil {
		t.Errorf("valid again: %v", err)
	}
}

// Shows: DDP-8.2-01, DDP-8.3-03
func TestSharedByTheDomain(t *testing.T) {
	table := ddp.NewTable(0)
	r := register(t, table, ddp.RegionConfig{Buf: make([]byte, 10), Access: both, PD: 1})
	for _, many := range []bool{false, true} {
		if many {
			r.Share()
		}
		for stream := range ddp.StreamID(20) {
			if err := r.Place(ddp.Peer{PD: 1, Stream: stream}, 0, []byte{1}, ddp.RemoteWrite); err != nil {
				t.Error(err)
			}
		}
		wantCode(t, "other domain", r.Place(ddp.Peer{PD: 2}, 0, []byte{1}, 0), protocol.DDPTaggedSTagNotAssociated)
	}
	r.Invalidate()
	wantCode(t, "invalid", r.Place(me, 0, []byte{1}, 0), protocol.DDPTaggedInvalidSTag)
}

// aligned returns n octets whose address is off after a multiple of 8.
func aligned(n, off int) []byte {
	words := make([]uint64, n/8+2)
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), n+8)[off : off+n : off+n]
}

// Shows: EXT-8.2-04, EXT-8.2-05
func TestAtomic(t *testing.T) {
	table := ddp.NewTable(0)
	for _, tt := range []struct {
		name   string
		off    int
		base   uint64
		to     uint64
		who    ddp.Peer
		access ddp.Access
		want   protocol.Code
	}{
		{name: "first", access: ddp.RemoteAtomic},
		{name: "last", to: 24, access: ddp.RemoteAtomic},
		{name: "base", base: 800, to: 808, access: ddp.RemoteAtomic},
		{name: "TO", to: 1, access: ddp.RemoteAtomic, want: protocol.RDMAPStreamCatastrophic},
		{name: "address", off: 4, to: 8, access: ddp.RemoteAtomic, want: protocol.RDMAPStreamCatastrophic},
		{name: "address good, TO not", off: 4, to: 4, access: ddp.RemoteAtomic},
		{name: "address good, base and TO not", base: 3, to: 11, access: ddp.RemoteAtomic},
		{name: "base odd, TO good", base: 1, to: 8, access: ddp.RemoteAtomic, want: protocol.RDMAPStreamCatastrophic},
		{name: "no right", access: both, want: protocol.RDMAPAccess},
		{
			name: "stream", who: ddp.Peer{PD: 1, Stream: 2}, access: ddp.RemoteAtomic,
			want: protocol.RDMAPSTagNotAssociated,
		},
		{name: "bounds", to: 32, access: ddp.RemoteAtomic, want: protocol.RDMAPBounds},
		{name: "bounds of the whole word", to: 25, access: ddp.RemoteAtomic, want: protocol.RDMAPBounds},
		{name: "wrap", to: math.MaxUint64 - 7, access: ddp.RemoteAtomic, want: protocol.RDMAPTOWrap},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.who == (ddp.Peer{}) {
				tt.who = me
			}
			buf := aligned(32, tt.off)
			r := register(t, table, ddp.RegionConfig{Buf: buf, Base: tt.base, Access: tt.access, PD: 1, Stream: 10})
			called := 0
			add := func(w *uint64) {
				called++
				atomic.AddUint64(w, 5)
			}
			errs := []*protocol.Error{r.Atomic(tt.who, tt.to, add), table.Atomic(r.STag(), tt.who, tt.to, add)}
			if tt.want != 0 {
				for _, err := range errs {
					wantCode(t, "Atomic", err, tt.want)
				}
				if called != 0 || !bytes.Equal(buf, make([]byte, len(buf))) {
					t.Error("the word was touched")
				}
				return
			}
			if errs[0] != nil || errs[1] != nil || called != 2 {
				t.Fatalf("%v, %v, called %d times", errs[0], errs[1], called)
			}
			if got := *(*uint64)(unsafe.Pointer(&buf[tt.to-tt.base])); got != 10 {
				t.Errorf("the word is %d, want 10", got)
			}
		})
	}
}

// A region above 4 GiB: offsets that do not fit 32 bits. The memory is a mapping
// of zeroes that nobody touches but for two octets.
func TestRegionAbove4GiB(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("a slice cannot be that long here")
	}
	if testing.Short() {
		t.Skip("reserves 5 GiB of addresses")
	}
	size := uint64(5) << 30
	buf, free := reserve(t, size)
	defer free()
	table := ddp.NewTable(0)
	r := register(t, table, ddp.RegionConfig{Buf: buf, Base: 1 << 40, Access: both, PD: 1, Stream: 10})
	for _, off := range []uint64{0, 1<<32 - 1, 1 << 32, size - 2} {
		if err := r.Place(me, 1<<40+off, []byte{1, 2}, ddp.RemoteWrite); err != nil || buf[off] != 1 ||
			buf[off+1] != 2 {
			t.Errorf("offset %d: %v, octets %x", off, err, buf[off:off+2])
		}
	}
	if err := r.CheckFetch(me, 1<<40, size, ddp.RemoteRead); err != nil {
		t.Error(err)
	}
	wantCode(t, "one too far", r.Place(me, 1<<40+size-1, []byte{1, 2}, ddp.RemoteWrite), protocol.DDPTaggedBounds)
	r.Deregister()
}

// A region that has been deregistered gets no key: its place in the table is another's.
func TestRekeyOfWhatIsGone(t *testing.T) {
	table := ddp.NewTable(0)
	r, err := table.Register(ddp.RegionConfig{Buf: make([]byte, 8), PD: 1, Access: ddp.RemoteWrite})
	if err != nil {
		t.Fatal(err)
	}
	r.Deregister()
	if stag := r.Rekey(7); stag != 0 || r.Valid() {
		t.Errorf("Rekey after Deregister returns %v, valid %v", stag, r.Valid())
	}
}
