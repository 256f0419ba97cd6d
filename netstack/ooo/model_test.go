package ooo_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/netstack/ooo"
	"github.com/go-iwarp/iwarp/protocol"
)

var (
	runs    = flag.Int("runs", 0, "random runs of the model; 0: as many as take a second or two")
	oneSeed = flag.Uint64("seed", 0, "only the run with this seed")
)

// arrival is a TCP segment that arrives: octets [from, to) of the stream.
type arrival struct{ from, to int }

// world is one run: a stream of FPDUs and the order in which its segments arrive.
type world struct {
	markers, aligned bool
	start            uint32 // sequence number of its first octet
	stream           []byte
	fpdus            []fpdu
	arrivals         []arrival
	reads            *rand.Rand
}

type fpdu struct{ from, to int }

const (
	regionLen = 4096
	bufferLen = 1500
)

// newWorld makes a stream of Writes and Sends from a seed, cuts it into segments, and lets
// these arrive in any order, again, in other cuts, and at last once more each.
func newWorld(seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 17))
	w := &world{markers: r.IntN(4) > 0, start: r.Uint32(), reads: rand.New(rand.NewPCG(seed, 18))}
	if r.IntN(4) == 0 {
		w.start = -uint32(r.IntN(8000)) // wraps within the stream
	}
	w.aligned = !w.markers || r.IntN(3) == 0
	messages := 1 + r.IntN(60)
	if !w.markers {
		messages += 40
	}
	w.build(r, messages)
	w.cut(r)
	return w
}

func (w *world) build(r *rand.Rand, messages int) {
	f := framer{markers: w.markers}
	msn := uint32(0)
	most := []int{40, 300, 1400}[r.IntN(3)]
	for range messages {
		h := ddp.Header{Version: ddp.Version}
		length := r.IntN(bufferLen)
		if h.Tagged = r.IntN(3) > 0; h.Tagged {
			h.STag, h.TO = theSTag, uint64(r.IntN(regionLen-length))
		} else {
			msn++
			h.MSN = msn
		}
		for {
			n := min(length, 1+r.IntN(most))
			length -= n
			h.Last = length == 0
			payload := make([]byte, n)
			for i := range payload {
				payload[i] = byte(r.Uint32())
			}
			from := len(w.stream)
			w.stream = f.append(w.stream, h.AppendTo(nil), payload)
			w.fpdus = append(w.fpdus, fpdu{from, len(w.stream)})
			h.TO += uint64(n)
			h.MO += uint32(n)
			if h.Last {
				break
			}
		}
	}
}

func (w *world) cut(r *rand.Rand) {
	var segments []arrival
	if w.aligned {
		for i := 0; i < len(w.fpdus); {
			n := 1 + r.IntN(3)
			j := min(i+n, len(w.fpdus))
			segments = append(segments, arrival{w.fpdus[i].from, w.fpdus[j-1].to})
			i = j
		}
	} else {
		most := []int{20, 536, 1460}[r.IntN(3)]
		for at := 0; at < len(w.stream); {
			n := min(1+r.IntN(most), len(w.stream)-at)
			segments = append(segments, arrival{at, at + n})
			at += n
		}
	}
	// Some are lost, some come late, some twice, and some in other cuts.
	first := 0
	if !w.markers {
		first = min(ooo.MinAligned+4, len(segments)) // these show that segments are aligned
		w.arrivals = append(w.arrivals, segments[:first]...)
	}
	for i, s := range segments {
		if i < first {
			continue
		}
		switch r.IntN(8) {
		case 0:
			continue
		case 1:
			w.arrivals = append(w.arrivals, s, s)
		case 2:
			if !w.aligned {
				w.arrivals = append(w.arrivals, arrival{s.from, segments[min(i+r.IntN(3), len(segments)-1)].to})
			}
		default:
			w.arrivals = append(w.arrivals, s)
		}
	}
	reach := []int{1, 4, 30, len(segments)}[r.IntN(4)]
	for i := first; i < len(w.arrivals); i++ {
		j := min(i+r.IntN(reach), len(w.arrivals)-1)
		w.arrivals[i], w.arrivals[j] = w.arrivals[j], w.arrivals[i]
	}
	w.arrivals = append(w.arrivals, segments...) // all that was lost comes again
}

// tcp is a TCP receiver: what it has of the stream, and how far that goes.
type tcp struct {
	have []bool
	next int
}

func (t *tcp) take(a arrival) {
	for i := a.from; i < a.to; i++ {
		t.have[i] = true
	}
	for t.next < len(t.have) && t.have[t.next] {
		t.next++
	}
}

// sack is the block around a segment.
func (t *tcp) sack(a arrival, start uint32) []ooo.Block {
	if a.from < t.next {
		return nil
	}
	from, to := a.from, a.to
	for from > t.next && t.have[from-1] {
		from--
	}
	for to < len(t.have) && t.have[to] {
		to++
	}
	return []ooo.Block{{Start: start + uint32(from), End: start + uint32(to)}}
}

const theSTag = ddp.STag(0x100)

// end is a receiving end: DDP with a region and a queue, and what was delivered.
type end struct {
	region    *ddp.Region
	memory    []byte
	buffers   [][]byte
	delivered []string
	recv      *ddp.Receiver
	stag      ddp.STag
}

func newEnd(t *testing.T) *end {
	e := &end{memory: make([]byte, regionLen)}
	table := ddp.NewTable(4)
	region, err := table.Register(ddp.RegionConfig{Buf: e.memory, PD: 1, Access: ddp.RemoteWrite})
	if err != nil {
		t.Fatal(err)
	}
	e.region, e.stag = region, region.STag()
	e.recv = ddp.NewReceiver(ddp.ReceiverConfig{Peer: ddp.Peer{PD: 1, Stream: 1}, Ordered: true, Batched: true}, e)
	e.recv.SetQueue(0, e)
	return e
}

func (e *end) Take(*ddp.Header) (ddp.Buffer, bool) {
	e.buffers = append(e.buffers, make([]byte, bufferLen))
	return ddp.Buffer{SG: [][]byte{e.buffers[len(e.buffers)-1]}}, true
}

func (e *end) CheckTagged(*ddp.Header, int) (ddp.Target, *protocol.Error) {
	return ddp.Target{Region: e.region, Need: ddp.RemoteWrite}, nil
}

func (e *end) CheckUntagged(*ddp.Header, int) *protocol.Error { return nil }

func (e *end) CheckEarly(*ddp.Header, int) (ddp.Target, bool) {
	return ddp.Target{Region: e.region, Need: ddp.RemoteWrite}, true
}

// Deliver notes what memory is at a delivery.
func (e *end) Deliver(m *ddp.Message) *protocol.Error {
	s := fmt.Sprintf("tagged %v %d", m.Header.Tagged, m.Length)
	if !m.Header.Tagged {
		s += fmt.Sprintf(" %#x", crc32.ChecksumIEEE(m.Buffer.SG[0][:m.Length]))
	}
	e.delivered = append(e.delivered, s)
	return nil
}

// segment has the STag of this end's region put in.
func (e *end) segment(b []byte) []byte {
	h, n, err := ddp.Parse(b)
	if err != nil || !h.Tagged || h.STag != theSTag {
		return b
	}
	h.STag = e.stag
	return append(h.AppendTo(nil), b[n:]...)
}

// inOrder is what a receiver in order makes of the stream.
func (w *world) inOrder(t *testing.T) *end {
	e := newEnd(t)
	d := mpa.Deframer{Markers: w.markers, CRC: true}
	b := bytes.Clone(w.stream)
	for i := range w.fpdus {
		ulpdu, n, _, err := d.Next(b)
		if err != nil || n == 0 {
			t.Fatal("stream of the model:", err)
		}
		if err := e.recv.Segment(uint64(i), e.segment(ulpdu)); err != nil {
			t.Fatal("segment of the model:", err)
		}
		b = b[n:]
	}
	e.recv.EndBatch()
	return e
}

var errModel = errors.New("model")

// run lets the segments arrive and compares with what comes of the stream in order.
// It returns the statistics of the engine.
func (w *world) run(t *testing.T, want *end) (ooo.Stats, error) {
	e := newEnd(t)
	engine := ooo.New(ooo.Config{Markers: w.markers, CRC: true, Alignment: !w.markers})
	flow := ooo.NewFlow(w.start, engine)
	tcp := &tcp{have: make([]bool, len(w.stream))}
	d := mpa.Deframer{Markers: w.markers, CRC: true}
	var buffered []byte
	read, order := 0, 0
	for step, a := range w.arrivals {
		now := time.Duration(step)
		flow.Received(w.start+uint32(a.from), w.stream[a.from:a.to])
		tcp.take(a)
		flow.Sent(w.start+uint32(tcp.next), tcp.sack(a, w.start))
		for {
			f, ok := engine.Next()
			if !ok {
				break
			}
			i, found := slices.BinarySearchFunc(w.fpdus, int(f.Position),
				func(x fpdu, at int) int { return x.from - at })
			if !found || w.fpdus[i].to != int(f.Position)+f.Len {
				return engine.Stats(), fmt.Errorf("%w: step %d: no FPDU of %d octets is at %d", errModel, step, f.Len,
					f.Position)
			}
			if int(f.Position) < read {
				return engine.Stats(), fmt.Errorf("%w: step %d: the FPDU at %d comes after its turn", errModel, step,
					f.Position)
			}
			if n := e.recv.Early(e.segment(f.ULPDU)); n > 0 {
				engine.Placed(f.Position, n, now)
			}
		}
		// The reader reads some of what has come, or all.
		n := tcp.next - read
		if w.reads.IntN(3) == 0 && step < len(w.arrivals)-1 {
			n = w.reads.IntN(n + 1)
		}
		part := w.stream[read : read+n]
		if err := flow.InOrder(part, now); err != nil {
			return engine.Stats(), fmt.Errorf("%w: step %d: %w", errModel, step, err)
		}
		read += n
		buffered = append(buffered, part...)
		for {
			ulpdu, n, _, perr := d.Next(buffered)
			if perr != nil {
				return engine.Stats(), fmt.Errorf("%w: %w", errModel, perr)
			}
			if n == 0 {
				break
			}
			if err := e.recv.Segment(uint64(order), e.segment(ulpdu)); err != nil {
				return engine.Stats(), fmt.Errorf("%w: step %d: segment %d: %w", errModel, step, order, err)
			}
			order++
			buffered = buffered[n:]
		}
		e.recv.EndBatch()
		if i := len(e.delivered); i > len(want.delivered) || !slices.Equal(e.delivered, want.delivered[:i]) {
			return engine.Stats(), fmt.Errorf("%w: step %d: delivered %d messages, other ones than in order", errModel,
				step, i)
		}
	}
	s := engine.Stats()
	switch {
	case read != len(w.stream) || len(e.delivered) != len(want.delivered):
		return s, fmt.Errorf("%w: %d of %d octets read, %d of %d messages delivered",
			errModel, read, len(w.stream), len(e.delivered), len(want.delivered))
	case !bytes.Equal(e.memory, want.memory):
		return s, fmt.Errorf("%w: the region differs", errModel)
	case s.Held != 0 || s.Behind != 0:
		return s, fmt.Errorf("%w: %d octets held and %d behind a hole at the end", errModel, s.Held, s.Behind)
	}
	return s, nil
}

// shrink takes arrivals away as long as the run fails.
func (w *world) shrink(t *testing.T, want *end) error {
	var last error
	for n := len(w.arrivals) / 2; n > 0; {
		smaller := false
		for i := 0; i+n <= len(w.arrivals); i += n {
			less := *w
			less.arrivals = slices.Delete(slices.Clone(w.arrivals), i, i+n)
			if _, err := less.run(t, want); err != nil && !errors.Is(err, errIncomplete) {
				w.arrivals, last, smaller = less.arrivals, err, true
				i -= n
			}
		}
		if !smaller {
			n /= 2
		}
	}
	return last
}

var errIncomplete = errors.New("incomplete")

// Any order, repetition and loss of segments, with all of them coming at last, gives
// the same memory and the same deliveries as the stream in order.
//
// A million runs: go test ./ooo -run TestModel -runs 1000000 -timeout 0
//
// Shows: MPA-3-08, MPA-4.3-06, MPA-4.3-09, MPA-6-01, MPA-6-02, MPA-6-03, MPA-A.4-01
func TestModel(t *testing.T) {
	first, n := uint64(1), uint64(*runs)
	switch {
	case *oneSeed != 0:
		first, n = *oneSeed, 1
	case n == 0 && testing.Short():
		n = 100
	case n == 0:
		n = 1000
	}
	var sum ooo.Stats
	byAlignment := uint64(0)
	for seed := first; seed < first+n; seed++ {
		w := newWorld(seed)
		want := w.inOrder(t)
		s, err := w.run(t, want)
		if err != nil {
			arrivals := len(w.arrivals)
			less := w.shrink(t, want)
			t.Fatalf("-seed %d: %v\nmarkers %v, %d octets, FPDUs %v\nof %d arrivals %v are enough: %v",
				seed, err, w.markers, len(w.stream), w.fpdus, arrivals, w.arrivals, less)
		}
		sum.FPDUs += s.FPDUs
		sum.Placed += s.Placed
		sum.Led += s.Led
		if !w.markers {
			byAlignment += s.FPDUs
		}
		if s.Stopped != nil && (w.markers || w.aligned && !errors.Is(s.Stopped, ooo.ErrUnaligned)) {
			t.Fatalf("-seed %d: stopped by %v", seed, s.Stopped)
		}
	}
	t.Logf("%d runs: %d FPDUs found early (%d of them by alignment), %d placed", n, sum.FPDUs, byAlignment, sum.Placed)
	if *oneSeed == 0 && (sum.FPDUs == 0 || sum.Placed == 0 || sum.Placed != sum.Led || byAlignment == 0) {
		t.Errorf("the model finds nothing early: %+v", sum)
	}
}
