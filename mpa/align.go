package mpa

// Align says how hard a connection works for FPDUs that start where TCP segments
// start, which spares a hardware receiver work
// (https://www.rfc-editor.org/rfc/rfc5044#section-5.1). It needs Linux and TCP,
// and it is best effort: when the peer's window closes, TCP may cut anywhere.
//
// [Stats] counts what was aligned, by a prediction: TCP cuts every EMSS octets, from
// where it last had nothing left to send or was told to end a segment. Seen on a
// network, 0.99 to 1.00 of the FPDUs predicted were; where the peer's window closes
// again and again, 0.93 or more with segments of 1448 octets, and 0.8 or more with
// 8948. Under AlignOff it is not followed what TCP has sent, and the number is a guess.
type Align uint8

// The alignments.
const (
	// AlignAuto keeps FPDUs aligned where that is free, and packs them where it is
	// not. Long messages are cut so that FPDUs end where TCP is going to cut: the
	// first FPDU of a message fills the segment that has begun, and all but the last
	// fill segments. Shorter ones follow each other as they come, and no segment is
	// ended for alignment's sake but now and then within a long run. So a lone
	// message is aligned, and so is most of a long run of long messages.
	//
	// It is AlignOff where segments are above 16 KiB, as on loopback, or no multiple
	// of four octets, which FPDUs cannot fill, and where the peer asks for Markers.
	AlignAuto Align = iota
	// AlignOff hands whole batches to TCP, which cuts them as it likes.
	AlignOff
	// AlignSegments keeps every FPDU within a segment: a message that does not fit
	// what is left of a segment is cut there, or the segment is ended early. FPDUs
	// that fill segments still go out many at a time.
	AlignSegments
	// AlignStrict gives each FPDU a TCP segment of its own, which TCP keeps also when
	// it sends again. It is for a peer that can take nothing else, and has a tenth of
	// the throughput or less.
	AlignStrict
)

const alignAutoMax = 16 << 10
