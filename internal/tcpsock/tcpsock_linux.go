//go:build linux

package tcpsock

import (
	"sync"
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
	few   [4]unix.Iovec
	msg   unix.Msghdr
	flags int
	wait  bool
	n     int
	calls uint64
	err   error
	try   func(fd uintptr) bool
}

// SendCalls is the number of system calls that Send has made, those that took
// nothing included. It belongs to the goroutine that calls Send.
func (s *sender) SendCalls() uint64 { return s.calls }

// iovPool lends long lists of pieces: 16 KiB are too much for a conn to keep.
var iovPool = sync.Pool{New: func() any { return new([maxIovec]unix.Iovec) }}

func (s *sender) init() { s.try = s.sendmsg }

// Send writes bufs with one system call, as far as the socket's buffer has
// room, and gives the count of octets taken. With wait false a full socket
// buffer gives 0 and no error; with wait true Send blocks until at least one
// octet is taken, up to the conn's write deadline. With end true, and if all of
// bufs was taken, the last octet ends a TCP segment (MSG_EOR): what is sent
// later starts a new one. Only the first 1024 non-empty bufs are looked at.
func (s *Socket) Send(bufs [][]byte, end, wait bool) (int, error) {
	if len(bufs) <= len(s.few) {
		return s.send(s.few[:], bufs, end, wait)
	}
	list := iovPool.Get().(*[maxIovec]unix.Iovec)
	n, err := s.send(list[:], bufs, end, wait)
	iovPool.Put(list)
	return n, err
}

// send is Send with a list to use for the pieces.
func (s *Socket) send(list []unix.Iovec, bufs [][]byte, end, wait bool) (int, error) {
	count, whole := fill(list, bufs)
	if count == 0 {
		return 0, nil
	}
	s.flags = unix.MSG_NOSIGNAL
	if end && whole {
		s.flags |= unix.MSG_EOR
	}
	s.msg.Iov = &list[0]
	s.msg.SetIovlen(count)
	s.wait, s.n, s.err = wait, 0, nil
	err := s.rc.Write(s.try)
	s.msg.Iov = nil
	clear(list[:count]) // the pieces are the caller's: do not keep them alive
	if err == nil {
		err = s.err
	}
	return s.n, err
}

// fill puts bufs into list and reports how many and whether that was all.
func fill(list []unix.Iovec, bufs [][]byte) (count int, whole bool) {
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		if count == len(list) {
			return count, false
		}
		list[count].Base = &b[0]
		list[count].SetLen(len(b))
		count++
	}
	return count, true
}

func (s *sender) sendmsg(fd uintptr) bool {
	released()
	for {
		s.calls++
		n, errno := s.call(fd)
		switch errno {
		case 0:
			s.n = n
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

// call makes the system call, a plainer and cheaper one for a single piece. It is
// raw, since the socket does not block: Go's scheduler, if told, takes the processor
// away from calls of 20 us, as all large ones are, and wakes a thread that finds
// nothing to do. See docs/performance.md.
func (s *sender) call(fd uintptr) (int, unix.Errno) {
	if s.msg.Iovlen == 1 {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(s.msg.Iov.Base)), uintptr(s.msg.Iov.Len), uintptr(s.flags), 0, 0)
		return int(n), errno
	}
	n, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&s.msg)), uintptr(s.flags))
	return int(n), errno
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
