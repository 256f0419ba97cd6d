package iwarp

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/go-iwarp/iwarp/ddp"
)

// MW is a memory window: an STag of its own for a part of a region, with rights of
// its own, that a work request binds and another one revokes. It is the way to
// let a peer reach a buffer for the time of one exchange: binding costs less
// than registering, and happens in the order of the send queue.
//
// A window belongs to one QP. Only its peer reaches it, and that peer may end it
// with a Send with Invalidate. Its binding also ends with the region: whatever
// takes rights from the region takes them from its windows.
//
// A window counts to the quotas of regions and windows once, with the binding that
// it has and one that waits in the queue. Each further bind that waits counts once
// more until its turn, and is refused with [ErrLimit] where there is no more.
type MW struct {
	qp *QP

	mu sync.Mutex
	// bindings has the STags that may still be valid: the newest, and those that a
	// bind in the queue has yet to replace.
	bindings []*ddp.Region
}

// Bind says what OpBind makes a window reach.
type Bind struct {
	MW     *MW
	MR     *MR    // of the QP's domain, and not bound to another QP
	Offset uint64 // of the window's first octet in the region's slice
	Length uint64 // octets
	// Access is what the peer may do. With RemoteAtomic the window's first octet has to lie at an
	// address that is a multiple of eight, and Base has to be one: see [PD.NewMR].
	Access Access
	// Base is the Tagged Offset of the window's first octet. Base plus Length must
	// stay below 2^64.
	Base uint64
}

// NewMW makes a window without a binding for the QP.
func (q *QP) NewMW() (*MW, error) {
	if err := q.made(); err != nil {
		return nil, err
	}
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
func (w *MW) STag() STag { return w.Remote().STag }

// Remote returns what to tell the peer so that it reaches the window: see [MR.Remote]. It
// is zero before the first bind is posted.
func (w *MW) Remote() RemoteBuffer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.newest(); r != nil {
		return RemoteBuffer{STag: r.STag(), TO: r.Base(), Length: uint64(r.Len())}
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
		return w.bindings[n-1]
	}
	return nil
}

// Close revokes the window's binding and gives the window back. It is idempotent, and its
// error is nil.
func (w *MW) Close() error {
	if w == nil {
		return notMade("MW", "QP.NewMW")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.bindings {
		r.Deregister()
	}
	w.keep(nil)
	if w.qp != nil {
		w.qp.pd.leave()
		w.qp.pd.give(resMR, 1)
		w.qp = nil
	}
	return nil
}

// Activate implements [rdmap.Binding], so that a Bind fits [SendWR]. Programs do not
// call it: what takes effect in the bind's turn is made of the Bind when it is posted.
func (b *Bind) Activate() error { return fmt.Errorf("%w: a Bind that was not posted", ErrInvalidWR) }

// preparedBind is a bind in the queue.
type preparedBind struct {
	w      *MW
	region *ddp.Region
}

// Activate implements [rdmap.Binding].
func (p *preparedBind) Activate() error { return p.w.activate(p.region) }

// postBind posts a bind. One that is refused leaves its window as it was.
func (c *Conn) postBind(wr *SendWR) error {
	b, _ := wr.Bind.(*Bind)
	region, err := b.prepare(c.qp)
	if err != nil {
		return err
	}
	w := b.MW // the struct is the caller's again when it is posted
	r := *wr
	r.Bind = &preparedBind{w, region}
	if err := c.enqueue(&r); err != nil {
		w.drop(region)
		return err
	}
	return nil
}

// prepare checks a bind when it is posted and makes its STag, which activate makes
// valid in the bind's turn.
func (b *Bind) prepare(q *QP) (*ddp.Region, error) {
	if b == nil || b.MW == nil || b.MR == nil {
		return nil, fmt.Errorf("%w: OpBind needs Bind with MW and MR", ErrInvalidWR)
	}
	size := uint64(len(b.MR.buf))
	// Rule: RDMAP-8.1.1-03
	if b.Offset > size || b.Length > size-b.Offset {
		return nil,
			fmt.Errorf("%w: window of %d octets at offset %d: outside its region of %d octets (RFC 5040 section 8.1.1)",
				ErrInvalidWR, b.Length, b.Offset, size)
	}
	if b.MR.pd != q.pd {
		return nil, fmt.Errorf("%w: Bind.MR is of another protection domain than the QP", ErrInvalidWR)
	}
	if s := b.MR.region.Stream(); s != 0 && s != q.stream {
		return nil, fmt.Errorf("%w: Bind.MR is bound to another QP (RFC 5040 section 8.1.1)", ErrInvalidWR)
	}
	if b.MR.done.Load() {
		return nil, fmt.Errorf("%w: Bind.MR: %w", ErrInvalidWR, net.ErrClosed)
	}
	buf := b.MR.buf[b.Offset : b.Offset+b.Length : b.Offset+b.Length]
	if err := reachable(buf, b.Base, b.Access); err != nil {
		return nil, fmt.Errorf("Bind: %w", err)
	}
	// Rule: DDP-8.3-06, DDP-8.3.2-04, RDMAP-8.1.2-03, SEC-7.3-01
	if err := q.pd.mayGrant(buf, b.Access); err != nil {
		return nil, err
	}
	region, err := q.dev.table.Register(ddp.RegionConfig{
		Buf: buf, Base: b.Base, Access: b.Access, PD: q.pd.id, Stream: q.stream, Parent: b.MR.region,
	})
	switch {
	case errors.Is(err, ddp.ErrTableFull):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: Bind: %w", ErrInvalidWR, err)
	}
	if err := b.MW.add(q, region); err != nil {
		region.Deregister()
		return nil, err
	}
	return region, nil
}

// add makes region the newest binding.
func (w *MW) add(q *QP, region *ddp.Region) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.qp != q {
		return fmt.Errorf("%w: Bind.MW is closed or of another QP", ErrInvalidWR)
	}
	if len(w.bindings) >= boundFree {
		if err := q.pd.take(resMR, 1); err != nil {
			return err
		}
	}
	w.bindings = append(w.bindings, region)
	return nil
}

// boundFree is how many bindings a window has for its own count: the one in force and
// the next.
const boundFree = 2

// keep leaves the window with these bindings, fewer than before, and gives back what
// the others have counted.
func (w *MW) keep(bindings []*ddp.Region) {
	was, is := max(0, len(w.bindings)-boundFree), max(0, len(bindings)-boundFree)
	w.bindings = bindings
	if was > is {
		w.qp.pd.give(resMR, int64(was-is))
	}
}

// drop takes a binding back.
func (w *MW) drop(region *ddp.Region) {
	w.mu.Lock()
	defer w.mu.Unlock()
	region.Deregister()
	if i := slices.Index(w.bindings, region); i >= 0 {
		w.keep(slices.Delete(slices.Clone(w.bindings), i, i+1))
	}
}

// activate makes a binding valid in its turn in the send queue, and ends those
// before it: a window has one.
func (w *MW) activate(region *ddp.Region) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.bindings, region)
	if i < 0 {
		return fmt.Errorf("iwarp: bind of a window: it was closed before the bind's turn")
	}
	for _, older := range w.bindings[:i] {
		older.Deregister()
	}
	rest := copy(w.bindings, w.bindings[i:])
	clear(w.bindings[rest:])
	w.keep(w.bindings[:rest])
	if err := region.Activate(); err != nil {
		return fmt.Errorf("iwarp: bind of a window: %w", err)
	}
	return nil
}
