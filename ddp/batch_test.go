package ddp_test

import (
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// In a batch a region stays locked between the segments of one tagged message,
// and is let go before anything else can happen.
// Shows: DDP-8.3.1-05, DDP-8.3.1-03
func TestBatchHoldsRegion(t *testing.T) {
	type fixture struct {
		*sink
		a, b *ddp.Region
		k    *ddp.Sink
	}
	part := func(r *ddp.Region, to uint64, last bool) []byte { return segment(tagged(r.STag(), to, last), "abcd") }
	for _, c := range []struct {
		name string
		do   func(t *testing.T, f *fixture)
		want func(f *fixture) *ddp.Region // held afterwards
	}{
		{
			name: "the same message", do: func(t *testing.T, f *fixture) { f.good(t, "third", part(f.a, 8, false)) },
			want: func(f *fixture) *ddp.Region { return f.a },
		},
		{
			name: "its last segment", do: func(t *testing.T, f *fixture) { f.good(t, "last", part(f.a, 8, true)) },
			want: nil,
		},
		{
			name: "another region", do: func(t *testing.T, f *fixture) { f.good(t, "other", part(f.b, 0, false)) },
			want: func(f *fixture) *ddp.Region { return f.b },
		},
		{
			name: "the last segment of another message",
			do:   func(t *testing.T, f *fixture) { f.good(t, "other", part(f.b, 0, true)) }, want: nil,
		},
		{name: "another opcode", do: func(t *testing.T, f *fixture) {
			h := tagged(f.a.STag(), 8, false)
			h.Control++
			f.good(t, "other", segment(h, "abcd"))
		}, want: func(f *fixture) *ddp.Region { return f.a }},
		{
			name: "a sink",
			do:   func(t *testing.T, f *fixture) { f.good(t, "sink", segment(tagged(f.k.STag(), 0, false), "ab")) },
			want: nil,
		},
		{
			name: "a Send",
			do:   func(t *testing.T, f *fixture) { f.good(t, "send", segment(untagged(0, 1, 0, true), "ab")) },
			want: nil,
		},
		{
			name: "a part of a Send",
			do:   func(t *testing.T, f *fixture) { f.good(t, "send", segment(untagged(0, 1, 0, false), "ab")) },
			want: nil,
		},
		{name: "the end of the batch", do: func(_ *testing.T, f *fixture) { f.EndBatch(); f.EndBatch() }, want: nil},
		{name: "an error within the region", do: func(t *testing.T, f *fixture) {
			wantCode(t, "bounds", f.next(part(f.a, 1<<20, false)), protocol.DDPTaggedBounds)
		}, want: nil},
		{name: "an unknown STag", do: func(t *testing.T, f *fixture) {
			wantCode(t, "unknown", f.next(segment(tagged(0xdead, 0, false), "ab")), protocol.DDPTaggedInvalidSTag)
		}, want: nil},
		{name: "an error of the ULP", do: func(t *testing.T, f *fixture) {
			f.up.refuse = &protocol.Error{Code: protocol.RDMAPOpcode, Section: "x", Detail: "y"}
			wantCode(t, "refused", f.next(part(f.a, 8, false)), protocol.RDMAPOpcode)
		}, want: nil},
		{name: "half a header", do: func(t *testing.T, f *fixture) {
			wantCode(t, "short", f.next([]byte{0x81, 0x40, 0}), protocol.DDPLocalCatastrophic)
		}, want: nil},
		{name: "another version", do: func(t *testing.T, f *fixture) {
			h := tagged(f.a.STag(), 8, false)
			h.Version = 2
			wantCode(t, "version", f.next(segment(h, "abcd")), protocol.DDPTaggedVersion)
		}, want: nil},
	} {
		for _, ordered := range []bool{true, false} {
			f := &fixture{sink: newSinkOf(ddp.ReceiverConfig{Peer: me, Ordered: ordered, Batched: true})}
			f.a = f.region(t, ddp.RegionConfig{Buf: make([]byte, 64), Access: ddp.RemoteWrite})
			f.b = f.region(t, ddp.RegionConfig{Buf: make([]byte, 64), Access: ddp.RemoteWrite})
			f.k = f.table.NewSink()
			f.k.Arm([][]byte{make([]byte, 8)})
			f.up.sinks[f.k.STag()] = f.k
			f.q.post(make([]byte, 8))
			f.up.deliver = func(m *ddp.Message) *protocol.Error {
				if f.Held() != nil {
					t.Errorf("%s: a region is held while %+v is delivered", c.name, m.Header)
				}
				return nil
			}
			f.good(t, "first", part(f.a, 0, false))
			f.good(t, "second", part(f.a, 4, false))
			if f.Held() != f.a {
				t.Fatalf("%s: not held", c.name)
			}
			c.do(t, f)
			var want *ddp.Region
			if c.want != nil {
				want = c.want(f)
			}
			if f.Held() != want {
				t.Errorf("%s: %p is held, want %p (the first region is %p)", c.name, f.Held(), want, f.a)
			}
			if got := string(f.a.Bytes()[:8]); got != "abcdabcd" {
				t.Errorf("%s: placed %q", c.name, got)
			}
			// A lock that was not given back would hang here.
			f.EndBatch()
			f.a.Invalidate()
			f.b.Invalidate()
		}
	}
}

// Without the promise of an EndBatch nothing is held.
func TestNoBatchHoldsNothing(t *testing.T) {
	s := newSink(true, 0)
	r := s.region(t, ddp.RegionConfig{Buf: make([]byte, 64), Access: ddp.RemoteWrite})
	s.good(t, "first", segment(tagged(r.STag(), 0, false), "abcd"))
	if s.Held() != nil {
		t.Error("held")
	}
	r.Invalidate()
}

// A revocation during a batch comes through when the batch ends, and what comes
// after it is refused.
// Shows: DDP-8.3.1-05, SEC-6.2.2-02
func TestRevocationDuringBatch(t *testing.T) {
	s := newSinkOf(ddp.ReceiverConfig{Peer: me, Ordered: true, Batched: true})
	buf := make([]byte, 1<<13)
	r := s.region(t, ddp.RegionConfig{Buf: buf, Access: ddp.RemoteWrite})
	revoked := make(chan struct{})
	go func() {
		defer close(revoked)
		r.Invalidate()
		for i := range buf { // plain memory again: the race detector looks
			buf[i] = 0xee
		}
	}()
	for n := 0; ; n++ {
		err := s.next(segment(tagged(r.STag(), uint64(n%16*4), false), "abcd"))
		if err != nil {
			wantCode(t, "after the revocation", err, protocol.DDPTaggedInvalidSTag)
			break
		}
		if n%8 == 7 {
			s.EndBatch()
		}
	}
	<-revoked
	for i, x := range buf {
		if x != 0xee {
			t.Fatalf("octet %d was changed after the revocation", i)
		}
	}
}
