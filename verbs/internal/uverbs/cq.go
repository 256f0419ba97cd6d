package uverbs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/verbs/internal/ring"
	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
)

// channel is a completion channel.
type channel struct {
	pipe *pipe
	refs atomic.Int32 // CQs
}

func (f *File) createChannel(_ uabi.Resp, r *request) unix.Errno {
	p, err := newPipe()
	if err != nil {
		return unix.EMFILE
	}
	h, e := f.add(&channel{pipe: p})
	if e == 0 {
		e = r.reply(uabi.HandleResp{Handle: uint32(p.r)})
	}
	if e != 0 {
		_, _ = remove[*channel](f, h)
		p.close()
	}
	return e
}

// channelAt finds a channel by its descriptor.
func (f *File) channelAt(fd int32) *channel {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, o := range f.objects {
		if c, ok := o.(*channel); ok && c.pipe.r == int(fd) {
			return c
		}
	}
	return nil
}

// cq is a completion queue.
type cq struct {
	asyncEvents
	file *File
	ch   *channel
	refs atomic.Int32 // queue pairs, each once or twice

	mu       sync.Mutex
	ring     *ring.Ring // nil: destroyed
	armed    uint8
	reported uint32 // events that went into the channel
	overrun  bool

	qps map[*QP]struct{}
}

const (
	disarmed = iota
	armedSolicited
	armedAny
)

func (f *File) createCQ(c uabi.CreateCQCmd, r *request) unix.Errno {
	return f.newCQ(c.UserHandle, c.CQE, c.Vector, c.Channel, r)
}

func (f *File) createCQEx(c uabi.CreateCQExCmd, r *request) unix.Errno {
	if c.CompMask != 0 || c.Flags != 0 || c.Reserved != 0 {
		return unix.EOPNOTSUPP
	}
	return f.newCQ(c.UserHandle, c.CQE, c.Vector, c.Channel, r)
}

func (f *File) newCQ(user uint64, n, vector uint32, ch int32, r *request) unix.Errno {
	if n < 1 || n > maxCQE || vector != 0 {
		return unix.EINVAL
	}
	q := &cq{asyncEvents: asyncEvents{file: f, user: user}, file: f}
	if ch >= 0 {
		if q.ch = f.channelAt(ch); q.ch == nil {
			return unix.EINVAL
		}
	}
	var err error
	if q.ring, err = f.mem.New(int(n), ring.CompletionLen); err != nil {
		return unix.ENOMEM
	}
	h, e := f.add(q)
	if e == 0 {
		resp := []any{uabi.CreateCQResp{Handle: h, CQE: uint32(q.ring.Slots() - 1)}}
		if r.extended {
			resp = append(resp, uabi.Extension{ResponseLength: 16})
		}
		e = r.reply(append(resp, q.ring.Info())...)
	}
	if e != 0 {
		_, _ = remove[*cq](f, h)
		q.ring.Free()
		return e
	}
	if q.ch != nil {
		q.ch.refs.Add(1)
	}
	return 0
}

func (f *File) resizeCQ(c uabi.ResizeCQCmd, r *request) unix.Errno {
	q, e := get[*cq](f, c.Handle)
	if e != 0 {
		return e
	}
	if c.CQE < 1 || c.CQE > maxCQE {
		return unix.EINVAL
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ring == nil || int(c.CQE) < q.ring.Len() {
		return unix.EINVAL
	}
	n, err := f.mem.New(int(c.CQE), ring.CompletionLen)
	if err != nil {
		return unix.ENOMEM
	}
	q.ring.Copy(n)
	if e := r.reply(uabi.ResizeCQResp{CQE: uint32(n.Slots() - 1), Ring: n.Info()}); e != 0 {
		n.Free()
		return e
	}
	q.ring.Free()
	q.ring = n
	return 0
}

func (f *File) destroyCQ(c uabi.DestroyCmd, r *request) unix.Errno {
	q, e := remove[*cq](f, c.Handle)
	if e != 0 {
		return e
	}
	comp, async := q.destroy()
	return r.reply(uabi.DestroyCQResp{CompEvents: comp, AsyncEvents: async})
}

func (q *cq) destroy() (comp, async uint32) {
	q.mu.Lock()
	q.ring.Free()
	q.ring = nil
	comp = q.reported
	if q.ch != nil && comp > 0 {
		comp -= min(
			comp,
			q.ch.pipe.drop(completeEventLen, func(b []byte) bool { return uabi.Order.Uint64(b) == q.user }),
		)
	}
	if q.ch != nil {
		q.ch.refs.Add(-1)
	}
	q.mu.Unlock()
	return comp, q.end(isCQEvent)
}

func (f *File) notifyCQ(c uabi.ReqNotifyCQCmd, _ *request) unix.Errno {
	q, e := get[*cq](f, c.Handle)
	if e != 0 {
		return e
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.SolicitedOnly != 0 {
		q.armed = max(q.armed, armedSolicited)
	} else {
		q.armed = armedAny
	}
	return 0
}

// push puts a completion into the queue.
func (q *cq) push(c *ring.Completion, solicited bool) {
	q.mu.Lock()
	r := q.ring
	if r == nil {
		q.mu.Unlock()
		return
	}
	p := r.Producer()
	next := r.Next(p)
	if next == r.Consumer() {
		first := !q.overrun
		q.overrun = true
		q.mu.Unlock()
		if first {
			q.raise(eventCQErr)
		}
		return
	}
	c.Put(r.At(p))
	r.SetProducer(next)
	if q.armed == armedAny || q.armed == armedSolicited && (solicited || c.Status != ring.StatusSuccess) {
		q.armed = disarmed
		// With the lock held, or destroy would count an event that nobody has read.
		if q.ch != nil && q.ch.pipe.send(uabi.CompEvent{CQ: q.user}) {
			q.reported++
		}
	}
	q.mu.Unlock()
	q.file.dev.bell()
}

// attach makes a queue pair one of those that poll reads.
func (q *cq) attach(p *QP) {
	q.refs.Add(1)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.qps == nil {
		q.qps = make(map[*QP]struct{})
	}
	q.qps[p] = struct{}{}
}

func (q *cq) detach(p *QP) {
	q.refs.Add(-1)
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.qps, p)
}

// maxPolled bounds the connections that poll reads: each is a system call.
const maxPolled = 8

func (q *cq) poll() (came int) {
	var conns [maxPolled]*iwarp.Conn
	n := 0
	q.mu.Lock()
	if len(q.qps) <= maxPolled {
		for p := range q.qps {
			if c := p.conn.Load(); c != nil {
				conns[n] = c
				n++
			}
		}
	}
	q.mu.Unlock()
	for _, c := range conns[:n] {
		came += c.Poll()
	}
	return came
}
