// Package rdmap is the Remote Direct Memory Access Protocol of RFC 5040 with the
// extensions of RFC 7306 (atomics, Immediate Data): the operations that a program
// asks for, as DDP messages, and their order.
//
// # What RDMAP adds to DDP
//
// DDP moves octets into memory that a header names. RDMAP says what a message
// means: a Send is delivered to the peer's program; a Write is not, it only
// changes memory; a Read is two messages, a Request that the peer's RDMAP
// answers by itself and a Response that is placed here. It limits how many Reads
// are under way (ORD here, IRD there), keeps the order that programs rely on,
// and ends a stream with a Terminate message that says what was wrong.
//
// # The rooms
//
// The codec: [Opcode] (opcode.go) has the one table of what the RFCs fix about
// each message; header.go, atomic.go and terminate.go have the headers. It keeps
// no state.
//
// The engine: [Stream] is one end. request.go is the send queue, send.go cuts what
// is due into segments (the send owner's side), recv.go acts on what arrives (the
// receive owner's side), and read.go has the two queues in which they meet:
// Requests of the peer that wait for an answer, and Reads and atomics of this end
// that wait for their Response. It has no socket, goroutine or clock; the package
// at the root of this module supplies those.
//
// The two sides never wait for each other. A receive path that waited for the
// send path would hang as soon as both ends did so: each would stop reading
// because its own output is stuck behind the other's.
package rdmap
