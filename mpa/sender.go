package mpa

// sender is the sending engine: it encodes ULPDUs as FPDUs, gathers these into a
// batch, and cuts that into TCP segments. It does no I/O.
type sender struct {
	framer framer
	batch  batch
	cut    segments

	size, copies int  // bounds of a batch in octets, and of what is copied for it
	short, long  int  // copies is so much at first, and this in a long run
	copyAll      bool // copies payload even if it is stable
	ends         bool // as pending said last
}

// setSegments says after how many octets TCP cuts, 0 if that is not known, and how
// hard to work for alignment.
//
// A batch is bounded to whole segments, and on a network to whole packets of them: one
// slightly above that would leave a tiny segment behind, which costs up to half of the
// throughput. (A last FPDU that is longer than all before may still go beyond: see
// full.)
func (s *sender) setSegments(emss int, how Align) {
	s.cut.emss, s.cut.how = emss, how
	unit, long := emss, copiedMax
	if emss > 0 && emss <= alignAutoMax {
		unit, long = packetMax-packetMax%emss, copiedLong
	}
	s.size, s.short, s.long = wholeSegments(batchMax, unit), wholeSegments(copiedMax, unit), wholeSegments(long, unit)
	s.copies = s.short
}

// packetMax bounds the octets of TCP that Linux hands to a device at once, to be cut
// into segments there: 64 KiB less the room that it keeps for headers.
const packetMax = 64<<10 - 1 - 320

// wholeSegments is the largest multiple of segment that is at most limit, if any.
func wholeSegments(limit, segment int) int {
	if segment > 0 && segment <= limit {
		return limit - limit%segment
	}
	return limit
}

// full reports whether the batch should go before another FPDU is added: one like
// the longest in it would take it above its bound.
func (s *sender) full() bool { return s.batch.full(s.size, s.copies) }

// add makes an FPDU of the ULPDU that header and the pieces of payload form, and
// adds it to the batch. header and the slice payload are not kept. Pieces of at
// least 16 KiB are referenced until they have gone if stable is true: they must
// not change until then. All else is copied before the CRC is taken.
//
// The error is a *[SizeError] or [ErrBatchFull]; nothing is added then. Nor is
// anything if payload is not there and the caller recovers from that panic: see
// package fault.
func (s *sender) add(header []byte, payload [][]byte, stable bool) error {
	n := sizeOf(header, payload)
	// Rule: MPA-3-06
	if n < 1 || n > MaxULPDU {
		return &SizeError{Len: n}
	}
	stable = stable && !s.copyAll
	b := &s.batch
	total := FPDULen(n)
	// Rule: MPA-5.1-04
	if !s.framer.marked && (n < gatherMin || !stable) && !s.cut.endBefore(total) && b.goesOn(total) {
		// What most of a batch are: copied behind the one before, with nothing to decide.
		s.framer.encode(b.room(total), header, payload, n, nil)
		b.take(total)
		b.extend(total)
		b.copied += total
		b.count(total)
		s.passed(total)
		return nil
	}
	gathered := 0
	if s.framer.marked {
		// Such an FPDU is cut every 508 octets, so that references would not pay.
		total = s.framer.len(n)
	} else if stable {
		gathered = gatherSize(payload)
	}
	if !b.reserve(total-gathered, gathered == 0 && s.cut.how < AlignSegments) {
		return ErrBatchFull
	}
	if s.cut.endBefore(total) {
		s.endSegment()
	}
	from := len(b.chunk)
	if gathered == 0 {
		s.framer.encode(b.room(total), header, payload, n, nil)
		b.take(total)
		b.add(from, nil)
	} else {
		b.refs = b.refs[:0]
		s.framer.encode(b.room(total-gathered), header, payload, n, &b.refs)
		b.take(total - gathered)
		b.add(from, b.refs)
		clear(b.refs)
	}
	s.passed(total)
	return nil
}

// gatherSize is the number of octets that are referenced and not copied.
func gatherSize(payload [][]byte) int {
	n := 0
	for _, p := range payload {
		if len(p) >= gatherMin {
			n += len(p)
		}
	}
	return n
}

func (s *sender) passed(n int) {
	s.cut.passed(n)
	if s.cut.endAfter() {
		s.endSegment()
	}
}

func (s *sender) endSegment() {
	s.batch.endSegment()
	s.cut.begin()
}

// pending returns what should go to TCP next, in order. cuts are where among the
// pieces a segment should end, as counts from start less than the whole; ends tells
// that the whole should end one too.
func (s *sender) pending() (pieces [][]byte, cuts []int, start int, ends bool) {
	s.ends = s.batch.left > 0 && s.cut.endBatch(s.full())
	pieces, cuts, start = s.batch.pending()
	return pieces, cuts, start, s.ends
}

// advance notes that n octets of what pending returned have gone.
func (s *sender) advance(n int) {
	if n >= s.batch.left {
		s.grow()
	}
	s.batch.advance(n)
	if s.ends && s.batch.left == 0 {
		s.cut.begin()
	}
}

// grow sets the bound of the next batch, as this one goes. A message begins with short
// batches, since the other end has nothing to do before the first of them is there.
func (s *sender) grow() {
	if s.copies > s.short && !s.full() {
		s.copies = s.short
	} else if s.copies < s.long && s.full() {
		s.copies = min(2*s.copies, s.long)
	}
}
