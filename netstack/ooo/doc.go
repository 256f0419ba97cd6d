// Package ooo finds FPDUs in TCP segments that lie behind a hole in the stream, so
// that DDP can place them before the hole is filled
// (https://www.rfc-editor.org/rfc/rfc5044#section-6 and appendix A.3). It is pure:
// segments and acknowledgements go in, FPDUs come out. There is no socket, no
// goroutine and no clock in it, and it knows no TCP stack.
//
// [Flow] takes what passes a TCP endpoint, by sequence numbers, and decides which
// segments TCP has committed to. [Engine] takes those, by their offset in the stream
// of FPDUs, and decides which FPDUs are certain.
//
// # What makes an FPDU certain
//
// An FPDU is certain if its start is known and its CRC is right. There are two ways to
// know a start behind a hole, those of RFC 5044 section 6:
//
//   - A Marker stands at every 512th octet of the stream, wherever segments begin. So
//     where one stands follows from the sequence number alone. It points to the
//     ULPDU_Length of the FPDU around it, and the CRC of that FPDU covers the Marker. No
//     payload can pass for one, since the sender's MPA puts Markers between the octets
//     of the payload and never leaves such a place to it.
//   - Where a certain FPDU ends the next one starts.
//
// All Markers within the FPDU have to agree. Connections without CRCs have no certain
// FPDUs.
//
// # Alignment is not certainty
//
// A sender that aligns its FPDUs begins each segment with one. A receiver that takes this
// for granted can be deceived by somebody who is neither of the two ends: whoever supplies
// octets that the peer sends as payload, a file say, can write into them what looks like an
// FPDU, with a right CRC. Nobody sees it as one as long as it lies in the middle of a
// segment. But retransmissions and middleboxes cut a stream anew, and when a segment
// happens to begin there, the octets of that file are placed wherever they say, with the
// rights of the peer. This is why RFC 5044 says that receivers must not depend on alignment
// (appendix A.4), and does not have it among the ways to know a start.
//
// So without Markers nothing is placed early, unless [Config].Alignment says that the program
// vouches for all who supply payload. Then a segment has to consist of whole FPDUs from its
// first octet to its last, many segments before it must have begun with an FPDU, and
// alignment is not believed any more on this connection as soon as one has not. When
// the stream shows that an FPDU was taken from where none was, the connection fails.
//
// # What is placed early is placed again
//
// The stream in order remains the authority. Each FPDU is read from it again, checked
// again and placed again at its turn, so that memory after each delivery is what it
// would be without this package; early placement changes only octets which the peer may
// write at that time, and which nobody may look at yet. [Engine.InOrder] compares each
// FPDU that was found early with what TCP delivers in the end, by a keyed hash of 64 bits: a peer
// that retransmits other octets under the same sequence numbers loses the connection.
//
// Whatever is not certain is left to its turn: nothing is lost, only later.
package ooo
