// Package capture records the traffic of a program's own connections, and writes
// and reads captures: files of packets, pcap or pcapng. What is in the packets, and
// who broke which rule, the command `iwarp inspect` tells.
//
// # Recording
//
// A [Recorder] sits on the connections of the program itself and notes what they
// write and read. It needs no privilege, and Wireshark and every other reader of
// pcapng can open the file.
//
//	f, err := os.Create("iwarp.pcapng")
//	...
//	rec, err := capture.NewRecorder(f, nil)
//	...
//	c, err := iwarp.Dial(ctx, "tcp", address, &iwarp.Config{Wrap: rec.Conn})
//	...
//	err = rec.Close() // then close f
//
// # What is real and what is not
//
// The octets of each direction are real, in their order, and so is the order of
// the directions as this end saw it: what was written before something else was
// read stands before it. The times are those at which octets were handed to the
// connection, or taken from it. The addresses and ports are the connection's, if
// it is over IP.
//
// All else is made up: the IP and TCP headers, the handshake, the sequence
// numbers, and the cut into segments, one Write after the other in pieces of
// [Options].MSS and Reads as they came, up to 65495 octets. So a recording says
// nothing about loss, retransmission, or the alignment of FPDUs with the segments
// of the real TCP.
//
// # What it costs
//
// The traffic never waits for the file (unless [Options].Lossless says so) and no
// error of the file reaches it. When the file is too slow, packets are left out,
// counted, and seen in the recording as a hole in the sequence numbers.
//
// A recorded connection is not a *net.TCPConn any more. The library then does not
// do for it what it does on a TCP socket of Linux: FPDUs are cut for an EMSS of
// 1460 octets (or iwarp.Config.MPA.FPDUMax), a batch is written in several blocking
// writes, no FPDU is aligned with a TCP segment, and an idle connection keeps a
// small buffer. Expect less throughput, and do not measure with a recorder.
//
// # Packets
//
// [Writer] writes packets as pcapng, and [Reader] reads those of a pcapng or pcap
// file. Neither looks at what is in them.
package capture
