package uverbs

import (
	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
)

func (f *File) getContext(_ uabi.Resp, r *request) unix.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.async != nil {
		return unix.EINVAL
	}
	p, err := newPipe()
	if err != nil {
		return unix.EMFILE
	}
	if e := r.reply(uabi.GetContextResp{AsyncFD: int32(p.r), CompVectors: 1}); e != 0 {
		p.close()
		return e
	}
	f.async = p
	return 0
}

// Capabilities: enum ib_uverbs_device_cap_flags.
const (
	capCurrentState = 1 << 7
	capSRQResize    = 1 << 13
	capNotify       = 1 << 14
	capMemMgt       = 1 << 21
)

func (f *File) deviceAttr() uabi.QueryDeviceResp {
	l := f.dev.dev.Limits()
	return uabi.QueryDeviceResp{
		FirmwareVersion: 1 << 32, NodeGUID: GUID, SystemGUID: GUID,
		MaxMRSize: 1<<63 - 1, PageSizes: 0xfffff000, VendorID: 0x626d74, VendorPart: 1,
		MaxQP: uint32(
			min(l.MaxQP, 1<<20),
		), MaxQPWR: maxWR, CapFlags: capCurrentState | capNotify | capMemMgt | capSRQResize,
		MaxSGE: maxSGE, MaxSGERead: maxSGE, MaxCQ: uint32(l.MaxCQ), MaxCQE: maxCQE,
		MaxMR: uint32(min(l.MaxMR, 1<<24-1)), MaxPD: uint32(l.MaxPD),
		MaxQPReads: maxReads, MaxReads: maxReads * 1024, MaxQPInitReads: maxReads, AtomicCap: 1,
		MaxSRQ: 65536, MaxSRQWR: maxWR, MaxSRQSGE: maxSGE, MaxPKeys: 1, Ports: 1,
	}
}

func (f *File) queryDevice(_ uabi.Resp, r *request) unix.Errno { return r.reply(f.deviceAttr()) }

func (f *File) queryDeviceEx(r *request) unix.Errno {
	a := f.deviceAttr()
	return r.reply(uabi.QueryDeviceExResp{
		Base: a, ResponseLength: uint32(min(r.out, uabi.Size[uabi.QueryDeviceExResp]())), CapFlags: uint64(a.CapFlags),
	})
}

func (f *File) queryPort(c uabi.QueryPortCmd, r *request) unix.Errno {
	if c.Port != 1 {
		return unix.EINVAL
	}
	return r.reply(uabi.QueryPortResp{
		CapFlags: 1 << 16 /* CM */, MaxMessage: 1 << 31, GIDs: 1, PKeys: 1,
		State: 4 /* active */, MaxMTU: 5, ActiveMTU: 3, Width: 2 /* 4x */, Speed: 32, /* 25 Gbit/s */
		PhysState: 5 /* link up */, LinkLayer: 2, /* Ethernet */
	})
}

func (f *File) allocPD(_ uabi.Resp, r *request) unix.Errno {
	p, err := f.dev.dev.NewPD()
	if err != nil {
		return errno(err)
	}
	o := &pd{p: p}
	h, e := f.add(o)
	if e == 0 {
		e = r.reply(uabi.HandleResp{Handle: h})
	}
	if e != 0 {
		_, _ = remove[*pd](f, h)
		_ = p.Close()
	}
	return e
}

func (f *File) deallocPD(c uabi.HandleCmd, _ *request) unix.Errno {
	p, e := remove[*pd](f, c.Handle)
	if e == 0 {
		_ = p.p.Close() // what is leaving in the background closes it
	}
	return e
}

func (f *File) regMR(c uabi.RegMRCmd, r *request) unix.Errno {
	m, e := f.newMR(c.PD, c.Start, c.Length, c.IOVA, c.Access)
	if e != 0 {
		return e
	}
	h, e := f.add(m)
	if e == 0 {
		e = r.reply(uabi.RegMRResp{Handle: h, LKey: m.key(), RKey: m.key()})
	}
	if e != 0 {
		_, _ = remove[*mr](f, h)
		m.destroy(f.dev)
	}
	return e
}
