package ucma

import (
	"context"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
)

// inOrder bounds how long a connection whose request has not come holds up those behind
// it.
const inOrder = 100 * time.Millisecond

// maxBacklog is the backlog of a program that wants more, or says none.
const maxBacklog = 1024

func reuseAddr(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
}

// bind binds the identifier to an address, and a port of the program's or the kernel's
// choice.
func (i *id) bind(b []byte) unix.Errno {
	a, ok := sockaddr(b)
	if !ok {
		return unix.EAFNOSUPPORT // AF_IB: librdmacm does without then
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.bindLocked(a)
}

func (i *id) bindLocked(a netip.AddrPort) unix.Errno {
	if i.sock != nil || i.ln != nil || i.conn != nil {
		return unix.EINVAL
	}
	family, sa := sysSockaddr(a)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return errnoOf(err, unix.EMFILE)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if family == unix.AF_INET6 {
		only := 0
		if i.afOnly {
			only = 1
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only)
	}
	if err := unix.Bind(fd, sa); err != nil {
		_ = unix.Close(fd)
		return errnoOf(err, unix.EADDRNOTAVAIL)
	}
	if got, err := unix.Getsockname(fd); err == nil {
		switch s := got.(type) {
		case *unix.SockaddrInet4:
			a = netip.AddrPortFrom(a.Addr(), uint16(s.Port))
		case *unix.SockaddrInet6:
			a = netip.AddrPortFrom(a.Addr(), uint16(s.Port))
		}
	}
	i.src, i.sock = a, os.NewFile(uintptr(fd), "rdma_cm")
	i.bound = !a.Addr().IsUnspecified()
	return 0
}

func (i *id) listen(cmd *uabi.CMListenCmd, _ *request) unix.Errno {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ln != nil {
		return unix.EINVAL
	}
	if i.sock == nil {
		if e := i.bindLocked(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)); e != 0 {
			return e
		}
	}
	backlog := int(cmd.Backlog)
	if backlog <= 0 || backlog > maxBacklog {
		backlog = maxBacklog
	}
	if err := unix.Listen(int(i.sock.Fd()), max(backlog, 128)); err != nil {
		return errnoOf(err, unix.EADDRINUSE)
	}
	nl, err := net.FileListener(i.sock)
	if err != nil {
		return unix.EINVAL
	}
	lc := iwarp.ListenConfig{
		Config:     &iwarp.Config{Device: i.m.dev.IWARP()},
		InOrder:    inOrder,
		MaxPending: max(backlog, 128),
	}
	ln, err := lc.NewListener(nl)
	if err != nil {
		_ = nl.Close()
		return unix.EINVAL
	}
	ctx, cancel := context.WithCancel(context.Background())
	_ = i.sock.Close()
	i.sock, i.ln, i.cancel = nil, ln, cancel
	go func() {
		for {
			r, err := ln.AcceptRequest(ctx)
			if err != nil {
				return
			}
			i.request(r)
		}
	}()
	return 0
}

// request hands a peer's request to the program, as an identifier of its own.
func (i *id) request(r *iwarp.ConnRequest) {
	if i.dead.Load() {
		_ = r.Close()
		return
	}
	child := i.channel().newID(0)
	child.mu.Lock()
	child.req, child.bound = r, true
	child.src, child.dst = addrPort(r.LocalAddr()), addrPort(r.RemoteAddr())
	child.mu.Unlock()
	ev := &event{
		id:      child.handle,
		kind:    uabi.EventConnectRequest,
		private: r.PrivateData(),
		ird:     maxDepth,
		ord:     maxDepth,
	}
	if b, ok := r.Request().Block(); ok {
		// What the peer wants to issue is what it asks this end to serve.
		ev.ird, ev.ord = min(int(b.ORD), maxDepth), min(int(b.IRD), maxDepth)
	}
	i.post(ev)
}

// maxDepth is what a peer that says nothing is taken to serve and to ask for.
const maxDepth = 128

func (i *id) accept(cmd *uabi.CMAcceptCmd, _ *request) unix.Errno {
	if cmd.Param.Valid == 0 { // the active side's, after CONNECT_RESPONSE: InfiniBand only
		return 0
	}
	q := i.m.dev.QP(cmd.Param.QPN)
	if q == nil {
		return unix.EINVAL
	}
	i.mu.Lock()
	r := i.req
	if r == nil {
		i.mu.Unlock()
		return unix.EINVAL
	}
	root, e := q.Connect(i.peerEnded)
	if e != 0 {
		i.mu.Unlock()
		return e
	}
	i.req = nil
	i.uid = cmd.UID
	ctx, cancel := context.WithTimeout(context.Background(), connectPatience)
	i.cancel = cancel
	i.mu.Unlock()
	cfg := config(&cmd.Param, root)
	go func() {
		defer cancel()
		c, err := r.Accept(ctx, cfg)
		if err != nil {
			_ = r.Close()
			i.m.logger.Debug("accept", "error", err)
			q.Unconnected()
			i.post(&event{id: i.handle, kind: uabi.EventConnectError, status: unix.ECONNRESET})
			return
		}
		i.established(c, q)
	}()
	return 0
}

func (i *id) reject(cmd *uabi.CMRejectCmd, _ *request) unix.Errno {
	i.mu.Lock()
	r := i.req
	i.req = nil
	i.mu.Unlock()
	if r == nil {
		return unix.EINVAL
	}
	private := append([]byte(nil), cmd.PrivateData[:cmd.PrivateLen]...)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		nc, err := r.Reject(ctx, private)
		if err == nil {
			_ = nc.Close()
		}
	}()
	return 0
}
