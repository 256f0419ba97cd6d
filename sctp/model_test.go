package sctp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// sinkULP is the ULP of a receiver that is looked at.
type sinkULP struct {
	table *ddp.Table
	got   []string
}

func (u *sinkULP) CheckTagged(h *ddp.Header, _ int) (ddp.Target, *protocol.Error) {
	return ddp.Target{Region: u.table.Lookup(h.STag), Need: ddp.RemoteWrite}, nil
}
func (u *sinkULP) CheckUntagged(*ddp.Header, int) *protocol.Error { return nil }

func (u *sinkULP) Deliver(m *ddp.Message) *protocol.Error {
	if m.Header.Tagged {
		u.got = append(u.got, fmt.Sprintf("tagged %d", m.Length))
	} else {
		u.got = append(u.got, fmt.Sprintf("MSN %d: %x", m.Header.MSN, bytes.Join(m.Buffer.SG, nil)[:m.Length]))
	}
	return nil
}

type buffers struct{}

func (buffers) Take(*ddp.Header) (ddp.Buffer, bool) {
	return ddp.Buffer{SG: [][]byte{make([]byte, 64)}}, true
}

// dataSink is a session's receiving half, and DDP's, and memory.
type dataSink struct {
	in     inbound
	ulp    sinkULP
	recv   *ddp.Receiver
	region *ddp.Region
	memory []byte
}

var modelPeer = ddp.Peer{PD: 1, Stream: 1}

func newDataSink(t *rapid.T) *dataSink {
	s := &dataSink{memory: make([]byte, 256)}
	s.ulp.table = ddp.NewTable(0)
	s.recv = ddp.NewReceiver(ddp.ReceiverConfig{Peer: modelPeer, Window: span}, &s.ulp)
	s.recv.SetQueue(0, buffers{})
	var err error
	s.region, err = s.ulp.table.Register(ddp.RegionConfig{
		Buf: s.memory, PD: modelPeer.PD, Access: ddp.RemoteWrite,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// take gives the sink a chunk of a segment. One that SCTP hands up twice ends a session, so
// that repetitions below are those of packets, which SCTP drops.
func (s *dataSink) take(b []byte) error {
	order, segment, err := s.in.segment(b)
	if err != nil {
		return err
	}
	return s.place(order, segment)
}

// place gives DDP a segment. The STag of the sink's own region is put into what the sender wrote.
func (s *dataSink) place(order uint64, segment []byte) error {
	segment = bytes.Clone(segment)
	if len(segment) >= ddp.TaggedHeaderLen && segment[0]&0x80 != 0 && bytes.Equal(segment[2:6], noSTag[:]) {
		binary.BigEndian.PutUint32(segment[2:], uint32(s.region.STag()))
	}
	if err := s.recv.Segment(order, segment); err != nil {
		return err
	}
	return nil
}

// noSTag stands for the STag of the sink's region.
var noSTag = [4]byte{'s', 't', 'a', 'g'}

// messages draws messages and returns their chunks in the order of sending.
func messages(t *rapid.T) (chunks [][]byte) {
	msn := uint32(0)
	ssn := uint16(1)
	for range rapid.IntRange(1, 6).Draw(t, "messages") {
		payload := rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "payload")
		h := ddp.Header{Version: 1, Control: 0x40}
		if rapid.Bool().Draw(t, "tagged") {
			h.Tagged, h.STag = true, ddp.STag(binary.BigEndian.Uint32(noSTag[:]))
			h.TO = uint64(rapid.IntRange(0, 256-len(payload)).Draw(t, "TO"))
		} else {
			msn++
			h.MSN = msn
		}
		var out ddp.Outgoing
		if err := out.Start(h, [][]byte{payload}); err != nil {
			t.Fatal(err)
		}
		for last := false; !last; {
			var header []byte
			var pieces [][]byte
			header, pieces, last = out.Next(rapid.IntRange(19, 50).Draw(t, "MULPDU"))
			b := append(AppendSegment(nil, ssn), header...)
			chunks = append(chunks, append(b, bytes.Join(pieces, nil)...))
			ssn++
		}
	}
	return chunks
}

// Whatever order the network brings segments in, whatever it repeats, and whatever is lost and
// sent again: memory and deliveries are those of the order of sending. A segment that is
// damaged or not the sender's changes no memory.
//
//	go test -run '^TestAnyOrder$' -rapid.checks=1000000 ./...
//
// Shows: SCTP-10-01, SCTP-10-02, SCTP-5.2.1-01
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inOrder, any := newDataSink(t), newDataSink(t)
		for _, s := range []*dataSink{inOrder, any} {
			if _, err := s.in.control(ctl(0, Accept), Accept); err != nil {
				t.Fatal(err)
			}
		}
		chunks := apart(t, messages(t))
		for _, b := range chunks {
			if err := inOrder.take(b); err != nil {
				t.Fatal(err)
			}
		}
		// The network: a permutation, in which what is lost comes later, and repetitions.
		order := rapid.Permutation(indexes(len(chunks))).Draw(t, "order")
		network := newNetwork()
		for _, i := range order {
			network.arrives(t, any, i, chunks[i])
			if again := rapid.IntRange(-1, len(chunks)-1).Draw(t, "again"); again >= 0 && network.been[again] {
				network.arrives(t, any, again, chunks[again])
			}
		}
		if !bytes.Equal(inOrder.memory, any.memory) {
			t.Errorf("memory %x, want %x", any.memory, inOrder.memory)
		}
		if got, want := fmt.Sprint(any.ulp.got), fmt.Sprint(inOrder.ulp.got); got != want {
			t.Errorf("delivered %s, want %s", got, want)
		}
		// What nobody of ours has sent.
		_ = any.take(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "hostile"))
		if !bytes.Equal(inOrder.memory, any.memory) {
			t.Error("a hostile segment has changed memory")
		}
	})
}

// apart gives each octet of a tagged segment the value that its place has, so that messages
// which overlap write the same.
func apart(t *rapid.T, chunks [][]byte) [][]byte {
	for _, b := range chunks {
		h, n, err := ddp.Parse(b[SegmentHeaderLen:])
		if err != nil {
			t.Fatal(err)
		}
		payload := b[SegmentHeaderLen+n:]
		if !h.Tagged {
			continue
		}
		for i := range payload {
			payload[i] = byte(int(h.TO)+i) | 1
		}
	}
	return chunks
}

func indexes(n int) []int {
	is := make([]int, n)
	for i := range is {
		is[i] = i
	}
	return is
}

// network is what SCTP does with packets: one that comes again is dropped.
type network struct{ been map[int]bool }

func newNetwork() *network { return &network{make(map[int]bool)} }

func (n *network) arrives(t *rapid.T, s *dataSink, i int, b []byte) {
	if n.been[i] {
		// SCTP drops it, by its TSN; and where it does not, DDP does, by its order.
		if err := s.place(uint64(i), b[SegmentHeaderLen:]); err != nil {
			t.Fatal(err)
		}
		return
	}
	n.been[i] = true
	if err := s.take(b); err != nil {
		t.Fatal(err)
	}
}
