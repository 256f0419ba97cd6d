package ooo

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

// Config says what an [Engine] may rely on. The zero value finds nothing.
type Config struct {
	// Markers says that the peer puts Markers into what it sends.
	Markers bool
	// CRC says that the peer's CRCs are there to be checked. Without them nothing is
	// certain, and nothing is found.
	CRC bool
	// Alignment lets the engine take the first octet of a TCP segment for that of an
	// FPDU, where there are no Markers. That is no certainty: see the package
	// documentation before you set it.
	Alignment bool
	// Hold bounds the octets that are held because they are no whole FPDU yet, or have
	// not been taken by Next; segments beyond it are left to their turn. 0 means
	// [DefaultHold].
	Hold int
}

const (
	// DefaultHold is the default of [Config].Hold, in octets.
	DefaultHold = 4 << 20
	// Reach is how far behind the first octet that TCP has not delivered a segment may
	// lie, in octets.
	Reach = 64 << 20
	// MinAligned is how many segments must have begun with an FPDU before
	// [Config].Alignment takes effect.
	MinAligned = 16

	maxRuns   = 1 << 12
	maxFound  = 1 << 15
	maxStarts = 1 << 12
)

const (
	markerStep = 512
	markerLen  = 4
	lengthLen  = 2
	crcLen     = 4
)

// FPDU is one that was found early.
type FPDU struct {
	// Position is the offset of its first octet in the stream, counted from the start of
	// Full Operation. A Marker that stands before ULPDU_Length is part of it.
	Position uint64
	// Len is how many octets of the stream it takes.
	Len int
	// ULPDU is what it carries: the caller's.
	ULPDU []byte
}

// Stats counts what an [Engine] has done.
type Stats struct {
	Segments   uint64 // segments, or parts of them, that came behind a hole
	Octets     uint64 // octets in them that had not come before
	FPDUs      uint64 // found early
	Placed     uint64 // of these, placed: see [Engine.Placed]
	Early      uint64 // octets of payload placed before they could be delivered
	Held       int    // octets held at the moment: of FPDUs not whole yet, and not taken yet
	MostHeld   int    // the most that were
	Behind     int    // octets behind the hole at the moment, placed or not: what a receiver in order holds
	MostBehind int    // the most that were
	LeadSum    time.Duration
	LeadMax    time.Duration
	Led        uint64 // FPDUs that LeadSum is the sum of
	Stopped    error  // why nothing is found any more; nil if that may still be
}

// Engine finds FPDUs behind a hole. It belongs to one goroutine at a time. All
// positions are offsets in octets from the first octet of Full Operation.
type Engine struct {
	cfg    Config
	pos    uint64 // TCP has delivered the octets before it
	held   []run  // in order; neither overlapping nor adjacent
	found  []found
	queue  []FPDU
	queued int // octets of the ULPDUs in queue
	loose  int // octets in held
	framed int // octets of found, those before pos included
	stop   error
	seed   maphash.Seed
	hash   maphash.Hash // of found[0], as far as pos
	align  alignment
	stats  Stats
}

// run is a part of the stream that has come, and is not part of an FPDU found.
type run struct {
	start uint64
	data  []byte
}

func (r *run) end() uint64 { return r.start + uint64(len(r.data)) }

// found is an FPDU that was found and has not been delivered by TCP.
type found struct {
	start, end uint64
	sum        uint64 // of its octets, as they came
	octets     int    // of payload, if it was placed
	at         time.Duration
	placed     bool
}

// New makes an Engine.
func New(cfg Config) *Engine {
	e := &Engine{cfg: cfg, seed: maphash.MakeSeed()}
	if e.cfg.Hold <= 0 {
		e.cfg.Hold = DefaultHold
	}
	e.hash.SetSeed(e.seed)
	e.align.on = cfg.Alignment && !cfg.Markers && cfg.CRC
	return e
}

// Position is the offset of the first octet that TCP has not delivered.
func (e *Engine) Position() uint64 { return e.pos }

// Stats returns the counters.
func (e *Engine) Stats() Stats {
	s := e.stats
	s.Stopped = e.stop
	return s
}

// Useful reports whether the engine may still find something, so that segments are
// worth a copy.
func (e *Engine) Useful() bool {
	return e.stop == nil && e.cfg.CRC && (e.cfg.Markers || e.align.on)
}

// halt ends the search for good. What was found stays found, until it is compared with
// what TCP delivers.
func (e *Engine) halt(err error) {
	e.stop, e.held, e.loose = err, nil, 0
	e.account()
}

// Segment takes the octets b of the stream, the first of which is at pos: what one TCP
// segment carries, which TCP has committed to keep. It may come in any order, again, or
// overlap others. b is not kept. FPDUs that are certain now are given by Next.
func (e *Engine) Segment(pos uint64, b []byte) {
	if len(b) == 0 || !e.Useful() || pos+uint64(len(b)) <= e.pos || pos > e.pos+Reach || uint64(len(b)) > Reach {
		return
	}
	e.stats.Segments++
	if !e.cfg.Markers {
		e.aligned(pos, b)
		return
	}
	if pos < e.pos {
		b, pos = b[e.pos-pos:], e.pos
	}
	for len(b) > 0 && e.stop == nil {
		n := len(b)
		if i := e.foundAt(pos); i < len(e.found) {
			f := &e.found[i]
			if f.start <= pos { // these octets are part of an FPDU that was found
				n = min(n, int(f.end-pos))
				b, pos = b[n:], pos+uint64(n)
				continue
			}
			n = min(n, int(f.start-pos))
		}
		if n = e.add(pos, b[:n]); n == 0 {
			return
		}
		b, pos = b[n:], pos+uint64(n)
	}
}

// foundAt is the index of the first FPDU found that ends behind pos.
func (e *Engine) foundAt(pos uint64) int {
	i, _ := slices.BinarySearchFunc(e.found, pos, func(f found, pos uint64) int {
		if f.end <= pos {
			return -1
		}
		return 1
	})
	return i
}

// add takes octets that belong to no FPDU found so far, one or more of them: whatever it
// takes may have more FPDUs found. It returns how many, 0 if there is no room.
func (e *Engine) add(pos uint64, b []byte) int {
	i, _ := slices.BinarySearchFunc(e.held, pos, func(r run, pos uint64) int {
		if r.end() < pos {
			return -1
		}
		return 1
	})
	// held[i] is the first that ends at pos or behind it.
	if i < len(e.held) && e.held[i].start <= pos && pos < e.held[i].end() {
		// Octets that came before must be the same: which of them TCP is going to
		// deliver cannot be known.
		r := &e.held[i]
		n := min(len(b), int(r.end()-pos))
		if string(r.data[pos-r.start:][:n]) != string(b[:n]) {
			e.halt(fmt.Errorf("%w: %d octets at %d came again, and not the same", ErrInconsistent, n, pos))
		}
		return n
	}
	n, next := len(b), i
	if i < len(e.held) && e.held[i].end() == pos {
		next = i + 1
	}
	if next < len(e.held) && e.held[next].start < pos+uint64(n) {
		n = int(e.held[next].start - pos)
	}
	if e.stats.Held+n > e.cfg.Hold || len(e.held) >= maxRuns {
		return 0
	}
	e.stats.Octets += uint64(n)
	e.insert(i, pos, b[:n])
	return n
}

// insert puts new octets before, or at the end of, held[i], and looks for FPDUs.
func (e *Engine) insert(i int, pos uint64, b []byte) {
	e.loose += len(b)
	if i < len(e.held) && e.held[i].end() == pos {
		e.held[i].data = append(e.held[i].data, b...)
	} else {
		e.held = slices.Insert(e.held, i, run{pos, slices.Clone(b)})
	}
	if r := &e.held[i]; i+1 < len(e.held) && e.held[i+1].start == r.end() {
		r.data = append(r.data, e.held[i+1].data...)
		e.held = slices.Delete(e.held, i+1, i+2)
	}
	e.search(i)
	e.account()
}

// search takes all FPDUs that are certain out of held[i].
func (e *Engine) search(i int) {
	for {
		r := &e.held[i]
		start, ok := e.locate(r)
		if !ok {
			return
		}
		at := int(start - r.start)
		n := e.take(start, r.data[at:])
		if n == 0 {
			return
		}
		e.loose -= n
		front, rest := r.data[:at:at], r.data[at+n:]
		switch {
		case len(front) > 0 && len(rest) > 0:
			r.data = front
			i++
			e.held = slices.Insert(e.held, i, run{start + uint64(n), rest})
		case len(front) > 0:
			r.data = front
			return
		case len(rest) > 0:
			r.start, r.data = start+uint64(n), rest
		default:
			e.held = slices.Delete(e.held, i, i+1)
			return
		}
	}
}

// locate finds the first octet of an FPDU in r whose place is certain if the FPDU's
// CRC is right.
func (e *Engine) locate(r *run) (start uint64, ok bool) {
	// Rule: MPA-6-02
	if i := e.foundAt(r.start); i > 0 && e.found[i-1].end == r.start {
		return r.start, true
	}
	// Rule: MPA-4.3-09, MPA-4.3-06
	for m := (r.start + markerStep - 1) / markerStep * markerStep; m+markerLen <= r.end(); m += markerStep {
		back := uint64(binary.BigEndian.Uint16(r.data[m-r.start+2:]) &^ 3)
		if back == 0 {
			return m, true
		}
		if back > m {
			e.halt(fmt.Errorf("%w: FPDUPTR %d at %d points before the stream", ErrMarker, back, m))
			return 0, false
		}
		start := m - back
		if start%markerStep == markerLen {
			start -= markerLen // the Marker before ULPDU_Length is of this FPDU
		}
		if start >= r.start {
			return start, true
		}
	}
	return 0, false
}

// take takes the FPDU that begins at b[0], at the offset start, if it is whole. It
// returns how long that is; 0 if it is not whole, or not right.
func (e *Engine) take(start uint64, b []byte) int {
	if len(e.found) >= maxFound {
		return 0
	}
	d := mpa.Deframer{Markers: e.cfg.Markers, CRC: true}
	d.SetPosition(start)
	head := lengthLen
	if e.cfg.Markers && start%markerStep == 0 {
		head += markerLen
	}
	if len(b) < head {
		return 0
	}
	// Rule: MPA-6-03
	_, _, total, perr := d.Next(b[:head])
	if perr != nil || total > len(b) {
		return 0
	}
	sum := maphash.Bytes(e.seed, b[:total])
	// Rule: MPA-6-01
	ulpdu, n, _, perr := d.Next(b[:total])
	if perr != nil {
		e.halt(fmt.Errorf("%w at %d: %w", errOf(perr), start, perr))
		return 0
	}
	i := e.foundAt(start)
	if i < len(e.found) && e.found[i].start < start+uint64(n) {
		e.halt(fmt.Errorf("%w: FPDUs at %d and %d overlap", ErrMarker, start, e.found[i].start))
		return 0
	}
	e.found = slices.Insert(e.found, i, found{start: start, end: start + uint64(n), sum: sum})
	e.framed += n
	e.stats.FPDUs++
	e.queue = append(e.queue, FPDU{Position: start, Len: n, ULPDU: ulpdu})
	e.queued += len(ulpdu)
	return n
}

func errOf(perr *protocol.Error) error {
	if perr.Code == protocol.MPACRC {
		return ErrCRC
	}
	return ErrMarker
}

// Next gives the next FPDU that was found and whose turn has not come. One whose first
// octet TCP has delivered meanwhile is left out: its memory may be the program's again.
func (e *Engine) Next() (FPDU, bool) {
	for len(e.queue) > 0 {
		f := e.queue[0]
		e.queue[0] = FPDU{}
		if e.queue = e.queue[1:]; len(e.queue) == 0 {
			e.queue = nil
		}
		e.queued -= len(f.ULPDU)
		e.account()
		if f.Position >= e.pos {
			return f, true
		}
	}
	return FPDU{}, false
}

// Pending reports whether Next may give something.
func (e *Engine) Pending() bool { return len(e.queue) > 0 }

// Placed notes that octets of payload of the FPDU at pos were placed, at the time now,
// for the counters.
func (e *Engine) Placed(pos uint64, octets int, now time.Duration) {
	i := e.foundAt(pos)
	if i < len(e.found) && e.found[i].start == pos && !e.found[i].placed {
		f := &e.found[i]
		f.placed, f.octets, f.at = true, octets, now
		e.stats.Placed++
		e.stats.Early += uint64(octets)
	}
}

// InOrder takes the next octets that TCP delivers, before anybody acts on them. An
// error says that TCP delivers something else than what was found before, or that an
// FPDU was found where none is; the connection must not go on then. The error is
// [ErrInconsistent] or [ErrMisplaced].
func (e *Engine) InOrder(b []byte, now time.Duration) error {
	if err := e.align.deliver(e, b); err != nil {
		e.halt(err)
		return err
	}
	for len(b) > 0 {
		if len(e.found) == 0 || e.found[0].start >= e.pos+uint64(len(b)) {
			e.pos += uint64(len(b))
			break
		}
		f := &e.found[0]
		if e.pos < f.start {
			b = b[f.start-e.pos:]
			e.pos = f.start
		}
		n := min(uint64(len(b)), f.end-e.pos)
		_, _ = e.hash.Write(b[:n])
		b, e.pos = b[n:], e.pos+n
		if e.pos < f.end {
			break
		}
		sum := e.hash.Sum64()
		e.hash.Reset()
		// Rule: MPA-8-04
		if sum != f.sum {
			err := fmt.Errorf("%w: TCP delivers other octets at %d than came behind the hole", ErrInconsistent, f.start)
			e.halt(err)
			return err
		}
		if f.placed {
			lead := now - f.at
			e.stats.LeadSum += lead
			e.stats.LeadMax = max(e.stats.LeadMax, lead)
			e.stats.Led++
		}
		e.framed -= int(f.end - f.start)
		if e.found = e.found[1:]; len(e.found) == 0 {
			e.found = nil
		}
	}
	e.trim()
	e.account()
	return nil
}

// trim drops held octets that TCP has delivered.
func (e *Engine) trim() {
	n := 0
	for n < len(e.held) && e.held[n].end() <= e.pos {
		e.loose -= len(e.held[n].data)
		n++
	}
	e.held = slices.Delete(e.held, 0, n)
	if len(e.held) > 0 {
		if r := &e.held[0]; r.start < e.pos {
			e.loose -= int(e.pos - r.start)
			r.data = r.data[e.pos-r.start:]
			r.start = e.pos
		}
	}
}

// account brings the sizes in Stats up to date.
func (e *Engine) account() {
	held, behind := e.queued+e.loose, e.loose+e.framed
	if len(e.found) > 0 && e.found[0].start < e.pos {
		behind -= int(e.pos - e.found[0].start)
	}
	e.stats.Held, e.stats.Behind = held, behind
	e.stats.MostHeld = max(e.stats.MostHeld, held)
	e.stats.MostBehind = max(e.stats.MostBehind, behind)
}
