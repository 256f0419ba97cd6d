package iwarp

import (
	"fmt"
	"slices"
	"sync"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/rdmap"
)

// MW is a memory window: an STag of its own for a part of a region, with rights of
// its own, that a work request binds and another one revokes. It is the way to
// let a peer reach a buffer for the time of one exchange: binding costs less
// than registering, and happens in the order of the send queue.
//
// A window belongs to one QP. Only its peer reaches it, and that peer may end it
// with a Send with Invalidate.
type MW struct {
	qp *QP

	mu sync.Mutex
	// bindings has the STags that may still be valid: the newest, and those that a
	// bind in the queue has yet to replace.
	bindings []binding
}

type binding struct {
	region *ddp.Region
	parent *MR
}

// Bind says what OpBind makes a window reach.
type Bind struct {
	MW     *MW
	MR     *MR
	Offset uint64 // of the window's first octet in the region's slice
	Length uint64 // octets
	Access Access
	// Base is the Tagged Offset of the window's first octet.
	Base uint64
}

// AllocMW makes a window without a binding for the QP.
func (q *QP) AllocMW() (*MW, error) {
	if err := q.pd.take(resMR, 1); err != nil {
		return nil, err
	}
	q.pd.used.Add(1)
	return &MW{qp: q}, nil
}

// STag is the window's name for the peer: 0 before the first bind is posted, and
// a new, unpredictable one with each bind. It is known as soon as OpBind is
// posted, so that a Send posted next may carry it, and valid from the bind's turn
// in the queue on.
func (w *MW) STag() STag { return w.Remote(0).STag }

// Remote is what to tell the peer so that it reaches the octet at offset off of
// the window.
func (w *MW) Remote(off uint64) RemoteBuffer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.newest(); r != nil {
		return RemoteBuffer{STag: r.STag(), TO: r.Base() + off}
	}
	return RemoteBuffer{}
}

// Valid reports whether the peer can use the newest binding now.
func (w *MW) Valid() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.newest()
	return r != nil && r.Valid()
}

func (w *MW) newest() *ddp.Region {
	if n := len(w.bindings); n > 0 {
		return w.bindings[n-1].region
	}
	return nil
}

// Close revokes the window's binding and gives the window back. It is idempotent.
func (w *MW) Close() {
	w.end(func(binding) bool { return true })
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.qp != nil {
		w.qp.pd.leave()
		w.qp.pd.give(resMR, 1)
		w.qp = nil
	}
}

// revoke ends the bindings to a region that goes away.
func (w *MW) revoke(parent *MR) { w.end(func(b binding) bool { return b.parent == parent }) }

// end deregisters the bindings that f picks. When it returns no peer reaches
// memory through them.
func (w *MW) end(f func(binding) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ended []binding
	w.bindings = slices.DeleteFunc(w.bindings, func(b binding) bool {
		if f(b) {
			ended = append(ended, b)
			return true
		}
		return false
	})
	w.drop(ended)
}

// drop deregisters bindings that are not among w.bindings any more. w.mu is held,
// so that no new binding to the same region comes between and is forgotten too.
func (w *MW) drop(ended []binding) {
	for _, b := range ended {
		b.region.Deregister()
		if !slices.ContainsFunc(w.bindings, func(x binding) bool { return x.parent == b.parent }) {
			b.parent.forget(w)
		}
	}
}

// postBind posts a bind. One that is refused leaves its window as it was.
func (c *Conn) postBind(r *rdmap.Request, b *Bind) error {
	made, err := b.prepare(c.qp)
	if err != nil {
		return err
	}
	w := b.MW // the struct is the caller's again when it is posted
	r.Local = func() error { return w.activate(made.region, made.parent) }
	if err := c.enqueue(r); err != nil {
		w.end(func(x binding) bool { return x.region == made.region })
		return err
	}
	return nil
}

// prepare checks a bind when it is posted and makes its STag, which activate makes
// valid in the bind's turn.
func (b *Bind) prepare(q *QP) (binding, error) {
	if b == nil || b.MW == nil || b.MR == nil {
		return binding{}, fmt.Errorf("%w: OpBind needs Bind with MW and MR", ErrInvalidWR)
	}
	size := uint64(len(b.MR.buf))
	if b.Offset > size || b.Length > size-b.Offset {
		return binding{}, fmt.Errorf("%w: window of %d octets at offset %d: outside its region of %d octets (RFC 5040 section 8.1.1)", ErrInvalidWR, b.Length, b.Offset, size)
	}
	if b.MR.pd != q.pd {
		return binding{}, fmt.Errorf("%w: Bind.MR is of another protection domain than the QP", ErrInvalidWR)
	}
	buf := b.MR.buf[b.Offset : b.Offset+b.Length : b.Offset+b.Length]
	if err := q.pd.mayGrant(buf, b.Access); err != nil {
		return binding{}, err
	}
	region, err := q.dev.table.Register(ddp.RegionConfig{
		Buf: buf, Base: b.Base, Access: b.Access, PD: q.pd.id, Stream: q.stream,
	})
	if err != nil {
		return binding{}, err
	}
	region.Invalidate() // until its turn; nobody knows the STag yet
	made := binding{region, b.MR}
	if err := b.MW.add(q, made); err != nil {
		region.Deregister()
		return binding{}, err
	}
	return made, nil
}

// add makes b the newest binding.
func (w *MW) add(q *QP, b binding) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.qp != q {
		return fmt.Errorf("%w: Bind.MW is closed or of another QP", ErrInvalidWR)
	}
	if err := b.parent.adopt(w); err != nil {
		return err
	}
	w.bindings = append(w.bindings, b)
	return nil
}

// activate makes a binding valid in its turn in the send queue, and ends those
// before it: a window has one.
func (w *MW) activate(region *ddp.Region, parent *MR) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.bindings, func(b binding) bool { return b.region == region })
	if i < 0 {
		return fmt.Errorf("iwarp: bind of a window: it was closed, or its region was, before the bind's turn")
	}
	older := slices.Clone(w.bindings[:i])
	w.bindings = slices.Delete(w.bindings, 0, i)
	w.drop(older)
	if !parent.Valid() {
		return fmt.Errorf("iwarp: bind of a window: STag %v of its region is not valid", parent.STag())
	}
	region.Rekey(uint8(region.STag())) // unchanged, and valid now
	return nil
}
