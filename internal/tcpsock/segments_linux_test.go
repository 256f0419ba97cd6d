package tcpsock

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Which pieces share a header, and which headers end a segment.
//
// Shows: MPA-5.1-03
func TestHeadersOfSegments(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pieces []int
		cuts   []int
		start  int
		end    bool
		want   string // pieces of each header, with ! where a segment ends
	}{
		{name: "no cut", pieces: []int{1, 2, 3}, start: 0, want: "3"},
		{name: "the whole ends one", pieces: []int{1, 2, 3}, start: 0, end: true, want: "3!"},
		{name: "cuts", pieces: []int{1, 2, 3, 4}, cuts: []int{1, 3}, start: 0, want: "1! 2! 1"},
		{name: "a cut at the end", pieces: []int{1, 2}, cuts: []int{1, 2}, start: 0, end: true, want: "1! 1!"},
		{name: "some have gone", pieces: []int{1, 2}, cuts: []int{6, 7}, start: 5, want: "1! 1!"},
		{name: "empty pieces", pieces: []int{0, 0, 5, 0}, cuts: []int{1, 3}, start: 0, want: "1!"},
		{name: "nothing", start: 0, end: true, want: ""},
		{
			name: "more pieces than a call takes", pieces: slices.Repeat([]int{1}, maxIovec+5), start: 0, end: true,
			want: "1024",
		},
		{
			name: "as many, with a cut", pieces: slices.Repeat([]int{1}, maxIovec+5), cuts: []int{1000}, start: 0,
			end: true, want: "1000! 24",
		},
	} {
		var bufs [][]byte
		for _, n := range tt.pieces {
			bufs = append(bufs, make([]byte, n))
		}
		var m manyHeaders
		m.fill(bufs, tt.cuts, tt.start, tt.end)
		var got []byte
		for i := range m.count {
			if i > 0 {
				got = append(got, ' ')
			}
			got = fmt.Append(got, m.msgs[i].hdr.Iovlen)
			if m.msgs[i].hdr.Flags&unix.MSG_EOR != 0 {
				got = append(got, '!')
			}
		}
		if string(got) != tt.want {
			t.Errorf("%s: headers of %s, want %s", tt.name, got, tt.want)
		}
	}
}

// All octets arrive, in order, whatever each call takes; and many segments share one.
func TestSendSegments(t *testing.T) {
	a, b := pair(t)
	s := socket(t, a)
	var bufs [][]byte
	var cuts []int
	for i := range 2000 {
		if bufs = append(bufs, bytes.Repeat([]byte{byte(i)}, i%900+1)); i%3 == 0 {
			cuts = append(cuts, len(bufs))
		}
	}
	want := bytes.Join(bufs, nil)
	got := make(chan []byte)
	go func() {
		p := make([]byte, len(want))
		_, _ = io.ReadFull(b, p)
		got <- p
	}()
	gone := 0
	for start := 0; start < len(bufs); {
		n, err := s.SendSegments(bufs[start:], cuts, start, true, true)
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
		for gone += n; n > 0; {
			k := min(n, len(bufs[start]))
			bufs[start] = bufs[start][k:]
			if n -= k; len(bufs[start]) == 0 {
				start++
			}
		}
		for len(cuts) > 0 && cuts[0] <= start {
			cuts = cuts[1:]
		}
	}
	if !bytes.Equal(<-got, want) || gone != len(want) {
		t.Errorf("%d of %d octets went, or others came", gone, len(want))
	}
	if calls := s.SendCalls(); calls > 200 {
		t.Errorf("%d system calls for 667 segments", calls)
	}
	if n, err := s.SendSegments(nil, nil, 0, true, true); n != 0 || err != nil {
		t.Errorf("nothing: %d, %v", n, err)
	}
}

// Without wait a full socket takes nothing, which is no error.
func TestSendSegmentsToAFullSocket(t *testing.T) {
	a, _ := pair(t)
	s := socket(t, a)
	p := make([]byte, 1<<16)
	for {
		n, err := s.SendSegments([][]byte{p, p}, []int{1}, 0, false, false)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	if n, err := s.Unsent(); err != nil || n == 0 {
		t.Errorf("Unsent of a full socket: %d, %v", n, err)
	}
	a.Close()
	if _, err := s.SendSegments([][]byte{p, p}, []int{1}, 0, false, true); err == nil {
		t.Error("a closed socket takes octets")
	}
	if _, err := s.Unsent(); err == nil {
		t.Error("Unsent of a closed socket")
	}
}

// The bound is set where the MTU of the route asks for it: loopback's is a multiple of
// four.
func TestFourfoldSegments(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	called := false
	d := net.Dialer{Control: func(_, address string, c syscall.RawConn) error {
		called = true
		if err := FourfoldSegments(c, "no address"); err == nil {
			t.Error("no error for what is no address")
		}
		return FourfoldSegments(c, address)
	}}
	c, err := d.Dial("tcp", l.Addr().String())
	if err != nil || !called {
		t.Fatal(err, called)
	}
	defer c.Close()
	if mss, err := socket(t, c.(*net.TCPConn)).MSS(); err != nil || mss < 16<<10 {
		t.Errorf("MSS = %d, %v: loopback was bounded", mss, err)
	}
}
