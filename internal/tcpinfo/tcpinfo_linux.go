//go:build linux

package tcpinfo

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// CanSend is true where [Socket.Send] works.
const CanSend = true

// maxIovec is the kernel's UIO_MAXIOV: a system call with more pieces fails.
const maxIovec = 1024

// sender holds what one sendmsg needs. It lives with the socket because a
// message header or a list of pieces made for each call would be garbage for
// each call.
type sender struct {
	iov   []unix.Iovec
	msg   unix.Msghdr
	flags int
	wait  bool
	n     int
	err   error
	try   func(fd uintptr) bool
}

func (s *sender) init() { s.try = s.sendmsg }

// Send writes bufs with one system call, as far as the socket's buffer has
// room, and gives the count of octets taken. With wait false a full socket
// buffer gives 0 and no error; with wait true Send blocks until at least one
// octet is taken, up to the conn's write deadline. With end true, and if all of
// bufs was taken, the last octet ends a TCP segment (MSG_EOR): what is sent
// later starts a new one. Only the first 1024 non-empty bufs are looked at.
func (s *Socket) Send(bufs [][]byte, end, wait bool) (int, error) {
	s.iov = s.iov[:0]
	whole := true
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		if len(s.iov) == maxIovec {
			whole = false
			break
		}
		v := unix.Iovec{Base: &b[0]}
		v.SetLen(len(b))
		s.iov = append(s.iov, v)
	}
	if len(s.iov) == 0 {
		return 0, nil
	}
	s.flags = unix.MSG_NOSIGNAL
	if end && whole {
		s.flags |= unix.MSG_EOR
	}
	s.msg.Iov = &s.iov[0]
	s.msg.SetIovlen(len(s.iov))
	s.wait, s.n, s.err = wait, 0, nil
	err := s.rc.Write(s.try)
	s.msg.Iov = nil
	clear(s.iov) // the pieces are the caller's: do not keep them alive
	if err == nil {
		err = s.err
	}
	return s.n, err
}

func (s *sender) sendmsg(fd uintptr) bool {
	for {
		n, _, errno := unix.Syscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&s.msg)), uintptr(s.flags))
		switch errno {
		case 0:
			s.n = int(n)
			return true
		case unix.EINTR:
		case unix.EAGAIN:
			return !s.wait
		default:
			s.err = errno
			return true
		}
	}
}

type mssProbe struct {
	value int
	err   error
	ask   func(fd uintptr)
}

func (p *mssProbe) init() {
	p.ask = func(fd uintptr) {
		p.value, p.err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	}
}

// MSS gives the effective maximum segment size in octets of payload, TCP
// options already taken off. It changes while a connection lives: on loopback it
// doubles when traffic flows, elsewhere it follows the path's MTU.
func (s *Socket) MSS() (int, error) {
	if err := s.rc.Control(s.mss.ask); err != nil {
		return 0, err
	}
	return s.mss.value, s.mss.err
}

// Retransmits gives the count of TCP segments sent again since the connection
// was made.
func (s *Socket) Retransmits() (uint64, error) {
	var (
		info *unix.TCPInfo
		err  error
	)
	if cerr := s.rc.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); cerr != nil {
		return 0, cerr
	}
	if err != nil {
		return 0, err
	}
	return uint64(info.Total_retrans), nil
}
