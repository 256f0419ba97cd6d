package mpa

// Bounds of a ULPDU in octets (https://www.rfc-editor.org/rfc/rfc5044#section-3).
const (
	MinMULPDU   = 128   // MULPDU is never below
	MaxULPDU    = 64768 // nor a ULPDU above
	DefaultEMSS = 1460  // of a conn without IP addresses. One over TCP that cannot tell is taken to have Ethernet's MTU
)

const (
	lengthLen = 2
	crcLen    = 4
	markerLen = 4
	// Rule: MPA-4.3-04
	markerStep = 512 // octets of the stream from one Marker to the next
)

// MULPDU is the largest ULPDU in octets whose FPDU fits one TCP segment of emss
// octets, with as many Markers as can fall into it, clamped to [MinMULPDU] and
// [MaxULPDU] (https://www.rfc-editor.org/rfc/rfc5044#section-4.5).
func MULPDU(emss int, markers bool) int {
	// Rule: MPA-4.5-06
	if emss < MinMULPDU { // also keeps the formula away from odd arguments
		return MinMULPDU
	}
	// Rule: MPA-4.5-01, MPA-4.5-02
	n := emss - (lengthLen + crcLen + emss%4)
	if markers {
		n -= markerLen * ((emss + markerStep - 1) / markerStep)
	}
	// Rule: MPA-3-04
	return min(max(n, MinMULPDU), MaxULPDU)
}

// FPDULen is the length in octets of the FPDU of a ULPDU of n octets, from its
// ULPDU_Length to its CRC, if it has no Markers.
func FPDULen(n int) int { return lengthLen + n + padLen(n) + crcLen }

// padLen is the number of PAD octets behind a ULPDU of n octets.
// Rule: MPA-4.1-05
func padLen(n int) int { return -(lengthLen + n) & 3 }

// layout tells how an FPDU lies in a stream.
type layout struct {
	start   int // octets before ULPDU_Length: 4 if a Marker stands there
	total   int // octets of the FPDU, the Marker before it and those inside it included
	markers int // their number
}

// layoutOf returns the layout of the FPDU of a ULPDU of n octets that begins at
// pos. Everything is a multiple of four, so a Marker never splits ULPDU_Length or
// CRC; one that is due exactly behind the CRC belongs to the next FPDU.
func layoutOf(pos uint64, n int, markers bool) layout {
	l := layout{total: FPDULen(n)}
	if !markers {
		return l
	}
	phase := int(pos % markerStep)
	// Rule: MPA-4.3-07, MPA-4.3-08
	if phase == 0 {
		l.start, l.markers, phase = markerLen, 1, markerLen
	}
	// Rule: MPA-4.3-04, MPA-4.3-09
	if rest := l.total - (markerStep - phase); rest > 0 {
		l.markers += 1 + (rest-1)/(markerStep-markerLen)
	}
	l.total += l.markers * markerLen
	return l
}
