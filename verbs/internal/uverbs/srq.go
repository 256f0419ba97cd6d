package uverbs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/verbs/internal/ring"
	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
)

// srq is a shared receive queue. A message takes its oldest element, which is free for
// the program at once; what is needed of it until the completion is in a slot.
type srq struct {
	asyncEvents
	file *File
	pd   *pd
	refs atomic.Int32

	mu            sync.Mutex
	ring          *ring.Ring
	maxWR, maxSGE uint32
	limit         uint32
	memory        resolver
	slots         []srqSlot
	free          []uint32
}

type srqSlot struct {
	id   uint64
	list []byte // a copy of the SGEs
	sg   [][]byte
	used bool
}

func (f *File) createSRQ(c uabi.CreateSRQCmd, r *request) unix.Errno {
	p, e := get[*pd](f, c.PD)
	if e != 0 {
		return e
	}
	wr, sge := max(c.MaxWR, 1), max(c.MaxSGE, 1)
	if wr > maxWR || sge > maxSGE || c.Limit > wr {
		return unix.EINVAL
	}
	s := &srq{
		asyncEvents: asyncEvents{file: f, user: c.UserHandle},
		file:        f,
		pd:          p,
		maxWR:       wr,
		maxSGE:      sge,
		limit:       c.Limit,
	}
	s.memory = resolver{regions: &f.dev.memory, pd: p}
	var err error
	if s.ring, err = f.mem.New(int(wr), ring.RecvLen+int(sge)*ring.SGELen); err != nil {
		return unix.ENOMEM
	}
	h, e := f.add(s)
	if e == 0 {
		n := f.dev.number()
		e = r.reply(
			uabi.CreateSRQResp{Handle: h, MaxWR: wr, MaxSGE: sge, Number: n, Ring: s.ring.Info(), ProviderNumber: n},
		)
	}
	if e != 0 {
		_, _ = remove[*srq](f, h)
		s.ring.Free()
		return e
	}
	p.refs.Add(1)
	return 0
}

// What modifySRQ changes: enum ibv_srq_attr_mask.
const (
	srqMaxWR = 1 << 0
	srqLimit = 1 << 1
)

func (f *File) modifySRQ(c uabi.ModifySRQCmd, _ *request) unix.Errno {
	s, e := get[*srq](f, c.Handle)
	if e != 0 {
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Mask&srqMaxWR != 0 {
		if e := s.resize(c.MaxWR, c.RingInfoAt); e != 0 {
			return e
		}
	}
	if c.Mask&srqLimit != 0 {
		if c.Limit > s.maxWR {
			return unix.EINVAL
		}
		s.limit = c.Limit
		s.checkLimit()
	}
	return 0
}

func (s *srq) resize(wr uint32, at uint64) unix.Errno {
	if wr < 1 || wr > maxWR || int(wr) < s.ring.Len() || s.limit > wr {
		return unix.EINVAL
	}
	n, err := s.file.mem.New(int(wr), ring.RecvLen+int(s.maxSGE)*ring.SGELen)
	if err != nil {
		return unix.ENOMEM
	}
	s.ring.Copy(n)
	if e := Put(at, uabi.Append(nil, n.Info())); e != 0 {
		n.Free()
		return e
	}
	s.ring.Free()
	s.ring, s.maxWR = n, wr
	return 0
}

func (f *File) querySRQ(c uabi.DestroyCmd, r *request) unix.Errno {
	s, e := get[*srq](f, c.Handle)
	if e != 0 {
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.reply(uabi.QuerySRQResp{MaxWR: s.maxWR, MaxSGE: s.maxSGE, Limit: s.limit})
}

func (f *File) destroySRQ(c uabi.DestroyCmd, r *request) unix.Errno {
	s, e := remove[*srq](f, c.Handle)
	if e != 0 {
		return e
	}
	return r.reply(uabi.DestroyResp{AsyncEvents: s.destroy()})
}

func (s *srq) destroy() uint32 {
	s.mu.Lock()
	s.ring.Free()
	s.mu.Unlock()
	s.pd.refs.Add(-1)
	return s.end(isSRQEvent)
}

func (s *srq) checkLimit() {
	if uint32(s.ring.Len()) < s.limit {
		s.limit = 0
		s.raise(eventSRQLimit)
	}
}

// take takes the oldest receive for a message; prot says that its memory is not what
// it names.
func (s *srq) take() (b ddp.Buffer, ok, prot bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ring.Freed() || s.ring.Len() == 0 {
		return ddp.Buffer{}, false, false
	}
	if len(s.free) == 0 {
		s.free = append(s.free, uint32(len(s.slots)))
		s.slots = append(s.slots, srqSlot{})
	}
	k := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	slot := &s.slots[k]
	i := s.ring.Consumer()
	e := ring.Recv(s.ring.At(i))
	slot.id, slot.used = e.ID(), true
	l, ok := e.SGEs()
	slot.list = append(slot.list[:0], l...)
	if ok {
		slot.sg, ok = s.memory.resolve(slot.sg[:0], slot.list, true)
	}
	s.ring.SetConsumer(s.ring.Next(i))
	s.checkLimit()
	return ddp.Buffer{SG: slot.sg, Token: uint64(k)}, ok, !ok
}

// finish frees the slot of a receive that has completed, and returns its ID.
func (s *srq) finish(k uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := &s.slots[k]
	if slot.used {
		slot.used = false
		s.free = append(s.free, uint32(k))
	}
	return slot.id
}

// uses reports whether a slot's memory is in the region.
func (s *srq) uses(k uint64, m *mr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.uses(s.slots[k].list)
}
