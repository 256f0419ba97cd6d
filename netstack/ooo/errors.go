package ooo

import "errors"

// Why an [Engine] finds nothing any more, in [Stats].Stopped; the first and the last
// are errors of [Engine.InOrder] too. Test with [errors.Is].
var (
	// ErrInconsistent says that the same octets of the stream came twice, and not the same.
	ErrInconsistent = errors.New("iwarp: inconsistent retransmission")
	// ErrCRC says that the CRC of an FPDU, found by a Marker, is wrong.
	ErrCRC = errors.New("iwarp: CRC of an FPDU behind a hole")
	// ErrMarker says that Markers do not agree about an FPDU.
	ErrMarker = errors.New("iwarp: Markers behind a hole")
	// ErrUnaligned says that a segment did not begin with an FPDU, or end with one: see
	// [Config].Alignment.
	ErrUnaligned = errors.New("iwarp: FPDUs are not aligned with segments")
	// ErrMisplaced says that an FPDU was found by alignment where the stream in order has
	// none.
	ErrMisplaced = errors.New("iwarp: no FPDU begins where alignment found one")
)
