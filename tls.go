package iwarp

import (
	"net"

	"github.com/go-iwarp/iwarp/mpa"
)

// BelowTLS wraps a conn that TLS is going to run on, so that the connection above TLS
// can tell a stream that its peer has ended from one that somebody on the network has
// cut:
//
//	iwarp.Client(ctx, tls.Client(iwarp.BelowTLS(nc), tlsConfig), nil)
//
// A TLS stream ends with an alert, close_notify. crypto/tls reports a FIN without it
// as [io.EOF] too, if it comes between two records, and a FIN can be forged. Above a
// conn of BelowTLS it ends the connection with a *[ProtocolError] that has
// [io.ErrUnexpectedEOF] inside; without BelowTLS it looks like a graceful end
// (https://www.rfc-editor.org/rfc/rfc8446#section-6.1).
//
// With [Config.Wrap] it reaches the connections of a [Listener] and of [Dial]. The
// conn that it returns has a NetConn method that returns nc, and reads and writes
// what nc does.
func BelowTLS(nc net.Conn) net.Conn { return mpa.BelowTLS(nc) }
