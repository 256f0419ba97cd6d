// Package tcpsock reaches what a kernel's TCP offers beyond [net.Conn]: the
// effective maximum segment size (EMSS), the count of retransmissions, a gather
// write that ends a TCP segment, and reads that borrow a buffer only when there
// is something to read.
//
// Everything works on Linux. Elsewhere the parts that an operating system does
// not offer give an [UnsupportedError], and [CanSend] and [CanRead] tell
// beforehand. It is the only package of the module that makes system calls.
package tcpsock

import (
	"errors"
	"runtime"
	"syscall"
)

// UnsupportedError says that this operating system lacks a feature. It matches
// [errors.ErrUnsupported] in [errors.Is].
type UnsupportedError struct {
	Feature string // e.g. "TCP_MAXSEG"
}

// Error names the feature and the operating system.
func (e *UnsupportedError) Error() string {
	return "iwarp: " + e.Feature + " is not supported on " + runtime.GOOS
}

// Is reports whether target is [errors.ErrUnsupported].
func (e *UnsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// Socket is a kernel socket. MSS and Send belong to one goroutine at a time,
// Recv to one (possibly another); Retransmits and TryRecv may be called from any. No method
// but Retransmits allocates memory in the long run.
type Socket struct {
	rc syscall.RawConn
	sender
	mss mssProbe
}

// NewSocket takes the socket under c, which stays the owner: closing c ends
// whatever waits in Send or Recv, and the deadlines of c hold.
func NewSocket(c syscall.Conn) (*Socket, error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &Socket{rc: rc}
	s.sender.init()
	s.mss.init()
	return s, nil
}

// Recv calls try with the descriptor until it returns true, and waits for the
// socket to become readable in between. The read deadline of the conn holds.
// try uses [TryRead].
func (s *Socket) Recv(try func(fd uintptr) bool) error { return s.rc.Read(try) }

// TryRecv calls try with the descriptor, once, and waits for nothing. Unlike Recv it
// may be called while another goroutine waits in Recv. The read deadline of the conn
// does not matter to it.
func (s *Socket) TryRecv(try func(fd uintptr)) error { return s.rc.Control(try) }
