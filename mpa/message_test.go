package mpa

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// message is cut as DDP cuts one: headers of 14 octets, the last 8 of which count.
type message struct {
	left   []byte
	at     uint64
	asked  []int // MULPDUs
	header [14]byte
	piece  [1][]byte
}

func (m *message) Rest() uint64 { return uint64(len(m.header) + len(m.left)) }

func (m *message) Next(mulpdu int) ([]byte, [][]byte, bool) {
	m.asked = append(m.asked, mulpdu)
	n := min(mulpdu-len(m.header), len(m.left))
	binary.BigEndian.PutUint64(m.header[6:], m.at)
	m.piece[0], m.left = m.left[:n], m.left[n:]
	m.at += uint64(n)
	return m.header[:], m.piece[:], len(m.left) == 0
}

// Shows: MPA-3-02, MPA-3-01
func TestQueueMessage(t *testing.T) {
	for _, tt := range []struct {
		name     string
		octets   int
		fpduMax  int
		segments int
	}{
		{name: "nothing", octets: 0, fpduMax: 1448, segments: 1},
		{name: "less than a segment", octets: 100, fpduMax: 1448, segments: 1},
		{name: "two batches", octets: 300_000, fpduMax: 1448, segments: 211},
		{name: "large segments", octets: 200_000, fpduMax: 0, segments: 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := memPipe()
			x, y := fullOperation(a, b, false, true)
			x.SetFPDUMax(tt.fpduMax)
			data := pattern(tt.octets, 5)
			m := &message{left: data}
			var want [][]byte
			for ref, last := (&message{left: data}), false; !last; {
				var h []byte
				var p [][]byte
				h, p, last = ref.Next(x.MULPDU())
				want = append(want, append(bytes.Clone(h), p[0]...))
			}
			if tt.segments > 0 && len(want) != tt.segments {
				t.Fatalf("%d segments, want %d", len(want), tt.segments)
			}
			for done, last := 0, false; !last; {
				var err error
				if last, err = x.QueueMessage(m, true); err != nil {
					t.Fatal(err)
				}
				if len(m.asked) == done {
					t.Fatal("nothing was queued")
				}
				if !last && !x.Full() {
					t.Fatal("it stopped although the batch is not full")
				}
				if gone, err := x.Flush(true); !gone || err != nil {
					t.Fatal(gone, err)
				}
				done = len(m.asked)
			}
			got := collect(t, y, len(m.asked))
			if len(got) != len(want) {
				t.Fatalf("%d segments, want %d", len(got), len(want))
			}
			for i := range want {
				if !bytes.Equal(got[i], want[i]) {
					t.Fatalf("segment %d differs", i)
				}
			}
			for _, n := range m.asked {
				if n != x.MULPDU() {
					t.Fatalf("it was told MULPDU %d, want %d", n, x.MULPDU())
				}
			}
		})
	}
}

// Shows: MPA-7.1.2-14
func TestQueueMessageIsHeld(t *testing.T) {
	a, b := memPipe()
	_, y := fullOperation(a, b, false, true)
	m := &message{left: make([]byte, 10)}
	if last, err := y.QueueMessage(m, true); last || !errors.Is(err, ErrHeld) || len(m.asked) != 0 || y.Buffered() {
		t.Errorf("QueueMessage = %t, %v, %d segments cut; want ErrHeld and none", last, err, len(m.asked))
	}
}
