package ddp_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/go-iwarp/iwarp/ddp"
)

// Shows: DDP-5.2-01, DDP-5.2-05, DDP-5.2-06, DDP-4.1-03, DDP-4.1-05, DDP-4.2-08, DDP-4.3-11
func TestCutAtMULPDU(t *testing.T) {
	data := make([]byte, 2048)
	for i := range data {
		data[i] = byte(i)
	}
	for _, tt := range []struct {
		name    string
		header  ddp.Header
		headers []string
		lengths []int
	}{
		{
			name: "untagged", header: untagged(0, 1, 0, false),
			headers: []string{"014300000000000000000000000100000000", "4143000000000000000000000001000005ca"},
			lengths: []int{1482, 566},
		},
		{
			name: "tagged", header: tagged(7, 16384, false),
			headers: []string{"8140000000070000000000004000", "c1400000000700000000000045ce"},
			lengths: []int{1486, 562},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var o ddp.Outgoing
			if err := o.Start(tt.header, [][]byte{data[:100], {}, data[100:1600], data[1600:]}); err != nil {
				t.Fatal(err)
			}
			at := 0
			for i, want := range tt.headers {
				if o.Remaining() != uint64(len(data)-at) {
					t.Errorf("before segment %d: %d octets remain, want %d", i, o.Remaining(), len(data)-at)
				}
				header, payload, last := o.Next(1500)
				if got := hex.EncodeToString(header); got != want {
					t.Errorf("segment %d: header %s, want %s", i, got, want)
				}
				if got := bytes.Join(payload, nil); !bytes.Equal(got, data[at:at+tt.lengths[i]]) {
					t.Errorf("segment %d: payload has %d octets, or wrong ones, want %d", i, len(got), tt.lengths[i])
				}
				if want := i == len(tt.headers)-1; last != want || o.Active() == want {
					t.Errorf("segment %d: last is %v, Active is %v", i, last, o.Active())
				}
				at += tt.lengths[i]
			}
			if h, p, last := o.Next(1500); h != nil || p != nil || last {
				t.Errorf("after the last segment Next gives %x, %v, %v", h, p, last)
			}
		})
	}
}

// Shows: DDP-5.2-07
func TestZeroLengthIsOneSegment(t *testing.T) {
	for _, h := range []ddp.Header{untagged(0, 2, 77, false), tagged(1, math.MaxUint64, false)} {
		for _, sg := range [][][]byte{nil, {{}}, {{}, nil}} {
			var o ddp.Outgoing
			if err := o.Start(h, sg); err != nil {
				t.Fatal(err)
			}
			if !o.Active() || o.Remaining() != 0 {
				t.Errorf("Active is %v, Remaining is %d", o.Active(), o.Remaining())
			}
			header, payload, last := o.Next(128)
			got, _, err := ddp.Parse(header)
			if err != nil || !last || !got.Last || len(payload) != 0 || got.MO != 0 {
				t.Errorf("got %+v with %d pieces, last %v", got, len(payload), last)
			}
			if o.Active() {
				t.Error("a second segment would come")
			}
		}
	}
}

// Shows: DDP-3-02, DDP-5.2-01
func TestMULPDUChangesBetweenSegments(t *testing.T) {
	data := pattern(1000, 1)
	var o ddp.Outgoing
	if err := o.Start(tagged(0x100, 0, false), [][]byte{data}); err != nil {
		t.Fatal(err)
	}
	var queued [][]byte // as an LLP would have it
	at := 0
	for _, mulpdu := range []int{514, 128, 214, 128, 128, 128} {
		header, payload, last := o.Next(mulpdu)
		seg := append(bytes.Clone(header), bytes.Join(payload, nil)...)
		if len(seg) > mulpdu {
			t.Errorf("segment of %d octets at MULPDU %d", len(seg), mulpdu)
		}
		if !bytes.Equal(seg[len(header):], data[at:at+len(seg)-len(header)]) {
			t.Errorf("wrong octets at %d", at)
		}
		at += len(seg) - len(header)
		queued = append(queued, seg)
		if last {
			break
		}
	}
	if at != len(data) {
		t.Errorf("%d octets sent, want %d", at, len(data))
	}
	if len(queued[0]) != 514 {
		t.Errorf("the first segment, queued before MULPDU fell, has %d octets, want 514", len(queued[0]))
	}
}

func TestMULPDUWithoutRoomMakesProgress(t *testing.T) {
	for _, mulpdu := range []int{math.MinInt, -1, 0, 14, 18} {
		if got := cut(t, untagged(0, 1, 0, false), mulpdu, []byte("abc")); len(got) != 3 {
			t.Errorf("MULPDU %d: %d segments, want 3", mulpdu, len(got))
		}
	}
}

// Shows: DDP-5.2-02
func TestMessageOf4GiB(t *testing.T) {
	// One piece many times over: the length is what counts.
	piece := make([]byte, 1<<20)
	sg := make([][]byte, 4096)
	for i := range sg {
		sg[i] = piece
	}
	var o ddp.Outgoing
	if err := o.Start(untagged(0, 1, 0, false), sg); !errors.Is(err, ddp.ErrMessageTooLong) {
		t.Errorf("2^32 octets: %v, want %v", err, ddp.ErrMessageTooLong)
	}
	if o.Active() {
		t.Error("a refused message is active")
	}
	sg[0] = piece[1:]
	if err := o.Start(untagged(0, 1, 0, false), sg); err != nil {
		t.Fatalf("2^32-1 octets: %v", err)
	}
	var h ddp.Header
	var n int
	for o.Active() {
		header, payload, _ := o.Next(64768)
		h, _, _ = ddp.Parse(header)
		n = 0
		for _, piece := range payload {
			n += len(piece)
		}
	}
	if end := uint64(h.MO) + uint64(n); end != math.MaxUint32 {
		t.Errorf("the last segment ends at %d, want %d", end, uint32(math.MaxUint32))
	}
}

// Shows: DDP-7.1-10
func TestSenderRefusesTOWrap(t *testing.T) {
	var o ddp.Outgoing
	if err := o.Start(tagged(0x100, math.MaxUint64-1, false), [][]byte{{1, 2}}); !errors.Is(err, ddp.ErrWrap) {
		t.Errorf("got %v, want %v", err, ddp.ErrWrap)
	}
	if err := o.Start(tagged(0x100, math.MaxUint64-2, false), [][]byte{{1, 2}}); err != nil {
		t.Error(err)
	}
}

func TestOutgoingReset(t *testing.T) {
	var o ddp.Outgoing
	if err := o.Start(untagged(0, 1, 0, false), [][]byte{make([]byte, 500)}); err != nil {
		t.Fatal(err)
	}
	o.Next(128)
	o.Reset()
	if o.Active() || o.Remaining() != 0 {
		t.Errorf("after Reset: Active %v, Remaining %d", o.Active(), o.Remaining())
	}
	if h, _, _ := o.Next(128); h != nil {
		t.Error("after Reset a segment comes")
	}
	if err := o.Start(untagged(0, 2, 0, false), [][]byte{[]byte("abc")}); err != nil {
		t.Fatal(err)
	}
	header, payload, last := o.Next(128)
	if h, _, _ := ddp.Parse(header); h.MSN != 2 || h.MO != 0 || !last || string(bytes.Join(payload, nil)) != "abc" {
		t.Errorf("the next message comes as %+v", h)
	}
}

func TestOutgoingAllocatesNothing(t *testing.T) {
	sg := [][]byte{
		make([]byte, 3000), make([]byte, 10), make([]byte, 3000), {}, make([]byte, 1), make([]byte, 1), make([]byte, 1),
	}
	var o ddp.Outgoing
	h := untagged(0, 1, 0, false)
	send := func() {
		if err := o.Start(h, sg); err != nil {
			t.Fatal(err)
		}
		for o.Active() {
			o.Next(1442)
		}
	}
	send()
	if n := testing.AllocsPerRun(100, send); n != 0 {
		t.Errorf("%v allocations per message", n)
	}
}

// Shows: DDP-4.1-03, DDP-4.1-04, DDP-4.1-05, DDP-4.2-04, DDP-4.2-05, DDP-4.3-02, DDP-4.3-06, DDP-4.3-10
// Shows: DDP-5.2-01, DDP-5.2-03, DDP-5.3-02
func TestSegmentsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sg := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 0, 9).Draw(t, "sg")
		whole := bytes.Join(sg, nil)
		h := ddp.Header{
			Tagged: rapid.Bool().Draw(t, "tagged"), Last: rapid.Bool().Draw(t, "last"), Version: 1,
			Control: rapid.Byte().Draw(t, "control"),
		}
		if h.Tagged {
			h.STag = ddp.STag(rapid.Uint32().Draw(t, "stag"))
			h.TO = rapid.Uint64Max(math.MaxUint64-uint64(len(whole))).Draw(t, "to")
		} else {
			h.ULP32, h.QN = rapid.Uint32().Draw(t, "ulp"), rapid.Uint32().Draw(t, "qn")
			h.MSN, h.MO = rapid.Uint32().Draw(t, "msn"), rapid.Uint32().Draw(t, "mo")
		}
		var o ddp.Outgoing
		if err := o.Start(h, sg); err != nil {
			t.Fatal(err)
		}
		var sent []byte
		for last := false; !last; {
			mulpdu := rapid.IntRange(19, 400).Draw(t, "mulpdu")
			var header []byte
			var payload [][]byte
			header, payload, last = o.Next(mulpdu)
			got, n, err := ddp.Parse(header)
			if err != nil || n != len(header) {
				t.Fatalf("header %x: %v", header, err)
			}
			want := h
			want.Last = last
			if h.Tagged {
				want.TO = h.TO + uint64(len(sent))
			} else {
				want.MO = uint32(len(sent))
			}
			if got != want {
				t.Fatalf("header %+v, want %+v", got, want)
			}
			octets := bytes.Join(payload, nil)
			if len(header)+len(octets) > mulpdu {
				t.Fatalf("segment of %d octets at MULPDU %d", len(header)+len(octets), mulpdu)
			}
			if !last && len(header)+len(octets) != mulpdu {
				t.Fatalf("segment of %d octets at MULPDU %d, and it is not the last", len(header)+len(octets), mulpdu)
			}
			sent = append(sent, octets...)
		}
		if !bytes.Equal(sent, whole) || o.Active() || o.Remaining() != 0 {
			t.Fatalf("sent %d octets of %d, or wrong ones", len(sent), len(whole))
		}
	})
}
