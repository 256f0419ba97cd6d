// Package iwarp is a software RNIC: RDMA over TCP (iWARP) in user space, with no
// cgo, kernel module or privilege, over every address that TCP can reach.
//
// # What it is
//
// With iWARP a program gives its peer the right to write into, or read from, a
// piece of its memory. The peer's RDMA Writes and Reads then move data to and
// from that memory with no receive call on this side. Beside them there are
// Sends, messages that land in the receive buffers of the peer in order. Three
// protocols make this up: RDMAP (RFC 5040) has the operations, DDP (RFC 5041)
// puts data into the right place, and MPA (RFC 5044) keeps message boundaries on
// a TCP connection. They are the packages rdmap, ddp and mpa; this one puts them
// together. The peer may be another program with this package, the Linux
// kernel's siw, or a NIC.
//
// # Connections
//
// [Dial] and [Listen] work as in package net; [Client] and [Server] put iWARP on a
// connection that the program has already (TLS, a unix socket). The simple calls
// of a [Conn] are [Conn.Send], [Conn.Recv], [Conn.RDMAWrite] and [Conn.RDMARead]:
//
//	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", nil)
//	...
//	c, err := iwarp.Dial(ctx, "tcp", ln.Addr().String(), nil)
//	...
//	err = c.Send(ctx, []byte("hello"))
//
// To let the peer reach memory, register it and tell the peer its STag, Tagged Offset
// and length, in a Send for example:
//
//	mr, err := c.NewMR(buf, iwarp.RemoteWrite)
//	...
//	ad, err := mr.Remote().MarshalBinary()
//	...
//	err = c.Send(ctx, ad)
//
// The peer makes a [RemoteBuffer] of the message with UnmarshalBinary, and passes it,
// or a Slice of it, to its RDMAWrite and RDMARead.
//
// # Verbs
//
// For full control there are the verbs, in shapes near those of libibverbs:
// [Device], [PD], [MR], [QP], [CQ], [SendWR], [RecvWR] and [Completion]. Make a QP, post
// receives, and give it to [Dial] or [ConnRequest.Accept] in its [Config].
//
// # Memory
//
// Memory in a work request belongs to the QP until its completion; memory in a
// region may be read and written for the peer until [MR.Invalidate] or [MR.Close]
// returns. A peer's Write is complete when a later message of the same connection
// has been received: Go's memory model is respected there. Looking into the
// memory earlier is a data race, other than by [MR.Load], [MR.CompareAndSwap] and
// [MR.Update] (see also MROptions.Concurrent), and so is what a peer does that writes octets
// while they are being read for it (RFC 5040 section 5.5 leaves the outcome open).
//
// # Errors
//
// An error that the RFCs number is a *[ProtocolError]: it names the layer, the type and
// the code, says whether this end or the peer found it, and, when the peer did,
// which of our headers it objected to. Protocol errors end the connection, as
// the RFCs want; errors of a work request's fields do not.
//
// A nil pointer, or the zero value of a type that a function of this package makes, has
// methods as in package os: those that return an error return one that wraps
// [os.ErrInvalid]. [Conn.Abort], [Conn.CloseWrite], [Conn.CloseWithError] and
// [MR.Invalidate] do nothing then, so that a program may defer them. What only tells
// something panics, as it does in the standard library. In configurations and work requests
// zero values have the meaning that is documented.
package iwarp
