package mpa

import (
	"crypto/tls"
	"net"
	"testing"
)

// addrConn is a conn of which only the address is known.
type addrConn struct {
	net.Conn
	addr net.Addr
}

func (c addrConn) LocalAddr() net.Addr { return c.addr }

// wrapped is a conn around another.
type wrapped struct{ net.Conn }

func (w wrapped) NetConn() net.Conn { return w.Conn }

// Where TCP does not tell the EMSS, it follows from Ethernet's MTU and the headers
// that are usual: of which IP, TCP with timestamps, and TLS.
//
// Shows: MPA-5.1-02
func TestLikelyEMSS(t *testing.T) {
	ip := func(s string) net.Conn { return addrConn{addr: &net.TCPAddr{IP: net.ParseIP(s)}} }
	pipe, _ := net.Pipe()
	for _, c := range []struct {
		name string
		nc   net.Conn
		want int
	}{
		{name: "IPv4", nc: ip("192.0.2.1"), want: 1500 - 20 - 20 - 12},
		{name: "IPv4 in IPv6", nc: ip("::ffff:192.0.2.1"), want: 1500 - 20 - 20 - 12},
		{name: "IPv6", nc: ip("2001:db8::1"), want: 1500 - 40 - 20 - 12},
		{name: "TLS on IPv4", nc: tls.Client(ip("192.0.2.1"), nil), want: 1500 - 20 - 20 - 12 - 32},
		{name: "TLS on IPv6", nc: tls.Server(ip("2001:db8::1"), nil), want: 1500 - 40 - 20 - 12 - 32},
		{
			name: "recorded TLS on IPv4", nc: wrapped{tls.Client(BelowTLS(ip("192.0.2.1")), nil)},
			want: 1500 - 20 - 20 - 12 - 32,
		},
		{name: "recorded IPv4", nc: wrapped{ip("192.0.2.1")}, want: 1500 - 20 - 20 - 12},
		{name: "no addresses", nc: pipe, want: DefaultEMSS},
	} {
		if got := likelyEMSS(c.nc); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
		x := NewConn(c.nc, Params{Initiator: true}, nil)
		if got, want := x.MULPDU(), MULPDU(c.want, false); got != want {
			t.Errorf("%s: MULPDU %d, want %d", c.name, got, want)
		}
	}
}
