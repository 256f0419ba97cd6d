// Package analysis finds the iWARP connections in a capture, on any port, and tells
// what happened on them: [Open]. It follows TCP itself, runs the library's own
// receive engines over each direction, and judges every sender as a strict receiver
// would: see [Verdict]. IP fragments are reported and not put together.
package analysis
