package ddp_test

import (
	"bytes"
	"fmt"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// model is what a Receiver should do, said as simply as can be: maps, big
// numbers, an image of all memory, nothing clever. It shares the arena's layout
// with the real one and nothing else.
type model struct {
	ordered bool
	window  uint64
	image   []byte // of the arena
	regions map[ddp.STag]*modelRegion
	queues  map[uint32]*modelQueue
	passed  uint64
	early   map[uint64]modelSegment
	written uint64 // octets of the tagged message
	failed  bool
	log     []string // deliveries
}

type modelRegion struct {
	at   []int // image offset of each octet
	base uint64
	code protocol.Code   // why every access is refused, 0 if it is not
	came map[uint64]bool // offsets of a sink that have come, each once; nil for a region
}

type modelQueue struct {
	next    uint32
	posted  [][]int // of each buffer, the image offset of each octet
	taken   int
	buffers map[uint32]int          // MSN to index in posted
	came    map[uint32]map[int]bool // MSN to the octets that have passed
}

type modelSegment struct {
	h ddp.Header
	n int
}

func newModel(ordered bool, window int, arena *arena) *model {
	return &model{
		ordered: ordered, window: uint64(window), image: bytes.Clone(arena.mem),
		regions: map[ddp.STag]*modelRegion{}, queues: map[uint32]*modelQueue{}, early: map[uint64]modelSegment{},
	}
}

// octets returns the image offsets of the octets of a gather list.
func (a *arena) octets(sg ...[]byte) []int {
	var at []int
	for _, b := range sg {
		off := cap(a.mem) - cap(b)
		for i := range b {
			at = append(at, off+i)
		}
	}
	return at
}

func (m *model) sync(arena *arena) { copy(m.image, arena.mem) }

// segment says what code the segment gives, 0 for none.
func (m *model) segment(order uint64, seg []byte) protocol.Code {
	if m.failed {
		return 0
	}
	code := m.take(order, seg)
	m.failed = code != 0
	return code
}

func (m *model) take(order uint64, seg []byte) protocol.Code {
	h, n, err := ddp.Parse(seg)
	if err != nil {
		return protocol.DDPLocalCatastrophic
	}
	if m.ordered {
		order = m.passed
	}
	if _, again := m.early[order]; again || order < m.passed {
		return 0
	}
	if !m.ordered && order-m.passed >= m.window {
		return protocol.DDPLocalCatastrophic
	}
	due := order == m.passed
	if code := m.place(h, seg[n:], due); code != 0 {
		return code
	}
	m.early[order] = modelSegment{h, len(seg) - n}
	for {
		s, ok := m.early[m.passed]
		if !ok {
			return 0
		}
		delete(m.early, m.passed)
		m.passed++
		if code := m.pass(s); code != 0 {
			return code
		}
	}
}

func (m *model) place(h ddp.Header, payload []byte, due bool) protocol.Code {
	var at []int
	var off uint64
	switch {
	case h.Version != 1 && h.Tagged:
		return protocol.DDPTaggedVersion
	case h.Version != 1:
		return protocol.DDPUntaggedVersion
	case h.Tagged && len(payload) == 0:
		return 0
	case h.Tagged:
		r := m.regions[h.STag]
		if r == nil {
			return protocol.DDPTaggedInvalidSTag
		}
		if r.code != 0 {
			return r.code
		}
		end := new(big.Int).SetUint64(h.TO)
		end.Add(end, big.NewInt(int64(len(payload))))
		if end.BitLen() > 64 {
			return protocol.DDPTaggedTOWrap
		}
		limit := new(big.Int).SetUint64(r.base)
		limit.Add(limit, big.NewInt(int64(len(r.at))))
		if h.TO < r.base || end.Cmp(limit) > 0 {
			return protocol.DDPTaggedBounds
		}
		at, off = r.at, h.TO-r.base
		if r.came != nil {
			for i := range uint64(len(payload)) {
				if r.came[off+i] {
					return protocol.DDPTaggedBounds
				}
			}
			for i := range uint64(len(payload)) {
				r.came[off+i] = true
			}
		}
	default:
		q := m.queues[h.QN]
		if q == nil {
			return protocol.DDPUntaggedQN
		}
		if ahead := uint64(h.MSN - q.next); due && ahead > 0 || ahead >= m.window {
			return protocol.DDPUntaggedMSN
		}
		if _, ok := q.buffers[h.MSN]; !ok {
			if q.taken == len(q.posted) {
				return protocol.DDPUntaggedNoBuffer
			}
			q.buffers[h.MSN] = q.taken
			q.taken++
		}
		at, off = q.posted[q.buffers[h.MSN]], uint64(h.MO)
		if off > uint64(len(at)) {
			return protocol.DDPUntaggedMO
		}
		if off+uint64(len(payload)) > uint64(len(at)) {
			return protocol.DDPUntaggedTooLong
		}
		if due && !q.mayPass(h, len(payload)) {
			return protocol.DDPUntaggedMO
		}
	}
	for i, x := range payload {
		m.image[at[off+uint64(i)]] = x
	}
	return 0
}

// pass takes a segment whose turn it is.
func (m *model) pass(s modelSegment) protocol.Code {
	h := s.h
	if h.Tagged {
		m.written += uint64(s.n)
		if h.Last {
			m.log = append(m.log, fmt.Sprintf("%+v %d 0", h, m.written))
			m.written = 0
		}
		return 0
	}
	q := m.queues[h.QN]
	if h.MSN != q.next {
		return protocol.DDPUntaggedMSN
	}
	if !q.mayPass(h, s.n) {
		return protocol.DDPUntaggedMO
	}
	for i := range s.n {
		if q.came[h.MSN] == nil {
			q.came[h.MSN] = map[int]bool{}
		}
		q.came[h.MSN][int(h.MO)+i] = true
	}
	if h.Last {
		m.log = append(m.log, fmt.Sprintf("%+v %d %d", h, len(q.came[h.MSN]), q.buffers[h.MSN]))
		delete(q.came, h.MSN)
		delete(q.buffers, h.MSN)
		q.next++
	}
	return 0
}

// mayPass reports whether a segment brings no octet again and, if it is the last,
// follows all others without a gap.
func (q *modelQueue) mayPass(h ddp.Header, n int) bool {
	came := q.came[h.MSN]
	for i := range n {
		if came[int(h.MO)+i] {
			return false
		}
	}
	if !h.Last {
		return true
	}
	for i := range int(h.MO) {
		if !came[i] {
			return false
		}
	}
	return len(came) == int(h.MO)
}

// pair is a Receiver and its model side by side.
type pair struct {
	*sink
	m        *model
	compared int // deliveries
}

func newPair(ordered bool, window int) *pair {
	s := newSinkOf(ddp.ReceiverConfig{Peer: me, Ordered: ordered, Window: window, Batched: true})
	return &pair{sink: s, m: newModel(ordered, window, s.arena)}
}

func (p *pair) addQueue(qn uint32, first uint32) *queue {
	q := new(queue)
	p.SetQueue(qn, q)
	p.SetNextMSN(qn, first)
	p.m.queues[qn] = &modelQueue{next: first, buffers: map[uint32]int{}, came: map[uint32]map[int]bool{}}
	return q
}

func (p *pair) post(qn uint32, q *queue, sizes ...int) {
	var sg [][]byte
	for _, n := range sizes {
		sg = append(sg, p.arena.take(n))
	}
	q.post(sg...)
	mq := p.m.queues[qn]
	mq.posted = append(mq.posted, p.arena.octets(sg...))
	p.m.sync(p.arena)
}

func (p *pair) addRegion(t testing.TB, n int, base uint64, c ddp.RegionConfig, code protocol.Code) ddp.STag {
	c.Buf, c.Base = p.arena.take(n), base
	stag := p.region(t, c).STag()
	p.m.regions[stag] = &modelRegion{at: p.arena.octets(c.Buf), base: base, code: code}
	p.m.sync(p.arena)
	return stag
}

// fataler is what testing and rapid have in common.
type fataler interface{ Fatalf(string, ...any) }

// hand returns both a segment and compares all there is.
func (p *pair) hand(t fataler, order uint64, seg []byte) {
	sent := bytes.Clone(seg)
	want := p.m.segment(order, seg)
	err := p.Segment(order, seg)
	var got protocol.Code
	if err != nil {
		got = err.Code
	}
	if got != want || err == nil != (want == 0) {
		t.Fatalf("segment %d, %x: %v, want %v", order, seg, err, want)
	}
	if !bytes.Equal(seg, sent) {
		t.Fatalf("the segment was changed")
	}
	if !bytes.Equal(p.arena.mem, p.m.image) {
		t.Fatalf("segment %d, %x: memory differs from the model's", order, seg)
	}
	for ; p.compared < len(p.up.delivered) && p.compared < len(p.m.log); p.compared++ {
		d := p.up.delivered[p.compared]
		if got := fmt.Sprintf("%+v %d %d", d.Header, d.Length, d.Buffer.Token); got != p.m.log[p.compared] {
			t.Fatalf("segment %d, %x: delivered %s, want %s", order, seg, got, p.m.log[p.compared])
		}
	}
	if len(p.up.delivered) != len(p.m.log) {
		t.Fatalf("segment %d, %x: %d messages delivered, want %d", order, seg, len(p.up.delivered), len(p.m.log))
	}
}

// Random messages, cut at random MULPDUs and not always in rising order, their
// segments in random order within the window and some of them twice: all arrive,
// and as the model has it.
//
// Shows: DDP-5.2-03, DDP-5.2-04, DDP-5.3-01, DDP-5.3-04, DDP-5.3-05, DDP-5.3-06, DDP-5.4-02, DDP-5.4-03, DDP-4.1-06
func TestMessagesInRandomOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ordered := rapid.Bool().Draw(rt, "ordered")
		window := rapid.IntRange(1, 20).Draw(rt, "window")
		p := newPair(ordered, window)
		first := rapid.SampledFrom([]uint32{1, 1<<32 - 2, 0}).Draw(rt, "first MSN")
		queues := []*queue{p.addQueue(0, first), p.addQueue(1, 1)}
		msn := []uint32{first, 1}
		var sent [][]byte
		var whole [][2][]byte // what was sent, and where it should be
		for i := range rapid.IntRange(1, 8).Draw(rt, "messages") {
			data := pattern(rapid.IntRange(0, 400).Draw(rt, "length"), i)
			split := rapid.IntRange(0, len(data)).Draw(rt, "split of the source")
			h := ddp.Header{Version: 1, Control: rapid.Byte().Draw(rt, "control")}
			var to []byte
			if rapid.Bool().Draw(rt, "tagged") {
				base := rapid.Uint64Max(1<<62).Draw(rt, "base")
				h.Tagged, h.TO = true, base
				h.STag = p.addRegion(t, len(data), base, ddp.RegionConfig{Access: ddp.RemoteWrite}, 0)
				to = p.table.Lookup(h.STag).Bytes()
			} else {
				qn := rapid.IntRange(0, 1).Draw(rt, "qn")
				h.ULP32, h.QN, h.MSN = rapid.Uint32().Draw(rt, "ulp"), uint32(qn), msn[qn]
				msn[qn]++
				// All buffers hold the longest message, since which of them a message
				// gets depends on which comes first.
				p.post(h.QN, queues[qn], 150, 0, 250)
			}
			whole = append(whole, [2][]byte{data, to})
			mulpdu := rapid.IntRange(25, 200).Draw(rt, "mulpdu")
			segments := cut(t, h, mulpdu, data[:split], data[split:])
			if rapid.Bool().Draw(rt, "the source does not cut in rising order") {
				rest := segments[:len(segments)-1]
				for i := range rest {
					j := rapid.IntRange(i, len(rest)-1).Draw(rt, "swapped with")
					rest[i], rest[j] = rest[j], rest[i]
				}
			}
			sent = append(sent, segments...)
		}
		var arrived []int
		for todo := indices(len(sent)); len(todo) > 0; {
			i := 0
			if !ordered {
				reach := 0
				for reach < len(todo) && todo[reach] < todo[0]+window {
					reach++
				}
				i = rapid.IntRange(0, reach-1).Draw(rt, "next")
			}
			order := todo[i]
			todo = append(todo[:i], todo[i+1:]...)
			p.hand(rt, uint64(order), sent[order])
			if rapid.IntRange(0, 3).Draw(rt, "end of a batch") == 0 {
				p.EndBatch()
			}
			arrived = append(arrived, order)
			if !ordered && rapid.IntRange(0, 4).Draw(rt, "again") == 0 {
				p.hand(rt, uint64(arrived[rapid.IntRange(0, len(arrived)-1).Draw(rt, "which")]), sent[order])
			}
			if p.Err() != nil {
				rt.Fatalf("%v", p.Err())
			}
		}
		if len(p.up.delivered) != len(whole) {
			rt.Fatalf("%d messages delivered, want %d", len(p.up.delivered), len(whole))
		}
		for i, w := range whole {
			got := w[1]
			if m := p.up.delivered[i]; !m.Header.Tagged {
				got = bytes.Join(m.Buffer.SG, nil)[:m.Length]
			}
			if !bytes.Equal(got, w[0]) {
				rt.Fatalf("message %d arrived as %x, want %x", i, got, w[0])
			}
		}
	})
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
