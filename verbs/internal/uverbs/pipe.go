package uverbs

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
)

// pipe carries events to the program, which reads and polls the other end as it would
// the kernel's descriptor.
type pipe struct {
	r  int // the program's
	mu sync.Mutex
	w  int // -1: closed
}

func newPipe() (*pipe, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	_ = unix.SetNonblock(p[1], true)
	return &pipe{r: p[0], w: p[1]}, nil
}

// close closes both ends, before the program has heard of them.
func (p *pipe) close() {
	p.closeWriter()
	_ = unix.Close(p.r)
}

func (p *pipe) closeWriter() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w >= 0 {
		_ = unix.Close(p.w)
		p.w = -1
	}
}

// send writes an event and reports whether there was room.
func (p *pipe) send(event any) bool {
	b := uabi.Append(nil, event)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w < 0 {
		return false
	}
	n, err := unix.Write(p.w, b)
	return err == nil && n == len(b)
}

// drop takes the events that match, of size octets, out of the pipe, and returns how many
// those were: the program has not read them, and will not.
func (p *pipe) drop(size int, match func([]byte) bool) (n uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w < 0 {
		return 0 // the program's end is closed too, or another file has its number
	}
	var keep []byte
	fds := []unix.PollFd{{Fd: int32(p.r), Events: unix.POLLIN}}
	for {
		if k, err := unix.Poll(fds, 0); k != 1 || err != nil || fds[0].Revents&unix.POLLIN == 0 {
			break
		}
		b := make([]byte, size)
		if k, err := unix.Read(p.r, b); k != size || err != nil {
			break
		}
		if match(b) {
			n++
		} else {
			keep = append(keep, b...)
		}
	}
	if len(keep) > 0 {
		_, _ = unix.Write(p.w, keep)
	}
	return n
}

// Asynchronous events: enum ibv_event_type.
const (
	eventCQErr       = 0
	eventQPFatal     = 1
	eventQPRequest   = 2
	eventQPAccess    = 3
	eventSRQLimit    = 15
	eventLastWQE     = 16
	eventNone        = ^uint32(0)
	asyncEventLen    = 16
	completeEventLen = 8
)

// asyncEvents counts the events of an object.
type asyncEvents struct {
	file *File
	user uint64
	mu   sync.Mutex
	n    uint32
}

func (a *asyncEvents) raise(event uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.file.async; p != nil && p.send(uabi.AsyncEvent{Element: a.user, Type: event}) {
		a.n++
	}
}

// end returns how many events of the object the program has read, and takes the others
// away.
func (a *asyncEvents) end(mine func(event uint32) bool) uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n == 0 {
		return 0
	}
	return a.n - min(a.n, a.file.async.drop(asyncEventLen, func(b []byte) bool {
		return uabi.Order.Uint64(b) == a.user && mine(uabi.Order.Uint32(b[8:]))
	}))
}

func isCQEvent(e uint32) bool  { return e == eventCQErr }
func isSRQEvent(e uint32) bool { return e == eventSRQLimit }
func isQPEvent(e uint32) bool  { return !isCQEvent(e) && !isSRQEvent(e) }
