package iwarp_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// srqServer makes n connections whose server ends share a receive queue and a CQ.
func srqServer(t *testing.T, n int, cfg *iwarp.SRQConfig) (*iwarp.SRQ, *iwarp.CQ, []*iwarp.Conn, []*iwarp.QP) {
	t.Helper()
	d := newDevice(t, nil)
	pd := must(d.NewPD())(t)
	srq := must(pd.NewSRQ(cfg))(t)
	cq := must(d.NewCQ(1000))(t)
	t.Cleanup(func() { _ = cq.Close() })
	var clients []*iwarp.Conn
	var qps []*iwarp.QP
	for range n {
		qp := must(pd.NewQP(&iwarp.QPConfig{RecvCQ: cq, SRQ: srq}))(t)
		c, _ := tcpPair(t, nil, &iwarp.Config{QP: qp})
		clients, qps = append(clients, c), append(qps, qp)
	}
	return srq, cq, clients, qps
}

func postSRQ(t *testing.T, srq *iwarp.SRQ, n, size int) [][]byte {
	t.Helper()
	var bufs [][]byte
	for i := range n {
		bufs = append(bufs, make([]byte, size))
		check(t, "PostRecv", srq.PostRecv(iwarp.RecvWR{ID: uint64(i), SG: [][]byte{bufs[i]}}))
	}
	return bufs
}

// Receives go to whichever connection has a message, and complete on its QP.
// Shows: DDP-4.3-05, RDMAP-5.3-03
func TestSRQ(t *testing.T) {
	srq, cq, clients, qps := srqServer(t, 3, nil)
	bufs := postSRQ(t, srq, 9, 32)
	ctx := testContext(t)
	for i := range 9 {
		check(t, "Send", clients[i%3].Send(ctx, fmt.Appendf(nil, "message %d of %d", i/3, i%3)))
	}
	next := make(map[*iwarp.QP]int)
	for _, c := range collect(t, cq, 9) {
		from := -1
		for i, qp := range qps {
			if c.QP == qp {
				from = i
			}
		}
		want := fmt.Sprintf("message %d of %d", next[c.QP], from)
		if c.Op != iwarp.OpRecv || c.Err != nil || string(bufs[c.ID][:c.Length]) != want {
			t.Errorf("completion %+v has %q, want %q", c, bufs[c.ID][:c.Length], want)
		}
		next[c.QP]++
	}
	if srq.Posted() != 0 || len(srq.Shares()) != 0 {
		t.Errorf("%d posted, shares %v; want none", srq.Posted(), srq.Shares())
	}
	if err := srq.Close(); !errors.Is(err, iwarp.ErrInUse) {
		t.Errorf("Close with QPs: %v", err)
	}
	for _, qp := range qps {
		check(t, "QP.Close", qp.Close())
	}
	check(t, "SRQ.Close", srq.Close())
	if err := srq.PostRecv(iwarp.RecvWR{}); !errors.Is(err, iwarp.ErrInvalidWR) {
		t.Errorf("post to a closed SRQ: %v", err)
	}
}

func TestSRQLimitEvent(t *testing.T) {
	srq, cq, clients, _ := srqServer(t, 1, nil)
	postSRQ(t, srq, 3, 8)
	srq.Arm(3)
	select {
	case <-srq.Events():
		t.Fatal("an event with three receives left, armed at three")
	default:
	}
	check(t, "Send", clients[0].Send(testContext(t), []byte("x")))
	collect(t, cq, 1)
	select {
	case <-srq.Events():
	case <-testContext(t).Done():
		t.Fatal("no event with two receives left")
	}
	check(t, "Send", clients[0].Send(testContext(t), []byte("x")))
	collect(t, cq, 1)
	select {
	case <-srq.Events():
		t.Fatal("a second event for one Arm")
	default:
	}
	srq.Arm(2) // true already
	<-srq.Events()
}

// A greedy peer is found, and harms nobody but itself.
// Shows: SEC-6.4.3.1-01, RDMAP-8.1.2-07, DDP-8.3.2-06
func TestSRQGreedyPeer(t *testing.T) {
	srq, cq, clients, qps := srqServer(t, 2, &iwarp.SRQConfig{MaxShare: 4})
	postSRQ(t, srq, 20, 8)
	ctx := testContext(t)
	for range 4 {
		check(t, "Send", clients[0].Send(ctx, []byte("mine")))
	}
	_ = clients[0].Send(ctx, []byte("one more"))
	wantDone(t, clients[0])
	wantCode(t, clients[0].Err(), protocol.DDPUntaggedNoBuffer, true)
	if n := srq.Shares()[qps[0]]; n != 4 {
		t.Errorf("the greedy QP has a share of %d, want 4", n)
	}
	check(t, "Send of the other", clients[1].Send(ctx, []byte("mine")))
	seen := make(map[*iwarp.QP]int)
	for _, c := range collect(t, cq, 5) {
		seen[c.QP]++
	}
	if seen[qps[0]] != 4 || seen[qps[1]] != 1 || srq.Posted() != 15 {
		t.Errorf("completions %v, %d posted", seen, srq.Posted())
	}
}

// What a broken connection holds comes back; the rest stays for the others.
// Shows: RDMAP-6.2.1-02
func TestSRQFlush(t *testing.T) {
	srq, cq, clients, qps := srqServer(t, 2, nil)
	bufs := postSRQ(t, srq, 4, 100)
	for i, c := range clients {
		check(t, "Send", c.Send(testContext(t), []byte("ok")))
		if got := collect(t, cq, 1); got[0].QP != qps[i] {
			t.Fatalf("completion of another QP")
		}
	}
	clients[0].Abort()
	wantDone(t, qps[0].Conn())
	if srq.Posted() != 2 {
		t.Errorf("%d posted after one connection has gone, want 2", srq.Posted())
	}
	check(t, "Send", clients[1].Send(testContext(t), []byte("still here")))
	if c := collect(t, cq, 1)[0]; string(bufs[c.ID][:c.Length]) != "still here" {
		t.Errorf("completion %+v", c)
	}
}

func TestSRQMisuse(t *testing.T) {
	d := newDevice(t, nil)
	pd := must(d.NewPD())(t)
	for _, cfg := range []iwarp.SRQConfig{{Depth: -1}, {Depth: 1 << 30}, {MaxSGE: 1 << 20}, {Depth: 4, MaxShare: 5}} {
		if _, err := pd.NewSRQ(&cfg); !errors.Is(err, iwarp.ErrLimit) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	srq := must(pd.NewSRQ(&iwarp.SRQConfig{Depth: 2, MaxSGE: 1}))(t)
	var perr *iwarp.PostError
	if err := srq.PostRecv(iwarp.RecvWR{}, iwarp.RecvWR{SG: make([][]byte, 2)}); !errors.As(err, &perr) ||
		perr.Index != 1 || !errors.Is(err, iwarp.ErrInvalidWR) {
		t.Errorf("two elements: %v", err)
	}
	check(t, "PostRecv", srq.PostRecv(iwarp.RecvWR{}))
	if err := srq.PostRecv(iwarp.RecvWR{}); !errors.Is(err, iwarp.ErrRecvQueueFull) {
		t.Errorf("third of two: %v", err)
	}
	qp := must(pd.NewQP(&iwarp.QPConfig{SRQ: srq}))(t)
	if err := qp.PostRecv(iwarp.RecvWR{}); !errors.Is(err, iwarp.ErrInvalidWR) {
		t.Errorf("PostRecv on a QP with an SRQ: %v", err)
	}
	check(t, "QP.Close", qp.Close())
	check(t, "SRQ.Close", srq.Close())
	check(t, "SRQ.Close again", srq.Close())
	if _, err := pd.NewQP(&iwarp.QPConfig{SRQ: srq}); err == nil {
		t.Error("a QP with a closed SRQ")
	}
	check(t, "PD.Close", pd.Close())
	if use := d.Use(); use.Quota != (iwarp.Quota{}) {
		t.Errorf("left over: %+v", use)
	}
}

// A QP that is closed holds nothing, also if its program never polls what it had.
func TestSRQSharesOfClosedQP(t *testing.T) {
	srq, cq, clients, qps := srqServer(t, 1, nil)
	postSRQ(t, srq, 1, 32)
	srq.Arm(1)
	check(t, "Send", clients[0].Send(testContext(t), nil))
	select {
	case <-srq.Events():
	case <-testContext(t).Done():
		t.Fatal("the message has not come")
	}
	check(t, "QP.Close", qps[0].Close())
	if n := len(srq.Shares()); n != 0 {
		t.Errorf("shares of %d QPs, none is open", n)
	}
	if c := collect(t, cq, 1)[0]; c.QP != qps[0] || len(srq.Shares()) != 0 {
		t.Errorf("completion of QP %p, want %p; then shares of %d QPs", c.QP, qps[0], len(srq.Shares()))
	}
}

// An SRQ that has never had a receive has no buffer, for the first segment of a message
// either.
// Shows: DDP-7.1-02
func TestSRQWithoutReceives(t *testing.T) {
	for _, last := range []bool{false, true} {
		pd := must(newDevice(t, nil).NewPD())(t)
		srq := must(pd.NewSRQ(nil))(t)
		qp := must(pd.NewQP(&iwarp.QPConfig{SRQ: srq}))(t)
		_, p := serverOfPeer(t, &iwarp.Config{QP: qp})
		p.Send(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: last, MSN: 1}, pattern(100)))
		p.WantTerminate("no receive", uint16(protocol.DDPUntaggedNoBuffer))
	}
}

// Peers that begin messages and do not end them leave receives to others, without a
// bound for one connection too: what they have sent lies elsewhere, and takes a receive
// when it is whole.
// Shows: SEC-6.4.3.1-01, DDP-8.3.2-06
func TestSRQBegunMessages(t *testing.T) {
	const depth, peers = 16, 40
	d := newDevice(t, nil)
	pd := must(d.NewPD())(t)
	srq := must(pd.NewSRQ(&iwarp.SRQConfig{Depth: depth, MaxShare: 2}))(t)
	cq := must(d.NewCQ(1000))(t)
	defer cq.Close()
	bufs := postSRQ(t, srq, depth, 3000)
	server := func() (*iwarp.QP, *iwarptest.Peer) {
		qp := must(pd.NewQP(&iwarp.QPConfig{RecvCQ: cq, SRQ: srq}))(t)
		_, p := serverOfPeer(t, &iwarp.Config{QP: qp})
		return qp, p
	}
	text := pattern(3000)
	begin := func(p *iwarptest.Peer) {
		p.Send(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 1},
			text[:1000]))
	}
	var begun []*iwarptest.Peer
	var qps []*iwarp.QP
	for range peers {
		qp, p := server()
		begin(p)
		p.Send(iwarptest.Write(0, 0, nil))
		waitReceived(t, qp.Conn(), 1)
		begun, qps = append(begun, p), append(qps, qp)
	}
	if n := srq.Posted(); n != depth/2 {
		t.Errorf("%d receives are left, want %d", n, depth/2)
	}
	if d.Use().Held == 0 {
		t.Error("what has begun without a receive is not counted")
	}
	_, p := server()
	p.Send(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 8, MSN: 1}, []byte("imme")))
	p.WantTerminate("Immediate Data that has begun", uint16(protocol.DDPUntaggedNoBuffer))
	// Who sends whole messages, and who ends those that have begun, finds a receive.
	_, p = server()
	p.Send(iwarptest.Send(1, []byte("whole")))
	if c := collect(t, cq, 1)[0]; c.Err != nil || string(bufs[c.ID][:c.Length]) != "whole" {
		t.Errorf("completion %+v", c)
	}
	for i := peers - 1; i >= 0; i -= 8 { // with and without a receive
		begun[i].Send(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 1, MO: 1000}, text[1000:2900]),
			iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: 1, MO: 2900}, text[2900:]))
		c := collect(t, cq, 1)[0]
		if c.Err != nil || c.QP != qps[i] || !bytes.Equal(bufs[c.ID][:c.Length], text) {
			t.Errorf("peer %d: completion %+v", i, c)
		}
		check(t, "PostRecv", srq.PostRecv(iwarp.RecvWR{ID: c.ID, SG: [][]byte{bufs[c.ID]}}))
	}
	// One that is too long, and one that finds no receive.
	wantEnd := func(i int, code protocol.Code, segments ...[]byte) {
		t.Helper()
		begun[i].Send(segments...)
		begun[i].WantTerminate("its message cannot be taken", uint16(code))
	}
	wantEnd(38, protocol.DDPUntaggedTooLong,
		iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: 1, MO: 1000}, make([]byte, 2001)))
	for i := uint32(0); srq.Posted() > 0; i++ {
		qp, p := server()
		p.Send(iwarptest.Send(1, nil))
		if c := collect(t, cq, 1)[0]; c.QP != qp || c.Err != nil {
			t.Fatalf("completion %+v", c)
		}
	}
	wantEnd(37, protocol.DDPUntaggedNoBuffer,
		iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: 1, MO: 1000}, nil))
	for _, qp := range qps {
		check(t, "QP.Close", qp.Close())
	}
	if u := d.Use(); u.Held != 0 {
		t.Errorf("%d octets are held when all has ended", u.Held)
	}
}
