package verbstest

import (
	"sync/atomic"
	"unsafe"
)

func (q *Queue) index(at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&q.mem[at])) }

func (q *Queue) element(i uint32) []byte {
	o := 384 + int(i)*q.size
	return q.mem[o : o+q.size]
}

// Put writes an element.
func (q *Queue) Put(write func([]byte)) {
	p := q.index(128)
	i := p.Load()
	write(q.element(i))
	p.Store((i + 1) & q.mask)
}

// Take takes an element, nil if there is none.
func (q *Queue) Take() []byte {
	p, c := q.index(128), q.index(256)
	i := c.Load()
	if i == p.Load() {
		return nil
	}
	b := append([]byte(nil), q.element(i)...)
	c.Store((i + 1) & q.mask)
	return b
}
