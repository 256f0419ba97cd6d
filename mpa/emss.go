package mpa

import (
	"context"
	"net"
)

// What a TCP segment on Ethernet carries besides MPA's octets: see [likelyEMSS].
const (
	ethernetMTU   = 1500
	ipv4Header    = 20
	ipv6Header    = 40
	tcpHeader     = 20
	tcpTimestamps = 12 // the one option that is usual in every segment
	// header, content type and tag of a TLS record, rounded up to a multiple of 4: 22 for 1.3, 29 for 1.2
	tlsRecord = 32
)

// likelyEMSS guesses the EMSS of a conn that cannot tell it, in octets: that of TCP on
// Ethernet, by the version of IP and whether TLS is above TCP
// (https://www.rfc-editor.org/rfc/rfc5044#section-5.1). Without IP addresses it is
// [DefaultEMSS].
func likelyEMSS(nc net.Conn) int {
	// Rule: MPA-5.1-02
	a, ok := nc.LocalAddr().(*net.TCPAddr)
	if !ok || len(a.IP) == 0 {
		return DefaultEMSS
	}
	emss := ethernetMTU - ipv6Header - tcpHeader - tcpTimestamps
	if a.IP.To4() != nil {
		emss += ipv6Header - ipv4Header
	}
	if isTLS(nc) {
		emss -= tlsRecord
	}
	return emss
}

// isTLS reports whether nc, or a conn that it wraps, is one of crypto/tls or has its
// methods.
func isTLS(nc net.Conn) bool {
	for nc != nil {
		if _, ok := nc.(interface {
			HandshakeContext(ctx context.Context) error
		}); ok {
			return true
		}
		above, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return false
		}
		nc = above.NetConn()
	}
	return false
}
