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
	for _, align := range []Align{AlignStrict, AlignSegments} {
		for _, flushes := range []int{1, 4} {
			t.Run(fmt.Sprintf("Align %d, %d flushes", align, flushes), func(t *testing.T) {
				a, b := tcpPair(t)
				x, y := fullOperation(a, b, false, true)
				x.SetAlign(align)
				const fpdus = 4
				size := 50 // of a ULPDU
				if align == AlignSegments {
					size = x.MULPDU()/2 + 100 // no two fit one segment
				}
				before := segmentsOut(t, a)
				sockopt(t, a, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, 1) })
				for range flushes {
					for range fpdus / flushes {
						if err := x.Queue(nil, [][]byte{make([]byte, size)}, false); err != nil {
							t.Fatal(err)
						}
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
}
