// Package kit is a conformance and hostile-peer kit for iWARP endpoints: what
// h2spec is for HTTP/2. It plays one end of connections to an endpoint under
// test, one case at a time or many, and judges what the endpoint does.
//
// Each [Case] names the requirements (docs/requirements.tsv of this module) or
// public reports that it is about, says what it sends, and lists what a
// conforming endpoint may do, with the sections of the RFCs. Its [Result] is a
// pass, a failure, not applicable (the endpoint has refused an option, or has
// nothing that the case needs), or inconclusive.
//
// The frames are those of package iwarptest, which is written against the RFCs
// alone: nothing of this module's own stack takes part in a judgement.
//
// # Who connects
//
// The kit takes connections from a [Connector]. As [Initiator] that is a dial
// function, and the endpoint under test is a responder. As [Responder] it gives
// connections that the endpoint makes, again and again: [Accept] makes one of a
// net.Listener.
//
// # What is above the endpoint
//
// How much a case can see depends on the program that uses the endpoint: see
// [ULP]. Any will do for startup, framing and headers. The most is seen of one
// that speaks the small protocol of docs/conform.md, which package
// conform/target implements on this module's stack: it advertises regions,
// echoes, and makes Reads and Writes on demand.
package kit
