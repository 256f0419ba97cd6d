package mpa

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp/internal/netpair"
)

// wire is what went over a network from one port: where in the stream TCP segments
// begin.
type wire struct {
	fd          int
	done, ended chan struct{}

	mu    sync.Mutex
	first uint32         // sequence number of the stream's first octet
	from  map[uint32]int // sequence number of each packet, with its octets; the first time that it was seen
}

// watch watches the packets that come in on a host for TCP connections from port.
func watch(t *testing.T, h *netpair.Host, port int) *wire {
	t.Helper()
	w := &wire{done: make(chan struct{}), ended: make(chan struct{}), from: map[uint32]int{}}
	err := h.Do(func() (err error) {
		const all = 0x0300 // ETH_P_ALL in network order, as read on little-endian machines
		w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, all)
		return err
	})
	if err != nil {
		t.Skip("cannot watch the network: ", err)
	}
	_ = unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 256<<20)
	_ = unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000})
	go w.run(port)
	return w
}

func (w *wire) run(port int) {
	defer close(w.ended)
	b := make([]byte, 256)
	for {
		n, from, err := unix.Recvfrom(w.fd, b, 0)
		select {
		case <-w.done:
			if err != nil { // all is read
				return
			}
		default:
		}
		if err != nil {
			continue
		}
		sa, ok := from.(*unix.SockaddrLinklayer)
		if !ok || sa.Pkttype == unix.PACKET_OUTGOING || n < 40 || b[0]>>4 != 4 || b[9] != unix.IPPROTO_TCP {
			continue
		}
		ip := int(b[0]&15) * 4
		tcp := b[ip:n]
		size := int(binary.BigEndian.Uint16(b[2:])) - ip - int(tcp[12]>>4)*4
		if int(binary.BigEndian.Uint16(tcp)) != port || size <= 0 {
			continue
		}
		seq := binary.BigEndian.Uint32(tcp[4:])
		w.mu.Lock()
		if _, ok := w.from[seq]; !ok {
			if len(w.from) == 0 || int32(seq-w.first) < 0 {
				w.first = seq
			}
			w.from[seq] = size
		}
		w.mu.Unlock()
	}
}

// segments returns the offsets in the stream where TCP segments of at most emss
// octets begin: packets that offloads have not cut yet are cut there later.
func (w *wire) segments(t *testing.T, emss int) (starts []int) {
	t.Helper()
	close(w.done)
	<-w.ended // all that came is read: the receiver has it, so that the tap has, too
	defer unix.Close(w.fd)
	stats, err := unix.GetsockoptTpacketStats(w.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil || stats.Drops > 0 {
		t.Skipf("the tap has lost packets: %+v, %v", stats, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for seq, size := range w.from {
		for at := 0; at < size; at += emss {
			starts = append(starts, int(seq-w.first)+at)
		}
	}
	slices.Sort(starts)
	return starts
}

// The counter of aligned FPDUs is a prediction. What is seen on a network is near it,
// where it is followed what TCP has sent, which AlignOff does without.
//
// Shows: MPA-5.1-03
func TestAlignedOnANetwork(t *testing.T) {
	for _, tt := range []struct {
		how             Align
		mtu             int
		message, count  int
		batch           int     // messages that go together
		lowest, highest float64 // share of FPDUs that are aligned
	}{
		{how: AlignAuto, mtu: 1500, message: 1 << 20, count: 16, batch: 2, lowest: 0.98, highest: 1},
		{how: AlignAuto, mtu: 1500, message: 64 << 10, count: 200, batch: 8, lowest: 0.98, highest: 1},
		{how: AlignAuto, mtu: 1500, message: 16 << 10, count: 500, batch: 16, lowest: 0.98, highest: 1},
		{how: AlignAuto, mtu: 1500, message: 1000, count: 5000, batch: 64, lowest: 0.2, highest: 0.5},
		{how: AlignAuto, mtu: 1500, message: 1000, count: 100, batch: 1, lowest: 1, highest: 1},
		{how: AlignAuto, mtu: 9000, message: 1 << 20, count: 16, batch: 2, lowest: 0.98, highest: 1},
		{how: AlignOff, mtu: 1500, message: 64 << 10, count: 200, batch: 8, lowest: 0, highest: 0.3},
		{how: AlignSegments, mtu: 1500, message: 1000, count: 5000, batch: 64, lowest: 1, highest: 1},
		{how: AlignSegments, mtu: 1500, message: 64 << 10, count: 200, batch: 8, lowest: 1, highest: 1},
		{how: AlignSegments, mtu: 1450, message: 64 << 10, count: 100, batch: 8, lowest: 1, highest: 1},
		{how: AlignStrict, mtu: 1500, message: 1000, count: 1000, batch: 64, lowest: 1, highest: 1},
	} {
		t.Run(fmt.Sprintf("align %d, MTU %d, messages of %d", tt.how, tt.mtu, tt.message), func(t *testing.T) {
			p := netpair.Need(t, &netpair.Config{MTU: tt.mtu})
			x, y, w := networkConns(t, p)
			x.SetAlign(tt.how)
			emss := x.Stats().EMSS
			var ends []int // of FPDUs in the stream
			at, got := 0, 0
			receive := func(until int) { // so that the peer's window is never what limits
				for got < until {
					err := y.Receive(func(_ uint64, seg []byte) error {
						got += len(seg) - 14
						at += FPDULen(len(seg))
						ends = append(ends, at)
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			data := make([]byte, tt.message)
			for i := range tt.count {
				for m, last := (&message{left: data}), false; !last; {
					var err error
					if last, err = x.QueueMessage(m, true); err != nil {
						t.Fatal(err)
					}
					pause := last && (i+1)%tt.batch == 0 || i+1 == tt.count
					if x.Full() || pause {
						if _, err := x.Flush(true); err != nil {
							t.Fatal(err)
						}
					}
					if last && pause {
						receive((i + 1) * tt.message)
					}
				}
			}
			starts := w.segments(t, emss)
			whole := wholeIn(starts, ends)
			s := x.Stats()
			share, predicted := float64(whole)/float64(len(ends)), float64(s.FPDUsAligned)/float64(s.FPDUsSent)
			t.Logf("EMSS %d, %d FPDUs, %d segments, %d sent again: aligned %.3f, predicted %.3f; %.2f system calls a "+
				"message",
				emss, len(ends), len(starts),
				s.Retransmits, share, predicted, float64(s.SystemCalls)/float64(tt.count))
			if s.FPDUsSent != uint64(len(ends)) {
				t.Errorf("%d FPDUs sent, %d received", s.FPDUsSent, len(ends))
			}
			if s.Retransmits > 0 {
				t.Skip("segments were sent again: the capture shows nothing")
			}
			if share < tt.lowest || share > tt.highest {
				t.Errorf("%.3f of the FPDUs are aligned, want %.2f to %.2f", share, tt.lowest, tt.highest)
			}
			if d := share - predicted; tt.how != AlignOff && (d < -0.05 || d > 0.05) {
				t.Errorf("%.3f of the FPDUs are aligned, but %.3f were predicted", share, predicted)
			}
		})
	}
}

// wholeIn counts the FPDUs, which end where ends says, that lie within one segment.
func wholeIn(starts, ends []int) (n int) {
	i, from := 0, 0
	for _, end := range ends {
		for i < len(starts) && starts[i] <= from {
			i++
		}
		if i == len(starts) || starts[i] >= end {
			n++
		}
		from = end
	}
	return n
}

// networkConns makes two ends of a connection between two hosts. What x sends is
// watched.
func networkConns(t *testing.T, p *netpair.Pair) (x, y *Conn, w *wire) {
	t.Helper()
	ln, err := p.B.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	raw, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20) })
	var a net.Conn
	err = p.A.Do(func() (err error) {
		a, err = net.Dial("tcp4", ln.Addr().String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(a.Close(), b.Close()) })
	port := a.LocalAddr().(*net.TCPAddr).Port
	w = watch(t, p.B, port)
	x, y = fullOperation(a, b, false, true)
	return x, y, w
}
