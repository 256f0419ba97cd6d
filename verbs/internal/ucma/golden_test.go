package ucma_test

import (
	"encoding/hex"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/verbs/internal/ring"
	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
	"github.com/go-iwarp/iwarp/verbs/internal/verbstest"
)

// golden reads the ULPDUs of testdata/immediate.txt.
func golden(t *testing.T) (all [][]byte) {
	t.Helper()
	text, err := os.ReadFile("testdata/immediate.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.ReplaceAll(strings.TrimSpace(line), " ", "")
		if line == "" || line[0] == '#' {
			continue
		}
		b, err := hex.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// Immediates on the wire are those of the golden exchange, and are understood from there.
func TestImmediateGolden(t *testing.T) {
	want := golden(t)
	d, m := newDevice(t)
	p := verbstest.New(t, d, m)
	q := p.NewQP()
	mem, at := p.Bytes(64)
	mr := p.Register(q, at, len(mem), access)

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := uint16(ln.Addr().(*net.TCPAddr).Port)
	id := p.NewID(1)
	p.Must(p.DoCM(uabi.CMResolveAddr, 0, -1, uabi.CMResolveAddrCmd{ID: id, DstSize: 16, Dst: verbstest.Loopback(port)}))
	p.NextEvent(uabi.EventAddrResolved)
	for i := range uint64(2) {
		q.PostRecv(100+i, verbstest.SGE{Addr: at, Len: 64, LKey: mr.LKey})
	}
	p.Must(p.DoCM(uabi.CMConnect, 0, -1, uabi.CMConnectCmd{ID: id, Param: uabi.ConnParam{QPN: q.QPN, Valid: 1}}))
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	peer := iwarptest.NewPeer(t, nc)
	request := peer.Respond(
		"the program connects",
		iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(0x8000, 0x8000, nil)),
	)
	if n := len(request); n != 20+4 {
		t.Errorf("the Request has %d octets, want 24: nothing is to be in the private data", n)
	}
	p.NextEvent(uabi.EventEstablished)
	peer.Frame("the Ready To Receive, a Write of nothing")
	copy(mem, "data")
	list := []verbstest.SGE{{Addr: at, Len: 4, LKey: mr.LKey}}
	imm := [4]byte{1, 2, 3, 4}
	p.PostSend(
		q,
		&verbstest.Send{
			ID:     1,
			Opcode: ring.OpWriteImm,
			Flags:  ring.FlagSignaled,
			Extra:  imm,
			Addr:   0x1000,
			RKey:   0x11223344,
			List:   list,
		},
	)
	p.PostSend(q, &verbstest.Send{ID: 2, Opcode: ring.OpSendImm, Flags: ring.FlagSignaled, Extra: imm, List: list})
	for i, w := range want {
		peer.WantFrame("golden frame "+string(rune('1'+i)), w)
	}
	for i, opcode := range []uint32{ring.WCWrite, ring.WCSend} {
		if c := q.CQ.Wait(t); c.ID != uint64(i+1) || c.Status != 0 || c.Opcode != opcode {
			t.Errorf("completion %+v, want ID %d", c, i+1)
		}
	}
	// The other way: the Write goes to the program's region.
	back := golden(t)
	back[0] = iwarptest.Write(mr.RKey, at+32, []byte("data"))
	peer.Send(back...)
	for i, w := range []ring.Completion{
		{ID: 100, Opcode: ring.WCRecvImm, Length: 4, Extra: imm, QPN: q.QPN, Flags: ring.WCWithImm},
		{ID: 101, Opcode: ring.WCRecv, Length: 4, Extra: imm, QPN: q.QPN, Flags: ring.WCWithImm},
	} {
		if c := q.CQ.Wait(t); c != w {
			t.Errorf("receive %d: %+v, want %+v", i, c, w)
		}
	}
	if string(mem[32:36]) != "data" {
		t.Errorf("the Write brought %q", mem[32:36])
	}
}
