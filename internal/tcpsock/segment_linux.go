package tcpsock

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// FourfoldSegments bounds the segments of a TCP socket that is about to connect to
// address, an IP address with a port, so that they hold a multiple of four octets in
// both directions where the MTU of the route is none: FPDUs can fill them then. It is
// for [net.Dialer.Control].
func FourfoldSegments(c syscall.RawConn, address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	mtu, headers, err := routeMTU(to)
	// Rule: MPA-5.1-03
	size := (mtu - headers) &^ 3
	if err != nil || mtu%4 == 0 || size > maxSegment {
		return err
	}
	if cerr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, size)
	}); cerr != nil {
		return cerr
	}
	return err
}

// maxSegment is the largest bound that Linux takes. Loopback's segments are above it.
const maxSegment = 32767

// routeMTU is the MTU of the route to an address, and what the headers of IP and TCP
// without options take of it. It asks a datagram socket, and sends nothing.
func routeMTU(to netip.AddrPort) (mtu, headers int, err error) {
	var (
		domain, level, option = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_MTU
		sa                    unix.Sockaddr
	)
	headers = 60
	ip := to.Addr().Unmap()
	if ip.Is4() {
		domain, level, option, headers = unix.AF_INET, unix.IPPROTO_IP, unix.IP_MTU, 40
		sa = &unix.SockaddrInet4{Port: int(to.Port()), Addr: ip.As4()}
	} else {
		sa = &unix.SockaddrInet6{Port: int(to.Port()), Addr: ip.As16()} // a zone makes it fail, which does no harm
	}
	fd, err := unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Connect(fd, sa); err != nil {
		return 0, 0, err
	}
	mtu, err = unix.GetsockoptInt(fd, level, option)
	return mtu, headers, err
}
