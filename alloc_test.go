package iwarp_test

import (
	"context"
	"testing"

	"github.com/go-iwarp/iwarp"
)

// allocs is what a steady state may allocate, both ends together.
func allocs(t *testing.T, what string, limit float64, f func()) {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for range 300 {
		f()
	}
	if n := testing.AllocsPerRun(500, f); n > limit {
		t.Errorf("%s: %.1f allocations, want at most %.1f", what, n, limit)
	}
}

// Posting and polling allocate nothing.
func TestAllocsVerbs(t *testing.T) {
	a, b := qpPair(t, nil, nil)
	mr := must(b.PD().NewMR(make([]byte, 4096), iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic, nil))(t)
	defer mr.Close()
	data := [][]byte{make([]byte, 1000)}
	var c [1]iwarp.Completion
	wait := func(q *iwarp.CQ) {
		if n, err := q.Wait(context.Background(), c[:]); n != 1 || err != nil || c[0].Err != nil {
			t.Fatal(n, err, c[0].Err)
		}
	}
	for _, wr := range []iwarp.SendWR{
		{Op: iwarp.OpWrite, SG: data, Remote: mr.Remote()},
		{Op: iwarp.OpWrite, SG: data, Remote: mr.Remote(), Inline: true},
		{Op: iwarp.OpRead, SG: data, Remote: mr.Remote()},
		{Op: iwarp.OpFetchAdd, Remote: mr.Remote()},
	} {
		list := []iwarp.SendWR{wr}
		allocs(t, wr.Op.String(), 0.1, func() {
			if err := a.PostSend(list...); err != nil {
				t.Fatal(err)
			}
			wait(a.SendCQ())
		})
	}
	sends := []iwarp.SendWR{{Op: iwarp.OpSend, SG: data}}
	recvs := []iwarp.RecvWR{{SG: [][]byte{make([]byte, 1000)}}}
	allocs(t, "Send and receive", 0.1, func() {
		if err := b.PostRecv(recvs...); err != nil {
			t.Fatal(err)
		}
		if err := a.PostSend(sends...); err != nil {
			t.Fatal(err)
		}
		wait(b.RecvCQ())
		wait(a.SendCQ())
	})
}

// So do the simple calls.
func TestAllocsSimple(t *testing.T) {
	a, b := tcpPair(t, nil, nil)
	mr := must(b.NewMR(make([]byte, 4096), iwarp.RemoteRead|iwarp.RemoteWrite))(t)
	defer mr.Close()
	ctx := context.Background()
	data, buf := make([]byte, 1000), make([]byte, 1000)
	allocs(t, "Write", 0.1, func() { check(t, "Write", a.RDMAWrite(ctx, data, mr.Remote())) })
	allocs(t, "Read", 0.1, func() { check(t, "Read", a.RDMARead(ctx, data, mr.Remote())) })
	allocs(t, "Send and Recv", 0.1, func() {
		check(t, "Send", a.Send(ctx, data))
		if _, err := b.Recv(ctx, buf); err != nil {
			t.Fatal(err)
		}
	})
}

// Nor does a segment that an LLP of somebody else's hands up.
func TestAllocsForeignLLP(t *testing.T) {
	a, b := foreignPair(t, nil, nil)
	mr := must(b.NewMR(make([]byte, 256<<10), iwarp.RemoteWrite))(t)
	defer mr.Close()
	data := make([]byte, 256<<10) // some hundred segments
	allocs(t, "Write", 0.5, func() {
		check(t, "Write", a.RDMAWrite(context.Background(), data, mr.Remote()))
		check(t, "Read", a.RDMARead(context.Background(), nil, iwarp.RemoteBuffer{})) // behind all of it
	})
}

func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{64, 4096, 1 << 20} {
		b.Run(sizeName(size), func(b *testing.B) {
			c, s := tcpPair(b, nil, nil)
			mr := must(s.NewMR(make([]byte, size), iwarp.RemoteWrite))(b)
			defer mr.Close()
			data := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				check(b, "Write", c.RDMAWrite(b.Context(), data, mr.Remote()))
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{64, 4096, 1 << 20} {
		b.Run(sizeName(size), func(b *testing.B) {
			c, s := tcpPair(b, nil, nil)
			mr := must(s.NewMR(make([]byte, size), iwarp.RemoteRead))(b)
			defer mr.Close()
			data := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				check(b, "Read", c.RDMARead(b.Context(), data, mr.Remote()))
			}
		})
	}
}

// BenchmarkPingPong is a round trip of two Sends.
func BenchmarkPingPong(b *testing.B) {
	c, s := tcpPair(b, nil, nil)
	go func() {
		buf := make([]byte, 64)
		for {
			m, err := s.Recv(context.Background(), buf)
			if err != nil || s.Send(context.Background(), buf[:m.Length]) != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		check(b, "Send", c.Send(b.Context(), buf))
		if _, err := c.Recv(b.Context(), buf); err != nil {
			b.Fatal(err)
		}
	}
}

func sizeName(n int) string {
	switch {
	case n >= 1<<20:
		return "1MiB"
	case n >= 1<<10:
		return "4KiB"
	}
	return "64B"
}
