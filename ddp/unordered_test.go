package ddp_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// Shows: DDP-3-05, DDP-4.1-06, DDP-5.3-04, DDP-5.3-05, DDP-5.3-06, DDP-5.4-02
func TestPlacedAtOnceDeliveredInOrder(t *testing.T) {
	s := newSink(false, 0)
	one, two, write := s.arena.take(10), s.arena.take(4), s.arena.take(8)
	s.q.post(one)
	s.q.post(two)
	r := s.region(t, ddp.RegionConfig{Buf: write, Access: ddp.RemoteWrite})
	sent := [][]byte{
		0: segment(untagged(0, 1, 0, false), "01234"),
		1: segment(untagged(0, 1, 5, true), "56789"),
		2: segment(tagged(r.STag(), 0, false), "abcd"),
		3: segment(tagged(r.STag(), 4, true), "efgh"),
		4: segment(untagged(0, 2, 0, true), "end."),
	}
	for _, step := range []struct {
		order     int
		why       string
		delivered []string
	}{
		{order: 1, why: "the last segment of the first message alone is not the message"},
		{order: 3, why: "placed, its turn has not come"},
		{order: 2, why: "the Write is whole, an earlier message is not"},
		{order: 3, why: "a segment that comes again is nothing new"},
		{order: 0, why: "now all three: in order", delivered: []string{"0.1/10", "tagged/8"}},
		{order: 0, why: "a late repetition"},
		{order: 4, why: "the next in order", delivered: []string{"0.2/4"}},
		{order: 4, why: "again"},
	} {
		before := len(s.up.delivered)
		if err := s.Segment(uint64(step.order), sent[step.order]); err != nil {
			t.Fatalf("%s: %v", step.why, err)
		}
		all := s.up.delivered
		s.up.delivered = all[before:]
		t.Log(step.why)
		s.wantDelivered(t, step.delivered...)
		s.up.delivered = all
		switch {
		case step.order == 1 && string(one[5:]) != "56789", step.order == 3 && string(write[4:]) != "efgh":
			t.Fatalf("%s: not placed at once", step.why)
		}
	}
	if string(one) != "0123456789" || string(two) != "end." || string(write) != "abcdefgh" {
		t.Errorf("placed %q %q %q", one, two, write)
	}
	if got := s.Stats(); got != (ddp.Stats{OutOfOrder: 3, OctetsEarly: 13, Duplicates: 3}) {
		t.Errorf("%+v", got)
	}
	s.arena.wantGuards(t, one, two, write)
}

// What comes again after delivery must not touch the buffer, which is the ULP's.
//
// Shows: DDP-5.3-05, DDP-3-11
func TestRepetitionLeavesDeliveredBufferAlone(t *testing.T) {
	for _, same := range []bool{true, false} {
		s := newSink(false, 0)
		buf := make([]byte, 4)
		s.q.post(buf)
		s.q.post(make([]byte, 4))
		r := s.region(t, ddp.RegionConfig{Buf: make([]byte, 4), Access: ddp.RemoteWrite})
		s.good(t, "message", segment(untagged(0, 1, 0, true), "good"))
		copy(buf, "mine")
		again := segment(untagged(0, 1, 0, true), "evil")
		if same {
			if err := s.Segment(0, again); err != nil {
				t.Errorf("a repetition: %v", err)
			}
		} else { // the same message under a new order number
			wantCode(t, "a message that is done", s.Segment(2, again), protocol.DDPUntaggedMSN)
		}
		if string(buf) != "mine" {
			t.Errorf("the buffer holds %q after delivery", buf)
		}
		if !same {
			continue
		}
		if err := s.Segment(0, segment(tagged(r.STag(), 0, true), "evil")); err != nil {
			t.Error(err)
		}
		s.wantDelivered(t, "0.1/4")
	}
}

// Shows: DDP-7.1-04, DDP-7.1-05, DDP-7.1-06, DDP-4.1-05
func TestUnorderedErrors(t *testing.T) {
	type step struct {
		order   uint64
		h       ddp.Header
		payload string
	}
	for _, tt := range []struct {
		name  string
		steps []step // the last one is wrong
		want  protocol.Code
		blame int // the step whose header is reported, counted from 0
	}{
		{
			name: "early MO beyond the buffer", steps: []step{{order: 1, h: untagged(0, 1, 11, true), payload: ""}},
			want: protocol.DDPUntaggedMO, blame: 0,
		},
		{
			name:  "early MO far beyond",
			steps: []step{{order: 1, h: untagged(0, 1, math.MaxUint32, true), payload: "x"}},
			want:  protocol.DDPUntaggedMO, blame: 0,
		},
		{
			name: "early, too long", steps: []step{{order: 1, h: untagged(0, 1, 8, true), payload: "xyz"}},
			want: protocol.DDPUntaggedTooLong, blame: 0,
		},
		{
			name: "early, at the end", steps: []step{{order: 1, h: untagged(0, 1, 10, true), payload: "x"}},
			want: protocol.DDPUntaggedTooLong, blame: 0,
		},
		{name: "early, no buffer left", steps: []step{
			{order: 1, h: untagged(0, 2, 0, true), payload: "x"},
			{order: 2, h: untagged(0, 3, 0, true), payload: "x"},
			{order: 3, h: untagged(0, 4, 0, true), payload: "x"},
			{order: 4, h: untagged(0, 5, 0, true), payload: "x"},
		}, want: protocol.DDPUntaggedNoBuffer, blame: 3},
		{
			name:  "early, MSN just outside the window",
			steps: []step{{order: 7, h: untagged(0, 9, 0, true), payload: ""}}, want: protocol.DDPUntaggedMSN, blame: 0,
		},
		{
			name: "order just outside the window", steps: []step{{order: 8, h: untagged(0, 1, 0, true), payload: ""}},
			want: protocol.DDPLocalCatastrophic, blame: 0,
		},
		{
			name: "order far outside", steps: []step{{order: math.MaxUint64, h: untagged(0, 1, 0, true), payload: ""}},
			want: protocol.DDPLocalCatastrophic, blame: 0,
		},
		{
			name: "early, MSN of the past",
			steps: []step{
				{order: 0, h: untagged(0, 1, 0, true), payload: "x"},
				{order: 2, h: untagged(0, 1, 1, true), payload: "x"},
			},
			want: protocol.DDPUntaggedMSN, blame: 1,
		},
		{
			name: "gap in MO shows when all is here",
			steps: []step{
				{order: 1, h: untagged(0, 1, 3, true), payload: "x"},
				{order: 0, h: untagged(0, 1, 0, false), payload: "ab"},
			},
			want: protocol.DDPUntaggedMO, blame: 0,
		},
		{
			name: "overlap too",
			steps: []step{
				{order: 1, h: untagged(0, 1, 1, true), payload: "x"},
				{order: 0, h: untagged(0, 1, 0, false), payload: "ab"},
			},
			want: protocol.DDPUntaggedMO, blame: 0,
		},
		{name: "the last segment is not the highest", steps: []step{
			{order: 1, h: untagged(0, 1, 5, false), payload: "xyz"},
			{order: 2, h: untagged(0, 1, 2, true), payload: "cde"},
			{order: 0, h: untagged(0, 1, 0, false), payload: "ab"},
		}, want: protocol.DDPUntaggedMO, blame: 1},
		{name: "octets after the last segment", steps: []step{
			{order: 2, h: untagged(0, 1, 5, false), payload: "xyz"},
			{order: 1, h: untagged(0, 1, 2, true), payload: "cde"},
			{order: 0, h: untagged(0, 1, 0, false), payload: "ab"},
		}, want: protocol.DDPUntaggedMSN, blame: 0},
		{
			name: "messages not in the order of MSN",
			steps: []step{
				{order: 1, h: untagged(0, 1, 0, true), payload: "x"},
				{order: 0, h: untagged(0, 2, 0, true), payload: "x"},
			},
			want: protocol.DDPUntaggedMSN, blame: 1,
		},
		{
			name: "an early MSN is skipped",
			steps: []step{
				{order: 1, h: untagged(0, 3, 0, true), payload: "x"},
				{order: 0, h: untagged(0, 1, 0, true), payload: "x"},
			},
			want: protocol.DDPUntaggedMSN, blame: 0,
		},
		{
			name: "early, queue", steps: []step{{order: 1, h: untagged(9, 1, 0, true), payload: "x"}},
			want: protocol.DDPUntaggedQN, blame: 0,
		},
		{
			name: "early, version", steps: []step{{order: 1, h: ddp.Header{Last: true, MSN: 1}, payload: "x"}},
			want: protocol.DDPUntaggedVersion, blame: 0,
		},
		{
			name: "early, STag", steps: []step{{order: 1, h: tagged(5, 0, true), payload: "x"}},
			want: protocol.DDPTaggedInvalidSTag, blame: 0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSink(false, 8)
			for range 3 {
				s.q.post(s.arena.take(10))
			}
			for i, st := range tt.steps {
				seg := segment(st.h, st.payload)
				err := s.Segment(st.order, seg)
				if i < len(tt.steps)-1 {
					if err != nil {
						t.Fatalf("step %d: %v", i, err)
					}
					continue
				}
				wantCode(t, tt.name, err, tt.want)
				b := tt.steps[tt.blame]
				checkOffender(t, err, segment(b.h, b.payload))
			}
		})
	}
}

// A window's worth of segments, last one first: the most that must be kept.
func TestWholeWindowBackwards(t *testing.T) {
	for _, window := range []int{1, 2, 7, 64, 1000} {
		s := newSink(false, window)
		for range 3 * window {
			s.q.post(make([]byte, 4))
		}
		var want []string
		for round := range 3 {
			for i := window - 1; i >= 0; i-- {
				order := round*window + i
				msn := uint32(order + 1)
				if err := s.Segment(uint64(order),
					segment(untagged(0, msn, 0, true), fmt.Sprintf("%04d", msn))); err != nil {
					t.Fatalf("window %d, segment %d: %v", window, order, err)
				}
			}
			for i := range window {
				want = append(want, fmt.Sprintf("0.%d/4", round*window+i+1))
			}
			s.wantDelivered(t, want...)
		}
		for _, m := range s.up.delivered {
			if got := string(bytes.Join(m.Buffer.SG, nil)); got != fmt.Sprintf("%04d", m.Header.MSN) {
				t.Fatalf("MSN %d has %q", m.Header.MSN, got)
			}
		}
	}
}

// How long before its turn each segment came, and no matter how far ahead.
func TestAhead(t *testing.T) {
	var now time.Duration
	s := newSinkOf(ddp.ReceiverConfig{Peer: me, Window: ddp.MaxWindow, Clock: func() time.Duration { return now }})
	for range 3 {
		s.q.post(make([]byte, 4))
	}
	give := func(order uint64, seg []byte) {
		t.Helper()
		if err := s.Segment(order, seg); err != nil {
			t.Fatal(err)
		}
	}
	empty := segment(tagged(1, 0, true), "")
	give(2, segment(untagged(0, 2, 0, true), "two"))
	now = time.Second
	give(1, empty)
	give(ddp.MaxWindow-1, empty)
	now = 3 * time.Second
	give(0, segment(untagged(0, 1, 0, true), "one"))
	s.wantDelivered(t, "0.1/3", "tagged/0", "0.2/3")
	want := ddp.Stats{OutOfOrder: 3, OctetsEarly: 3, Ahead: 5 * time.Second, MaxAhead: 3 * time.Second}
	if got := s.Stats(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if !s.InProgress() {
		t.Error("a segment far ahead is not waited for")
	}
}

func TestWindowClipped(t *testing.T) {
	s := newSink(false, 1<<30)
	wantCode(t, "beyond the largest window", s.Segment(ddp.MaxWindow, segment(tagged(0, 0, true), "")),
		protocol.DDPLocalCatastrophic)
}

// Early messages whose MSNs wrap.
//
// Shows: DDP-4.3-09
func TestUnorderedMSNWrap(t *testing.T) {
	s := newSink(false, 0)
	for range 4 {
		s.q.post(make([]byte, 1))
	}
	s.SetNextMSN(0, math.MaxUint32-1)
	for _, m := range []struct {
		order uint64
		msn   uint32
	}{{order: 3, msn: 1}, {order: 2, msn: 0}, {order: 1, msn: math.MaxUint32}, {order: 0, msn: math.MaxUint32 - 1}} {
		if err := s.Segment(m.order, segment(untagged(0, m.msn, 0, true), "x")); err != nil {
			t.Fatal(err)
		}
	}
	s.wantDelivered(t, "0.4294967294/1", "0.4294967295/1", "0.0/1", "0.1/1")
}

// An error that the ULP returns for a message that was waiting is about that
// message's segment, not the one that set it free.
func TestBlameOfAWaitingMessage(t *testing.T) {
	s := newSink(false, 0)
	s.q.post(make([]byte, 9))
	s.q.post(make([]byte, 9))
	s.up.deliver = func(m *ddp.Message) *protocol.Error {
		if m.Header.MSN == 2 {
			return &protocol.Error{Code: protocol.RDMAPOpcode, Section: "s", Detail: "d"}
		}
		return nil
	}
	second := segment(untagged(0, 2, 0, true), "second")
	if err := s.Segment(1, second); err != nil {
		t.Fatal(err)
	}
	err := s.Segment(0, segment(untagged(0, 1, 0, true), "1st"))
	wantCode(t, "delivery of the second", err, protocol.RDMAPOpcode)
	checkOffender(t, err, second)
	s.wantDelivered(t, "0.1/3", "0.2/6")
}

// A tagged message may leave octets out, or write some twice: nobody can tell
// from the segments what the sender meant, so nothing is made of it.
//
// Shows: DDP-5.2-09, DDP-4.2-08
func TestTaggedMessageWithGaps(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		s := newSink(ordered, 0)
		buf := s.arena.take(10)
		stag := s.region(t, ddp.RegionConfig{Buf: buf, Access: ddp.RemoteWrite}).STag()
		s.good(t, "from the middle", segment(tagged(stag, 5, false), "abc"))
		s.good(t, "back", segment(tagged(stag, 1, false), "de"))
		s.good(t, "over what is there", segment(tagged(stag, 6, true), "X"))
		s.wantDelivered(t, "tagged/6")
		if string(buf) != "\x00de\x00\x00aXc\x00\x00" {
			t.Errorf("placed %q", buf)
		}
		s.arena.wantGuards(t, buf)
	}
}

// The length of a segment is what the LLP says, since nothing in the header does.
//
// Shows: DDP-3-07
func TestLengthComesFromTheLLP(t *testing.T) {
	for n := range 6 {
		s := newSink(true, 0)
		s.q.post(make([]byte, 5))
		whole := segment(untagged(0, 1, 0, true), "hello")
		s.good(t, "cut short", whole[:ddp.UntaggedHeaderLen+n])
		s.wantDelivered(t, fmt.Sprintf("0.1/%d", n))
	}
}

// Two streams of one device: one waits for a segment, or has failed, and the
// other goes on.
//
// Shows: DDP-5.3-03
func TestStreamsAreIndependent(t *testing.T) {
	table := ddp.NewTable(0)
	var ups []*upper
	var rcs []*ddp.Receiver
	for i := range 2 {
		up := &upper{table: table, need: ddp.RemoteWrite}
		rc := ddp.NewReceiver(ddp.ReceiverConfig{Peer: ddp.Peer{PD: 1, Stream: ddp.StreamID(i + 1)}}, up)
		q := new(queue)
		q.post(make([]byte, 5))
		q.post(make([]byte, 5))
		rc.SetQueue(0, q)
		ups, rcs = append(ups, up), append(rcs, rc)
	}
	send := func(i int, order uint64, seg []byte) *protocol.Error { return rcs[i].Segment(order, seg) }
	if err := send(0, 1, segment(untagged(0, 2, 0, true), "late")); err != nil {
		t.Fatal(err)
	}
	if err := send(1, 0, segment(untagged(0, 1, 0, true), "hello")); err != nil || len(ups[1].delivered) != 1 {
		t.Errorf("%v, %d messages", err, len(ups[1].delivered))
	}
	wantCode(t, "the first fails", send(0, 0, segment(untagged(9, 1, 0, true), "")), protocol.DDPUntaggedQN)
	if err := send(1, 1, segment(untagged(0, 2, 0, true), "hello")); err != nil || len(ups[1].delivered) != 2 {
		t.Errorf("%v, %d messages", err, len(ups[1].delivered))
	}
	if rcs[1].Err() != nil || len(ups[0].delivered) != 0 {
		t.Error("one stream's failure is the other's")
	}
}
