package mpa

import (
	"io"
	"net"
	"testing"
)

// Reads end where long FPDUs do, if these go on as they are; everything else gets
// all the room.
func TestRoom(t *testing.T) {
	const all, long = recvBufLen, 64776
	for _, c := range []struct {
		why              string
		size, have, need int
		want             int
	}{
		{why: "nothing known", size: 0, have: 0, need: 0, want: all},
		{why: "short FPDUs", size: 1448, have: 100, need: 1448, want: all - 100},
		{why: "long ones, at a boundary", size: long, have: 0, need: 0, want: 4 * long},
		{why: "within one", size: long, have: 1000, need: long, want: 4*long - 1000},
		{why: "within a shorter one", size: long, have: 1000, need: 20000, want: 19000 + 3*long},
		{why: "before its length", size: long, have: 1, need: 2, want: 4*long - 1},
		{why: "the rest does not fit", size: long, have: all - 10, need: long + all, want: 10},
		{why: "more is there than one has", size: long, have: long + 5, need: 2, want: all - long - 5},
	} {
		r := receiver{longest: c.size, need: c.need, inbuf: inbuf{mem: make([]byte, all), wr: c.have}}
		if got := len(r.target()); got != c.want {
			t.Errorf("%s: %d octets, want %d", c.why, got, c.want)
		}
	}
}

// greedy is a conn that always has as much as is asked for, and looks whether
// large reads end with an FPDU.
type greedy struct {
	net.Conn
	stream []byte
	every  int // octets of an FPDU
	read   int
	inside int // large reads that ended within an FPDU
}

func (*greedy) LocalAddr() net.Addr { return nil }

func (g *greedy) Read(p []byte) (int, error) {
	n := copy(p, g.stream[min(g.read, len(g.stream)):])
	if n == 0 {
		return 0, io.EOF
	}
	if g.read += n; n > smallRecvLen && g.read%g.every != 0 {
		g.inside++
	}
	return n, nil
}

func TestReadsEndWithLongFPDUs(t *testing.T) {
	const fpdus = 40
	f := framer{crc: true}
	var stream []byte
	for range fpdus {
		stream = f.append(stream, make([]byte, MaxULPDU))
	}
	g := &greedy{stream: stream, every: len(stream) / fpdus}
	c := NewConn(g, Params{CRC: true}, nil)
	got := 0
	for got < fpdus {
		if err := c.Receive(func(uint64, []byte) error { got++; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if g.inside > 4 { // memory for the first is got bit by bit
		t.Errorf("%d large reads ended within an FPDU", g.inside)
	}
}
