package iwarp

import (
	"fmt"
	"sync/atomic"

	"github.com/go-iwarp/iwarp/ddp"
)

// Access is a set of rights that the peer has on a region. The local program
// needs none: it has the slice.
type Access = ddp.Access

// The rights.
const (
	RemoteRead  = ddp.RemoteRead  // RDMA Read may read it
	RemoteWrite = ddp.RemoteWrite // RDMA Write may change it
	// RemoteAtomic: atomics may change it. They act on words of 64 bits in the byte order
	// of this machine, at addresses that are multiples of eight, and are atomic towards
	// those of every peer, MR.CompareAndSwap, and sync/atomic.
	RemoteAtomic = ddp.RemoteAtomic
)

// MROptions are the less usual properties of a region.
type MROptions struct {
	// QP, if not nil, binds the region to that queue pair's stream: no other
	// connection reaches it, not even of the same domain, and the peer may
	// invalidate it. Nil: every connection of the domain reaches it, and no peer
	// can invalidate it (RFC 5040 section 8.1.1).
	QP *QP
	// Base is the Tagged Offset of the region's first octet. Zero keeps addresses
	// of this process to itself.
	Base uint64
	// Concurrent says that peers may reach the same octets at the same time: one reads
	// while another writes, or while an atomic changes a word. What is read then may be
	// torn, part old and part new, and what two write may be mixed, as on any RNIC
	// (https://www.rfc-editor.org/rfc/rfc5040#section-5.5); the peers' protocol tells (by
	// versions, say, as examples/kv does). Without it the race detector reports such accesses,
	// like any other race; it changes nothing else. The program itself uses Load, Store,
	// CompareAndSwap and Update.
	Concurrent bool
}

// MR is a memory region: a slice that the peer may reach through an STag. Until
// Close or Invalidate the library reads and writes the slice on the peer's
// behalf, at any time; the program finds a peer's Write complete when a later
// message of the same connection has arrived (RFC 5040 section 5.5), and polling
// the slice instead is a data race. While peers use it, the program reads and changes it by
// Load, Store, CompareAndSwap and Update.
type MR struct {
	pd     *PD
	region *ddp.Region
	buf    []byte
	done   atomic.Bool
}

// NewMR makes a region of buf with the rights access. The STag is
// unpredictable. buf may come from mmap and may be larger than 4 GiB; it must
// stay valid until Close. opts may be nil.
// With [RemoteAtomic] the address of buf's first octet must be a multiple of eight, as that of
// [AllocBuffer] and of a make of eight octets or more is, and opts.Base too, so that words
// which the peer may name by a TO that is a multiple of eight lie at such addresses.
//
// If buf is a mapped file and that becomes shorter, a peer that reaches what is
// missing loses its connection (1/0/00 for a Write, 0/2/07 for a Read or an atomic),
// and the process goes on. Do not unmap buf before Close: other memory may be mapped
// in its place, and nobody would notice.
func (p *PD) NewMR(buf []byte, access Access, opts *MROptions) (*MR, error) {
	if err := p.made(); err != nil {
		return nil, err
	}
	var o MROptions
	if opts != nil {
		o = *opts
	}
	c := ddp.RegionConfig{Buf: buf, Base: o.Base, Access: access, PD: p.id, Racy: o.Concurrent}
	if o.QP != nil {
		if o.QP.pd != p {
			return nil, fmt.Errorf("iwarp: MROptions.QP is of another protection domain")
		}
		// Rule: DDP-8.2-03
		c.Stream = o.QP.stream
	}
	if err := reachable(buf, o.Base, access); err != nil {
		return nil, err
	}
	if err := p.authorize(buf, access); err != nil {
		return nil, err
	}
	region, err := p.dev.table.Register(c)
	if err != nil {
		p.give(resMR, 1)
		p.give(resOctets, int64(len(buf)))
		return nil, err
	}
	p.used.Add(1)
	return &MR{pd: p, region: region, buf: buf}, nil
}

// mayGrant asks whoever decides about rights.
func (p *PD) mayGrant(buf []byte, access Access) error {
	if p.dev.authorize == nil {
		return nil
	}
	return p.dev.authorize(p, buf, access)
}

// authorize asks whoever decides about rights, and counts the region, before it
// has an STag.
func (p *PD) authorize(buf []byte, access Access) error {
	// Rule: DDP-8.3-06, DDP-8.3.2-04, RDMAP-8.1.2-03, SEC-7.3-01
	if err := p.mayGrant(buf, access); err != nil {
		return err
	}
	if err := p.take(resMR, 1); err != nil {
		return err
	}
	if err := p.take(resOctets, int64(len(buf))); err != nil {
		p.give(resMR, 1)
		return err
	}
	return nil
}

// STag is the region's name for the peer.
func (m *MR) STag() STag { return m.region.STag() }

// Remote returns what to tell the peer so that it reaches the region, whole; the peer
// uses it, or a [RemoteBuffer.Slice] of it, in its Writes, Reads and atomics.
func (m *MR) Remote() RemoteBuffer {
	return RemoteBuffer{STag: m.region.STag(), TO: m.region.Base(), Length: uint64(len(m.buf))}
}

// Bytes is the slice as registered.
func (m *MR) Bytes() []byte { return m.buf }

// Valid reports whether the peer can use the STag. It turns false by Invalidate,
// Close, or the peer's Send with Invalidate.
func (m *MR) Valid() bool { return m.region.Valid() }

// Invalidate ends every access by peers, and every window bound to the region. When
// it returns the library no longer reads or writes the slice for anybody (RFC 5041
// section 8.3.1). The region keeps its STag, which Rekey makes usable again.
//
// OpInvalidate and the peer's Send with Invalidate do the same, in their turn.
func (m *MR) Invalidate() {
	if m.made() == nil {
		m.region.Invalidate()
	}
}

// SetAccess changes the rights, with the same guarantee for rights taken away. A
// window bound to the region loses the rights that are not in access, also one that
// the region itself never gave; with none left in access it ends. The error is
// DeviceConfig.Authorize's; the rights are as before then.
func (m *MR) SetAccess(access Access) error {
	if err := m.made(); err != nil {
		return err
	}
	// Rule: DDP-8.3-06, DDP-8.3.2-04, RDMAP-8.1.2-03, SEC-7.3-01
	if err := m.pd.mayGrant(m.buf, access); err != nil {
		return err
	}
	if err := reachable(m.buf, m.region.Base(), access); err != nil {
		return err
	}
	m.region.SetAccess(access)
	return nil
}

// Rekey makes the region valid with a new key, the low octet of its STag. The old
// STag is then unknown, and the windows bound to the region have ended.
func (m *MR) Rekey(key uint8) STag { return m.region.Rekey(key) }

// Close invalidates the region and gives it back. It is idempotent, and its error is nil.
func (m *MR) Close() error {
	if err := m.made(); err != nil {
		return err
	}
	if m.done.Swap(true) {
		return nil
	}
	m.region.Deregister()
	m.pd.leave()
	m.pd.give(resMR, 1)
	m.pd.give(resOctets, int64(len(m.buf)))
	return nil
}
