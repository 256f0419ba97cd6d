package iwarp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// All operations posted as one list complete in order, with their id and opcode,
// and land where they should.
// Shows: RDMAP-5.5-08, RDMAP-5.5-10, RDMAP-5.3-05, RDMAP-5.3-08, RDMAP-5.1-05, EXT-5.2.1-11
func TestPostSendAll(t *testing.T) {
	a, b := qpPair(t, nil, nil)
	recvs := [][]byte{make([]byte, 100), make([]byte, 100), nil}
	for i, r := range recvs {
		check(t, "PostRecv", b.PostRecv(iwarp.RecvWR{ID: uint64(100 + i), SG: [][]byte{r[:len(r)/3], r[len(r)/3:]}}))
	}
	g := newGuarded(1000)
	mr := must(b.PD().NewMR(g.mem, iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic,
		&iwarp.MROptions{QP: b, Base: 1 << 40}))(t)
	defer mr.Close()
	other := must(b.PD().NewMR(make([]byte, 8), iwarp.RemoteRead, &iwarp.MROptions{QP: b}))(t)
	defer other.Close()
	mine := must(a.PD().NewMR(make([]byte, 8), iwarp.RemoteRead, &iwarp.MROptions{QP: a}))(t)
	defer mine.Close()
	x, y, z := make([]byte, 3), make([]byte, 4), make([]byte, 5)
	inline := []byte("inline")
	wrs := []iwarp.SendWR{
		{ID: 1, Op: iwarp.OpWrite, SG: [][]byte{[]byte("abc"), nil, []byte("defghijkl")}, Remote: remoteAt(mr, 10)},
		{ID: 2, Op: iwarp.OpRead, SG: [][]byte{x, y, z}, Remote: remoteAt(mr, 10)},
		{ID: 3, Op: iwarp.OpFetchAdd, Remote: remoteAt(mr, 512), Operand: 7},
		{
			ID: 4, Op: iwarp.OpCompareSwap, Remote: remoteAt(mr, 512), Compare: 7, CompareMask: ^uint64(0), Operand: 9,
			OperandMask: ^uint64(0),
		},
		{ID: 5, Op: iwarp.OpSend, SG: [][]byte{[]byte("one "), []byte("two")}},
		{
			ID: 6, Op: iwarp.OpSendInvalidate, SG: [][]byte{inline}, Inline: true, Invalidate: other.STag(),
			Solicited: true,
		},
		{ID: 7, Op: iwarp.OpImmediate, Immediate: 42},
		{ID: 8, Op: iwarp.OpInvalidate, Invalidate: mine.STag()},
		{ID: 9, Op: iwarp.OpWrite, SG: [][]byte{[]byte("quiet")}, Remote: remoteAt(mr, 100), Unsignaled: true},
		{ID: 10, Op: iwarp.OpRead, SG: [][]byte{make([]byte, 1)}, Remote: mr.Remote(), Fence: true},
	}
	check(t, "PostSend", a.PostSend(wrs...))
	copy(inline, "broken")
	lengths := map[uint64]uint32{1: 12, 2: 12, 3: 8, 4: 8, 5: 7, 6: 6, 7: 8, 10: 1}
	got := collect(t, a.SendCQ(), 9)
	for i, c := range got {
		want := wrs[i]
		if i == 8 {
			want = wrs[9] // the ninth is unsignaled
		}
		if c.ID != want.ID || c.Op != want.Op || c.Err != nil || c.Status() != iwarp.StatusSuccess || c.QP != a ||
			c.Length != lengths[c.ID] {
			t.Errorf("completion %d: %+v, want that of %v", i, c, want.Op)
		}
	}
	if got[2].Original != 0 || got[3].Original != 7 || binary.NativeEndian.Uint64(g.mem[512:]) != 9 {
		t.Errorf("atomics found %d and %d and left %d", got[2].Original, got[3].Original,
			binary.NativeEndian.Uint64(g.mem[512:]))
	}
	if s := string(x) + string(y) + string(z); s != "abcdefghijkl" || string(g.mem[10:22]) != s ||
		string(g.mem[100:105]) != "quiet" {
		t.Errorf("read %q", s)
	}
	if mine.Valid() || other.Valid() || !mr.Valid() {
		t.Errorf("valid: mine %v, other %v, mr %v", mine.Valid(), other.Valid(), mr.Valid())
	}
	g.check(t)
	rc := collect(t, b.RecvCQ(), 3)
	for i, want := range []iwarp.Completion{
		{ID: 100, QP: b, Op: iwarp.OpRecv, Length: 7},
		{ID: 101, QP: b, Op: iwarp.OpRecv, Length: 6, Solicited: true, Invalidated: other.STag()},
		{ID: 102, QP: b, Op: iwarp.OpRecvImmediate, Length: 8, Immediate: 42},
	} {
		if rc[i] != want {
			t.Errorf("receive %d: %+v\nwant %+v", i, rc[i], want)
		}
	}
	if !bytes.HasPrefix(recvs[0], []byte("one two\x00")) || !bytes.HasPrefix(recvs[1], []byte("inline\x00")) {
		t.Errorf("received %.10q, %.10q", recvs[0], recvs[1])
	}
}

// R52: a bad request in a list is named, those before it were posted.
func TestPostErrors(t *testing.T) {
	a, b := qpPair(t, &iwarp.QPConfig{MaxSGE: 2, SendDepth: 8}, &iwarp.QPConfig{MaxSGE: 2, RecvDepth: 3})
	ok := iwarp.SendWR{ID: 1, Op: iwarp.OpWrite}
	for _, c := range []struct {
		bad   iwarp.SendWR
		words []string
	}{
		{bad: iwarp.SendWR{Op: 99}, words: []string{"Op", "99"}},
		{bad: iwarp.SendWR{}, words: []string{"Op", "0"}},
		{bad: iwarp.SendWR{Op: iwarp.OpSend, SG: make([][]byte, 3)}, words: []string{"SG", "3 elements", "at most 2"}},
		{
			bad:   iwarp.SendWR{Op: iwarp.OpSend, Inline: true, SG: [][]byte{make([]byte, 1025)}},
			words: []string{"Inline", "1025", "1024"},
		},
		{bad: iwarp.SendWR{Op: iwarp.OpRead, Inline: true, SG: [][]byte{make([]byte, 1)}}, words: []string{"Inline"}},
		{
			bad: iwarp.SendWR{
				Op: iwarp.OpWrite, SG: [][]byte{make([]byte, 2)}, Remote: iwarp.RemoteBuffer{TO: ^uint64(0)},
			},
			words: []string{"TO", "wrap"},
		},
		{bad: iwarp.SendWR{Op: iwarp.OpFetchAdd, SG: [][]byte{make([]byte, 8)}}, words: []string{"SG"}},
	} {
		err := a.PostSend(ok, ok, c.bad, ok)
		var perr *iwarp.PostError
		if !errors.As(err, &perr) || perr.Index != 2 || !errors.Is(err, iwarp.ErrInvalidWR) {
			t.Errorf("%v: error %v, want index 2 and ErrInvalidWR", c.bad.Op, err)
			continue
		}
		wantWords(t, err, c.words...)
		collect(t, a.SendCQ(), 2)
	}
	r := iwarp.RecvWR{SG: [][]byte{nil}}
	err := b.PostRecv(r, r, iwarp.RecvWR{SG: make([][]byte, 3)}, r)
	var perr *iwarp.PostError
	if !errors.As(err, &perr) || perr.Index != 2 || !errors.Is(err, iwarp.ErrInvalidWR) {
		t.Errorf("PostRecv: %v", err)
	}
	err = b.PostRecv(r, r)
	if !errors.As(err, &perr) || perr.Index != 1 || !errors.Is(err, iwarp.ErrRecvQueueFull) {
		t.Errorf("PostRecv beyond the depth: %v", err)
	}
	// The connection has not noticed anything.
	check(t, "Send", a.PostSend(iwarp.SendWR{ID: 77, Op: iwarp.OpSend}))
	if c := collect(t, a.SendCQ(), 1)[0]; c.ID != 77 || c.Err != nil {
		t.Errorf("%+v", c)
	}
	// Calls on the wrong kind of QP.
	x, _ := tcpPair(t, nil, nil)
	if err := x.QP().PostRecv(r); !errors.Is(err, iwarp.ErrInvalidWR) {
		t.Errorf("PostRecv on a QP of the library: %v", err)
	}
	if _, err := a.Conn().Recv(testContext(t), nil); !errors.Is(err, iwarp.ErrInvalidWR) {
		t.Errorf("Recv on a QP of the program: %v", err)
	}
	q := newQP(t, newDevice(t, nil), nil)
	if err := q.PostSend(ok); !errors.Is(err, iwarp.ErrNotConnected) || q.Conn() != nil {
		t.Errorf("PostSend before there is a connection: %v", err)
	}
}

// R64: a full send queue refuses, nothing is lost, and it works again after a
// completion.
func TestSendQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const depth = 5
		x, y := pipe(nil)
		d := newDevice(t, nil)
		qp := newQP(t, d, &iwarp.QPConfig{SendDepth: depth})
		p := iwarptest.NewPeer(t, y)
		done := make(chan *iwarp.Conn, 1)
		go func() {
			c, err := iwarp.Client(testContext(t), x,
				&iwarp.Config{QP: qp, MPA: iwarp.MPAConfig{RTR: iwarp.RTRNone}, ORD: 1})
			if err != nil {
				t.Error(err)
			}
			done <- c
		}()
		p.Respond("startup", iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(32, 32, nil)))
		c := <-done
		defer c.Abort()
		sink := make([]byte, 4)
		read := iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{sink}}
		for i := range depth {
			read.ID = uint64(i)
			check(t, "PostSend", qp.PostSend(read))
		}
		if err := qp.PostSend(read); !errors.Is(err, iwarp.ErrSendQueueFull) {
			t.Fatalf("post beyond the depth: %v", err)
		}
		// ORD is 1: one Read Request only, then nothing (RDMAP-6.1-04).
		for i := range depth {
			req := p.Frame("the next Read Request")
			p.WantIdle("a Read beyond ORD waits")
			p.Send(iwarptest.ReadResponse(binary.BigEndian.Uint32(req[18:]), binary.BigEndian.Uint64(req[22:]),
				[]byte{1, 2, 3, byte(i)}))
			if got := collect(t, qp.SendCQ(), 1)[0]; got.ID != uint64(i) || got.Err != nil || sink[3] != byte(i) {
				t.Fatalf("completion %+v", got)
			}
			if i == 0 {
				read.ID = depth
				check(t, "PostSend after a completion", qp.PostSend(read))
			}
		}
		p.Frame("the Read that was refused at first")
	})
}

// A simple call waits for room in a full send queue, as long as its context lasts.
func TestSendQueueFullSimple(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := serverOfPeer(t, &iwarp.Config{SendDepth: 1}) // which sends nothing before its peer does
		first := iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{[]byte("first")}, Unsignaled: true}
		check(t, "PostSend", c.QP().PostSend(first))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Send(ctx, []byte("never")); !errors.Is(err, context.DeadlineExceeded) || c.Err() != nil {
			t.Fatalf("Send without room: %v; the connection: %v", err, c.Err())
		}
		sent := make(chan error)
		go func() { sent <- c.Send(testContext(t), []byte("second")) }()
		synctest.Wait()
		p.Send(iwarptest.Send(1, nil))
		p.WantFrame("its turn", iwarptest.Send(1, []byte("first")))
		p.WantFrame("there is room now", iwarptest.Send(2, []byte("second")))
		check(t, "Send", <-sent)
	})
	synctest.Test(t, func(t *testing.T) {
		c, _ := serverOfPeer(t, &iwarp.Config{SendDepth: 1})
		check(t, "PostSend", c.QP().PostSend(iwarp.SendWR{Op: iwarp.OpSend, Unsignaled: true}))
		sent := make(chan error)
		go func() { sent <- c.Send(testContext(t), nil) }()
		synctest.Wait()
		c.Abort()
		if err := <-sent; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Send that waits for room, after Abort: %v", err)
		}
	})
}

// R39: a fence holds until all earlier Reads are done.
// Shows: RDMAP-5.5-07
func TestFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := clientOfPeer(t, nil)
		qp := c.QP()
		read := iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{make([]byte, 4)}}
		check(t, "PostSend",
			qp.PostSend(read, read, read, read, iwarp.SendWR{Op: iwarp.OpSend, Fence: true},
				iwarp.SendWR{Op: iwarp.OpWrite}))
		var reqs [][]byte
		for range 4 {
			reqs = append(reqs, p.Frame("a Read Request"))
		}
		for _, r := range reqs {
			p.WantIdle("the fenced Send waits")
			p.Send(iwarptest.ReadResponse(binary.BigEndian.Uint32(r[18:]), 0, make([]byte, 4)))
		}
		p.WantFrame("the fenced Send", iwarptest.Send(1, nil))
		p.WantFrame("what was posted after it", iwarptest.Write(0, 0, nil))
		for _, c := range collect(t, qp.SendCQ(), 6) {
			check(t, "completion", c.Err)
		}
	})
}

// Device limits are queryable; a post at the limit works and one beyond it fails
// and says so (R67).
// Shows: DDP-8.3.2-02, DDP-8.3.2-05, RDMAP-8.1.2-05
func TestDeviceLimits(t *testing.T) {
	d := newDevice(t,
		&iwarp.DeviceConfig{MaxPD: 2, MaxQP: 2, MaxCQ: 5, MaxMR: 2, MaxCQE: 10, MaxWR: 6, MaxSGE: 3, MaxRead: 4})
	l := d.Limits()
	if l.MaxPD != 2 || l.MaxQP != 2 || l.MaxCQ != 5 || l.MaxMR != 2 || l.MaxCQE != 10 || l.MaxWR != 6 ||
		l.MaxSGE != 3 || l.MaxRead != 4 ||
		l.MaxInline < 64 || l.MaxMessage != 1<<32-1 {
		t.Fatalf("limits %+v", l)
	}
	limit := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, iwarp.ErrLimit) {
			t.Errorf("%s beyond the limit: %v", what, err)
		}
	}
	pd, pd2 := must(d.NewPD())(t), must(d.NewPD())(t)
	_, err := d.NewPD()
	limit("PD", err)
	check(t, "PD.Close", pd2.Close())
	check(t, "PD.Close again", pd2.Close())
	pd2 = must(d.NewPD())(t)

	_, err = d.NewCQ(11)
	limit("CQ depth", err)
	_, err = d.NewCQ(0)
	limit("CQ depth 0", err)
	for _, c := range []iwarp.QPConfig{{SendDepth: 7}, {RecvDepth: 7}, {MaxSGE: 4}, {SendDepth: -1}} {
		_, err = pd.NewQP(&c)
		limit("QP capacity", err)
	}
	q1, q2 := must(pd.NewQP(&iwarp.QPConfig{SendDepth: 6, RecvDepth: 6, MaxSGE: 3}))(t), must(pd.NewQP(nil))(t)
	_, err = pd.NewQP(nil)
	limit("QP", err)
	cq := must(d.NewCQ(10))(t)
	_, err = d.NewCQ(1)
	limit("CQ", err)
	cq.Close()
	cq.Close()

	m1, m2 := must(pd.NewMR(nil, 0, nil))(t), must(pd.NewMR(make([]byte, 1), iwarp.RemoteRead, nil))(t)
	_, err = pd.NewMR(nil, 0, nil)
	limit("MR", err)
	if err := pd.Close(); !errors.Is(err, iwarp.ErrInUse) {
		t.Errorf("PD in use: %v", err)
	}
	m1.Close()
	m1.Close()
	m2.Close()
	if _, err := pd2.NewMR(nil, 0, &iwarp.MROptions{QP: q1}); err == nil {
		t.Error("a region was bound to a QP of another domain")
	}
	for i := range 7 {
		err := q1.PostRecv(iwarp.RecvWR{SG: make([][]byte, 3)})
		if (err != nil) != (i == 6) {
			t.Errorf("PostRecv %d: %v", i, err)
		}
	}
	if _, err := iwarp.Dial(t.Context(), "tcp", "127.0.0.1:1", &iwarp.Config{Device: d, IRD: 5}); !errors.Is(err,
		iwarp.ErrLimit) {
		t.Errorf("IRD beyond the limit: %v", err)
	}
	for _, q := range []*iwarp.QP{q1, q2} {
		check(t, "QP.Close", q.Close())
		check(t, "QP.Close again", q.Close())
	}
	for _, c := range collect(t, q1.RecvCQ(), 6) {
		if !errors.Is(c.Err, iwarp.ErrFlushed) {
			t.Errorf("receive of a QP that was closed: %v", c.Err)
		}
	}
	check(t, "PD.Close", pd.Close())
	check(t, "PD.Close", pd2.Close())
	if u := d.Use(); u.PDs != 0 || u.QPs != 0 || u.CQs != 0 || u.MRs != 0 {
		t.Errorf("left in use: %+v", u)
	}
}

// The defaults fit a device with small limits.
func TestSmallDevice(t *testing.T) {
	d := newDevice(t,
		&iwarp.DeviceConfig{MaxPD: 2, MaxQP: 2, MaxCQ: 4, MaxMR: 1, MaxCQE: 1, MaxWR: 1, MaxSGE: 1, MaxRead: 1})
	a, b := tcpPair(t, &iwarp.Config{Device: d}, &iwarp.Config{Device: d})
	ctx := testContext(t)
	for range 3 {
		check(t, "Send", a.Send(ctx, []byte("small")))
		wantRecv(t, b, "small")
	}
}

// R31, R48: gather lists as long as the device allows, whose pieces start and end
// anywhere.
func TestLongGatherList(t *testing.T) {
	d := newDevice(t, nil)
	n := d.Limits().MaxSGE
	a, b := newQP(t, d, &iwarp.QPConfig{MaxSGE: n}), newQP(t, d, &iwarp.QPConfig{MaxSGE: n})
	tcpPair(t, &iwarp.Config{QP: a, MPA: iwarp.MPAConfig{FPDUMax: 1000}}, &iwarp.Config{QP: b})
	cut := func(p []byte) (sg [][]byte) {
		for i := range n - 1 {
			k := min(len(p), i*37%113) // some are empty
			sg, p = append(sg, p[:k:k]), p[k:]
		}
		return append(sg, p)
	}
	data := pattern(50_000)
	g := newGuarded(len(data))
	check(t, "PostRecv", b.PostRecv(iwarp.RecvWR{SG: cut(g.mem)}))
	check(t, "PostSend", a.PostSend(iwarp.SendWR{Op: iwarp.OpSend, SG: cut(data)}))
	if c := collect(t, b.RecvCQ(), 1)[0]; c.Err != nil || int(c.Length) != len(data) || !bytes.Equal(g.mem, data) {
		t.Errorf("Send: %+v", c)
	}
	g.check(t)
	mr := must(b.PD().NewMR(g.mem[1:], iwarp.RemoteRead|iwarp.RemoteWrite, nil))(t)
	defer mr.Close()
	back := newGuarded(len(data) - 1)
	check(t, "PostSend", a.PostSend(
		iwarp.SendWR{Op: iwarp.OpWrite, SG: cut(data[:len(data)-1]), Remote: mr.Remote()},
		iwarp.SendWR{Op: iwarp.OpRead, SG: cut(back.mem), Remote: mr.Remote()}))
	for _, c := range collect(t, a.SendCQ(), 3) {
		check(t, c.Op.String(), c.Err)
	}
	if !bytes.Equal(back.mem, data[:len(data)-1]) || g.mem[0] != data[0] {
		t.Error("the octets read are not the octets written")
	}
	back.check(t)
	g.check(t)
	if err := a.PostSend(iwarp.SendWR{Op: iwarp.OpSend, SG: make([][]byte, n+1)}); !errors.Is(err, iwarp.ErrInvalidWR) {
		t.Errorf("one element more: %v", err)
	}
}

// What does not fit in a RemoteBuffer is refused when it is posted; without a Length, by
// the peer.
func TestRemoteBufferLength(t *testing.T) {
	a, b := qpPair(t, nil, nil)
	mr := must(b.PD().NewMR(make([]byte, 16), iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic, nil))(t)
	defer mr.Close()
	for _, op := range []iwarp.Op{iwarp.OpWrite, iwarp.OpRead, iwarp.OpFetchAdd, iwarp.OpCompareSwap} {
		wr := func(n int, to iwarp.RemoteBuffer) iwarp.SendWR {
			wr := iwarp.SendWR{Op: op, Remote: to}
			if op == iwarp.OpWrite || op == iwarp.OpRead {
				wr.SG = [][]byte{make([]byte, n)}
			}
			return wr
		}
		for _, tt := range []struct {
			name string
			to   iwarp.RemoteBuffer
		}{
			{name: "longer than Length", to: mr.Remote().Slice(0, 7)},
			{name: "longer than what is left", to: mr.Remote().Slice(9, 7)},
			{name: "a part behind the end", to: mr.Remote().Slice(17, 0)},
			{name: "a part that is too long", to: mr.Remote().Slice(9, 8)},
		} {
			if err := a.PostSend(wr(8, tt.to)); !errors.Is(err, iwarp.ErrInvalidWR) {
				t.Errorf("%v, %s: %v, want ErrInvalidWR", op, tt.name, err)
			}
		}
		check(t, "PostSend", a.PostSend(wr(8, mr.Remote().Slice(8, 8))))
		for _, c := range collect(t, a.SendCQ(), 1) {
			check(t, c.Op.String(), c.Err)
		}
	}
	check(t, "PostSend",
		a.PostSend(iwarp.SendWR{Op: iwarp.OpWrite, SG: [][]byte{make([]byte, 17)}, Remote: remoteAt(mr, 0)}))
	wantDone(t, a.Conn())
	wantCode(t, a.Conn().Err(), protocol.DDPTaggedBounds, true)
}

// A QP serves one connection. One that cannot says so before the peer hears of it.
func TestQPInUse(t *testing.T) {
	a, _ := qpPair(t, nil, nil)
	closed := newQP(t, newDevice(t, nil), nil)
	check(t, "QP.Close", closed.Close())
	for qp, want := range map[*iwarp.QP]error{a: iwarp.ErrInUse, closed: net.ErrClosed} {
		x, y := pipe(nil)
		if _, err := iwarp.Client(testContext(t), x, &iwarp.Config{QP: qp}); !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
		if n, err := y.Read(make([]byte, 1)); n > 0 || err != io.EOF {
			t.Errorf("%v: the peer has %d octets, %v; want none", want, n, err)
		}
	}
	if got := a.Conn().QP(); got != a || a.Conn().PD() != a.PD() || a.PD().Device() == nil {
		t.Error("Conn, QP and PD do not know each other")
	}
}

// R53: requests of a connection that has ended keep their id and opcode.
// Shows: RDMAP-5.4-06, RDMAP-6.2.1-02
func TestFlush(t *testing.T) {
	a, b := qpPair(t, nil, nil)
	for i := range 3 {
		check(t, "PostRecv", a.PostRecv(iwarp.RecvWR{ID: uint64(i)}))
	}
	b.Conn().Abort()
	wantDone(t, a.Conn())
	wrs := []iwarp.SendWR{
		{ID: 10, Op: iwarp.OpSend},
		{ID: 11, Op: iwarp.OpWrite, Unsignaled: true},
		{ID: 12, Op: iwarp.OpRead},
		{ID: 13, Op: iwarp.OpFetchAdd},
		{ID: 14, Op: iwarp.OpImmediate},
		{ID: 15, Op: iwarp.OpInvalidate},
		{ID: 16, Op: iwarp.OpSendInvalidate},
	}
	check(t, "PostSend on a failed connection", a.PostSend(wrs...))
	for i, c := range collect(t, a.SendCQ(), len(wrs)) {
		if c.ID != wrs[i].ID || c.Op != wrs[i].Op || !errors.Is(c.Err, iwarp.ErrFlushed) ||
			c.Status() != iwarp.StatusFlushed {
			t.Errorf("%+v (%v), want the flush of %d %v", c, c.Status(), wrs[i].ID, wrs[i].Op)
		}
		wantCode(t, c.Err, protocol.MPAConnectionLost, false)
	}
	check(t, "PostRecv on a failed connection", a.PostRecv(iwarp.RecvWR{ID: 3}))
	for i, c := range collect(t, a.RecvCQ(), 4) {
		if c.ID != uint64(i) || c.Op != iwarp.OpRecv || !errors.Is(c.Err, iwarp.ErrFlushed) ||
			c.Status() != iwarp.StatusFlushed {
			t.Errorf("%+v, want the flush of receive %d", c, i)
		}
	}
}

// Requests after Close and CloseWrite are refused.
// Shows: DDP-6.2.1-02
func TestPostAfterClose(t *testing.T) {
	a, b := qpPair(t, nil, nil)
	closeBoth(t, a.Conn(), b.Conn())
	if err := a.PostSend(iwarp.SendWR{Op: iwarp.OpSend}); !errors.Is(err, rdmap.ErrClosed) {
		t.Errorf("PostSend after Close: %v", err)
	}
	check(t, "PostRecv after Close", a.PostRecv(iwarp.RecvWR{ID: 9}))
	if c := collect(t, a.RecvCQ(), 1)[0]; c.ID != 9 || !errors.Is(c.Err, iwarp.ErrFlushed) {
		t.Errorf("%+v", c)
	}
}

func TestNames(t *testing.T) {
	for op := iwarp.Op(0); op < 0x50; op++ {
		if op.String() == "" {
			t.Errorf("operation %d has no name", op)
		}
	}
	seen := map[string]bool{}
	for s := iwarp.StatusSuccess; s <= iwarp.StatusLocal+1; s++ {
		if name := s.String(); name == "" || seen[name] {
			t.Errorf("status %d: %q", s, name)
		} else {
			seen[name] = true
		}
	}
}

func TestStatus(t *testing.T) {
	remote := func(code protocol.Code) error { return &iwarp.ProtocolError{Code: code, Remote: true} }
	flushed := func(err error) error { return fmt.Errorf("%w: %w", iwarp.ErrFlushed, err) }
	for _, c := range []struct {
		op   iwarp.Op
		err  error
		want iwarp.Status
	}{
		{op: iwarp.OpSend, err: nil, want: iwarp.StatusSuccess},
		{op: iwarp.OpWrite, err: remote(protocol.DDPTaggedBounds), want: iwarp.StatusRemoteAccess},
		{op: iwarp.OpRead, err: remote(protocol.RDMAPAccess), want: iwarp.StatusRemoteAccess},
		{op: iwarp.OpSend, err: remote(protocol.DDPUntaggedNoBuffer), want: iwarp.StatusRemoteInvalid},
		{op: iwarp.OpImmediate, err: remote(protocol.RDMAPOpcode), want: iwarp.StatusRemoteUnsupported},
		{op: iwarp.OpRead, err: flushed(remote(protocol.RDMAPAccess)), want: iwarp.StatusFlushed},
		{op: iwarp.OpSend, err: flushed(&iwarp.ProtocolError{Code: protocol.MPACRC}), want: iwarp.StatusFlushed},
		{op: iwarp.OpRead, err: &iwarp.ProtocolError{Code: protocol.RDMAPLocalCatastrophic}, want: iwarp.StatusLocal},
		{op: iwarp.OpRecv, err: flushed(remote(protocol.DDPTaggedBounds)), want: iwarp.StatusFlushed},
		{op: iwarp.OpRecv, err: &iwarp.ProtocolError{Code: protocol.DDPUntaggedTooLong}, want: iwarp.StatusLength},
		{op: iwarp.OpRecv, err: &iwarp.ProtocolError{Code: protocol.RDMAPCannotInvalidate}, want: iwarp.StatusLocal},
		{op: iwarp.OpSend, err: remote(protocol.DDPUntaggedTooLong), want: iwarp.StatusRemoteInvalid},
	} {
		if got := (&iwarp.Completion{Op: c.op, Err: c.err}).Status(); got != c.want {
			t.Errorf("%v, %v: %v, want %v", c.op, c.err, got, c.want)
		}
	}
}
