package ddp_test

import (
	"math"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// tape is a string of octets that decisions are read from; when it has run out
// all of them are 0.
type tape struct{ b []byte }

func (t *tape) octet() byte {
	if len(t.b) == 0 {
		return 0
	}
	x := t.b[0]
	t.b = t.b[1:]
	return x
}

func (t *tape) below(n int) int { return int(t.octet()) % n }

func (t *tape) octets(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = t.octet()
	}
	return out
}

// fuzzed is a pair of Receiver and model with a few buffers of each kind.
type fuzzed struct {
	*pair
	stags  []ddp.STag
	queues []*queue
	k      *ddp.Sink
}

func newFuzzed(t *testing.T, in *tape) *fuzzed {
	f := &fuzzed{pair: newPair(in.below(2) == 0, 1+in.below(9))}
	first := []uint32{1, math.MaxUint32}[in.below(2)]
	f.queues = []*queue{f.addQueue(0, first), f.addQueue(1, 1)}
	for range in.below(6) {
		f.post(0, f.queues[0], in.below(20), in.below(20), in.below(3))
		f.post(1, f.queues[1], in.below(30))
	}
	f.stags = []ddp.STag{
		f.addRegion(t, 40, 0, ddp.RegionConfig{Access: ddp.RemoteWrite}, 0),
		f.addRegion(t, 30, math.MaxUint64-30, ddp.RegionConfig{Access: ddp.RemoteWrite | ddp.RemoteRead, PD: me.PD}, 0),
		f.addRegion(t, 20, 0, ddp.RegionConfig{Access: ddp.RemoteRead}, protocol.DDPTaggedInvalidSTag),
		f.addRegion(t, 20, 0, ddp.RegionConfig{Access: ddp.RemoteWrite, PD: me.PD + 1},
			protocol.DDPTaggedSTagNotAssociated),
		f.addRegion(t, 20, 0, ddp.RegionConfig{Access: ddp.RemoteWrite, PD: me.PD, Stream: me.Stream + 1},
			protocol.DDPTaggedSTagNotAssociated),
		0,
	}
	f.k = f.table.NewSink()
	f.arm(in)
	return f
}

// arm opens the sink, which ends its use before.
func (f *fuzzed) arm(in *tape) {
	delete(f.m.regions, f.k.STag())
	sg := [][]byte{f.arena.take(in.below(10)), f.arena.take(in.below(10))}
	stag := f.k.Arm(sg)
	f.m.regions[stag] = &modelRegion{at: f.arena.octets(sg...), came: map[uint64]bool{}}
	f.m.sync(f.arena)
	f.up.sinks[stag] = f.k
	f.stags = append(f.stags, stag)
}

// step carries out one operation.
func (f *fuzzed) step(t *testing.T, in *tape) {
	switch op := in.below(16); op {
	case 0: // anything
		f.hand(t, uint64(in.below(16)), in.octets(in.below(40)))
	case 1:
		i := in.below(2)
		f.EndBatch() // or the call would wait for it
		f.table.Lookup(f.stags[i]).Invalidate()
		f.m.regions[f.stags[i]].code = protocol.DDPTaggedInvalidSTag
	case 2:
		if len(f.stags) < 12 {
			f.arm(in)
		}
	case 3:
		delete(f.m.regions, f.k.STag())
		f.k.Disarm()
		f.EndBatch()
	case 4:
		if len(f.queues[0].buffers) < 20 {
			f.post(0, f.queues[0], in.below(20))
		}
	default:
		f.hand(t, f.m.passed+uint64(in.below(4)), f.segment(in, op))
	}
}

// segment makes a segment that is right, or not far from it.
func (f *fuzzed) segment(in *tape, op int) []byte {
	flags := in.octet()
	h := ddp.Header{Version: 1, Last: flags&1 != 0, Tagged: op < 9, Reserved: flags >> 4, Control: flags}
	if flags&0x0e == 0x0e {
		h.Version = flags >> 6
	}
	if h.Tagged {
		h.STag = f.stags[in.below(len(f.stags))]
		if r := f.m.regions[h.STag]; r != nil {
			h.TO = r.base + uint64(int64(in.below(48)-4))
		}
	} else {
		h.QN = uint32(in.below(12)) / 5 // 0 and 1 mostly
		if q := f.m.queues[h.QN]; q != nil {
			h.MSN = q.next + uint32(in.below(8))/5
			h.MO = uint32(len(q.came[h.MSN]) + in.below(12)/6*in.below(20))
		}
	}
	return segment(h, string(pattern(in.below(24), int(flags))))
}

// Shows: DDP-8.3.1-03, RDMAP-8.1.1-03, SEC-6.2.1-01
func FuzzReceiver(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 3, 0, 4, 9, 9, 1, 9, 9, 9, 1, 9, 9, 9, 1, 9, 9, 9, 1, 9, 5, 5, 10, 0, 1, 0, 0, 0, 12})
	f.Add([]byte{
		1, 8, 1, 5, 9, 9, 1, 9, 9, 9, 1, 9, 9, 9, 1, 9, 9, 9, 1, 9, 9, 9, 1, 9, 5, 5, 10, 1, 1, 0, 0, 0, 12, 10, 0, 0,
		0, 0, 0, 5,
	})
	f.Add([]byte{
		1, 8, 0, 1, 9, 9, 9, 9, 5, 5, 5, 2, 1, 0, 6, 9, 6, 1, 1, 1, 6, 9, 6, 0, 0, 0, 6, 9, 1, 1, 5, 0, 1, 0, 4, 3,
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 600 {
			return
		}
		in := &tape{b}
		p := newFuzzed(t, in)
		for len(in.b) > 0 {
			p.step(t, in)
		}
		left := 0
		for _, q := range p.m.queues {
			left += len(q.buffers)
		}
		if n := p.Taken(); n != left {
			t.Fatalf("%d buffers are taken, want %d", n, left)
		}
	})
}
