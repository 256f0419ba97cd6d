package mpa

import (
	"fmt"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// sockopt runs f on the socket of c.
func sockopt(t *testing.T, c *net.TCPConn, f func(fd int) error) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	cerr := raw.Control(func(fd uintptr) { err = f(int(fd)) })
	if cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
}

// segmentsOut is the number of TCP segments with data that c has sent so far.
func segmentsOut(t *testing.T, c *net.TCPConn) (n int) {
	t.Helper()
	sockopt(t, c, func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			n = int(info.Data_segs_out)
		}
		return err
	})
	return n
}

// TCP joins what is written while it cannot send, unless it is told where a record
// ends. A corked socket is the extreme of that: without an end of record between
// them, all these FPDUs would go out as one segment of loopback's 64 KiB.
//
// Shows: MPA-5.1-03
func TestEndOfRecordBetweenSegments(t *testing.T) {
	for _, c := range []struct {
		name    string
		align   Align
		flushes [][]float64 // the length of each ULPDU, of MULPDU: each has a segment of its own
	}{
		{name: "one flush", align: AlignStrict, flushes: [][]float64{{0.001, 0.001, 0.001, 0.001}}},
		{name: "four flushes", align: AlignStrict, flushes: [][]float64{{0.001}, {0.001}, {0.001}, {0.001}}},
		{name: "one flush", align: AlignSegments, flushes: [][]float64{{0.6, 0.6, 0.6, 0.6}}},
		{name: "four flushes", align: AlignSegments, flushes: [][]float64{{0.6}, {0.6}, {0.6}, {0.6}}},
		{name: "ends within flushes and of flushes", align: AlignSegments, flushes: [][]float64{{1, 0.1}, {0.1, 1}}},
	} {
		t.Run(fmt.Sprintf("Align %d, %s", c.align, c.name), func(t *testing.T) {
			a, b := tcpPair(t)
			x, y := fullOperation(a, b, false, true)
			x.SetAlign(c.align)
			before, fpdus := segmentsOut(t, a), 0
			sockopt(t, a, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, 1) })
			for _, sizes := range c.flushes {
				for _, part := range sizes {
					ulpdu := make([]byte, int(part*float64(x.MULPDU())))
					if err := x.Queue(nil, [][]byte{ulpdu}, false); err != nil {
						t.Fatal(err)
					}
					fpdus++
				}
				if _, err := x.Flush(true); err != nil {
					t.Fatal(err)
				}
			}
			sockopt(t, a, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, 0) })
			collect(t, y, fpdus)
			if n := segmentsOut(t, a) - before; n < fpdus {
				t.Errorf("%d FPDUs went out in %d TCP segments", fpdus, n)
			}
		})
	}
}
