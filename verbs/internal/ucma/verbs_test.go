package ucma_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp/verbs/internal/ring"
	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
	"github.com/go-iwarp/iwarp/verbs/internal/ucma"
	"github.com/go-iwarp/iwarp/verbs/internal/uverbs"
	"github.com/go-iwarp/iwarp/verbs/internal/verbstest"
)

func newDevice(t testing.TB) (*uverbs.Device, *ucma.Manager) {
	t.Helper()
	d, err := uverbs.NewDevice(uverbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return d, ucma.NewManager(d)
}

// pair is two programs, connected.
type pair struct {
	dev      *uverbs.Device
	a, b     *verbstest.Program
	qa, qb   *verbstest.QP
	ida, idb uint32
}

func newPair(t *testing.T) *pair {
	t.Helper()
	d, m := newDevice(t)
	p := &pair{dev: d, a: verbstest.New(t, d, m), b: verbstest.New(t, d, m)}
	p.qa, p.qb = p.a.NewQP(), p.b.NewQP()
	p.ida, p.idb = verbstest.Connect(p.a, p.b, p.qa, p.qb)
	return p
}

const access = 1 | 2 | 4 | 8 // local write, remote write, read, atomic

// Every operation, from one program to the other, with its completions on both sides.
func TestOperations(t *testing.T) {
	p := newPair(t)
	src, srcAt := p.a.Bytes(4096)
	dst, dstAt := p.b.Bytes(4096)
	ma, mb := p.a.Register(p.qa, srcAt, len(src), access), p.b.Register(p.qb, dstAt, len(dst), access)
	for i := range src {
		src[i] = byte(i)
	}
	one := func(n uint32) []verbstest.SGE { return []verbstest.SGE{{Addr: srcAt, Len: n, LKey: ma.LKey}} }
	imm := [4]byte{1, 2, 3, 4}
	for i, tt := range []struct {
		name       string
		send       verbstest.Send
		done       uint32           // opcode of the completion
		recv       *ring.Completion // at the peer
		from, octs int              // where in dst
	}{
		{
			name: "write",
			send: verbstest.Send{Opcode: ring.OpWrite, Addr: dstAt + 100, RKey: mb.RKey, List: one(50)},
			done: ring.WCWrite, from: 100, octs: 50,
		},
		{
			name: "write inline",
			send: verbstest.Send{
				Opcode: ring.OpWrite, Flags: ring.FlagInline, Addr: dstAt, RKey: mb.RKey, Inline: src[:9],
			},
			done: ring.WCWrite, octs: 9,
		},
		{
			name: "write with immediate", send: verbstest.Send{
				Opcode: ring.OpWriteImm, Addr: dstAt + 7, RKey: mb.RKey, List: one(33), Extra: imm,
			},
			done: ring.WCWrite, recv: &ring.Completion{
				Opcode: ring.WCRecvImm, Length: 33, Extra: imm, Flags: ring.WCWithImm,
			}, from: 7, octs: 33,
		},
		{
			name: "send", send: verbstest.Send{Opcode: ring.OpSend, List: one(64)}, done: ring.WCSend,
			recv: &ring.Completion{Opcode: ring.WCRecv, Length: 64}, octs: 64,
		},
		{
			name: "send with immediate", send: verbstest.Send{
				Opcode: ring.OpSendImm, List: one(5), Extra: imm,
			}, done: ring.WCSend,
			recv: &ring.Completion{Opcode: ring.WCRecv, Length: 5, Extra: imm, Flags: ring.WCWithImm}, octs: 5,
		},
		{
			name: "empty send", send: verbstest.Send{Opcode: ring.OpSend}, done: ring.WCSend,
			recv: &ring.Completion{Opcode: ring.WCRecv},
		},
		{
			name: "read", send: verbstest.Send{Opcode: ring.OpRead, Addr: dstAt, RKey: mb.RKey, List: one(8)},
			done: ring.WCRead,
		},
		{
			name: "fetch and add",
			send: verbstest.Send{
				Opcode: ring.OpFetchAdd, Addr: dstAt + 2048, RKey: mb.RKey, CompareAdd: 3, List: one(8),
			},
			done: ring.WCFetchAdd,
		},
		{
			name: "compare and swap",
			send: verbstest.Send{
				Opcode: ring.OpCmpSwap, Addr: dstAt + 2048, RKey: mb.RKey, CompareAdd: 3, Swap: 9,
				List: one(8),
			},
			done: ring.WCCmpSwap,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := bytes.Clone(src)
			if tt.recv != nil {
				p.qb.PostRecv(uint64(1000+i), verbstest.SGE{Addr: dstAt, Len: 4096, LKey: mb.LKey})
			}
			tt.send.ID, tt.send.Flags = uint64(i), tt.send.Flags|ring.FlagSignaled
			p.a.PostSend(p.qa, &tt.send)
			c := p.qa.CQ.Wait(t)
			if c.ID != uint64(i) || c.Status != 0 || c.Opcode != tt.done || c.QPN != p.qa.QPN {
				t.Errorf("completion %+v, want opcode %d", c, tt.done)
			}
			if tt.recv == nil && tt.octs > 0 { // a Read behind it tells that it is there
				p.a.PostSend(
					p.qa,
					&verbstest.Send{ID: 77, Opcode: ring.OpRead, Flags: ring.FlagSignaled, Addr: dstAt, RKey: mb.RKey},
				)
				p.qa.CQ.Wait(t)
			}
			if tt.recv != nil {
				want := *tt.recv
				want.ID, want.QPN = uint64(1000+i), p.qb.QPN
				if got := p.qb.CQ.Wait(t); got != want {
					t.Errorf("at the peer %+v, want %+v", got, want)
				}
			}
			if !bytes.Equal(dst[tt.from:tt.from+tt.octs], before[:tt.octs]) {
				t.Errorf("the peer has % x", dst[tt.from:tt.from+tt.octs])
			}
		})
	}
	if got := uabi.Order.Uint64(dst[2048:]); got != 9 {
		t.Errorf("after the atomics there is %d, want 9", got)
	}
	if got := uabi.Order.Uint64(src); got != 3 {
		t.Errorf("the compare and swap found %d, want 3", got)
	}
}

// An error of a work request, and what is behind it.
func TestFailures(t *testing.T) {
	for _, tt := range []struct {
		name string
		bad  func(p *pair, at uint64, key uint32) verbstest.Send
		want uint32
	}{
		{"wrong lkey", func(_ *pair, at uint64, key uint32) verbstest.Send {
			return verbstest.Send{Opcode: ring.OpSend, List: []verbstest.SGE{{Addr: at, Len: 8, LKey: key ^ 0x55}}}
		}, ring.StatusLocalProt},
		{"beyond the region", func(_ *pair, at uint64, key uint32) verbstest.Send {
			return verbstest.Send{Opcode: ring.OpSend, List: []verbstest.SGE{{Addr: at + 4090, Len: 8, LKey: key}}}
		}, ring.StatusLocalProt},
		{
			"unknown opcode",
			func(_ *pair, at uint64, key uint32) verbstest.Send { return verbstest.Send{Opcode: 99} },
			ring.StatusLocalQPOp,
		},
		{"wrong rkey", func(_ *pair, at uint64, key uint32) verbstest.Send {
			return verbstest.Send{
				Opcode: ring.OpRead, Addr: 64, RKey: 0x1234,
				List: []verbstest.SGE{{Addr: at, Len: 8, LKey: key}},
			}
		}, ring.StatusRemoteAccess},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t)
			mem, at := p.a.Bytes(4096)
			m := p.a.Register(p.qa, at, len(mem), access)
			_, bt := p.b.Bytes(64)
			mb := p.b.Register(p.qb, bt, 64, access)
			p.qb.PostRecv(1, verbstest.SGE{Addr: bt, Len: 64, LKey: mb.LKey})
			p.a.PostSend(
				p.qa,
				&verbstest.Send{
					ID:     1,
					Opcode: ring.OpSend,
					Flags:  ring.FlagSignaled,
					List:   []verbstest.SGE{{Addr: at, Len: 8, LKey: m.LKey}},
				},
			)
			bad := tt.bad(p, at, m.LKey)
			bad.ID = 2
			p.a.PostSend(p.qa, &bad)
			for i, want := range []uint32{ring.StatusSuccess, tt.want} {
				if c := p.qa.CQ.Wait(t); c.ID != uint64(i+1) || c.Status != want {
					t.Errorf("completion %+v, want ID %d, status %d", c, i+1, want)
				}
			}
			p.a.PostSend(p.qa, &verbstest.Send{ID: 3, Opcode: ring.OpSend})
			if c := p.qa.CQ.Wait(t); c.ID != 3 || c.Status != ring.StatusFlush {
				t.Errorf("behind it: %+v, want a flush", c)
			}
			p.a.NextEvent(uabi.EventDisconnected)
			p.b.NextEvent(uabi.EventDisconnected)
		})
	}
}

// Memory whose region has gone is not touched: the receive that names it fails, and with
// it the connection.
func TestDeregUnderReceive(t *testing.T) {
	p := newPair(t)
	mem, at := p.b.Bytes(64)
	m := p.b.Register(p.qb, at, len(mem), access)
	p.qb.PostRecv(5, verbstest.SGE{Addr: at, Len: 64, LKey: m.LKey})
	p.b.Must(p.b.Do(uabi.DeregMR, 0, uabi.HandleCmd{Handle: m.Handle}))
	clear(mem)
	p.a.PostSend(
		p.qa,
		&verbstest.Send{
			ID:     1,
			Opcode: ring.OpSend,
			Flags:  ring.FlagSignaled | ring.FlagInline,
			Inline: []byte("secret"),
		},
	)
	if c := p.qb.CQ.Wait(t); c.ID != 5 || c.Status != ring.StatusLocalProt {
		t.Errorf("completion %+v, want ID 5, a protection error", c)
	}
	if !bytes.Equal(mem, make([]byte, 64)) {
		t.Errorf("memory was written: %q", mem)
	}
	p.b.NextEvent(uabi.EventDisconnected)
}

// destroy_qp gives memory back at once, and what was sent before arrives.
func TestDestroyLosesNothing(t *testing.T) {
	p := newPair(t)
	mem, at := p.a.Bytes(1 << 20)
	for i := range mem {
		mem[i] = byte(i >> 3)
	}
	ma := p.a.Register(p.qa, at, len(mem), access)
	got, bt := p.b.Bytes(1 << 20)
	mb := p.b.Register(p.qb, bt, len(got), access)
	p.qb.PostRecv(1, verbstest.SGE{Addr: bt, Len: 1 << 20, LKey: mb.LKey})
	p.a.PostSend(
		p.qa,
		&verbstest.Send{Opcode: ring.OpSend, List: []verbstest.SGE{{Addr: at, Len: 1 << 20, LKey: ma.LKey}}},
	)
	p.a.Must(p.a.Do(uabi.DestroyQP, 4, uabi.DestroyCmd{Handle: p.qa.Handle}))
	clear(mem) // it is the program's again
	if c := p.qb.CQ.Wait(t); c.Status != 0 || c.Length != 1<<20 {
		t.Fatalf("completion %+v", c)
	}
	for i := range got {
		if got[i] != byte(i>>3) {
			t.Fatalf("octet %d is %d", i, got[i])
		}
	}
	p.b.NextEvent(uabi.EventDisconnected)
}

// Handles are those of one file, and objects that others need stay.
func TestHandles(t *testing.T) {
	d, m := newDevice(t)
	a, b := verbstest.New(t, d, m), verbstest.New(t, d, m)
	q := a.NewQP()
	_ = b.NewQP()
	for _, tt := range []struct {
		name string
		p    *verbstest.Program
		cmd  uint32
		body any
		want unix.Errno
	}{
		{"PD of the other file", b, uabi.DeallocPD, uabi.HandleCmd{Handle: 0xffff}, unix.EINVAL},
		{"PD in use", a, uabi.DeallocPD, uabi.HandleCmd{Handle: q.PD}, unix.EBUSY},
		{"a PD is no region", a, uabi.DeregMR, uabi.HandleCmd{Handle: q.PD}, unix.EINVAL},
		{"CQ in use", a, uabi.DestroyCQ, uabi.DestroyCmd{Handle: q.CQ.Handle}, unix.EBUSY},
	} {
		if _, e := tt.p.Do(tt.cmd, 0, tt.body); e != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, e, tt.want)
		}
	}
	id := a.NewID(1)
	if _, e := b.DoCM(uabi.CMListen, 0, -1, uabi.CMListenCmd{ID: id}); e != unix.ENOENT {
		t.Errorf("an identifier of the other channel: %v, want ENOENT", e)
	}
	if e := b.Verbs.Doorbell(0xffff); e != unix.EINVAL {
		t.Errorf("doorbell of nothing: %v", e)
	}
}

// Limits have the errno that the kernel gives.
func TestLimits(t *testing.T) {
	d, m := newDevice(t)
	p := verbstest.New(t, d, m)
	pd := p.Handle(p.Do(uabi.AllocPD, 4, uabi.Resp{}))
	_, at := p.Bytes(64)
	for _, tt := range []struct {
		name string
		cmd  uint32
		body []any
		want unix.Errno
	}{
		{"no CQE", uabi.CreateCQ, []any{uabi.CreateCQCmd{Channel: -1}}, unix.EINVAL},
		{"too many CQEs", uabi.CreateCQ, []any{uabi.CreateCQCmd{CQE: 1<<20 + 1, Channel: -1}}, unix.EINVAL},
		{"no such channel", uabi.CreateCQ, []any{uabi.CreateCQCmd{CQE: 1, Channel: 12345}}, unix.EINVAL},
		{"no such vector", uabi.CreateCQ, []any{uabi.CreateCQCmd{CQE: 1, Vector: 1, Channel: -1}}, unix.EINVAL},
		{"UD", uabi.CreateQP, []any{uabi.Resp{}, uabi.CreateQPCmd{PD: pd, Type: 4}}, unix.EOPNOTSUPP},
		{"port 2", uabi.QueryPort, []any{uabi.QueryPortCmd{Port: 2}}, unix.EINVAL},
		{
			"memory that is not there", uabi.RegMR,
			[]any{uabi.RegMRCmd{Start: 4096, Length: 4096, IOVA: 4096, PD: pd, Access: 1}},
			unix.EFAULT,
		},
		{
			"around the end of memory", uabi.RegMR,
			[]any{uabi.RegMRCmd{Start: ^uint64(0) - 10, Length: 100, PD: pd, Access: 1}},
			unix.EINVAL,
		},
		{
			"remote write without local write", uabi.RegMR,
			[]any{uabi.RegMRCmd{Start: at, Length: 64, PD: pd, Access: 2}},
			unix.EINVAL,
		},
		{"on demand", uabi.RegMR, []any{uabi.RegMRCmd{Start: at, Length: 64, PD: pd, Access: 1 << 6}}, unix.EOPNOTSUPP},
		{"an SRQ too deep", uabi.CreateSRQ, []any{uabi.CreateSRQCmd{PD: pd, MaxWR: 1 << 20}}, unix.EINVAL},
		{"an unknown command", 40, []any{uabi.Resp{}}, unix.EOPNOTSUPP},
		{"a second context", uabi.GetContext, []any{uabi.Resp{}}, unix.EINVAL},
	} {
		if _, e := p.Do(tt.cmd, 64, tt.body...); e != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, e, tt.want)
		}
	}
	b := uabi.Append(nil, uabi.Header{Command: uabi.AllocPD, In: 4, Out: 1})
	b = uabi.Append(b, uabi.Resp{Response: 16})
	if e := p.Verbs.Command(b); e != unix.EFAULT {
		t.Errorf("a response to nowhere: %v, want EFAULT", e)
	}
}

// All of a file goes with it.
func TestCloseFreesAll(t *testing.T) {
	p := newPair(t)
	for i := range 3 {
		_, at := p.a.Bytes(64)
		p.a.Register(p.qa, at, 64, access)
		if i > 0 {
			p.a.NewQP()
		}
	}
	p.a.Close()
	p.b.NextEvent(uabi.EventDisconnected)
	p.b.Close()
	var use string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		u := p.dev.IWARP().Use()
		use = fmt.Sprintf("%d PDs, %d QPs, %d MRs, %d CQs", u.PDs, u.QPs, u.MRs, u.CQs)
		if use == "0 PDs, 0 QPs, 0 MRs, 0 CQs" {
			return
		}
	}
	t.Errorf("left of closed files: %s", use)
}

// TestResizeCQ keeps what is in the queue.
func TestResizeCQ(t *testing.T) {
	p := newPair(t)
	for i := range 5 {
		p.a.PostSend(p.qa, &verbstest.Send{ID: uint64(i), Opcode: ring.OpWrite, Flags: ring.FlagSignaled})
	}
	b := p.a.Must(p.a.Do(uabi.ResizeCQ, 24, uabi.ResizeCQCmd{Handle: p.qa.CQ.Handle, CQE: 500}))
	p.qa.CQ = p.qa.CQ.Remap(p.a, verbstest.Decode[uabi.ResizeCQResp](t, b).Ring)
	for i := range 5 {
		if c := p.qa.CQ.Wait(t); c.ID != uint64(i) {
			t.Errorf("completion %d has ID %d", i, c.ID)
		}
	}
}
