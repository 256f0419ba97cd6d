// Package stream is a [net.Conn] over iWARP: a program gains RDMA by changing its dialer and its listener.
//
//	ln, err := stream.Listen("tcp", "127.0.0.1:0", nil)
//	...
//	c, err := stream.Dial(ctx, "tcp", ln.Addr().String(), nil)
//
// The octets of a stream go by RDMA Write into a ring in the receiver's memory, and the receiver grants room as its
// program reads. So a sender that is faster than its receiver waits, as with TCP, where a Send without a receive
// buffer would end the iWARP connection (https://www.rfc-editor.org/rfc/rfc5041#section-7.1).
//
// The protocol is that of rsockets, the sockets of Linux's librdmacm, as they run on iWARP: either end may be such a
// program. docs/stream.md describes it octet by octet.
//
// [Messages] carries whole messages on a stream, for programs that want to send and receive those.
package stream
