package ddp_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

const (
	guardOctet = 0xa5
	guardLen   = 24
)

// arena is memory in which buffers lie between guard octets. The slices that it
// gives have room behind them, so that a write too far would not panic but show.
type arena struct {
	mem  []byte
	used int
}

func newArena(n int) *arena {
	return &arena{mem: bytes.Repeat([]byte{guardOctet}, n)}
}

func (a *arena) take(n int) []byte {
	a.used += guardLen
	b := a.mem[a.used : a.used+n]
	a.used += n
	if a.used+guardLen > len(a.mem) {
		panic("arena too small")
	}
	clear(b)
	return b
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// pattern returns n octets that differ from place to place.
func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed*31)
	}
	return b
}

// segment joins header and payload.
func segment(h ddp.Header, payload string) []byte {
	return append(h.AppendTo(nil), payload...)
}

func untagged(qn, msn, mo uint32, last bool) ddp.Header {
	return ddp.Header{Version: 1, Last: last, Control: 0x43, QN: qn, MSN: msn, MO: mo}
}

func tagged(s ddp.STag, to uint64, last bool) ddp.Header {
	return ddp.Header{Version: 1, Tagged: true, Last: last, Control: 0x40, STag: s, TO: to}
}

// cut returns all segments of a message.
func cut(t testing.TB, h ddp.Header, mulpdu int, sg ...[]byte) [][]byte {
	t.Helper()
	var o ddp.Outgoing
	if err := o.Start(h, sg); err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for o.Active() {
		head, payload, _ := o.Next(mulpdu)
		out = append(out, append(bytes.Clone(head), bytes.Join(payload, nil)...))
	}
	return out
}

// queue is a Source with a list of buffers.
type queue struct {
	buffers []ddp.Buffer
	taken   []uint32 // MSNs
}

func (q *queue) post(sg ...[]byte) {
	q.buffers = append(q.buffers, ddp.Buffer{SG: sg, Token: uint64(len(q.buffers))})
}

func (q *queue) Take(h *ddp.Header) (ddp.Buffer, bool) {
	if len(q.taken) == len(q.buffers) {
		return ddp.Buffer{}, false
	}
	q.taken = append(q.taken, h.MSN)
	return q.buffers[len(q.taken)-1], true
}

// upper is a ULP that looks tagged buffers up and notes what it is told.
type upper struct {
	table     *ddp.Table
	need      ddp.Access
	sinks     map[ddp.STag]*ddp.Sink
	delivered []ddp.Message
	asked     int
	refuse    *protocol.Error // what the Check methods answer
	deliver   func(*ddp.Message) *protocol.Error
}

func (u *upper) CheckTagged(h *ddp.Header, n int) (ddp.Target, *protocol.Error) {
	u.asked++
	if u.refuse != nil || n == 0 {
		return ddp.Target{}, u.refuse
	}
	if s := u.sinks[h.STag]; s != nil {
		return ddp.Target{Sink: s}, nil
	}
	return ddp.Target{Region: u.table.Lookup(h.STag), Need: u.need}, nil
}

func (u *upper) CheckUntagged(*ddp.Header, int) *protocol.Error {
	u.asked++
	return u.refuse
}

func (u *upper) Deliver(m *ddp.Message) *protocol.Error {
	u.delivered = append(u.delivered, *m)
	if u.deliver != nil {
		return u.deliver(m)
	}
	return nil
}

var me = ddp.Peer{PD: 1, Stream: 10}

// sink is one Data Sink with everything around it.
type sink struct {
	*ddp.Receiver
	up    *upper
	table *ddp.Table
	q     *queue
	arena *arena
	order uint64
}

func newSink(ordered bool, window int) *sink {
	return newSinkOf(ddp.ReceiverConfig{Peer: me, Ordered: ordered, Window: window})
}

func newSinkOf(cfg ddp.ReceiverConfig) *sink {
	s := &sink{table: ddp.NewTable(0), q: new(queue), arena: newArena(1 << 13)}
	s.up = &upper{table: s.table, need: ddp.RemoteWrite, sinks: map[ddp.STag]*ddp.Sink{}}
	s.Receiver = ddp.NewReceiver(cfg, s.up)
	s.SetQueue(0, s.q)
	return s
}

func (s *sink) region(t testing.TB, c ddp.RegionConfig) *ddp.Region {
	t.Helper()
	if c.PD == 0 {
		c.PD, c.Stream = me.PD, me.Stream
	}
	r, err := s.table.Register(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// next hands in a segment as the next one sent.
func (s *sink) next(seg []byte) *protocol.Error {
	s.order++
	return s.Segment(s.order-1, seg)
}

func (s *sink) good(t testing.TB, why string, seg []byte) {
	t.Helper()
	if err := s.next(seg); err != nil {
		t.Fatalf("%s: %v", why, err)
	}
}

// wantCode checks an error's code.
func wantCode(t testing.TB, why string, err *protocol.Error, want protocol.Code) {
	t.Helper()
	if err == nil {
		t.Fatalf("%s: no error, want %v", why, want)
	}
	if err.Code != want {
		t.Fatalf("%s: %v, want %v", why, err, want)
	}
	if err.Remote || err.Section == "" || err.Detail == "" {
		t.Fatalf("%s: error without rule or detail, or said to be the peer's: %+v", why, err)
	}
}

// wantDelivered checks the QN/MSN or STag, and length, of all messages so far.
func (s *sink) wantDelivered(t testing.TB, want ...string) {
	t.Helper()
	var got []string
	for _, m := range s.up.delivered {
		if m.Header.Tagged {
			got = append(got, fmt.Sprintf("tagged/%d", m.Length))
		} else {
			got = append(got, fmt.Sprintf("%d.%d/%d", m.Header.QN, m.Header.MSN, m.Length))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("delivered %v, want %v", got, want)
	}
}

// wantGuards checks that nothing was written outside the buffers.
func (a *arena) wantGuards(t testing.TB, buffers ...[]byte) {
	t.Helper()
	image := bytes.Clone(a.mem)
	for _, b := range buffers {
		off := cap(a.mem) - cap(b)
		for i := range b {
			image[off+i] = guardOctet
		}
	}
	for i, x := range image {
		if x != guardOctet {
			t.Fatalf("octet %d of the arena, outside the buffers, is %#02x", i, x)
		}
	}
}
