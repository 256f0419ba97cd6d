package ucma_test

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
	"github.com/go-iwarp/iwarp/verbs/internal/verbstest"
)

// dial resolves and connects a queue pair to a port of this machine.
func dial(p *verbstest.Program, q *verbstest.QP, port uint16) (id uint32) {
	p.T.Helper()
	id = p.NewID(9)
	p.Must(p.DoCM(uabi.CMResolveAddr, 0, -1,
		uabi.CMResolveAddrCmd{ID: id, DstSize: 16, Dst: verbstest.Loopback(port)}))
	p.NextEvent(uabi.EventAddrResolved)
	p.Must(p.DoCM(uabi.CMResolveRoute, 0, -1, uabi.CMResolveRouteCmd{ID: id}))
	p.NextEvent(uabi.EventRouteResolved)
	p.Must(p.DoCM(uabi.CMConnect, 0, -1, uabi.CMConnectCmd{ID: id, Param: uabi.ConnParam{QPN: q.QPN, Valid: 1}}))
	return id
}

// A rejection comes with its private data, and the queue pair can be connected again.
func TestReject(t *testing.T) {
	d, m := newDevice(t)
	a, b := verbstest.New(t, d, m), verbstest.New(t, d, m)
	q, bq := a.NewQP(), b.NewQP()
	_, port := b.Listen()
	id := dial(a, q, port)
	r := uabi.CMRejectCmd{ID: b.NextEvent(uabi.EventConnectRequest).ID, PrivateLen: 4}
	copy(r.PrivateData[:], "full")
	b.Must(b.DoCM(uabi.CMReject, 0, -1, r))
	ev := a.NextEvent(uabi.EventRejected)
	if got := string(ev.Param.PrivateData[:ev.Param.PrivateLen]); got != "full" || ev.ID != id || ev.UID != 9 {
		t.Errorf("rejected with %q, ID %d, UID %d", got, ev.ID, ev.UID)
	}
	if int32(ev.Status) != -int32(unix.ECONNREFUSED) {
		t.Errorf("status %d", int32(ev.Status))
	}
	dial(a, q, port)
	b.Must(b.DoCM(uabi.CMAccept, 0, -1, uabi.CMAcceptCmd{
		ID: b.NextEvent(uabi.EventConnectRequest).ID, Param: uabi.ConnParam{QPN: bq.QPN, Valid: 1},
	}))
	a.NextEvent(uabi.EventEstablished)
	b.NextEvent(uabi.EventEstablished)
}

// Where nobody listens, that is a rejection, as the kernel has it for iWARP.
func TestRefused(t *testing.T) {
	d, m := newDevice(t)
	a := verbstest.New(t, d, m)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(ln.Addr().(*net.TCPAddr).Port)
	_ = ln.Close()
	dial(a, a.NewQP(), port)
	if ev := a.NextEvent(uabi.EventRejected); int32(ev.Status) != -int32(unix.ECONNREFUSED) {
		t.Errorf("status %d", int32(ev.Status))
	}
}

// Requests come in the order of rdma_connect.
func TestRequestsInOrder(t *testing.T) {
	d, m := newDevice(t)
	a, b := verbstest.New(t, d, m), verbstest.New(t, d, m)
	_, port := b.Listen()
	const n = 20
	var ids, qps []uint32
	for range n {
		id := a.NewID(1)
		a.Must(a.DoCM(uabi.CMResolveAddr, 0, -1,
			uabi.CMResolveAddrCmd{ID: id, DstSize: 16, Dst: verbstest.Loopback(port)}))
		a.NextEvent(uabi.EventAddrResolved)
		ids, qps = append(ids, id), append(qps, a.NewQP().QPN)
	}
	for i, id := range ids {
		p := uabi.ConnParam{QPN: qps[i], PrivateLen: 1, Valid: 1}
		p.PrivateData[0] = byte(i)
		a.Must(a.DoCM(uabi.CMConnect, 0, -1, uabi.CMConnectCmd{ID: id, Param: p}))
	}
	for i := range n {
		if ev := b.NextEvent(uabi.EventConnectRequest); ev.Param.PrivateData[0] != byte(i) {
			t.Fatalf("request %d is of connection %d", i, ev.Param.PrivateData[0])
		}
	}
}

// An identifier takes its events along to another channel.
func TestMigrate(t *testing.T) {
	d, m := newDevice(t)
	a, b := verbstest.New(t, d, m), verbstest.New(t, d, m)
	id := a.NewID(5)
	a.Must(a.DoCM(uabi.CMResolveRoute, 0, -1, uabi.CMResolveRouteCmd{ID: id}))
	if n := b.Handle(b.DoCM(uabi.CMMigrateID, 4, 0, uabi.CMQueryCmd{ID: id})); n != 0 {
		t.Errorf("%d events were reported before, want 0", n)
	}
	if ev := b.NextEvent(uabi.EventRouteResolved); ev.ID != id || ev.UID != 5 {
		t.Errorf("event of ID %d, UID %d", ev.ID, ev.UID)
	}
	if _, e := a.DoCM(uabi.CMGetEvent, 336, 0, uabi.Resp{}); e != unix.EAGAIN {
		t.Errorf("the old channel: %v, want EAGAIN", e)
	}
	if n := b.Handle(b.DoCM(uabi.CMDestroyID, 4, 0, uabi.CMIDCmd{ID: id})); n != 1 {
		t.Errorf("%d events were reported, want 1", n)
	}
}

// A request that the program has not seen goes with its listener.
func TestListenerGoes(t *testing.T) {
	d, m := newDevice(t)
	a, b := verbstest.New(t, d, m), verbstest.New(t, d, m)
	lid, port := b.Listen()
	dial(a, a.NewQP(), port)
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(b.CMFD), Events: unix.POLLIN}}, 20000); err != nil {
		t.Fatal(err)
	}
	b.Must(b.DoCM(uabi.CMDestroyID, 4, 0, uabi.CMIDCmd{ID: lid}))
	a.NextEvent(uabi.EventConnectError)
}
