package ddp_test

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// allRevocations are all that takes rights from a region.
var allRevocations = map[string]func(*ddp.Table, *ddp.Region){
	"Region.Invalidate": func(_ *ddp.Table, r *ddp.Region) { r.Invalidate() },
	"Table.Invalidate":  func(table *ddp.Table, r *ddp.Region) { table.Invalidate(r.STag(), me) },
	"RemoteInvalidate":  func(table *ddp.Table, r *ddp.Region) { table.RemoteInvalidate(r.STag(), me.PD, me.Stream) },
	"Deregister":        func(_ *ddp.Table, r *ddp.Region) { r.Deregister() },
	"SetAccess":         func(_ *ddp.Table, r *ddp.Region) { r.SetAccess(0) },
	"Rekey":             func(_ *ddp.Table, r *ddp.Region) { r.Rekey(uint8(r.STag()) + 1) },
	"Rekey, same key":   func(_ *ddp.Table, r *ddp.Region) { r.Rekey(uint8(r.STag())) },
}

// windowOn makes a region and a window on all of it.
func windowOn(t *testing.T, table *ddp.Table, access ddp.Access) (region, window *ddp.Region) {
	t.Helper()
	buf := make([]byte, 8)
	region = register(t, table, ddp.RegionConfig{Buf: buf, Access: both, PD: me.PD, Stream: me.Stream})
	return region, register(t, table,
		ddp.RegionConfig{Buf: buf, Access: access, PD: me.PD, Stream: me.Stream, Parent: region})
}

// Whatever ends a region ends its windows: those in use, and those whose turn has
// not come.
// Shows: RDMAP-8.1.1-06, DDP-8.3.1-05, SEC-6.2.2-02
func TestWindowsEndWithTheirRegion(t *testing.T) {
	for name, revoke := range allRevocations {
		t.Run(name, func(t *testing.T) {
			table := ddp.NewTable(0)
			region, w := windowOn(t, table, both)
			later := register(t, table,
				ddp.RegionConfig{Buf: make([]byte, 8), Access: both, PD: me.PD, Stream: me.Stream, Parent: region})
			wantCode(t, "before its turn", w.Place(me, 0, []byte("x"), ddp.RemoteWrite), protocol.DDPTaggedInvalidSTag)
			if err := w.Activate(); err != nil {
				t.Fatal(err)
			}
			if err := w.Place(me, 0, []byte("x"), ddp.RemoteWrite); err != nil {
				t.Fatal(err)
			}
			s := w.STag()
			revoke(table, region)
			wantCode(t, "Place", w.Place(me, 0, []byte("y"), ddp.RemoteWrite), protocol.DDPTaggedInvalidSTag)
			wantCode(t, "Fetch", table.Fetch(s, me, 0, make([]byte, 1), ddp.RemoteRead), protocol.RDMAPInvalidSTag)
			if w.Valid() {
				t.Error("the window is valid")
			}
			if err := later.Activate(); !errors.Is(err, ddp.ErrParent) || later.Valid() {
				t.Errorf("a window whose turn comes later: %v, valid %t", err, later.Valid())
			}
			w.Deregister()
			later.Deregister()
			region.Deregister()
			if n := table.Len(); n != 0 {
				t.Errorf("%d STags are left", n)
			}
		})
	}
}

// Whoever takes rights from a region waits for accesses through its windows.
// Shows: DDP-8.3.1-05, RDMAP-8.1.1-06, SEC-6.2.2-02
func TestRevocationWaitsForWindows(t *testing.T) {
	for name, revoke := range allRevocations {
		table := ddp.NewTable(0)
		region, w := windowOn(t, table, both)
		if err := w.Activate(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Borrow(me, 0, 8, ddp.RemoteRead); err != nil {
			t.Fatal(err)
		}
		var over atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			revoke(table, region)
			over.Store(true)
		}()
		for range 2000 {
			runtime.Gosched()
		}
		if over.Load() {
			t.Errorf("%s does not wait for an access through a window", name)
		}
		w.Release()
		<-done
	}
}

// A right that a region loses its windows lose too, and do not get back.
// Shows: RDMAP-8.1.1-05, DDP-8.3.1-04
func TestWindowsLoseRights(t *testing.T) {
	table := ddp.NewTable(0)
	region, w := windowOn(t, table, both)
	later := register(t, table,
		ddp.RegionConfig{Buf: make([]byte, 8), Access: both, PD: me.PD, Stream: me.Stream, Parent: region})
	reads := register(t, table,
		ddp.RegionConfig{Buf: make([]byte, 8), Access: ddp.RemoteRead, PD: me.PD, Stream: me.Stream, Parent: region})
	if err := w.Activate(); err != nil {
		t.Fatal(err)
	}
	for _, a := range []ddp.Access{ddp.RemoteRead | ddp.RemoteAtomic, both} {
		region.SetAccess(a)
		wantCode(t, "Place", w.Place(me, 0, []byte("x"), ddp.RemoteWrite), protocol.DDPTaggedInvalidSTag)
		if err := w.Fetch(me, 0, make([]byte, 1), ddp.RemoteRead); err != nil {
			t.Errorf("with %v: %v", a, err)
		}
	}
	if err := later.Activate(); !errors.Is(err, ddp.ErrParent) || later.Valid() {
		t.Errorf("a window that was to have more: %v", err)
	}
	if err := reads.Activate(); err != nil {
		t.Errorf("a window that lost nothing: %v", err)
	}
}

// Shows: RDMAP-8.1.1-01, RDMAP-8.1.1-02, DDP-8.3.1-01, DDP-8.3.1-02
func TestWindowRefused(t *testing.T) {
	table := ddp.NewTable(0)
	region := register(t, table, ddp.RegionConfig{Buf: make([]byte, 8), PD: me.PD, Stream: me.Stream})
	open := register(t, table, ddp.RegionConfig{Buf: make([]byte, 8), PD: me.PD})
	window := register(t, table, ddp.RegionConfig{PD: me.PD, Parent: open})
	gone := register(t, table, ddp.RegionConfig{PD: me.PD})
	gone.Deregister()
	n := table.Len()
	for name, c := range map[string]ddp.RegionConfig{
		"another domain":    {PD: me.PD + 1, Stream: me.Stream, Parent: region},
		"another stream":    {PD: me.PD, Stream: me.Stream + 1, Parent: region},
		"of a window":       {PD: me.PD, Stream: me.Stream, Parent: window},
		"deregistered":      {PD: me.PD, Parent: gone},
		"of another device": {PD: me.PD, Parent: register(t, ddp.NewTable(0), ddp.RegionConfig{PD: me.PD})},
	} {
		if _, err := table.Register(c); !errors.Is(err, ddp.ErrParent) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := open.Activate(); !errors.Is(err, ddp.ErrParent) {
		t.Errorf("Activate of a region: %v", err)
	}
	if table.Len() != n {
		t.Errorf("%d STags, %d before", table.Len(), n)
	}
}

// The ULP's own Invalidate reaches what its stream may use, and cannot tell what
// else there is.
// Shows: RDMAP-8.1.1-01, RDMAP-8.1.1-02, DDP-8.3.1-01, DDP-8.3.1-02, SEC-3-01
func TestInvalidateHere(t *testing.T) {
	for _, tt := range []struct {
		name string
		pd   ddp.PD
		id   ddp.StreamID
		key  uint8
		want bool
	}{
		{name: "own stream", pd: me.PD, id: me.Stream, key: 0, want: true},
		{name: "domain", pd: me.PD, id: 0, key: 0, want: true},
		{name: "another stream", pd: me.PD, id: me.Stream + 1, key: 0, want: false},
		{name: "another domain", pd: me.PD + 1, id: 0, key: 0, want: false},
		{name: "another domain, same stream", pd: me.PD + 1, id: me.Stream, key: 0, want: false},
		{name: "another key", pd: me.PD, id: me.Stream, key: 1, want: false},
	} {
		table := ddp.NewTable(0)
		r := register(t, table, ddp.RegionConfig{Buf: make([]byte, 8), PD: tt.pd, Stream: tt.id})
		if got := table.Invalidate(r.STag()^ddp.STag(tt.key), me); got != tt.want || r.Valid() == tt.want {
			t.Errorf("%s: %t, region valid %t", tt.name, got, r.Valid())
		}
		if got := table.Invalidate(r.STag()^ddp.STag(tt.key), me); got != tt.want {
			t.Errorf("%s, again: %t", tt.name, got)
		}
		r.Deregister()
		if table.Invalidate(r.STag(), me) {
			t.Errorf("%s: a region that is gone", tt.name)
		}
	}
}
