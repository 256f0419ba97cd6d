package rdmap_test

import (
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// loopLLP hands segments to the stream at the other end when it is flushed. It
// keeps its memory, so that what is counted is the engine's.
type loopLLP struct {
	memLLP
	to    *rdmap.Stream
	order uint64
	batch []byte
	ends  []int
	bad   error
}

func (l *loopLLP) Full() bool     { return len(l.ends) >= 64 }
func (l *loopLLP) Buffered() bool { return len(l.ends) > 0 }

func (l *loopLLP) Queue(header []byte, payload [][]byte, _ bool) error {
	l.batch = append(l.batch, header...)
	for _, p := range payload {
		l.batch = append(l.batch, p...)
	}
	l.ends = append(l.ends, len(l.batch))
	return nil
}

func (l *loopLLP) QueueMessage(m ddp.Segments, stable bool) (last bool, err error) {
	for {
		header, payload, last := m.Next(l.MULPDU())
		if err := l.Queue(header, payload, stable); err != nil || last || l.Full() {
			return last, err
		}
	}
}

func (l *loopLLP) Flush(bool) (bool, error) {
	at := 0
	for _, end := range l.ends {
		if err := l.to.Receive(l.order, l.batch[at:end]); err != nil {
			l.bad = err
		}
		l.order++
		at = end
	}
	l.batch, l.ends = l.batch[:0], l.ends[:0]
	return true, nil
}

// counter is a ULP that keeps nothing.
type counter struct {
	sg              [1][]byte
	done, delivered int
}

func (c *counter) Take(*ddp.Header) (ddp.Buffer, bool) { return ddp.Buffer{SG: c.sg[:]}, true }
func (c *counter) Completed(comp *rdmap.Completion) {
	if comp.Err == nil {
		c.done++
	}
}

func (c *counter) Delivered(*rdmap.Delivery) *protocol.Error {
	c.delivered++
	return nil
}

func TestSteadyStateAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	table := ddp.NewTable(0)
	mem := wordMemory(t, make([]uint64, 1024)...)
	region, err := table.Register(ddp.RegionConfig{Buf: mem, Access: allRights, PD: 1})
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]struct {
		s   *rdmap.Stream
		ulp counter
		llp loopLLP
	}
	for i := range ends {
		e := &ends[i]
		e.ulp.sg[0] = make([]byte, 8192)
		e.llp.mulpdu = 1442
		e.s = rdmap.NewStream(rdmap.Config{
			Table: table, Peer: ddp.Peer{PD: 1, Stream: ddp.StreamID(i + 1)}, Recv: &e.ulp, Handler: &e.ulp, IRD: 2,
			ORD: 2, Initiator: i == 0,
		})
	}
	ends[0].llp.to, ends[1].llp.to = ends[1].s, ends[0].s
	local := make([]byte, 4000)
	for _, r := range []rdmap.SendWR{
		{Op: rdmap.OpSend, SG: [][]byte{local[:10], local[10:]}},
		{Op: rdmap.OpSend, SG: [][]byte{local[:100]}, Inline: true, Solicited: true},
		{Op: rdmap.OpWrite, Remote: rdmap.RemoteBuffer{STag: region.STag(), TO: 8}, SG: [][]byte{local}},
		{Op: rdmap.OpRead, Remote: rdmap.RemoteBuffer{STag: region.STag()}, SG: [][]byte{local}},
		{Op: rdmap.OpRead},
		{Op: rdmap.OpImmediate, Immediate: 1},
		{Op: rdmap.OpFetchAdd, Remote: rdmap.RemoteBuffer{STag: region.STag(), TO: 8}, Operand: 1},
		{Op: rdmap.OpCompareSwap, Remote: rdmap.RemoteBuffer{STag: region.STag(), TO: 8}},
		{Op: rdmap.OpBarrier},
	} {
		once := func() {
			if err := ends[0].s.Post(&r, nil); err != nil {
				t.Fatal(err)
			}
			for range 8 {
				for i := range ends {
					if _, err := ends[i].s.Transmit(&ends[i].llp, false); err != nil {
						t.Fatal(err)
					}
				}
				if ends[0].s.Outstanding() == 0 {
					return
				}
			}
			t.Fatalf("%v does not complete: %v %v", r.Op, ends[0].llp.bad, ends[1].llp.bad)
		}
		for range 200 { // the rings are full size, the scratch memory is there
			once()
		}
		if n := testing.AllocsPerRun(200, once); n != 0 {
			t.Errorf("%v allocates %v times per operation", r.Op, n)
		}
	}
	if ends[0].ulp.done != 9*401 {
		t.Errorf("%d completions", ends[0].ulp.done)
	}
}
