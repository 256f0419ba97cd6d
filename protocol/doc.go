// Package protocol holds what all iWARP layers share and none of them owns:
// the error numbers of the Terminate message, the error type that carries
// them, and the connection parameters of RFC 6581.
//
// # Errors
//
// RDMAP, DDP and MPA report an error to the peer as a triple of layer, error
// type and error code (RFC 5040 section 4.8; the registries are in RFC 6580
// section 3). [Code] is that triple, packed as it stands on the wire, and
// [Error] is a Go error that carries one. An Error that this end detected has
// Remote false; one that the peer reported in a Terminate has Remote true.
//
//	var perr *protocol.Error
//	if errors.As(err, &perr) && perr.Code == protocol.DDPTaggedBounds {
//		...
//	}
//
// # Connection parameters
//
// [Enhanced] is the 32-bit block of RFC 6581 section 9 in which two ends agree
// on the RTR indication and on the depth of RDMA Read queues. MPA carries it in
// its startup frames and SCTP in its session control chunks, so it stands here.
package protocol
