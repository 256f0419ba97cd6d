package ddp_test

import (
	"bytes"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// growing is a Grower whose buffers grow to just what is asked for.
type growing struct {
	max    uint64
	grown  []uint64 // what Grow was asked for
	last   bool     // in the latest
	refuse *protocol.Error
	short  bool // Grow does not keep its word
}

func (g *growing) Take(*ddp.Header) (ddp.Buffer, bool) { return ddp.Buffer{Max: g.max}, true }

func (g *growing) Grow(h *ddp.Header, b *ddp.Buffer, n uint64) *protocol.Error {
	g.grown, g.last = append(g.grown, n), h.Last
	if g.refuse != nil || g.short {
		return g.refuse
	}
	have := 0
	for _, p := range b.SG {
		have += len(p)
	}
	b.SG = append(b.SG, make([]byte, int(n)-have))
	return nil
}

// A buffer grows with its message, whatever the segments, and not beyond its Max.
// Shows: DDP-5.3-06, DDP-7.1-04, DDP-7.1-05
func TestGrower(t *testing.T) {
	text := pattern(100, 1)
	for size := 1; size <= len(text); size++ {
		g := &growing{max: uint64(len(text))}
		u := &upper{}
		r := ddp.NewReceiver(ddp.ReceiverConfig{Peer: me, Ordered: true}, u)
		r.SetQueue(0, g)
		for msn := uint32(1); msn <= 2; msn++ {
			for i, s := range cut(t, untagged(0, msn, 0, true), ddp.UntaggedHeaderLen+size, text) {
				if err := r.Segment(uint64(i), s); err != nil {
					t.Fatal(err)
				}
			}
			m := u.delivered[msn-1]
			if got := bytes.Join(m.Buffer.SG, nil); m.Length != 100 || !bytes.Equal(got, text) {
				t.Fatalf("segments of %d: %d octets %x", size, m.Length, got)
			}
		}
		if want := 2 * ((len(text) + size - 1) / size); len(g.grown) != want || g.grown[0] != uint64(size) || !g.last {
			t.Fatalf("segments of %d: Grow was asked for %v, last %v; want %d times", size, g.grown, g.last, want)
		}
	}
	broke := &protocol.Error{Code: protocol.DDPUntaggedNoBuffer, Detail: "no more memory"}
	for _, c := range []struct {
		name  string
		g     growing
		h     ddp.Header
		n     int
		code  protocol.Code
		asked int
	}{
		{name: "empty", g: growing{max: 10}, h: untagged(0, 1, 0, true), n: 0, code: 0, asked: 1},
		{name: "empty, not the last", g: growing{max: 10}, h: untagged(0, 1, 0, false), n: 0, code: 0, asked: 0},
		{name: "fits", g: growing{max: 10}, h: untagged(0, 1, 0, true), n: 10, code: 0, asked: 1},
		{
			name: "too long", g: growing{max: 10}, h: untagged(0, 1, 0, true), n: 11, code: protocol.DDPUntaggedTooLong,
			asked: 0,
		},
		{
			name: "not in order", g: growing{max: 10}, h: untagged(0, 1, 3, true), n: 1, code: protocol.DDPUntaggedMO,
			asked: 0,
		},
		{
			name: "refused", g: growing{max: 10, refuse: broke}, h: untagged(0, 1, 0, true), n: 1, code: broke.Code,
			asked: 1,
		},
		{
			name: "short", g: growing{max: 10, short: true}, h: untagged(0, 1, 0, true), n: 1,
			code: protocol.DDPUntaggedNoBuffer, asked: 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ddp.NewReceiver(ddp.ReceiverConfig{Peer: me, Ordered: true}, &upper{})
			r.SetQueue(0, &c.g)
			err := r.Segment(0, segment(c.h, string(pattern(c.n, 1))))
			if c.code == 0 && err != nil || c.code != 0 && (err == nil || err.Code != c.code) {
				t.Errorf("error %v, want %v", err, c.code)
			}
			if len(c.g.grown) != c.asked {
				t.Errorf("Grow was asked for %v", c.g.grown)
			}
		})
	}
	// A Max is nothing without a Grow.
	q := &queue{buffers: []ddp.Buffer{{Max: 10}}}
	r := ddp.NewReceiver(ddp.ReceiverConfig{Peer: me, Ordered: true}, &upper{})
	r.SetQueue(0, q)
	if err := r.Segment(0, segment(untagged(0, 1, 0, true), "x")); err == nil ||
		err.Code != protocol.DDPUntaggedNoBuffer {
		t.Errorf("a source without Grow: %v", err)
	}
}

// Without order, later segments may come first; what they were placed in stays.
// Shows: DDP-5.3-01
func TestGrowerUnordered(t *testing.T) {
	text := pattern(100, 2)
	g := &growing{max: 100}
	u := &upper{}
	r := ddp.NewReceiver(ddp.ReceiverConfig{Peer: me}, u)
	r.SetQueue(0, g)
	segments := cut(t, untagged(0, 1, 0, true), ddp.UntaggedHeaderLen+30, text)
	for _, i := range []int{1, 3, 0, 2} {
		if err := r.Segment(uint64(i), segments[i]); err != nil {
			t.Fatal(err)
		}
	}
	if len(u.delivered) != 1 || !bytes.Equal(bytes.Join(u.delivered[0].Buffer.SG, nil), text) {
		t.Errorf("delivered %v", u.delivered)
	}
}
