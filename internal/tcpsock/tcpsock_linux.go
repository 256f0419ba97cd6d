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
	many  *manyHeaders // in place of msg
	flags int
	wait  bool
	n     int
	calls uint64
	err   error
	try   func(fd uintptr) bool

	tryMany func(fd uintptr) bool
	unsent  unsentProbe
}

// SendCalls is the number of system calls that Send has made, those that took
// nothing included. It belongs to the goroutine that calls Send.
func (s *sender) SendCalls() uint64 { return s.calls }

// iovPool lends long lists of pieces: 16 KiB are too much for a conn to keep.
var iovPool = sync.Pool{New: func() any { return new([maxIovec]unix.Iovec) }}

func (s *sender) init() {
	s.try, s.tryMany = s.sendmsg, s.sendmmsg
	s.unsent.ask = s.unsent.ioctl
}

// Send writes bufs with one system call, as far as the socket's buffer has
// room, and gives the count of octets taken. With wait false a full socket
// buffer returns 0 and no error; with wait true Send blocks until at least one
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

// maxHeaders is how many segments go with one system call.
const maxHeaders = 64

// manyHeaders is what one sendmmsg needs.
type manyHeaders struct {
	iov   [maxIovec]unix.Iovec
	msgs  [maxHeaders]mmsghdr
	count int
}

// mmsghdr is struct mmsghdr. The alignment of hdr pads it on 64-bit machines, as in C; a
// field for that would have no octets on 32-bit ones, and Go makes room behind such a
// field where it is the last.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
}

var manyPool = sync.Pool{New: func() any { return new(manyHeaders) }}

// SendSegments is [Socket.Send] where segments are to end within bufs too: behind
// bufs[cut-start-1] for each of cuts, which rise. It may take fewer octets than there
// is room for.
func (s *Socket) SendSegments(bufs [][]byte, cuts []int, start int, end, wait bool) (int, error) {
	m := manyPool.Get().(*manyHeaders)
	m.fill(bufs, cuts, start, end)
	if m.count == 0 {
		manyPool.Put(m)
		return 0, nil
	}
	s.many, s.wait, s.n, s.err = m, wait, 0, nil
	err := s.rc.Write(s.tryMany)
	s.many = nil
	clear(m.iov[:]) // the pieces are the caller's: do not keep them alive
	manyPool.Put(m)
	if err == nil {
		err = s.err
	}
	return s.n, err
}

// fill makes a header of each run of pieces that ends a segment.
func (m *manyHeaders) fill(bufs [][]byte, cuts []int, start int, end bool) {
	m.count = 0
	from, used := 0, 0
	for m.count < maxHeaders && from < len(bufs) {
		to, eor := len(bufs), end
		if len(cuts) > 0 {
			to, eor, cuts = cuts[0]-start, true, cuts[1:]
		}
		list := m.iov[used:]
		n, whole := fill(list, bufs[from:to])
		if n == 0 && whole { // nothing but empty pieces
			from = to
			continue
		}
		if n == 0 {
			break // the list is full
		}
		h := &m.msgs[m.count]
		h.hdr.Iov, h.hdr.Flags = &list[0], 0
		h.hdr.SetIovlen(n)
		// Rule: MPA-5.1-03
		if eor && whole {
			h.hdr.Flags = unix.MSG_EOR // sendmmsg looks at this one flag here
		}
		m.count++
		used += n
		from = to
		if !whole {
			break
		}
	}
}

func (s *sender) sendmmsg(fd uintptr) bool {
	released()
	m := s.many
	for {
		s.calls++
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&m.msgs[0])), uintptr(m.count),
			unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			for i := range int(n) {
				s.n += int(m.msgs[i].n)
			}
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

// unsentProbe asks how much TCP has not sent yet.
type unsentProbe struct {
	n   int
	err error
	ask func(fd uintptr)
}

// siocOutqNSD is SIOCOUTQNSD of linux/sockios.h.
const siocOutqNSD = 0x894b

func (p *unsentProbe) ioctl(fd uintptr) {
	var n int32
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, fd, siocOutqNSD, uintptr(unsafe.Pointer(&n)))
	p.n, p.err = int(n), nil
	if errno != 0 {
		p.err = errno
	}
}

// Unsent returns how many octets TCP has taken and not sent even once: with none
// the next octet begins a segment. It counts as a system call of Send, and belongs
// to the same goroutine.
func (s *Socket) Unsent() (int, error) {
	s.calls++
	if err := s.rc.Control(s.unsent.ask); err != nil {
		return 0, err
	}
	return s.unsent.n, s.unsent.err
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
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(s.msg.Iov.Base)),
			uintptr(s.msg.Iov.Len), uintptr(s.flags), 0, 0)
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

// MSS returns the effective maximum segment size in octets of payload, TCP
// options already taken off. It changes while a connection lives: on loopback it
// doubles when traffic flows, elsewhere it follows the path's MTU.
func (s *Socket) MSS() (int, error) {
	if err := s.rc.Control(s.mss.ask); err != nil {
		return 0, err
	}
	return s.mss.value, s.mss.err
}

// Retransmits returns the count of TCP segments sent again since the connection
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
