package ucma

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
	"github.com/go-iwarp/iwarp/verbs/internal/uverbs"
)

// id is a rdma_cm_id.
type id struct {
	m        *Manager
	handle   uint32
	ch       atomic.Pointer[Channel]
	reported atomic.Uint32 // events that the program has fetched
	dead     atomic.Bool

	mu       sync.Mutex
	uid      uint64
	src, dst netip.AddrPort
	bound    bool // to an address of this machine, so that it has a device
	afOnly   bool

	sock   *os.File // bound, and not listening yet
	ln     *iwarp.Listener
	cancel context.CancelFunc // ends a connect or a listener
	req    *iwarp.ConnRequest // waits for its answer
	conn   *iwarp.Conn
	ended  bool // the peer's half, and DISCONNECTED was or will be posted
}

func (i *id) channel() *Channel { return i.ch.Load() }

// newID makes an identifier on a channel; nil if that is closed.
func (c *Channel) newID(uid uint64) *id {
	i := &id{m: c.m, uid: uid}
	i.ch.Store(c)
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	for {
		if c.m.last++; c.m.ids[c.m.last] == nil {
			break
		}
	}
	i.handle = c.m.last
	c.m.ids[i.handle] = i
	return i
}

func (c *Channel) createID(cmd uabi.CMCreateIDCmd, r *request) unix.Errno {
	if cmd.QPType != 2 { // RC
		return unix.EOPNOTSUPP
	}
	return r.reply(cmd.Response, uabi.HandleResp{Handle: c.newID(cmd.UID).handle})
}

func (c *Channel) destroyID(cmd uabi.CMIDCmd, r *request) unix.Errno {
	m := c.m
	m.mu.Lock()
	i := m.ids[cmd.ID]
	if i == nil || i.channel() != c {
		m.mu.Unlock()
		return unix.ENOENT
	}
	delete(m.ids, cmd.ID)
	m.mu.Unlock()
	i.destroy()
	for _, e := range c.take(i) {
		// A request that the program has not seen goes with its listener.
		if e.kind == uabi.EventConnectRequest {
			if child := m.remove(e.id); child != nil {
				child.destroy()
			}
		}
	}
	return r.reply(cmd.Response, uabi.HandleResp{Handle: i.reported.Load()})
}

func (m *Manager) remove(handle uint32) *id {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.ids[handle]
	delete(m.ids, handle)
	return i
}

// destroy ends what the identifier has under way. A connection that stands ends
// gracefully, in the background.
func (i *id) destroy() {
	i.dead.Store(true)
	i.mu.Lock()
	ln, sock, conn, req, cancel := i.ln, i.sock, i.conn, i.req, i.cancel
	i.ln, i.sock, i.req = nil, nil, nil
	i.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	if ln != nil {
		_ = ln.Close()
	}
	if sock != nil {
		_ = sock.Close()
	}
	if req != nil && conn == nil {
		_ = req.Close()
	}
	if conn != nil {
		go func() { _ = conn.Close() }()
	}
}

// migrate takes an identifier over from another channel, with its events.
func (c *Channel) migrate(cmd uabi.CMQueryCmd, r *request) unix.Errno {
	i := c.m.get(cmd.ID)
	if i == nil {
		return unix.ENOENT
	}
	old := i.ch.Swap(c)
	for _, e := range old.take(i) {
		i.post(e)
	}
	return r.reply(cmd.Response, uabi.HandleResp{Handle: i.reported.Load()})
}

func (i *id) resolveRoute(*uabi.CMResolveRouteCmd, *request) unix.Errno {
	i.post(&event{id: i.handle, kind: uabi.EventRouteResolved})
	return 0
}

func (i *id) queryRoute(cmd *uabi.CMQueryCmd, r *request) unix.Errno {
	i.mu.Lock()
	defer i.mu.Unlock()
	var resp uabi.CMQueryRouteResp
	if i.bound {
		resp.NodeGUID, resp.Port = uverbs.GUID, 1
	}
	putSockaddr(resp.Src[:], i.src)
	putSockaddr(resp.Dst[:], i.dst)
	// The device's index would be one of the kernel's: without it librdmacm goes by the GUID.
	r.out = min(r.out, uabi.Size[uabi.CMQueryRouteResp]()-8)
	return r.reply(cmd.Response, resp)
}

func (i *id) query(cmd *uabi.CMQueryCmd, r *request) unix.Errno {
	i.mu.Lock()
	defer i.mu.Unlock()
	resp := uabi.CMQueryAddrResp{PKey: 0xffff}
	if i.bound {
		resp.NodeGUID, resp.Port = uverbs.GUID, 1
	}
	switch cmd.Option {
	case uabi.CMQueryAddr:
		resp.SrcSize = uint16(putSockaddr(resp.Src[:], i.src))
		resp.DstSize = uint16(putSockaddr(resp.Dst[:], i.dst))
	case uabi.CMQueryGID:
		resp.SrcSize, resp.DstSize = uint16(putGID(resp.Src[:], i.src)), uint16(putGID(resp.Dst[:], i.dst))
	case uabi.CMQueryPath:
		return r.reply(cmd.Response, uabi.CMQueryPathResp{})
	default:
		return unix.ENOSYS
	}
	r.out = min(r.out, uabi.Size[uabi.CMQueryAddrResp]()-8)
	return r.reply(cmd.Response, resp)
}

// initQPAttr says how to modify the queue pair for a state, as the kernel does for iWARP.
func (i *id) initQPAttr(cmd *uabi.CMInitQPAttrCmd, r *request) unix.Errno {
	a := uabi.QPAttr{State: cmd.QPState, CurrentState: cmd.QPState}
	if cmd.QPState != uverbs.StateRTS {
		a.Mask, a.Access = 1<<0|1<<3, 7 // state and access flags
	}
	return r.reply(cmd.Response, a)
}

// Options: RDMA_OPTION_*.
const (
	optionLevelID   = 0
	optionTOS       = 0
	optionReuseAddr = 1
	optionAFOnly    = 2
	optionAckTime   = 3
)

func (i *id) setOption(cmd *uabi.CMSetOptionCmd, _ *request) unix.Errno {
	if cmd.Level != optionLevelID {
		return unix.ENOSYS // paths are InfiniBand's
	}
	var v [4]byte
	size := map[uint32]uint32{optionTOS: 1, optionReuseAddr: 4, optionAFOnly: 4, optionAckTime: 1}[cmd.Name]
	switch {
	case size == 0:
		return unix.ENOSYS
	case cmd.ValueSize != size || cmd.Value == 0:
		return unix.EINVAL
	}
	if e := uverbs.Get(v[:size], cmd.Value); e != 0 {
		return e
	}
	if cmd.Name == optionAFOnly {
		i.mu.Lock()
		i.afOnly = uabi.Order.Uint32(v[:]) != 0
		i.mu.Unlock()
	}
	return 0 // TCP's own: every address may be reused, and TCP has its timeouts
}

// addresses

func sockaddr(b []byte) (netip.AddrPort, bool) {
	port := uint16(b[2])<<8 | uint16(b[3])
	switch uabi.Order.Uint16(b) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port), true
	case unix.AF_INET6:
		a := netip.AddrFrom16([16]byte(b[8:24]))
		if scope := uabi.Order.Uint32(b[24:]); scope != 0 && !a.Is4In6() {
			if itf, err := net.InterfaceByIndex(int(scope)); err == nil {
				a = a.WithZone(itf.Name)
			}
		}
		return netip.AddrPortFrom(a.Unmap(), port), true
	}
	return netip.AddrPort{}, false
}

func putSockaddr(b []byte, a netip.AddrPort) int {
	if !a.IsValid() {
		return 0
	}
	b[2], b[3] = byte(a.Port()>>8), byte(a.Port())
	if a.Addr().Is4() {
		uabi.Order.PutUint16(b, unix.AF_INET)
		ip := a.Addr().As4()
		copy(b[4:], ip[:])
		return 16
	}
	uabi.Order.PutUint16(b, unix.AF_INET6)
	ip := a.Addr().As16()
	copy(b[8:], ip[:])
	uabi.Order.PutUint32(b[24:], scopeOf(a.Addr()))
	return 28
}

// afIB is the family of a struct sockaddr_ib.
const afIB = 27

// putGID writes a struct sockaddr_ib with the address as its GID.
func putGID(b []byte, a netip.AddrPort) int {
	if !a.IsValid() {
		return 0
	}
	uabi.Order.PutUint16(b, afIB)
	ip := a.Addr().As16()
	copy(b[8:24], ip[:])
	return 48
}

func scopeOf(a netip.Addr) uint32 {
	if a.Zone() == "" {
		return 0
	}
	itf, err := net.InterfaceByName(a.Zone())
	if err != nil {
		return 0
	}
	return uint32(itf.Index)
}

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

func sysSockaddr(a netip.AddrPort) (family int, sa unix.Sockaddr) {
	if a.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16(), ZoneId: scopeOf(a.Addr())}
}
