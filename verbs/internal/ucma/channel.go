// Package ucma is what stands behind /dev/infiniband/rdma_cm: it executes the commands
// that librdmacm writes, over the connections of package iwarp.
package ucma

import (
	"log/slog"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
	"github.com/go-iwarp/iwarp/verbs/internal/uverbs"
)

// Manager has the identifiers of all channels of the process: one may go from one
// channel to another.
type Manager struct {
	dev    *uverbs.Device
	logger *slog.Logger

	mu   sync.Mutex
	ids  map[uint32]*id
	last uint32

	dials turns
}

// NewManager makes a manager for the queue pairs of a device.
func NewManager(dev *uverbs.Device) *Manager {
	return &Manager{dev: dev, logger: dev.Logger(), ids: make(map[uint32]*id)}
}

// Channel is an open /dev/infiniband/rdma_cm. Its descriptor is an eventfd that counts
// the events which have not been fetched, so that poll and epoll see them.
type Channel struct {
	m  *Manager
	fd int // a duplicate of the program's

	mu     sync.Mutex
	events []*event
	closed bool
}

// event is an event for the program.
type event struct {
	to      *id // whose uid it carries
	id      uint32
	kind    uint32
	status  unix.Errno
	private []byte
	ird     int
	ord     int
	qpn     uint32
}

// Open opens the device. The descriptor is the program's; whoever closes it calls
// Close.
func (m *Manager) Open() (*Channel, int, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_SEMAPHORE)
	if err != nil {
		return nil, -1, err
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		_ = unix.Close(fd)
		return nil, -1, err
	}
	return &Channel{m: m, fd: own}, fd, nil
}

// Close destroys the identifiers of the channel.
func (c *Channel) Close() {
	c.mu.Lock()
	c.closed = true
	c.events = nil
	c.mu.Unlock()
	c.m.mu.Lock()
	var mine []*id
	for h, i := range c.m.ids {
		if i.channel() == c {
			mine = append(mine, i)
			delete(c.m.ids, h)
		}
	}
	c.m.mu.Unlock()
	for _, i := range mine {
		i.destroy()
	}
	c.mu.Lock()
	_ = unix.Close(c.fd)
	c.fd = -1
	c.mu.Unlock()
}

// post puts an event into the channel of an identifier.
func (i *id) post(e *event) {
	for {
		c := i.channel()
		c.mu.Lock()
		if i.channel() != c { // it has migrated
			c.mu.Unlock()
			continue
		}
		if !c.closed && !i.dead.Load() {
			e.to = i
			c.events = append(c.events, e)
			c.count(1)
		}
		c.mu.Unlock()
		c.m.logger.Debug("rdma_cm event", "id", e.id, "event", e.kind, "status", e.status)
		return
	}
}

// count adds to the events that poll sees.
func (c *Channel) count(n int) {
	var one [8]byte
	for ; n > 0; n-- {
		uabi.Order.PutUint64(one[:], 1)
		_, _ = unix.Write(c.fd, one[:])
	}
	for ; n < 0; n++ {
		p := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}
		if k, _ := unix.Poll(p, 0); k == 1 {
			_, _ = unix.Read(c.fd, one[:])
		}
	}
}

// take takes the events of an identifier out of the channel.
func (c *Channel) take(of *id) (taken []*event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = slices.DeleteFunc(c.events, func(e *event) bool {
		if e.to == of {
			taken = append(taken, e)
			return true
		}
		return false
	})
	c.count(-len(taken))
	return taken
}

// getEvent hands the oldest event to the program.
func (c *Channel) getEvent(cmd uabi.Resp, r *request) unix.Errno {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) == 0 {
		return unix.EAGAIN
	}
	e := c.events[0]
	e.to.mu.Lock()
	uid := e.to.uid
	e.to.mu.Unlock()
	resp := uabi.EventResp{UID: uid, ID: e.id, Event: e.kind, Status: uint32(-int32(e.status))}
	resp.Param.QPN = e.qpn
	resp.Param.PrivateLen = uint8(min(copy(resp.Param.PrivateData[:], e.private), 255))
	resp.Param.ResponderResources, resp.Param.InitiatorDepth = depth8(e.ird), depth8(e.ord)
	if errno := r.reply(cmd.Response, resp); errno != 0 {
		return errno
	}
	e.to.reported.Add(1)
	c.events = slices.Delete(c.events, 0, 1)
	c.count(-1)
	return 0
}

func depth8(n int) uint8 { return uint8(max(0, min(n, 255))) }

// request is a command as it has come.
type request struct {
	body []byte
	out  int // octets that the caller takes
}

func (r *request) reply(at uint64, resp any) unix.Errno {
	b := uabi.Append(nil, resp)
	b = b[:min(len(b), r.out)]
	return uverbs.Put(at, b)
}

// Command executes what the program has written.
func (c *Channel) Command(b []byte) unix.Errno {
	h, err := uabi.Decode[uabi.Header](b)
	if err != nil || int(h.In)+uabi.HeaderLen > len(b) {
		return unix.EINVAL
	}
	run, ok := commands[h.Command]
	if !ok {
		c.m.logger.Debug("rdma_cm: unknown command", "command", h.Command)
		return unix.EOPNOTSUPP
	}
	e := run(c, &request{body: b[uabi.HeaderLen:], out: int(h.Out)})
	if e != 0 && e != unix.EAGAIN {
		c.m.logger.Debug("rdma_cm: command failed", "command", h.Command, "errno", e)
	}
	return e
}

// with runs a command whose body is a T.
func with[T any](run func(c *Channel, cmd T, r *request) unix.Errno) func(*Channel, *request) unix.Errno {
	return func(c *Channel, r *request) unix.Errno {
		cmd, err := uabi.Decode[T](r.body)
		if err != nil {
			return unix.EINVAL
		}
		return run(c, cmd, r)
	}
}

// on runs a command on an identifier of the channel.
func on[T any](of func(*T) uint32, run func(i *id, cmd *T, r *request) unix.Errno) func(*Channel, *request) unix.Errno {
	return with(func(c *Channel, cmd T, r *request) unix.Errno {
		i := c.m.get(of(&cmd))
		if i == nil || i.channel() != c {
			return unix.ENOENT
		}
		return run(i, &cmd, r)
	})
}

func (m *Manager) get(handle uint32) *id {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ids[handle]
}

var commands map[uint32]func(*Channel, *request) unix.Errno

func init() {
	commands = map[uint32]func(*Channel, *request) unix.Errno{
		uabi.CMCreateID:  with((*Channel).createID),
		uabi.CMDestroyID: with((*Channel).destroyID),
		uabi.CMGetEvent:  with((*Channel).getEvent),
		uabi.CMMigrateID: with((*Channel).migrate),
		uabi.CMBindIP: on(
			func(c *uabi.CMBindIPCmd) uint32 { return c.ID },
			func(i *id, c *uabi.CMBindIPCmd, _ *request) unix.Errno { return i.bind(c.Addr[:]) },
		),
		uabi.CMBind: on(
			func(c *uabi.CMBindCmd) uint32 { return c.ID },
			func(i *id, c *uabi.CMBindCmd, _ *request) unix.Errno { return i.bind(c.Addr[:]) },
		),
		uabi.CMResolveIP: on(
			func(c *uabi.CMResolveIPCmd) uint32 { return c.ID },
			func(i *id, c *uabi.CMResolveIPCmd, _ *request) unix.Errno { return i.resolve(c.Src[:], c.Dst[:]) },
		),
		uabi.CMResolveAddr: on(
			func(c *uabi.CMResolveAddrCmd) uint32 { return c.ID },
			func(i *id, c *uabi.CMResolveAddrCmd, _ *request) unix.Errno { return i.resolve(c.Src[:], c.Dst[:]) },
		),
		uabi.CMResolveRoute: on(func(c *uabi.CMResolveRouteCmd) uint32 { return c.ID }, (*id).resolveRoute),
		uabi.CMQueryRoute:   on(func(c *uabi.CMQueryCmd) uint32 { return c.ID }, (*id).queryRoute),
		uabi.CMQuery:        on(func(c *uabi.CMQueryCmd) uint32 { return c.ID }, (*id).query),
		uabi.CMConnect:      on(func(c *uabi.CMConnectCmd) uint32 { return c.ID }, (*id).connect),
		uabi.CMListen:       on(func(c *uabi.CMListenCmd) uint32 { return c.ID }, (*id).listen),
		uabi.CMAccept:       on(func(c *uabi.CMAcceptCmd) uint32 { return c.ID }, (*id).accept),
		uabi.CMReject:       on(func(c *uabi.CMRejectCmd) uint32 { return c.ID }, (*id).reject),
		uabi.CMDisconnect:   on(func(c *uabi.CMDisconnectCmd) uint32 { return c.ID }, (*id).disconnect),
		uabi.CMInitQPAttr:   on(func(c *uabi.CMInitQPAttrCmd) uint32 { return c.ID }, (*id).initQPAttr),
		uabi.CMSetOption:    on(func(c *uabi.CMSetOptionCmd) uint32 { return c.ID }, (*id).setOption),
		uabi.CMNotify: on(
			func(c *uabi.CMNotifyCmd) uint32 { return c.ID },
			func(*id, *uabi.CMNotifyCmd, *request) unix.Errno { return 0 },
		),
	}
}
