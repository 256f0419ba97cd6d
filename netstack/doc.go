// Package netstack carries iWARP over a TCP/IP stack that lives in the process, the
// netstack of gVisor, and places RDMA payload of TCP segments that come out of order.
//
// A socket hands up the octets of a stream in order: behind a lost segment all waits
// in the kernel until it has been sent again. RFC 5044 lets a receiver do better. It asks its
// peer for Markers, which show where FPDUs begin wherever a segment does, so that it finds whole FPDUs
// behind the hole, checks their CRC and places their payload at once; messages are
// delivered when the hole is filled (https://www.rfc-editor.org/rfc/rfc5044#section-6, appendix A.3).
// This needs the segments, which no socket gives. Here they are seen on the link, below TCP.
//
// A [Host] is an IP host on a link: a TUN device ([OpenTUN]), or one end of a [Pipe]
// in memory. [Host.Dial] and [Host.Listen] return what [iwarp.Dial] and [iwarp.Listen]
// return, and all that works over a socket works over them. TCP itself is netstack's,
// with nothing of its state changed: a segment is used before its turn only when netstack
// has acknowledged it selectively (SACK), which means that it has passed all checks of
// TCP and is kept.
//
// What is certain, and why alignment of FPDUs with segments is not, is told in package
// [github.com/go-iwarp/iwarp/netstack/ooo]. Everything else waits for its turn. The counters are in DDP of
// [iwarp.Stats] (OutOfOrder, OctetsEarly, Ahead), and in [StatsOf].
//
// For speed use a socket: this stack is for links of one's own, for receivers that
// have to see segments, and to show on any machine what RFC 5044 is about.
package netstack
