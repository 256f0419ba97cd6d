package uverbs

import (
	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
)

// newMR registers memory.
func (f *File) newMR(pdHandle uint32, start, length, iova uint64, access uint32) (*mr, unix.Errno) {
	if e := checkAccess(access); e != 0 {
		return nil, e
	}
	p, e := get[*pd](f, pdHandle)
	if e != 0 {
		return nil, e
	}
	if length > 1<<62 || start+length < start || iova+length < iova {
		return nil, unix.EINVAL
	}
	if !mapped(start, length) {
		return nil, unix.EFAULT
	}
	if access&accessZeroBased != 0 {
		iova = 0
	}
	m, err := p.p.NewMR(Memory(start, length), remoteAccess(access), &iwarp.MROptions{Base: iova})
	if err != nil {
		f.dev.logger.Debug("reg_mr", "error", err)
		return nil, errno(err)
	}
	x := &mr{pd: p, m: m, start: start, end: start + length, iova: iova, access: access}
	p.refs.Add(1)
	f.dev.memory.add(x)
	return x, 0
}

// destroy is DEREG_MR: when it returns the memory is the program's alone. A work request
// that is at work on it ends its connection, as one does whose key is wrong.
func (m *mr) destroy(d *Device) {
	d.memory.remove(m)
	_ = m.m.Close()
	d.mu.RLock()
	var busy []*QP
	for _, q := range d.qps {
		if q.pd == m.pd && q.usesNow(m) {
			busy = append(busy, q)
		}
	}
	d.mu.RUnlock()
	for _, q := range busy {
		d.logger.Debug("dereg_mr under a work request", "qp", q.qpn)
		q.toError(eventQPFatal)
	}
	m.pd.refs.Add(-1)
}

func (f *File) deregMR(c uabi.HandleCmd, _ *request) unix.Errno {
	m, e := remove[*mr](f, c.Handle)
	if e == 0 {
		m.destroy(f.dev)
	}
	return e
}

// What reregMR changes: enum ibv_rereg_mr_flags.
const (
	reregTranslation = 1 << 0
	reregPD          = 1 << 1
	reregAccess      = 1 << 2
	reregAll         = reregTranslation | reregPD | reregAccess
)

// reregMR makes a new region in the place of the old one, which is gone before.
func (f *File) reregMR(c uabi.ReregMRCmd, r *request) unix.Errno {
	if c.Flags == 0 || c.Flags&^reregAll != 0 {
		return unix.EINVAL
	}
	old, e := get[*mr](f, c.Handle)
	if e != 0 {
		return e
	}
	start, length, iova, access := old.start, old.end-old.start, old.iova, old.access
	if c.Flags&reregTranslation != 0 {
		start, length, iova = c.Start, c.Length, c.IOVA
	}
	if c.Flags&reregAccess != 0 {
		access = c.Access
	}
	pdHandle := c.PD
	if c.Flags&reregPD == 0 {
		if pdHandle, e = f.handleOf(old.pd); e != 0 {
			return e
		}
	}
	m, e := f.newMR(pdHandle, start, length, iova, access)
	if e != 0 {
		return e
	}
	f.mu.Lock()
	if f.objects[c.Handle] != any(old) {
		f.mu.Unlock()
		m.destroy(f.dev)
		return unix.EINVAL
	}
	f.objects[c.Handle] = m
	f.mu.Unlock()
	old.destroy(f.dev)
	return r.reply(uabi.ReregMRResp{LKey: m.key(), RKey: m.key()})
}

func (f *File) handleOf(o any) (uint32, unix.Errno) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for h, x := range f.objects {
		if x == o {
			return h, 0
		}
	}
	return 0, unix.EINVAL
}
