package rdmap_test

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// scribble is what the test writes over memory that is the caller's again. It
// must never be seen on the wire or at the peer.
const scribble = 0xee

// modelEnd is an end whose every request, and every octet, is accounted for.
type modelEnd struct {
	*end
	peer     *modelEnd
	reorders bool

	posted  uint64              // requests accepted; IDs count from 0
	results int                 // of them completed
	memory  map[uint64][][]byte // of requests that have not completed
	over    [][]byte            // of those that have; scribble all over
	sent    []string            // Sends and Immediates in the order of posting
	reads   map[uint64]string   // what a Read must find
	kinds   map[uint64]rdmap.Op // of requests that have not completed
	wire    []onWire            // from this end, not delivered yet
	order   uint64
	gone    bool // the send owner is at its end
	stopped bool // the receive owner is
	tainted bool // see broken
	target  []byte
	stag    [2]uint32 // of the target and the source, which the peer uses
}

type onWire struct {
	order uint64
	seg   []byte
}

func newModelEnd(t *rapid.T, shuffled bool, initiator bool) *modelEnd {
	m := &modelEnd{
		memory: map[uint64][][]byte{}, reads: map[uint64]string{}, kinds: map[uint64]rdmap.Op{}, reorders: shuffled,
	}
	m.end = newEnd(t, func(c *rdmap.Config) {
		c.Initiator, c.Unordered = initiator, shuffled
		c.IRD, c.ORD, c.SendDepth = 2, 2, 8
	})
	m.llp.mulpdu, m.llp.limit = 40, rapid.IntRange(1, 6).Draw(t, "batch")
	m.llp.held = !initiator
	m.target = guarded(t, 64)
	source := wordMemory(t, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303)
	m.stag[0] = uint32(m.register(m.target, allRights).STag())
	m.stag[1] = uint32(m.register(source, allRights).STag())
	for range 40 {
		m.postRecv(60)
	}
	m.onDone = func(c *rdmap.Completion) { m.completed(t, c) }
	return m
}

// completed checks that requests complete once, in order, and takes the memory
// back.
func (m *modelEnd) completed(t *rapid.T, c *rdmap.Completion) {
	if c.ID != uint64(m.results) || c.Op != m.kinds[c.ID] {
		t.Fatalf("request %d (%v) completes, want %d (%v)", c.ID, c.Op, m.results, m.kinds[uint64(m.results)])
	}
	m.results++
	got := bytes.Join(m.memory[c.ID], nil)
	if want, is := m.reads[c.ID]; is && c.Err == nil && !m.tainted && string(got) != want {
		t.Fatalf("Read %d found %x, want %x", c.ID, got, want)
	}
	for _, b := range m.memory[c.ID] {
		copy(b, bytes.Repeat([]byte{scribble}, len(b)))
		m.over = append(m.over, b)
	}
	delete(m.memory, c.ID)
}

// pattern is the data of a request: never scribble.
func pattern(id uint64, n int) []byte { return bytes.Repeat([]byte{byte(1 + id%100)}, n) }

func (m *modelEnd) postRandom(t *rapid.T) {
	r := rdmap.SendWR{ID: m.posted, Op: rdmap.Op(rapid.IntRange(int(rdmap.OpSend), int(rdmap.OpBarrier)).Draw(t, "op"))}
	n := rapid.IntRange(0, 60).Draw(t, "octets")
	r.Fence = rapid.IntRange(0, 5).Draw(t, "fence") == 0
	var message, want string
	switch r.Op {
	case rdmap.OpSend:
		r.SG = [][]byte{pattern(r.ID, n/2), pattern(r.ID, n-n/2)}
		r.Inline = rapid.Bool().Draw(t, "inline")
		message = "Send " + string(pattern(r.ID, n))
	case rdmap.OpWrite:
		r.SG = [][]byte{pattern(r.ID, n)}
		r.Remote.STag = asSTag(m.peer.stag[0])
	case rdmap.OpRead:
		n = min(n, 8)
		r.SG = [][]byte{guarded(t, n)}
		r.Remote.STag, r.Remote.TO = asSTag(m.peer.stag[1]), 16
		want = string(bytes.Repeat([]byte{3}, n))
	case rdmap.OpImmediate:
		r.Immediate = r.ID
		message = "Immediate " + string(rune(r.ID))
	case rdmap.OpFetchAdd, rdmap.OpCompareSwap:
		r.Remote.STag = asSTag(m.peer.stag[1])
	case rdmap.OpSendInvalidate, rdmap.OpInvalidate:
		r.Op = rdmap.OpBarrier
	}
	if rapid.IntRange(0, 40).Draw(t, "bad") == 0 {
		r.Remote.STag++ // the peer refuses it
	}
	// Noted first: on a stream that has failed the request completes at once.
	m.kinds[r.ID], m.memory[r.ID], m.reads[r.ID] = r.Op, r.SG, want
	if r.Inline {
		delete(m.memory, r.ID)
	}
	if r.Op != rdmap.OpRead {
		delete(m.reads, r.ID)
	}
	if m.s.Post(&r, nil) != nil { // full, or closed
		delete(m.kinds, r.ID)
		delete(m.memory, r.ID)
		delete(m.reads, r.ID)
		return
	}
	m.posted++
	for _, b := range r.SG {
		if r.Inline {
			copy(b, bytes.Repeat([]byte{scribble}, len(b)))
		}
	}
	if message != "" {
		m.sent = append(m.sent, message)
	}
}

// work is a step of the send owner.
func (m *modelEnd) work(t *rapid.T, wait bool) {
	if m.gone {
		return
	}
	m.llp.block, m.llp.take = true, rapid.IntRange(0, 8).Draw(t, "taken")
	p, err := m.s.Transmit(m.llp, wait)
	m.gone = p == rdmap.Finished
	if err != nil && !m.gone {
		t.Fatalf("an error and progress %v", p)
	}
	for _, seg := range m.llp.sent {
		if bytes.Count(seg, []byte{scribble}) > 4 { // an STag may have some
			t.Fatalf("memory was sent after its completion: %s", iwarptest.Describe(seg))
		}
		m.wire = append(m.wire, onWire{m.order, seg})
		m.order++
	}
	m.llp.sent = nil
}

// arrive is a step of the receive owner at the other end.
func (m *modelEnd) arrive(t *rapid.T) {
	to := m.peer
	if len(m.wire) == 0 {
		if m.gone && !to.stopped && rapid.Bool().Draw(t, "FIN seen") {
			_ = to.s.PeerClosed()
			to.s.StopReceive()
			to.stopped = true
		}
		return
	}
	at := 0
	if m.reorders {
		at = rapid.IntRange(0, min(len(m.wire), 6)-1).Draw(t, "which")
	}
	w := m.wire[at]
	m.wire = append(m.wire[:at:at], m.wire[at+1:]...)
	if rapid.IntRange(0, 100).Draw(t, "broken") == 0 {
		w.seg = bytes.Clone(w.seg)
		w.seg[rapid.IntRange(0, len(w.seg)-1).Draw(t, "octet")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		m.broken()
	}
	if !to.stopped {
		to.llp.held = false
		_ = to.s.Receive(w.order, w.seg)
	}
}

// broken ends the checks of contents: a segment was changed in a way that need
// not be noticed.
func (m *modelEnd) broken() {
	m.tainted, m.peer.tainted = true, true
}

func (m *modelEnd) kill(t *rapid.T) {
	switch rapid.SampledFrom([]string{"fail", "terminate", "llp", "queue", "close", "stop"}).Draw(t, "kill") {
	case "fail":
		m.s.Fail(&protocol.Error{Code: protocol.MPAConnectionLost}, false)
	case "terminate":
		m.s.Fail(&protocol.Error{Code: protocol.MPACRC}, true)
	case "llp":
		m.llp.fail = errors.New("reset")
	case "queue":
		m.llp.refuse = errors.New("refused")
	case "close":
		m.s.CloseSend()
	case "stop":
		m.s.Fail(&protocol.Error{Code: protocol.MPAConnectionLost}, false)
		m.s.StopReceive()
		m.stopped = true
	}
}

// finish ends the stream and wants that nothing is left.
func (m *modelEnd) finish(t *rapid.T) {
	m.s.Fail(&protocol.Error{Code: protocol.MPAConnectionLost}, false)
	for range 1000 {
		if m.work(t, true); m.gone {
			break
		}
	}
	m.s.StopReceive()
	if !m.gone || m.results != int(m.posted) || m.s.Outstanding() != 0 || !m.s.Over() {
		t.Fatalf("%d requests of %d completed, finished %v, over %v", m.results, m.posted, m.gone, m.s.Over())
	}
	for _, b := range m.over {
		if len(bytes.Trim(b, string([]byte{scribble}))) != 0 {
			t.Fatalf("memory was changed after its completion: %x", b)
		}
	}
	if bytes.IndexByte(m.target, scribble) >= 0 {
		t.Fatal("a Write brought memory that was the caller's again")
	}
	m.checkDelivered(t)
}

// checkDelivered wants a prefix of what the peer has posted, in order.
func (m *modelEnd) checkDelivered(t *rapid.T) {
	if m.tainted {
		return
	}
	if len(m.delivered) > len(m.peer.sent) {
		t.Fatalf("%d messages delivered, %d were posted", len(m.delivered), len(m.peer.sent))
	}
	for i, d := range m.delivered {
		got := "Send " + d.data
		if d.Opcode == rdmap.OpcodeImmediate {
			got = "Immediate " + string(rune(d.Immediate))
		}
		if got != m.peer.sent[i] {
			t.Fatalf("message %d is %q, want %q", i, got, m.peer.sent[i])
		}
	}
}

// Shows: RDMAP-5.4-06, RDMAP-5.5-04, RDMAP-5.5-08, RDMAP-5.5-10, RDMAP-5.5-12, RDMAP-6.1-04, RDMAP-6.2.1-02
// Shows: RDMAP-8.1.1-03, DDP-6.2.2-02
// Random posts, deliveries, partial writes, broken segments and ends of all
// kinds: every request completes once and in order, no memory is touched after
// its completion, what is delivered is what was sent.
func TestModel(t *testing.T) {
	for name, shuffled := range map[string]bool{"ordered": false, "unordered": true} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { playModel(t, shuffled) })
		})
	}
}

func playModel(t *rapid.T, shuffled bool) {
	ends := [2]*modelEnd{newModelEnd(t, shuffled, true), newModelEnd(t, shuffled, false)}
	ends[0].peer, ends[1].peer = ends[1], ends[0]
	steps := rapid.IntRange(5, 150).Draw(t, "steps")
	for range steps {
		m := ends[rapid.IntRange(0, 1).Draw(t, "end")]
		switch n := rapid.IntRange(0, 99).Draw(t, "step"); {
		case n < 30:
			m.postRandom(t)
		case n < 60:
			m.work(t, n < 35)
		case n < 98:
			m.arrive(t)
		default:
			m.kill(t)
		}
	}
	for _, m := range ends {
		m.finish(t)
	}
}

// Shows: RDMAP-5.2-01, RDMAP-5.2.1-09, EXT-5.2.1-13
// Without failures everything that is posted completes well.
func TestModelQuiet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ends := [2]*modelEnd{newModelEnd(t, false, true), newModelEnd(t, false, false)}
		ends[0].peer, ends[1].peer = ends[1], ends[0]
		for _, m := range ends {
			m.onDone = func(c *rdmap.Completion) {
				m.completed(t, c)
				if c.Err != nil {
					t.Fatalf("request %d: %v", c.ID, c.Err)
				}
			}
			m.llp.held = false
		}
		for range rapid.IntRange(1, 15).Draw(t, "posts") {
			m := ends[rapid.IntRange(0, 1).Draw(t, "end")]
			r := rdmap.SendWR{
				ID: m.posted,
				Op: rapid.SampledFrom([]rdmap.Op{
					rdmap.OpSend, rdmap.OpWrite, rdmap.OpRead, rdmap.OpFetchAdd, rdmap.OpImmediate,
				}).Draw(t,
					"op"),
			}
			r.Remote.STag, r.Remote.TO = asSTag(m.peer.stag[1]), 8
			if m.s.Post(&r, nil) == nil {
				m.kinds[m.posted] = r.Op
				m.posted++
			}
		}
		for round := range 100 {
			for _, m := range ends {
				if round == 90 {
					m.s.CloseSend()
				}
				m.work(t, true)
				for len(m.wire) > 0 {
					if err := m.peer.s.Receive(m.wire[0].order, m.wire[0].seg); err != nil {
						t.Fatal(err)
					}
					m.wire = m.wire[1:]
				}
			}
		}
		for _, m := range ends {
			if !m.gone || m.results != int(m.posted) {
				t.Fatalf("%d of %d completed, finished %v", m.results, m.posted, m.gone)
			}
		}
	})
}
