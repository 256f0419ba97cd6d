package sctp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file is SCTP of the kernel: its sockets of the one-to-one kind, their options, and what a
// message carries beside its octets (https://www.rfc-editor.org/rfc/rfc6458). x/sys has none of it.
const (
	optInitMsg    = 2
	optNoDelay    = 3
	optAdaptation = 7
	optNoFragment = 8
	optPeerAddr   = 9
	optEvents     = 11
	optMaxSegment = 13
	optRecvInfo   = 32
	cmsgSendInfo  = 2
	cmsgRecvInfo  = 3
	flagUnordered = 1
	flagNotice    = 0x8000 // MSG_NOTIFICATION

	noticeAssociation = 0x8001
	noticeAdaptation  = 0x8007
	associationUp     = 0
	associationAnew   = 2
	associationDone   = 3
	pathMTUFixed      = 1 << 4 // SPP_PMTUD_DISABLE

	sendInfoLen = 16
	// sendBuffer bounds what lies in the kernel's send queue. Each message counts with what the
	// kernel needs to keep it, hundreds of octets, so that there are few thousand of them.
	sendBuffer = 256 << 10
)

// socket is a socket of the kernel.
type socket struct {
	f   *os.File
	raw syscall.RawConn
}

// newSocket makes a socket with what both sides of an association want.
//
// Rule: SCTP-5.1-01, SCTP-8-01
func newSocket(v6 bool, c *Config) (*socket, error) {
	family := unix.AF_INET
	if v6 {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_SCTP)
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.ESOCKTNOSUPPORT) {
		return nil, fmt.Errorf(
			`iwarp: sctp: this host's kernel has no SCTP: load its module sctp, or use "udp" (%w): %w`,
			err, errors.ErrUnsupported)
	}
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s, err := wrap(fd)
	if err != nil {
		return nil, err
	}
	if err := s.configure(v6, c); err != nil {
		_ = s.f.Close()
		return nil, err
	}
	return s, nil
}

func wrap(fd int) (*socket, error) {
	f := os.NewFile(uintptr(fd), "sctp")
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &socket{f, raw}, nil
}

// configure sets the options that an accepted socket inherits.
func (s *socket) configure(v6 bool, c *Config) error {
	one := word(1)
	streams := binary.NativeEndian.AppendUint16(nil, uint16(c.Streams))
	initMsg := append(append(streams, streams...), 0, 0, 0, 0)
	events := make([]byte, 8) // a flag for each kind: of associations, and of adaptation
	events[1], events[7] = 1, 1
	opts := []struct {
		name  string
		opt   int
		value []byte
	}{
		{"SCTP_INITMSG", optInitMsg, initMsg},
		{"SCTP_ADAPTATION_LAYER", optAdaptation, word(c.Indication)},
		{"SCTP_EVENTS", optEvents, events},
		{"SCTP_RECVRCVINFO", optRecvInfo, one},
		{"SCTP_NODELAY", optNoDelay, one},
		{"SCTP_DISABLE_FRAGMENTS", optNoFragment, one},
	}
	if c.MTU != 0 {
		opts = append(opts, struct {
			name  string
			opt   int
			value []byte
		}{"SCTP_PEER_ADDR_PARAMS", optPeerAddr, fixedMTU(c.MTU, v6)})
	}
	return s.control(func(fd int) error {
		for _, o := range opts {
			if err := unix.SetsockoptString(fd, unix.IPPROTO_SCTP, o.opt, string(o.value)); err != nil {
				return os.NewSyscallError("setsockopt "+o.name, err)
			}
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer); err != nil {
			return os.NewSyscallError("setsockopt SO_SNDBUF", err)
		}
		return os.NewSyscallError("setsockopt SO_RCVBUF",
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, c.ReceiveBuffer))
	})
}

func word(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// fixedMTU is a struct sctp_paddrparams, packed: association, address, interval, retransmissions, MTU,
// SACK delay, flags; and what newer kernels have, which may be missing.
func fixedMTU(mtu int, v6 bool) []byte {
	const ipv4, ipv6 = 20, 40
	mtu += ipv4
	if v6 {
		mtu += ipv6 - ipv4
	}
	b := make([]byte, 4+128, 4+128+20)
	b = append(b, 0, 0, 0, 0, 0, 0)
	b = append(b, word(uint32(mtu))...)
	b = append(b, 0, 0, 0, 0)
	b = append(b, word(pathMTUFixed)...)
	return append(b, 0, 0) // to a multiple of 4
}

func (s *socket) control(fn func(fd int) error) error {
	var err error
	if cerr := s.raw.Control(func(fd uintptr) { err = fn(int(fd)) }); cerr != nil {
		return cerr
	}
	return err
}

// wait calls fn whenever the socket may be readable (or writable), until it has another error than EAGAIN.
func wait(on func(func(fd uintptr) bool) error, fn func(fd int) error) error {
	var err error
	werr := on(func(fd uintptr) bool {
		for {
			if err = fn(int(fd)); !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	if werr != nil {
		return werr
	}
	return err
}

// connect makes the association, as long as ctx lives.
func (s *socket) connect(ctx context.Context, to unix.Sockaddr) error {
	stop := context.AfterFunc(ctx, func() { _ = s.f.SetDeadline(longAgo) })
	begun := false
	err := wait(s.raw.Write, func(fd int) error {
		if !begun {
			begun = true
			if err := unix.Connect(fd, to); !errors.Is(err, unix.EINPROGRESS) {
				return os.NewSyscallError("connect", err)
			}
			return unix.EAGAIN
		}
		code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil || code != 0 {
			return os.NewSyscallError("connect", errors.Join(err, errnoOf(code)))
		}
		if _, err := unix.Getpeername(fd); err != nil {
			return unix.EAGAIN // too early
		}
		return nil
	})
	if !stop() {
		return context.Cause(ctx)
	}
	return err
}

func errnoOf(code int) error {
	if code == 0 {
		return nil
	}
	return syscall.Errno(code)
}

// recv receives one message or a part of it, or a notice.
func (s *socket) recv(b []byte) (n int, info recvInfo, err error) {
	err = wait(s.raw.Read, func(fd int) error { n, info, err = recvmsg(fd, b); return err })
	return n, info, err
}

// recvInfo is what a message has beside its octets.
type recvInfo struct {
	stream uint16
	ppid   uint32
	notice bool
	whole  bool // nothing of the message is to come
}

// recvmsg makes no address, and allocates nothing.
func recvmsg(fd int, b []byte) (int, recvInfo, error) {
	var oob [128]byte
	iov := unix.Iovec{Base: &b[0]}
	iov.SetLen(len(b))
	h := unix.Msghdr{Iov: &iov, Control: &oob[0]}
	h.SetIovlen(1)
	h.SetControllen(len(oob))
	n, _, errno := unix.Syscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&h)), 0)
	if errno != 0 {
		if errno == unix.EAGAIN || errno == unix.EINTR {
			return 0, recvInfo{}, errno
		}
		return 0, recvInfo{}, os.NewSyscallError("recvmsg", errno)
	}
	info := recvInfo{notice: h.Flags&flagNotice != 0, whole: h.Flags&unix.MSG_EOR != 0}
	for c := oob[:h.Controllen]; len(c) >= unix.CmsgLen(0); {
		m, data, rest, err := unix.ParseOneSocketControlMessage(c)
		if err != nil {
			break
		}
		if m.Level == unix.IPPROTO_SCTP && m.Type == cmsgRecvInfo && len(data) >= 12 {
			info.stream = binary.NativeEndian.Uint16(data)
			info.ppid = binary.BigEndian.Uint32(data[8:])
		}
		c = rest
	}
	return int(n), info, nil
}

// sendInfo is the control message of all messages of one kind on one stream.
//
// Rule: SCTP-10-01
func sendInfo(stream uint16, ppid uint32) []byte {
	b := make([]byte, unix.CmsgSpace(sendInfoLen))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = unix.IPPROTO_SCTP, cmsgSendInfo
	h.SetLen(unix.CmsgLen(sendInfoLen))
	d := b[unix.CmsgLen(0):]
	binary.NativeEndian.PutUint16(d, stream)
	binary.NativeEndian.PutUint16(d[2:], flagUnordered)
	binary.BigEndian.PutUint32(d[4:], ppid)
	return b
}

// sendmsg sends one message whole, or not at all. One that was cut before the path's MTU fell is
// fragmented, by SCTP in place of IP; small is then how long a message may be that is not.
//
// Rule: SCTP-9-02
func sendmsg(fd int, b, info []byte) (small int, err error) {
	_, err = unix.SendmsgN(fd, b, info, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
	if !errors.Is(err, unix.EMSGSIZE) {
		return 0, err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_SCTP, optNoFragment, 0); err != nil {
		return 0, err
	}
	_, err = unix.SendmsgN(fd, b, info, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
	if e := unix.SetsockoptInt(fd, unix.IPPROTO_SCTP, optNoFragment, 1); err == nil {
		err = e
	}
	if err == nil {
		small, err = unix.GetsockoptInt(fd, unix.IPPROTO_SCTP, optMaxSegment)
	}
	return small, err
}

// unacknowledged is an upper bound of the octets that the kernel keeps until they are acknowledged; and 0
// when it keeps none.
func unacknowledged(fd int) (uint32, error) {
	const queued = 5 // SK_MEMINFO_WMEM_QUEUED
	var v [16]uint32
	n := uint32(unsafe.Sizeof(v))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&v)), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return 0, os.NewSyscallError("getsockopt SO_MEMINFO", errno)
	}
	return v[queued], nil
}

// resolve returns the addresses that address has in network.
func resolve(ctx context.Context, network, address string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = map[string]string{"sctp": "0.0.0.0", "sctp4": "0.0.0.0", "sctp6": "::"}[network]
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip"+network[len("sctp"):], host)
	if err != nil {
		return nil, err
	}
	all := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		all[i] = netip.AddrPortFrom(ip.Unmap(), uint16(port))
	}
	return all, nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	sa := &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if i, err := net.InterfaceByName(a.Addr().Zone()); err == nil {
		sa.ZoneId = uint32(i.Index)
	}
	return sa
}

func addrOf(sa unix.Sockaddr, err error) net.Addr {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return &Addr{net.IPAddr{IP: a.Addr[:]}, a.Port}
	case *unix.SockaddrInet6:
		n := &Addr{net.IPAddr{IP: a.Addr[:]}, a.Port}
		if i, err := net.InterfaceByIndex(int(a.ZoneId)); err == nil {
			n.Zone = i.Name
		}
		return n
	}
	return &Addr{}
}

// abortive lets Close end the association at once.
func (s *socket) abortive() {
	_ = s.control(func(fd int) error {
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	})
}

// kernelPatience is how long a new association may keep back what it is.
const kernelPatience = 10 * time.Second

func half(b []byte) uint16 { return binary.NativeEndian.Uint16(b) }
func full(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
