// Package iwarptest helps to test iWARP code, one's own or this module's: an
// in-memory connection that behaves like TCP, connections that go wrong on
// order, frames made by hand, and a scripted peer.
//
// # Connections
//
// [Pipe] makes two connected ends with a window, half close and reset, which also
// work inside a testing/synctest bubble, where every timeout is exact and costs
// nothing. [Inject] wraps any net.Conn and flips a bit, cuts, resets or stalls
// the stream at a given octet. [Split] makes a connection hand out its octets in
// pieces of given sizes, and [EverySplit], [EverySize] and [Prefixes] walk
// through the ways to cut a byte string.
//
// [Relay] stands between two ends, in memory or on a network. It delays what they
// send, limits the rate, and corrupts, drops, reorders, splits or holds octets,
// writes or FPDUs:
//
//	r, err := iwarptest.NewRelay(&iwarptest.RelayConfig{
//		Forward: iwarptest.RelayPath{Delay: 25 * time.Millisecond, Rate: 125e6},
//		Back:    iwarptest.RelayPath{Delay: 25 * time.Millisecond, Rate: 125e6},
//		Faults:  []iwarptest.RelayFault{{Kind: iwarptest.RelayCorrupt, Unit: iwarptest.UnitFPDU, At: 3, Octet: 20}},
//	})
//	err = r.Serve(ctx, ln, dial)
//
// # Frames
//
// The builders ([Send], [Write], [ReadRequest], [Terminate], ...) give DDP
// segments, [Framer] and [FPDU] put them into FPDUs with Markers and CRC, and
// [Request] and [Reply] give startup frames. They are written against the RFCs
// and use none of this module's codecs, so that a test has a second opinion.
// They build what they are told: to make a wrong frame, change an octet of a
// right one, and use [FixCRC] if the CRC should not give it away.
//
// # The scripted peer
//
// [Peer] is the other end of a connection under test, played by the test itself:
//
//	p := iwarptest.NewPeer(t, conn)
//	p.Respond("the initiator starts", iwarptest.Reply(iwarptest.FlagC, 1, nil))
//	p.WantFrame("the first Send", iwarptest.Send(1, []byte("hello")))
//	p.Send(iwarptest.Send(7, nil)) // MSN 1 is due
//	p.WantTerminate("MSN out of range", 0x1203)
//	p.WantEOF("the connection ends after a Terminate")
//
// Each Want says why before what, and the reason leads the message when the test
// fails. Where several answers are legal, [Peer.Await] and [Peer.AwaitStartup] tell
// what came and judge nothing. The cases of iwarp conform are made of these.
//
// The package does not import package testing: [TB] is the part of testing.TB
// that it needs, so a program can use it without linking test flags.
package iwarptest

// TB is the part of testing.TB that this package uses. Fatalf must not return;
// like testing.T's, it must be called on the test's own goroutine, and so must
// every method of [Peer].
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(f func())
}
