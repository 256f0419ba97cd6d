package mpa

// segments is the cutting into TCP segments: it follows where TCP is going to cut
// the stream if it cuts every EMSS octets, says how long ULPDUs should be to end
// there, and where a segment has to be ended
// (https://www.rfc-editor.org/rfc/rfc5044#section-5.1).
type segments struct {
	emss int   // octets after which TCP cuts, 0 if unknown
	how  Align // AlignAuto where FPDUs are fitted into segments, AlignOff where all this does not matter
	fill int   // octets of the segment that the next FPDU begins in

	run     int    // octets since a segment was known to begin
	fpdus   uint64 // so far
	aligned uint64 // of them, those that lie within one segment
}

const (
	// fitSegments is how many segments a message has to fill for its FPDUs to be
	// fitted under AlignAuto: each fitted message is an FPDU more.
	fitSegments = 4
	// minFit is the shortest ULPDU in octets to be made for the end of a segment
	// (https://www.rfc-editor.org/rfc/rfc5044#section-4.5).
	minFit = MinMULPDU
)

// ulpdu returns how long the next ULPDU should be at most: mulpdu, or as long as what
// is left of the segment asks for. A ULPDU with all that is left of the message would
// have so many octets as rest says.
func (s *segments) ulpdu(mulpdu int, rest uint64) int {
	if s.fill == 0 {
		return mulpdu
	}
	switch s.how {
	case AlignAuto:
		if rest < uint64(fitSegments*s.emss) {
			return mulpdu
		}
	case AlignSegments:
		if rest <= MinMULPDU {
			return mulpdu
		}
	default:
		return mulpdu
	}
	// Rule: MPA-5.1-03, MPA-4.5-03, MPA-4.5-07
	n := ulpduFor(s.emss - s.fill)
	switch {
	case uint64(max(n, 0)) >= rest:
		return mulpdu // it fits whole
	case n >= minFit:
		return min(n, mulpdu)
	case s.how == AlignSegments:
		return mulpdu // the segment is ended
	}
	// Across this end, so that the next one ends with the segment.
	return min(max(ulpduFor((2*s.emss-s.fill)/2), minFit), mulpdu)
}

// ulpduFor is the longest ULPDU whose FPDU has at most n octets.
func ulpduFor(n int) int { return n&^3 - lengthLen - crcLen }

// endBefore reports whether the segment has to end before an FPDU of n octets.
func (s *segments) endBefore(n int) bool {
	// Rule: MPA-5.1-03
	return s.how >= AlignSegments && s.fill > 0 && s.fill+n > s.emss
}

// passed takes an FPDU of n octets into account. FPDUs that fill segments exactly
// need no end: TCP cuts there by itself.
func (s *segments) passed(n int) {
	s.fpdus++
	if s.emss == 0 {
		return
	}
	s.run += n
	s.fill += n
	if s.fill <= s.emss {
		s.aligned++
	}
	if s.fill >= s.emss {
		s.fill %= s.emss
	}
}

// endAfter reports whether the segment has to end behind the FPDU just passed.
func (s *segments) endAfter() bool { return s.how == AlignStrict }

// endBatch reports whether the batch should end a segment.
func (s *segments) endBatch(full bool) bool {
	switch s.how {
	case AlignAuto:
		// Within a long run, where TCP should cut anyway: in case that it has cut
		// elsewhere before.
		return full && s.fill == 0
	case AlignSegments, AlignStrict:
		return true
	}
	return false
}

// begin notes that the next FPDU begins a segment.
func (s *segments) begin() { s.fill, s.run = 0, 0 }
