package ddp_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// part is a segment of a message, from octet from up to octet to.
type part struct {
	from, to int
	last     bool
}

// A source cuts a message in rising order, but that is a SHOULD: other orders are
// valid while the last segment, which has the highest MO, comes last. Each octet
// comes once.
//
// Shows: DDP-5.2-04, DDP-5.3-02, DDP-4.1-05, DDP-7.1-04
func TestSourceOrderUntagged(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parts []part
		code  protocol.Code // of the last part; 0: the message is delivered
	}{
		{name: "rising", parts: []part{{from: 0, to: 3}, {from: 3, to: 6}, {from: 6, to: 9, last: true}}, code: 0},
		{
			name:  "falling but for the last",
			parts: []part{{from: 3, to: 6}, {from: 0, to: 3}, {from: 6, to: 9, last: true}}, code: 0,
		},
		{
			name:  "0, 4, 2",
			parts: []part{{from: 0, to: 2}, {from: 4, to: 6}, {from: 2, to: 4}, {from: 6, to: 9, last: true}}, code: 0,
		},
		{
			name: "many gaps",
			parts: []part{
				{from: 7, to: 8},
				{from: 5, to: 6},
				{from: 3, to: 4},
				{from: 1, to: 2},
				{from: 2, to: 3},
				{from: 6, to: 7},
				{from: 4, to: 5},
				{from: 0, to: 1},
				{from: 8, to: 9, last: true},
			},
			code: 0,
		},
		{
			name:  "empty segments anywhere",
			parts: []part{{from: 5, to: 5}, {from: 0, to: 9}, {from: 3, to: 3}, {from: 9, to: 9, last: true}}, code: 0,
		},
		{name: "the last one alone", parts: []part{{from: 0, to: 9, last: true}}, code: 0},
		{
			name: "a gap never filled", parts: []part{{from: 0, to: 3}, {from: 4, to: 6}, {from: 6, to: 9, last: true}},
			code: protocol.DDPUntaggedMO,
		},
		{
			name: "the first never sent", parts: []part{{from: 3, to: 6}, {from: 6, to: 9, last: true}},
			code: protocol.DDPUntaggedMO,
		},
		{
			name:  "the last fills a gap",
			parts: []part{{from: 0, to: 3}, {from: 6, to: 9}, {from: 3, to: 6, last: true}},
			code:  protocol.DDPUntaggedMO,
		},
		{
			name: "the last is empty within", parts: []part{{from: 0, to: 9}, {from: 3, to: 3, last: true}},
			code: protocol.DDPUntaggedMO,
		},
		{name: "the same again", parts: []part{{from: 0, to: 3}, {from: 0, to: 3}}, code: protocol.DDPUntaggedMO},
		{
			name: "the same again behind a gap", parts: []part{{from: 3, to: 6}, {from: 3, to: 6}},
			code: protocol.DDPUntaggedMO,
		},
		{name: "one octet again", parts: []part{{from: 0, to: 3}, {from: 2, to: 6}}, code: protocol.DDPUntaggedMO},
		{name: "into what came early", parts: []part{{from: 4, to: 6}, {from: 0, to: 5}}, code: protocol.DDPUntaggedMO},
		{
			name: "out of what came early", parts: []part{{from: 4, to: 6}, {from: 5, to: 8}},
			code: protocol.DDPUntaggedMO,
		},
		{
			name: "around what came early", parts: []part{{from: 4, to: 6}, {from: 3, to: 7}},
			code: protocol.DDPUntaggedMO,
		},
		{
			name: "beyond the buffer", parts: []part{{from: 4, to: 6}, {from: 6, to: 10}},
			code: protocol.DDPUntaggedTooLong,
		},
		{name: "behind the buffer", parts: []part{{from: 4, to: 6}, {from: 10, to: 10}}, code: protocol.DDPUntaggedMO},
	} {
		for _, ordered := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, ordered LLP %t", tt.name, ordered), func(t *testing.T) {
				s := newSink(ordered, 0)
				buf := s.arena.take(9)
				s.q.post(buf)
				data := pattern(12, 1)
				for i, p := range tt.parts {
					err := s.next(segment(untagged(0, 1, uint32(p.from), p.last), string(data[p.from:p.to])))
					if tt.code != 0 && i == len(tt.parts)-1 {
						wantCode(t, tt.name, err, tt.code)
						s.wantDelivered(t)
						return
					}
					if err != nil {
						t.Fatalf("part %d: %v", i, err)
					}
				}
				s.wantDelivered(t, "0.1/9")
				if !bytes.Equal(buf, data[:9]) {
					t.Errorf("the buffer has %x, want %x", buf, data[:9])
				}
			})
		}
	}
}

// A tagged message comes in any order too, the last segment with any TO. A sink
// takes each octet once; a region does not keep account.
//
// Shows: DDP-5.2-04, DDP-5.3-02
func TestSourceOrderTagged(t *testing.T) {
	for _, tt := range []struct {
		name    string
		parts   []part
		code    protocol.Code // of the last part, at a sink
		missing uint64
	}{
		{
			name: "rising", parts: []part{{from: 0, to: 3}, {from: 3, to: 6}, {from: 6, to: 9, last: true}}, code: 0,
			missing: 9,
		},
		{
			name: "falling", parts: []part{{from: 6, to: 9}, {from: 3, to: 6}, {from: 0, to: 3, last: true}}, code: 0,
			missing: 9,
		},
		{
			name:  "the last fills a gap",
			parts: []part{{from: 0, to: 3}, {from: 6, to: 9}, {from: 3, to: 6, last: true}}, code: 0, missing: 9,
		},
		{name: "a gap is left", parts: []part{{from: 0, to: 3}, {from: 6, to: 9, last: true}}, code: 0, missing: 3},
		{name: "the end is missing", parts: []part{{from: 0, to: 3, last: true}}, code: 0, missing: 3},
		{
			name: "twice", parts: []part{{from: 0, to: 3}, {from: 0, to: 3, last: true}},
			code: protocol.DDPTaggedBounds, missing: 3,
		},
		{
			name: "overlap", parts: []part{{from: 3, to: 6}, {from: 0, to: 4, last: true}},
			code: protocol.DDPTaggedBounds, missing: 0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := pattern(12, 1)
			s := newSink(true, 0)
			k := s.table.NewSink()
			buf := s.arena.take(9)
			stag := k.Arm([][]byte{buf[:2], buf[2:]})
			s.up.sinks[stag] = k
			for i, p := range tt.parts {
				err := s.next(segment(tagged(stag, uint64(p.from), p.last), string(data[p.from:p.to])))
				if tt.code != 0 && i == len(tt.parts)-1 {
					wantCode(t, tt.name, err, tt.code)
				} else if err != nil {
					t.Fatalf("part %d: %v", i, err)
				}
			}
			if got := k.FirstMissing(); got != tt.missing {
				t.Errorf("first octet missing is %d, want %d", got, tt.missing)
			}
			k.Arm([][]byte{buf})
			if k.FirstMissing() != 0 {
				t.Error("the next use starts with octets of the last")
			}
			s = newSink(true, 0)
			r := s.region(t, ddp.RegionConfig{Buf: make([]byte, 9), Access: ddp.RemoteWrite})
			for _, p := range tt.parts {
				s.good(t, "a region", segment(tagged(r.STag(), uint64(p.from), p.last), string(data[p.from:p.to])))
			}
		})
	}
}
