// Package sctp runs iWARP over SCTP in place of TCP: the DDP adaptation of
// https://www.rfc-editor.org/rfc/rfc5043, on a user-space SCTP over UDP
// (https://www.rfc-editor.org/rfc/rfc6951). [Dial] and [Listen] return what those of package
// iwarp return, and everything that works over TCP works here.
//
// What SCTP brings is messages where TCP has octets, and no order among them. Each DDP segment is
// one message, and says itself where its octets belong: so the receiver places a segment when it
// comes, while an earlier one that was lost is still to come again. Messages of the program are
// delivered in order all the same; [iwarp.Stats] tells how many octets were there early.
//
// An association (what a TCP connection is to TCP) carries many DDP streams, each of them an
// [iwarp.Conn] with its own peers, regions and order: see [Associate]. A loss on one stream does not
// hold up another. [Dial] makes an association for one connection.
//
// A session on a stream is opened by Initiate, which Accept or Reject answers, and closed by
// Terminate; these carry the Private Data, and the depths and RTR kinds of
// https://www.rfc-editor.org/rfc/rfc6581#section-7, as MPA's startup frames do on TCP. Every chunk
// has a sequence number of its own (DDP-SSN), by which the receiver knows the order of sending.
//
// Both ends say in SCTP's handshake that they speak DDP (the Adaptation Layer Indication); a peer
// that does not is refused. Ports of SCTP in user space are 5000 on both ends; UDP's are the program's.
//
// On Linux the SCTP of the kernel does it too, without UDP: with network "sctp" in place of "udp".
//
// An association uses one address of each end. RFC 5043 section 7.2 advises against more where that
// spreads one stream over several devices, and against choosing source addresses to balance a load.
package sctp
