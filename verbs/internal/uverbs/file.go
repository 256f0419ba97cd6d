package uverbs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/verbs/internal/ring"
	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
)

// File is an open /dev/infiniband/uverbs0. Its objects are known to it alone, and end
// with it.
type File struct {
	dev   *Device
	mem   *ring.Memory
	async *pipe // nil before GET_CONTEXT

	mu      sync.RWMutex
	objects map[uint32]any
	last    uint32
	closed  bool
}

// pd is a protection domain.
type pd struct {
	p    *iwarp.PD
	refs atomic.Int32 // regions, windows, queue pairs, SRQs
}

// Open opens the device. The descriptor is the program's, for mmap; whoever closes it
// calls Close.
func (d *Device) Open() (*File, int, error) {
	mem, fd, err := ring.NewMemory("uverbs0")
	if err != nil {
		return nil, -1, err
	}
	return &File{dev: d, mem: mem, objects: make(map[uint32]any)}, fd, nil
}

// add gives an object its handle.
func (f *File) add(o any) (uint32, unix.Errno) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, unix.EBADF
	}
	for {
		f.last++
		if _, taken := f.objects[f.last]; !taken {
			break
		}
	}
	f.objects[f.last] = o
	return f.last, 0
}

// get finds an object of a file.
func get[T any](f *File, handle uint32) (T, unix.Errno) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	t, ok := f.objects[handle].(T)
	if !ok {
		return t, unix.EINVAL
	}
	return t, 0
}

// remove takes an object out of the file, unless others still refer to it. Of several
// calls one succeeds.
func remove[T interface{ busy() bool }](f *File, handle uint32) (T, unix.Errno) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, ok := f.objects[handle].(T)
	switch {
	case !ok:
		return t, unix.EINVAL
	case t.busy():
		return t, unix.EBUSY
	}
	delete(f.objects, handle)
	return t, 0
}

func (p *pd) busy() bool      { return p.refs.Load() > 0 }
func (m *mr) busy() bool      { return false }
func (q *cq) busy() bool      { return q.refs.Load() > 0 }
func (q *QP) busy() bool      { return false }
func (s *srq) busy() bool     { return s.refs.Load() > 0 }
func (c *channel) busy() bool { return c.refs.Load() > 0 }

// Close ends everything that the file has, as the kernel does for a process that has
// gone.
func (f *File) Close() {
	f.mu.Lock()
	f.closed = true
	all := f.objects
	f.objects = nil
	f.mu.Unlock()
	for _, o := range all {
		if q, ok := o.(*QP); ok {
			q.destroy()
		}
	}
	for _, o := range all {
		switch o := o.(type) {
		case *mr:
			o.destroy(f.dev)
		case *srq:
			o.destroy()
		case *cq:
			o.destroy()
		}
	}
	for _, o := range all {
		switch o := o.(type) {
		case *pd:
			_ = o.p.Close()
		case *channel:
			o.pipe.closeWriter()
		}
	}
	if f.async != nil {
		f.async.closeWriter()
	}
	f.mem.Close()
}

// CloseDescriptor says that the program has closed a descriptor that a command has
// returned.
func (f *File) CloseDescriptor(fd int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.async != nil && f.async.r == fd {
		f.async.closeWriter()
	}
	for h, o := range f.objects {
		if c, ok := o.(*channel); ok && c.pipe.r == fd {
			c.pipe.closeWriter()
			delete(f.objects, h)
		}
	}
}

// Doorbell hands what the program has put into a send queue to its connection.
func (f *File) Doorbell(handle uint32) unix.Errno {
	q, e := get[*QP](f, handle)
	if e == 0 {
		q.doorbell()
	}
	return e
}

// Poll reads the connections of a completion queue that the program has found empty, and
// returns how many octets have come.
func (f *File) Poll(handle uint32) int {
	q, e := get[*cq](f, handle)
	if e != 0 {
		return 0
	}
	return q.poll()
}

// request is a command as it has come.
type request struct {
	body, provider []byte
	response       uint64
	out, extra     int // octets that the caller takes, of the response and of the provider's part
	extended       bool
}

func parse(b []byte) (cmd uint32, r request, e unix.Errno) {
	h, err := uabi.Decode[uabi.Header](b)
	if err != nil {
		return 0, r, unix.EINVAL
	}
	b = b[uabi.HeaderLen:]
	if h.Command&uabi.Extended == 0 {
		if int(h.In)*4 != len(b)+uabi.HeaderLen {
			return 0, r, unix.EINVAL
		}
		if len(b) >= 8 {
			r.response = uabi.Order.Uint64(b)
		}
		r.body, r.out = b, int(h.Out)*4
		return h.Command, r, 0
	}
	x, err := uabi.Decode[uabi.ExtendedHeader](b)
	b = b[min(len(b), uabi.Size[uabi.ExtendedHeader]()):]
	in := int(h.In) * 8
	if err != nil || h.Command&^(uabi.Extended|0xff) != 0 || in+int(x.ProviderIn)*8 != len(b) || x.Reserved != 0 {
		return 0, r, unix.EINVAL
	}
	r = request{
		body:     b[:in],
		provider: b[in:],
		response: x.Response,
		out:      int(h.Out) * 8,
		extra:    int(x.ProviderOut) * 8,
		extended: true,
	}
	return h.Command, r, 0
}

// reply writes a response, as much of it as the caller takes.
func (r *request) reply(parts ...any) unix.Errno {
	var b []byte
	for _, p := range parts {
		b = uabi.Append(b, p)
	}
	return Put(r.response, b[:min(len(b), r.out+r.extra)])
}

// Command executes what the program has written.
func (f *File) Command(b []byte) unix.Errno {
	cmd, r, e := parse(b)
	if e != 0 {
		return e
	}
	run, ok := commands[cmd]
	if !ok {
		f.dev.logger.Debug("uverbs: unknown command", "command", cmd)
		return unix.EOPNOTSUPP
	}
	if f.async == nil && cmd != uabi.GetContext {
		return unix.EINVAL // as the kernel: a context comes first
	}
	e = run(f, &r)
	if e != 0 {
		f.dev.logger.Debug("uverbs: command failed", "command", cmd, "errno", e)
	}
	return e
}

// with runs a command whose body is a T.
func with[T any](run func(f *File, c T, r *request) unix.Errno) func(*File, *request) unix.Errno {
	return func(f *File, r *request) unix.Errno {
		c, err := uabi.Decode[T](r.body)
		if err != nil {
			return unix.EINVAL
		}
		return run(f, c, r)
	}
}

var commands map[uint32]func(*File, *request) unix.Errno

func init() {
	commands = map[uint32]func(*File, *request) unix.Errno{
		uabi.GetContext:                  with((*File).getContext),
		uabi.QueryDevice:                 with((*File).queryDevice),
		uabi.Extended | uabi.QueryDevice: (*File).queryDeviceEx,
		uabi.QueryPort:                   with((*File).queryPort),
		uabi.AllocPD:                     with((*File).allocPD),
		uabi.DeallocPD:                   with((*File).deallocPD),
		uabi.RegMR:                       with((*File).regMR),
		uabi.ReregMR:                     with((*File).reregMR),
		uabi.DeregMR:                     with((*File).deregMR),
		uabi.CreateCompChannel:           with((*File).createChannel),
		uabi.CreateCQ:                    with((*File).createCQ),
		uabi.Extended | uabi.CreateCQ:    with((*File).createCQEx),
		uabi.ResizeCQ:                    with((*File).resizeCQ),
		uabi.DestroyCQ:                   with((*File).destroyCQ),
		uabi.ReqNotifyCQ:                 with((*File).notifyCQ),
		uabi.CreateQP:                    (*File).createQP,
		uabi.Extended | uabi.CreateQP:    (*File).createQP,
		uabi.QueryQP:                     with((*File).queryQP),
		uabi.ModifyQP:                    with((*File).modifyQP),
		uabi.Extended | uabi.ModifyQP:    with((*File).modifyQP),
		uabi.DestroyQP:                   with((*File).destroyQP),
		uabi.PostSend:                    with((*File).postSend),
		uabi.CreateSRQ:                   with((*File).createSRQ),
		uabi.ModifySRQ:                   with((*File).modifySRQ),
		uabi.QuerySRQ:                    with((*File).querySRQ),
		uabi.DestroySRQ:                  with((*File).destroySRQ),
	}
}

func (f *File) postSend(c uabi.DestroyCmd, _ *request) unix.Errno { return f.Doorbell(c.Handle) }
