//go:build unix

package iwarp_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/internal/fault"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// mapped is memory of a file that can become shorter.
type mapped struct {
	mem  []byte
	path string
}

func newMapped(t testing.TB, n int) *mapped {
	t.Helper()
	m := &mapped{path: filepath.Join(t.TempDir(), "file")}
	check(t, "WriteFile", os.WriteFile(m.path, pattern(n), 0o600))
	f := must(os.OpenFile(m.path, os.O_RDWR, 0))(t)
	defer f.Close()
	m.mem = must(unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))(t)
	t.Cleanup(func() { check(t, "Munmap", unix.Munmap(m.mem)) })
	return m
}

// shorten leaves n octets of the file. Touching a page behind them is SIGBUS.
func (m *mapped) shorten(t testing.TB, n int) {
	t.Helper()
	check(t, "Truncate", os.Truncate(m.path, int64(n)))
}

// wantMissing wants an error that says that memory of m is not there.
func (m *mapped) wantMissing(t testing.TB, what string, err error) {
	t.Helper()
	var gone *fault.Error
	if !errors.As(err, &gone) || !gone.Within(m.mem) {
		t.Errorf("%s: %v, want a fault in the mapped file", what, err)
	}
}

// faultSizes are of messages that are copied and in one segment, and of such that
// are sent from where they are, in many.
var faultSizes = []int{100, 300 << 10}

// Memory that a peer reaches, and that is not there any more: the peer's connection
// ends, with a Terminate that says that the peer is not to blame, and the process
// goes on.
func TestTargetIsGone(t *testing.T) {
	for _, tt := range []struct {
		name string
		code protocol.Code
		do   func(t *testing.T, a *iwarp.Conn, b *iwarp.QP, m *mapped) error
	}{
		{
			name: "Write", code: protocol.DDPLocalCatastrophic,
			do: func(t *testing.T, a *iwarp.Conn, b *iwarp.QP, m *mapped) error {
				mr := must(b.PD().NewMR(m.mem, iwarp.RemoteWrite, nil))(t)
				m.shorten(t, 0)
				return errors.Join(a.RDMAWrite(t.Context(), make([]byte, len(m.mem)), mr.Remote()),
					a.RDMARead(t.Context(), nil, iwarp.RemoteBuffer{}))
			},
		},
		{
			name: "Write, half of it", code: protocol.DDPLocalCatastrophic,
			do: func(t *testing.T, a *iwarp.Conn, b *iwarp.QP, m *mapped) error {
				mr := must(b.PD().NewMR(m.mem, iwarp.RemoteWrite, &iwarp.MROptions{QP: b}))(t)
				m.shorten(t, len(m.mem)/2)
				if len(m.mem) < os.Getpagesize() {
					m.shorten(t, 0)
				}
				return errors.Join(a.RDMAWrite(t.Context(), make([]byte, len(m.mem)), mr.Remote()),
					a.RDMARead(t.Context(), nil, iwarp.RemoteBuffer{}))
			},
		},
		{
			name: "Write through a window", code: protocol.DDPLocalCatastrophic,
			do: func(t *testing.T, a *iwarp.Conn, b *iwarp.QP, m *mapped) error {
				mr := must(b.PD().NewMR(m.mem, 0, nil))(t)
				mw := must(b.NewMW())(t)
				post(t, b,
					iwarp.SendWR{
						Op:   iwarp.OpBind,
						Bind: &iwarp.Bind{MW: mw, MR: mr, Length: uint64(len(m.mem)), Access: iwarp.RemoteWrite},
					})
				m.shorten(t, 0)
				return errors.Join(a.RDMAWrite(t.Context(), make([]byte, len(m.mem)), mw.Remote()),
					a.RDMARead(t.Context(), nil, iwarp.RemoteBuffer{}))
			},
		},
		{
			name: "Write to protected memory", code: protocol.DDPLocalCatastrophic,
			do: func(t *testing.T, a *iwarp.Conn, b *iwarp.QP, m *mapped) error {
				mr := must(b.PD().NewMR(m.mem, iwarp.RemoteWrite, nil))(t)
				check(t, "Mprotect", unix.Mprotect(m.mem, unix.PROT_READ)) // SIGSEGV
				return errors.Join(a.RDMAWrite(t.Context(), make([]byte, len(m.mem)), mr.Remote()),
					a.RDMARead(t.Context(), nil, iwarp.RemoteBuffer{}))
			},
		},
		{
			name: "Read", code: protocol.RDMAPStreamCatastrophic,
			do: func(t *testing.T, a *iwarp.Conn, b *iwarp.QP, m *mapped) error {
				mr := must(b.PD().NewMR(m.mem, iwarp.RemoteRead, nil))(t)
				m.shorten(t, 0)
				return a.RDMARead(t.Context(), make([]byte, len(m.mem)), mr.Remote())
			},
		},
		{
			name: "Read, half of it", code: protocol.RDMAPStreamCatastrophic,
			do: func(t *testing.T, a *iwarp.Conn, b *iwarp.QP, m *mapped) error {
				mr := must(b.PD().NewMR(m.mem, iwarp.RemoteRead, nil))(t)
				m.shorten(t, len(m.mem)/2)
				if len(m.mem) < os.Getpagesize() {
					m.shorten(t, 0)
				}
				return a.RDMARead(t.Context(), make([]byte, len(m.mem)), mr.Remote())
			},
		},
		{
			name: "atomic", code: protocol.RDMAPStreamCatastrophic,
			do: func(t *testing.T, a *iwarp.Conn, b *iwarp.QP, m *mapped) error {
				mr := must(b.PD().NewMR(m.mem, iwarp.RemoteAtomic, nil))(t)
				m.shorten(t, 0)
				return post(t, a.QP(), iwarp.SendWR{Op: iwarp.OpFetchAdd, Remote: remoteAt(mr, 8), Operand: 1}).Err
			},
		},
		{
			name: "Send", code: protocol.DDPLocalCatastrophic,
			do: func(t *testing.T, a *iwarp.Conn, b *iwarp.QP, m *mapped) error {
				check(t, "PostRecv", b.PostRecv(iwarp.RecvWR{SG: [][]byte{m.mem}}))
				m.shorten(t, 0)
				err := errors.Join(a.Send(t.Context(), make([]byte, len(m.mem))),
					a.RDMARead(t.Context(), nil, iwarp.RemoteBuffer{}))
				m.wantMissing(t, "the receive", collect(t, b.RecvCQ(), 1)[0].Err)
				return err
			},
		},
	} {
		for _, kind := range []string{"tcp", "Pipe", "an LLP of somebody else's"} {
			for _, progress := range allProgress {
				polling := progress == iwarp.ProgressPolling
				for _, size := range faultSizes {
					t.Run(fmt.Sprintf("%s/%s/progress=%d/%d", tt.name, kind, progress, size), func(t *testing.T) {
						qp := newQP(t, newDevice(t, nil), nil)
						a, b := faultPair(t, kind, nil, &iwarp.Config{QP: qp, Progress: progress})
						m := newMapped(t, size)
						if polling {
							cq := qp.RecvCQ()
							if tt.name == "Send" {
								cq = qp.SendCQ()
							}
							go func() { // whoever polls comes upon the fault
								var c [1]iwarp.Completion
								for b.Err() == nil && t.Context().Err() == nil {
									cq.Poll(c[:])
								}
							}()
						}
						wantCode(t, tt.do(t, a, qp, m), tt.code, true)
						wantDone(t, b)
						m.wantMissing(t, "the connection", wantCode(t, b.Err(), tt.code, false))
						wantDone(t, a)
						wantCode(t, a.Err(), tt.code, true)
					})
				}
			}
		}
	}
}

// A message that lay elsewhere until it was whole is copied to a receive of the SRQ that
// is not there any more: as above.
func TestStagedReceiveIsGone(t *testing.T) {
	const size, half = 8192, 1000
	for _, progress := range allProgress {
		pd := must(newDevice(t, nil).NewPD())(t)
		srq := must(pd.NewSRQ(nil))(t)
		m := newMapped(t, size)
		check(t, "PostRecv",
			srq.PostRecv(iwarp.RecvWR{ID: 1, SG: [][]byte{make([]byte, size)}},
				iwarp.RecvWR{ID: 2, SG: [][]byte{m.mem}}))
		begin := func() (*iwarp.QP, *iwarptest.Peer) {
			qp := must(pd.NewQP(&iwarp.QPConfig{SRQ: srq}))(t)
			_, p := serverOfPeer(t, &iwarp.Config{QP: qp, Progress: progress})
			p.Send(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 1}, make([]byte, half)),
				iwarptest.Write(0, 0, nil))
			waitReceived(t, qp.Conn(), 1)
			return qp, p
		}
		_, other := begin() // has a receive, so that the next one has to wait for its own
		qp, p := begin()
		m.shorten(t, 0)
		p.Send(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: 1, MO: half},
			make([]byte, half)))
		c := collect(t, qp.RecvCQ(), 1)[0]
		m.wantMissing(t, "the receive", c.Err)
		if c.ID != 2 || c.Status() != iwarp.StatusLocal {
			t.Errorf("completion %+v", c)
		}
		p.WantTerminate("the receive is not there", uint16(protocol.DDPLocalCatastrophic))
		p.CloseWrite()
		wantDone(t, qp.Conn())
		m.wantMissing(t, "the connection", wantCode(t, qp.Conn().Err(), protocol.DDPLocalCatastrophic, false))
		other.Abort()
	}
}

// faultPair connects two ends over a conn of that kind.
func faultPair(t *testing.T, kind string, ac, bc *iwarp.Config) (a, b *iwarp.Conn) {
	t.Helper()
	if kind != "an LLP of somebody else's" {
		x, y := netPair(t, kind)
		return startOn(t, x, y, ac, bc)
	}
	return foreignPair(t, ac, bc)
}

// Memory that is to be sent, or read into, and that is not there any more: the work
// request says so, those before it succeed, and the connection ends.
func TestSourceIsGone(t *testing.T) {
	for _, op := range []iwarp.Op{iwarp.OpSend, iwarp.OpWrite, iwarp.OpRead} {
		for _, tt := range []struct {
			name, kind string
			cfg        iwarp.Config
			noCRC      bool
		}{
			{name: "tcp", kind: "tcp"},
			{name: "Pipe", kind: "Pipe"},
			{name: "markers", kind: "tcp", cfg: iwarp.Config{MPA: iwarp.MPAConfig{Markers: true}}},
			{name: "no CRC", kind: "tcp", noCRC: true},
		} {
			for _, size := range faultSizes {
				for _, left := range []int{0, size / 2} {
					t.Run(fmt.Sprintf("%v/%s/%d of %d", op, tt.name, left, size), func(t *testing.T) {
						if tt.noCRC {
							tt.cfg.Device = newDevice(t, &iwarp.DeviceConfig{CRCSuppression: &iwarp.CRCSuppression{
								Protection: "a test", Peers: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
							}})
						}
						tt.cfg.RecvSize = size
						a, b := faultPair(t, tt.kind, &tt.cfg, &tt.cfg)
						mr := must(b.NewMR(make([]byte, size), iwarp.RemoteWrite|iwarp.RemoteRead))(t)
						m := newMapped(t, size)
						if left < os.Getpagesize() {
							left = 0
						}
						m.shorten(t, left)
						check(t, "PostSend", a.QP().PostSend(
							iwarp.SendWR{ID: 1, Op: iwarp.OpWrite, SG: [][]byte{make([]byte, 64)}, Remote: mr.Remote()},
							iwarp.SendWR{ID: 2, Op: op, SG: [][]byte{make([]byte, 8), m.mem[8:]}, Remote: mr.Remote()},
							iwarp.SendWR{ID: 3, Op: iwarp.OpWrite, SG: [][]byte{make([]byte, 64)}, Remote: mr.Remote()},
						))
						wantDone(t, a)
						wantDone(t, b)
						c := collect(t, a.QP().SendCQ(), 3)
						if c[0].ID != 1 || c[1].ID != 2 || c[2].ID != 3 {
							t.Fatalf("out of order: %+v", c)
						}
						m.wantMissing(t, "the request", c[1].Err)
						if c[1].Status() != iwarp.StatusLocal {
							t.Errorf("its status is %v", c[1].Status())
						}
						m.wantMissing(t, "the connection", a.Err())
						if !tt.noCRC && op != iwarp.OpRead {
							check(t, "the request before it", c[0].Err)
							wantCode(t, c[1].Err, protocol.RDMAPLocalCatastrophic, false)
							wantCode(t, b.Err(), protocol.RDMAPLocalCatastrophic, true)
						}
					})
				}
			}
		}
	}
}

// What is copied while the caller waits is refused when it is not there.
func TestCallersMemoryIsGone(t *testing.T) {
	for _, panics := range []bool{false, true} {
		before := debug.SetPanicOnFault(panics)
		a, b := tcpPair(t, nil, nil)
		m := newMapped(t, 100)
		m.shorten(t, 0)
		err := a.QP().PostSend(iwarp.SendWR{Op: iwarp.OpSend, Inline: true, SG: [][]byte{{1}, m.mem}})
		if !errors.Is(err, iwarp.ErrInvalidWR) {
			t.Errorf("PostSend: %v", err)
		}
		m.wantMissing(t, "an inline Send", err)
		check(t, "Send", a.Send(testContext(t), []byte("octets")))
		_, err = b.Recv(testContext(t), m.mem)
		m.wantMissing(t, "Recv", err)
		wantRecv(t, b, "octets")
		closeBoth(t, a, b)
		if now := debug.SetPanicOnFault(before); now != panics {
			t.Errorf("faults of the caller's goroutine panic: %t, and %t before", now, panics)
		}
	}
}
