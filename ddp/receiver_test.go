package ddp_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// Shows: DDP-4.1-02, DDP-4.2-03, DDP-4.2-07, DDP-4.3-03, DDP-4.3-04, DDP-5.2-04, DDP-5.4-03, DDP-5.4-04
func TestReceiveBothKinds(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		s := newSink(ordered, 0)
		first, second, write := s.arena.take(3), s.arena.take(10), s.arena.take(10)
		s.q.post(first, second)
		r := s.region(t, ddp.RegionConfig{Buf: write, Base: 100, Access: ddp.RemoteWrite})
		h := untagged(0, 1, 0, false)
		h.Control, h.ULP32 = 0x91, 0x12345678
		s.good(t, "first of a Send", segment(h, "hel"))
		h.MO, h.Last = 3, true
		s.good(t, "a Write in between", segment(tagged(r.STag(), 102, false), "ab"))
		s.good(t, "last of the Write", segment(tagged(r.STag(), 104, true), "cde"))
		s.wantDelivered(t, "tagged/5")
		s.good(t, "last of the Send", segment(h, "lo"))
		s.wantDelivered(t, "tagged/5", "0.1/5")
		if string(first) != "hel" || string(second[:3]) != "lo\x00" || string(write) != "\x00\x00abcde\x00\x00\x00" {
			t.Errorf("placed %q %q %q", first, second, write)
		}
		m := s.up.delivered[1]
		if m.Header != h || m.Buffer.Token != 0 || len(m.Buffer.SG) != 2 {
			t.Errorf("delivered %+v, want header %+v", m, h)
		}
		if m := s.up.delivered[0]; m.Header.Control != 0x40 || m.Header.STag != r.STag() || m.Buffer.SG != nil {
			t.Errorf("delivered %+v", m)
		}
		s.arena.wantGuards(t, first, second, write)
	}
}

// setup is what the rows of the error table work on.
type setup struct {
	s    *sink
	stag ddp.STag // of the row's region
}

func raw(hex string) func(setup) []byte {
	return func(setup) []byte {
		b := make([]byte, len(hex)/2)
		if _, err := fmt.Sscanf(hex, "%x", &b); err != nil && hex != "" {
			panic(err)
		}
		return b
	}
}

func mk(h ddp.Header, payload string) func(setup) []byte {
	return func(setup) []byte { return segment(h, payload) }
}

func mkTagged(to uint64, payload string) func(setup) []byte {
	return func(e setup) []byte { return segment(tagged(e.stag, to, true), payload) }
}

func seg(h ddp.Header, payload string) []func(setup) []byte {
	return []func(setup) []byte{mk(h, payload)}
}

// Every error of RFC 5041 section 7.2, in the ways that lead to it: a stream with
// QN 0, buffers of some sizes, a region of 16 octets, and a bad segment after some
// good ones.
//
// Shows: DDP-4.1-08, DDP-4.4-01, DDP-7.1-01, DDP-7.1-02, DDP-7.1-03, DDP-7.1-04, DDP-7.1-05, DDP-7.1-06
// Shows: DDP-7.1-07, DDP-7.1-08, DDP-7.1-09, DDP-7.1-10
// Shows: DDP-7.1-11, DDP-7.1-12, DDP-7.1-13, DDP-7.2-01, DDP-6.2.2-01, DDP-6.2.2-04, DDP-6.2-01, DDP-8.3-04, DDP-4.2-06
func TestReceiveErrors(t *testing.T) {
	const hello = "hello"
	stranger := ddp.RegionConfig{PD: 1, Stream: 99, Access: ddp.RemoteWrite}
	for _, tt := range []struct {
		name    string
		ordered int // 1 only with order, -1 only without, 0 both
		post    []int
		region  *ddp.RegionConfig
		before  []func(setup) []byte
		bad     func(setup) []byte
		want    protocol.Code
		detail  string
	}{
		{name: "no octets", bad: raw(""), want: protocol.DDPLocalCatastrophic, detail: "segment of 0 octets"},
		{
			name: "short tagged", bad: raw("c1400000000000000000000000"), want: protocol.DDPLocalCatastrophic,
			detail: "segment of 13 octets: its header has 14",
		},
		{
			name: "short untagged", bad: raw("4143000000000000000000000001000000"), want: protocol.DDPLocalCatastrophic,
			detail: "segment of 17 octets: its header has 18",
		},
		{
			name: "DV 0", post: []int{5}, bad: raw("40430000000000000000000000010000000078"),
			want: protocol.DDPUntaggedVersion, detail: "DV 0",
		},
		{
			name: "DV 2 tagged", bad: raw("c240000000070000000000000000" + "78"), want: protocol.DDPTaggedVersion,
			detail: "DV 2",
		},
		{
			name: "DV 3 tagged without payload", bad: raw("c340000000070000000000000000"),
			want: protocol.DDPTaggedVersion, detail: "DV 3",
		},
		{
			name: "DV changes", post: []int{5}, before: seg(untagged(0, 1, 0, false), "he"),
			bad: raw("424300000000000000000000000100000002"), want: protocol.DDPUntaggedVersion,
		},
		{
			name: "QN 7", post: []int{5}, bad: mk(untagged(7, 1, 0, true), hello), want: protocol.DDPUntaggedQN,
			detail: "QN 7",
		},
		{
			name: "QN 1 without source", post: []int{5}, bad: mk(untagged(1, 1, 0, true), hello),
			want: protocol.DDPUntaggedQN,
		},
		{
			name: "QN 2^32-1", post: []int{5}, bad: mk(untagged(math.MaxUint32, 1, 0, true), hello),
			want: protocol.DDPUntaggedQN,
		},
		{name: "QN before MSN", post: []int{5}, bad: mk(untagged(7, 5, 1, true), hello), want: protocol.DDPUntaggedQN},
		{
			name: "QN of an empty message", post: []int{5}, bad: mk(untagged(7, 1, 0, true), ""),
			want: protocol.DDPUntaggedQN,
		},
		{
			name: "MSN 0 first", post: []int{5}, bad: mk(untagged(0, 0, 0, true), hello), want: protocol.DDPUntaggedMSN,
			detail: "MSN 0",
		},
		{
			name: "MSN 2 first", post: []int{5, 5}, bad: mk(untagged(0, 2, 0, true), hello),
			want: protocol.DDPUntaggedMSN,
		},
		{name: "MSN 2 first without buffer", bad: mk(untagged(0, 2, 0, true), hello), want: protocol.DDPUntaggedMSN},
		{
			name: "MSN again", post: []int{5, 5}, before: seg(untagged(0, 1, 0, true), hello),
			bad: mk(untagged(0, 1, 0, true), hello), want: protocol.DDPUntaggedMSN,
		},
		{
			name: "MSN changes within a message", post: []int{5, 5}, before: seg(untagged(0, 1, 0, false), "he"),
			bad: mk(untagged(0, 2, 2, true), "llo"), want: protocol.DDPUntaggedMSN,
		},
		{
			name: "MSN far ahead", ordered: 1, post: []int{5}, bad: mk(untagged(0, 1<<31, 0, true), hello),
			want: protocol.DDPUntaggedMSN,
		},
		{
			name: "no buffer", bad: mk(untagged(0, 1, 0, true), hello), want: protocol.DDPUntaggedNoBuffer,
			detail: "no buffer",
		},
		{
			name: "no second buffer", post: []int{5}, before: seg(untagged(0, 1, 0, true), hello),
			bad: mk(untagged(0, 2, 0, true), hello), want: protocol.DDPUntaggedNoBuffer,
		},
		{
			name: "no buffer for an empty message", bad: mk(untagged(0, 1, 0, true), ""),
			want: protocol.DDPUntaggedNoBuffer,
		},
		{name: "buffer before MO", bad: mk(untagged(0, 1, 9, true), hello), want: protocol.DDPUntaggedNoBuffer},
		{
			name: "MO 4 first", post: []int{50}, bad: mk(untagged(0, 1, 4, true), hello), want: protocol.DDPUntaggedMO,
			detail: "MO 4",
		},
		{
			name: "MO repeated", post: []int{50}, before: seg(untagged(0, 1, 0, false), hello),
			bad: mk(untagged(0, 1, 0, true), hello), want: protocol.DDPUntaggedMO,
		},
		{
			name: "MO back by one", post: []int{50}, before: seg(untagged(0, 1, 0, false), hello),
			bad: mk(untagged(0, 1, 4, true), hello), want: protocol.DDPUntaggedMO,
		},
		{
			name: "MO with a gap", post: []int{50}, before: seg(untagged(0, 1, 0, false), hello),
			bad: mk(untagged(0, 1, 6, true), hello), want: protocol.DDPUntaggedMO,
		},
		{
			name: "MO before length", post: []int{5}, bad: mk(untagged(0, 1, math.MaxUint32, true), hello),
			want: protocol.DDPUntaggedMO,
		},
		{
			name: "too long", post: []int{4}, bad: mk(untagged(0, 1, 0, true), hello),
			want: protocol.DDPUntaggedTooLong, detail: "buffer of 4",
		},
		{
			name: "too long at the second segment", post: []int{9}, before: seg(untagged(0, 1, 0, false), hello),
			bad: mk(untagged(0, 1, 5, true), hello), want: protocol.DDPUntaggedTooLong,
		},
		{
			name: "too long after the buffer is full", post: []int{5}, before: seg(untagged(0, 1, 0, false), hello),
			bad: mk(untagged(0, 1, 5, true), "!"), want: protocol.DDPUntaggedTooLong,
		},
		{
			name: "buffer of no octets", post: []int{0}, bad: mk(untagged(0, 1, 0, true), "!"),
			want: protocol.DDPUntaggedTooLong,
		},
		{
			name: "buffer without pieces", post: []int{-1}, bad: mk(untagged(0, 1, 0, true), "!"),
			want: protocol.DDPUntaggedTooLong,
		},
		{
			name: "unknown STag", bad: mk(tagged(0x11223344, 0, true), hello), want: protocol.DDPTaggedInvalidSTag,
			detail: "0x11223344: no such STag",
		},
		{name: "STag 0", bad: mk(tagged(0, 0, true), hello), want: protocol.DDPTaggedInvalidSTag},
		{
			name: "STag of another stream", region: &stranger, bad: mkTagged(0, hello),
			want: protocol.DDPTaggedSTagNotAssociated,
		},
		{
			name: "STag of another domain", region: &ddp.RegionConfig{PD: 2, Access: ddp.RemoteWrite},
			bad: mkTagged(0, hello), want: protocol.DDPTaggedSTagNotAssociated,
		},
		{
			name: "no right", region: &ddp.RegionConfig{Access: ddp.RemoteRead}, bad: mkTagged(0, hello),
			want: protocol.DDPTaggedInvalidSTag, detail: "gives access read",
		},
		{
			name: "TO wraps", region: &ddp.RegionConfig{Access: ddp.RemoteWrite},
			bad: mkTagged(math.MaxUint64-1, hello), want: protocol.DDPTaggedTOWrap,
		},
		{
			name: "TO below the base", region: &ddp.RegionConfig{Base: 8, Access: ddp.RemoteWrite},
			bad: mkTagged(7, hello), want: protocol.DDPTaggedBounds,
		},
		{
			name: "TO beyond the end", region: &ddp.RegionConfig{Access: ddp.RemoteWrite}, bad: mkTagged(16, "!"),
			want: protocol.DDPTaggedBounds,
		},
		{
			name: "runs over the end", region: &ddp.RegionConfig{Access: ddp.RemoteWrite}, bad: mkTagged(12, hello),
			want: protocol.DDPTaggedBounds,
		},
		{name: "order far ahead", ordered: -1, post: []int{5}, bad: func(s setup) []byte {
			s.s.order = ddp.DefaultWindow
			return segment(untagged(0, 1, 0, true), hello)
		}, want: protocol.DDPLocalCatastrophic, detail: "the window has 1024"},
	} {
		for _, ordered := range []bool{true, false} {
			if tt.ordered == 1 && !ordered || tt.ordered == -1 && ordered {
				continue
			}
			t.Run(fmt.Sprintf("%s/ordered=%v", tt.name, ordered), func(t *testing.T) {
				s := newSink(ordered, 0)
				var buffers [][]byte
				for _, n := range tt.post {
					if n < 0 {
						s.q.post()
						continue
					}
					buffers = append(buffers, s.arena.take(n))
					s.q.post(buffers[len(buffers)-1])
				}
				env := setup{s: s}
				if tt.region != nil {
					c := *tt.region
					c.Buf = s.arena.take(16)
					buffers = append(buffers, c.Buf)
					env.stag = s.region(t, c).STag()
				}
				for _, f := range tt.before {
					s.good(t, "before", f(env))
				}
				memory, delivered, bad := bytes.Clone(s.arena.mem), len(s.up.delivered), tt.bad(env)
				err := s.next(bad)
				wantCode(t, "bad segment", err, tt.want)
				if !strings.Contains(err.Detail, tt.detail) {
					t.Errorf("detail is %q, want %q in it", err.Detail, tt.detail)
				}
				checkOffender(t, err, bad)
				if !bytes.Equal(s.arena.mem, memory) {
					t.Error("octets of the bad segment were placed")
				}
				if s.Err() != err {
					t.Errorf("Err is %v", s.Err())
				}
				// From now on silence, whatever comes.
				s.q.post(make([]byte, 5))
				for _, next := range [][]byte{
					bad, nil, segment(untagged(0, 1, 0, true), hello), segment(tagged(1, 0, true), ""),
				} {
					if err := s.next(next); err != nil {
						t.Errorf("after the error: %v, want silence", err)
					}
				}
				if len(s.up.delivered) != delivered || s.Err() != err || s.Stats().Dropped != 4 {
					t.Errorf("after the error something happened: %d messages, Err %v, %+v", len(s.up.delivered),
						s.Err(), s.Stats())
				}
				s.arena.wantGuards(t, buffers...)
			})
		}
	}
}

// checkOffender checks that the error has the header and length of the segment,
// if that is long enough to have a header.
func checkOffender(t *testing.T, err *protocol.Error, bad []byte) {
	t.Helper()
	_, n, perr := ddp.Parse(bad)
	if perr != nil {
		if err.Offender != nil {
			t.Errorf("a segment without a whole header is echoed: %+v", err.Offender)
		}
		return
	}
	o := err.Offender
	if o == nil || int(o.SegmentLength) != len(bad) || !bytes.Equal(o.DDPHeader, bad[:n]) || o.RDMAPHeader != nil {
		t.Errorf("offender is %+v, want %d octets, header %x", o, len(bad), bad[:n])
	}
}

// Shows: DDP-7.2-01
func TestErrorNumbers(t *testing.T) {
	for _, tt := range []struct {
		code         protocol.Code
		etype, value uint8
	}{
		{code: protocol.DDPLocalCatastrophic, etype: 0, value: 0},
		{code: protocol.DDPTaggedInvalidSTag, etype: 1, value: 0},
		{code: protocol.DDPTaggedBounds, etype: 1, value: 1},
		{code: protocol.DDPTaggedSTagNotAssociated, etype: 1, value: 2},
		{code: protocol.DDPTaggedTOWrap, etype: 1, value: 3},
		{code: protocol.DDPTaggedVersion, etype: 1, value: 4},
		{code: protocol.DDPUntaggedQN, etype: 2, value: 1},
		{code: protocol.DDPUntaggedNoBuffer, etype: 2, value: 2},
		{code: protocol.DDPUntaggedMSN, etype: 2, value: 3},
		{code: protocol.DDPUntaggedMO, etype: 2, value: 4},
		{code: protocol.DDPUntaggedTooLong, etype: 2, value: 5},
		{code: protocol.DDPUntaggedVersion, etype: 2, value: 6},
	} {
		if tt.code != protocol.NewCode(protocol.LayerDDP, tt.etype, tt.value) {
			t.Errorf("%v is not 1/%d/%02x", tt.code, tt.etype, tt.value)
		}
	}
}

// Shows: DDP-5.2-08, DDP-5.2-07, DDP-4.2-06, DDP-4.1-07
func TestReceiveTolerates(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		s := newSink(ordered, 0)
		for range 3 {
			s.q.post(make([]byte, 8))
		}
		for _, tt := range []struct{ name, wire string }{
			{name: "Rsvd set", wire: "7d430000000000000000000000010000000068656c6c6f"},
			{name: "RDMAP Rsv set", wire: "417300000000000000000000000200000000" + "68656c6c6f"},
			{name: "zero-length Write, unknown STag, TO 2^64-1", wire: "c140ffffffffffffffffffffffff"},
			{name: "zero-length Write, STag 0", wire: "c1400000000000000000000000000000"[:28]},
			{name: "zero-length, not the last", wire: "8140000000000000000000000000"},
			{name: "and its last", wire: "c140000000000000000000000000"},
			{name: "RsvdULP set", wire: "4143ffffffff00000000000000030000000068656c6c6f"},
		} {
			s.good(t, tt.name, unhex(t, tt.wire))
		}
		s.wantDelivered(t, "0.1/5", "0.2/5", "tagged/0", "tagged/0", "tagged/0", "0.3/5")
		if h := s.up.delivered[0].Header; h.Reserved != 0xf {
			t.Errorf("Rsvd is %x, want it as it came", h.Reserved)
		}
	}
}

// Shows: DDP-4.3-07, DDP-4.3-08, DDP-4.3-09
func TestMSNPerQueueAndWrap(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		s := newSink(ordered, 0)
		queues := map[uint32]*queue{0: s.q, 1: {}, 3: {}, 900: {}}
		for qn, q := range queues {
			for range 4 {
				q.post(make([]byte, 4))
			}
			s.SetQueue(qn, q)
		}
		for _, m := range [][2]uint32{{0, 1}, {900, 1}, {1, 1}, {0, 2}, {3, 1}, {1, 2}, {900, 2}} {
			s.good(t, "each queue counts on its own", segment(untagged(m[0], m[1], 0, true), "x"))
		}
		s.SetNextMSN(0, math.MaxUint32)
		s.good(t, "the highest MSN", segment(untagged(0, math.MaxUint32, 0, true), "x"))
		s.good(t, "is followed by 0", segment(untagged(0, 0, 0, true), "x"))
		if want := []uint32{1, 2, math.MaxUint32, 0}; fmt.Sprint(s.q.taken) != fmt.Sprint(want) {
			t.Errorf("buffers were taken for %v, want %v", s.q.taken, want)
		}
		wantCode(t, "1 is not due", s.next(segment(untagged(0, 2, 0, true), "x")), protocol.DDPUntaggedMSN)
	}
}

func TestSetQueue(t *testing.T) {
	s := newSink(true, 0)
	s.q.post(make([]byte, 1))
	s.SetQueue(5, &queue{buffers: []ddp.Buffer{{}, {}, {}}})
	s.good(t, "first on QN 5", segment(untagged(5, 1, 0, true), ""))
	s.SetQueue(5, nil)
	other := &queue{buffers: []ddp.Buffer{{}}}
	s.SetQueue(5, other)
	s.good(t, "the new source goes on where the old one was", segment(untagged(5, 2, 0, true), ""))
	if fmt.Sprint(other.taken) != "[2]" {
		t.Errorf("taken %v, want [2]", other.taken)
	}
	s.SetQueue(5, nil)
	wantCode(t, "no source", s.next(segment(untagged(5, 3, 0, true), "")), protocol.DDPUntaggedQN)
}

func TestVersionZero(t *testing.T) {
	up := &upper{table: ddp.NewTable(0)}
	for _, tt := range []struct {
		cfg  ddp.ReceiverConfig
		good uint8
	}{
		{cfg: ddp.ReceiverConfig{}, good: 1},
		{cfg: ddp.ReceiverConfig{Version: 1}, good: 1},
		{cfg: ddp.ReceiverConfig{VersionZero: true}, good: 0},
	} {
		for dv := range uint8(4) {
			h := tagged(0, 0, true)
			h.Version = dv
			err := ddp.NewReceiver(tt.cfg, up).Segment(0, segment(h, ""))
			if (err == nil) != (dv == tt.good) {
				t.Errorf("%+v, DV %d: %v", tt.cfg, dv, err)
			}
		}
	}
}

// The ULP's answers end reception like DDP's own checks. Whose segment it was is
// added, and the ULP's error value stays as it was.
func TestULPRefuses(t *testing.T) {
	mine := &protocol.Error{Code: protocol.RDMAPOpcode, Section: "s", Detail: "d"}
	for _, tt := range []struct {
		name string
		seg  []byte
	}{
		{name: "untagged", seg: segment(untagged(0, 1, 0, true), "hello")},
		{name: "empty untagged", seg: segment(untagged(0, 1, 0, true), "")},
		{name: "tagged", seg: segment(tagged(1, 0, true), "hello")},
		{name: "empty tagged", seg: segment(tagged(1, 0, true), "")},
	} {
		s := newSink(true, 0)
		buf := make([]byte, 5)
		s.q.post(buf)
		s.up.refuse = mine
		err := s.next(tt.seg)
		wantCode(t, tt.name, err, protocol.RDMAPOpcode)
		checkOffender(t, err, tt.seg)
		if mine.Offender != nil {
			t.Fatal("the ULP's own error was changed")
		}
		if !bytes.Equal(buf, make([]byte, 5)) || len(s.up.delivered) != 0 {
			t.Errorf("%s: placed or delivered all the same", tt.name)
		}
		if !errors.Is(s.Err(), mine) {
			t.Errorf("%s: Err is %v", tt.name, s.Err())
		}
	}
}

func TestULPOffenderIsKept(t *testing.T) {
	for _, own := range []protocol.Offender{
		{},
		{RDMAPHeader: []byte{1, 2}},
		{SegmentLength: 7, DDPHeader: []byte{3}},
	} {
		s := newSink(true, 0)
		s.q.post(make([]byte, 5))
		s.up.deliver = func(*ddp.Message) *protocol.Error {
			o := own
			return &protocol.Error{Code: protocol.RDMAPVersion, Section: "s", Detail: "d", Offender: &o}
		}
		bad := segment(untagged(0, 1, 0, true), "hello")
		err := s.next(bad)
		wantCode(t, "delivery", err, protocol.RDMAPVersion)
		want := protocol.Offender{SegmentLength: uint16(len(bad)), DDPHeader: bad[:18], RDMAPHeader: own.RDMAPHeader}
		if own.SegmentLength != 0 {
			want.SegmentLength, want.DDPHeader = own.SegmentLength, own.DDPHeader
		}
		if fmt.Sprint(*err.Offender) != fmt.Sprint(want) {
			t.Errorf("offender %+v, want %+v", *err.Offender, want)
		}
	}
}

func TestSegmentLengthSaturates(t *testing.T) {
	s := newSink(true, 0)
	err := s.next(segment(tagged(1, 0, true), strings.Repeat("x", 70000)))
	wantCode(t, "long segment", err, protocol.DDPTaggedInvalidSTag)
	if err.Offender.SegmentLength != math.MaxUint16 {
		t.Errorf("length is %d", err.Offender.SegmentLength)
	}
}

// A buffer of more than 4 GiB takes no message of 2^32 octets: there is none.
//
// Shows: DDP-5.2-02
func TestReceiveNoMessageOf4GiB(t *testing.T) {
	piece := make([]byte, 1<<20)
	sg := make([][]byte, 4097)
	for i := range sg {
		sg[i] = piece
	}
	s := newSink(false, 0)
	s.q.post(sg...)
	s.order = 1
	s.good(t, "the last octets", segment(untagged(0, 1, math.MaxUint32-4, false), "abcd"))
	wantCode(t, "one more", s.next(segment(untagged(0, 1, math.MaxUint32-3, true), "abcd")),
		protocol.DDPUntaggedTooLong)
}

// A ULP that takes a queue away while it judges a segment gets an error, no panic.
func TestQueueTakenAwayMidway(t *testing.T) {
	s := newSink(true, 0)
	s.q.post(make([]byte, 5))
	taker := &takesAway{upper: s.up}
	taker.r = ddp.NewReceiver(ddp.ReceiverConfig{Peer: me, Ordered: true}, taker)
	taker.r.SetQueue(0, s.q)
	wantCode(t, "queue gone", taker.r.Segment(0, segment(untagged(0, 1, 0, true), "hello")), protocol.DDPUntaggedQN)
}

type takesAway struct {
	*upper
	r *ddp.Receiver
}

func (t *takesAway) CheckUntagged(h *ddp.Header, _ int) *protocol.Error {
	t.r.SetQueue(h.QN, nil)
	return nil
}
