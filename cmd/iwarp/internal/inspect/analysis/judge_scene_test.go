package analysis_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// Opcodes of RDMAP, as this test names them.
const (
	opWrite = iota
	opReadRequest
	opReadResponse
	opSend
	opSendInv
	opSendSE
	opSendSEInv
	opTerminate
	opImmediate
	opImmediateSE
	opAtomicRequest
	opAtomicResponse
)

// message is one RDMAP message, as it was meant or as a judge saw it.
type message struct {
	op     int
	length int    // octets after the DDP header, all segments together
	code   uint16 // of a Terminate: layer, type, code
}

func (m message) String() string {
	return fmt.Sprintf("opcode %d, %d octets, code %04x", m.op, m.length, m.code)
}

// frame is what a startup frame should show.
type frame struct {
	markers, crc, reject bool
	rev                  int
	private              int // octets, RFC 6581's block included
}

// scene is a connection between two of our endpoints and what is to be seen of it.
type scene struct {
	name    string
	address string // "" is IPv4
	client  iwarp.Config
	server  iwarp.Config
	noCRC   bool
	reject  []byte // Private Data of a rejection, which ends the scene
	// cut makes the connection that the library writes to from the recorded one:
	// how FPDUs lie in TCP segments.
	cut func(s *scene, nc net.Conn, initiator bool) net.Conn
	// wire is between the recorded connection and the network.
	wire func(nc net.Conn, initiator bool) net.Conn
	run  func(a, b *side)

	// beyond, if not empty, is the limit of tshark that keeps it from following
	// the initiator's or the responder's direction.
	beyond [2]string

	startup [2]frame
	sent    [2][]message // by the initiator, by the responder
	ports   [2]int       // of the two: how the judges find the connection
}

// side is one endpoint while a scene runs. Its methods do something from there,
// wait for it, and note the messages that it must make.
type side struct {
	*scene
	t    *testing.T
	ctx  context.Context
	i    int // 0 is the initiator
	c    *iwarp.Conn
	mem  []byte
	mr   *iwarp.MR // mem
	peer *side
}

const memory = 1 << 20

func (s *side) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", s.name, err)
	}
}

func (s *side) note(op, length int) {
	s.sent[s.i] = append(s.sent[s.i], message{op: op, length: length})
}

func (s *side) register(access iwarp.Access) *iwarp.MR {
	s.t.Helper()
	mr, err := s.c.NewMR(s.mem, access)
	s.ok(err)
	return mr
}

// send sends a Send of n octets, of the kind that wr's other fields say.
func (s *side) send(op, n int, wr iwarp.SendWR) {
	s.t.Helper()
	if wr.Op == 0 {
		wr.Op = iwarp.OpSend
	}
	wr.SG = [][]byte{pattern(n, uint64(n))}
	s.post(wr)
	s.note(op, n)
	s.peer.receive(n)
}

func (s *side) receive(n int) iwarp.Message {
	s.t.Helper()
	buf := make([]byte, 1<<16)
	m, err := s.c.Recv(s.ctx, buf)
	s.ok(err)
	if m.Op == iwarp.OpRecv && !bytes.Equal(buf[:m.Length], pattern(n, uint64(n))) {
		s.t.Fatalf("%s: received %+v, want %d octets", s.name, m, n)
	}
	return m
}

// post posts a work request and waits for its completion.
func (s *side) post(wr iwarp.SendWR) {
	s.t.Helper()
	s.ok(s.c.QP().PostSend(wr))
	c := make([]iwarp.Completion, 1)
	_, err := s.c.QP().SendCQ().Wait(s.ctx, c)
	s.ok(err)
	s.ok(c[0].Err)
}

// invalidate sends a Send with Invalidate of n octets.
func (s *side) invalidate(op, n int, solicited bool) {
	s.t.Helper()
	mr := s.peer.register(iwarp.RemoteWrite)
	s.send(op, n, iwarp.SendWR{Op: iwarp.OpSendInvalidate, Invalidate: mr.STag(), Solicited: solicited})
	if mr.Valid() {
		s.t.Fatalf("%s: the STag is still valid", s.name)
	}
	mr.Close()
}

func (s *side) immediate(op int, solicited bool) {
	s.t.Helper()
	s.post(iwarp.SendWR{Op: iwarp.OpImmediate, Immediate: 0x0102030405060708, Solicited: solicited})
	s.note(op, 8)
	s.peer.receive(0)
}

func (s *side) write(n int) {
	s.t.Helper()
	s.ok(s.c.RDMAWrite(s.ctx, pattern(n, 1), s.peer.mr.Remote()))
	s.note(opWrite, n)
}

func (s *side) read(n int) {
	s.t.Helper()
	buf := make([]byte, n)
	s.ok(s.c.RDMARead(s.ctx, buf, s.peer.mr.Remote()))
	if !bytes.Equal(buf, s.peer.mem[:n]) {
		s.t.Fatalf("%s: read other octets", s.name)
	}
	s.note(opReadRequest, 28)
	s.peer.note(opReadResponse, n)
}

func (s *side) atomics() {
	s.t.Helper()
	was, err := s.c.FetchAdd(s.ctx, remoteAt(s.peer.mr, 8), 3)
	s.ok(err)
	_, err = s.c.CompareSwap(s.ctx, remoteAt(s.peer.mr, 8), was+3, 7)
	s.ok(err)
	for range 2 {
		s.note(opAtomicRequest, 52)
		s.peer.note(opAtomicResponse, 12)
	}
}

// refused does something that the peer ends with a Terminate of that code, whose
// header and headers have so many octets.
func (s *side) refused(code protocol.Code, length int, do func() error) {
	s.t.Helper()
	derr := do() // may be nil: the peer has not objected yet
	select {
	case <-s.c.Done():
	case <-s.ctx.Done():
		s.t.Fatalf("%s: the connection does not end; this end: %v", s.name, derr)
	}
	var perr *iwarp.ProtocolError
	if err := s.c.Err(); !errors.As(err, &perr) || perr.Code != code || !perr.Remote {
		s.t.Fatalf("%s: the connection ended with %v, want the peer's Terminate %v", s.name, err, code)
	}
	n := len(s.sent[s.peer.i])
	s.peer.note(opTerminate, length)
	s.sent[s.peer.i][n].code = uint16(code)
}

// play runs the scene over loopback, recorded by rec.
func (s *scene) play(t *testing.T, rec *capture.Recorder) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s.client.Wrap, s.server.Wrap = s.wrap(rec, true), s.wrap(rec, false)
	if s.noCRC {
		dev, err := iwarp.NewDevice(&iwarp.DeviceConfig{CRCSuppression: &iwarp.CRCSuppression{Protection: "a test"}})
		if err != nil {
			t.Fatal(err)
		}
		s.client.Device, s.server.Device = dev, dev
	}
	a, b := s.connect(ctx, t)
	if a == nil {
		return
	}
	defer func() { a.c.Abort(); b.c.Abort() }()
	for _, x := range []*side{a, b} {
		x.mem = pattern(memory, 99)
		x.mr = x.register(iwarp.RemoteRead | iwarp.RemoteWrite | iwarp.RemoteAtomic)
		defer x.mr.Close()
	}
	s.run(a, b)
	var closing sync.WaitGroup
	closing.Go(func() { _ = a.c.Close() })
	closing.Go(func() { _ = b.c.Close() })
	closing.Wait()
}

func (s *scene) wrap(rec *capture.Recorder, initiator bool) func(net.Conn) net.Conn {
	return func(nc net.Conn) net.Conn {
		if initiator {
			s.ports = [2]int{nc.LocalAddr().(*net.TCPAddr).Port, nc.RemoteAddr().(*net.TCPAddr).Port}
		}
		if s.wire != nil {
			nc = s.wire(nc, initiator)
		}
		nc = rec.Conn(nc)
		if s.cut != nil {
			nc = s.cut(s, nc, initiator)
		}
		return nc
	}
}

// connect dials and accepts, or rejects, and notes the startup.
func (s *scene) connect(ctx context.Context, t *testing.T) (a, b *side) {
	t.Helper()
	if s.address == "" {
		s.address = "127.0.0.1:0"
	}
	ln, err := iwarp.Listen("tcp", s.address, &s.server)
	if err != nil {
		t.Skipf("%s: %v", s.name, err)
	}
	defer ln.Close()
	a, b = &side{scene: s, t: t, ctx: ctx}, &side{scene: s, t: t, ctx: ctx, i: 1}
	a.peer, b.peer = b, a
	var wg sync.WaitGroup
	var aerr error
	wg.Go(func() {
		if s.reject == nil {
			b.c, aerr = ln.Accept(ctx)
			return
		}
		var r *iwarp.ConnRequest
		if r, aerr = ln.AcceptRequest(ctx); aerr == nil {
			var nc net.Conn
			if nc, aerr = r.Reject(ctx, s.reject); aerr == nil {
				aerr = nc.Close()
			}
		}
	})
	a.c, err = iwarp.Dial(ctx, "tcp", ln.Addr().String(), &s.client)
	wg.Wait()
	s.noteStartup()
	if s.reject != nil {
		var rerr *iwarp.RejectError
		if !errors.As(err, &rerr) || aerr != nil {
			t.Fatalf("%s: %v, %v", s.name, err, aerr)
		}
		return nil, nil
	}
	if err != nil || aerr != nil {
		t.Fatalf("%s: %v, %v", s.name, err, aerr)
	}
	if a.c.ConnectionState().PeerToPeer {
		switch s.client.MPA.RTR & s.server.MPA.RTR {
		case iwarp.RTRSend:
			a.note(opSend, 0)
		case iwarp.RTRRead:
			a.note(opReadRequest, 28)
			b.note(opReadResponse, 0)
		default:
			a.note(opWrite, 0)
		}
	}
	return a, b
}

// noteStartup notes what the two startup frames must look like.
func (s *scene) noteStartup() {
	for i, c := range []*iwarp.Config{&s.client, &s.server} {
		f := frame{markers: c.MPA.Markers, crc: !s.noCRC, rev: 2, private: len(c.PrivateData)}
		if i == 1 && s.reject != nil {
			f.reject, f.private = true, len(s.reject)
		}
		if s.client.MPA.Revision == 1 {
			f.rev = 1
		} else {
			f.private += protocol.EnhancedLen
		}
		s.startup[i] = f
	}
}

// apart cuts what is written into one TCP segment for each FPDU.
func apart(s *scene, nc net.Conn, initiator bool) net.Conn {
	f := iwarptest.Framer{NoCRC: s.noCRC, Markers: s.server.MPA.Markers}
	if !initiator {
		f.Markers = s.client.MPA.Markers
	}
	return &cutConn{Conn: nc, next: func(b []byte) int {
		_, n, err := f.Unframe(b)
		if err != nil {
			return len(b) // the judges will say what is wrong
		}
		return n
	}}
}

// pieces cuts what is written after startup into pieces of n octets.
func pieces(n int) func(*scene, net.Conn, bool) net.Conn {
	return func(_ *scene, nc net.Conn, _ bool) net.Conn {
		return &cutConn{Conn: nc, next: func(b []byte) int { return min(n, len(b)) }}
	}
}

// cutConn writes what it is given in other pieces, the startup frame apart.
type cutConn struct {
	net.Conn
	next    func(b []byte) int // octets of the next segment, 0: wait for more
	startup bool               // has gone
	held    []byte
}

func (c *cutConn) Write(b []byte) (int, error) {
	if !c.startup {
		c.startup = true
		return c.Conn.Write(b)
	}
	c.held = append(c.held, b...)
	for len(c.held) > 0 {
		n := c.next(c.held)
		if n == 0 {
			break
		}
		if _, err := c.Conn.Write(c.held[:n]); err != nil {
			return 0, err
		}
		c.held = append(c.held[:0], c.held[n:]...)
	}
	return len(b), nil
}

func (c *cutConn) CloseWrite() error { return c.Conn.(interface{ CloseWrite() error }).CloseWrite() }
func (c *cutConn) Abort() error      { return c.Conn.(interface{ Abort() error }).Abort() }

func pattern(n int, seed uint64) []byte {
	b := make([]byte, n)
	src := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(src.Uint32())
	}
	return b
}

// remoteAt is the memory from octet off on, which may lie beyond, with no Length: the peer
// alone says whether a request fits.
func remoteAt(mr *iwarp.MR, off uint64) iwarp.RemoteBuffer {
	b := mr.Remote()
	return iwarp.RemoteBuffer{STag: b.STag, TO: b.TO + off}
}
