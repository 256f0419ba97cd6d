// Package ddp is Direct Data Placement, RFC 5041
// (https://www.rfc-editor.org/rfc/rfc5041): it carries messages as segments that
// say where in the receiver's memory they belong, so that a receiver can put each
// segment there at once, whatever came before it, and needs no buffers of its own
// in between.
//
// DDP sits between RDMAP (RFC 5040), which gives it messages and meaning, and a
// Lower Layer Protocol such as MPA over TCP (RFC 5044), which carries the
// segments. The package imports neither. It declares what it needs of them as
// [LLP] and [ULP].
//
// # Two buffer models
//
// A Tagged Buffer is memory that its owner has told a peer about: the peer puts
// the name of the buffer, an [STag], and an offset into it, the TO, into each
// segment. The receiving program takes no part in where the octets go and learns
// of nothing until it is told by other means. That is the model for bulk data
// whose place is known beforehand. It needs protection, since the peer chooses
// the address: a [Region] has a Protection Domain, perhaps one stream that it is
// bound to, rights, base and length, and all of them are checked for every
// segment.
//
// An Untagged Buffer is taken from a queue by the receiver: a segment has a queue
// number (QN), the number of the message in that queue (MSN) and the octet's
// offset in the message (MO). The sender does not know where the message goes,
// only that it must not be longer than the buffer that its turn brings. That is
// the model for requests and other messages that nobody asked for. It needs
// buffers at the right time: a [Source] supplies them, and a message without one
// is an error of the peer's.
//
// Both are needed: without untagged messages no peer could ever learn an STag,
// and without tagged ones all data would have to be copied from where the queue
// had it to where the program wants it.
//
// # Placement and delivery
//
// Placement puts a segment's payload into its buffer; delivery tells the layer
// above that a message is complete. They are apart because they have different
// needs. Octets can be placed in any order, and placing them as they come costs
// no memory and no waiting. What the program is told must be in the order that
// the peer sent, else it could act on a message before the data that the message
// is about has come. So [Receiver.Segment] places at once and keeps of an early
// segment only the header; a message is delivered when its last segment and
// everything sent before it have been placed, once, and in order.
//
// Over MPA segments come in order and the distinction costs nothing. An LLP that
// can hand up segments as they arrive, as SCTP does, says the order in which they
// were sent, from which the [Receiver] also sees what is missing. How far
// segments may run ahead is bounded by [ReceiverConfig].Window.
//
// That a message has been delivered to this end's program does not follow from
// the sender's completion, which only says that the LLP has taken charge of it
// (https://www.rfc-editor.org/rfc/rfc5041#section-5.4).
//
// # Sending
//
// [Outgoing] cuts a message into segments lazily, each at the MULPDU that the LLP
// has at that moment, without copying or allocating.
//
// # Revocation
//
// A program that wants to look at what a peer has written must first be sure that
// the peer cannot change it any more. [Region.Invalidate], and the other calls
// that take rights away, are such a barrier: when they return, no access is going
// on and none will start. The same holds for [Sink.Disarm]. Readers of a region
// take a read lock for the length of one copy; a region open to several streams
// has several such locks, so that their cores do not contend for one.
//
// # Advice from RFC 5042
//
// The package enforces what can be enforced here; some rules are the program's
// (https://www.rfc-editor.org/rfc/rfc5042#section-6):
//
//   - Bind a region to one stream, or give each stream its own domain, unless the
//     peers behind the streams trust each other.
//   - Take the rights away before checking what a peer has written.
//   - Open no memory for reading that holds old data of others; a region covers
//     exactly its slice, so a fresh slice, which Go has zeroed, is safe.
//   - Give no two untrusted peers the right to write to the same octets by
//     different STags.
//   - Leave Base at 0: an address would tell the peer about this process.
//
// DDP itself neither authenticates nor encrypts. Where the path is not trusted,
// IPsec below, or TLS below MPA, protects the headers too; TLS above would not.
//
// # Errors
//
// What a peer does wrong is a *protocol.Error whose code is the number of RFC 5041
// section 7.2 and whose Offender holds the header and length of the segment. DDP
// never ends a stream by itself: after an error the Receiver drops what comes,
// and the program may still send one message, RDMAP's Terminate, before it closes.
//
// # Choices where the RFC leaves one
//
//   - A segment that ends within its header is 1/0/00, with no header to report.
//   - In order, an MSN other than the next is 1/2/03, the next one without a buffer
//     1/2/02, a wrong MO 1/2/04, and what runs beyond the buffer 1/2/05.
//   - Out of order, an MSN outside the window is 1/2/03, an MO beyond the buffer's
//     end 1/2/04. An MSN or MO that is in range but not the one that was due shows
//     when all segments before it have come, with the same codes.
//   - A zero-length untagged message takes a buffer and an MSN like any other.
//   - A tagged access without the right is 1/1/00: DDP has no number for it.
//   - TO wrap is found before bounds, else bounds would hide it. The rule says that
//     the sum of TO and length must not wrap, so TO 2^64-1 is out of reach: see [Wraps].
//   - That RsvdULP is equal in all segments of a message is not checked; the last
//     segment's is reported. Nor is it checked that a tagged message has no gaps.
//   - A missing buffer is an error, not a reason to wait.
//   - A window has at most the rights that its region's SetAccess has named since.
package ddp
