package interop

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/protocol"
)

// The operations that rdma_cm's example programs do not show. In the guest runs
// guest/verbs-peer.c, whose arguments say step by step what it does.

func TestSiwVerbsCRCOff(t *testing.T) { testVerbs(t, setting{variant: "default", noCRC: true}) }
func TestSiwVerbsCRCOn(t *testing.T)  { testVerbs(t, setting{variant: "crc", crc: true}) }

func TestSiwVerbsPeerToPeer(t *testing.T) {
	testVerbs(t, setting{variant: "p2p", crc: true, peerToPeer: true})
}

func testVerbs(t *testing.T, s setting) {
	g := Up(t, s.variant)
	cases := verbsCases()
	if !s.peerToPeer { // an error is the same however the connection came to be
		cases = append(cases, weAccess()...)
		cases = append(cases, siwAccesses()...)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Run("siw connects", func(t *testing.T) { c.siwConnects(t, g, s) })
			t.Run("siw listens", func(t *testing.T) { c.siwListens(t, g, s) })
		})
		if t.Failed() && g.broken() {
			t.Fatal("the guest's kernel has met a BUG(): no connection would work any more")
		}
	}
}

// step is one step of verbs-peer, and the result that it must print.
type step struct{ do, want string }

func ok(steps ...string) []step {
	s := make([]step, len(steps))
	for i, do := range steps {
		s[i] = step{do: do, want: "ok"}
	}
	return s
}

// gone is the last step of most scripts: the peer, which is we, ends the connection.
var gone = step{do: "gone", want: "RDMA_CM_EVENT_DISCONNECTED"}

// verbsCase is one exchange with verbs-peer.
type verbsCase struct {
	name  string
	setup []step // before the connection
	conns int    // 0 is 1
	depth int    // IRD and ORD of both ends; 0 is 1
	// script is what siw's end does once the initiator of each connection has said
	// a first word: in a client-server connection the responder has to wait for it.
	script []step
	run    func(*testing.T, *verbsEnd) // our end of it
	// terminate is the Terminate that siw's kernel must have found in what we sent.
	terminate protocol.Code
}

// verbsEnd is our end.
type verbsEnd struct {
	ctx   context.Context
	job   *Job
	conns []*verbsConn
	*verbsConn
}

// verbsConn is one connection, with a QP of the test's.
type verbsConn struct {
	*iwarp.Conn
	ctx  context.Context
	job  *Job
	qp   *iwarp.QP
	bufs [][]byte // the receives' memory, by their ID
}

const (
	recvCount = 8
	recvSize  = 4096
)

// queues makes a QP with receives, and the configuration of its connection.
func (c *verbsCase) queues(t *testing.T, ctx context.Context, s setting) (*verbsConn, *iwarp.Config) {
	t.Helper()
	cfg := s.config(t)
	dev := cfg.Device
	if dev == nil {
		var err error
		if dev, err = iwarp.NewDevice(nil); err != nil {
			t.Fatal(err)
		}
	}
	pd, err := dev.NewPD()
	if err != nil {
		t.Fatal(err)
	}
	v := &verbsConn{ctx: ctx}
	if v.qp, err = pd.NewQP(nil); err != nil {
		t.Fatal(err)
	}
	for i := range recvCount {
		v.bufs = append(v.bufs, make([]byte, recvSize))
		v.postRecv(t, i)
	}
	cfg.Device, cfg.QP = nil, v.qp
	cfg.IRD, cfg.ORD = c.peerDepth(), c.peerDepth()
	return v, cfg
}

func (c *verbsCase) peerDepth() int { return max(c.depth, 1) }
func (c *verbsCase) peers() int     { return max(c.conns, 1) }

// steps are all steps of siw's end. hello is what it does first on connection i.
func (c *verbsCase) steps(hello func(i int) []step) []step {
	all := ok(fmt.Sprintf("conns:%d", c.peers()), fmt.Sprintf("depths:%d:%d", c.peerDepth(), c.peerDepth()))
	all = append(all, c.setup...)
	all = append(all, step{do: "start", want: "ok"})
	for i := range c.peers() {
		all = append(all, hello(i)...)
	}
	return append(append(all, step{do: "on:0", want: "ok"}), c.script...)
}

// command runs verbs-peer, and prints behind its steps what the guest's kernel
// says of Terminates meanwhile.
func command(how string, steps []step) string {
	var b strings.Builder
	b.WriteString("dmesg -C; timeout 50 verbs-peer " + how)
	for _, s := range steps {
		b.WriteString(" " + s.do)
	}
	b.WriteString("; status=$?; dmesg | grep TERMINATE; exit $status")
	return b.String()
}

func (c *verbsCase) siwConnects(t *testing.T, g *Guest, s setting) {
	steps := c.steps(func(i int) []step {
		return []step{{do: fmt.Sprintf("on:%d", i), want: "ok"}, {do: "send:-", want: "success"}}
	})
	ln, ctx := listen(t, nil)
	job := g.Start(t, command("connect "+hostAddr+" "+port(ln.Addr().String()), steps))
	end := &verbsEnd{ctx: ctx, job: job}
	for range c.peers() {
		v, cfg := c.queues(t, ctx, s)
		req, err := ln.AcceptRequest(ctx)
		if err != nil {
			t.Fatalf("%v; theirs printed:\n%s", err, job.Output())
		}
		if v.Conn, err = req.Accept(ctx, cfg); err != nil {
			t.Fatalf("%v; theirs printed:\n%s", err, job.Output())
		}
		end.add(t, s, v)
	}
	for _, v := range end.conns { // siw's end says its word when all stand
		v.recv(t)
	}
	c.finish(t, g, end, steps)
}

func (c *verbsCase) siwListens(t *testing.T, g *Guest, s setting) {
	steps := c.steps(func(i int) []step { return []step{{do: "recv", want: fmt.Sprintf("0 octets on %d", i)}} })
	number, addr := g.Port(t)
	job := g.Serve(t, number, command("listen "+number, steps))
	ctx, cancel := context.WithTimeout(t.Context(), exchangeTime)
	t.Cleanup(cancel)
	end := &verbsEnd{ctx: ctx, job: job}
	for range c.peers() {
		v, cfg := c.queues(t, ctx, s)
		var err error
		if v.Conn, err = iwarp.Dial(ctx, "tcp", addr, cfg); err != nil {
			t.Fatalf("%v; theirs printed:\n%s", err, job.Output())
		}
		end.add(t, s, v)
		v.do(t, iwarp.SendWR{Op: iwarp.OpSend})
	}
	c.finish(t, g, end, steps)
}

func (e *verbsEnd) add(t *testing.T, s setting, v *verbsConn) {
	t.Helper()
	v.job = e.job
	t.Cleanup(v.Abort)
	if err := s.check(v.Conn); err != nil {
		t.Fatal(err)
	}
	if e.conns == nil {
		e.verbsConn = v
	}
	e.conns = append(e.conns, v)
}

// finish runs our side, ends the connections that still stand, and looks at the
// result of each of siw's steps.
func (c *verbsCase) finish(t *testing.T, g *Guest, e *verbsEnd, steps []step) {
	t.Helper()
	c.run(t, e)
	for _, v := range e.conns {
		if err := v.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	lines := strings.Split(strings.TrimSpace(e.job.MustEnd(t)), "\n")
	for i, s := range steps {
		if i >= len(lines) {
			t.Fatalf("%s: siw's end did not come to it", s.do)
		}
		if got := lines[i]; !match(s.do+" -> "+s.want, got) {
			t.Errorf("siw's end: %s; want %q", got, s.want)
		} else if strings.Contains(s.want, "*") {
			t.Logf("siw's end: %s", got)
		}
	}
	if c.terminate == 0 {
		return
	}
	read := swapped(c.terminate)
	want := fmt.Sprintf("got TERMINATE. layer %d, type %d, code %d", read.Layer(), read.Type(), read.Number())
	if heard := strings.Join(lines[len(steps):], "\n"); !strings.Contains(heard, want) {
		t.Errorf("want %q in siw's log:\n%s", want, heard)
	}
}

// match compares a line with a wanted one, in which * stands for anything.
func match(want, got string) bool {
	parts := strings.Split(want, "*")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(got)
}

// failed tells what siw's end printed beside the error.
func (v *verbsConn) failed(t *testing.T, what string, err error) {
	t.Helper()
	t.Fatalf("%s: %v; the connection: %v; siw's end printed:\n%s", what, err, v.Err(), v.job.Output())
}

func (v *verbsConn) post(t *testing.T, wrs ...iwarp.SendWR) {
	t.Helper()
	if err := v.qp.PostSend(wrs...); err != nil {
		v.failed(t, "posting", err)
	}
}

// next is the next completion of cq.
func (v *verbsConn) next(t *testing.T, cq *iwarp.CQ) iwarp.Completion {
	t.Helper()
	var c [1]iwarp.Completion
	if _, err := cq.Wait(v.ctx, c[:]); err != nil {
		v.failed(t, "waiting for a completion", err)
	}
	return c[0]
}

// do posts a request and waits for its success.
func (v *verbsConn) do(t *testing.T, wr iwarp.SendWR) iwarp.Completion {
	t.Helper()
	v.post(t, wr)
	c := v.next(t, v.qp.SendCQ())
	if c.Err != nil {
		v.failed(t, wr.Op.String(), c.Err)
	}
	return c
}

func (v *verbsConn) send(t *testing.T, data ...[]byte) {
	t.Helper()
	v.do(t, iwarp.SendWR{Op: iwarp.OpSend, SG: data})
}

func (v *verbsConn) postRecv(t *testing.T, i int) {
	t.Helper()
	if err := v.qp.PostRecv(iwarp.RecvWR{ID: uint64(i), SG: [][]byte{v.bufs[i]}}); err != nil {
		t.Fatal(err)
	}
}

// recv is the next message. Its receive is posted again.
func (v *verbsConn) recv(t *testing.T) (iwarp.Completion, []byte) {
	t.Helper()
	c := v.next(t, v.qp.RecvCQ())
	if c.Err != nil {
		v.failed(t, "receiving", c.Err)
	}
	p := bytes.Clone(v.bufs[c.ID][:c.Length])
	v.postRecv(t, int(c.ID))
	return c, p
}

// learn receives what verbs-peer's step advertise sends.
func (v *verbsConn) learn(t *testing.T) iwarp.RemoteBuffer {
	t.Helper()
	_, p := v.recv(t)
	if len(p) != 16 {
		t.Fatalf("an address has %d octets, want 16", len(p))
	}
	return iwarp.RemoteBuffer{TO: binary.BigEndian.Uint64(p), STag: iwarp.STag(binary.BigEndian.Uint32(p[8:]))}
}

// advertise is for its step learn.
func (v *verbsConn) advertise(t *testing.T, r iwarp.RemoteBuffer) {
	t.Helper()
	p := binary.BigEndian.AppendUint64(nil, r.TO)
	p = binary.BigEndian.AppendUint32(p, uint32(r.STag))
	v.send(t, binary.BigEndian.AppendUint32(p, 0))
}

// region registers memory for this connection only, as a peer's Send with
// Invalidate needs.
func (v *verbsConn) region(t *testing.T, buf []byte, access iwarp.Access) *iwarp.MR {
	t.Helper()
	mr, err := v.qp.PD().NewMR(buf, access, &iwarp.MROptions{QP: v.qp, Base: 0x7000_0000_0000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mr.Close() })
	return mr
}

// swapped is what siw makes of a code, in both directions: it has layer and error
// type in each other's place (RFC 5040 section 4.8 puts the layer into the four
// most significant bits).
func swapped(c protocol.Code) protocol.Code {
	return protocol.NewCode(protocol.Layer(c.Type()), uint8(c.Layer()), c.Number())
}

// wantError waits for the end of the connection, which must be for the given
// reason. siw's Terminate has the swapped code, and is understood.
func (v *verbsConn) wantError(t *testing.T, code protocol.Code, remote bool) {
	t.Helper()
	select {
	case <-v.Done():
	case <-v.ctx.Done():
		v.failed(t, fmt.Sprintf("want %v", code), v.ctx.Err())
	}
	var got *iwarp.ProtocolError
	if !errors.As(v.Err(), &got) || got.Code != code || got.Remote != remote {
		t.Errorf("the connection ended with: %v; want code %v, found by the peer: %v", v.Err(), code, remote)
	}
}

// pattern is verbs-peer's.
func pattern(seed, length int) []byte {
	p := make([]byte, length)
	for i := range p {
		p[i] = byte(seed + 7*i + 13*(i>>8) + 31*(i>>16))
	}
	return p
}

func wantBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("%s: octet %s is %#x, want %#x", what, strconv.Itoa(i), got[i], want[i])
			return
		}
	}
	t.Errorf("%s: %d octets, want %d", what, len(got), len(want))
}
