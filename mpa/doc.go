// Package mpa is Marker PDU Aligned framing for TCP (RFC 5044, with the startup
// of RFC 6581): the layer of iWARP that turns TCP's stream of octets into
// records.
//
// DDP, the layer above, cuts messages into segments that each say where their
// data belongs. MPA calls a segment a ULPDU, wraps it in a frame with a length
// and a CRC32c, the FPDU, and sends FPDUs back to back. Before that the two ends
// exchange one startup frame each over the TCP connection, a Request and a Reply,
// and settle how they will talk. From then on they are in Full Operation.
//
//	Initiator                          Responder
//	    | -- Request: M C, private data --> |   ReadRequest
//	    | <-- Reply: M C R, private data -- |   Incoming.Accept or Reject
//	    | == first FPDU ==================> |   may send only from here on
//	    | <========= FPDUs ===============> |
//
// # Use
//
// [Initiate] and [ReadRequest] with [Incoming.Accept] run the startup over any
// [net.Conn] and give a [Conn], which is what the ddp package wants below it:
// queue ULPDUs, flush the batch in one gather write, receive what comes. The
// rules behind the startup are in pure functions, [NewRequest], [Answer],
// [RejectReply] and [Conclude], and the receiving half of the framing in an
// engine without I/O, [Deframer], so that tools can use the same code on a capture.
//
// # Errors
//
// What the RFC gives a code is a *protocol.Error. Four kinds of end differ:
//
//   - a FIN between FPDUs is [io.EOF], a graceful end of one direction;
//   - a lost connection is MPAConnectionLost, also for a FIN within an FPDU;
//   - a bad CRC or Marker (MPACRC, MPAMarker) ends reception for good, but leaves
//     TCP open and the other direction usable, so that the ULP can send a Terminate
//     message before it closes;
//   - a bad startup frame (MPAStartup) closes TCP at once.
//
// A refusal, [RejectError], is none of these: TCP stays open and goes back to the
// caller, with not one octet of what follows the Reply read. (The example in RFC
// 5044 section 7.1.4.2 closes TCP there; rule 3 of section 7.1.2 says to leave it
// open, and a caller who wants it closed can do so.)
//
// # Why it is as it is
//
// Markers. A hardware receiver that gets TCP segments out of order wants to place
// their data at once, and must find the start of an FPDU in the middle of the
// stream. A Marker at every 512th octet points back to it. The positions are
// fixed by counting octets from the start of Full Operation, not found by
// scanning for a pattern: data can never look like a Marker, and none can be
// missed. Software that reads an ordered stream needs none, so [Options] does not
// ask for them by default; but every sender must put them in when its peer asks,
// and this one does.
//
// 64768. ULPDU_Length could say 65535, but an FPDU should fit one IP datagram of
// at most 65535 octets, so that FPDUs and segments can stay aligned. Less the
// headers of IPv4 and TCP with all their options, less the worst of MPA's own
// overhead, rounded down to a multiple of 128, that is 64768. Normally the bound
// is lower: [MULPDU] is what fits the TCP segment of the moment. It can change
// while a connection lives, so senders ask before each ULPDU.
//
// The Responder waits for the first FPDU before it sends one. The Initiator needs
// time after the Reply to put its receiver into Full Operation; an FPDU right
// behind the Reply would meet one that still reads plain data. Where the server
// must speak first, RFC 6581 has the Initiator send an empty message, the RTR
// (ready to receive), to free it: the peer-to-peer model, asked for with
// [Options.RTR]. Until then [Conn.MaySend] is false, and a Responder whose very
// first FPDU was bad sends no Terminate either.
//
// There is no startup with two Initiators. The ends must agree on the very octet
// where the stream turns into FPDUs, and one order of events, first a Request,
// then a Reply, makes that plain. Request and Reply have different keys, so that
// two Initiators find each other out; two Responders wait for each other, which
// only a timeout ends: give [ReadRequest] a context that has one. It bounds the
// whole exchange, not one read, as a peer may send an octet now and then for ever.
//
// The CRC is there because TCP's checksum is weak, and data is placed straight
// into the memory of programs. It is on unless both ends give it up; see
// [Options.NoCRC]. Neither setting changes anything for the ULP.
//
// The RFC's IPsec section is the host's business: this package runs over whatever
// connection it is given.
//
// # Choices where the RFCs leave room
//
//   - Revision 1 and 2 are spoken, and a Request is answered in its own; 0 (of the
//     RDMA Consortium, with other DDP and RDMAP versions) and all others are refused.
//   - Octets that arrive together with a Request are an error: the Initiator has to
//     wait for the Reply.
//   - ULPDUs of 1 to 64768 octets can be sent, also above MULPDU; received ones may
//     have what 16 bits can say, unless [Deframer.Strict] is set.
//   - Every Marker is checked.
//
// See https://www.rfc-editor.org/rfc/rfc5044 and https://www.rfc-editor.org/rfc/rfc6581.
package mpa
