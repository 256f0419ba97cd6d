package rdmap_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// memLLP is a ddp.LLP in memory. It takes the octets of stable payload only when
// it is flushed, so that a stream which lets them change too early is caught.
type memLLP struct {
	mulpdu int
	limit  int   // segments in a batch; Full from there on
	held   bool  // may not send
	block  bool  // Flush without wait takes only so many segments as take says
	take   int   // segments
	fail   error // of Flush, when take segments have gone
	refuse error // of Queue

	batch []queuedSegment
	sent  [][]byte
}

type queuedSegment struct {
	header  []byte
	payload [][]byte
}

var _ ddp.LLP = (*memLLP)(nil)

func (l *memLLP) MULPDU() int          { return l.mulpdu }
func (l *memLLP) MaySend() bool        { return !l.held }
func (l *memLLP) NextULPDU(uint64) int { return l.mulpdu }
func (l *memLLP) Full() bool           { return len(l.batch) >= l.limit }
func (l *memLLP) Buffered() bool       { return len(l.batch) > 0 }

func (l *memLLP) Queue(header []byte, payload [][]byte, stable bool) error {
	if l.refuse != nil {
		return l.refuse
	}
	if l.held {
		panic("Queue on an LLP that may not send")
	}
	q := queuedSegment{header: bytes.Clone(header)}
	for _, p := range payload {
		if !stable {
			p = bytes.Clone(p)
		}
		q.payload = append(q.payload, p)
	}
	l.batch = append(l.batch, q)
	return nil
}

func (l *memLLP) QueueMessage(m ddp.Segments, stable bool) (last bool, err error) {
	for {
		header, payload, last := m.Next(l.MULPDU())
		if err := l.Queue(header, payload, stable); err != nil || last || l.Full() {
			return last, err
		}
	}
}

func (l *memLLP) Flush(wait bool) (bool, error) {
	for len(l.batch) > 0 {
		if (l.block && !wait || l.fail != nil) && l.take == 0 {
			return false, l.fail
		}
		l.take = max(l.take-1, 0)
		l.sent = append(l.sent, bytes.Join(append([][]byte{l.batch[0].header}, l.batch[0].payload...), nil))
		l.batch = l.batch[1:]
	}
	return true, l.fail
}

func (l *memLLP) Receive(func(uint64, []byte) error) error { panic("not used") }
func (l *memLLP) CloseWrite() error                        { return nil }
func (l *memLLP) Close() error                             { return nil }
func (l *memLLP) Abort() error                             { return nil }

// tb is what the helpers need of a *testing.T or a *rapid.T.
type tb interface {
	Helper()
	Cleanup(func())
	Error(...any)
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
}

// end is one end of a stream under test: the stream, its LLP and its ULP.
type end struct {
	t     tb
	s     *rdmap.Stream
	llp   *memLLP
	table *ddp.Table
	peer  ddp.Peer
	order uint64

	mu        sync.Mutex // for the tests with two goroutines
	buffers   [][][]byte // receive buffers, by token
	taken     int
	done      []rdmap.Completion
	delivered []delivery
	refused   []delivery // the one whose message broke a rule
	onDone    func(*rdmap.Completion)
	// onDelivered is called at each delivery.
	onDelivered func()
}

// delivery is a rdmap.Delivery and the octets that it brought.
type delivery struct {
	rdmap.Delivery
	data string
}

var lastStream ddp.StreamID

func newEnd(t tb, change ...func(*rdmap.Config)) *end {
	lastStream++
	e := &end{
		t: t, llp: &memLLP{mulpdu: 1442, limit: 64}, table: ddp.NewTable(0),
		peer: ddp.Peer{PD: 1, Stream: lastStream},
	}
	cfg := rdmap.Config{Table: e.table, Peer: e.peer, Recv: e, Handler: e, IRD: 4, ORD: 4, Initiator: true}
	for _, f := range change {
		f(&cfg)
	}
	e.s = rdmap.NewStream(cfg)
	return e
}

func responder(c *rdmap.Config)     { c.Initiator = false }
func unordered(c *rdmap.Config)     { c.Unordered = true }
func ord(n int) func(*rdmap.Config) { return func(c *rdmap.Config) { c.ORD = n } }
func ird(n int) func(*rdmap.Config) { return func(c *rdmap.Config) { c.IRD = n } }

// Take implements ddp.Source.
func (e *end) Take(*ddp.Header) (ddp.Buffer, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.taken == len(e.buffers) {
		return ddp.Buffer{}, false
	}
	e.taken++
	return ddp.Buffer{SG: e.buffers[e.taken-1], Token: uint64(e.taken - 1)}, true
}

// Completed implements rdmap.Handler.
func (e *end) Completed(c *rdmap.Completion) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.done = append(e.done, *c)
	if e.onDone != nil {
		e.onDone(c)
	}
}

// Delivered implements rdmap.Handler.
func (e *end) Delivered(d *rdmap.Delivery) *protocol.Error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if d.Err != nil {
		e.refused = append(e.refused, delivery{Delivery: *d})
		return nil
	}
	got := delivery{Delivery: *d}
	if d.Opcode.Payload() {
		got.data = string(bytes.Join(d.Buffer.SG, nil)[:d.Length])
	}
	e.delivered = append(e.delivered, got)
	if e.onDelivered != nil {
		e.onDelivered()
	}
	return nil
}

// postRecv posts receive buffers of these sizes, each with guard octets around.
func (e *end) postRecv(sizes ...int) {
	for _, n := range sizes {
		e.buffers = append(e.buffers, [][]byte{guarded(e.t, n)})
	}
}

// guarded returns n octets of memory with octets around it that must not change.
func guarded(t tb, n int) []byte {
	const guard = 64
	all := bytes.Repeat([]byte{0xa5}, guard+n+guard)
	buf := all[guard : guard+n : guard+n]
	clear(buf)
	t.Cleanup(func() {
		for i, b := range all {
			if (i < guard || i >= guard+n) && b != 0xa5 {
				t.Errorf("octet %d relative to a buffer of %d octets was overwritten", i-guard, n)
				return
			}
		}
	})
	return buf
}

// register makes memory that the peer can reach, bound to this stream.
func (e *end) register(buf []byte, access ddp.Access) *ddp.Region {
	e.t.Helper()
	r, err := e.table.Register(ddp.RegionConfig{Buf: buf, Access: access, PD: e.peer.PD, Stream: e.peer.Stream})
	if err != nil {
		e.t.Fatal(err)
	}
	return r
}

const allRights = ddp.RemoteRead | ddp.RemoteWrite | ddp.RemoteAtomic

func (e *end) post(r rdmap.SendWR) {
	e.t.Helper()
	if err := e.s.Post(&r, nil); err != nil {
		e.t.Fatalf("Post of %v: %v", r.Op, err)
	}
}

// transmit does the send owner's work without waiting until it has none.
func (e *end) transmit() rdmap.Progress {
	e.t.Helper()
	for range 10000 {
		p, err := e.s.Transmit(e.llp, false)
		if p != rdmap.More || err != nil {
			return p
		}
	}
	e.t.Fatal("Transmit reports More for ever")
	return 0
}

// wantSegment wants want, which may be a prefix, as the next segment sent.
func (e *end) wantSegment(why string, want []byte) {
	e.t.Helper()
	if got := e.next(why); !bytes.Equal(got, want) {
		e.t.Fatalf("%s: sent\n     %s\n%x\nwant %s\n%x", why, iwarptest.Describe(got), got, iwarptest.Describe(want),
			want)
	}
}

// next returns the next segment sent.
func (e *end) next(why string) []byte {
	e.t.Helper()
	e.transmit()
	if len(e.llp.sent) == 0 {
		e.t.Fatalf("%s: nothing is sent", why)
	}
	got := e.llp.sent[0]
	e.llp.sent = e.llp.sent[1:]
	return got
}

func (e *end) wantIdle(why string) {
	e.t.Helper()
	e.transmit()
	if len(e.llp.sent) > 0 {
		e.t.Fatalf("%s: sent %s", why, iwarptest.Describe(e.llp.sent[0]))
	}
}

// wantRead wants a Read Request and gives its sink STag.
func (e *end) wantRead(why string, msn uint32, size uint32, stag ddp.STag, to uint64) uint32 {
	e.t.Helper()
	got := e.next(why)
	if len(got) != 18+rdmap.ReadRequestLen {
		e.t.Fatalf("%s: sent %s, want a Read Request", why, iwarptest.Describe(got))
	}
	sink := binary.BigEndian.Uint32(got[18:])
	if want := iwarptest.ReadRequest(msn, sink, 0, size, uint32(stag), to); !bytes.Equal(got, want) {
		e.t.Fatalf("%s: sent\n%x want\n%x", why, got, want)
	}
	return sink
}

// deliver hands segments to the stream in order; all are good.
func (e *end) deliver(segments ...[]byte) {
	e.t.Helper()
	for _, seg := range segments {
		if err := e.receive(seg); err != nil {
			e.t.Fatalf("%s: %v", iwarptest.Describe(seg), err)
		}
	}
}

func (e *end) receive(seg []byte) *protocol.Error {
	err := e.s.Receive(e.order, seg)
	e.order++
	return err
}

// deliverAt hands up a segment that is at a place in the order of sending.
func (e *end) deliverAt(order uint64, seg []byte) {
	e.t.Helper()
	if err := e.s.Receive(order, seg); err != nil {
		e.t.Fatalf("segment %d, %s: %v", order, iwarptest.Describe(seg), err)
	}
}

// wantError delivers a segment that breaks a rule.
func (e *end) wantError(why string, seg []byte, code protocol.Code) *protocol.Error {
	e.t.Helper()
	err := e.receive(seg)
	if err == nil || err.Code != code {
		e.t.Fatalf("%s: %s gives %v, want %v", why, iwarptest.Describe(seg), err, code)
	}
	if err.Detail == "" || err.Section == "" {
		e.t.Errorf("%s: error %q names no rule or value", why, err)
	}
	return err
}

// wantTerminate wants the Terminate for the offending segment, and the end.
func (e *end) wantTerminate(why string, code protocol.Code, offender []byte) {
	e.t.Helper()
	e.wantSegment(why, iwarptest.Terminate(uint16(code), offender))
	e.wantIdle("nothing follows a Terminate")
	if p := e.transmit(); p != rdmap.Finished {
		e.t.Fatalf("%s: progress %v after the Terminate, want Finished", why, p)
	}
}

// wantDone wants exactly these completions since the last call, in order; a
// flushed one has "!" behind its ID.
func (e *end) wantDone(why string, ids string) {
	e.t.Helper()
	var got []string
	for _, c := range e.done {
		s := fmt.Sprint(c.ID)
		switch {
		case errors.Is(c.Err, rdmap.ErrFlushed):
			s += "!"
		case c.Err != nil:
			s += "?"
		}
		got = append(got, s)
	}
	if s := strings.Join(got, " "); s != ids {
		e.t.Fatalf("%s: completed %q, want %q", why, s, ids)
	}
	e.done = nil
}

// wantDelivered wants exactly these messages since the last call.
func (e *end) wantDelivered(why string, want ...string) {
	e.t.Helper()
	var got []string
	for _, d := range e.delivered {
		s := fmt.Sprintf("%v %q", d.Opcode, d.data)
		if !d.Opcode.Payload() {
			s = fmt.Sprintf("%v %016x", d.Opcode, d.Immediate)
		}
		if d.Invalidated != 0 {
			s += fmt.Sprintf(" invalidated %v", d.Invalidated)
		}
		got = append(got, s)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		e.t.Fatalf("%s: delivered %v, want %v", why, got, want)
	}
	e.delivered = nil
}

// pump carries segments both ways until there are none.
func pump(a, b *end) {
	a.t.Helper()
	for range 10000 {
		a.transmit()
		b.transmit()
		if len(a.llp.sent)+len(b.llp.sent) == 0 {
			return
		}
		for _, d := range [...]struct{ from, to *end }{{from: a, to: b}, {from: b, to: a}} {
			for _, seg := range d.from.llp.sent {
				_ = d.to.receive(seg)
			}
			d.from.llp.sent = nil
		}
	}
	a.t.Fatal("two streams have no end of talking")
}

func unhex(t tb, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func octets(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func cut(b []byte, n int) [][]byte { return [][]byte{b[:n], b[n:]} }

func hexOf(b []byte) string { return hex.EncodeToString(b) }

func quote(b []byte) string { return fmt.Sprintf("%q", b) }

func asSTag(v uint32) ddp.STag { return ddp.STag(v) }
