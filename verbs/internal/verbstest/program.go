// Package verbstest is a program of libibverbs and librdmacm in Go, for tests: it writes
// the commands that those libraries write, and drives librxe's queues.
package verbstest

import (
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp/verbs/internal/ring"
	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
	"github.com/go-iwarp/iwarp/verbs/internal/ucma"
	"github.com/go-iwarp/iwarp/verbs/internal/uverbs"
)

// Program has one open device of each kind, and memory that lies outside of Go's.
type Program struct {
	T     testing.TB
	Verbs *uverbs.File
	CM    *ucma.Channel
	FD    int // of Verbs
	CMFD  int

	mem  []byte
	used int
}

// patience bounds what a test waits for when something has gone wrong.
const patience = 20 * time.Second

// New opens the devices.
func New(t testing.TB, d *uverbs.Device, m *ucma.Manager) *Program {
	t.Helper()
	p := &Program{T: t}
	var err error
	p.mem, err = unix.Mmap(-1, 0, 1<<22, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	if p.Verbs, p.FD, err = d.Open(); err != nil {
		t.Fatal(err)
	}
	if p.CM, p.CMFD, err = m.Open(); err != nil {
		t.Fatal(err)
	}
	p.Must(p.Do(uabi.GetContext, 8, uabi.Resp{}))
	t.Cleanup(p.Close)
	return p
}

// Close closes the devices, as the end of a process does.
func (p *Program) Close() {
	if p.Verbs != nil {
		p.Verbs.Close()
		p.CM.Close()
		_ = unix.Close(p.FD)
		_ = unix.Close(p.CMFD)
		p.Verbs = nil
	}
}

// Bytes returns memory of the program's, and its address.
func (p *Program) Bytes(n int) ([]byte, uint64) {
	b := p.mem[p.used : p.used+n : p.used+n]
	p.used += (n + 63) &^ 63
	return b, uint64(uintptr(unsafe.Pointer(&b[0])))
}

// Must fails the test with an errno.
func (p *Program) Must(b []byte, e unix.Errno) []byte {
	p.T.Helper()
	if e != 0 {
		p.T.Fatalf("command failed: %v", e)
	}
	return b
}

// Do executes a command of uverbs0 whose body begins with the address of a response of n
// octets, or has none (0), and returns the response.
func (p *Program) Do(command uint32, n int, body ...any) ([]byte, unix.Errno) {
	b := uabi.Append(nil, uabi.Header{Command: command, Out: uint16(n / 4)})
	for _, v := range body {
		b = uabi.Append(b, v)
	}
	uabi.Order.PutUint16(b[4:], uint16(len(b)/4))
	return p.execute(b, n, uabi.HeaderLen, p.Verbs.Command)
}

// DoEx executes an extended command with a response of n octets and a provider's of m.
func (p *Program) DoEx(command uint32, n, m int, body ...any) ([]byte, unix.Errno) {
	b := uabi.Append(nil, uabi.Header{Command: command | uabi.Extended, Out: uint16(n / 8)})
	b = uabi.Append(b, uabi.ExtendedHeader{ProviderOut: uint16(m / 8)})
	head := len(b)
	for _, v := range body {
		b = uabi.Append(b, v)
	}
	uabi.Order.PutUint16(b[4:], uint16((len(b)-head)/8))
	return p.execute(b, n+m, uabi.HeaderLen, p.Verbs.Command)
}

// DoCM executes a command of rdma_cm, in which the response's address is at octet at of
// the body; -1: there is none.
func (p *Program) DoCM(command uint32, n, at int, body any) ([]byte, unix.Errno) {
	b := uabi.Append(nil, uabi.Header{Command: command, Out: uint16(n)})
	b = uabi.Append(b, body)
	uabi.Order.PutUint16(b[4:], uint16(len(b)-uabi.HeaderLen))
	if at < 0 {
		return nil, p.CM.Command(b)
	}
	return p.execute(b, n, uabi.HeaderLen+at, p.CM.Command)
}

func (p *Program) execute(b []byte, n, at int, run func([]byte) unix.Errno) ([]byte, unix.Errno) {
	if n == 0 {
		return nil, run(b)
	}
	used := p.used
	resp, addr := p.Bytes(n)
	uabi.Order.PutUint64(b[at:], addr)
	e := run(b)
	resp = append([]byte(nil), resp...)
	p.used = used
	return resp, e
}

// Decode reads a response.
func Decode[T any](t testing.TB, b []byte) T {
	t.Helper()
	v, err := uabi.Decode[T](b)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Handle reads a response that is a handle.
func (p *Program) Handle(b []byte, e unix.Errno) uint32 {
	p.T.Helper()
	return Decode[uabi.HandleResp](p.T, p.Must(b, e)).Handle
}

// Queue is a ring as the program has mapped it.
type Queue struct {
	mem  []byte
	mask uint32
	size int
}

// Map maps a ring.
func (p *Program) Map(i uabi.RingInfo) *Queue {
	p.T.Helper()
	m, err := unix.Mmap(p.FD, int64(i.Offset), int(i.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		p.T.Fatal(err)
	}
	p.T.Cleanup(func() { _ = unix.Munmap(m) })
	return &Queue{mem: m, mask: uabi.Order.Uint32(m[4:]), size: 1 << uabi.Order.Uint32(m)}
}

// CQ is a completion queue.
type CQ struct {
	Handle uint32
	queue  *Queue
}

// NewCQ makes a completion queue without a channel.
func (p *Program) NewCQ(n uint32) *CQ {
	p.T.Helper()
	b := p.Must(p.Do(uabi.CreateCQ, 24, uabi.CreateCQCmd{CQE: n, Channel: -1}))
	return &CQ{Decode[uabi.CreateCQResp](p.T, b).Handle, p.Map(Decode[uabi.RingInfo](p.T, b[8:]))}
}

// Wait waits for a completion.
func (q *CQ) Wait(t testing.TB) ring.Completion {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Microsecond) {
		if b := q.queue.Take(); b != nil {
			return ring.ParseCompletion(b)
		}
	}
	t.Fatal("no completion")
	return ring.Completion{}
}

// QP is a queue pair and its memory.
type QP struct {
	Handle, QPN, PD uint32
	CQ              *CQ
	send, recv      *Queue
}

// NewQP makes a queue pair with its own domain and completion queue.
func (p *Program) NewQP() *QP {
	p.T.Helper()
	q := &QP{PD: p.Handle(p.Do(uabi.AllocPD, 4, uabi.Resp{})), CQ: p.NewCQ(64)}
	b := p.Must(p.Do(uabi.CreateQP, 64, uabi.Resp{}, uabi.CreateQPCmd{
		PD: q.PD, SendCQ: q.CQ.Handle, RecvCQ: q.CQ.Handle, Type: 2, Caps: uabi.Caps{
			SendWR: 16, RecvWR: 16, SendSGE: 2, RecvSGE: 2,
		},
	}))
	r := Decode[uabi.CreateQPResp](p.T, b)
	q.Handle, q.QPN = r.Handle, r.QPN
	q.recv, q.send = p.Map(Decode[uabi.RingInfo](p.T, b[32:])), p.Map(Decode[uabi.RingInfo](p.T, b[48:]))
	return q
}

// Register registers memory.
func (p *Program) Register(q *QP, addr uint64, n int, access uint32) uabi.RegMRResp {
	p.T.Helper()
	b := p.Must(
		p.Do(uabi.RegMR, 12, uabi.RegMRCmd{Start: addr, Length: uint64(n), IOVA: addr, PD: q.PD, Access: access}),
	)
	return Decode[uabi.RegMRResp](p.T, b)
}

// SGE names memory.
type SGE struct {
	Addr      uint64
	Len, LKey uint32
}

func putList(b []byte, l []SGE) {
	for i, s := range l {
		uabi.Order.PutUint64(b[i*16:], s.Addr)
		uabi.Order.PutUint32(b[i*16+8:], s.Len)
		uabi.Order.PutUint32(b[i*16+12:], s.LKey)
	}
}

// PostRecv posts a receive.
func (q *QP) PostRecv(id uint64, l ...SGE) {
	q.recv.Put(func(b []byte) {
		uabi.Order.PutUint64(b, id)
		uabi.Order.PutUint32(b[28:], uint32(len(l)))
		putList(b[ring.RecvLen:], l)
	})
}

// Send is a work request.
type Send struct {
	ID               uint64
	Opcode, Flags    uint32
	Extra            [4]byte
	Addr             uint64
	RKey             uint32
	CompareAdd, Swap uint64
	List             []SGE
	Inline           []byte
}

// PostSend posts a work request and rings the doorbell.
func (p *Program) PostSend(q *QP, s *Send) {
	p.T.Helper()
	q.send.Put(func(b []byte) {
		clear(b[:ring.SendLen])
		o := uabi.Order
		o.PutUint64(b, s.ID)
		o.PutUint32(b[12:], s.Opcode)
		o.PutUint32(b[16:], s.Flags)
		copy(b[20:], s.Extra[:])
		o.PutUint64(b[24:], s.Addr)
		if s.Opcode == ring.OpCmpSwap || s.Opcode == ring.OpFetchAdd {
			o.PutUint64(b[32:], s.CompareAdd)
			o.PutUint64(b[40:], s.Swap)
			o.PutUint32(b[48:], s.RKey)
		} else {
			o.PutUint32(b[32:], s.RKey)
		}
		if s.Inline != nil {
			o.PutUint32(b[184:], uint32(len(s.Inline)))
			copy(b[ring.SendLen:], s.Inline)
		} else {
			o.PutUint32(b[196:], uint32(len(s.List)))
			putList(b[ring.SendLen:], s.List)
		}
	})
	if e := p.Verbs.Doorbell(q.Handle); e != 0 {
		p.T.Fatalf("doorbell: %v", e)
	}
}

// NextEvent waits for an event of rdma_cm.
func (p *Program) NextEvent(want uint32) uabi.EventResp {
	p.T.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		b, e := p.DoCM(uabi.CMGetEvent, 336, 0, uabi.Resp{})
		if e == unix.EAGAIN {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(p.CMFD), Events: unix.POLLIN}}, 1000)
			continue
		}
		p.Must(b, e)
		ev := Decode[uabi.EventResp](p.T, b)
		if ev.Event != want {
			p.T.Fatalf("event %d with status %d, want %d", ev.Event, int32(ev.Status), want)
		}
		return ev
	}
	p.T.Fatalf("no event %d", want)
	return uabi.EventResp{}
}

// NewID makes an identifier.
func (p *Program) NewID(uid uint64) uint32 {
	p.T.Helper()
	return p.Handle(p.DoCM(uabi.CMCreateID, 4, 8, uabi.CMCreateIDCmd{UID: uid, PortSpace: 0x106, QPType: 2}))
}

// Loopback is a sockaddr of 127.0.0.1.
func Loopback(port uint16) (a uabi.SockaddrStorage) {
	uabi.Order.PutUint16(a[:], unix.AF_INET)
	a[2], a[3] = byte(port>>8), byte(port)
	ip := netip.MustParseAddr("127.0.0.1").As4()
	copy(a[4:], ip[:])
	return a
}

// Listen listens on a free port of 127.0.0.1.
func (p *Program) Listen() (id uint32, port uint16) {
	p.T.Helper()
	id = p.NewID(1)
	p.Must(p.DoCM(uabi.CMBind, 0, -1, uabi.CMBindCmd{ID: id, Size: 16, Addr: Loopback(0)}))
	p.Must(p.DoCM(uabi.CMListen, 0, -1, uabi.CMListenCmd{ID: id}))
	r := Decode[uabi.CMQueryAddrResp](
		p.T,
		append(p.Must(p.DoCM(uabi.CMQuery, 272, 0, uabi.CMQueryCmd{ID: id})), make([]byte, 8)...),
	)
	return id, uint16(r.Src[2])<<8 | uint16(r.Src[3])
}

// Connect connects two queue pairs of two programs.
func Connect(p, s *Program, pq, sq *QP) (pid, sid uint32) {
	p.T.Helper()
	_, port := s.Listen()
	pid = p.NewID(2)
	p.Must(p.DoCM(uabi.CMResolveAddr, 0, -1, uabi.CMResolveAddrCmd{ID: pid, DstSize: 16, Dst: Loopback(port)}))
	p.NextEvent(uabi.EventAddrResolved)
	p.Must(p.DoCM(uabi.CMResolveRoute, 0, -1, uabi.CMResolveRouteCmd{ID: pid}))
	p.NextEvent(uabi.EventRouteResolved)
	param := uabi.ConnParam{QPN: pq.QPN, ResponderResources: 4, InitiatorDepth: 4, PrivateLen: 5, Valid: 1}
	copy(param.PrivateData[:], "hello")
	p.Must(p.DoCM(uabi.CMConnect, 0, -1, uabi.CMConnectCmd{ID: pid, Param: param}))
	ev := s.NextEvent(uabi.EventConnectRequest)
	if got := string(ev.Param.PrivateData[:ev.Param.PrivateLen]); got != "hello" {
		p.T.Errorf("private data %q", got)
	}
	sid = ev.ID
	reply := uabi.ConnParam{QPN: sq.QPN, ResponderResources: 4, InitiatorDepth: 4, PrivateLen: 2, Valid: 1}
	copy(reply.PrivateData[:], "hi")
	s.Must(s.DoCM(uabi.CMAccept, 0, -1, uabi.CMAcceptCmd{UID: 3, ID: sid, Param: reply}))
	s.NextEvent(uabi.EventEstablished)
	if ev := p.NextEvent(uabi.EventEstablished); string(ev.Param.PrivateData[:ev.Param.PrivateLen]) != "hi" {
		p.T.Errorf("private data of the reply: %q", ev.Param.PrivateData[:ev.Param.PrivateLen])
	}
	return pid, sid
}

// Remap is the queue after resize_cq.
func (q *CQ) Remap(p *Program, i uabi.RingInfo) *CQ { return &CQ{q.Handle, p.Map(i)} }
