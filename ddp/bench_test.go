package ddp_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// endless is a Source that gives the same buffer again and again.
type endless struct{ b ddp.Buffer }

func (e *endless) Take(*ddp.Header) (ddp.Buffer, bool) { return e.b, true }

// quiet is a ULP that notes nothing.
type quiet struct {
	table *ddp.Table
	sink  *ddp.Sink
}

func (q *quiet) CheckTagged(h *ddp.Header, _ int) (ddp.Target, *protocol.Error) {
	if q.sink != nil {
		return ddp.Target{Sink: q.sink}, nil
	}
	return ddp.Target{Region: q.table.Lookup(h.STag), Need: ddp.RemoteWrite}, nil
}
func (*quiet) CheckUntagged(*ddp.Header, int) *protocol.Error { return nil }
func (*quiet) Deliver(*ddp.Message) *protocol.Error           { return nil }

// stream returns a Receiver and a function that hands it the messages of one turn,
// n segments each, in order or with neighbours swapped.
func stream(tb testing.TB, kind string, n, payload int, ordered, swap bool) (turn func()) {
	tb.Helper()
	table := ddp.NewTable(0)
	up := &quiet{table: table}
	rc := ddp.NewReceiver(ddp.ReceiverConfig{Peer: me, Ordered: ordered, Window: 64, Batched: true}, up)
	buf := make([]byte, n*payload)
	pieces := [][]byte{buf[:len(buf)/3], buf[len(buf)/3:]}
	rc.SetQueue(0, &endless{ddp.Buffer{SG: pieces}})
	var stag ddp.STag
	switch kind {
	case "write":
		stag = register(tb, table, ddp.RegionConfig{Buf: buf, Access: ddp.RemoteWrite, PD: 1, Stream: 10}).STag()
	case "sink":
		up.sink = table.NewSink()
		stag = up.sink.Arm(pieces)
	}
	h := tagged(stag, 0, false)
	if kind == "send" {
		h = untagged(0, 0, 0, false)
	}
	segs := cut(tb, h, payload+h.Len(), make([]byte, n*payload))
	var order uint64
	var msn uint32
	return func() {
		msn++
		if up.sink != nil {
			stag = up.sink.Arm(pieces)
		}
		for i := range segs {
			at := i
			if swap && i^1 < len(segs) {
				at = i ^ 1
			}
			if kind == "send" {
				segs[at][10], segs[at][11], segs[at][12], segs[at][13] = byte(msn>>24), byte(msn>>16), byte(msn>>8),
					byte(msn)
			}
			if kind == "sink" {
				binary.BigEndian.PutUint32(segs[at][2:], uint32(stag))
			}
			if err := rc.Segment(order+uint64(at), segs[at]); err != nil {
				tb.Fatal(err)
			}
		}
		order += uint64(len(segs))
		rc.EndBatch()
	}
}

// The receive path allocates nothing, in order or not.
func TestReceiverAllocatesNothing(t *testing.T) {
	for _, kind := range []string{"send", "write", "sink"} {
		for _, mode := range []string{"ordered", "unordered in order", "swapped"} {
			turn := stream(t, kind, 8, 200, mode == "ordered", mode == "swapped")
			for range 20 {
				turn()
			}
			if n := testing.AllocsPerRun(200, turn); n != 0 {
				t.Errorf("%s, %s: %v allocations for 8 segments", kind, mode, n)
			}
		}
	}
}

// Messages of one segment that come in pairs swapped: each early one needs a
// record of its own.
func TestEarlyMessagesAllocateNothing(t *testing.T) {
	rc := ddp.NewReceiver(ddp.ReceiverConfig{Peer: me}, &quiet{})
	rc.SetQueue(0, &endless{ddp.Buffer{SG: [][]byte{make([]byte, 8)}}})
	var order uint64
	var b []byte
	one := func(n uint64) {
		h := untagged(0, uint32(n+1), 0, true)
		b = append(h.AppendTo(b[:0]), "12345678"...)
		if err := rc.Segment(n, b); err != nil {
			t.Fatal(err)
		}
	}
	turn := func() {
		for i := 3; i >= 0; i-- {
			one(order + uint64(i))
		}
		order += 4
	}
	for range 50 {
		turn()
	}
	if n := testing.AllocsPerRun(200, turn); n != 0 {
		t.Errorf("%v allocations for 4 messages", n)
	}
}

func BenchmarkReceive(b *testing.B) {
	for _, kind := range []string{"send", "write", "sink"} {
		for _, size := range []int{0, 64, 1442, 8954, 64000} {
			for _, ordered := range []bool{true, false} {
				b.Run(fmt.Sprintf("%s/%d/ordered=%v", kind, size, ordered), func(b *testing.B) {
					const n = 16
					turn := stream(b, kind, n, max(size, 1), ordered, false)
					b.SetBytes(int64(size))
					b.ReportAllocs()
					for i := 0; i < b.N; i += n {
						turn()
					}
				})
			}
		}
	}
}

func BenchmarkCut(b *testing.B) {
	sg := [][]byte{make([]byte, 1<<20)}
	var o ddp.Outgoing
	b.ReportAllocs()
	for b.Loop() {
		if err := o.Start(tagged(0x100, 0, false), sg); err != nil {
			b.Fatal(err)
		}
		for o.Active() {
			o.Next(1442)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/735, "ns/segment")
}

// A lookup takes as long with 100,000 STags as with 100, but for the caches.
func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{1, 100, 10_000, 100_000} {
		table := ddp.NewTable(0)
		stags := make([]ddp.STag, n)
		for i := range stags {
			stags[i] = register(b, table, ddp.RegionConfig{PD: 1, Stream: 1}).STag()
		}
		b.Run(fmt.Sprintf("hot/%d", n), func(b *testing.B) {
			i := 0
			for b.Loop() {
				if table.Lookup(stags[i&63%n]) == nil {
					b.Fatal("not found")
				}
				i++
			}
		})
		b.Run(fmt.Sprintf("random/%d", n), func(b *testing.B) {
			for b.Loop() {
				if table.Lookup(stags[rand.IntN(n)]) == nil {
					b.Fatal("not found")
				}
			}
		})
		b.Run(fmt.Sprintf("parallel/%d", n), func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				i := rand.IntN(n)
				for pb.Next() {
					if i++; i == n {
						i = 0
					}
					if table.Lookup(stags[i]) == nil {
						b.Fail()
					}
				}
			})
		})
	}
}

// Streams that write to one region, each to its own octets.
func BenchmarkPlaceParallel(b *testing.B) {
	for _, shared := range []bool{false, true} {
		b.Run(fmt.Sprintf("shared=%v", shared), func(b *testing.B) {
			table := ddp.NewTable(0)
			c := ddp.RegionConfig{Buf: make([]byte, 1<<20), Access: ddp.RemoteWrite, PD: 1, Stream: 10}
			if shared {
				c.Stream = 0
			}
			r := register(b, table, c)
			data := bytes.Repeat([]byte{1}, 1442)
			b.SetBytes(int64(len(data)))
			var streams atomic.Uint64
			b.RunParallel(func(pb *testing.PB) {
				who, at := me, streams.Add(1)%64
				if shared {
					who.Stream = ddp.StreamID(at)
				}
				for pb.Next() {
					if r.Place(who, at*4096, data, ddp.RemoteWrite) != nil {
						b.Fail()
					}
				}
			})
		})
	}
}

func BenchmarkRegister(b *testing.B) {
	table := ddp.NewTable(0)
	for range 100_000 {
		register(b, table, ddp.RegionConfig{PD: 1, Stream: 1})
	}
	b.ReportAllocs()
	for b.Loop() {
		register(b, table, ddp.RegionConfig{PD: 1, Stream: 1}).Deregister()
	}
}
