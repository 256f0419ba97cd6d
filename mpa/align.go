package mpa

// Align says how hard a connection works for FPDUs that start where TCP segments
// start, which spares a hardware receiver work
// (https://www.rfc-editor.org/rfc/rfc5044#section-5.1). It needs Linux and TCP,
// and it is best effort: when the peer's window closes, TCP may cut anywhere.
type Align uint8

// The alignments.
const (
	// AlignAuto is AlignSegments where a segment is at most 16 KiB and a multiple
	// of four octets, so that FPDUs can fill it, and AlignOff elsewhere: on
	// loopback a write per segment would cost half of the throughput and help
	// nobody.
	AlignAuto Align = iota
	// AlignOff hands whole batches to TCP, which cuts them as it likes.
	AlignOff
	// AlignSegments ends a segment where the next FPDU does not fit it. FPDUs that
	// fill segments exactly still go out many at a time.
	AlignSegments
	// AlignStrict gives each FPDU a system call and a TCP segment of its own, which
	// TCP keeps also when it sends again. It is for a peer that can take nothing
	// else, and has a small part of the throughput.
	AlignStrict
)

const alignAutoMax = 16 << 10

func (a Align) on(emss int) bool {
	switch a {
	case AlignSegments, AlignStrict:
		return true
	case AlignAuto:
		return emss <= alignAutoMax && emss%4 == 0
	}
	return false
}
