package mpa

import (
	"io"
	"net"
	"sync/atomic"
)

// BelowTLS wraps a conn that TLS is going to run on, so that a [Conn] above TLS can
// tell how the stream has ended:
//
//	tls.Client(mpa.BelowTLS(nc), config)
//
// A TLS stream ends with an alert, close_notify. A FIN without it can have been
// forged by anybody on the network and cuts the stream where he likes
// (https://www.rfc-editor.org/rfc/rfc8446#section-6.1). Between two TLS records
// crypto/tls reports both as [io.EOF], which would look like a graceful end. Above a
// conn of BelowTLS a [Conn] reports the FIN alone as MPAConnectionLost with
// [io.ErrUnexpectedEOF] inside.
//
// The conn that BelowTLS returns has a NetConn method that returns nc. It does not
// change what is read or written.
func BelowTLS(nc net.Conn) net.Conn { return &belowTLS{Conn: nc} }

type belowTLS struct {
	net.Conn
	fin atomic.Bool // a Read has reported the end
}

// Read notes the end, which TLS asks for only if it has not had close_notify: behind
// that it reads no more.
func (b *belowTLS) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if err == io.EOF { //nolint:errorlint // what TLS compares with
		if n > 0 {
			return n, nil // the end comes again with the next read
		}
		// Rule: MPA-8-01, DDP-8.4-01, SEC-5.4.2-01
		b.fin.Store(true)
	}
	return n, err
}

// NetConn returns the conn that was wrapped.
func (b *belowTLS) NetConn() net.Conn { return b.Conn }

// findBelowTLS finds the conn of BelowTLS below nc; nil if there is none.
func findBelowTLS(nc net.Conn) *belowTLS {
	for {
		above, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		if _, ok := nc.(*belowTLS); ok {
			return nil // there is no TLS above
		}
		nc = above.NetConn()
		if b, ok := nc.(*belowTLS); ok {
			return b
		}
	}
}

// cut reports whether the end of the stream, which a read has just met, is a FIN
// that TLS has not announced.
func (b *belowTLS) cut() bool { return b != nil && b.fin.Load() }
