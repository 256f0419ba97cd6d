package mpa

import (
	"encoding/binary"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// tapTCP watches loopback for TCP segments to a port. It needs CAP_NET_RAW.
type tapTCP int

func newTap(t *testing.T) tapTCP {
	const ipv4 = 0x0008 // ETH_P_IP in network order, as read on little-endian machines
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, ipv4)
	if err != nil {
		t.Skip("cannot watch the loopback interface: ", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return tapTCP(fd)
}

// segments returns sequence number and length of what was sent to port, in order.
func (tap tapTCP) segments(port int) (seqs []uint32, lens []int) {
	b := make([]byte, 1<<17)
	for {
		n, from, err := unix.Recvfrom(int(tap), b, 0)
		if err != nil {
			return seqs, lens
		}
		if sa, ok := from.(*unix.SockaddrLinklayer); !ok || sa.Pkttype == unix.PACKET_OUTGOING ||
			b[9] != unix.IPPROTO_TCP {
			continue // a packet on loopback is seen twice
		}
		ip := int(b[0]&15) * 4
		tcp := b[ip:n]
		if size := len(tcp) - int(tcp[12]>>4)*4; int(binary.BigEndian.Uint16(tcp[2:])) == port && size > 0 {
			seqs, lens = append(seqs, binary.BigEndian.Uint32(tcp[4:])), append(lens, size)
		}
	}
}

// Every TCP segment starts with an FPDU, also where messages have short tails.
// (What the kernel hands down in one piece is cut at every EMSS octets later.)
//
// Shows: MPA-5.1-03, MPA-5.1-04
func TestSegmentsStartWithFPDUs(t *testing.T) {
	tap := newTap(t)
	small := func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 1460) })
	}
	l, err := (&net.ListenConfig{Control: small}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	a, err := (&net.Dialer{Control: small}).DialContext(t.Context(), "tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()

	x, y := fullOperation(a, b, false, true)
	x.SetAlign(AlignSegments)
	emss, n := x.Stats().EMSS, x.MULPDU()
	starts := map[int]bool{}
	end, count := 0, 0
	for range 4 { // little enough for the first window
		for _, size := range []int{n, n, n, 300, 100, 100, n, 700, 900} {
			starts[end] = true
			if err := x.Queue(nil, [][]byte{make([]byte, size)}, false); err != nil {
				t.Fatal(err)
			}
			end += FPDULen(size)
			count++
		}
		if _, err := x.Flush(true); err != nil {
			t.Fatal(err)
		}
	}
	collect(t, y, count)
	seqs, lens := tap.segments(l.Addr().(*net.TCPAddr).Port)
	if len(seqs) == 0 {
		t.Skip("the tap has seen nothing")
	}
	for i, seq := range seqs {
		for at := 0; at < lens[i]; at += emss {
			if off := int(seq-seqs[0]) + at; !starts[off] {
				t.Errorf("a segment starts at stream offset %d, within an FPDU", off)
			}
		}
	}
}
