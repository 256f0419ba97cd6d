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
		{"rising", []part{{0, 3, false}, {3, 6, false}, {6, 9, true}}, 0},
		{"falling but for the last", []part{{3, 6, false}, {0, 3, false}, {6, 9, true}}, 0},
		{"0, 4, 2", []part{{0, 2, false}, {4, 6, false}, {2, 4, false}, {6, 9, true}}, 0},
		{"many gaps", []part{{7, 8, false}, {5, 6, false}, {3, 4, false}, {1, 2, false}, {2, 3, false}, {6, 7, false}, {4, 5, false}, {0, 1, false}, {8, 9, true}}, 0},
		{"empty segments anywhere", []part{{5, 5, false}, {0, 9, false}, {3, 3, false}, {9, 9, true}}, 0},
		{"the last one alone", []part{{0, 9, true}}, 0},
		{"a gap never filled", []part{{0, 3, false}, {4, 6, false}, {6, 9, true}}, protocol.DDPUntaggedMO},
		{"the first never sent", []part{{3, 6, false}, {6, 9, true}}, protocol.DDPUntaggedMO},
		{"the last fills a gap", []part{{0, 3, false}, {6, 9, false}, {3, 6, true}}, protocol.DDPUntaggedMO},
		{"the last is empty within", []part{{0, 9, false}, {3, 3, true}}, protocol.DDPUntaggedMO},
		{"the same again", []part{{0, 3, false}, {0, 3, false}}, protocol.DDPUntaggedMO},
		{"the same again behind a gap", []part{{3, 6, false}, {3, 6, false}}, protocol.DDPUntaggedMO},
		{"one octet again", []part{{0, 3, false}, {2, 6, false}}, protocol.DDPUntaggedMO},
		{"into what came early", []part{{4, 6, false}, {0, 5, false}}, protocol.DDPUntaggedMO},
		{"out of what came early", []part{{4, 6, false}, {5, 8, false}}, protocol.DDPUntaggedMO},
		{"around what came early", []part{{4, 6, false}, {3, 7, false}}, protocol.DDPUntaggedMO},
		{"beyond the buffer", []part{{4, 6, false}, {6, 10, false}}, protocol.DDPUntaggedTooLong},
		{"behind the buffer", []part{{4, 6, false}, {10, 10, false}}, protocol.DDPUntaggedMO},
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
		{"rising", []part{{0, 3, false}, {3, 6, false}, {6, 9, true}}, 0, 9},
		{"falling", []part{{6, 9, false}, {3, 6, false}, {0, 3, true}}, 0, 9},
		{"the last fills a gap", []part{{0, 3, false}, {6, 9, false}, {3, 6, true}}, 0, 9},
		{"a gap is left", []part{{0, 3, false}, {6, 9, true}}, 0, 3},
		{"the end is missing", []part{{0, 3, true}}, 0, 3},
		{"twice", []part{{0, 3, false}, {0, 3, true}}, protocol.DDPTaggedBounds, 3},
		{"overlap", []part{{3, 6, false}, {0, 4, true}}, protocol.DDPTaggedBounds, 0},
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
