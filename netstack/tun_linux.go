package netstack

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/link/tun"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// OpenTUN opens the TUN device of that name, and makes it if there is none, which needs
// CAP_NET_ADMIN. mtu is that of the device in octets. The kernel is at the other end of the link:
// give it an address on the device, and set the device up, as by "ip addr add" and "ip
// link set". The link closes the device when its [Host] is closed.
func OpenTUN(name string, mtu int) (Link, error) {
	fd, err := tun.Open(name)
	if err != nil {
		return nil, fmt.Errorf("iwarp/netstack: TUN device %q: %w", name, err)
	}
	l, err := fdbased.New(&fdbased.Options{
		FDs: []int{fd}, MTU: uint32(mtu),
	})
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("iwarp/netstack: TUN device %q: %w", name, err)
	}
	return &tunLink{LinkEndpoint: l, fd: fd}, nil
}

// tunLink closes its file, which gVisor leaves open.
type tunLink struct {
	stack.LinkEndpoint
	fd   int
	once sync.Once
}

// Close implements stack.LinkEndpoint. Nothing reads from the device any more: the Host has
// detached the link.
func (l *tunLink) Close() {
	l.LinkEndpoint.Close()
	l.once.Do(func() { _ = unix.Close(l.fd) })
}
